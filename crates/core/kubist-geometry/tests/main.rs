//! Decisions of shapes against the definitions, over random cases.

mod planes;
mod skies;
