//! What all handles to a table share, and who follows its logs when.
//!
//! A view is one state of the table, arranged for reading; it never changes. One thread at a
//! time refreshes: it takes what was read so far (`tail`), reads on (`follow`), and makes the
//! next view. No lock is held while the store is asked, so that callers which can use the
//! last view do not wait.

use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arrow_schema::Schema;
use bytes::Bytes;
use kubist_format::error::EntryError;
use kubist_format::header::{self, Header};
use kubist_format::history::Declared;
use kubist_format::location::Location;
use kubist_format::names::{DROPPED, TABLE, UNFINISHED, WRITERS};
use kubist_index::priority;
use kubist_index::state::Run;
use kubist_store::Store;
use kubist_types::{Cancel, Error, Result};

use crate::error::{bad_entry, is_damage, is_unread, store_error};
use crate::fetch::{self, Fetched, Piece};
use crate::files::{HALF_COPIED, HALF_DROPPED, TableFiles};
use crate::follow;
use crate::known;
use crate::location::TableLocation;
use crate::look::{FirstLook, is_far};
use crate::read_amplification::ReadAmplification;
use crate::schema::TableSchema;
use crate::stop::stoppable;
use crate::tail::Tail;
use crate::token::SnapshotToken;
use crate::view::{Joined, View};

/// How often a call that waits for a refresh checks its switch.
const LOOK: Duration = Duration::from_millis(20);

/// What all handles, snapshots, queries and writers of a table share.
pub struct Core {
    files: TableFiles,
    pub read_amplification: ReadAmplification,
    followed: Mutex<Followed>,
    /// A refresh has ended.
    ended: Condvar,
}

impl Deref for Core {
    type Target = TableFiles;

    fn deref(&self) -> &TableFiles {
        &self.files
    }
}

/// How far the table was followed. Its lock is held for moments, never over I/O.
struct Followed {
    /// `None` while a refresh is under way, which has it.
    tail: Option<Tail>,
    /// Refreshes that have begun, which are numbered from 1.
    begun: u64,
    /// The last view, and the number of the last refresh that found it.
    last: Option<(u64, Arc<View>)>,
    /// What the newest checkpoint that this handle knows of spares others.
    checkpointed: Joined,
}

/// A refresh under way. However it ends, the next one may begin.
struct Refresh<'a> {
    core: &'a Core,
    number: u64,
    tail: Tail,
    found: Option<Arc<View>>,
}

impl Refresh<'_> {
    fn run(&mut self, cancel: &Cancel) -> Result<Arc<View>> {
        let (files, tail) = (&self.core.files, &mut self.tail);
        let had_begun = tail.begun;
        let followed = follow::once_seen(files, cancel, || follow::to_now(files, tail, cancel));
        // What has changed may be another table's, made at the location of this one.
        match followed {
            Err(error @ (Error::Cancelled | Error::Replaced { .. })) => return Err(error),
            Err(error) => {
                files.check_still_there()?;
                return Err(if is_damage(&error) && had_begun { explained(files, error, cancel) } else { error });
            }
            Ok(()) if tail.is_stale() && !tail.is_known_there => files.check_still_there()?,
            Ok(()) => {}
        }
        let view = tail.view(files);
        self.found = Some(view.clone());
        Ok(view)
    }
}

/// Damage, as who has read the table before meets it: if a handle that has read nothing finds none, something else is
/// there than was read.
fn explained(files: &TableFiles, damage: Error, cancel: &Cancel) -> Error {
    if is_damaged_from_its_beginning(files, &damage) {
        return damage;
    }
    let mut fresh = Tail::default();
    match follow::once_seen(files, cancel, || follow::to_now(files, &mut fresh, cancel)) {
        Ok(()) => known::replaced(files, &format!("it is not as this handle has read it ({damage})")),
        Err(_) => damage,
    }
}

/// Are the bytes damaged for every reader? A handle that follows another history begins in the middle of an entry, which
/// looks like damage; read from its beginning that log is intact. A checkpoint may cover real damage, so a look from the
/// newest checkpoint does not tell.
fn is_damaged_from_its_beginning(files: &TableFiles, damage: &Error) -> bool {
    let store = &files.store;
    let damaged = |error| is_damage(&store_error(error));
    let Error::Damaged { file, .. } = damage else { return false };
    let Some(name) = file.strip_prefix(store.location()).map(|name| name.trim_start_matches('/')) else { return false };
    match name.starts_with("logs/") {
        true => store.logs().is_ok_and(|logs| logs.iter().any(|log| store.read_log(log, 0).is_err_and(damaged))),
        false => store.get(name).is_err_and(damaged),
    }
}

