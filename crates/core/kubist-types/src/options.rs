//! Options of tables, writers and commits.

pub use kubist_expr::Value;
pub use kubist_index::accuracy::Accuracy;
pub use kubist_index::outlook::Replication;

use crate::cancel::Cancel;
use crate::compression::Compression;
use crate::metadata::Metadata;

/// An indexed column and the expected range of its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Dimension {
    pub column: String,
    pub domain: Domain,
}

impl Dimension {
    /// A dimension whose domain is learned from the first commit.
    pub fn learned(column: impl Into<String>) -> Dimension {
        Dimension { column: column.into(), domain: Domain::Learned }
    }
}

/// The expected range of a dimension. It only shapes the grid: values outside are stored and found too.
#[derive(Clone, Debug, PartialEq)]
pub enum Domain {
    /// Linear between the minimum and maximum of the first commit, widened.
    Learned,
    /// Linear between the given values (text for dates and times).
    Linear(Value, Value),
    /// Piecewise linear through quantiles of the first commit, for skewed columns.
    Quantile,
}

/// Options of a new table.
#[derive(Clone, Debug, Default)]
pub struct TableOptions {
    /// 1 to 8 indexed columns.
    pub dimensions: Vec<Dimension>,
    /// The columns whose values determine a record's priority. If empty, priorities come from the writer's
    /// name and a row counter, so each record is sampled on its own.
    pub identity: Vec<String>,
    /// Columns with a secondary index. A condition `column = value` or `column IN (...)`, joined by AND, then
    /// reads only the zones that contain a value.
    pub lookup: Vec<String>,
    /// Target number of records in a cube; `None`: the default.
    pub capacity: Option<u32>,
    /// Seed of the priorities. Two tables with the same seed and identity sample the same records.
    pub seed: u64,
    /// The records that the optimizer copies into deeper cubes, so that small boxes read less.
    pub replication: Replication,
    /// Compression level of numbers. An existing table keeps its own.
    pub compression: Compression,
    /// Error bounds of stored values: column and bound. A number is absolute, in the column's unit. Text may
    /// have another unit (`1um`) or be relative to each value (`1e-4 rel`). Lossy values take fewer bytes,
    /// and all queries return them. Columns of the identity, columns with a secondary index and columns that
    /// are no numbers cannot have a bound.
    pub accuracy: Vec<(String, Value)>,
    /// Units of columns, such as `m/s`: column and unit. They are stored in the Arrow metadata of the column
    /// under `unit`. A unit that is already in the metadata also counts.
    pub units: Vec<(String, String)>,
    /// The table's metadata, such as the run, the code and the geometry.
    pub metadata: Metadata,
    /// Open an existing table if it agrees with these options. Columns that were added to it may be missing
    /// here, and its metadata stays.
    pub exist_ok: bool,
    /// Several machines write to the table's directory, and file locks may hold on one machine only.
    /// Directories on network file systems are always treated as shared.
    pub shared: bool,
}

/// Options of a writer.
#[derive(Clone, Debug, Default)]
pub struct WriterOptions {
    /// The writer's name; `None`: the first free name of `writer-1`, `writer-2`, …
    pub name: Option<String>,
    /// Approximate bytes of rows in memory before a commit spills to scratch files; `None`: 1 GiB.
    pub memory_bytes: Option<usize>,
    /// Optimize the layout after commits on a thread of this process, with part of one core. It ends with the
    /// writer.
    pub optimize: bool,
    /// Set it from another thread to stop `append` or `commit` soon.
    pub cancel: Cancel,
}

/// Properties of a commit in addition to its rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommitOptions {
    /// The simulation step of these rows. It increases with each commit.
    pub step: Option<i64>,
    /// A token that identifies the commit within its writer. A second commit with the same token does nothing
    /// and returns the result of the first, also after a restart.
    pub token: Option<String>,
}
