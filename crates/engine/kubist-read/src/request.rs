//! What is asked, and how the asking is run.

use kubist_catalog::trace::Trace;
use kubist_index::cube::{GridBox, MAX_DIMENSIONS};
use kubist_index::priority::PriorityRange;
use kubist_types::{Cancel, QuerySpec};

/// A box of one of the table's grids and a range of priorities, all ends included.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Part {
    /// The number of the grid.
    #[serde(default, skip_serializing_if = "is_first")]
    pub grid: u32,
    pub low: [u32; MAX_DIMENSIONS],
    pub high: [u32; MAX_DIMENSIONS],
    pub priorities: (u64, u64),
    /// Only runs that lie in these stretches of a cluster's ring.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Vec<(i64, i64)>>,
}

fn is_first(grid: &u32) -> bool {
    *grid == 0
}

/// How a query is run: nothing here changes what it means, but `part`, which is one piece
/// of it.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Only one of the parts that `Snapshot::splits` made.
    pub part: Option<Part>,
    /// What would have to hold more records of `per_cell`, or values of `trajectories`, in
    /// memory is refused: for who answers strangers.
    pub most_held: Option<u64>,
    /// Bytes of rows that `order_by` holds while it sorts them, 128 MiB by default. What is more
    /// goes to a scratch file in the system's folder for temporary files.
    pub memory_bytes: Option<usize>,
    /// What would need more bytes than this in scratch files is refused.
    pub most_scratch: Option<u64>,
    /// Notes where its time goes; see `Snapshot::explain`.
    pub trace: Option<Trace>,
    /// Set it from another thread to stop the query soon.
    pub cancel: Cancel,
}

impl RunOptions {
    /// The default, but for a switch that stops it.
    pub fn with_cancel(cancel: &Cancel) -> RunOptions {
        RunOptions { cancel: cancel.clone(), ..RunOptions::default() }
    }

    /// A query that is run so.
    pub fn of(self, spec: QuerySpec) -> Request {
        Request { spec, run: self }
    }
}

/// A query and how it is run. A query alone is run by the defaults.
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