impl Drop for Refresh<'_> {
    fn drop(&mut self) {
        let mut tail = std::mem::take(&mut self.tail);
        if std::thread::panicking() {
            // An entry may be joined in part.
            tail.forget();
        }
        let mut followed = self.core.followed();
        followed.checkpointed = followed.checkpointed.max(tail.checkpointed);
        followed.tail = Some(tail);
        if let Some(view) = self.found.take() {
            followed.last = Some((self.number, view));
        }
        drop(followed);
        self.core.ended.notify_all();
    }
}

impl Core {
    /// Opens the table in a store and follows its logs.
    ///
    /// # Errors
    ///
    /// As of [`Core::with_header`] and [`Core::view`].
    pub fn open(store: Arc<dyn Store>, cancel: &Cancel) -> Result<Arc<Core>> {
        let look = match is_far(store.as_ref()) {
            true => Some(stoppable(cancel, || FirstLook::at(store.as_ref())).map_err(store_error)?),
            false => None,
        };
        Core::open_seen(store, look, cancel)
    }

    /// Opens the table at a location.
    ///
    /// # Errors
    ///
    /// `Missing` or `NotATable` if there is none; as of [`Core::open`].
    pub fn open_at(location: &TableLocation, cancel: &Cancel) -> Result<Arc<Core>> {
        match stoppable(cancel, || location.store_and_look())? {
            (store, None) => Core::open(store, cancel),
            (store, look) => Core::open_seen(store, look, cancel),
        }
    }

    fn open_seen(store: Arc<dyn Store>, look: Option<FirstLook>, cancel: &Cancel) -> Result<Arc<Core>> {
        let core = match look {
            Some(mut look) => {
                let core = Core::of_header(store, look.dropped.is_some(), look.table.take())?;
                core.files.know_grid(look.grid.take());
                if let Some(tail) = &mut core.followed().tail {
                    tail.first_look = Some(look);
                }
                core
            }
            None => stoppable(cancel, || Core::with_header(store))?,
        };
        core.view(cancel)?;
        Ok(core)
    }

    /// A table of which only the header is read.
    ///
    /// # Errors
    ///
    /// `NotATable` if there is none, or it was dropped; `Damaged`; `Newer`; a storage error.
    pub fn with_header(store: Arc<dyn Store>) -> Result<Arc<Core>> {
        let there = |name| store.get(name).map_err(store_error);
        let (is_dropped, table) = (there(DROPPED)?.is_some(), there(TABLE)?);
        Core::of_header(store, is_dropped, table)
    }

    /// The same, of a header that was just read.
    fn of_header(store: Arc<dyn Store>, is_dropped: bool, table: Option<Bytes>) -> Result<Arc<Core>> {
        if is_dropped {
            return Err(Error::NotATable { location: store.location().into(), why: HALF_DROPPED.into() });
        }
        let there = |name| store.get(name).map_err(store_error);
        let Some(bytes) = table else {
            let why = if there(UNFINISHED)?.is_some() { HALF_COPIED } else { "it holds no table" };
            return Err(Error::NotATable { location: store.location().into(), why: why.into() });
        };
        let (header, schema): (Header, Schema) =
            header::decode_header(&bytes).map_err(|error| bad_entry(store.location(), TABLE, 0, error))?;
        let names: Vec<&str> = header.dimensions.iter().map(|dimension| dimension.column.as_str()).collect();
        let schema = TableSchema::from_names(&schema, &names, &header.identity, &header.lookup)
            .map_err(|error| bad_entry(store.location(), TABLE, 0, EntryError::Bad(error.to_string())))?;
        // Of what a header says, only a damaged one can be wrong.
        Core::with(store.clone(), header, schema)
            .map_err(|error| bad_entry(store.location(), TABLE, 0, EntryError::Bad(error.to_string())))
    }

    /// A table whose header and schema are known.
    ///
    /// # Errors
    ///
    /// `Invalid` if it has no dimension, or more than 8, or a column cannot have its accuracy.
    pub fn with(store: Arc<dyn Store>, header: Header, schema: TableSchema) -> Result<Arc<Core>> {
        let mut schema = schema.with_accuracy(&header.accuracy)?;
        schema.compression = header.compression;
        let files = TableFiles::new(store, header, schema)?;
        let followed = Followed { tail: Some(Tail::default()), begun: 0, last: None, checkpointed: Joined::default() };
        Ok(Arc::new(Core {
            files,
            read_amplification: ReadAmplification::default(),
            followed: Mutex::new(followed),
            ended: Condvar::new(),
        }))
    }

