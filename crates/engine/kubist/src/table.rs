//! A handle to a table: creation, writers, snapshots and maintenance.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;
use kubist_catalog::accuracy::accuracy_of;
use kubist_catalog::alter::NewColumn;
use kubist_catalog::core::Core;
use kubist_catalog::create::{self, Plan};
use kubist_catalog::error::store_error;
use kubist_catalog::period::period_of;
use kubist_catalog::settle;
use kubist_catalog::stop::stoppable;
use kubist_catalog::token::SnapshotToken;
use kubist_catalog::write_checkpoint;
use kubist_format::history::Declared;
use kubist_maintain::background::{CommitOptimizer, GridFollower, ReadOptimizer, optimize_reads};
use kubist_maintain::clean::{self, Cleaning};
use kubist_maintain::drop::{self, Dropped};
use kubist_maintain::optimize::{self, OptimizeReport};
use kubist_maintain::policy::OptimizeOptions;
use kubist_maintain::regrid::{self, GridOptions};
use kubist_maintain::retract::{self, Retraction};
use kubist_read::splits::Split;
use kubist_read::stream::QueryStream;
use kubist_repair::salvage::{self, SalvageReport};
use kubist_repair::verify::{self, VerifyOptions, VerifyReport};
use kubist_store::StoreExt;
use kubist_types::{
    Accuracy, Cancel, Compression, Error, Metadata, Result, Strata, TableOptions, Value, WriterOptions,
};
use kubist_write::writer::{Behind, Writer};

use crate::explain::HandleTraffic;
use crate::location::Location;
use crate::snapshot::Snapshot;

/// A handle to a table. Cloning is cheap, and all clones share one view of the logs.
///
/// ```
/// # use std::sync::Arc;
/// # use arrow_array::{ArrayRef, Float64Array, RecordBatch};
/// # use kubist::store::MemoryStore;
/// # use kubist::{CommitOptions, Dimension, Domain, Query, Table, TableOptions, WriterOptions};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let x: ArrayRef = Arc::new(Float64Array::from(vec![0.1, 0.2, 0.3]));
/// # let rows = RecordBatch::try_from_iter([("x", x)])?;
/// # let dimensions = vec![Dimension { column: "x".into(), domain: Domain::Learned }];
/// # let options = TableOptions { dimensions, ..TableOptions::default() };
/// # let table = Table::create(Arc::new(MemoryStore::new("run")), rows.schema(), &options)?;
/// let mut writer = table.writer(&WriterOptions { name: Some("rank-3".into()), ..Default::default() })?;
/// for step in 1..=2 {
///     writer.append(&rows)?;
///     // A commit with a known token does nothing, so a retry cannot write rows twice.
///     writer.commit_as(&CommitOptions { step: Some(step), token: Some(format!("step {step}")) })?;
/// }
/// // A snapshot does not change, and its token reopens it.
/// let snapshot = table.snapshot()?;
/// let token = snapshot.token().to_string();
/// writer.append(&rows)?;
/// writer.commit()?;
/// assert_eq!((snapshot.rows()?, table.snapshot()?.rows()?), (6, 9));
/// assert_eq!(table.at(&token.parse()?)?.count(&Query::new().steps(2, 2))?, 3);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Table {
    pub(crate) core: Arc<Core>,
    cancel: Cancel,
}

/// The result of [`Table::regrid`].
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Regridded {
    /// Number of the new grid.
    pub grid: u32,
    /// Report of the optimizer that moved the rows.
    pub optimized: OptimizeReport,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Table({:?})", self.location())
    }
}

impl Table {
    /// Creates a table at an unused location: an absent or empty directory, a free
    /// `cassandra://hosts/keyspace/table`, or an empty store.
    ///
    /// # Errors
    ///
    /// `Invalid` for an invalid schema or option; `Exists` if the location is in use and `exist_ok` is not
    /// set or its table differs.
    pub fn create(location: impl Into<Location>, schema: SchemaRef, options: &TableOptions) -> Result<Table> {
        // Refuses an invalid schema before anything is created.
        let plan = Plan::new(&schema, options)?;
        let location = location.into();
        let at = location.find()?;
        let core = if options.exist_ok && at.has_table()? {
            let core = Core::open_at(&at, &location.cancel)?;
            core.agrees(&plan)?;
            core
        } else {
            create::make(at.vacant()?, plan, options.exist_ok)?
        };
        Ok(Table { core, cancel: location.cancel })
    }

