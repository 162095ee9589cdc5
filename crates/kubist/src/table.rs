//! A table: its store, its frame, and the logs followed so far.
//!
//! A handle follows: each call reads what the logs gained since the last one
//! and joins it into the state. A snapshot pins one state and never changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use arrow_schema::SchemaRef;
use kubist_index::cube::Geometry;
use kubist_index::grid::Scale;
use kubist_index::priority;
use kubist_index::spread::SpreadSet;
use kubist_index::state::{Run, RunId, State};
use kubist_store::{LogTail, Store};

use crate::alter::{self, Alteration};
use crate::checkpoint::{self, Held};
use crate::codec::zone_map::ZoneMap;
use crate::directory::{self, Base, Directory, Page, Runs};
use crate::drop::{HALF_COPIED, UNFINISHED, check_not_dropped};
use crate::entry::{self, CommitEntry, EntryError, Header, Location, Origin, RewriteEntry};
use crate::error::{Error, Result, store_error};
use crate::frame::Frame;
use crate::heat::Heat;
use crate::history::{Declared, History};
use crate::lookup::live::Live;
use crate::lookup::postings::Directory as LookupDirectory;
use crate::maps::{Cache, DIRECTORY_BYTES, MAP_BYTES};
use crate::moment::Moment;
use crate::options::{Cancel, WriterOptions};
use crate::place::Place;
use crate::schema::TableSchema;
use crate::snapshot::Snapshot;
use crate::vouched::{self, Vouched};
use crate::writer::Writer;

pub(crate) const TABLE: &str = "table";
pub(crate) const GRID: &str = "grid";
pub(crate) const REWRITES: &str = "rewrites/";
pub(crate) const WRITERS: &str = "writers";

/// A handle to a table. Cheap to clone; all clones share one view of the logs.
#[derive(Clone)]
pub struct Table {
    pub(crate) core: Arc<Core>,
}

/// What all handles, snapshots, queries and writers of a table share.
pub(crate) struct Core {
    pub store: Arc<dyn Store>,
    /// Its bytes come over a network.
    pub is_remote: bool,
    pub header: Header,
    /// The columns of the table's creation; those of a moment are its view's.
    pub created: Arc<TableSchema>,
    pub geometry: Geometry,
    pub maps: Cache<RunId, ZoneMap>,
    /// Of lookups, by segment and offset of the postings.
    pub directories: Cache<(Arc<str>, u64), LookupDirectory>,
    /// Of checkpoints, by segment and number.
    pub pages: Cache<(Arc<str>, usize), Page>,
    /// A directory of more runs is not held as a whole.
    most_held: AtomicU64,
    pub heat: Heat,
    process: u32,
    /// Its header is not there yet: it comes last, of a copy.
    unfinished: AtomicBool,
    frame: OnceLock<Arc<Frame>>,
    /// So many alterations are known to be durable.
    settled: AtomicU64,
    tail: Mutex<Tail>,
}

/// The logs as far as they were read.
#[derive(Default)]
struct Tail {
    /// Where it began.
    checkpoint: Option<String>,
    base: Option<Arc<Base>>,
    state: State<Location>,
    /// The runs that it removes, for views.
    removed: Arc<SpreadSet<RunId>>,
    history: History,
    /// `None`: the columns of the creation.
    schema: Option<Arc<TableSchema>>,
    view: Option<Arc<View>>,
    /// The state has changed since the view was made (also if an error came between).
    stale: bool,
    /// The runs that it gained since; `None` if it changed in other ways too.
    gained: Option<Vec<Arc<Run<Location>>>>,
    /// Log entries and runs in them since the checkpoint that was read or written.
    new_entries: u64,
    new_runs: u64,
    /// How many runs the state had when newer checkpoints were looked for.
    looked_at: usize,
    /// What others say of the logs, and whether segments were looked at for it.
    vouched: Vouched,
    looked_at_segments: bool,
}

