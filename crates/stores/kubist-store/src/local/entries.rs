//! Logs of a shared store: each entry is a file whose name is its number.
//!
//! An entry begins where the previous entry ended, and ends at the position after its number. Fences between two
//! entries belong to the second one, so all readers see the same end of the first entry at any time. A log from before
//! the store was shared continues after its last byte. A seal decides this position once. A new owner puts a fence at
//! the first free number ([`Store::own_log`](crate::Store::own_log)).
//!
//! # Why no acknowledged entry is lost and none appears twice
//!
//! - *Acknowledged entries stay*: a named file never changes while the table exists, and it was durable with its name
//!   when `append` returned.
//! - *Unacknowledged entries are settled*: either the entry or a fence takes the number.
//! - *Seen entries stay*: a reader makes an entry's name durable before it reports the entry as durable.
//! - *The next owner misses no entry*: a number is free only if a put with it succeeds. The file server decides this,
//!   not a machine's cache of names.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::format::{HEADER_BYTES, RecordType};
use crate::{BrokenEntry, Error, LogEntry, LogOwner, LogTail, Result, Segment, SoundLog, Stamp, names};

use super::claim_files::{Claim, Renewal};
use super::directory::StoreDirectory;
use super::health::HandleHealth;
use super::numbered::{self, ENTRIES, LOGS, SEAL};
use super::temporary::First;
use super::{LocalStore, logs};

const MOST_MISSING: usize = 1 << 16;

/// What a handle knows of logs, including files that this machine may not see yet.
#[derive(Debug, Default)]
pub struct LogEnds(Mutex<HashMap<String, Ends>>);

#[derive(Debug, Default, Clone, Copy)]
struct Ends {
    /// The files of all lower numbers are known to exist.
    there: u64,
    /// The names of all lower numbers are known to be durable.
    durable: u64,
    /// The first number with its own file.
    start: Option<u64>,
}

impl LogEnds {
    fn of(&self, writer: &str) -> Ends {
        self.lock().get(writer).copied().unwrap_or_default()
    }