    /// Opens the table at a location: a directory, a `cassandra://hosts/keyspace/table`, or a store, to which other
    /// processes may write.
    ///
    /// # Errors
    ///
    /// `NotATable` if there is no table, `Newer` if a newer Kubist wrote it, `Damaged` if its metadata cannot be read;
    /// `Cancelled`.
    pub fn open(location: impl Into<Location>) -> Result<Table> {
        let location = location.into();
        Ok(Table { core: Core::open_at(&location.find()?, &location.cancel)?, cancel: location.cancel })
    }

    /// Returns a handle to the same table whose calls end with `Cancelled` after `cancel` is set. Queries
    /// of its snapshots use [`RunOptions::cancel`](crate::RunOptions) instead.
    pub fn cancelled_by(&self, cancel: &Cancel) -> Table {
        Table { core: self.core.clone(), cancel: cancel.clone() }
    }

    /// The core of lower layers, for their tests.
    #[doc(hidden)]
    pub fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Limits the number of runs of a manifest in memory, for this handle and its clones. The default is
    /// 262,144 runs.
    ///
    /// A run takes about 300 bytes, plus 8 to 30 bytes for each column that is not a dimension. Queries
    /// read only the needed pages of a larger manifest, checkpoints write it page by page, and the
    /// optimizer and `info` read a few pages at a time. A writer holds up to 256 pages of at most 1,024
    /// runs; `verify` and `salvage` may hold the whole manifest.
    pub fn limit_runs_in_memory(&self, runs: u64) {
        self.core.limit_runs_in_memory(runs);
    }

    /// Sets whether queries of this handle and its clones fetch missing bytes of a partial copy from its source,
    /// and keep them; otherwise they return [`Error::NotHere`]. Returns whether they did before.
    ///
    /// # Errors
    ///
    /// `Invalid` if the table is no partial copy.
    pub fn fetch_missing(&self, fetches: bool) -> Result<bool> {
        let Some(partial) = self.core.store.partial() else {
            return Err(Error::invalid(format!("{} is not a partial copy", self.location())));
        };
        let before = partial.fetches();
        partial.fetch_missing(fetches);
        Ok(before)
    }

    /// Refuses work that would first read rows that a partial copy lacks.
    fn check_writable(&self) -> Result<()> {
        let Some(partial) = self.core.store.partial() else { return Ok(()) };
        let (location, source) = (self.location(), partial.source());
        let why = format!("{location} is a partial copy, which cannot be written to; write to its source {source}");
        Err(Error::io(why, std::io::ErrorKind::ReadOnlyFilesystem.into()))
    }

    /// The absolute path of the table's directory, or the location as the caller gave it.
    pub fn location(&self) -> &str {
        self.core.store.location()
    }

    /// The traffic between this handle (with its clones) and the service, including the opening. `None` if
    /// the store uses no service.
    pub fn traffic(&self) -> Option<HandleTraffic> {
        HandleTraffic::of(self.core.store.as_ref())
    }

    /// The current columns of results.
    ///
    /// # Errors
    ///
    /// The errors of [`Table::snapshot`].
    pub fn schema(&self) -> Result<SchemaRef> {
        Ok(self.core.view(&self.cancel)?.schema.user.clone())
    }

    /// Returns a snapshot of everything that was committed before the call; concurrent calls share their reads.
    ///
    /// # Errors
    ///
    /// `NotATable` if the table was dropped, `Damaged` if a log or a rewrite cannot be read, `Cancelled`, or a storage
    /// error.
    pub fn snapshot(&self) -> Result<Snapshot> {
        Ok(self.of_moment(kubist_catalog::snapshot::Snapshot::now(&self.core, &self.cancel)?))
    }

    /// Returns the snapshot of a token, also from another process.
    ///
    /// # Errors
    ///
    /// `SnapshotExpired` if its files were cleaned, now or when rows are read; `Cancelled`.
    pub fn at(&self, token: &SnapshotToken) -> Result<Snapshot> {
        Ok(self.of_moment(kubist_catalog::snapshot::Snapshot::at(&self.core, token, &self.cancel)?))
    }

