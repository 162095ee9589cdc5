//! `Core`: the state that all handles of a table share.
//!
//! One thread at a time refreshes: it takes the `Tail`, follows the logs (`follow`) and builds the next immutable view.
//! No lock is held during I/O, so callers that can use the last view do not wait.

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

/// Waiting calls check for cancellation at this interval.
const LOOK: Duration = Duration::from_millis(20);

pub struct Core {
    files: TableFiles,
    pub read_amplification: ReadAmplification,
    followed: Mutex<Followed>,
    ended: Condvar,
}

impl Deref for Core {
    type Target = TableFiles;

    fn deref(&self) -> &TableFiles {
        &self.files
    }
}

struct Followed {
    /// `None` while a refresh uses it.
    tail: Option<Tail>,
    begun: u64,
    /// The last view, and the number of the refresh that produced it.
    last: Option<(u64, Arc<View>)>,
    checkpointed: Joined,
}

/// A running refresh, whose drop lets the next refresh start.
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

/// Returns `Replaced` instead of `damage` if a new handle reads the table without error.
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

/// Whether every reader finds these bytes damaged. A handle that follows another history reads from the middle of an
/// entry, which looks like damage, so this reads from the beginning. The newest checkpoint does not help: a reader
/// that starts from it may skip real damage.
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
            // The error may have left an entry partly joined.
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
    /// # Errors
    ///
    /// The errors of [`Core::with_header`] and [`Core::view`].
    pub fn open(store: Arc<dyn Store>, cancel: &Cancel) -> Result<Arc<Core>> {
        let look = match is_far(store.as_ref()) {
            true => Some(stoppable(cancel, || FirstLook::at(store.as_ref())).map_err(store_error)?),
            false => None,
        };
        Core::open_seen(store, look, cancel)
    }

    /// # Errors
    ///
    /// `Missing` or `NotATable` if there is no table; the errors of [`Core::open`].
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

    /// Opens a table from its header alone.
    ///
    /// # Errors
    ///
    /// `NotATable` if there is no table, or it was dropped; `Damaged`; `Newer`; a storage error.
    pub fn with_header(store: Arc<dyn Store>) -> Result<Arc<Core>> {
        let there = |name| store.get(name).map_err(store_error);
        let (is_dropped, table) = (there(DROPPED)?.is_some(), there(TABLE)?);
        Core::of_header(store, is_dropped, table)
    }

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
            .and_then(|schema| schema.sampled(&header.sampling))
            .map_err(|error| bad_entry(store.location(), TABLE, 0, EntryError::Bad(error.to_string())))?;
        // This fails only for a damaged header.
        Core::with(store.clone(), header, schema)
            .map_err(|error| bad_entry(store.location(), TABLE, 0, EntryError::Bad(error.to_string())))
    }

    /// # Errors
    ///
    /// `Invalid` without dimensions or with more than 8, or if a column cannot have its error bound.
    pub fn with(store: Arc<dyn Store>, header: Header, schema: TableSchema) -> Result<Arc<Core>> {
        let mut schema = schema.with_accuracy(&header.accuracy)?;
        (schema.compression, schema.strata) = (header.compression, header.strata);
        let files = TableFiles::new(store, header, schema)?;
        let followed = Followed { tail: Some(Tail::default()), begun: 0, last: None, checkpointed: Joined::default() };
        Ok(Arc::new(Core {
            files,
            read_amplification: ReadAmplification::default(),
            followed: Mutex::new(followed),
            ended: Condvar::new(),
        }))
    }

    /// # Errors
    ///
    /// `SnapshotExpired` if a segment was cleaned; `Replaced` if the table has another history; `Damaged` if the table
    /// still needs a segment that is missing or too short; a storage error.
    pub fn fetch(&self, pieces: &[Piece]) -> Result<Fetched> {
        fetch::fetch(self, pieces, |segment| self.is_needed(segment))
    }

    /// Returns `SnapshotExpired` instead of `damage` if no run that `lives` selects is live: cleaning may have freed
    /// the bytes.
    pub fn explained(&self, seen: &View, lives: impl Fn(&Run<Location>) -> bool, damage: Error) -> Error {
        match self.is_replaced(seen, lives) {
            Ok(false) => damage,
            Ok(true) => {
                let (location, why) = (self.store.location().into(), format!("it was cleaned away ({damage})"));
                Error::SnapshotExpired { location, why: format!("{why}; take a fresh snapshot") }
            }
            Err(error) if is_unread(&error) || matches!(error, Error::Cancelled | Error::Replaced { .. }) => error,
            Err(_) => damage,
        }
    }

    /// True if the store frees ranges of segments, and no run selected by `lives` is left.
    fn is_replaced(&self, seen: &View, lives: impl Fn(&Run<Location>) -> bool) -> Result<bool> {
        let cancel = Cancel::default();
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

    fn is_needed(&self, segment: &str) -> Result<bool> {
        let (mut needed, cancel) = (false, Cancel::default());
        let names = |run: &Run<Location>| run.payload.segments().any(|other| **other == *segment);
        self.view(&cancel)?.runs.each(self, &cancel, |run| needed |= names(run))?;
        Ok(needed)
    }

    fn followed(&self) -> MutexGuard<'_, Followed> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a view that contains everything committed before the call.
    ///
    /// Threads share refreshes. A refresh takes the next number before its first request to the store. The call notes
    /// the first number that no refresh has taken, and returns the view of a refresh with that or a higher number,
    /// whichever thread runs it. Such a refresh reads every log after the call began. A running refresh may have read a
    /// log before, so the call only waits until it ends.
    ///
    /// An error of a refresh goes to the call that ran it; a waiting call then runs the next refresh.
    ///
    /// # Errors
    ///
    /// `Cancelled`, also while it waits for another thread; `Damaged` if a log or a rewrite cannot be read; `NotATable`
    /// if the table was dropped; `Replaced` if it has another history; `Forked`; a storage error.
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
            drop(waited);
            cancel.check()?;
            followed = self.followed();
        }
    }

    /// Returns the view of the last refresh without waiting.
    pub fn last_view(&self) -> Option<Arc<View>> {
        self.followed().last.as_ref().map(|(_, view)| view.clone())
    }

    /// Returns the current view and the result of `load`. Retries up to 8 times if pages are cleaned during the load.
    ///
    /// # Errors
    ///
    /// The errors of [`Core::view`] and of `load`.
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

    /// Waits until everything that a token names is visible, on stores with delayed visibility.
    ///
    /// # Errors
    ///
    /// `Cancelled`; `Damaged`; a storage error.
    pub fn see_all_of(&self, token: &SnapshotToken, cancel: &Cancel) -> Result<()> {
        stoppable(cancel, || follow::see_all_of(self, token))
    }

    /// # Errors
    ///
    /// `SnapshotExpired` if files that lead to the snapshot were cleaned; `Forked`; `Damaged`; `Cancelled`; a storage
    /// error.
    pub fn view_at(&self, token: &SnapshotToken, cancel: &Cancel) -> Result<Arc<View>> {
        self.check_process()?;
        stoppable(cancel, || follow::to_token(self, token, cancel))
    }

    /// From the last view: the numbers of entries and runs since the last checkpoint, and of live runs.
    pub fn since_checkpoint(&self) -> (u64, u64, u64) {
        let Some(view) = self.last_view() else { return (0, 0, 0) };
        let (joined, held) = (view.joined, self.followed().checkpointed);
        let since = |all: u64, held: u64| all.saturating_sub(held);
        (since(joined.entries, held.entries), since(joined.runs, held.runs), view.runs.about())
    }

    pub fn checkpointed(&self, view: &View) {
        let mut followed = self.followed();
        followed.checkpointed = followed.checkpointed.max(view.joined);
    }

    pub fn origin(writer: &str) -> u64 {
        priority::name_hash(writer)
    }

    /// Declares the writers of every step, which becomes complete once all declared writers have committed or abandoned
    /// it.
    ///
    /// Repeating the same declaration succeeds, and [`Core::declare_writers_after`] changes it.
    ///
    /// # Errors
    ///
    /// `Invalid` without any writer; `Exists` if others were declared before; the errors of [`Core::view`].
    pub fn declare_writers(&self, declared: &Declared) -> Result<()> {
        self.check_writers(declared)?;
        let bytes = serde_json::to_vec(declared).map_err(Error::internal)?;
        if self.store.put_if_absent(WRITERS, &bytes).map_err(store_error)? {
            return Ok(());
        }
        match self.view(&Cancel::default())?.history.declared_for(i64::MAX) {
            Some(other) if other != declared => {
                let why = format!("its steps are of {other}, not of {declared}: that was declared before");
                Err(Error::Exists { location: self.store.location().into(), why })
            }
            _ => Ok(()),
        }
    }

    /// Waits up to `patience` for a commit, rewrite or alteration after `seen`, with a check each `every`, but at most
    /// every 2 ms.
    ///
    /// # Errors
    ///
    /// The errors of [`Core::view`].
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
            // Checks take at most a tenth of a core.
            let pause = (look.elapsed() * 10).max(Duration::from_millis(2)).max(every.saturating_sub(look.elapsed()));
            let (end, pausing) = (pause.min(patience.saturating_sub(begin.elapsed())), Instant::now());
            while pausing.elapsed() < end {
                cancel.check()?;
                std::thread::sleep(LOOK.min(end.saturating_sub(pausing.elapsed())));
            }
        }
    }
}
