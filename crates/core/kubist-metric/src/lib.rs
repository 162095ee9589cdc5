//! Distances between points in memory, without I/O and tables.
//!
//! A [`Space`] has a distance: Euclidean, periodic along some axes, or the angle on a sphere. A [`Tree`] finds
//! the points near a position. [`groups`] and [`Tiling`] divide work on more rows than fit into memory.

mod groups;
mod reach;
mod space;
mod tiling;
mod tree;
mod union;

pub use groups::{Density, Group, Limits, groups};
pub use reach::Reach;
pub use space::{MOST_AXES, Space};
pub use tiling::{Tile, Tiling};
pub use tree::{Near, Tree};
pub use union::Sets;