impl Tail {
    /// Nothing read yet, of logs of which something is known.
    fn anew(vouched: Vouched) -> Tail {
        Tail { stale: true, vouched, ..Tail::default() }
    }

    fn begin(&mut self, held: Held) {
        self.vouched.join(held.vouched());
        (self.checkpoint, self.base) = (Some(held.name), held.base);
        (self.state, self.history) = (held.state, held.history);
    }
}

/// One state of the table, arranged for reading.
pub(crate) struct View {
    pub schema: Arc<TableSchema>,
    pub runs: Runs,
    pub history: History,
    /// How far each log was read, and how many rewrites are applied.
    pub positions: Vec<(String, u64)>,
    pub rewrites: u64,
    lookups: OnceLock<Live>,
}

impl View {
    pub fn new(schema: Arc<TableSchema>, runs: Runs, history: History, state: &State<Location>) -> View {
        let positions = state.positions().map(|(writer, position)| (writer.to_string(), position)).collect();
        View { schema, runs, history, positions, rewrites: state.rewrites(), lookups: OnceLock::new() }
    }

    /// The lookups into the primary runs, arranged when they are first asked for.
    pub fn lookups(&self, core: &Core) -> Result<&Live> {
        match self.lookups.get() {
            Some(live) => Ok(live),
            None => {
                let live = Live::new(self.runs.whole(core)?);
                Ok(self.lookups.get_or_init(|| live))
            }
        }
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Table({:?})", self.location())
    }
}

impl Table {
    /// Opens the table at a location: a directory, or `cassandra://hosts/keyspace/table`.
    /// Others may be writing to it.
    pub fn open(location: &str) -> Result<Table> {
        Table::open_in(Place::of(location)?.store()?)
    }

    /// Opens the table in a store.
    pub fn open_in(store: Arc<dyn Store>) -> Result<Table> {
        let table = Table::with_header(store)?;
        table.core.view()?;
        Ok(table)
    }

    /// A table of which only the header is read.
    pub(crate) fn with_header(store: Arc<dyn Store>) -> Result<Table> {
        check_not_dropped(store.as_ref())?;
        let there = |name| store.get(name).map_err(store_error);
        let Some(bytes) = there(TABLE)? else {
            let why = if there(UNFINISHED)?.is_some() { HALF_COPIED } else { "it holds no table" };
            return Err(Error::NotATable { location: store.location().into(), why: why.into() });
        };
        let (header, schema) =
            entry::decode_header(&bytes).map_err(|error| bad_entry(store.location(), TABLE, 0, error))?;
        let names: Vec<&str> = header.dimensions.iter().map(|dimension| dimension.column.as_str()).collect();
        let schema = TableSchema::from_names(&schema, &names, &header.identity, &header.lookup)?;
        Table::with(store, header, schema)
    }

    pub(crate) fn with(store: Arc<dyn Store>, header: Header, mut schema: TableSchema) -> Result<Table> {
        schema.metadata = header.metadata.clone();
        let geometry =
            Geometry::new(header.dimensions.len()).ok_or_else(|| Error::invalid("a table has 1 to 8 dimensions"))?;
        let core = Core {
            is_remote: !store.hosts().is_empty(),
            store,
            header,
            created: Arc::new(schema),
            geometry,
            maps: Cache::new(MAP_BYTES),
            directories: Cache::new(DIRECTORY_BYTES),
            pages: Cache::new(directory::PAGE_BYTES),
            most_held: AtomicU64::new(directory::MOST_HELD),
            heat: Heat::default(),
            process: std::process::id(),
            unfinished: AtomicBool::new(false),
            frame: OnceLock::new(),
            settled: AtomicU64::new(0),
            tail: Mutex::default(),
        };
        Ok(Table { core: Arc::new(core) })
    }