    fn of_moment(&self, pinned: kubist_catalog::snapshot::Snapshot) -> Snapshot {
        Snapshot { pinned, cancel: self.cancel.clone() }
    }

    /// Declares the writers of every step. Queries by step, and snapshots at a step, include a step only
    /// after each declared writer has committed or abandoned it. The same declaration may be repeated; only
    /// [`Table::declare_writers_after`] can change it.
    ///
    /// # Errors
    ///
    /// `Invalid` without any writer, `Exists` if others were declared before.
    pub fn declare_writers(&self, declared: &Declared) -> Result<()> {
        self.core.declare_writers(declared)
    }

    /// Declares the writers of the steps after `after`, for a simulation that continues from a checkpoint
    /// with other writers. Withdraw later steps with [`Table::retract`] first. The current declaration may
    /// be repeated. In a table without steps, it applies to all steps.
    ///
    /// # Errors
    ///
    /// `Invalid` without any writer, or if the table has a later step.
    pub fn declare_writers_after(&self, after: i64, declared: &Declared) -> Result<()> {
        self.core.declare_writers_after(after, declared)
    }

    /// The names of all past and present writers, in ascending order.
    ///
    /// # Errors
    ///
    /// A storage error.
    pub fn writer_names(&self) -> Result<Vec<String>> {
        self.core.store.logs().map_err(store_error)
    }

    /// True if a process owns the writer's log; otherwise all log entries are durable.
    ///
    /// # Errors
    ///
    /// `Damaged` if the log is damaged; a storage error.
    pub fn is_at_work(&self, writer: &str) -> Result<bool> {
        settle::is_owned(&self.core, writer)
    }

    /// Waits for a commit, a rewrite or an alteration after `seen`, at most for `patience`. Returns the new
    /// snapshot, or `None` after a timeout. Each poll reads the end of every log; the time between two
    /// polls is at least `every`, and a few milliseconds.
    ///
    /// # Errors
    ///
    /// The errors of [`Table::snapshot`].
    pub fn wait(&self, seen: &Snapshot, every: Duration, patience: Duration) -> Result<Option<Snapshot>> {
        let view = self.core.wait(&seen.pinned.view, every, patience, &self.cancel)?;
        Ok(view.map(|view| self.of_moment(kubist_catalog::snapshot::Snapshot::new(self.core.clone(), view))))
    }

    /// Opens a writer, which owns the log of its name. A name has one owner at a time.
    ///
    /// # Errors
    ///
    /// `Busy` if the name has an owner, `Damaged` if its log is damaged.
    pub fn writer(&self, options: &WriterOptions) -> Result<Writer> {
        let behind: Box<dyn Behind> = match options.optimize {
            true => Box::new(CommitOptimizer::start(self.core.clone())),
            false => Box::new(GridFollower::new(self.core.clone())),
        };
        Writer::open(self.core.clone(), options, Some(behind))
    }

    /// Adds a column after the others; it cannot be a dimension or an identity. Existing rows, and rows of writers
    /// without the column, get the default.
    ///
    /// # Errors
    ///
    /// `Invalid` if the name is in use, or if the type or the default is not allowed. After `Cancelled`, the column may
    /// have been added.
    pub fn add_column(&self, column: &NewColumn) -> Result<()> {
        self.core.add_column(column, &self.cancel)
    }

    /// Adds the column `kept_below`, if it is missing. A writer that samples its rows stores there the priority limits
    /// of rows, or 1 for rows that it always keeps, and commits with [`Writer::commit_thinned`]. Older programs without
    /// support for such tables then refuse the table.
    ///
    /// # Errors
    ///
    /// `Invalid` if another column has this name.
    pub fn keep_below(&self) -> Result<()> {
        self.core.keep_below()
    }

    /// The priorities of the rows in this table, which are hashes of their identity.
    ///
    /// # Errors
    ///
    /// `Invalid` if the table has no identity, or the rows do not fit its columns.
    pub fn priorities(&self, rows: &RecordBatch) -> Result<Vec<u64>> {
        let schema = self.core.view(&self.cancel)?.schema.clone();
        if !schema.has_identity() {
            let location = self.location();
            return Err(Error::invalid(format!("{location} has no identity: only its writers know the priorities")));
        }
        let stored = schema.to_stored(rows, "", 0, 0)?;
        if schema.weight.is_some() {
            let (location, sampling) = (self.location(), &schema.sampling);
            return Err(Error::invalid(format!("{location} samples {sampling}: only its writers know the priorities")));
        }
        let prioritised = schema.prioritised();
        let columns: Vec<ArrayRef> = prioritised.columns().map(|column| stored.column(column).clone()).collect();
        Ok(prioritised.priorities(&columns, rows.num_rows(), self.core.header.seed))
    }

