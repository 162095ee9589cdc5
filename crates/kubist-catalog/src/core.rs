//! Following the logs: what a handle knows of a table, and how it keeps up.
//!
//! Each call reads what the logs gained since the last one and joins it into the state. A
//! view is one state, arranged for reading; it never changes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use arrow_schema::Schema;
use kubist_format::alteration::{self, Alteration};
use kubist_format::entry::{CommitEntry, RewriteEntry};
use kubist_format::error::EntryError;
use kubist_format::header::{self, Header};
use kubist_format::history::{Declared, History};
use kubist_format::location::{Location, Origin};
use kubist_format::names::{CHECKPOINTS, REWRITES, TABLE, UNFINISHED, WRITERS, number_of};
use kubist_index::priority;
use kubist_index::spread::SpreadSet;
use kubist_index::state::{Run, RunId, State};
use kubist_store::{LogTail, Store};
use kubist_types::{Cancel, Error, Result};

use crate::checkpoint::{self, Held};
use crate::directory::{Base, Directory, Runs};
use crate::error::{bad_entry, store_error};
use crate::fetch::{self, Fetched, Piece};
use crate::files::{HALF_COPIED, TableFiles, check_not_dropped};
use crate::heat::Heat;
use crate::schema::TableSchema;
use crate::token::SnapshotToken;
use crate::view::View;
use crate::vouched::{self, Vouched};

/// What all handles, snapshots, queries and writers of a table share.
pub struct Core {
    files: TableFiles,
    pub heat: Heat,
    tail: Mutex<Tail>,
}

impl Deref for Core {
    type Target = TableFiles;

    fn deref(&self) -> &TableFiles {
        &self.files
    }
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

impl Core {
    /// Opens the table in a store and follows its logs.
    pub fn open(store: Arc<dyn Store>) -> Result<Arc<Core>> {
        let core = Core::with_header(store)?;
        core.view()?;
        Ok(core)
    }

    /// A table of which only the header is read.
    pub fn with_header(store: Arc<dyn Store>) -> Result<Arc<Core>> {
        check_not_dropped(store.as_ref())?;
        let there = |name| store.get(name).map_err(store_error);
        let Some(bytes) = there(TABLE)? else {
            let why = if there(UNFINISHED)?.is_some() { HALF_COPIED } else { "it holds no table" };
            return Err(Error::NotATable { location: store.location().into(), why: why.into() });
        };
        let (header, schema): (Header, Schema) =
            header::decode_header(&bytes).map_err(|error| bad_entry(store.location(), TABLE, 0, error))?;
        let names: Vec<&str> = header.dimensions.iter().map(|dimension| dimension.column.as_str()).collect();
        let schema = TableSchema::from_names(&schema, &names, &header.identity, &header.lookup)?;
        Core::with(store, header, schema)
    }

    /// A table whose header and schema are known.
    pub fn with(store: Arc<dyn Store>, header: Header, schema: TableSchema) -> Result<Arc<Core>> {
        let files = TableFiles::new(store, header, schema)?;
        Ok(Arc::new(Core { files, heat: Heat::default(), tail: Mutex::default() }))
    }

    /// Reads pieces of segments.
    pub fn fetch(&self, pieces: &[Piece]) -> Result<Fetched> {
        fetch::fetch(self, pieces).map_err(|unread| unread.explained(self, |segment| self.is_needed(segment)))
    }

    /// Is it a segment of the runs of the table as it is now?
    fn is_needed(&self, segment: &str) -> Result<bool> {
        let mut needed = false;
        self.view()?.runs.each(self, |run| needed |= &*run.payload.segment == segment)?;
        Ok(needed)
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

    /// The table as it was when a view of it had this token.
    ///
    /// Logs and alterations are never cleaned away; a checkpoint and rewrites lead there
    /// as long as the newest checkpoint is not younger, or all rewrites are still there.
    pub fn view_at(&self, token: &SnapshotToken) -> Result<Arc<View>> {
        self.check_process()?;
        let expired = |why: &str| Error::SnapshotExpired { location: self.store.location().into(), why: why.into() };
        let mut tail = Tail { stale: true, ..Tail::default() };
        let held = checkpoint::load(self)?;
        if let Some(held) = held.filter(|held| token.is_at_or_after(&held.state)) {
            tail.begin(held);
        }
        for (writer, position) in &token.positions {
            self.follow(&mut tail, writer, *position)?;
            if tail.state.position(writer) != *position {
                return Err(expired(&format!("the log of {writer} does not lead to it")));
            }
        }
        let rewrites = self.store.list(REWRITES).map_err(store_error)?;
        let known = rewrites.into_iter().filter(|name| number_of(name) <= token.rewrites);
        let followed = self.follow_rewrites(&mut tail, &known.collect::<Vec<_>>())?;
        if !followed || tail.state.rewrites() != token.rewrites {
            return Err(expired("rewrites that lead to it were cleaned away; take a fresh snapshot"));
        }
        tail.history.declared = token.declared.clone();
        self.follow_alterations(&mut tail, token.alterations)?;
        let schema = tail.schema.as_ref().unwrap_or(&self.created).clone();
        if schema.version != token.alterations {
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
            let name = alteration::name_of(schema.version + 1);
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

    /// Starts anew from the newest checkpoint if that is to be: the one that the state began
    /// with is gone, and its pages may be; or the state has become so long that a newer one
    /// is worth a look.
    fn keep_up(&self, tail: &mut Tail) -> Result<()> {
        let long = !self.holds((tail.state.added() - tail.looked_at) as u64);
        if tail.base.is_none() && !long {
            return Ok(());
        }
        let names = self.store.list(CHECKPOINTS).map_err(store_error)?;
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

    /// The tag of a writer in run ids.
    pub fn origin(writer: &str) -> u64 {
        priority::name_hash(writer)
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
        self.check_still_there()?;
        let bytes = serde_json::to_vec(declared).expect("a declaration is plain data");
        if !self.store.put_if_absent(WRITERS, &bytes).map_err(store_error)?
            && self.view()?.history.declared.as_ref() != Some(declared)
        {
            let why = "other writers were declared before".into();
            return Err(Error::Exists { location: self.store.location().into(), why });
        }
        Ok(())
    }

    /// Waits until something was committed, rewritten or altered since `seen`, at most for
    /// `patience`; the new view, or `None`. Looks every few milliseconds.
    pub fn wait(&self, seen: &View, patience: Duration, cancel: &Cancel) -> Result<Option<Arc<View>>> {
        let begin = Instant::now();
        loop {
            cancel.check()?;
            let look = Instant::now();
            let view = self.view()?;
            let altered = view.schema.version != seen.schema.version;
            if altered || view.positions != seen.positions || view.rewrites != seen.rewrites {
                return Ok(Some(view));
            }
            if begin.elapsed() >= patience {
                return Ok(None);
            }
            // With many logs looking takes longer: spend no more than a tenth of a core on it.
            let pause = (look.elapsed() * 10).max(Duration::from_millis(2));
            std::thread::sleep(pause.min(patience.saturating_sub(begin.elapsed())));
        }
    }
}