    /// Bounds the memory for the list of runs, at about 300 bytes each and 8 to 30 more for
    /// each column that is no dimension, for this handle and its clones: a list of more runs is
    /// read page by page, as far as each question needs it, and so are checkpoints written.
    /// 262,144 unless said otherwise. The optimizer, `verify`, `info` and the like read all of
    /// it all the same.
    pub fn hold_at_most(&self, runs: u64) {
        self.core.most_held.store(runs, Ordering::Relaxed);
    }

    /// Where the table is, as the caller named it.
    pub fn location(&self) -> &str {
        self.core.store.location()
    }

    /// The columns by now, as answers have them.
    pub fn schema(&self) -> Result<SchemaRef> {
        Ok(self.core.view()?.schema.user.clone())
    }

    /// Everything committed by now, pinned.
    pub fn snapshot(&self) -> Result<Snapshot> {
        Ok(Snapshot::new(self.core.clone(), self.core.view()?))
    }

    /// The writers that every step waits for: `query` with steps, and `snapshot`
    /// at a step, see a step once all of them committed or abandoned it. Can be
    /// said once; saying the same again is fine.
    pub fn declare_writers(&self, declared: &Declared) -> Result<()> {
        let size = match declared {
            Declared::Names(names) => names.len() as u64,
            Declared::Count(count) => *count,
        };
        if size == 0 {
            return Err(Error::invalid("declare at least one writer"));
        }
        self.core.check_still_there()?;
        let bytes = serde_json::to_vec(declared).expect("a declaration is plain data");
        if !self.core.store.put_if_absent(WRITERS, &bytes).map_err(store_error)?
            && self.core.view()?.history.declared.as_ref() != Some(declared)
        {
            let why = "other writers were declared before".into();
            return Err(Error::Exists { location: self.location().into(), why });
        }
        Ok(())
    }

    /// Waits until something was committed, rewritten or altered since `seen`, at most for
    /// `patience`; the new snapshot, or `None`. Looks every few milliseconds.
    pub fn wait(&self, seen: &Snapshot, patience: Duration, cancel: &Cancel) -> Result<Option<Snapshot>> {
        let begin = Instant::now();
        loop {
            cancel.check()?;
            let look = Instant::now();
            let view = self.core.view()?;
            let altered = view.schema.version != seen.view.schema.version;
            if altered || view.positions != seen.view.positions || view.rewrites != seen.view.rewrites {
                return Ok(Some(Snapshot::new(self.core.clone(), view)));
            }
            if begin.elapsed() >= patience {
                return Ok(None);
            }
            // With many logs looking takes longer: spend no more than a tenth of a core on it.
            let pause = (look.elapsed() * 10).max(Duration::from_millis(2));
            std::thread::sleep(pause.min(patience.saturating_sub(begin.elapsed())));
        }
    }

    /// Takes a writer's log. Each name has one owner at a time.
    pub fn writer(&self, options: &WriterOptions) -> Result<Writer> {
        Writer::open(self.core.clone(), options)
    }
}

/// The number in the name of a rewrite.
pub(crate) fn number_of(name: &str) -> u64 {
    name[REWRITES.len()..].parse().unwrap_or(0)
}

pub(crate) fn bad_entry(location: &str, name: &str, offset: u64, error: EntryError) -> Error {
    match error {
        EntryError::Bad(what) => Error::Damaged { file: format!("{location}/{name}"), offset, what },
        EntryError::Newer(what) => Error::Newer(format!("{location}/{name}: {what}; a newer Kubist wrote it")),
    }
}

impl Core {
    /// Refuses to work in a forked process, where locks and threads are broken.
    pub fn check_process(&self) -> Result<()> {
        match self.process == std::process::id() {
            true => Ok(()),
            false => Err(Error::Forked { location: self.store.location().into() }),
        }
    }

