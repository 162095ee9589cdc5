//! A snapshot: one state of the table, pinned, and all that can be asked of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use kubist_catalog::token::SnapshotToken;
use kubist_estimate::{Estimate, EstimateOptions, Estimation};
use kubist_maintain::column_use::ColumnsUse;
use kubist_maintain::copy::{self, Copied, CopyOptions};
use kubist_read::refine::Refine;
use kubist_read::request::Request;
use kubist_read::splits::{self, Split};
use kubist_read::stream::QueryStream;
use kubist_read::{count, trajectories};
use kubist_store::Store;
use kubist_types::{Cancel, ColumnInfo, Metadata, Result, Thinned};

use crate::explain::Plan;
use crate::info::{self, About, Info};
use crate::schemes::table_location;

/// Answers as of one moment, whatever is committed afterwards.
///
/// ```
/// # use std::sync::Arc;
/// # use arrow_array::{ArrayRef, Float64Array, RecordBatch};
/// # use kubist::store::MemoryStore;
/// # use kubist::{Cancel, Dimension, Domain, EstimateOptions, Query, Table, TableOptions, WriterOptions};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let x: ArrayRef = Arc::new(Float64Array::from_iter_values((0..10_000).map(|n| n as f64 / 1e4)));
/// # let rows = RecordBatch::try_from_iter([("x", x)])?;
/// # let dimensions = vec![Dimension { column: "x".into(), domain: Domain::Learned }];
/// # let options = TableOptions { dimensions, ..TableOptions::default() };
/// # let table = Table::create_in(Arc::new(MemoryStore::new("run")), rows.schema(), &options)?;
/// # let mut writer = table.writer(&WriterOptions::default())?;
/// # writer.append(&rows)?;
/// # writer.commit()?;
/// let snapshot = table.snapshot()?;
/// let query = Query::new().filter("x < 0.5");
///
/// // From coarse to fine: each record once, four times as many from step to step.
/// let mut rows = 0;
/// for step in snapshot.refine(&query, 0.01, 4.0)? {
///     for batch in step? {
///         rows += batch?.num_rows();
///     }
/// }
/// assert_eq!(rows, 5_000);
///
/// // Figures of a sample, with intervals that hold the exact value 95 times of 100.
/// let aggregates = vec!["mean(x)".into()];
/// let options = EstimateOptions { aggregates, query: query.clone(), error: Some(0.05), ..Default::default() };
/// let mean = &snapshot.estimate(&options)?.figures[0];
/// assert!(mean.low <= mean.high && mean.high - mean.low < 0.05);
///
/// // Parts for other processes: text that names the table, the snapshot and the records.
/// let mut rows = 0;
/// for split in snapshot.splits(&query, 3)? {
///     for batch in table.read_split(&split, &Cancel::default())? {
///         rows += batch?.num_rows();
///     }
/// }
/// assert_eq!(rows, 5_000);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Snapshot(pub(crate) kubist_catalog::snapshot::Snapshot);

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(out)
    }
}

impl Snapshot {
    /// What the layers below share of this snapshot, for their own tests.
    #[doc(hidden)]
    pub fn pinned(&self) -> &kubist_catalog::snapshot::Snapshot {
        &self.0
    }

    /// The columns, as answers have them.
    pub fn schema(&self) -> SchemaRef {
        self.0.view.schema.user.clone()
    }

    /// The same, with the metadata of each.
    pub fn columns(&self) -> Vec<ColumnInfo> {
        self.0.view.schema.describe()
    }

    /// Metadata of the table.
    pub fn metadata(&self) -> &Metadata {
        &self.0.view.schema.metadata
    }

    /// Names this snapshot, also to other processes; [`Table::at`](crate::Table::at) comes
    /// back to it.
    pub fn token(&self) -> SnapshotToken {
        self.0.token()
    }

    /// The same moment, up to a step: rows of later steps, and of steps that some
    /// declared writer has not finished, are not seen.
    ///
    /// # Errors
    ///
    /// `Invalid` if the step itself is not complete.
    pub fn at_step(&self, step: i64) -> Result<Snapshot> {
        Ok(Snapshot(self.0.at_step(step)?))
    }

    /// What is known of all records of each step that was thinned as it was written.
    pub fn thinned(&self) -> BTreeMap<i64, Thinned> {
        self.0.view.history.thinned()
    }

    /// Steps that every declared writer has committed or abandoned, ascending.
    pub fn complete_steps(&self) -> Vec<i64> {
        self.0.complete_steps()
    }

    /// How many rows were committed under a token, by any writer; `None` if none was.
    pub fn committed(&self, token: &str) -> Option<u64> {
        self.0.committed(token)
    }

    /// All records.
    ///
    /// # Errors
    ///
    /// As of [`Snapshot::count`].
    pub fn rows(&self) -> Result<u64> {
        count::rows(&self.0)
    }

    /// The records that match, as a stream of batches. A [`QuerySpec`](crate::QuerySpec) says
    /// which; a [`Request`] also how they are read.
    ///
    /// # Errors
    ///
    /// `Invalid` if the question makes no sense for this table, `SnapshotExpired` if its files
    /// were cleaned away, `Damaged` if what it must read is.
    pub fn query(&self, query: impl Into<Request>) -> Result<QueryStream> {
        QueryStream::of(&self.0, &query.into())
    }

    /// How many records the query would return; reads as little as it can.
    ///
    /// # Errors
    ///
    /// As of [`Snapshot::query`].
    pub fn count(&self, query: impl Into<Request>) -> Result<u64> {
        count::count(&self.0, query.into())
    }