    /// Reads pieces of segments.
    ///
    /// # Errors
    ///
    /// `SnapshotExpired` if a segment was cleaned away; `Replaced` if another table or history has come; `Damaged` if
    /// the table still needs one that is missing or too short; a storage error.
    pub fn fetch(&self, pieces: &[Piece]) -> Result<Fetched> {
        fetch::fetch(self, pieces, |segment| self.is_needed(segment))
    }

    /// An error of bytes that were not as they were written, as a snapshot of `seen` gets it: once
    /// what they were of does not live any more, they may have been given back.
    pub fn explained(&self, seen: &View, lives: impl Fn(&Run<Location>) -> bool, damage: Error) -> Error {
        match self.is_replaced(seen, lives) {
            Ok(false) => damage,
            Ok(true) => {
                let (location, why) = (self.store.location().into(), format!("it was cleaned away ({damage})"));
                Error::SnapshotExpired { location, why: format!("{why}; take a fresh snapshot") }
            }
            // Whether it lives cannot be known now.
            Err(error) if is_unread(&error) || matches!(error, Error::Cancelled | Error::Replaced { .. }) => error,
            Err(_) => damage,
        }
    }

    /// Is nothing of what lived as of `seen` left, where that may be given back?
    fn is_replaced(&self, seen: &View, lives: impl Fn(&Run<Location>) -> bool) -> Result<bool> {
        let cancel = Cancel::default();
        // What dies is removed by a rewrite.
        if !self.store.capabilities().punches || self.view(&cancel)?.rewrites == seen.rewrites {
            return Ok(false);
        }
        let (_, found) = self.view_with(&cancel, |view| {
            let mut found = false;
            view.runs.each(self, &cancel, |run| found |= lives(run))?;
            Ok(found)
        })?;
        Ok(!found)
    }

    /// Is it a segment of the runs of the table as it is now, or of lookups into them?
    fn is_needed(&self, segment: &str) -> Result<bool> {
        let (mut needed, cancel) = (false, Cancel::default());
        let names = |run: &Run<Location>| run.payload.segments().any(|other| **other == *segment);
        self.view(&cancel)?.runs.each(self, &cancel, |run| needed |= names(run))?;
        Ok(needed)
    }

    fn followed(&self) -> MutexGuard<'_, Followed> {
        // Nothing panics while holding it.
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows all logs and gives the table as it is now: everything that was committed
    /// before the call began is in it.
    ///
    /// That holds with one refresh at a time, because the call answers with a refresh that
    /// began after it did. Refreshes are numbered as they begin, and one takes its number
    /// before it asks the store for anything. The call notes `next`, a number that no refresh
    /// has taken yet, and answers with the view of a refresh of that number or a later one:
    /// its own, or that of another thread. Such a refresh reads each log after the call
    /// began, and a commit that was acknowledged before is durable in its log by then. A
    /// refresh that was under way when the call began may have read that log before, so it is
    /// waited for but never answered with.
    ///
    /// A refresh that fails is the failure of the call that made it; who waited for it makes
    /// the next one, from where it came to.
    ///
    /// # Errors
    ///
    /// `Cancelled`, also while another thread's refresh is waited for; `Damaged` if a log or
    /// a rewrite cannot be read, `NotATable` if it was dropped, `Replaced` if another table or another history
    /// of it is there, `Forked`, or a storage error.
    pub fn view(&self, cancel: &Cancel) -> Result<Arc<View>> {
        self.check_process()?;
        let mut followed = self.followed();
        let next = followed.begun + 1;
        loop {
            if let Some((_, view)) = followed.last.as_ref().filter(|(number, _)| *number >= next) {
                return Ok(view.clone());
            }
            if let Some(tail) = followed.tail.take() {
                followed.begun += 1;
                let number = followed.begun;
                drop(followed);
                return stoppable(cancel, || Refresh { core: self, number, tail, found: None }.run(cancel));
            }
            let (waited, _) = self.ended.wait_timeout(followed, LOOK).unwrap_or_else(PoisonError::into_inner);
            // Not under the lock: who asks may wait for something itself.
            drop(waited);
            cancel.check()?;
            followed = self.followed();
        }
    }

    /// The view that the last refresh found, without waiting for one; `None` before the first.
    pub fn last_view(&self) -> Option<Arc<View>> {
        self.followed().last.as_ref().map(|(_, view)| view.clone())
    }

