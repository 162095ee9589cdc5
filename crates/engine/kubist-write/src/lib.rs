//! Writing: rows become runs, runs a commit, and rewrites take the next number.
//!
//! Once a commit returns it is durable, whole, and visible to every reader. Nothing here may
//! read rows back, or decide that something is to be rewritten.

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
mod runs;
pub mod seen;
pub mod spill;
pub mod unfinished;
pub mod writer;