    /// Refuses if the table is gone, or another was made in its place.
    pub fn check_still_there(&self) -> Result<()> {
        check_not_dropped(self.store.as_ref())?;
        if self.unfinished.load(Ordering::Relaxed) {
            return Ok(());
        }
        let here = self.store.get(TABLE).map_err(store_error)?;
        let why = match here.map(|bytes| entry::decode_header(&bytes)) {
            Some(Ok((header, _))) if header.id == self.header.id => return Ok(()),
            Some(Err(error)) => return Err(bad_entry(self.store.location(), TABLE, 0, error)),
            Some(Ok(_)) => "the table of this handle was dropped and another made in its place: open it again",
            None => "the table of this handle was dropped",
        };
        Err(Error::NotATable { location: self.store.location().into(), why: why.into() })
    }

    /// Says whether the header is yet to come.
    pub fn set_unfinished(&self, unfinished: bool) {
        self.unfinished.store(unfinished, Ordering::Relaxed);
    }

    fn tail(&self) -> MutexGuard<'_, Tail> {
        // A panic while holding the lock leaves a state that is at worst behind.
        self.tail.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Follows all logs and gives the table as it is now.
    ///
    /// Rewrites are listed before the logs are read: a rewrite is published only
    /// after the commits that it needs are durable, so what it needs is seen (I5).
    pub fn view(&self) -> Result<Arc<View>> {
        self.check_process()?;
        let mut tail = self.tail();
        match tail.view.is_none() && !tail.stale {
            true => self.restore(&mut tail)?,
            false => self.keep_up(&mut tail)?,
        }
        let followed = self.follow_all(&mut tail);
        // What has changed may be another table's, made in the place of this one.
        if followed.is_err() || tail.stale {
            self.check_still_there()?;
        }
        followed?;
        if tail.stale || tail.view.is_none() {
            let gained = tail.gained.take();
            let runs = match (&tail.view, gained) {
                (Some(view), Some(gained)) => view.runs.with_added(tail.state.cutoffs(), gained),
                _ => {
                    tail.removed = Arc::new(tail.state.removed().clone());
                    self.runs(&tail)
                }
            };
            let schema = tail.schema.as_ref().unwrap_or(&self.created).clone();
            let view = View::new(schema, runs, tail.history.clone(), &tail.state);
            tail.view = Some(Arc::new(view));
            tail.stale = false;
            tail.gained = Some(Vec::new());
        }
        Ok(tail.view.clone().expect("made above"))
    }

    /// The table as it is now, and what `load` reads of its runs: once more if their pages
    /// were cleaned away meanwhile.
    pub fn view_with<T>(&self, load: impl Fn(&Runs) -> Result<T>) -> Result<(Arc<View>, T)> {
        let mut attempts = 0;
        loop {
            let view = self.view()?;
            match load(&view.runs) {
                Err(Error::SnapshotExpired { .. }) if attempts < 8 => attempts += 1,
                loaded => return Ok((view, loaded?)),
            }
        }
    }

    fn runs(&self, tail: &Tail) -> Runs {
        Runs::new(tail.base.clone(), Directory::new(self.geometry, &tail.state), tail.removed.clone())
    }

    /// Reads on in everything that says what the table is.
    fn follow_all(&self, tail: &mut Tail) -> Result<()> {
        // Cleaning may remove rewrites while they are being read: a checkpoint has
        // them, and it is there first.
        let mut attempts = 0;
        loop {
            let rewrites = self.store.list(REWRITES).map_err(store_error)?;
            if self.follow_logs(tail)? && self.follow_rewrites(tail, &rewrites)? {
                break;
            }
            attempts += 1;
            if attempts > 8 {
                let missing = format!("{REWRITES}{:020}", tail.state.rewrites() + 1);
                let what = "it is missing, and no checkpoint holds it".to_string();
                return Err(bad_entry(self.store.location(), &missing, 0, EntryError::Bad(what)));
            }
            self.restore(tail)?;
        }
        if tail.history.declared.is_none() {
            if let Some(bytes) = self.store.get(WRITERS).map_err(store_error)? {
                let declared = serde_json::from_slice(&bytes).map_err(|error| {
                    bad_entry(self.store.location(), WRITERS, 0, EntryError::Bad(error.to_string()))
                })?;
                tail.history.declared = Some(declared);
                tail.stale = true;
            }
        }
        // After the logs: no run has a column that is not known then.
        self.follow_alterations(tail, u64::MAX)
    }

