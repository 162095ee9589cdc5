//! Properties of the types over random histories of three to five sites.

mod algebra;
mod delivery;
mod histories;
mod meaning;
