//! The options of the user.

use std::time::Duration;

use arrow_schema::{DataType, Schema};
use kubist::{Compression, Dimension, Metadata, Replication, Strata, Value, WriterOptions};
use kubist_types::options::Sampling;

use crate::error::Result;

pub struct Request {
    pub location: String,
    /// The location without a password, for messages.
    pub table: String,
    /// The files as messages name them.
    pub files: Vec<String>,
    pub new: NewTable,
    pub columns: Option<Vec<String>>,
    pub types: Vec<(String, DataType)>,
    /// The time for files that have no time.
    pub time: Option<f64>,
    pub has_topology: bool,
    /// Refuse a file instead of leaving out parts.
    pub strict: bool,
    /// Skip rows without a position.
    pub skips_bad_rows: bool,
    /// Also ingest steps that the table has.
    pub again: bool,
    /// Continue after a file fails.
    pub keep_going: bool,
    /// Commit after this many rows, and at the end of a step.
    pub commit_rows: Option<u64>,
    /// Wait for more files and steps: for ever, or until nothing was added for this time.
    pub follow: Option<Option<Duration>>,
    pub writer: WriterOptions,
}

type Dimensions = dyn Fn(&Schema) -> Result<Vec<Dimension>> + Send + Sync;

/// The properties of a new table, which an existing table must have.
pub struct NewTable {
    /// The names; empty if the files determine them.
    pub dimensions: Vec<String>,
    /// The dimensions with domains, in the types of the columns.
    pub domains: Box<Dimensions>,
    /// `None` if the files determine it.
    pub identity: Option<Vec<String>>,
    pub lookup: Vec<String>,
    pub capacity: Option<u32>,
    pub seed: Option<u64>,
    pub replication: Option<Replication>,
    pub compression: Option<Compression>,
    pub strata: Option<Strata>,
    pub sampling: Option<Sampling>,
    pub accuracy: Vec<(String, Value)>,
    pub units: Vec<(String, String)>,
    pub sphere: Option<[String; 2]>,
    /// `None` if the files determine it.
    pub period: Option<Vec<(String, Value)>>,
    pub metadata: Metadata,
    pub shared: bool,
}

impl Request {
    pub(crate) fn states_unit(&self, column: &str) -> bool {
        self.new.units.iter().any(|(name, _)| name == column)
    }
}
