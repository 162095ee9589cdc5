//! A value index next to array files (HDF5, netCDF, Parquet and `.npy`), which stay unchanged.
//!
//! For each block of an array, the index stores the bounds of its values ([`summary`]). A query with a
//! condition (kubist-expr) reads only the blocks that can contain results ([`query`]). Neighbouring blocks
//! are read together if that is faster ([`model`]), an adaptive schedule distributes the work over threads
//! ([`schedule`]), and a few blocks are read from a sorted copy ([`sorted`]). This crate reads and decodes
//! the bytes ([`fetch`], [`decode`]). The file's header gives their location ([`netcdf3`], [`parquet`]);
//! for HDF5, its own library does so in a separate process ([`library`]).
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
pub use grid::Question;
pub use layout::Block;
pub use library::Library;
pub use model::{Advice, Device, Expected, advise, expected};
pub use query::{Hit, Positions, Report, RunOptions};
pub use schedule::{Balance, Policy};
pub use sidecar::path_of;
pub use source::is_array_file;