    fn raise(&self, writer: &str, change: impl FnOnce(&mut Ends)) {
        change(self.lock().entry(writer.to_owned()).or_default());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Ends>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn clear(&self) {
        self.lock().clear();
    }

    pub fn writers(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }
}

/// The first number with its own file: the position after the log from before the store was shared, or 0. It is decided
/// once, before the first such file is written.
fn sealed(store: &LocalStore, writer: &str) -> Result<u64> {
    let name = format!("{writer}{SEAL}");
    if let Some(end) = numbered::get_alone(store, &name, RecordType::Sealed)? {
        return Ok(end);
    }
    let end = match logs::is_there(store, writer)? {
        true => logs::read_for_good(store, writer)?.next.max(HEADER_BYTES),
        false => 0,
    };
    numbered::put_alone(store, &name, RecordType::Sealed, end)?;
    store.retry_while_stale(|| {
        let missing = || Error::damaged(store.root.join(LOGS).join(&name).display().to_string(), 0, "it is missing");
        numbered::get_alone(store, &name, RecordType::Sealed)?.ok_or_else(missing)
    })
}

pub(super) fn seal(store: &LocalStore, writer: &str) -> Result<()> {
    sealed(store, writer).map(drop)
}

pub(super) fn own(store: &LocalStore, writer: &str, waits: bool) -> Result<Box<dyn LogOwner>> {
    names::check_part(writer)?;
    store.known.raise(writer, |_| {});
    store.folders.ensure(&numbered::folder(writer, ENTRIES))?;
    let claim = Arc::new(store.claims.hold(&store.directory, writer, waits)?);
    match fence(store, writer) {
        Ok((number, position)) => {
            let renewal = store.claims.keep(&claim);
            let file = format!("{}/{}", store.location, numbered::folder(writer, ""));
            let health = HandleHealth::new(&*store.disk, file);
            let (directory, known, writer) = (store.directory.clone(), store.known.clone(), writer.to_owned());
            Ok(Box::new(SharedLog { directory, known, writer, claim, _renewal: renewal, health, number, position }))
        }
        Err(error) => {
            claim.give_back();
            Err(error)
        }
    }
}

/// Puts a fence at the first free number. Returns the next number, and the end of the last entry.
fn fence(store: &LocalStore, writer: &str) -> Result<(u64, u64)> {
    let (start, folder) = (sealed(store, writer)?, numbered::folder(writer, ENTRIES));
    let mut next = whole(store, &folder, start)?.max(store.known.of(writer).there);
    loop {
        while numbered::get(store, &folder, next)?.is_some() {
            next += 1;
        }
        if numbered::put(store, &folder, next, RecordType::Fence, b"")? {
            break;
        }
        next += 1;
    }
    // This machine may not see these files yet.
    store.learn();
    let record_type = |number| {
        let mut attempt = 0;
        loop {
            match numbered::get(store, &folder, number)? {
                None if store.look_again(attempt)? => attempt += 1,
                None => return Err(hole(store, &folder, number)),
                Some((record_type, _)) => return Ok(record_type),
            }
        }
    };
    let mut end = next;
    while end > start && record_type(end - 1)? != RecordType::Entry {
        end -= 1;
    }
    next += 1;
    store.known.raise(writer, |ends| (ends.there, ends.durable) = (next, next));
    Ok((next, end))
}

/// The number after the last one in a listing. Checks that the listing has no gap.
fn whole(store: &LocalStore, folder: &str, start: u64) -> Result<u64> {
    let Some(last) = numbered::listed(store, folder)?.pop() else { return Ok(start) };
    store.learn();
    store.retry_while_stale(|| {
        let found = numbered::listed(store, folder)?;
        let hole = (start..=last).find(|number| found.binary_search(number).is_err());
        match hole {
            None => Ok(last + 1),
            Some(hole) => {
                let what = format!("there is no entry, but the log continues at {last}");
                Err(Error::damaged(store.root.join(folder).display().to_string(), hole, what))
            }
        }
    })
}

pub(super) fn read(store: &LocalStore, writer: &str, from: u64, most: u64) -> Result<LogTail> {
    names::check_part(writer)?;
    if start_of(store, writer)?.is_none() && logs::is_there(store, writer)? {
        return logs::read(store, writer, from, most);
    }
    let Followed { mut tail, number, damage } = follow(store, writer, from, most)?;
    if let Some(damage) = damage {
        return Err(damage);
    }
    let folder = numbered::folder(writer, ENTRIES);
    // The log may have lost its last entries.
    if tail.entries.is_empty() && number == from && from > 0 && !ends_at(store, writer, &folder, from)? {
        let end = numbered::listed(store, &folder)?.pop().map_or(0, |last| last + 1);
        tail.next = end.min(from - 1);
        tail.durable = tail.next;
        return Ok(tail);
    }
    if number > store.known.of(writer).there {
        store.learn();
    }
    // If the writer has not yet made the entry's name durable, this reader does.
    if number > store.known.of(writer).durable && store.disk.sync_directory(&store.root.join(&folder)).is_ok() {
        store.known.raise(writer, |ends| ends.durable = ends.durable.max(number));
    }
    store.known.raise(writer, |ends| ends.there = ends.there.max(number));
    tail.durable = store.known.of(writer).durable.min(tail.next);
    Ok(tail)
}

pub(super) fn stamp(store: &LocalStore, writer: &str, end: u64) -> Result<Stamp> {
    names::check_part(writer)?;
    match start_of(store, writer)? {
        Some(start) if end > start => numbered::stamp(store, &numbered::folder(writer, ENTRIES), end - 1),
        _ => logs::stamp(store, writer),
    }
}

/// Whether a position follows an existing entry, or is the log's beginning.
fn ends_at(store: &LocalStore, writer: &str, folder: &str, position: u64) -> Result<bool> {
    match numbered::get(store, folder, position - 1) {
        Ok(Some(_)) | Err(Error::Damaged { .. }) => Ok(true),
        Ok(None) => Ok(start_of(store, writer)? == Some(position)),
        Err(error) => Err(error),
    }
}

/// The first number with its own file; `None` if it does not seem to be decided.
fn start_of(store: &LocalStore, writer: &str) -> Result<Option<u64>> {
    if let Some(start) = store.known.of(writer).start {
        return Ok(Some(start));
    }
    let start = numbered::get_alone(store, &format!("{writer}{SEAL}"), RecordType::Sealed)?;
    if start.is_some() {
        store.known.raise(writer, |ends| ends.start = start);
    }
    Ok(start)
}

struct Followed {
    tail: LogTail,
    number: u64,
    damage: Option<Error>,
}

fn follow(store: &LocalStore, writer: &str, from: u64, most: u64) -> Result<Followed> {
    let folder = numbered::folder(writer, ENTRIES);
    let mut tail = LogTail { entries: Vec::new(), next: from, durable: from };
    match start_of(store, writer)? {
        Some(start) if from < start => {
            (tail.entries, tail.next) = logs::read_sealed(store, writer, from, start, most)?;
            if tail.next < start {
                return Ok(Followed { number: tail.next, tail, damage: None });
            }
        }
        Some(_) => {}
        None if logs::is_there(store, writer)? => {
            let tail = logs::read(store, writer, from, most)?;
            return Ok(Followed { number: tail.next, tail, damage: None });
        }
        None if !is_there(store, writer)? => {
            return Err(Error::Missing { file: store.root.join(folder).display().to_string() });
        }
        None => {}
    }
    let (there, mut attempt, mut number) = (store.known.of(writer).there, 0, tail.next);
    let mut read: u64 = tail.entries.iter().map(|entry| entry.bytes.len() as u64).sum();
    let damage = loop {
        if read >= most && !tail.entries.is_empty() {
            break None;
        }
        match numbered::get(store, &folder, number) {
            Ok(Some((record_type, bytes))) => {
                number += 1;
                if record_type == RecordType::Entry {
                    read += bytes.len() as u64;
                    tail.entries.push(LogEntry { position: tail.next, bytes });
                    tail.next = number;
                }
            }
            // The entry exists, but is not visible yet.
            Ok(None) if number < there && store.look_again(attempt)? => attempt += 1,
            Ok(None) if number < there => break Some(hole(store, &folder, number)),
            Ok(None) => break None,
            Err(damage @ (Error::Damaged { .. } | Error::Irregular { .. })) => break Some(damage),
            Err(error) => return Err(error),
        }
    };
    Ok(Followed { tail, number, damage })
}

fn hole(store: &LocalStore, folder: &str, position: u64) -> Error {
    let what = "the entry is missing";
    Error::damaged(store.root.join(folder).display().to_string(), position, what)
}

fn is_there(store: &LocalStore, writer: &str) -> Result<bool> {
    let path = store.root.join(numbered::folder(writer, ENTRIES));
    let found = store.disk.find(&path).map_err(|error| Error::io("examine", &path, error))?;
    Ok(found.is_some() || store.known.of(writer).there > 0)
}

pub(super) fn read_sound(store: &LocalStore, writer: &str, from: u64) -> Result<SoundLog> {
    let nothing = |damage| SoundLog { entries: Vec::new(), broken: Vec::new(), next: from, damage: Some(damage) };
    let Followed { tail, number, damage } = match follow(store, writer, from, u64::MAX) {
        Ok(followed) => followed,
        Err(damage @ (Error::Damaged { .. } | Error::Missing { .. } | Error::Irregular { .. })) => {
            return Ok(nothing(damage));
        }
        Err(error) => return Err(error),
    };
    let mut sound = SoundLog { entries: tail.entries, broken: Vec::new(), next: tail.next, damage };
    if sound.damage.is_none() {
        return Ok(sound);
    }
    let folder = numbered::folder(writer, ENTRIES);
    let mut numbers = numbered::listed(store, &folder)?;
    numbers.retain(|found| *found >= number);
    // The number after the log's last file, and the start of the next entry. An unreadable number counts only if an
    // intact file follows, because a file of another program may have a number as its name.
    let (mut known, mut begin) = (number, sound.next);
    let broken = |position| BrokenEntry { position, bytes: Default::default() };
    for number in numbers {
        match numbered::get(store, &folder, number) {
            Ok(Some((record_type, bytes))) => {
                if number > known {
                    let missing = std::iter::once(begin).chain(known + 1..number);
                    sound.broken.extend(missing.take(MOST_MISSING).map(broken));
                    begin = number;
                }
                known = number + 1;
                if record_type == RecordType::Entry {
                    sound.entries.push(LogEntry { position: begin, bytes });
                    (begin, sound.next) = (known, known);
                }
            }
            Ok(None) | Err(Error::Damaged { .. } | Error::Irregular { .. }) if number == known => {
                sound.broken.push(broken(begin));
                known = number + 1;
                (begin, sound.next) = (known, known);
            }
            Ok(None) | Err(Error::Damaged { .. } | Error::Irregular { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sound)
}

#[derive(Debug)]
struct SharedLog {
    directory: Arc<StoreDirectory>,
    /// Shared with the handle, so that its readers need not sync entries that are durable.
    known: Arc<LogEnds>,
    writer: String,
    claim: Arc<Claim>,
    _renewal: Option<Arc<Renewal>>,
    health: HandleHealth,
    number: u64,
    position: u64,
}

impl SharedLog {
    fn put(&mut self, entry: &[u8], first: First<'_>) -> Result<u64> {
        self.health.check(&*self.directory.disk)?;
        let folder = numbered::folder(&self.writer, ENTRIES);
        let put = self.claim.check().and_then(|()| {
            match numbered::put_after(&self.directory, &folder, self.number, RecordType::Entry, entry, first)? {
                true => Ok(()),
                false => Err(self.claim.refused()),
            }
        });
        self.health.note(put)?;
        self.number += 1;
        self.position = self.number;
        let number = self.number;
        self.known.raise(&self.writer, |ends| (ends.there, ends.durable) = (number, number));
        Ok(self.position)
    }
}

impl LogOwner for SharedLog {
    fn append(&mut self, entry: &[u8]) -> Result<u64> {
        self.put(entry, None)
    }

    fn append_after(&mut self, segment: &mut dyn Segment, entry: &[u8]) -> Result<u64> {
        let segment = Mutex::new(segment);
        self.put(entry, Some(&|| segment.lock().unwrap_or_else(PoisonError::into_inner).sync()))
    }

    fn position(&self) -> u64 {
        self.position
    }

    fn writer(&self) -> &str {
        &self.writer
    }
}

impl Drop for SharedLog {
    fn drop(&mut self) {
        if self.health.is_own(&*self.directory.disk) {
            self.claim.give_back();
        }
    }
}
