//! Following a table: reads new entries of its logs, rewrites, alterations and checkpoints, and adds ("joins") them to
//! the `Tail`, the state that a handle has read so far.
//!
//! Every function here waits for the store, so callers must not hold a lock.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use kubist_format::alteration;
use kubist_format::error::EntryError;
use kubist_format::names::{ALTERATIONS, CHECKPOINTS, DROPPED, REWRITES, TABLE, WRITERS, number_of, rewrite_name};
use kubist_store::{LogTail, Store, StoreExt, switches};
use kubist_types::{Cancel, Error, Result};

use crate::checkpoint::{self, LoadedCheckpoint};
use crate::error::{bad_entry, missing_alteration, store_error};
use crate::files::TableFiles;
use crate::known::KnownState;
use crate::look::{FirstLook, get_all, in_parallel, is_far};
use crate::proven_positions;
use crate::tail::Tail;
use crate::token::SnapshotToken;
use crate::view::View;

/// Number of logs in one request; cancellation is checked between requests.
const LOGS_AT_ONCE: usize = 256;
const REWRITES_AT_ONCE: usize = 16;
/// Limit in bytes of the checkpoint pages that opening a table prefetches from a remote store.
const FEW_PAGES: u64 = 4 << 20;
const MOST_RESTARTS: usize = 8;

/// Calls `follow` again while apparent damage may come from delayed visibility. For example, a rewrite may be visible
/// before a commit that it needs.
///
/// # Errors
///
/// The errors of `follow`, and `Cancelled`.
pub fn once_seen<T>(files: &TableFiles, cancel: &Cancel, mut follow: impl FnMut() -> Result<T>) -> Result<T> {
    let mut attempt = 0;
    loop {
        match follow() {
            Err(Error::Damaged { .. }) if files.store.look_again(attempt).map_err(store_error)? => attempt += 1,
            followed => return followed,
        }
        cancel.check()?;
    }
}

/// Follows the table, so that everything durable before the call is joined. It follows again if an alteration needs
/// rewrites that were published after the listing, or if runs use columns or grids that the store does not show yet.
///
/// # Errors
///
/// `Damaged` if a log, a rewrite or an alteration cannot be read, or is shorter than other files prove; `Replaced` if
/// the table has another history; `Newer`; `Cancelled`; a storage error.
pub fn to_now(files: &TableFiles, tail: &mut Tail, cancel: &Cancel) -> Result<()> {
    cancel.check()?;
    let (store, known) = (files.store.as_ref(), KnownState::of(files, tail));
    let (there, followed) = in_parallel(store, || known.ask(store), || read_on(files, tail, cancel));
    followed?;
    known.check(files, tail, &there.map_err(store_error)?, cancel)
}

fn read_on(files: &TableFiles, tail: &mut Tail, cancel: &Cancel) -> Result<()> {
    if let Some(read) = glance(files, tail)?
        && join_read(files, tail, read, cancel)?
    {
        return Ok(());
    }
    let mut attempt = 0;
    loop {
        follow_all(files, tail, cancel)?;
        let has_rewrites = tail.state.rewrites() >= tail.needs_rewrites;
        if has_rewrites && tail.is_described(files) {
            return Ok(());
        }
        let is_late = files.store.look_again(attempt).map_err(store_error)?;
        if has_rewrites && !is_late {
            // A query that reads a run with unknown columns reports what is missing.
            return match tail.schema(files).version {
                version if version < tail.history.needs_alterations => {
                    Err(missing_alteration(files.store.location(), version + 1))
                }
                _ => Ok(()),
            };
        }
        if attempt as usize > MOST_RESTARTS && !is_late {
            let missing = rewrite_name(tail.needs_rewrites);
            let what = "an alteration needs it, and it is missing".to_string();
            return Err(bad_entry(files.store.location(), &missing, 0, EntryError::Bad(what)));
        }
        attempt += 1;
    }
}

