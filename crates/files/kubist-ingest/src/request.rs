//! The options of the user.

use std::time::Duration;

use arrow_schema::{DataType, Schema};
use kubist::{Compression, Dimension, Metadata, Replication, Strata, Value, WriterOptions};
use kubist_types::options::Sampling;

use crate::error::Result;

/// What to ingest, and how.
pub struct Request {
    /// The location of the table.
    pub location: String,
    /// The location in messages, without a password.
    pub table: String,
    /// The files in messages.
    pub files: Vec<String>,
    pub new: NewTable,
    pub columns: Option<Vec<String>>,
    pub types: Vec<(String, DataType)>,
    /// The time of files without one.
    pub time: Option<f64>,
    /// Whether the user named a topology.
    pub has_topology: bool,
    /// Refuse a file if a part of it would be left out.
    pub strict: bool,
    /// Skip rows without a position.
    pub skips_bad_rows: bool,
    /// Ingest again the steps that the table has.
    pub again: bool,
    /// Continue with the next file if one fails.
    pub keep_going: bool,
    /// Commit after so many rows, besides the end of each step.
    pub commit_rows: Option<u64>,
    /// Wait for more files and steps: for ever, or until nothing came for a time.
    pub follow: Option<Option<Duration>>,
    pub writer: WriterOptions,
}

type Dimensions = dyn Fn(&Schema) -> Result<Vec<Dimension>> + Send + Sync;

/// The properties of a new table. An existing table must have the given ones.
pub struct NewTable {
    /// The names of the dimensions; empty: as the files say.
    pub dimensions: Vec<String>,
    /// The same with their domains, in the types of the columns.
    pub domains: Box<Dimensions>,
    /// `None`: as the files say.
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
    /// The columns of longitude and latitude.
    pub sphere: Option<[String; 2]>,
    /// `None`: those that the files have.
    pub period: Option<Vec<(String, Value)>>,
    pub metadata: Metadata,
    pub shared: bool,
}

impl Request {
    /// Whether the user gave the unit of a column, regardless of the files.
    pub(crate) fn states_unit(&self, column: &str) -> bool {
        self.new.units.iter().any(|(name, _)| name == column)
    }
}