    /// The table as it is now, and what `load` reads of its runs: once more if their pages
    /// were cleaned away meanwhile.
    ///
    /// # Errors
    ///
    /// As of [`Core::view`], and what `load` returns.
    pub fn view_with<T>(&self, cancel: &Cancel, load: impl Fn(&View) -> Result<T>) -> Result<(Arc<View>, T)> {
        let mut attempts = 0;
        loop {
            let view = self.view(cancel)?;
            match load(&view) {
                Err(Error::SnapshotExpired { .. }) if attempts < 8 => attempts += 1,
                loaded => return Ok((view, loaded?)),
            }
        }
    }

    /// Waits until what a token names is seen here, where that may be late: others have seen it.
    ///
    /// # Errors
    ///
    /// `Cancelled`; `Damaged`; a storage error.
    pub fn see_all_of(&self, token: &SnapshotToken, cancel: &Cancel) -> Result<()> {
        stoppable(cancel, || follow::see_all_of(self, token))
    }

    /// The table as it was when a view of it had this token.
    ///
    /// # Errors
    ///
    /// `SnapshotExpired` if what leads to that state was cleaned away; `Forked`; `Damaged`;
    /// `Cancelled`; a storage error.
    pub fn view_at(&self, token: &SnapshotToken, cancel: &Cancel) -> Result<Arc<View>> {
        self.check_process()?;
        stoppable(cancel, || follow::to_token(self, token, cancel))
    }

    /// Entries and runs in them since the last checkpoint, and live runs, as of the last view.
    pub fn since_checkpoint(&self) -> (u64, u64, u64) {
        let Some(view) = self.last_view() else { return (0, 0, 0) };
        let (joined, held) = (view.joined, self.followed().checkpointed);
        let since = |all: u64, held: u64| all.saturating_sub(held);
        (since(joined.entries, held.entries), since(joined.runs, held.runs), view.runs.about())
    }

    /// Says that a checkpoint of this view was written.
    pub fn checkpointed(&self, view: &View) {
        let mut followed = self.followed();
        followed.checkpointed = followed.checkpointed.max(view.joined);
    }

    /// The tag of a writer in run ids.
    pub fn origin(writer: &str) -> u64 {
        priority::name_hash(writer)
    }

    /// The writers that every step waits for: `query` with steps, and `snapshot`
    /// at a step, see a step once all of them committed or abandoned it. They can be
    /// declared once; declaring the same again is fine. [`Core::declare_writers_after`] changes them.
    ///
    /// # Errors
    ///
    /// `Invalid` without any writer; `Exists` if others were declared before; as of [`Core::view`];
    /// a storage error.
    pub fn declare_writers(&self, declared: &Declared) -> Result<()> {
        self.check_writers(declared)?;
        let bytes = serde_json::to_vec(declared).map_err(Error::internal)?;
        if self.store.put_if_absent(WRITERS, &bytes).map_err(store_error)? {
            return Ok(());
        }
        // Of the steps that come.
        match self.view(&Cancel::default())?.history.declared_for(i64::MAX) {
            Some(other) if other != declared => {
                let why = format!("its steps are of {other}, not of {declared}: that was declared before");
                Err(Error::Exists { location: self.store.location().into(), why })
            }
            _ => Ok(()),
        }
    }

    /// Waits until something was committed, rewritten or altered since `seen`, at most for
    /// `patience`; the new view, or `None`. Looks as often as `every` says, and at most every few
    /// milliseconds.
    ///
    /// # Errors
    ///
    /// `Cancelled`, or as of [`Core::view`].
    pub fn wait(&self, seen: &View, every: Duration, patience: Duration, cancel: &Cancel) -> Result<Option<Arc<View>>> {
        let begin = Instant::now();
        loop {
            cancel.check()?;
            let look = Instant::now();
            let view = self.view(cancel)?;
            let altered = view.schema.version != seen.schema.version;
            if altered || view.positions != seen.positions || view.rewrites != seen.rewrites {
                return Ok(Some(view));
            }
            if begin.elapsed() >= patience {
                return Ok(None);
            }
            // With many logs looking takes longer: spend no more than a tenth of a core on it.
            let pause = (look.elapsed() * 10).max(Duration::from_millis(2)).max(every.saturating_sub(look.elapsed()));
            let (end, pausing) = (pause.min(patience.saturating_sub(begin.elapsed())), Instant::now());
            while pausing.elapsed() < end {
                cancel.check()?;
                std::thread::sleep(LOOK.min(end.saturating_sub(pausing.elapsed())));
            }
        }
    }
}