    /// Reads on in all logs, which must go as far as anything says. `false` if one has lost an
    /// entry that nobody but this handle knew of.
    fn follow_logs(&self, tail: &mut Tail) -> Result<bool> {
        // Listed before the logs: whose segment is there has a log by then.
        let at_work = match tail.looked_at_segments {
            true => BTreeMap::new(),
            false => vouched::at_work(self)?,
        };
        let writers = self.store.logs().map_err(store_error)?;
        let gone = tail.vouched.writers().find(|writer| !writers.iter().any(|log| log == writer));
        if let Some(error) = gone.and_then(|writer| tail.vouched.short(self, writer, None)) {
            return Err(error);
        }
        let from: Vec<(&str, u64)> = writers.iter().map(|name| (name.as_str(), tail.state.position(name))).collect();
        let mut unacknowledged = BTreeSet::new();
        for (writer, read) in writers.iter().zip(self.store.read_logs(&from).map_err(store_error)?) {
            if let Some(error) = tail.vouched.short(self, writer, Some(read.next)) {
                return Err(error);
            }
            if read.next < tail.state.position(writer) {
                return Ok(false);
            }
            if read.durable == 0 && read.next > 0 && read.entries.is_empty() && tail.state.position(writer) == 0 {
                unacknowledged.insert(writer.clone());
            }
            let (next, durable) = (read.next, read.durable);
            self.join(tail, writer, read, u64::MAX)?;
            if durable >= next && tail.state.position(writer) == next {
                tail.vouched.say(writer, next, &tail.history, "its acknowledgement");
            }
        }
        if let Some(error) = vouched::without_log(self, &at_work, &writers, &unacknowledged).into_iter().next() {
            return Err(error);
        }
        tail.looked_at_segments = true;
        Ok(true)
    }

    /// The table as it was at a moment that a view of it had.
    ///
    /// Logs and alterations are never cleaned away; a checkpoint and rewrites lead there
    /// as long as the newest checkpoint is not younger, or all rewrites are still there.
    pub fn view_at(&self, moment: &Moment) -> Result<Arc<View>> {
        self.check_process()?;
        let expired = |why: &str| Error::SnapshotExpired { location: self.store.location().into(), why: why.into() };
        let mut tail = Tail { stale: true, ..Tail::default() };
        let held = checkpoint::load(self)?;
        if let Some(held) = held.filter(|held| moment.is_at_or_after(&held.state)) {
            tail.begin(held);
        }
        for (writer, position) in &moment.positions {
            self.follow(&mut tail, writer, *position)?;
            if tail.state.position(writer) != *position {
                return Err(expired(&format!("the log of {writer} does not lead to it")));
            }
        }
        let rewrites = self.store.list(REWRITES).map_err(store_error)?;
        let known = rewrites.into_iter().filter(|name| number_of(name) <= moment.rewrites);
        let followed = self.follow_rewrites(&mut tail, &known.collect::<Vec<_>>())?;
        if !followed || tail.state.rewrites() != moment.rewrites {
            return Err(expired("rewrites that lead to it were cleaned away; take a fresh snapshot"));
        }
        tail.history.declared = moment.declared.clone();
        self.follow_alterations(&mut tail, moment.alterations)?;
        let schema = tail.schema.as_ref().unwrap_or(&self.created).clone();
        if schema.version != moment.alterations {
            return Err(expired("its columns are not known here"));
        }
        tail.removed = Arc::new(tail.state.removed().clone());
        Ok(Arc::new(View::new(schema, self.runs(&tail), tail.history, &tail.state)))
    }