fn follow_all(files: &TableFiles, tail: &mut Tail, cancel: &Cancel) -> Result<()> {
    let mut look = tail.first_look.take();
    let listed = look.as_mut().map(|look| std::mem::take(&mut look.checkpoints));
    // `FirstLook` has already made the listings that must precede the logs.
    let mut logs = None;
    match (tail.begun, listed) {
        (true, _) => keep_up(files, tail, cancel)?,
        (false, None) => restore(files, tail, cancel)?,
        (false, listed) => {
            let store = files.store.as_ref();
            let (names, held) = in_parallel(store, || store.logs(), || checkpoint::load_listed(files, listed, cancel));
            tail.begin(held?);
            logs = Some(names.map_err(store_error)?);
        }
    }
    // On a remote store the last look runs in parallel with the logs, because a checkpoint usually contains
    // everything. It is repeated only if something was joined.
    let (early, joined) = (is_far(files.store.as_ref()) && tail.checkpoint.is_some() && look.is_some(), tail.joined());
    let last = LastLook::of(files, tail);
    let (followed, seen) = match early {
        true => {
            let ask = || last.ask(files);
            let (seen, followed) =
                in_parallel(files.store.as_ref(), ask, || follow_entries(files, tail, look, logs, cancel));
            (followed, Some(seen))
        }
        false => (follow_entries(files, tail, look, logs, cancel), None),
    };
    followed?;
    tail.is_known_there = false;
    let (last, seen) = match seen.filter(|_| tail.joined() == joined && tail.checkpoint == last.checkpoint) {
        Some(seen) => (last, seen?),
        None => {
            let last = LastLook::of(files, tail);
            let seen = last.ask(files)?;
            (last, seen)
        }
    };
    last.join(files, tail, seen, cancel)
}

/// The requests that must follow the logs, so that the columns of all joined runs are known.
struct LastLook {
    version: u64,
    altered: String,
    checkpoint: Option<String>,
    is_of_table: bool,
    is_of_writers: bool,
}

impl LastLook {
    fn of(files: &TableFiles, tail: &Tail) -> LastLook {
        let version = tail.schema(files).version;
        LastLook {
            version,
            altered: alteration::name_of(version + 1),
            checkpoint: tail.checkpoint.clone(),
            is_of_table: is_far(files.store.as_ref()) && tail.is_stale(),
            is_of_writers: tail.history.declared.is_none(),
        }
    }

    /// Returns the objects in the order that `join` expects, and the names of later alterations.
    fn ask(&self, files: &TableFiles) -> Result<(Vec<Option<Bytes>>, Vec<String>)> {
        let mut asked = vec![self.altered.clone()];
        asked.extend(self.is_of_table.then(|| [DROPPED, TABLE].map(str::to_string)).into_iter().flatten());
        asked.extend(self.is_of_writers.then(|| WRITERS.to_string()));
        let store = files.store.as_ref();
        // Only a later alteration proves that one is missing.
        let later = || store.list_after(ALTERATIONS, &alteration::name_of(self.version));
        let (later, found) = in_parallel(store, later, || get_all(store, &asked));
        Ok((found.map_err(store_error)?, later.map_err(store_error)?))
    }

    fn join(
        &self,
        files: &TableFiles,
        tail: &mut Tail,
        (found, later): (Vec<Option<Bytes>>, Vec<String>),
        cancel: &Cancel,
    ) -> Result<()> {
        let mut found = found.into_iter();
        let altered = found.next().flatten();
        let table = self.is_of_table.then(|| (found.next().flatten().is_some(), found.next().flatten()));
        let declared = found.next().flatten();
        if let Some((is_dropped, table)) = table.filter(|_| declared.is_none() && altered.is_none()) {
            files.check_seen(is_dropped, table)?;
            tail.is_known_there = true;
        }
        if let Some(bytes) = declared {
            let declared = serde_json::from_slice(&bytes)
                .map_err(|error| bad_entry(files.store.location(), WRITERS, 0, EntryError::Bad(error.to_string())))?;
            tail.join_declared(declared);
        }
        match altered {
            Some(bytes) => tail.join_alteration(files, &self.altered, &bytes)?,
            None if later.is_empty() => return Ok(()),
            None if !later.contains(&self.altered) => {
                return Err(missing_alteration(files.store.location(), self.version + 1));
            }
            None => {}
        }
        follow_alterations(files, tail, u64::MAX, cancel)?;
        match later.last().map_or(0, |last| number_of(last)) > tail.schema(files).version {
            true => Err(missing_alteration(files.store.location(), tail.schema(files).version + 1)),
            false => Ok(()),
        }
    }
}

