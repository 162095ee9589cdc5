//! A snapshot of a table and its queries.

use std::collections::BTreeMap;
use std::time::Duration;

use arrow_schema::SchemaRef;
use kubist_catalog::hold;
use kubist_catalog::token::SnapshotToken;
use kubist_estimate::{Estimate, EstimateOptions, Estimation};
use kubist_maintain::column_use::ColumnsUse;
use kubist_maintain::copy::{self, Copied, CopyOptions};
use kubist_read::held;
use kubist_read::refine::Refine;
use kubist_read::request::Request;
use kubist_read::splits::{self, Split};
use kubist_read::stream::QueryStream;
use kubist_read::{count, trajectories};
use kubist_store::StoreExt;
use kubist_types::{Cancel, ColumnInfo, Metadata, QuerySpec, Result, Thinned};

use crate::advice;
use crate::explain::Plan;
use crate::info::{self, About, Info};
use crate::location::Location;
use crate::partial::{chosen_columns, queries};
use crate::recording::record;

/// An immutable view of a table: later commits do not change its results.
///
/// ```
/// # use std::sync::Arc;
/// # use arrow_array::{ArrayRef, Float64Array, RecordBatch};
/// # use kubist::store::MemoryStore;
/// # use kubist::{Dimension, Domain, EstimateOptions, Query, Table, TableOptions, WriterOptions};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let x: ArrayRef = Arc::new(Float64Array::from_iter_values((0..10_000).map(|n| n as f64 / 1e4)));
/// # let rows = RecordBatch::try_from_iter([("x", x)])?;
/// # let dimensions = vec![Dimension { column: "x".into(), domain: Domain::Learned }];
/// # let options = TableOptions { dimensions, ..TableOptions::default() };
/// # let table = Table::create(Arc::new(MemoryStore::new("run")), rows.schema(), &options)?;
/// # let mut writer = table.writer(&WriterOptions::default())?;
/// # writer.append(&rows)?;
/// # writer.commit()?;
/// let snapshot = table.snapshot()?;
/// let query = Query::new().filter("x < 0.5");
///
/// // From coarse to fine: each step has new rows, and makes the sample four times as large.
/// let mut rows = 0;
/// for step in snapshot.refine(&query, 0.01, 4.0)? {
///     for batch in step? {
///         rows += batch?.num_rows();
///     }
/// }
/// assert_eq!(rows, 5_000);
///
/// // Estimates from a sample: 95 of 100 intervals contain the exact value.
/// let aggregates = vec!["mean(x)".into()];
/// let options = EstimateOptions { aggregates, query: query.clone(), error: Some(0.05), ..Default::default() };
/// let mean = &snapshot.estimate(&options, &mut |_| {})?.figures[0];
/// assert!(mean.low <= mean.high && mean.high - mean.low < 0.05);
///
/// // Splits for other processes: each is a text with the table, the snapshot and the rows.
/// let mut rows = 0;
/// for split in snapshot.splits(&query, 3)? {
///     for batch in table.read_split(&split)? {
///         rows += batch?.num_rows();
///     }
/// }
/// assert_eq!(rows, 5_000);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Snapshot {
    pub(crate) pinned: kubist_catalog::snapshot::Snapshot,
    pub(crate) cancel: Cancel,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.pinned.fmt(out)
    }
}

impl Snapshot {
    /// The snapshot of lower layers, for their tests.
    #[doc(hidden)]
    pub fn pinned(&self) -> &kubist_catalog::snapshot::Snapshot {
        &self.pinned
    }

    /// The same snapshot, whose calls end with `Cancelled` after `cancel` is set, unless they get another [`Cancel`].
    pub fn cancelled_by(&self, cancel: &Cancel) -> Snapshot {
        Snapshot { pinned: self.pinned.clone(), cancel: cancel.clone() }
    }

    /// The columns of results.
    pub fn schema(&self) -> SchemaRef {
        self.pinned.view.schema.user.clone()
    }

    /// The columns with their metadata.
    pub fn columns(&self) -> Vec<ColumnInfo> {
        self.pinned.view.schema.describe()
    }

    /// The metadata of the table.
    pub fn metadata(&self) -> &Metadata {
        &self.pinned.view.schema.metadata
    }

    /// A token for this snapshot, with which [`Table::at`](crate::Table::at) reopens it, in other processes too.
    pub fn token(&self) -> SnapshotToken {
        self.pinned.token()
    }

