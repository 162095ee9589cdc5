//! The catalogue of a table: its header and columns, the logs followed to a view, snapshots, checkpoints, the
//! directory of runs, and caches of its files.
//!
//! A view never changes. A snapshot holds one view, and its token names it to other processes.

pub mod accuracy;
pub mod alter;
pub mod cache;
pub mod chains;
pub mod checkpoint;
pub mod core;
pub mod create;
pub mod decoded;
pub mod directory;
pub mod error;
pub mod fetch;
mod fields;
pub mod files;
pub mod follow;
pub mod frame;
pub mod given;
pub mod hold;
pub mod known;
pub mod location;
pub mod look;
pub mod lookups;
pub mod period;
pub mod places;
pub mod read_amplification;
pub mod sampling;
pub mod schema;
pub mod segment;
pub mod settle;
pub mod snapshot;
pub mod stop;
pub mod tail;
pub mod token;
pub mod trace;
pub mod view;
pub mod vouched;
pub mod weights;
pub mod write_checkpoint;
pub mod zone_maps;