fn follow_entries(
    files: &TableFiles,
    tail: &mut Tail,
    mut look: Option<FirstLook>,
    mut logs: Option<Vec<String>>,
    cancel: &Cancel,
) -> Result<()> {
    // Cleaning can remove rewrites during the read, but only after a checkpoint contains them.
    let mut restarts = 0;
    loop {
        cancel.check()?;
        // Listed before the logs are read: a rewrite is published only after the commits it needs are durable (I5).
        let (new, listed_at, at_work) = match look.take() {
            Some(mut look) => {
                let known = rewrite_name(tail.state.rewrites());
                look.rewrites.retain(|name| *name > known);
                let new: Vec<NamedRewrite> = look.rewrites.into_iter().map(|name| (name, None)).collect();
                (new, None, proven_positions::owners(&look.segments))
            }
            None => {
                let (new, listed_at) = new_rewrites(files, tail)?;
                // A writer with a listed segment already has a log.
                let at_work = if tail.looked_at_segments { BTreeMap::new() } else { proven_positions::at_work(files)? };
                (new, listed_at, at_work)
            }
        };
        tail.listed_at = None;
        let writers = logs.take().map_or_else(|| files.store.logs().map_err(store_error), Ok)?;
        if follow_logs(files, tail, &at_work, writers, cancel)? && follow_rewrites(files, tail, &new, cancel)? {
            tail.listed_at = listed_at;
            break;
        }
        restarts += 1;
        if restarts > MOST_RESTARTS {
            let missing = rewrite_name(tail.state.rewrites() + 1);
            let what = "it is missing, and no checkpoint holds it".to_string();
            return Err(bad_entry(files.store.location(), &missing, 0, EntryError::Bad(what)));
        }
        restore(files, tail, cancel)?;
    }
    Ok(())
}

/// Reads the new entries of the known logs. On a remote store, it checks in parallel that nothing else is new; without
/// new rewrites, the order does not matter. `None` if something else may be new: then `follow_all` reads in order.
fn glance(files: &TableFiles, tail: &Tail) -> Result<Option<Vec<LogTail>>> {
    if !is_far(files.store.as_ref())
        || !tail.begun
        || !tail.looked_at_segments
        || tail.is_stale()
        || tail.state.rewrites() < tail.needs_rewrites
        || is_long(files, tail)
    {
        return Ok(None);
    }
    let store = files.store.as_ref();
    let from: Vec<(&str, u64)> = tail.logs.iter().map(|name| (name.as_str(), tail.state.position(name))).collect();
    let (rewrites, altered) = (rewrite_name(tail.state.rewrites()), alteration::name_of(tail.schema(files).version));
    let (logs, is_declared) = (&tail.logs, tail.history.declared.is_some());
    // If the checkpoint is gone, its pages are gone too.
    let checkpoint = tail.base.as_ref().and(tail.checkpoint.as_ref());
    let switches = &switches();
    let (answers, read) = thread::scope(|scope| {
        let others = [
            scope.spawn(|| switches.around(|| store.list_after(REWRITES, &rewrites).map(|names| names.is_empty()))),
            scope.spawn(|| switches.around(|| store.logs().map(|names| names == *logs))),
            scope.spawn(|| switches.around(|| store.list_after(ALTERATIONS, &altered).map(|names| names.is_empty()))),
            scope.spawn(|| switches.around(|| Ok(is_declared || store.get(WRITERS)?.is_none()))),
            scope.spawn(|| {
                switches.around(|| checkpoint.map_or(Ok(true), |name| Ok(store.list(CHECKPOINTS)?.contains(name))))
            }),
        ];
        let read = store.read_logs(&from);
        (others.map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic))), read)
    });
    let mut same = true;
    let looked = |failed| match failed {
        // For example a log is gone; `follow_all` finds the cause.
        kubist_store::Error::Missing { .. } | kubist_store::Error::Damaged { .. } => Ok(false),
        error => Err(store_error(error)),
    };
    for answer in answers {
        same &= answer.or_else(looked)?;
    }
    match read {
        Ok(read) => Ok(Some(read).filter(|_| same)),
        Err(error) => looked(error).map(|_| None),
    }
}

