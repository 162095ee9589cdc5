//! A handle to a table: where it comes from, who writes to it, and what keeps it in shape.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::{Array, RecordBatch};
use arrow_schema::SchemaRef;
use kubist_catalog::accuracy::accuracy_of;
use kubist_catalog::alter::NewColumn;
use kubist_catalog::core::Core;
use kubist_catalog::create::{self, Plan};
use kubist_catalog::error::store_error;
use kubist_catalog::settle;
use kubist_catalog::stop::stoppable;
use kubist_catalog::token::SnapshotToken;
use kubist_catalog::write_checkpoint;
use kubist_format::history::Declared;
use kubist_index::priority::priorities;
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
use kubist_store::{Store, StoreExt};
use kubist_types::{Accuracy, Cancel, Compression, Error, Metadata, Result, TableOptions, Value, WriterOptions};
use kubist_write::writer::{Behind, Writer};

use crate::explain::HandleTraffic;
use crate::schemes::{register_all, table_location};
use crate::snapshot::Snapshot;

/// A handle to a table. Cheap to clone; all clones share one view of the logs.
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
/// # let table = Table::create_in(Arc::new(MemoryStore::new("run")), rows.schema(), &options)?;
/// let mut writer = table.writer(&WriterOptions { name: Some("rank-3".into()), ..Default::default() })?;
/// for step in 1..=2 {
///     writer.append(&rows)?;
///     // A commit under a known token does nothing: a retry cannot write rows twice.
///     writer.commit_as(&CommitOptions { step: Some(step), token: Some(format!("step {step}")) })?;
/// }
/// // What a snapshot sees does not change, and its token leads back to it.
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
}

/// What [`Table::regrid`] did.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Regridded {
    /// The number of the new grid.
    pub grid: u32,
    /// What the optimizer did then.
    pub optimized: OptimizeReport,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Table({:?})", self.location())
    }
}

impl Table {
    /// Makes a table at a location where nothing is: a directory that is absent or empty, or
    /// a free `cassandra://hosts/keyspace/table`.
    ///
    /// # Errors
    ///
    /// `Invalid` if the schema or an option makes no sense; `Exists` if something is there
    /// already and `exist_ok` does not allow it, or does not agree with it.
    pub fn create(location: &str, schema: SchemaRef, options: &TableOptions) -> Result<Table> {
        // Refuse a bad schema before anything is made.
        let plan = Plan::new(&schema, options)?;
        let at = table_location(location)?;
        if options.exist_ok && at.has_table()? {
            let table = Table::open(location)?;
            table.core.agrees(&plan)?;
            return Ok(table);
        }
        Ok(Table { core: create::make(at.vacant()?, plan, options.exist_ok)? })
    }

    /// Makes a table in an empty store.
    ///
    /// # Errors
    ///
    /// As of [`Table::create`].
    pub fn create_in(store: Arc<dyn Store>, schema: SchemaRef, options: &TableOptions) -> Result<Table> {
        register_all();
        Ok(Table { core: create::make(store, Plan::new(&schema, options)?, options.exist_ok)? })
    }

    /// Opens the table at a location: a directory, or `cassandra://hosts/keyspace/table`.
    /// Others may be writing to it.
    ///
    /// # Errors
    ///
    /// `NotATable` if there is none, `Newer` if a newer Kubist wrote it, `Damaged` if what
    /// leads to its rows cannot be read.
    pub fn open(location: &str) -> Result<Table> {
        Table::open_with(location, &Cancel::default())
    }

    /// The same, until the switch is set.
    ///
    /// # Errors
    ///
    /// `Cancelled`, or as of [`Table::open`].
    pub fn open_with(location: &str, cancel: &Cancel) -> Result<Table> {
        Ok(Table { core: Core::open_at(&table_location(location)?, cancel)? })
    }

    /// Opens the table in a store.
    ///
    /// # Errors
    ///
    /// As of [`Table::open`].
    pub fn open_in(store: Arc<dyn Store>) -> Result<Table> {
        Table::open_in_with(store, &Cancel::default())
    }

    /// The same, until the switch is set.
    ///
    /// # Errors
    ///
    /// `Cancelled`, or as of [`Table::open`].
    pub fn open_in_with(store: Arc<dyn Store>, cancel: &Cancel) -> Result<Table> {
        register_all();
        Ok(Table { core: Core::open(store, cancel)? })
    }

