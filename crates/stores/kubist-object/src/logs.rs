//! Logs: `logs/WRITER/NUMBER`, each an entry or the fence of a new owner.
//!
//! The numbers increase from 0 without a gap, and only one put of a number succeeds. A new owner puts a fence at the
//! first free number ([`kubist_store::Store::own_log`]). The number alone therefore decides whether an unacknowledged
//! entry is in the log; clocks, listings and claims do not matter.
//!
//! A position is a number. An entry begins where the previous entry ended, includes the fences in between, and ends
//! after its own number. A fence stores where the previous entry ended.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::future::join_all;
use kubist_store::names::check_part;
use kubist_store::{Error, LogEntry, LogOwner, LogTail, Result};

use crate::claims::{Claim, Claims};
use crate::client::Link;
use crate::frame::{Framed, Kind};
use crate::writers::Writers;

pub const FOLDER: &str = "logs";
const AT_FIRST: u64 = 4;
const AHEAD: u64 = 64;

pub fn key(writer: &str, number: u64) -> String {
    format!("{FOLDER}/{writer}/{number:020}")
}

fn file(link: &Link, writer: &str) -> String {
    link.file(&format!("{FOLDER}/{writer}"))
}

/// The fences at the ends of logs, which readers skip, and the last entry per log that this handle put.
#[derive(Debug, Default)]
pub struct Fences(Mutex<HashMap<String, (u64, u64)>>, Mutex<HashMap<String, (u64, Bytes)>>);

impl Fences {
    fn put(&self, writer: &str, number: u64, entry: &[u8]) {
        let mut own = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        own.insert(writer.to_owned(), (number, Bytes::copy_from_slice(entry)));
    }

    fn own(&self, writer: &str, number: u64) -> Option<Bytes> {
        let own = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        own.get(writer).filter(|(put, _)| *put == number).map(|(_, entry)| entry.clone())
    }

    /// The first number that may be new to a reader that has everything up to `from`.
    fn behind(&self, writer: &str, from: u64) -> u64 {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(writer).filter(|(end, _)| *end == from).map_or(from, |(_, next)| *next)
    }

    fn knows(&self, writer: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(writer)
    }

    fn learn(&self, writer: &str, end: u64, next: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(writer.to_owned(), (end, next));
    }
}

pub async fn read(link: &Link, fences: &Fences, writer: &str, from: u64, most: u64) -> Result<LogTail> {
    check_part(writer)?;
    let (mut tail, mut read) = (LogTail { entries: Vec::new(), next: from, durable: from }, 0);
    let mut number = fences.behind(writer, from);
    // The first read of a log expects several entries, and each later read at most one.
    let mut at_once = if fences.knows(writer) { 1 } else { AT_FIRST };
    if let Some(bytes) = fences.own(writer, number) {
        tail.entries.push(LogEntry { position: tail.next, bytes });
        number += 1;
        tail.next = number;
    }
    'more: loop {
        let keys = number..number + at_once;
        for found in join_all(keys.map(async |number| link.get(&key(writer, number)).await)).await {
            let Some(found) = found? else { break 'more };
            match found.kind {
                Kind::Fence => {}
                Kind::Entry => {
                    read += found.payload.len() as u64;
                    tail.entries.push(LogEntry { position: tail.next, bytes: found.payload });
                    tail.next = number + 1;
                }
                other => return Err(strange(link, writer, number, other)),
            }
            number += 1;
        }
        if read >= most && !tail.entries.is_empty() {
            break;
        }
        // A new entry is rarely followed by many more.
        at_once = if at_once == 1 { 2 } else { 4 * at_once }.min(AHEAD.min(link.location.parallel as u64));
    }
    if number == 0 {
        return Err(Error::Missing { file: file(link, writer) });
    }
    fences.learn(writer, tail.next, number);
    tail.durable = tail.next;
    Ok(tail)
}

fn strange(link: &Link, writer: &str, number: u64, kind: Kind) -> Error {
    let what = format!("it is neither an entry nor a fence but {kind:?}");
    Error::Damaged { file: link.file(&key(writer, number)), offset: 32, what }
}

