//! The options of the user.

use std::time::Duration;

use arrow_schema::{DataType, Schema};
use kubist::{Compression, Dimension, Metadata, Replication, Strata, Value, WriterOptions};
use kubist_types::options::Sampling;

use crate::error::Result;

pub struct Request {
    pub location: String,
    /// Without a password, for messages.
    pub table: String,
    /// For messages.
    pub files: Vec<String>,
    pub new: NewTable,
    pub columns: Option<Vec<String>>,
    pub types: Vec<(String, DataType)>,
    /// Of files without a time.
    pub time: Option<f64>,
    /// The user named one.
    pub has_topology: bool,
    /// Refuse files instead of leaving out parts.
    pub strict: bool,
    /// Rows without a position.
    pub skips_bad_rows: bool,
    /// Also ingest known steps.
    pub again: bool,
    /// After a file fails.
    pub keep_going: bool,
    /// In addition to the end of each step.
    pub commit_rows: Option<u64>,
    /// For more files and steps: for ever, or until nothing came for this time.
    pub follow: Option<Option<Duration>>,
    pub writer: WriterOptions,
}

type Dimensions = dyn Fn(&Schema) -> Result<Vec<Dimension>> + Send + Sync;

/// An existing table must have the given properties.
pub struct NewTable {
    /// Empty: from the files.
    pub dimensions: Vec<String>,
    /// With domains, in the types of the columns.
    pub domains: Box<Dimensions>,
    /// `None`: from the files.
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
    /// Columns of longitude and latitude.
    pub sphere: Option<[String; 2]>,
    /// `None`: from the files.
    pub period: Option<Vec<(String, Value)>>,
    pub metadata: Metadata,
    pub shared: bool,
}

impl Request {
    pub(crate) fn states_unit(&self, column: &str) -> bool {
        self.new.units.iter().any(|(name, _)| name == column)
    }
}