    /// Joins the rewrites that are new; `false` if one of them was cleaned away.
    fn follow_rewrites(&self, tail: &mut Tail, names: &[String]) -> Result<bool> {
        for name in names {
            let number = number_of(name);
            if number <= tail.state.rewrites() {
                continue;
            }
            if number > tail.state.rewrites() + 1 {
                return Ok(false);
            }
            let Some(bytes) = self.store.get(name).map_err(store_error)? else { return Ok(false) };
            let bad = |error| bad_entry(self.store.location(), name, 0, error);
            let entry = RewriteEntry::decode(&bytes, &self.geometry).map_err(bad)?;
            tail.stale = true;
            tail.gained = None;
            tail.new_entries += 1;
            if let Some(after) = entry.retract_after {
                tail.history.retract(after, &entry.rewrite.needs);
            }
            for (writer, needed) in &entry.rewrite.needs {
                vouched::check_need(self, writer, tail.state.position(writer), number, *needed, &tail.history)?;
            }
            tail.state.rewrite(number, entry.rewrite).map_err(|error| bad(EntryError::Bad(error.to_string())))?;
        }
        Ok(true)
    }

    /// Reads the alterations that are new, up to a number; none is ever cleaned away.
    fn follow_alterations(&self, tail: &mut Tail, last: u64) -> Result<()> {
        loop {
            let schema = tail.schema.as_ref().unwrap_or(&self.created);
            if schema.version >= last {
                return Ok(());
            }
            let name = alter::name_of(schema.version + 1);
            let Some(bytes) = self.store.get(&name).map_err(store_error)? else { return Ok(()) };
            let bad = |error| bad_entry(self.store.location(), &name, 0, error);
            let alteration = Alteration::decode(&bytes).map_err(bad)?;
            let next = schema.altered(&alteration).map_err(|error| bad(EntryError::Bad(error.to_string())))?;
            tail.schema = Some(Arc::new(next));
            tail.stale = true;
        }
    }

    /// Starts anew from the newest checkpoint.
    fn restore(&self, tail: &mut Tail) -> Result<()> {
        *tail = Tail::anew(std::mem::take(&mut tail.vouched));
        if let Some(held) = checkpoint::load(self)? {
            tail.begin(held);
        }
        Ok(())
    }

    /// May so many runs be held in memory?
    pub fn holds(&self, runs: u64) -> bool {
        runs <= self.most_held.load(Ordering::Relaxed)
    }

    /// Starts anew from the newest checkpoint if that is to be: the one that the state began
    /// with is gone, and its pages may be; or the state has become so long that a newer one
    /// is worth a look.
    fn keep_up(&self, tail: &mut Tail) -> Result<()> {
        let long = !self.holds((tail.state.added() - tail.looked_at) as u64);
        if tail.base.is_none() && !long {
            return Ok(());
        }
        let names = self.store.list(checkpoint::CHECKPOINTS).map_err(store_error)?;
        let gone = tail.base.is_some() && !names.iter().any(|name| Some(name) == tail.checkpoint.as_ref());
        if gone || (long && names.last() != tail.checkpoint.as_ref()) {
            return self.restore(tail);
        }
        if long {
            tail.looked_at = tail.state.added();
        }
        Ok(())
    }

    /// Entries and runs in them since the last checkpoint, and live runs.
    pub fn since_checkpoint(&self) -> (u64, u64, u64) {
        let tail = self.tail();
        let runs = tail.view.as_ref().map_or(0, |view| view.runs.about());
        (tail.new_entries, tail.new_runs, runs)
    }

    /// Says that a checkpoint of this view was written.
    pub fn checkpointed(&self, view: &View) {
        let mut tail = self.tail();
        if tail.view.as_ref().is_some_and(|now| now.positions == view.positions) {
            (tail.new_entries, tail.new_runs) = (0, 0);
        }
    }

    /// Reads on in one writer's log, no entry that ends behind `last_position`.
    fn follow(&self, tail: &mut Tail, writer: &str, last_position: u64) -> Result<()> {
        let read = self.store.read_log(writer, tail.state.position(writer)).map_err(store_error)?;
        self.join(tail, writer, read, last_position)
    }