pub async fn own(
    link: &Link,
    claims: &Claims,
    fences: &Arc<Fences>,
    writers: &Writers,
    writer: &str,
    waits: bool,
) -> Result<Box<dyn LogOwner>> {
    check_part(writer)?;
    let claim = claims.hold(link, writer, waits).await?;
    let taken = async {
        let taken = take(link, writer, claim.hint()).await?;
        writers.add(link, writer).await?;
        Ok(taken)
    };
    let (fence, end) = match taken.await {
        Ok(taken) => taken,
        Err(error) => {
            // Dropping the claim here would block the runtime of this task.
            claim.end().await;
            return Err(error);
        }
    };
    claim.set_hint(fence);
    let (link, fences) = (link.clone(), fences.clone());
    Ok(Box::new(Owned { link, fences, writer: writer.into(), next: fence + 1, end, claim, failed: None }))
}

/// Puts a fence at the first free number, and returns this number and the end of the last entry.
async fn take(link: &Link, writer: &str, hint: u64) -> Result<(u64, u64)> {
    let mut free = first_free(link, writer, hint).await?;
    loop {
        let end = match free.checked_sub(1) {
            None => 0,
            Some(last) => match link.get(&key(writer, last)).await? {
                Some(found) => end(link, writer, last, &found)?,
                None => {
                    let what = format!("entry {last} is missing");
                    return Err(Error::Damaged { file: file(link, writer), offset: last, what });
                }
            },
        };
        if link.put_once(&key(writer, free), Kind::Fence, &end.to_le_bytes()).await? {
            return Ok((free, end));
        }
        free += 1;
    }
}

fn end(link: &Link, writer: &str, number: u64, found: &Framed) -> Result<u64> {
    match found.kind {
        Kind::Entry => Ok(number + 1),
        Kind::Fence => {
            let eight = found.payload[..].try_into().map_err(|_| strange(link, writer, number, found.kind))?;
            Ok(u64::from_le_bytes(eight))
        }
        other => Err(strange(link, writer, number, other)),
    }
}

/// Searches the first free number in doubling steps and then by bisection, because all numbers before a taken number
/// are taken.
async fn first_free(link: &Link, writer: &str, hint: u64) -> Result<u64> {
    let is_taken = async |number: u64| Ok::<bool, Error>(link.length(&key(writer, number)).await?.is_some());
    let mut taken = None;
    let mut free = hint;
    let mut step = 1;
    while is_taken(free).await? {
        taken = Some(free);
        free += step;
        step *= 2;
    }
    if taken.is_none() && free > 0 {
        // The hint is after the log's end, so the search starts at the beginning.
        taken = is_taken(0).await?.then_some(0);
        if taken.is_none() {
            return Ok(0);
        }
    }
    while let Some(low) = taken.filter(|low| free - low > 1) {
        let middle = low + (free - low) / 2;
        match is_taken(middle).await? {
            true => taken = Some(middle),
            false => free = middle,
        }
    }
    Ok(free)
}

struct Owned {
    link: Link,
    fences: Arc<Fences>,
    writer: String,
    /// The next number, and the end of the last entry.
    next: u64,
    end: u64,
    claim: Claim,
    failed: Option<String>,
}

impl LogOwner for Owned {
    fn append(&mut self, entry: &[u8]) -> Result<u64> {
        let refused = |cause: &str| Error::Refused { file: file(&self.link, &self.writer), cause: cause.into() };
        if let Some(cause) = &self.failed {
            return Err(refused(cause));
        }
        let put = self.link.wait(self.link.put_once(&key(&self.writer, self.next), Kind::Entry, entry));
        match put {
            Ok(true) => {
                self.claim.set_hint(self.next);
                self.fences.put(&self.writer, self.next, entry);
                self.next += 1;
                self.end = self.next;
                Ok(self.end)
            }
            Ok(false) => {
                let cause = "another owner has taken the log";
                let error = refused(cause);
                self.claim.lose();
                self.failed = Some(cause.into());
                Err(error)
            }
            Err(error) => {
                self.failed = Some(error.to_string());
                Err(error)
            }
        }
    }

    fn position(&self) -> u64 {
        self.end
    }

    fn writer(&self) -> &str {
        &self.writer
    }
}
