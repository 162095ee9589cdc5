//! What is asked: box, condition, precision and what chooses among the records.

use kubist_catalog::trace::Trace;
use kubist_index::cube::{GridBox, MAX_DIMENSIONS};
use kubist_index::priority::PriorityRange;
use kubist_types::{Cancel, Value};

/// One closed range of a box: `low <= column <= high`, compared in the
/// column's own type. A missing end is open; NaN and null are never inside a
/// range that has an end.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    pub column: String,
    pub low: Option<Value>,
    pub high: Option<Value>,
}

/// The `rows` lowest priorities in every cell of a regular grid.
#[derive(Clone, Debug, PartialEq)]
pub struct PerCell {
    pub rows: u64,
    /// Dimension and cell width, in the column's unit; anchored to the lower
    /// end of the dimension's domain, never to the box.
    pub widths: Vec<(String, f64)>,
}

/// A box of the table's grid and a range of priorities, all ends included.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Part {
    pub low: [u32; MAX_DIMENSIONS],
    pub high: [u32; MAX_DIMENSIONS],
    pub priorities: (u64, u64),
    /// Only runs that lie in these stretches of a cluster's ring.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Vec<(i64, i64)>>,
}

/// A question to a snapshot. The default asks for everything.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Closed ranges, joined by AND; on columns that are no dimension too.
    pub bounds: Vec<Bound>,
    /// In (0, 1]: only records whose priority is below it.
    pub precision: Option<f64>,
    /// Only records with `lo <= priority < hi`, `0 <= lo < hi <= 1`.
    pub window: Option<(f64, f64)>,
    /// Only the so many lowest priorities of what is left, in ascending order.
    pub limit: Option<u64>,
    /// Applied before `limit`.
    pub per_cell: Option<PerCell>,
    /// The columns to return, in this order; `None`: all.
    pub columns: Option<Vec<String>>,
    /// An SQL boolean expression over the columns.
    pub filter: Option<String>,
    /// Only rows of complete steps in this closed range; a missing end is open.
    pub steps: Option<(Option<i64>, Option<i64>)>,
    /// The name of one more column: the probability with which each record came into the
    /// answer, whatever the others drew. Null where a limit kept only some of several
    /// records of one priority: these have no part in an estimate.
    pub inclusion: Option<String>,
    /// Only one of the parts that `Snapshot::splits` made.
    pub part: Option<Part>,
    /// What would have to hold more records of `per_cell`, or values of `trajectories`, in
    /// memory is refused: for who answers strangers.
    pub most_held: Option<u64>,
    /// Notes where its time goes; see `Snapshot::explain`.
    pub trace: Option<Trace>,
    /// Set it from another thread to stop the query soon.
    pub cancel: Cancel,
}

impl Part {
    pub fn grid_box(&self) -> GridBox {
        GridBox { low: self.low, high: self.high }
    }

    pub fn range(&self) -> PriorityRange {
        PriorityRange { first: self.priorities.0, last: self.priorities.1 }
    }
}