    /// This snapshot up to a step, without later steps and without steps that a declared writer has not finished.
    ///
    /// # Errors
    ///
    /// `Invalid` if the step itself is incomplete.
    pub fn at_step(&self, step: i64) -> Result<Snapshot> {
        Ok(Snapshot { pinned: self.pinned.at_step(step)?, cancel: self.cancel.clone() })
    }

    /// Protects the files of all snapshots since `since` (milliseconds since 1970) from cleaning for
    /// `time`, also after this process has ended. Returns a name for [`Snapshot::release`]. Hold before
    /// taking the snapshot, to leave no gap.
    ///
    /// # Errors
    ///
    /// `Invalid` for more than 31 days; a storage error, such as `Permission` in a read-only table.
    pub fn hold(&self, since: u64, time: Duration) -> Result<String> {
        hold::put(&self.pinned.core, since, time)
    }

    /// Ends a hold early.
    ///
    /// # Errors
    ///
    /// `Invalid` if this is not the name of a hold; a storage error.
    pub fn release(&self, hold: &str) -> Result<()> {
        hold::release(&self.pinned.core, hold)
    }

    /// For each subsampled step, the statistics of all its rows.
    pub fn thinned(&self) -> BTreeMap<i64, Thinned> {
        self.pinned.view.history.thinned()
    }

    /// The steps that every declared writer has committed or abandoned, in ascending order.
    pub fn complete_steps(&self) -> Vec<i64> {
        self.pinned.complete_steps()
    }

    /// The number of rows that a commit with this token wrote, by any writer; `None` without such a commit.
    pub fn committed(&self, token: &str) -> Option<u64> {
        self.pinned.committed(token)
    }

    /// The number of rows.
    ///
    /// # Errors
    ///
    /// The errors of [`Snapshot::count`].
    pub fn rows(&self) -> Result<u64> {
        count::rows(&self.pinned)
    }

    /// Returns the matching rows as a stream of batches. A [`QuerySpec`](crate::QuerySpec) selects the
    /// rows, and a [`Request`] adds how to read them.
    ///
    /// # Errors
    ///
    /// `Invalid` if the query does not fit this table, `SnapshotExpired` if its files were cleaned,
    /// `Damaged` if needed data is damaged.
    pub fn query(&self, query: impl Into<Request>) -> Result<QueryStream> {
        let request = query.into();
        self.record("query", &request.spec);
        QueryStream::of(&self.pinned, &request)
    }

    /// Counts the matching rows, and reads only pages that the manifest cannot count.
    ///
    /// # Errors
    ///
    /// The errors of [`Snapshot::query`].
    pub fn count(&self, query: impl Into<Request>) -> Result<u64> {
        let request = query.into();
        self.record("count", &request.spec);
        count::count(&self.pinned, request)
    }

    /// Streams the rows of the query from coarse to fine, each row once. The first stream has priorities in
    /// `[0, start)`, the next in `[start, start * factor)`, and so on up to 1 (or the query's own sample).
    /// Requires `0 < start <= 1` and `factor > 1`.
    ///
    /// # Errors
    ///
    /// The errors of [`Snapshot::query`], and `Invalid` for other values of `start` and `factor`.
    pub fn refine(&self, query: impl Into<Request>, start: f64, factor: f64) -> Result<Refine> {
        Refine::new(self.pinned.clone(), query.into(), start, factor)
    }

    /// Returns the rows of `query` whose value in the column `by` also occurs in `through`. Null matches
    /// nothing. By default the paths follow one another, each sorted by time: by the column `by`, the other
    /// identity columns, and the first time column (recognized by type or name).
    ///
    /// # Errors
    ///
    /// The errors of [`Snapshot::query`].
    pub fn trajectories(
        &self,
        through: impl Into<Request>,
        by: &str,
        query: impl Into<Request>,
    ) -> Result<QueryStream> {
        trajectories::trajectories(&self.pinned, &through.into(), by, &query.into())
    }

    /// The largest sample fraction of the query that this table answers without its source: 1 unless it is a
    /// partial copy. Without columns, the columns that the copy was made for count.
    ///
    /// # Errors
    ///
    /// The errors of [`Snapshot::query`].
    pub fn held(&self, query: impl Into<Request>) -> Result<f64> {
        let mut request = query.into();
        if let Some(partial) = self.pinned.core.store.partial()
            && request.spec.columns.is_none()
        {
            request.spec.columns = chosen_columns(&queries(partial));
        }
        held::fraction(&self.pinned, &request)
    }

