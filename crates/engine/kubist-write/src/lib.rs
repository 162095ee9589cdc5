//! Writing: rows become runs, runs become a commit, and rewrites take the next number.
//!
//! A commit that has returned is durable, complete, and visible to every reader.

pub mod bucket;
pub mod build;
mod claim;
mod grid;
mod incoming;
pub mod keys;
mod names;
pub mod output;
mod planes;
pub mod postings;
pub mod publish;
pub mod remaining;
mod runs;
pub mod spill;
pub mod unfinished;
pub mod writer;
