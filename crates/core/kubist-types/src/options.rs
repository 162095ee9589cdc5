//! How a table is made, a writer works and a commit is marked.

pub use kubist_expr::Value;
pub use kubist_index::accuracy::Accuracy;
pub use kubist_index::outlook::Replication;

use crate::cancel::Cancel;
use crate::compression::Compression;
use crate::metadata::Metadata;

/// An indexed column and the part of its type that the data is expected in.
#[derive(Clone, Debug, PartialEq)]
pub struct Dimension {
    pub column: String,
    pub domain: Domain,
}

impl Dimension {
    /// A dimension whose domain is learned.
    pub fn learned(column: impl Into<String>) -> Dimension {
        Dimension { column: column.into(), domain: Domain::Learned }
    }
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
    /// How hard numbers are pressed: what is quickest written, smallest on disk, or between both.
    /// A table that is already here keeps its own.
    pub compression: Compression,
    /// How far stored values may be from those that are given: a column and its bound. A number is
    /// absolute, in the column's unit; text may have another unit (`1um`), or be a relative bound
    /// (`1e-4 rel`: of each value). Stored values, which are what is found by all questions, take fewer
    /// bytes then. Columns of the identity, columns for lookups and what is no number cannot have one.
    pub accuracy: Vec<(String, Value)>,
    /// Units of columns, as `m/s`: a column and its unit. They stand in the columns'
    /// Arrow metadata, under `unit`; one that is there already counts too.
    pub units: Vec<(String, String)>,
    /// The table's metadata: the run, the code, the geometry.
    pub metadata: Metadata,
    /// Open a table that is already here if it agrees, instead of refusing. Columns that
    /// were added to it since may be missing here, and its metadata stays.
    pub exist_ok: bool,
    /// Several machines write to the table's directory, where locks may hold on one of them only.
    /// A directory on a file system that others may have mounted too is shared in any case.
    pub shared: bool,
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
