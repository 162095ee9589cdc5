//! Options of tables, writers and commits.

pub use kubist_expr::Value;
pub use kubist_index::accuracy::Accuracy;
pub use kubist_index::outlook::Replication;
pub use kubist_index::strata::Strata;

use crate::cancel::Cancel;
use crate::compression::Compression;
use crate::error::{Error, Result};
use crate::metadata::Metadata;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq)]
pub struct Dimension {
    pub column: String,
    pub domain: Domain,
}

impl Dimension {
    pub fn learned(column: impl Into<String>) -> Dimension {
        Dimension { column: column.into(), domain: Domain::Learned }
    }
}

/// The expected range of a dimension, which only shapes the grid: values outside are stored and found too.
#[derive(Clone, Debug, PartialEq)]
pub enum Domain {
    /// Linear between the minimum and maximum of the first commit, widened.
    Learned,
    /// Linear between these values (text for dates and times).
    Linear(Value, Value),
    /// Piecewise linear through quantiles of the first commit, for skewed columns.
    Quantile,
}

/// The relative probability of rows to be in a sample, fixed at creation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sampling {
    #[default]
    Uniform,
    /// In proportion to an expression, such as `diameter`.
    Weight(String),
    /// Rows with a rare combination of values in these columns are more likely than others.
    Strata {
        columns: Vec<String>,
        /// The expected rows of each combination in a sample of 1 % are at least this many, or all.
        #[serde(default, skip_serializing_if = "is_zero")]
        least: u32,
    },
}

fn is_zero(least: &u32) -> bool {
    *least == 0
}

impl Sampling {
    pub fn is_uniform(&self) -> bool {
        *self == Sampling::Uniform
    }
}

/// A weight, the columns of strata, and the least rows of each stratum.
impl TryFrom<(Option<String>, Vec<String>, Option<u32>)> for Sampling {
    type Error = Error;

    fn try_from((weight, columns, least): (Option<String>, Vec<String>, Option<u32>)) -> Result<Sampling> {
        match (weight, columns.is_empty(), least) {
            (_, true, Some(_)) => Err(Error::invalid("least: it counts rows of strata, so name the columns of strata")),
            (None, true, None) => Ok(Sampling::Uniform),
            (None, false, least) => Ok(Sampling::Strata { columns, least: least.unwrap_or(0) }),
            (Some(weight), true, None) => Ok(Sampling::Weight(weight)),
            (Some(_), false, _) => Err(Error::invalid("a table samples by a weight or by strata, not by both")),
        }
    }
}

impl std::fmt::Display for Sampling {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Sampling::Uniform => write!(out, "uniform"),
            Sampling::Weight(expression) => write!(out, "by weight {expression}"),
            Sampling::Strata { columns, least: 0 } => write!(out, "by strata of {}", columns.join(", ")),
            Sampling::Strata { columns, least } => {
                write!(out, "by strata of {}, at least {least} rows of each in 1 %", columns.join(", "))
            }
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct TableOptions {
    /// The 1 to 8 columns to index.
    pub dimensions: Vec<Dimension>,
    /// The columns that determine a record's priority. If empty, priorities come from the writer's name and a
    /// row counter, so each record is sampled on its own.
    pub identity: Vec<String>,
    /// Columns with a secondary index: `column = value` and `column IN (...)` then read only zones with such a value.
    pub lookup: Vec<String>,
    /// Target number of records in a cube; by default 2,048, and 65,536 with strata of windows.
    pub capacity: Option<u32>,
    /// The seed of priorities. Tables with the same seed and identity sample the same records.
    pub seed: u64,
    /// The records that the optimizer copies into deeper cubes, so that small boxes read less.
    pub replication: Replication,
    /// The compression of runs. An existing table keeps its own.
    pub compression: Compression,
    /// Where the strata of runs end. `Windows` is for loaders of random batches. An existing table keeps its own.
    pub strata: Strata,
    pub sampling: Sampling,
    /// Error bounds by column. Stored values are rounded within the bound and take fewer bytes, and all queries return
    /// the rounded values. A number is absolute, in the column's unit; text may have another unit (`1um`) or be
    /// relative to each value (`1e-4 rel`). Columns of the identity, with a secondary index or without numbers have no
    /// bound.
    pub accuracy: Vec<(String, Value)>,
    /// Units of columns, such as `m/s`, stored in the Arrow metadata under `unit`; the schema may also have them there.
    pub units: Vec<(String, String)>,
    /// Periods of columns: a length in the column's unit, text with another unit (`25 kpc`), or the interval of
    /// the values (`-12.5:12.5`) if it does not begin at 0. Boxes, regions and distances of queries wrap around.
    pub period: Vec<(String, Value)>,
    /// The columns of longitude (or right ascension) and latitude on a sphere, the default of regions of the sky.
    /// The period of the longitude is a full turn, from 0 unless `period` has an interval.
    pub sphere: Option<[String; 2]>,
    /// Metadata of the table, such as the run, the code and the geometry.
    pub metadata: Metadata,
    /// Opens an existing table if it agrees with these options. It may have more columns, and keeps its
    /// metadata.
    pub exist_ok: bool,
    /// Several machines write to the table's directory, where file locks may be valid on one machine only; network file
    /// systems always count as shared.
    pub shared: bool,
}

#[derive(Clone, Debug, Default)]
pub struct WriterOptions {
    /// The name; `None` takes the first free one among `writer-1`, `writer-2`, …
    pub name: Option<String>,
    /// Approximate bytes of rows in memory before a commit spills to scratch files; 1 GiB by default.
    pub memory_bytes: Option<usize>,
    /// Optimizes the layout after commits, on a thread that uses part of a core and ends with the writer.
    pub optimize: bool,
    /// Stops `append` and `commit` from another thread.
    pub cancel: Cancel,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommitOptions {
    /// The simulation step of these rows; it increases with each commit.
    pub step: Option<i64>,
    /// Identifies the commit within its writer. A second commit with the same token does nothing and returns the first
    /// result, also after a restart.
    pub token: Option<String>,
}
