//! Logs of a shared store: an entry is a file of its own, found by its number.
//!
//! An entry ends at the position after its number, and begins where the one before ends: the
//! fences between two belong to the second, so that everybody says the same of the first, whenever
//! it was read. A log that was one machine's before goes on behind
//! its last byte: where that is, is decided once, by its seal. Whoever takes a log puts a fence
//! under the first free number. An earlier owner then finds its next number taken and is
//! refused for ever; if its entry came first, the fence stands behind it, and the entry is in
//! the log.
//!
//! # Why nothing that was acknowledged is lost, and nothing comes twice
//!
//! - *Acknowledged entries stay*: a file with its name is never changed, replaced or deleted
//!   while the table is there, and it was durable, with its name, when `append` returned.
//! - *A doubtful entry is settled*: its number is taken, by it or by a fence.
//! - *What is seen stays*: who reads an entry makes its name durable before it calls it so.
//! - *No entry is overlooked by its next owner*: a number is free only if a put says so, which
//!   whoever keeps the files decides, and no machine's memory of names.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::format::{HEADER_BYTES, Says};
use crate::{BrokenEntry, Error, LogEntry, LogOwner, LogTail, Result, Segment, SoundLog, Stamp, names};

use super::claim_files::{Claim, Renewal};
use super::numbered::{self, ENTRIES, LOGS, SEAL};
use super::place::Place;
use super::standing::Standing;
use super::temporary::First;
use super::{LocalStore, logs};

/// Of files that are missing in a row, so many are told one by one, at most.
const MOST_MISSING: usize = 1 << 16;

/// What a handle knows of logs that its machine may not see yet.
#[derive(Debug, Default)]
pub struct Known(Mutex<HashMap<String, Ends>>);

#[derive(Debug, Default, Clone, Copy)]
struct Ends {
    /// Files of all numbers before this one are there.
    there: u64,
    /// The names of those before this one are durable.
    durable: u64,
    /// Where the log begins in files of their own, once that is decided.
    start: Option<u64>,
}

impl Known {
    fn of(&self, writer: &str) -> Ends {
        self.lock().get(writer).copied().unwrap_or_default()
    }

    fn raise(&self, writer: &str, change: impl FnOnce(&mut Ends)) {
        change(self.lock().entry(writer.to_owned()).or_default());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Ends>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets all: the store has ended.
    pub fn clear(&self) {
        self.lock().clear();
    }

    /// The writers of which something is known.
    pub fn writers(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }
}

/// Where a log begins in files of their own: behind the last byte of a log of one machine, or at
/// 0. It is decided once, before the first such file is made.
fn sealed(store: &LocalStore, writer: &str) -> Result<u64> {
    let name = format!("{writer}{SEAL}");
    if let Some(end) = numbered::get_alone(store, &name, Says::Sealed)? {
        return Ok(end);
    }
    let end = match logs::is_there(store, writer)? {
        true => logs::read_for_good(store, writer)?.next.max(HEADER_BYTES),
        false => 0,
    };
    numbered::put_alone(store, &name, Says::Sealed, end)?;
    // Whoever was first has decided.
    store.patiently(|| {
        let missing = || Error::damaged(store.root.join(LOGS).join(&name).display().to_string(), 0, "it is missing");
        numbered::get_alone(store, &name, Says::Sealed)?.ok_or_else(missing)
    })
}

/// Seals the log of a writer of this machine alone.
pub(super) fn seal(store: &LocalStore, writer: &str) -> Result<()> {
    sealed(store, writer).map(drop)
}

pub(super) fn own(store: &LocalStore, writer: &str, waits: bool) -> Result<Box<dyn LogOwner>> {
    names::check_part(writer)?;
    // From here on it is known to be a writer, whether its claim is free or not.
    store.known.raise(writer, |_| {});
    store.folders.ensure(&numbered::folder(writer, ENTRIES))?;
    let claim = Arc::new(store.claims.hold(&store.place, writer, waits)?);
    match fence(store, writer) {
        Ok((number, position)) => {
            let renewal = store.claims.keep(&claim);
            let file = format!("{}/{}", store.location, numbered::folder(writer, ""));
            let standing = Standing::new(&*store.disk, file);
            let (place, known, writer) = (store.place.clone(), store.known.clone(), writer.to_owned());
            Ok(Box::new(SharedLog { place, known, writer, claim, _renewal: renewal, standing, number, position }))
        }
        Err(error) => {
            claim.give_back();
            Err(error)
        }
    }
}

/// Puts a fence under the first free number, and gives the next number, and where the last entry
/// ends.
fn fence(store: &LocalStore, writer: &str) -> Result<(u64, u64)> {
    let (start, folder) = (sealed(store, writer)?, numbered::folder(writer, ENTRIES));
    let mut next = whole(store, &folder, start)?.max(store.known.of(writer).there);
    loop {
        while numbered::get(store, &folder, next)?.is_some() {
            next += 1;
        }
        if numbered::put(store, &folder, next, Says::Fence, b"")? {
            break;
        }
        next += 1;
    }
    // All of these are there, whether this machine sees them yet or not.
    store.learn();
    let says = |number| {
        let mut attempt = 0;
        loop {
            match numbered::get(store, &folder, number)? {
                None if store.look_again(attempt)? => attempt += 1,
                None => return Err(hole(store, &folder, number)),
                Some((says, _)) => return Ok(says),
            }
        }
    };
    let mut end = next;
    while end > start && says(end - 1)? != Says::Entry {
        end -= 1;
    }
    next += 1;
    store.known.raise(writer, |ends| (ends.there, ends.durable) = (next, next));
    Ok((next, end))
}

/// The number behind the last one of a listing, which must have no hole.
fn whole(store: &LocalStore, folder: &str, start: u64) -> Result<u64> {
    let Some(last) = numbered::listed(store, folder)?.pop() else { return Ok(start) };
    store.learn();
    store.patiently(|| {
        let found = numbered::listed(store, folder)?;
        let hole = (start..=last).find(|number| found.binary_search(number).is_err());
        match hole {
            None => Ok(last + 1),
            Some(hole) => {
                let what = format!("no entry is there, but the log goes on at {last}");
                Err(Error::damaged(store.root.join(folder).display().to_string(), hole, what))
            }
        }
    })
}

/// The entries from a position on, until they have so many bytes.
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
    // A log that has lost its end says so.
    if tail.entries.is_empty() && number == from && from > 0 && !ends_at(store, writer, &folder, from)? {
        let end = numbered::listed(store, &folder)?.pop().map_or(0, |last| last + 1);
        tail.next = end.min(from - 1);
        tail.durable = tail.next;
        return Ok(tail);
    }
    if number > store.known.of(writer).there {
        store.learn();
    }
    // To be durable is for whoever has put it; until then we can see to it ourselves.
    if number > store.known.of(writer).durable && store.disk.sync_directory(&store.root.join(&folder)).is_ok() {
        store.known.raise(writer, |ends| ends.durable = ends.durable.max(number));
    }
    store.known.raise(writer, |ends| ends.there = ends.there.max(number));
    tail.durable = store.known.of(writer).durable.min(tail.next);
    Ok(tail)
}

