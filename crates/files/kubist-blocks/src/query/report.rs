//! How a question is run, and what it cost.

use serde::Serialize;

use crate::model::Expected;
use crate::schedule::{Balance, Policy};

/// What a question cost, beside what the model expects of independent values.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    pub rows: u64,
    pub files: usize,
    /// Files of which a block was read.
    pub files_read: usize,
    /// Files without an index.
    pub files_scanned: usize,
    pub positions: u64,
    pub blocks: u64,
    /// Blocks whose values were read.
    pub blocks_read: u64,
    /// Blocks that hold nothing but answers.
    pub blocks_all: u64,
    /// Blocks of which only a part of their sorted copy was read.
    pub blocks_sorted: u64,
    pub bytes: u64,
    pub requests: u64,
    /// Read of the indices' sorted copies.
    pub sorted_bytes: u64,
    pub sorted_requests: u64,
    /// Bytes of the asked variables, as they are stored.
    pub stored_bytes: u64,
    pub by_library: u64,
    pub selectivity: f64,
    pub expected: Option<Expected>,
    /// Pieces up to so many bytes apart were read together.
    pub gap: u64,
    pub workers: usize,
    pub balance: Balance,
    pub seconds: f64,
    /// What of a scan an index would have spared: blocks that cannot hold an answer. `None` of a sample, which does not
    /// look at all of a block.
    pub blocks_spared: Option<u64>,
    pub damaged: Vec<String>,
}

/// How a question is run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    pub workers: usize,
    pub policy: Policy,
    /// Pieces up to so many bytes apart are one request; `None`: as the device was measured.
    pub gap: Option<u64>,
    pub use_sorted: bool,
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        RunOptions { workers: crate::build::workers(), policy: Policy::default(), gap: None, use_sorted: true }
    }
}
