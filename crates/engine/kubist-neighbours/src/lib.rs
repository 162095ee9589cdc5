//! Neighbours of points and rows: the nearest rows, rows within a radius, pairs of rows, matches of two
//! tables, and groups of rows.
//!
//! Every search reads through [`kubist::Snapshot::query`]. Results are exact, and the memory depends on
//! [`SearchRequest::tile_rows`], not on the size of the table. The work is divided by space with a density from a
//! sample, so each region of the table is read about once.
//!
//! [`Searched`] is a table whose columns are positions. [`Points`] are positions in memory. [`Nearest`],
//! [`Within`], [`Pairs`], [`Clusters`] and [`CrossMatch`] are [`Results`]: they deliver batches.

#![deny(missing_docs)]

mod clusters;
mod columns;
mod counts;
mod crossmatch;
mod nearest;
mod pairs;
mod points;
mod results;
mod rows;
mod searched;
mod temporary;
mod tiled;
mod within;

pub use clusters::{Clusters, Linking};
pub use counts::{Counts, counts};
pub use crossmatch::CrossMatch;
pub use kubist_region::Length;
pub use nearest::Nearest;
pub use pairs::Pairs;
pub use points::Points;
pub use results::Results;
pub use searched::{SearchRequest, Searched};
pub use temporary::Temporary;
pub use within::Within;