/// Which file the entry before a position is.
pub(super) fn stamp(store: &LocalStore, writer: &str, end: u64) -> Result<Stamp> {
    names::check_part(writer)?;
    match start_of(store, writer)? {
        Some(start) if end > start => numbered::stamp(store, &numbered::folder(writer, ENTRIES), end - 1),
        _ => logs::stamp(store, writer),
    }
}

/// Does the log reach up to a position? Its entry before that is there, or it begins there.
fn ends_at(store: &LocalStore, writer: &str, folder: &str, position: u64) -> Result<bool> {
    match numbered::get(store, folder, position - 1) {
        Ok(Some(_)) | Err(Error::Damaged { .. }) => Ok(true),
        Ok(None) => Ok(start_of(store, writer)? == Some(position)),
        Err(error) => Err(error),
    }
}

/// Where a log begins in files of their own; `None` if that is not decided, as far as this
/// machine sees.
fn start_of(store: &LocalStore, writer: &str) -> Result<Option<u64>> {
    if let Some(start) = store.known.of(writer).start {
        return Ok(Some(start));
    }
    let start = numbered::get_alone(store, &format!("{writer}{SEAL}"), Says::Sealed)?;
    if start.is_some() {
        store.known.raise(writer, |ends| ends.start = start);
    }
    Ok(start)
}

/// What was found of a log.
struct Followed {
    tail: LogTail,
    /// Files of all numbers before this one were found.
    number: u64,
    /// What is wrong with the next one, if anything is.
    damage: Option<Error>,
}

/// The entries from a position on, until they have so many bytes.
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
            Ok(Some((says, bytes))) => {
                number += 1;
                if says == Says::Entry {
                    read += bytes.len() as u64;
                    tail.entries.push(LogEntry { position: tail.next, bytes });
                    tail.next = number;
                }
            }
            // It is there, but not seen from here yet.
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
    let what = "no entry is there any more";
    Error::damaged(store.root.join(folder).display().to_string(), position, what)
}

fn is_there(store: &LocalStore, writer: &str) -> Result<bool> {
    let path = store.root.join(numbered::folder(writer, ENTRIES));
    let found = store.disk.find(&path).map_err(|error| Error::io("look at", &path, error))?;
    Ok(found.is_some() || store.known.of(writer).there > 0)
}

/// What is whole of a log, before its damage and behind it.
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
    // The number behind the last file that is known to be of the log, and where the next entry begins.
    // Numbers that nobody can read count once a whole file follows: a foreign file may have any
    // number for its name.
    let (mut known, mut begin) = (number, sound.next);
    let broken = |position| BrokenEntry { position, bytes: Default::default() };
    for number in numbers {
        match numbered::get(store, &folder, number) {
            Ok(Some((says, bytes))) => {
                if number > known {
                    let missing = std::iter::once(begin).chain(known + 1..number);
                    sound.broken.extend(missing.take(MOST_MISSING).map(broken));
                    begin = number;
                }
                known = number + 1;
                if says == Says::Entry {
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
    place: Arc<Place>,
    /// Of the handle: who reads on there need not make durable what is.
    known: Arc<Known>,
    writer: String,
    claim: Arc<Claim>,
    _renewal: Option<Arc<Renewal>>,
    standing: Standing,
    /// Of the next entry.
    number: u64,
    /// Where the last one ends.
    position: u64,
}

impl SharedLog {
    fn put(&mut self, entry: &[u8], first: First<'_>) -> Result<u64> {
        self.standing.check(&*self.place.disk)?;
        let folder = numbered::folder(&self.writer, ENTRIES);
        let put = self.claim.check().and_then(|()| {
            match numbered::put_after(&self.place, &folder, self.number, Says::Entry, entry, first)? {
                true => Ok(()),
                false => Err(self.claim.refused()),
            }
        });
        self.standing.note(put)?;
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
        if self.standing.is_own(&*self.place.disk) {
            self.claim.give_back();
        }
    }
}