    /// What the layers below share of this table, for their own tests.
    #[doc(hidden)]
    pub fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Bounds the memory for the list of runs, at about 300 bytes each and 8 to 30 more for
    /// each column that is no dimension, for this handle and its clones: a list of more runs is
    /// read page by page, as far as each question needs it, and so are checkpoints written.
    /// 262,144 unless said otherwise. The optimizer and `info` read all of it, some pages
    /// at a time; a writer of such a list holds 256 pages of it, of at most 1,024 runs each; `verify` and the like hold it
    /// all the same.
    pub fn limit_runs_in_memory(&self, runs: u64) {
        self.core.limit_runs_in_memory(runs);
    }

    /// Where the table is: the path of its directory from the root on, or the location as the caller named it.
    pub fn location(&self) -> &str {
        self.core.store.location()
    }

    /// What this handle and its clones have asked of a service since it was opened, the opening
    /// included; `None` where no service is asked.
    pub fn traffic(&self) -> Option<HandleTraffic> {
        HandleTraffic::of(self.core.store.as_ref())
    }

    /// The columns by now, as answers have them.
    ///
    /// # Errors
    ///
    /// As of [`Table::snapshot`].
    pub fn schema(&self) -> Result<SchemaRef> {
        Ok(self.core.view(&Cancel::default())?.schema.user.clone())
    }

    /// Everything committed by now, pinned.
    ///
    /// # Errors
    ///
    /// `NotATable` if it was dropped, `Damaged` if a log or a rewrite cannot be read, or a
    /// storage error.
    pub fn snapshot(&self) -> Result<Snapshot> {
        self.snapshot_with(&Cancel::default())
    }

    /// The same, until the switch is set. Calls at the same time share what they read; each
    /// answers with everything that was committed before it began.
    ///
    /// # Errors
    ///
    /// `Cancelled`, or as of [`Table::snapshot`].
    pub fn snapshot_with(&self, cancel: &Cancel) -> Result<Snapshot> {
        Ok(Snapshot(kubist_catalog::snapshot::Snapshot::now(&self.core, cancel)?))
    }

    /// The snapshot that a token names, also in another process.
    ///
    /// # Errors
    ///
    /// `SnapshotExpired` if the files of that moment were cleaned away, now or when rows
    /// are read.
    pub fn at(&self, token: &SnapshotToken) -> Result<Snapshot> {
        self.at_with(token, &Cancel::default())
    }

    /// The same, until the switch is set.
    ///
    /// # Errors
    ///
    /// `Cancelled`, or as of [`Table::at`].
    pub fn at_with(&self, token: &SnapshotToken, cancel: &Cancel) -> Result<Snapshot> {
        Ok(Snapshot(kubist_catalog::snapshot::Snapshot::at(&self.core, token, cancel)?))
    }

    /// The writers that every step waits for: `query` with steps, and `snapshot`
    /// at a step, see a step once all of them committed or abandoned it. Can be
    /// declared once; declaring the same again is fine. [`Table::declare_writers_after`] changes them.
    ///
    /// # Errors
    ///
    /// `Invalid` without any writer, `Exists` if others were declared before.
    pub fn declare_writers(&self, declared: &Declared) -> Result<()> {
        self.core.declare_writers(declared)
    }

    /// The writers of the steps after one: a simulation goes on from a checkpoint with others than
    /// before. [`Table::retract`] takes back what was written after that step first. Declaring what
    /// holds already is fine; in a table without steps it is said of all of them.
    ///
    /// # Errors
    ///
    /// `Invalid` without any writer, or if a later step is there.
    pub fn declare_writers_after(&self, after: i64, declared: &Declared) -> Result<()> {
        self.core.declare_writers_after(after, declared)
    }

    /// Names of all writers that have ever been, ascending.
    ///
    /// # Errors
    ///
    /// A storage error.
    pub fn writer_names(&self) -> Result<Vec<String>> {
        self.core.store.logs().map_err(store_error)
    }

    /// Does somebody own the log of this writer? If nobody does, what an earlier owner did is
    /// settled.
    ///
    /// # Errors
    ///
    /// `Damaged` if its log is; a storage error.
    pub fn is_at_work(&self, writer: &str) -> Result<bool> {
        settle::is_owned(&self.core, writer)
    }

