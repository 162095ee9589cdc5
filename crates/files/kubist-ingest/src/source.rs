//! The interfaces between the driver of an ingestion, the files, and the program that runs it.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use kubist::{Domain, Metadata, Snapshot};
use kubist_files::Input;

use crate::error::{Error, Result};
use crate::report::Parts;

/// The facts of an opened file, folder or series of files.
#[derive(Clone, Debug)]
pub struct Facts {
    pub path: PathBuf,
    pub format: String,
    /// The fields' metadata `unit` has the unit.
    pub schema: SchemaRef,
    /// Suggestions for a new table.
    pub dimensions: Vec<String>,
    pub identity: Vec<String>,
    pub lookup: Vec<String>,
    pub domains: Vec<(String, Domain)>,
    pub capacity: Option<u32>,
    /// The periods of the columns of positions.
    pub period: BTreeMap<String, f64>,
    pub metadata: Metadata,
    pub rows: Option<u64>,
    /// The file's bytes; 0 if its reader does not count them.
    pub bytes: u64,
    pub times: Vec<f64>,
    /// True if the rows are in the order of a dimension. They are then written as runs while the next rows are read.
    pub in_order: bool,
    /// True if the file's frames are numbered after the frames of the table.
    pub numbers_frames: bool,
    /// True if the file changes the table's metadata; see [`Source::joins`].
    pub joins: bool,
    pub notes: Vec<String>,
}

impl Facts {
    pub fn new(path: &Path, format: &str) -> Facts {
        Facts {
            path: path.to_path_buf(),
            format: format.to_owned(),
            schema: Arc::new(Schema::empty()),
            dimensions: Vec::new(),
            identity: Vec::new(),
            lookup: Vec::new(),
            domains: Vec::new(),
            capacity: None,
            period: BTreeMap::new(),
            metadata: Metadata::new(),
            rows: None,
            bytes: 0,
            times: Vec::new(),
            in_order: false,
            numbers_frames: false,
            joins: false,
            notes: Vec::new(),
        }
    }
}

/// The rows of one commit: a file, or one of its time steps.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// Identifies the step within its file.
    pub label: String,
    /// The time in the file's unit.
    pub time: Option<f64>,
    /// Distinguishes files with the same time, for example by the rank that wrote them.
    pub part: String,
    /// The solver's step, for queries with `steps`.
    pub number: Option<i64>,
}

/// The state that all steps of one ingestion share.
#[derive(Clone, Debug)]
pub struct State {
    pub next_frame: i64,
    pub schema: SchemaRef,
    /// The columns that were added to the table. A file that lacks one gets its default.
    pub added: Vec<String>,
    /// Dimensions and identity, which each file must have.
    pub needed: Vec<String>,
}

/// The steps of a file that the table has.
#[derive(Clone)]
pub struct IngestedSteps {
    key: String,
    /// `None` if there is no table, or if all steps are ingested again.
    snapshot: Option<Snapshot>,
    own: Arc<Mutex<HashMap<String, u64>>>,
}

impl IngestedSteps {
    pub(crate) fn new(key: String, snapshot: Option<Snapshot>) -> IngestedSteps {
        IngestedSteps { key, snapshot, own: Arc::default() }
    }

    pub(crate) fn token(&self, label: &str) -> Option<String> {
        self.snapshot.as_ref().map(|_| format!("{}/{label}", self.key))
    }

    pub(crate) fn add(&self, label: &str, rows: u64) {
        self.own.lock().unwrap_or_else(PoisonError::into_inner).insert(label.to_owned(), rows);
    }

    /// The number of rows that any writer committed under a label.
    pub fn rows(&self, label: &str) -> Option<u64> {
        let snapshot = self.snapshot.as_ref()?;
        let own = self.own.lock().unwrap_or_else(PoisonError::into_inner).get(label).copied();
        own.or_else(|| snapshot.committed(&format!("{}/{label}", self.key)))
    }

    /// The number of first rows of a step that an interrupted ingestion committed.
    pub(crate) fn begun(&self, label: &str) -> u64 {
        let mut rows = 0;
        while let Some(more) = self.rows(&part(label, rows)).filter(|more| *more > 0) {
            rows += more;
        }
        rows
    }
}

/// The label of a partial commit, which contains the number of its first row.
pub(crate) fn part(label: &str, first: u64) -> String {
    format!("{label} from {first}")
}

/// An opened file, which returns its steps in order of time, and the rows of a step in batches.
pub trait Source: Send {
    fn facts(&self) -> &Facts;

    /// The beginning of the tokens of its commits. It identifies the name and contents, or the location of a file that
    /// may grow.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    fn key(&self) -> Result<String>;

    /// The names of the left-out parts that are known so far, with the reasons.
    ///
    /// # Errors
    ///
    /// The source failed.
    fn left_out(&mut self) -> Result<Parts>;

    /// Reports another left-out part.
    ///
    /// # Errors
    ///
    /// The source failed.
    fn leave_out(&mut self, name: &str, why: &str) -> Result<()>;

    /// The changes of a table's metadata by this file. Null removes a key.
    ///
    /// # Errors
    ///
    /// The numbers in the file and in the table have different meanings.
    fn joins(&mut self, metadata: &Metadata) -> Result<Metadata>;

    /// Starts with the first step.
    ///
    /// # Errors
    ///
    /// The source failed.
    fn start(&mut self, known: &IngestedSteps) -> Result<()>;

    /// The next step.
    ///
    /// # Errors
    ///
    /// The file is damaged.
    fn next_step(&mut self) -> Result<Option<Step>>;

    /// Starts with the first rows of the current step.
    ///
    /// # Errors
    ///
    /// The columns do not fit the table.
    fn begin(&mut self, state: &State) -> Result<()>;

    /// The next rows of the current step. They may have columns that the table lacks.
    ///
    /// # Errors
    ///
    /// The file is damaged.
    fn next_rows(&mut self, state: &mut State) -> Result<Option<RecordBatch>>;

    /// The reader, if the crate `kubist-files` reads the file.
    fn input(&self) -> Option<&Input> {
        None
    }

    fn bytes_read(&self) -> u64 {
        0
    }
}

/// An opened file, or the reason why it cannot be read.
pub enum Opened {
    Source(Box<dyn Source>),
    Failed(PathBuf, Error),
}

pub struct Progress<'a> {
    pub rows: u64,
    pub path: &'a Path,
    pub label: &'a str,
    pub is_committing: bool,
    pub fraction: Option<f64>,
    /// The number of read bytes and of all bytes, if they are counted.
    pub bytes: Option<(u64, u64)>,
}

/// The program that runs an ingestion.
pub trait Host: Send {
    /// Opens the files that exist now. Stops at the first failure unless `keep_going`. With `takes_parts`, a truncated
    /// file returns its complete frames.
    ///
    /// # Errors
    ///
    /// An error that concerns no file, such as a missing library.
    fn look(&mut self, keep_going: bool, takes_parts: bool) -> Result<Vec<Opened>>;

    /// Shows the progress.
    ///
    /// # Errors
    ///
    /// The host wants to stop.
    fn progress(&mut self, at: &Progress<'_>) -> Result<()>;
}
