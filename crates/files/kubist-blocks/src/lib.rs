//! A value index next to array files (HDF5, netCDF, Parquet and `.npy`), which stay unchanged.
//!
//! The index stores the bounds of the values of each block of an array ([`summary`]), so a query with a
//! condition (kubist-expr) reads only the blocks that can contain results ([`query`]). Neighbouring blocks
//! are read together if that is faster ([`model`]), an adaptive schedule distributes the work over threads
//! ([`schedule`]), and a few blocks are read from a sorted copy ([`sorted`]). The file's header locates the
//! bytes ([`netcdf3`], [`parquet`]), or for HDF5 its own library in a separate process ([`library`]); this
//! crate reads and decodes them ([`fetch`], [`decode`]).
//!
//! Neither files nor indexes are trusted; see [`layout::Layout::check`] and [`sidecar::open`].

mod bounds;
mod build;
mod decode;
mod fetch;
mod files;
#[doc(hidden)]
pub mod fuzz;
mod grid;
mod layout;
mod library;
mod model;
mod netcdf3;
mod npy;
mod pages;
mod parquet;
mod query;
mod reading;
mod schedule;
mod shape;
mod sidecar;
mod sorted;
mod source;
mod spread;
mod summary;

pub use build::{BuildOptions, Progress, workers};
pub use files::{Built, Files, index};
pub use grid::FileQuery;
pub use layout::Block;
pub use library::Library;
pub use model::{Advice, Device, Expected, advise, expected};
pub use query::{Hit, Positions, Report, RunOptions};
pub use schedule::{Balance, Policy};
pub use sidecar::path_of;
pub use source::is_array_file;