    /// Divides a query into `parts` disjoint splits with about equal numbers of rows, which together return
    /// each row once.
    ///
    /// # Errors
    ///
    /// `Invalid` with `limit` or `per_cell`, which choose among all rows.
    pub fn splits(&self, query: impl Into<Request>, parts: usize) -> Result<Vec<Split>> {
        splits::splits(&self.pinned, &query.into(), parts)
    }

    /// Divides a query into `parts` disjoint splits, each read from one host of the cluster if possible.
    /// Together they return each row once.
    ///
    /// A split is a range of the cluster's token ring and is not compact in space (thesis, listing 5.2).
    /// Without a cluster, this equals [`Snapshot::splits`].
    ///
    /// # Errors
    ///
    /// The errors of [`Snapshot::splits`].
    pub fn splits_by_host(&self, query: impl Into<Request>, parts: usize) -> Result<Vec<Split>> {
        splits::splits_by_host(&self.pinned, &query.into(), parts)
    }

    /// Returns estimates with the requested precision, and calls `progress` with earlier, coarser ones.
    /// To decide from intervals when to stop, use [`Snapshot::estimates`]: here they are too narrow for that.
    ///
    /// # Errors
    ///
    /// `Invalid` for invalid aggregates or goals; the errors of [`Snapshot::query`].
    pub fn estimate(&self, options: &EstimateOptions, progress: &mut dyn FnMut(&Estimate)) -> Result<Estimate> {
        self.record_estimate(options);
        kubist_estimate::estimate(&self.pinned, options, progress)
    }

    /// Returns a series of estimates with narrowing intervals, and reads each row once. The intervals are
    /// valid whenever the caller stops, so they are wider than in [`Snapshot::estimate`].
    ///
    /// # Errors
    ///
    /// The errors of [`Snapshot::estimate`].
    pub fn estimates(&self, options: &EstimateOptions) -> Result<Estimation> {
        self.record_estimate(options);
        kubist_estimate::estimates(&self.pinned, options)
    }

    fn record(&self, verb: &str, spec: &QuerySpec) {
        record(self.pinned.core.store.location(), verb, spec, &[], &[]);
    }

    fn record_estimate(&self, options: &EstimateOptions) {
        let location = self.pinned.core.store.location();
        record(location, "estimate", &options.query, &options.aggregates, &options.group_by);
    }

    /// Plans a query without reading rows; the plan can be printed, and run to measure each stage.
    ///
    /// # Errors
    ///
    /// The errors of [`Snapshot::query`].
    pub fn plan(&self, query: impl Into<Request>) -> Result<Plan> {
        Plan::new(&self.pinned, query.into())
    }

    /// For each stored column, returns the bytes, the encoding and the decoding speed on one core. In a
    /// large table, it uses a sample of the runs.
    ///
    /// # Errors
    ///
    /// The errors of [`Snapshot::info`], `Damaged` and `SnapshotExpired`.
    pub fn columns_use(&self) -> Result<ColumnsUse> {
        ColumnsUse::of(&self.pinned, &self.cancel)
    }

    /// Properties and contents of the table, in a time that does not depend on its size.
    ///
    /// # Errors
    ///
    /// A storage error.
    pub fn about(&self) -> Result<About> {
        info::about(&self.pinned)
    }

    /// Properties, contents and layout of the table, from the manifest, and the positions in runs that leave the
    /// domain; lists the files.
    ///
    /// # Errors
    ///
    /// `Cancelled`, or a storage error.
    pub fn info(&self) -> Result<Info> {
        let info = info::of(&self.pinned, &self.cancel)?;
        Ok(Info { advice: advice::of(&info), ..info })
    }

    /// Copies all rows into a new table at an unused location or in an empty store. Calls `progress(rows
    /// done, all rows)`.
    ///
    /// # Errors
    ///
    /// `Exists` if the location is in use, `Invalid` options, `Cancelled`. After an error, nothing of the
    /// copy remains.
    pub fn copy_to(
        &self,
        location: impl Into<Location>,
        options: &CopyOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Copied> {
        copy::copy_to(&self.pinned, &location.into().find()?, options, progress)
    }
}