    /// Streams from coarse to fine, each record once: first priorities in
    /// `[0, start)`, then `[start, start * factor)`, and so on up to 1 (or the
    /// query's own sample). `0 < start <= 1`, `factor > 1`.
    ///
    /// # Errors
    ///
    /// As of [`Snapshot::query`], and `Invalid` for other values of `start` and `factor`.
    pub fn refine(&self, query: impl Into<Request>, start: f64, factor: f64) -> Result<Refine> {
        Refine::new(self.0.clone(), query.into(), start, factor)
    }

    /// The records that `query` asks for, of those whose column `by` holds a value that it
    /// also holds in a record of `through`. Null belongs to nothing. Without an order of its own the
    /// answer is one path after the other, each in order of time: by the column `by`, by what else
    /// identifies a record, and by the first column of times, which its type or its name tells.
    ///
    /// # Errors
    ///
    /// As of [`Snapshot::query`].
    pub fn trajectories(
        &self,
        through: impl Into<Request>,
        by: &str,
        query: impl Into<Request>,
    ) -> Result<QueryStream> {
        trajectories::trajectories(&self.0, &through.into(), by, &query.into())
    }

    /// Cuts a query into `parts` disjoint ones of about equal rows: together they return
    /// exactly the records of the query, each once.
    ///
    /// # Errors
    ///
    /// `Invalid` with `limit` or `per_cell`, which choose among all records.
    pub fn splits(&self, query: impl Into<Request>, parts: usize) -> Result<Vec<Split>> {
        splits::splits(&self.0, &query.into(), parts)
    }

    /// Cuts a query into `parts` disjoint ones, each of which is read from one host of the
    /// cluster as far as that can be: together they return exactly the records of the query.
    /// They are stretches of the cluster's ring and not compact in space (thesis, listing
    /// 5.2). A table that is on no cluster is cut as [`Snapshot::splits`] does.
    ///
    /// # Errors
    ///
    /// As of [`Snapshot::splits`].
    pub fn splits_by_host(&self, query: impl Into<Request>, parts: usize) -> Result<Vec<Split>> {
        splits::splits_by_host(&self.0, &query.into(), parts)
    }

    /// The figures, once they are as good as was asked for.
    ///
    /// # Errors
    ///
    /// `Invalid` for aggregates or goals that make no sense, else as of [`Snapshot::query`].
    pub fn estimate(&self, options: &EstimateOptions) -> Result<Estimate> {
        kubist_estimate::estimate(&self.0, options)
    }

    /// The same; `tell` is called with coarser figures on the way. They must not decide when to stop: for
    /// that there is [`Snapshot::estimates`].
    ///
    /// # Errors
    ///
    /// As of [`Snapshot::estimate`].
    pub fn estimate_telling(&self, options: &EstimateOptions, tell: &mut dyn FnMut(&Estimate)) -> Result<Estimate> {
        kubist_estimate::estimate_telling(&self.0, options, tell)
    }

    /// The figures while they narrow, each record read once. Intervals are wider than those
    /// of [`Snapshot::estimate`], so that all of them hold together, whenever it is stopped.
    ///
    /// # Errors
    ///
    /// As of [`Snapshot::estimate`].
    pub fn estimates(&self, options: &EstimateOptions) -> Result<Estimation> {
        kubist_estimate::estimates(&self.0, options)
    }

    /// Plans a query and reads no row: the plan can be printed, and then run to say where the
    /// time went.
    ///
    /// # Errors
    ///
    /// As of [`Snapshot::query`].
    pub fn plan(&self, query: impl Into<Request>) -> Result<Plan> {
        Plan::new(&self.0, query.into())
    }

    /// What each stored column takes, how it is encoded, and how fast one core decodes it: of all
    /// runs, or of some from all over the table if there are many.
    ///
    /// # Errors
    ///
    /// `Cancelled`; `Damaged`; `SnapshotExpired`; a storage error.
    pub fn columns_use(&self, cancel: &Cancel) -> Result<ColumnsUse> {
        ColumnsUse::of(self.pinned(), cancel)
    }

    /// What the table is and what was committed to it; it takes no longer of a large table.
    ///
    /// # Errors
    ///
    /// A storage error.
    pub fn about(&self) -> Result<About> {
        info::about(&self.0)
    }

    /// What the table is and holds, and how it is laid out: goes through the list of its runs and its files.
    ///
    /// # Errors
    ///
    /// A storage error.
    pub fn info(&self) -> Result<Info> {
        self.info_with(&Cancel::default())
    }

    /// The same, until the switch is set.
    ///
    /// # Errors
    ///
    /// `Cancelled`, or as of [`Snapshot::info`].
    pub fn info_with(&self, cancel: &Cancel) -> Result<Info> {
        info::of(&self.0, cancel)
    }

    /// Copies all rows into a new table at a location, where nothing may be; calls
    /// `progress(rows done, all rows)` as it goes on.
    ///
    /// # Errors
    ///
    /// `Exists` if something is there, `Invalid` options, `Cancelled`; then nothing of the copy
    /// is left.
    pub fn copy_to(&self, location: &str, options: &CopyOptions, progress: &mut dyn FnMut(u64, u64)) -> Result<Copied> {
        copy::copy_to(&self.0, &table_location(location)?, options, progress)
    }

    /// The same in an empty store, of whatever kind.
    ///
    /// # Errors
    ///
    /// As of [`Snapshot::copy_to`].
    pub fn copy_in(
        &self,
        store: Arc<dyn Store>,
        options: &CopyOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Copied> {
        copy::copy_in(&self.0, store, options, progress)
    }
}
