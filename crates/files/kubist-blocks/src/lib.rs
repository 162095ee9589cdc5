//! A value index beside files of arrays: HDF5, netCDF, Parquet and `.npy`, which stay as they are.
//!
//! Of each block of an array the index keeps between which values it lies ([`summary`]). A question in the
//! language of conditions (kubist-expr) reads the blocks that can hold an answer ([`query`]): neighbours together
//! where that is quicker ([`model`]), shared among threads by an adaptive schedule ([`schedule`]), a few blocks from
//! a sorted copy ([`sorted`]). A file's bytes are read and decoded here ([`fetch`], [`decode`]); where they
//! lie comes from its header ([`netcdf3`], [`parquet`]) or, for HDF5, from its own library in a process beside
//! this one ([`library`]).
//!
//! Neither files nor indices are trusted: [`layout::Layout::check`] and [`sidecar::open`].
//!
//! This crate knows nothing of tables.

mod build;
mod decode;
mod ends;
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
