//! What a caller says: how a table is made, what a query asks, when to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use kubist_expr::Value;
use kubist_index::cube::MAX_DIMENSIONS;
pub use kubist_index::outlook::Replication;

use crate::alter::Metadata;
use crate::error::{Error, Result};
use crate::fetch::Cost;
use crate::trace::Trace;

/// An indexed column and the part of its type that the data is expected in.
#[derive(Clone, Debug, PartialEq)]
pub struct Dimension {
    pub column: String,
    pub domain: Domain,
}

/// Where the values of a dimension lie. Values outside are kept and found all
/// the same; a domain only shapes the grid.
#[derive(Clone, Debug, PartialEq)]
pub enum Domain {
    /// Linear between the extremes of the first commit, widened.
    Learned,
    /// Linear between the given ends (text for dates and times).
    Linear(Value, Value),
    /// Piecewise linear through quantiles of the first commit: for skewed columns.
    Quantile,
}

/// How a table is created.
#[derive(Clone, Debug, Default)]
pub struct TableOptions {
    /// 1 to 8 indexed columns.
    pub dimensions: Vec<Dimension>,
    /// The columns whose values decide a record's priority; empty: each record
    /// is its own unit (the writer's name and a row counter stand in).
    pub identity: Vec<String>,
    /// Columns by whose values records are found without a scan: an equality or a list
    /// of values of one of them, joined by AND, then reads only the zones that hold such.
    pub lookup: Vec<String>,
    /// How many records a cube wants to keep; `None`: the default.
    pub capacity: Option<u32>,
    /// Decides which records a sample holds; two tables with the same seed and
    /// identity sample the same records.
    pub seed: u64,
    /// Which records the optimizer copies into deeper cubes, so that small boxes read less.
    pub replication: Replication,
    /// Units of columns, as `m/s`: a column and its unit. They stand in the columns'
    /// Arrow metadata, under `unit`; one that is there already counts too.
    pub units: Vec<(String, String)>,
    /// What else is to be said about the table: the run, the code, the geometry.
    pub metadata: Metadata,
    /// Open a table that is already here if it agrees, instead of refusing. Columns that
    /// were added to it since may be missing here, and what is said about it stays.
    pub exist_ok: bool,
}

/// How a writer works.
#[derive(Clone, Debug, Default)]
pub struct WriterOptions {
    /// The writer's name; `None`: the first free one of `writer-1`, `writer-2`, …
    pub name: Option<String>,
    /// About how many bytes of rows are held in memory before a commit spills
    /// to scratch files; `None`: 1 GiB.
    pub memory_bytes: Option<usize>,
    /// Restore the layout on a thread of its own after commits, with a part of one
    /// core; it ends with the writer.
    pub optimize: bool,
    /// Set it from another thread to stop `append` or `commit` soon.
    pub cancel: Cancel,
}

/// What a commit is besides its rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommitOptions {
    /// The step of the simulation that these rows are; goes up with each commit.
    pub step: Option<i64>,
    /// Names the commit, within its writer: a second commit with the same token,
    /// also from a restarted process, does nothing and answers as the first.
    pub token: Option<String>,
}

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
    pub(crate) low: [u32; MAX_DIMENSIONS],
    pub(crate) high: [u32; MAX_DIMENSIONS],
    pub(crate) priorities: (u64, u64),
    /// Only runs that lie in these stretches of a cluster's ring.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tokens: Option<Vec<(i64, i64)>>,
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

/// A switch that stops a long call from another thread. Calls look at it at least after
/// each few hundredths of a second of work.
#[derive(Clone, Default)]
pub struct Cancel(Arc<Switch>);

#[derive(Default)]
struct Switch {
    set: AtomicBool,
    /// One that stops this one's calls too.
    outer: Option<Cancel>,
    asks: Option<Box<dyn Fn() -> bool + Send + Sync>>,
}

impl Cancel {
    /// A switch that is also set once `asks` says true, and says so from then on. It is asked
    /// at each point where a call can stop, on any of its threads, so it should be quick.
    pub fn asking(asks: impl Fn() -> bool + Send + Sync + 'static) -> Cancel {
        Cancel(Arc::new(Switch { asks: Some(Box::new(asks)), ..Switch::default() }))
    }

    pub fn set(&self) {
        self.0.set.store(true, Ordering::Relaxed);
    }

    pub fn is_set(&self) -> bool {
        let Switch { set, outer, asks } = &*self.0;
        set.load(Ordering::Relaxed)
            || outer.as_ref().is_some_and(Cancel::is_set)
            || asks.as_ref().is_some_and(|asks| asks())
    }

    /// `Err(Cancelled)` once it is set.
    pub fn check(&self) -> Result<()> {
        if self.is_set() { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// A switch of its own that this one also sets.
    pub(crate) fn linked(&self) -> Cancel {
        Cancel(Arc::new(Switch { outer: Some(self.clone()), ..Switch::default() }))
    }
}

impl std::fmt::Debug for Cancel {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_tuple("Cancel").field(&self.0.set).finish()
    }
}

/// What a query cost. Counts grow while its batches are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Stats {
    pub rows_returned: u64,
    /// Every row of every zone that was decoded in at least one column.
    pub rows_read: u64,
    pub bytes_read: u64,
    pub pages_read: u64,
    pub cubes_visited: u64,
    /// Runs of which a lookup said which zones hold the values asked for, if any do; the
    /// others were read by their zone maps.
    pub runs_looked_up: u64,
    /// How often the store was asked for bytes, each time for all that was known to be
    /// needed of one file; tasks ask side by side.
    pub round_trips: u64,
    /// Since the query began, until its last batch (or now).
    pub seconds: f64,
}

impl Stats {
    /// Adds what reading cost.
    pub(crate) fn spend(&mut self, cost: Cost) {
        self.bytes_read += cost.bytes;
        self.round_trips += cost.round_trips;
    }

    /// Adds the counts of a part; time and rows returned are the caller's.
    pub(crate) fn add(&mut self, part: &Stats) {
        self.rows_read += part.rows_read;
        self.bytes_read += part.bytes_read;
        self.pages_read += part.pages_read;
        self.cubes_visited += part.cubes_visited;
        self.runs_looked_up += part.runs_looked_up;
        self.round_trips += part.round_trips;
    }
}
