//! A query and the options of its execution.

use kubist_catalog::trace::Trace;
use kubist_index::cube::{GridBox, MAX_DIMENSIONS};
use kubist_index::priority::PriorityRange;
use kubist_types::{Cancel, QuerySpec};

/// A part of the grid and of the priorities; all bounds are included.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Part {
    #[serde(default, skip_serializing_if = "is_first")]
    pub grid: u32,
    pub low: [u32; MAX_DIMENSIONS],
    pub high: [u32; MAX_DIMENSIONS],
    pub priorities: (u64, u64),
    /// If set, only runs in these ranges of a cluster's token ring.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Vec<(i64, i64)>>,
}

fn is_first(grid: &u32) -> bool {
    *grid == 0
}

/// Only `part` changes the result.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Reads one of the parts from `Snapshot::splits`.
    pub part: Option<Part>,
    /// Limit of rows (`per_cell`) or values (`trajectories`) in memory. Queries that need more are refused,
    /// which protects servers from untrusted clients.
    pub most_held: Option<u64>,
    /// Bytes of rows that `order_by` sorts in memory, by default 128 MiB. Further rows go to a scratch file
    /// in the system's temporary folder.
    pub memory_bytes: Option<usize>,
    /// Limit of scratch files in bytes; queries that need more are refused.
    pub most_scratch: Option<u64>,
    /// Records the time of stages; see `Snapshot::explain`.
    pub trace: Option<Trace>,
    /// Set it from another thread to stop the query.
    pub cancel: Cancel,
}

impl RunOptions {
    pub fn with_cancel(cancel: &Cancel) -> RunOptions {
        RunOptions { cancel: cancel.clone(), ..RunOptions::default() }
    }

    pub fn of(self, spec: QuerySpec) -> Request {
        Request { spec, run: self }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Request {
    pub spec: QuerySpec,
    pub run: RunOptions,
}

impl From<QuerySpec> for Request {
    fn from(spec: QuerySpec) -> Request {
        RunOptions::default().of(spec)
    }
}

impl From<&QuerySpec> for Request {
    fn from(spec: &QuerySpec) -> Request {
        spec.clone().into()
    }
}

impl From<&Request> for Request {
    fn from(request: &Request) -> Request {
        request.clone()
    }
}

impl Part {
    pub fn grid_box(&self) -> GridBox {
        GridBox { low: self.low, high: self.high }
    }

    pub fn range(&self) -> PriorityRange {
        PriorityRange { first: self.priorities.0, last: self.priorities.1 }
    }
}