    /// Waits until something was committed, rewritten or altered since `seen`, at most for
    /// `patience`; the new snapshot, or `None`. Looks every few milliseconds.
    ///
    /// # Errors
    ///
    /// `Cancelled`, or as of [`Table::snapshot`].
    pub fn wait(&self, seen: &Snapshot, patience: Duration, cancel: &Cancel) -> Result<Option<Snapshot>> {
        self.wait_looking(seen, Duration::ZERO, patience, cancel)
    }

    /// The same, with no two looks closer than `every`: each of them asks the store for every log.
    ///
    /// # Errors
    ///
    /// As of [`Table::wait`].
    pub fn wait_looking(
        &self,
        seen: &Snapshot,
        every: Duration,
        patience: Duration,
        cancel: &Cancel,
    ) -> Result<Option<Snapshot>> {
        let view = self.core.wait(&seen.0.view, every, patience, cancel)?;
        Ok(view.map(|view| Snapshot(kubist_catalog::snapshot::Snapshot::new(self.core.clone(), view))))
    }

    /// Takes a writer's log. Each name has one owner at a time.
    ///
    /// # Errors
    ///
    /// `Busy` if the name has an owner, `Damaged` if its log is.
    pub fn writer(&self, options: &WriterOptions) -> Result<Writer> {
        let behind: Box<dyn Behind> = match options.optimize {
            true => Box::new(CommitOptimizer::start(self.core.clone())),
            false => Box::new(GridFollower::new(self.core.clone())),
        };
        Writer::open(self.core.clone(), options, Some(behind))
    }

    /// Adds a column behind the others. Rows that are here, and rows of writers that
    /// do not know it, have the default. It cannot be a dimension or an identity.
    ///
    /// # Errors
    ///
    /// `Invalid` if the name is taken, or the type or the default cannot be.
    pub fn add_column(&self, column: &NewColumn) -> Result<()> {
        self.add_column_with(column, &Cancel::default())
    }

    /// The same, until the switch is set: then the column may have been added, or not.
    ///
    /// # Errors
    ///
    /// `Cancelled`, or as of [`Table::add_column`].
    pub fn add_column_with(&self, column: &NewColumn, cancel: &Cancel) -> Result<()> {
        self.core.add_column(column, cancel)
    }

    /// Makes the column `kept_below`, if the table has none yet: a writer that writes only a sample
    /// of its records says there below which priority it kept each, 1 for those that it keeps
    /// always, and commits with [`Writer::commit_thinned`]. Programs that do not know such tables
    /// refuse them from then on.
    ///
    /// # Errors
    ///
    /// `Invalid` if a column of that name is there already.
    pub fn keep_below(&self) -> Result<()> {
        self.core.keep_below()
    }

    /// The priorities that these rows have in this table: hashes of their identity.
    ///
    /// # Errors
    ///
    /// `Invalid` if the table has no identity, or the rows do not fit its columns.
    pub fn priorities(&self, rows: &RecordBatch) -> Result<Vec<u64>> {
        let schema = self.core.view(&Cancel::default())?.schema.clone();
        if !schema.has_identity() {
            let location = self.location();
            return Err(Error::invalid(format!("{location} has no identity: only its writers know the priorities")));
        }
        let stored = schema.to_stored(rows, "", 0, 0)?;
        let identity: Vec<&dyn Array> = schema.identity.iter().map(|column| stored.column(*column).as_ref()).collect();
        Ok(priorities(&identity, rows.num_rows(), self.core.header.seed))
    }

    /// A batch of rows with the values that the table would store of them: those of columns with an
    /// accuracy, rounded.
    ///
    /// # Errors
    ///
    /// `Invalid` if values do not fit a column's type.
    pub fn rounded(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        self.core.view(&Cancel::default())?.schema.rounded(rows)
    }

    /// The accuracy that is meant of a column, as [`TableOptions::accuracy`] has it, in its unit.
    ///
    /// # Errors
    ///
    /// `Invalid` if it is none, or there is no such column.
    pub fn accuracy(&self, column: &str, bound: &Value) -> Result<Accuracy> {
        let schema = self.core.view(&Cancel::default())?.schema.clone();
        accuracy_of(&schema.with_unit(schema.column(column)?), bound)
    }

    /// Says something about the table, or about a column: new values by key, all at
    /// once; null takes one away.
    ///
    /// # Errors
    ///
    /// `Invalid` if there is no such column, or a key or a value is too long.
    pub fn set_metadata(&self, column: Option<&str>, values: &Metadata) -> Result<()> {
        self.core.set_metadata(column, values)
    }