/// Returns `false` if the entries that `glance` read need other files too.
fn join_read(files: &TableFiles, tail: &mut Tail, read: Vec<LogTail>, cancel: &Cancel) -> Result<bool> {
    let writers = tail.logs.clone();
    for (writer, read) in writers.iter().zip(read) {
        if read.next < tail.state.position(writer) || tail.proven.shortfall(files, writer, Some(read.next)).is_some() {
            return Ok(false);
        }
        let (next, durable) = (read.next, read.durable);
        if next == tail.state.position(writer) {
            continue;
        }
        tail.is_known_there = false;
        tail.join_log(files, writer, read, u64::MAX, cancel)?;
        if durable >= next && tail.state.position(writer) == next {
            tail.proven.say(writer, next, &tail.history, "its acknowledgement");
        }
    }
    Ok(tail.is_described(files))
}

/// Returns the snapshot at a token. It exists if the newest checkpoint is not newer than the token, or if all rewrites
/// still exist.
///
/// # Errors
///
/// `SnapshotExpired` if rewrites that lead to the snapshot were cleaned; `Replaced` if the table has another history,
/// for example after a restore from a backup; otherwise the errors of [`to_now`].
pub fn to_token(files: &TableFiles, token: &SnapshotToken, cancel: &Cancel) -> Result<Arc<View>> {
    let held = checkpoint::load(files, cancel)?;
    from_to_token(files, held.filter(|held| token.is_at_or_after(&held.state)), token, cancel)
}

/// Like [`to_token`], from a checkpoint that is not newer than the token.
///
/// # Errors
///
/// The errors of [`to_token`].
pub fn from_to_token(
    files: &TableFiles,
    held: Option<LoadedCheckpoint>,
    token: &SnapshotToken,
    cancel: &Cancel,
) -> Result<Arc<View>> {
    let mut tail = Tail::default();
    tail.begin(held);
    match follow_to_token(files, &mut tail, token, cancel) {
        // The files are intact but belong to another history.
        Err(Error::Damaged { what, .. }) if tail.is_misfit => Err(other_history(files, &what)),
        followed => followed,
    }
}

fn other_history(files: &TableFiles, why: &str) -> Error {
    let why = format!("the token is of another history of the table, which was restored or copied since: {why}");
    Error::Replaced { location: files.store.location().into(), why }
}

fn follow_to_token(files: &TableFiles, tail: &mut Tail, token: &SnapshotToken, cancel: &Cancel) -> Result<Arc<View>> {
    let mut behind = token.positions.clone();
    behind.retain(|(writer, position)| tail.state.position(writer) != *position);
    for some in behind.chunks(LOGS_AT_ONCE) {
        cancel.check()?;
        let from: Vec<(&str, u64)> = some.iter().map(|(name, _)| (name.as_str(), tail.state.position(name))).collect();
        let read = files.store.read_logs(&from).map_err(store_error)?;
        for ((writer, position), read) in some.iter().zip(read) {
            tail.join_log(files, writer, read, *position, cancel)?;
            if tail.state.position(writer) != *position {
                return Err(other_history(files, &format!("the log of {writer} has no entry at {position}")));
            }
        }
    }
    cancel.check()?;
    let (mut names, _) = new_rewrites(files, tail)?;
    names.retain(|(name, _)| number_of(name) <= token.rewrites);
    let followed = follow_rewrites(files, tail, &names, cancel)?;
    if !followed || tail.state.rewrites() != token.rewrites {
        let why = "rewrites that lead to it were cleaned away; take a fresh snapshot".into();
        return Err(Error::SnapshotExpired { location: files.store.location().into(), why });
    }
    tail.history.declared = token.declared.clone();
    follow_alterations(files, tail, token.alterations, cancel)?;
    if tail.schema(files).version != token.alterations {
        return Err(other_history(files, "it has fewer added columns"));
    }
    let view = tail.view(files);
    match SnapshotToken::of(files, &view).chain == token.chain {
        true => Ok(view),
        false => Err(other_history(files, "the hashes of their commits differ")),
    }
}