    /// The rows as the table would store them: columns with an error bound are rounded.
    ///
    /// # Errors
    ///
    /// `Invalid` if values do not fit a column's type.
    pub fn rounded(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        self.core.view(&self.cancel)?.schema.rounded(rows)
    }

    /// The error bound of a column in its unit, parsed like [`TableOptions::accuracy`].
    ///
    /// # Errors
    ///
    /// `Invalid` for an invalid bound or an unknown column.
    pub fn accuracy(&self, column: &str, bound: &Value) -> Result<Accuracy> {
        let schema = self.core.view(&self.cancel)?.schema.clone();
        accuracy_of(&schema.with_unit(schema.column(column)?), bound)
    }

    /// The period of a column as in [`About`](crate::info::About), parsed like [`TableOptions::period`].
    ///
    /// # Errors
    ///
    /// `Invalid` for an invalid period or an unknown column.
    pub fn period(&self, column: &str, period: &Value) -> Result<String> {
        let schema = self.core.view(&self.cancel)?.schema.clone();
        Ok(period_of(&schema.with_unit(schema.column(column)?), period)?.to_string())
    }

    /// Sets metadata of the table or of a column, all keys in one change; null removes a key.
    ///
    /// # Errors
    ///
    /// `Invalid` for an unknown column, or for a key or value that is too long.
    pub fn set_metadata(&self, column: Option<&str>, values: &Metadata) -> Result<()> {
        self.core.set_metadata(column, values)
    }

    /// Sets or removes the unit of a column.
    ///
    /// # Errors
    ///
    /// The errors of [`Table::set_metadata`].
    pub fn set_unit(&self, column: &str, unit: Option<&str>) -> Result<()> {
        self.core.set_unit(column, unit)
    }

    /// Sets the compression of new runs; [`Table::optimize`] can rewrite the older ones
    /// ([`OptimizeOptions::recompress`]).
    ///
    /// # Errors
    ///
    /// A storage error.
    pub fn set_compression(&self, compression: Compression) -> Result<()> {
        self.core.set_compression(compression)
    }

    /// Sets where the strata (ranges of priorities) of new runs end; [`Table::optimize`] can rewrite the older ones
    /// ([`OptimizeOptions::recompress`]).
    ///
    /// # Errors
    ///
    /// A storage error.
    pub fn set_strata(&self, strata: Strata) -> Result<()> {
        self.core.set_strata(strata)
    }

    /// Permits several machines that mount the table's file system to write to it, permanently. Running writers fail at
    /// their next commit and must be opened again; a shared table stays as it is.
    ///
    /// # Errors
    ///
    /// `Damaged` if a log is damaged; a storage error. After `Cancelled`, the table may be shared; it stays valid.
    pub fn share(&self) -> Result<()> {
        stoppable(&self.cancel, || {
            self.cancel.check()?;
            self.core.check_still_there()?;
            self.core.store.share().map_err(store_error)
        })
    }

    /// True if several machines may write to the table.
    pub fn is_shared(&self) -> bool {
        self.core.store.capabilities().fencing != kubist_store::Fencing::Lock
    }

    /// Returns the rows of a split, which is a part of a query on this table.
    ///
    /// # Errors
    ///
    /// `SnapshotExpired` if the files of its snapshot were cleaned; `Invalid` for a split of another table.
    pub fn read_split(&self, split: &Split) -> Result<QueryStream> {
        self.at(&split.snapshot)?.query(split.request(&self.cancel))
    }

    /// Reorganizes runs until every part of the tree has a low fraction of compaction debt. Calls
    /// `progress(rewritten rows, debt left)` after each rewrite.
    ///
    /// # Errors
    ///
    /// `Invalid` options, `Cancelled`, or a storage error; the table stays valid.
    pub fn optimize(&self, options: &OptimizeOptions, progress: &mut dyn FnMut(u64, u64)) -> Result<OptimizeReport> {
        self.check_writable()?;
        optimize::optimize(&self.core, options, progress)
    }