    /// Says in which unit a column is, or that it has none.
    ///
    /// # Errors
    ///
    /// As of [`Table::set_metadata`].
    pub fn set_unit(&self, column: &str, unit: Option<&str>) -> Result<()> {
        self.core.set_unit(column, unit)
    }

    /// Sets the compression of the runs that are written from now on. Older runs keep theirs until
    /// [`Table::optimize`] rewrites them ([`OptimizeOptions::recompress`]).
    ///
    /// # Errors
    ///
    /// A storage error.
    pub fn set_compression(&self, compression: Compression) -> Result<()> {
        self.core.set_compression(compression)
    }

    /// Makes it a table that several machines may write to, for good: its directory is on a file
    /// system that all of them have mounted. Writers at work are refused at their next commit,
    /// and can be opened again. Nothing happens if it is one already.
    ///
    /// # Errors
    ///
    /// `Damaged` if a log is; a storage error.
    pub fn share(&self) -> Result<()> {
        self.share_with(&Cancel::default())
    }

    /// The same, until the switch is set: then it may be shared, or not. It is sound in any case.
    ///
    /// # Errors
    ///
    /// `Cancelled`, or as of [`Table::share`].
    pub fn share_with(&self, cancel: &Cancel) -> Result<()> {
        stoppable(cancel, || {
            cancel.check()?;
            self.core.check_still_there()?;
            self.core.store.share().map_err(store_error)
        })
    }

    /// May several machines write to it?
    pub fn is_shared(&self) -> bool {
        self.core.store.capabilities().fencing != kubist_store::Fencing::Lock
    }

    /// The records of a part of a query to this table.
    ///
    /// # Errors
    ///
    /// `SnapshotExpired` if the files of its moment were cleaned away; `Invalid` if it is a
    /// part of another table.
    pub fn read_split(&self, split: &Split, cancel: &Cancel) -> Result<QueryStream> {
        self.at_with(&split.snapshot, cancel)?.query(split.request(cancel))
    }

    /// Improves the layout until no part of the tree has too large a share of
    /// debt. Calls `progress(rewritten rows, debt left)` after each rewrite.
    ///
    /// # Errors
    ///
    /// `Invalid` options, `Cancelled`, or a storage error; the table is sound in any case.
    pub fn optimize(&self, options: &OptimizeOptions, progress: &mut dyn FnMut(u64, u64)) -> Result<OptimizeReport> {
        optimize::optimize(&self.core, options, progress)
    }

    /// Gives the table another grid, of other dimensions or domains, and moves all
    /// rows to it. Calls `progress` as [`Table::optimize`] does. Writers go on meanwhile and
    /// take up the new grid with their next commit, and answers are the same at any moment.
    /// If the moving is stopped, [`Table::optimize`] goes on with it.
    ///
    /// # Errors
    ///
    /// `Invalid` options, or a domain to learn and no rows; `Busy` if somebody else has given
    /// it another grid meanwhile; `Cancelled`, or what the store says.
    pub fn regrid(&self, options: &GridOptions, progress: &mut dyn FnMut(u64, u64)) -> Result<Regridded> {
        let grid = regrid::publish(&self.core, options, "asked for")?;
        let (core_share, cancel) = (options.core_share, options.cancel.clone());
        let moving = OptimizeOptions { follow_data: false, core_share, cancel, ..OptimizeOptions::default() };
        Ok(Regridded { grid, optimized: self.optimize(&moving, progress)? })
    }

    /// Optimizes on a thread of its own what queries of this process found expensive.
    pub fn optimize_reads(&self) -> ReadOptimizer {
        optimize_reads(&self.core)
    }

    /// Takes back every commit of a step after `step` that stands in the logs by
    /// now: none of its rows is seen again, and its tokens are forgotten, so that
    /// a solver that starts again from a checkpoint can go on from there. Stop
    /// the writers of the old attempt first: what they commit afterwards counts.
    ///
    /// # Errors
    ///
    /// `Cancelled`, or a storage error.
    pub fn retract(&self, step: i64, cancel: &Cancel) -> Result<Retraction> {
        retract::retract(&self.core, step, cancel)
    }

    /// Writes a checkpoint of all that is durable by now, unless the newest one
    /// is as good. `false` if it cannot be done now: some writer is just making an entry
    /// durable, or others have overtaken this one.
    ///
    /// # Errors
    ///
    /// A storage error.
    pub fn checkpoint(&self) -> Result<bool> {
        self.checkpoint_with(&Cancel::default())
    }

