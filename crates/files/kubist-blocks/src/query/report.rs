//! Options and costs of a query.

use serde::Serialize;

use crate::model::Expected;
use crate::schedule::{Balance, Policy};

/// The measured cost of a query, and the model's prediction for independent values.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    pub rows: u64,
    pub files: usize,
    pub files_read: usize,
    /// Number of files without an index.
    pub files_scanned: usize,
    pub positions: u64,
    pub blocks: u64,
    pub blocks_read: u64,
    pub blocks_all: u64,
    /// Number of blocks that were read only partly, from their sorted copy.
    pub blocks_sorted: u64,
    pub bytes: u64,
    pub requests: u64,
    pub sorted_bytes: u64,
    pub sorted_requests: u64,
    pub stored_bytes: u64,
    pub by_library: u64,
    pub selectivity: f64,
    pub expected: Option<Expected>,
    /// Byte ranges up to this distance were read together.
    pub gap: u64,
    pub workers: usize,
    pub balance: Balance,
    pub seconds: f64,
    /// Number of scanned blocks that an index would have excluded; `None` for samples, which do not examine whole
    /// blocks.
    pub blocks_spared: Option<u64>,
    pub damaged: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct RunOptions {
    pub workers: usize,
    pub policy: Policy,
    /// Byte ranges up to this distance form one request; `None` uses the measured device.
    pub gap: Option<u64>,
    pub use_sorted: bool,
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        RunOptions { workers: crate::build::workers(), policy: Policy::default(), gap: None, use_sorted: true }
    }
}