/// Waits until this machine sees everything that a token names, but not on stores without delayed visibility.
///
/// # Errors
///
/// `Cancelled`; `Damaged`; a storage error.
pub fn see_all_of(files: &TableFiles, token: &SnapshotToken) -> Result<()> {
    let store = files.store.as_ref();
    if store.capabilities().staleness.is_zero() {
        return Ok(());
    }
    store.await_seen(&mut || sees_all_of(store, token)).map(drop).map_err(store_error)
}

fn sees_all_of(store: &dyn Store, token: &SnapshotToken) -> kubist_store::Result<bool> {
    for (writer, position) in &token.positions {
        match store.read_log(writer, *position) {
            Ok(read) if read.next >= *position => {}
            Ok(_) | Err(kubist_store::Error::Missing { .. }) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    let is_there = |name: &str| store.get(name).map(|found| found.is_some());
    // A rewrite may be cleaned if later ones exist.
    Ok((token.alterations == 0 || is_there(&alteration::name_of(token.alterations))?)
        && (token.declared.is_none() || is_there(WRITERS)?)
        && (token.rewrites == 0
            || is_there(&rewrite_name(token.rewrites))?
            || !store.list_after(REWRITES, &rewrite_name(token.rewrites))?.is_empty()))
}

/// The name of a rewrite, with its content if that was already read.
type NamedRewrite = (String, Option<Bytes>);

/// Returns the rewrites after the joined ones, and, if useful, the newest checkpoint before the listing. If a listing
/// may be stale, it also reads rewrites by number. While the newest checkpoint is unchanged, it needs no listing,
/// because a rewrite is cleaned only after a checkpoint contains it.
fn new_rewrites(files: &TableFiles, tail: &Tail) -> Result<(Vec<NamedRewrite>, Option<Option<String>>)> {
    let (store, behind) = (files.store.as_ref(), tail.state.rewrites());
    let is_late = !store.capabilities().staleness.is_zero();
    let by_number = !is_late && !is_far(store);
    let newest = || store.list(CHECKPOINTS).map(|mut names| names.pop()).map_err(store_error);
    let mut read = Vec::new();
    if let Some(known) = tail.listed_at.as_ref().filter(|_| by_number) {
        read = consecutive_rewrites(files, behind, REWRITES_AT_ONCE)?;
        // The checkpoint is unchanged, so no rewrite was cleaned.
        if read.len() < REWRITES_AT_ONCE && newest()? == *known {
            return Ok((read, tail.listed_at.clone()));
        }
    }
    let listed_at = if by_number { Some(newest()?) } else { None };
    let names = store.list_after(REWRITES, &rewrite_name(behind)).map_err(store_error)?;
    let last = names.last().map_or(behind, |name| number_of(name));
    let bytes_of = |name: &String| read.iter().find(|(read, _)| read == name).and_then(|(_, bytes)| bytes.clone());
    let mut found: Vec<NamedRewrite> = names.into_iter().map(|name| (name.clone(), bytes_of(&name))).collect();
    if is_late {
        found.extend(consecutive_rewrites(files, last, usize::MAX)?.into_iter().map(|(name, _)| (name, None)));
    }
    Ok((found, listed_at))
}

fn consecutive_rewrites(files: &TableFiles, behind: u64, most: usize) -> Result<Vec<NamedRewrite>> {
    let mut found = Vec::new();
    for name in (behind + 1..).map(rewrite_name).take(most) {
        let Some(bytes) = files.store.get(&name).map_err(store_error)? else { break };
        found.push((name, Some(bytes)));
    }
    Ok(found)
}

fn restore(files: &TableFiles, tail: &mut Tail, cancel: &Cancel) -> Result<()> {
    let held = checkpoint::load(files, cancel)?;
    tail.begin(held);
    Ok(())
}

/// Restarts from the newest checkpoint if the current one is gone (its pages may be too), or if much was added since.
fn keep_up(files: &TableFiles, tail: &mut Tail, cancel: &Cancel) -> Result<()> {
    let long = is_long(files, tail);
    if tail.base.is_none() && !long {
        return Ok(());
    }
    let names = files.store.list(CHECKPOINTS).map_err(store_error)?;
    let gone = tail.base.is_some() && !names.iter().any(|name| Some(name) == tail.checkpoint.as_ref());
    if gone || (long && names.last() != tail.checkpoint.as_ref()) {
        return restore(files, tail, cancel);
    }
    if long {
        tail.looked_at = tail.state.added();
    }
    Ok(())
}

fn is_long(files: &TableFiles, tail: &Tail) -> bool {
    !files.fits_in_memory((tail.state.added() - tail.looked_at) as u64)
}

/// Reads the new entries of the logs; it is damage if a log ends before a position that other files prove. Returns
/// `false` if a log lost an entry that only this handle had read.
fn follow_logs(
    files: &TableFiles,
    tail: &mut Tail,
    at_work: &BTreeMap<String, String>,
    writers: Vec<String>,
    cancel: &Cancel,
) -> Result<bool> {
    let gone = tail.proven.writers().find(|writer| !writers.iter().any(|log| log == writer));
    if let Some(error) = gone.and_then(|writer| tail.proven.shortfall(files, writer, None)) {
        return Err(error);
    }
    let mut unacknowledged = BTreeSet::new();
    // Queries will need the pages of a new checkpoint, so they are fetched with the logs if they are few.
    let store = files.store.as_ref();
    let mut base =
        tail.base.clone().filter(|base| is_far(store) && !tail.looked_at_segments && base.bytes() <= FEW_PAGES);
    for some in writers.chunks(LOGS_AT_ONCE) {
        cancel.check()?;
        let from: Vec<(&str, u64)> = some.iter().map(|name| (name.as_str(), tail.state.position(name))).collect();
        // A query that needs the pages reports the error.
        let bring = || base.take().is_some_and(|base| base.bring(files).is_ok());
        let (read, _) = in_parallel(store, || store.read_logs(&from), bring);
        for (writer, read) in some.iter().zip(read.map_err(store_error)?) {
            if let Some(error) = tail.proven.shortfall(files, writer, Some(read.next)) {
                return Err(error);
            }
            if read.next < tail.state.position(writer) {
                return Ok(false);
            }
            if read.durable == 0 && read.next > 0 && read.entries.is_empty() && tail.state.position(writer) == 0 {
                unacknowledged.insert(writer.clone());
            }
            let (next, durable) = (read.next, read.durable);
            tail.join_log(files, writer, read, u64::MAX, cancel)?;
            if durable >= next && tail.state.position(writer) == next {
                tail.proven.say(writer, next, &tail.history, "its acknowledgement");
            }
        }
    }
    if let Some(error) = proven_positions::without_log(files, at_work, &writers, &unacknowledged).into_iter().next() {
        return Err(error);
    }
    tail.looked_at_segments = true;
    tail.logs = writers;
    Ok(true)
}

fn follow_rewrites(files: &TableFiles, tail: &mut Tail, new: &[NamedRewrite], cancel: &Cancel) -> Result<bool> {
    for some in new.chunks(REWRITES_AT_ONCE) {
        cancel.check()?;
        let unread: Vec<String> =
            some.iter().filter(|(_, bytes)| bytes.is_none()).map(|(name, _)| name.clone()).collect();
        let mut read = get_all(files.store.as_ref(), &unread).map_err(store_error)?.into_iter();
        for (name, known) in some {
            let found = known.clone().or_else(|| read.next().flatten());
            let number = number_of(name);
            if number <= tail.state.rewrites() {
                continue;
            }
            if number > tail.state.rewrites() + 1 {
                return Ok(false);
            }
            let Some(bytes) = found else { return Ok(false) };
            tail.join_rewrite(files, name, &bytes)?;
        }
    }
    Ok(true)
}

fn follow_alterations(files: &TableFiles, tail: &mut Tail, last: u64, cancel: &Cancel) -> Result<()> {
    loop {
        cancel.check()?;
        let version = tail.schema(files).version;
        if version >= last {
            return Ok(());
        }
        let name = alteration::name_of(version + 1);
        let Some(bytes) = files.store.get(&name).map_err(store_error)? else { return Ok(()) };
        tail.join_alteration(files, &name, &bytes)?;
    }
}