    /// The same, until the switch is set.
    ///
    /// # Errors
    ///
    /// `Cancelled`, or a storage error.
    pub fn checkpoint_with(&self, cancel: &Cancel) -> Result<bool> {
        write_checkpoint::write(&self.core, cancel)
    }

    /// Deletes what has been garbage for `retention`, and notes what is garbage
    /// now. Snapshots taken longer ago may then answer `SnapshotExpired`.
    ///
    /// # Errors
    ///
    /// A storage error.
    pub fn clean(&self, retention: Duration) -> Result<Cleaning> {
        self.clean_with(retention, &Cancel::default())
    }

    /// The same, until the switch is set; the next call goes on from there.
    ///
    /// # Errors
    ///
    /// `Cancelled`, or a storage error.
    pub fn clean_with(&self, retention: Duration, cancel: &Cancel) -> Result<Cleaning> {
        clean::clean(&self.core, retention, cancel)
    }

    /// Deletes the table at a location, and its directory if nothing else is in it.
    /// `Busy` while a writer is at work, unless `force` says that its rows may go too.
    /// Files that Kubist did not make stay, and no link is followed.
    ///
    /// # Errors
    ///
    /// `NotATable` if there is none, `Busy` while a writer is at work.
    pub fn drop_at(location: &str, force: bool) -> Result<Dropped> {
        Table::drop_at_with(location, force, &Cancel::default())
    }

    /// The same, until the switch is set: then the table is whole, or can only be dropped again.
    ///
    /// # Errors
    ///
    /// `Cancelled`, or as of [`Table::drop_at`].
    pub fn drop_at_with(location: &str, force: bool, cancel: &Cancel) -> Result<Dropped> {
        drop::drop_at(&table_location(location)?, force, cancel)
    }

    /// Deletes the table in a store.
    ///
    /// # Errors
    ///
    /// As of [`Table::drop_at`].
    pub fn drop_in(store: Arc<dyn Store>, force: bool) -> Result<Dropped> {
        Table::drop_in_with(store, force, &Cancel::default())
    }

    /// The same, until the switch is set.
    ///
    /// # Errors
    ///
    /// As of [`Table::drop_at_with`].
    pub fn drop_in_with(store: Arc<dyn Store>, force: bool, cancel: &Cancel) -> Result<Dropped> {
        drop::drop_in(store, force, cancel)
    }

    /// [`Table::verify`] for the table at a location, of which only the header must be
    /// readable.
    ///
    /// # Errors
    ///
    /// As of [`Table::verify`], and `NotATable`.
    pub fn verify_at(
        location: &str,
        options: &VerifyOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<VerifyReport> {
        verify::verify_at(&table_location(location)?, options, progress)
    }

    /// Looks whether the table is sound and lists what is wrong; calls
    /// `progress(done, total)` with bytes as it goes on.
    ///
    /// # Errors
    ///
    /// An error means that the check itself could not be done, not that the table is damaged.
    pub fn verify(&self, options: &VerifyOptions, progress: &mut dyn FnMut(u64, u64)) -> Result<VerifyReport> {
        verify::verify(&self.core, options, progress)
    }

    /// Copies everything sound of the table at the location `from` into a new table
    /// at the location `to`, where nothing may be; calls `progress(done,
    /// total)` with rows as it goes on. Nothing in `from` is changed.
    ///
    /// # Errors
    ///
    /// An error means that nothing can be saved without its cause being removed, such as a
    /// header that cannot be read, or a full disk.
    pub fn salvage(from: &str, to: &str, cancel: &Cancel, progress: &mut dyn FnMut(u64, u64)) -> Result<SalvageReport> {
        salvage::salvage(&table_location(from)?, &table_location(to)?, cancel, progress)
    }

    /// The same from one store into another, empty one.
    ///
    /// # Errors
    ///
    /// As of [`Table::salvage`].
    pub fn salvage_in(
        from: Arc<dyn Store>,
        to: Arc<dyn Store>,
        cancel: &Cancel,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<SalvageReport> {
        salvage::salvage_in(from, to, cancel, progress)
    }
}

/// Opens the table of a part of a query and reads the records of the part.
///
/// # Errors
///
/// As of [`Table::open`] and [`Table::read_split`].
pub fn read_split(split: &Split, cancel: &Cancel) -> Result<QueryStream> {
    Table::open_with(&split.location, cancel)?.read_split(split, cancel)
}