    /// Joins what was read on in one writer's log.
    fn join(&self, tail: &mut Tail, writer: &str, read: LogTail, last_position: u64) -> Result<()> {
        let name: Arc<str> = writer.into();
        let last = read.entries.len().saturating_sub(1);
        for (place, found) in read.entries.iter().enumerate() {
            let bad = |error| bad_entry(self.store.location(), &format!("log of {writer}"), found.position, error);
            let after = if place == last { read.next } else { read.entries[place + 1].position };
            if after > last_position {
                break;
            }
            let mut entry = CommitEntry::decode(&found.bytes, &self.geometry).map_err(bad)?;
            let next = tail.history.writers.get(writer).map_or(0, |progress| progress.commits) + 1;
            if entry.sequence != next {
                let what = format!("it has commit {} where {next} is next", entry.sequence);
                return Err(bad(EntryError::Bad(what)));
            }
            tail.stale = true;
            tail.history.commit(writer, after, &entry);
            tail.new_entries += 1;
            tail.new_runs += entry.commit.runs.len() as u64;
            let step = entry.step.map(|mark| mark.step);
            let origin = Arc::new(Origin { writer: name.clone(), position: after, step });
            for run in &mut entry.commit.runs {
                Arc::make_mut(run).payload.origin = Some(origin.clone());
            }
            let ids: Vec<RunId> = match tail.gained {
                Some(_) => entry.commit.runs.iter().map(|run| run.id).collect(),
                None => Vec::new(),
            };
            tail.state.commit(writer, after, entry.commit);
            let Tail { state, gained, .. } = &mut *tail;
            if let Some(gained) = gained {
                gained.extend(ids.into_iter().filter_map(|id| state.run(id).cloned()));
            }
        }
        Ok(())
    }

    /// The grid, if one is published.
    pub fn frame(&self) -> Result<Option<Arc<Frame>>> {
        if let Some(frame) = self.frame.get() {
            return Ok(Some(frame.clone()));
        }
        let Some(bytes) = self.store.get(GRID).map_err(store_error)? else { return Ok(None) };
        let scales = entry::decode_grid(&bytes, self.geometry.dimensions())
            .map_err(|error| bad_entry(self.store.location(), GRID, 0, error))?;
        let frame = Arc::new(Frame::new(&self.created, self.geometry, scales, self.header.seed));
        Ok(Some(self.frame.get_or_init(|| frame).clone()))
    }

    /// Publishes a grid, or takes the one that another writer published first.
    pub fn publish_grid(&self, scales: &[Scale]) -> Result<Arc<Frame>> {
        self.store.put_if_absent(GRID, &entry::encode_grid(scales)).map_err(store_error)?;
        let missing = || Error::NotATable { location: self.store.location().into(), why: "its grid is missing".into() };
        self.frame()?.ok_or_else(missing)
    }

    /// Makes sure that the header and the grid, which are there, are durable: so
    /// they are once a put has found them.
    pub fn settle_objects(&self) -> Result<()> {
        for name in [TABLE, GRID] {
            if let Some(bytes) = self.store.get(name).map_err(store_error)? {
                self.store.put_if_absent(name, &bytes).map_err(store_error)?;
            }
        }
        Ok(())
    }

    /// Makes sure that the alterations of a schema, which were seen, are durable:
    /// no run with a column may outlive the word of that column.
    pub fn settle_schema(&self, schema: &TableSchema) -> Result<()> {
        for number in self.settled.load(Ordering::Relaxed) + 1..=schema.version {
            let name = alter::name_of(number);
            if let Some(bytes) = self.store.get(&name).map_err(store_error)? {
                self.store.put_if_absent(&name, &bytes).map_err(store_error)?;
            }
            self.settled.fetch_max(number, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The tag of a writer in run ids.
    pub fn origin(writer: &str) -> u64 {
        priority::name_hash(writer)
    }
}