    /// Changes the dimensions or domains of the grid, and moves all rows to the new grid. Meanwhile queries
    /// return the same rows, and writers use the new grid from their next commit. Calls `progress` like
    /// [`Table::optimize`], which continues an interrupted move.
    ///
    /// # Errors
    ///
    /// `Invalid` options, or no rows to learn a domain from; `Busy` if another process changed the grid;
    /// `Cancelled`; a storage error.
    pub fn regrid(&self, options: &GridOptions, progress: &mut dyn FnMut(u64, u64)) -> Result<Regridded> {
        self.check_writable()?;
        let grid = regrid::publish(&self.core, options, "asked for")?;
        let (core_share, cancel) = (options.core_share, options.cancel.clone());
        let moving = OptimizeOptions { follow_data: false, core_share, cancel, ..OptimizeOptions::default() };
        Ok(Regridded { grid, optimized: self.optimize(&moving, progress)? })
    }

    /// Starts a thread that optimizes the regions that queries of this process found expensive.
    pub fn optimize_reads(&self) -> ReadOptimizer {
        optimize_reads(&self.core)
    }

    /// Withdraws every commit after `step` that is in the logs now, with its rows and tokens, so that a
    /// solver can continue from a checkpoint. Stop the old writers first, because later commits stay.
    ///
    /// # Errors
    ///
    /// `Cancelled`, or a storage error.
    pub fn retract(&self, step: i64) -> Result<Retraction> {
        self.check_writable()?;
        retract::retract(&self.core, step, &self.cancel)
    }

    /// Writes a checkpoint of all durable commits, unless the newest one contains them. Returns
    /// `false` if a writer is making an entry durable, or another process wrote a checkpoint first.
    ///
    /// # Errors
    ///
    /// `Cancelled`, or a storage error.
    pub fn checkpoint(&self) -> Result<bool> {
        write_checkpoint::write(&self.core, &self.cancel)
    }

    /// Deletes files that have been garbage for `retention`, and records the current garbage. Older snapshots may then
    /// fail with `SnapshotExpired`; after `Cancelled`, the next call continues.
    ///
    /// # Errors
    ///
    /// `Cancelled`, or a storage error.
    pub fn clean(&self, retention: Duration) -> Result<Cleaning> {
        clean::clean(&self.core, retention, &self.cancel)
    }

    /// Deletes the table at a location, and then its directory if it is empty. `force` deletes it even
    /// while a writer is running. Files of other programs stay, and links are not followed.
    ///
    /// # Errors
    ///
    /// `NotATable` if there is no table, `Busy` if a writer is running and `force` is false. After
    /// `Cancelled`, the table is complete or can only be dropped again.
    pub fn drop_at(location: impl Into<Location>, force: bool) -> Result<Dropped> {
        let location = location.into();
        drop::drop_at(&location.find()?, force, &location.cancel)
    }

    /// [`Table::verify`] for the table at a location, where only the header must be readable.
    ///
    /// # Errors
    ///
    /// `NotATable`, and the errors of [`Table::verify`].
    pub fn verify_at(
        location: impl Into<Location>,
        options: &VerifyOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<VerifyReport> {
        verify::verify_at(&location.into().find()?, options, progress)
    }

    /// Checks the table for damage, reports all findings, and calls `progress(done, total)` in bytes.
    ///
    /// # Errors
    ///
    /// An error means that the check could not run, not that the table is damaged.
    pub fn verify(&self, options: &VerifyOptions, progress: &mut dyn FnMut(u64, u64)) -> Result<VerifyReport> {
        verify::verify(&self.core, options, progress)
    }

    /// Copies the intact rows of the table at `from`, which is never changed, into a new table at the
    /// unused location or empty store `to`. Calls `progress(done, total)` in rows.
    ///
    /// # Errors
    ///
    /// The cause, such as an unreadable header or a full disk, prevents any copy.
    pub fn salvage(
        from: impl Into<Location>,
        to: impl Into<Location>,
        cancel: &Cancel,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<SalvageReport> {
        salvage::salvage(&from.into().find()?, &to.into().find()?, cancel, progress)
    }
}
