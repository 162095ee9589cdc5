//! Logs: one per writer, a chain of entries that epochs fence.
//!
//! An entry is at a position, in rows with the epoch that wrote it. Its parts are written first, and its head, with
//! length and checksum, last. An entry exists once its head exists. Its length gives the position of the next entry, so
//! a gap in the chain is detected. A partition has about 16 MiB of positions.
//!
//! # Why no acknowledged entry is lost and none appears twice
//!
//! Writes and reads use a majority, so every read that begins after a write sees the write. A row that a read has seen
//! is on a majority, because the nodes repair differences before they respond. (Neither holds with `consistency=one`.)
//!
//! *Taking* a log has three steps: begin epoch n + 1 by a lightweight transaction (the fence); then read the log; then
//! decide, by another transaction, that the epoch starts where the log ended. Epoch n + 1 begins only after the start
//! of epoch n is decided. *Appending* in epoch n has three steps: write the entry; then read the newest epoch; then
//! acknowledge if this is still n, and otherwise refuse for ever.
//!
//! - *Acknowledged entries stay.* The owner of an acknowledged entry of epoch n read the newest epoch after the write,
//!   and did not see n + 1. So n + 1 began after that read began. The process that decides its start reads the log
//!   later still, so it sees the entry and puts the start after the entry.
//! - *A late request changes nothing.* If a write of epoch n arrives after the start of n + 1 was decided, its position
//!   is at or after that start, so it is void. This covers requests that the network delayed, replicas that are
//!   repaired late, and an owner that was suspended for an hour.
//! - *A repeated request changes nothing*, because it has the same key, bytes and timestamp. An owner whose responses
//!   are lost retries, then refuses, and the next owner settles whether the entry is in the log.
//! - *Seen entries stay.* A reader reads the log, then the epochs. An entry of the newest epoch had reached a majority
//!   before the reader looked for a newer epoch, so every later owner sees it too. From an older epoch, the reader
//!   takes the entries before the next start. If the newest epoch has no start, the reader decides the start in the
//!   same way. Only the first decision counts, and every decision is based on reads that began after the fence.
//! - *New owners do not conflict.* If two processes begin the same epoch, one wins. If an owner is slow between fence
//!   and start, a reader or the next owner may decide the start first. The owner then uses that start, and is refused
//!   at its first append if a newer epoch has begun.
//! - *No clock matters.* Rows of logs have a constant timestamp, and transactions have their own order. Only the 30
//!   seconds of a claim depend on a clock, and no guarantee depends on them.
//!
//! `tests/model.rs` runs these rules in random histories and shows that each rule is needed.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use bytes::{Bytes, BytesMut};
use futures_util::future::try_join_all;
use futures_util::stream::{StreamExt, TryStreamExt, iter};
use kubist_store::claims::{Holder, RENEWAL, this_process};
use kubist_store::names::check_part;
use kubist_store::{Error, LogEntry, LogOwner, LogTail, Result, Size, StoredKind};
use scylla::value::MaybeUnset::{Set, Unset};
use tokio::task::AbortHandle;
use uuid::Uuid;

use crate::cluster::{Agreed, Link};
use crate::epochs::{self, Epochs};
use crate::names::{self, Kind};

const BUCKET: u64 = 16 << 20;
/// Maximum bytes per row.
const PART: usize = 64 << 10;
/// Page size in rows.
const AT_A_TIME: i32 = 200;

const WRITE: &str = "INSERT INTO kubist_log (store, writer, bucket, position, epoch, part, length, checksum, bytes) \
                     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP 1";
const READ: &str = "SELECT position, epoch, part, length, checksum, bytes FROM kubist_log \
                    WHERE store = ? AND writer = ? AND bucket = ? AND position >= ?";
const DELETE: &str = "DELETE FROM kubist_log WHERE store = ? AND writer = ? AND bucket = ?";

fn file(link: &Link, writer: &str) -> String {
    format!("{}/logs/{writer}", link.location)
}

fn bucket(position: u64) -> i32 {
    i32::try_from(position / BUCKET).unwrap_or(i32::MAX)
}

/// The position after an entry. The extra 1 gives an empty entry its own position too.
fn after(position: u64, length: u64) -> u64 {
    position + length + 1
}

#[derive(Default)]
struct Rows {
    head: Option<(u64, u32)>,
    parts: BTreeMap<i32, Bytes>,
}

impl Rows {
    fn bytes(&self) -> std::result::Result<Bytes, String> {
        let (length, checksum) = self.head.expect("only entries with a head are read");
        let whole = match self.parts.len() {
            1 => self.parts.values().next().cloned().unwrap_or_default(),
            _ => self
                .parts
                .values()
                .fold(BytesMut::new(), |mut whole, part| {
                    whole.extend_from_slice(part);
                    whole
                })
                .freeze(),
        };
        if whole.len() as u64 != length {
            return Err(format!("{length} bytes were written, but only {} exist", whole.len()));
        }
        match crc32c::crc32c(&whole) == checksum {
            true => Ok(whole),
            false => Err("its checksum is wrong".into()),
        }
    }
}

type EntriesByEpoch = BTreeMap<(u64, i64), Rows>;

/// Reads the entries of all epochs in a partition, from a majority.
async fn rows(link: &Link, store: Uuid, writer: &str, from: u64) -> Result<EntriesByEpoch> {
    let mut found = EntriesByEpoch::new();
    let values = (store, writer, bucket(from), from as i64);
    type Row = (i64, i64, i32, Option<i64>, Option<i64>, Option<Bytes>);
    link.scan(READ, &values, Agreed::Enough, Some(AT_A_TIME), |row: Row| {
        let (position, epoch, part, length, checksum, bytes) = row;
        let entry: &mut Rows = found.entry((position as u64, epoch)).or_default();
        if let Some((length, checksum)) = length.zip(checksum) {
            entry.head = Some((length as u64, checksum as u32));
        }
        entry.parts.insert(part, bytes.unwrap_or_default());
        true
    })
    .await?;
    found.retain(|_, entry| entry.head.is_some());
    Ok(found)
}

/// Reads partition by partition, until it has `most` bytes. If the next entry is damaged, also returns this error.
pub async fn read(link: &Link, store: Uuid, writer: &str, from: u64, most: u64) -> Result<(LogTail, Option<Error>)> {
    check_part(writer)?;
    let mut tail = LogTail { entries: Vec::new(), next: from, durable: from };
    let mut known = 0;
    loop {
        let found = rows(link, store, writer, tail.next).await?;
        if found.is_empty() && tail.next > 0 && tail.next >= known {
            return Ok((tail, None));
        }
        // The epochs are read after the entries (see the module).
        let epochs = epochs_with_start(link, store, writer, tail.next).await?;
        let (partition, before) = (bucket(tail.next), tail.next);
        let mut wrong = follow(&found, &epochs, &mut tail);
        if wrong.is_none() && bucket(tail.next) != partition {
            // Positions count bytes.
            match tail.next - from < most {
                true => continue,
                false => return Ok((tail, None)),
            }
        }
        if wrong.is_none() {
            let goes_on = goes_on(link, store, writer, &epochs, tail.next).await?;
            if goes_on.is_none() {
                return Ok((tail, None));
            }
            // The log may have grown. A second read without progress means damage.
            if goes_on > Some(known) || tail.next > before {
                known = goes_on.unwrap_or(0);
                continue;
            }
            wrong = Some(format!("there is no entry, but the log continues at {known}"));
        }
        let what = wrong.unwrap_or_default();
        let damage = Error::Damaged { file: file(link, writer), offset: tail.next, what };
        return Ok((tail, Some(damage)));
    }
}

/// The position of something after `end`, if there is any: the start of an epoch, or an entry in the next partition.
async fn goes_on(link: &Link, store: Uuid, writer: &str, epochs: &Epochs, end: u64) -> Result<Option<u64>> {
    let started = epochs.0.iter().filter_map(|epoch| epoch.start).filter(|start| *start > end).max();
    if started.is_some() {
        return Ok(started);
    }
    let next = rows(link, store, writer, (end / BUCKET + 1) * BUCKET).await?;
    let own = next.keys().find(|(position, epoch)| epochs.of(*position) == Some(*epoch));
    Ok(own.map(|(position, _)| *position))
}

/// Appends the entries of the chain to `tail`. Returns the damage if the chain is broken.
fn follow(found: &EntriesByEpoch, epochs: &Epochs, tail: &mut LogTail) -> Option<String> {
    while let Some(epoch) = epochs.of(tail.next) {
        let Some(entry) = found.get(&(tail.next, epoch)) else { break };
        match entry.bytes() {
            Ok(bytes) => {
                let position = tail.next;
                tail.next = after(position, bytes.len() as u64);
                tail.durable = tail.next;
                tail.entries.push(LogEntry { position, bytes });
            }
            Err(what) => return Some(what),
        }
    }
    let behind = (Excluded((tail.next, i64::MAX)), Unbounded);
    let mut later = found.range(behind).filter(|((position, epoch), _)| epochs.of(*position) == Some(*epoch));
    later.next().map(|((position, _), _)| format!("there is no entry, but one follows at {position}"))
}

/// The epochs, after deciding the start of the newest one if necessary. [`Error::Missing`] if the log was never taken.
async fn epochs_with_start(link: &Link, store: Uuid, writer: &str, from: u64) -> Result<Epochs> {
    loop {
        let epochs = Epochs::read(link, store, writer, from).await?;
        let Some(newest) = epochs.newest() else {
            return Err(Error::Missing { file: file(link, writer) });
        };
        if newest.start.is_some() {
            return Ok(epochs);
        }
        let number = newest.number;
        let end = end(link, store, writer).await?;
        epochs::decide_start(link, store, writer, number, end).await?;
    }
}

/// The end of the log in the epochs that have a start. It reads complete rows, after the newest epoch began, because
/// nodes repair only rows that are read. [`Error::Damaged`] if an entry is missing.
async fn end(link: &Link, store: Uuid, writer: &str) -> Result<u64> {
    let epochs = Epochs::read(link, store, writer, u64::MAX).await?;
    let start = epochs.0.iter().find_map(|epoch| epoch.start).unwrap_or(0);
    let mut tail = LogTail { entries: Vec::new(), next: start, durable: start };
    loop {
        let partition = bucket(tail.next);
        let found = rows(link, store, writer, tail.next).await?;
        let mut wrong = follow(&found, &epochs, &mut tail);
        tail.entries.clear();
        if wrong.is_none() && bucket(tail.next) != partition {
            continue;
        }
        if wrong.is_none() {
            let Some(position) = goes_on(link, store, writer, &epochs, tail.next).await? else { return Ok(tail.next) };
            wrong = Some(format!("there is no entry, but the log continues at {position}"));
        }
        return Err(Error::Damaged { file: file(link, writer), offset: tail.next, what: wrong.unwrap_or_default() });
    }
}

/// Returns the end of the log, or the position of its damage.
async fn extent(link: &Link, store: Uuid, writer: &str) -> Result<u64> {
    match end(link, store, writer).await {
        Err(Error::Damaged { offset, .. }) => Ok(offset),
        end => end,
    }
}

pub async fn list(link: &Link, store: Uuid) -> Result<Vec<String>> {
    names::list(link, store, Kind::Log).await
}

/// The size of each log from its end position: the bytes of its entries, plus 1 for each entry.
pub async fn sizes(link: &Link, store: Uuid) -> Result<Vec<Size>> {
    let names = list(link, store).await?;
    let ends = iter(&names).map(|name| extent(link, store, name)).buffered(link.location.parallel);
    let ends: Vec<u64> = ends.try_collect().await?;
    Ok(names.into_iter().zip(ends).map(|(name, bytes)| Size { kind: StoredKind::Log, name, bytes }).collect())
}

pub async fn delete(link: &Link, store: Uuid, writer: &str) -> Result<()> {
    let mut position = extent(link, store, writer).await?;
    let deletions = (0..=bucket(position)).map(async |bucket| link.run(DELETE, &(store, writer, bucket)).await);
    iter(deletions).buffered(link.location.parallel).try_collect::<()>().await?;
    // Also deletes partitions after a gap in the log.
    loop {
        position = (position / BUCKET + 1) * BUCKET;
        if rows(link, store, writer, position).await?.is_empty() {
            break;
        }
        link.run(DELETE, &(store, writer, bucket(position))).await?;
    }
    epochs::delete(link, store, writer).await?;
    names::remove(link, store, Kind::Log, writer).await
}

pub async fn own(link: Link, store: Uuid, writer: &str) -> Result<Box<dyn LogOwner>> {
    check_part(writer)?;
    let me = Holder::new(&this_process());
    let held = epochs::hold(&link, store, writer, &me).await;
    held.inspect_err(|_| me.end())?;
    let taken = take(&link, store, writer).await;
    if taken.is_err() {
        me.end();
        // If this fails too, the claim expires.
        let _ = epochs::release(&link, store, writer, &me).await;
    }
    let (epoch, position) = taken?;
    let renewal = {
        let (link, writer, me) = (link.clone(), writer.to_owned(), me.clone());
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(RENEWAL).await;
                // A failure is retried at the next renewal.
                let _ = epochs::renew(&link, store, &writer, &me).await;
            }
        })
    };
    let renewal = renewal.abort_handle();
    Ok(Box::new(CassandraLog { link, store, writer: writer.to_owned(), me, renewal, epoch, position, failed: None }))
}

async fn take(link: &Link, store: Uuid, writer: &str) -> Result<(i64, u64)> {
    loop {
        let last = match epochs_with_start(link, store, writer, u64::MAX).await {
            Ok(epochs) => epochs.newest().map_or(0, |epoch| epoch.number),
            Err(Error::Missing { .. }) => 0,
            Err(error) => return Err(error),
        };
        if !epochs::begin(link, store, writer, last + 1).await? {
            continue;
        }
        let epochs = epochs_with_start(link, store, writer, u64::MAX).await?;
        let own = epochs.0.iter().find(|epoch| epoch.number == last + 1);
        if let Some(start) = own.and_then(|epoch| epoch.start) {
            names::add(link, store, Kind::Log, writer).await?;
            return Ok((last + 1, start));
        }
    }
}

struct CassandraLog {
    link: Link,
    store: Uuid,
    writer: String,
    me: Holder,
    renewal: AbortHandle,
    epoch: i64,
    position: u64,
    failed: Option<String>,
}

impl CassandraLog {
    fn refused(&self, cause: &str) -> Error {
        Error::Refused { file: file(&self.link, &self.writer), cause: cause.to_owned() }
    }

    async fn write(&self, part: usize, head: Option<(i64, i64)>, bytes: &[u8]) -> Result<()> {
        // Unset, because Cassandra would store a null as a deletion.
        let (length, checksum) = head.map_or((Unset, Unset), |(length, checksum)| (Set(length), Set(checksum)));
        let bytes = Bytes::copy_from_slice(bytes);
        let key = (self.store, &self.writer, bucket(self.position), self.position as i64, self.epoch, part as i32);
        let (store, writer, bucket, position, epoch, part) = key;
        self.link.run(WRITE, &(store, writer, bucket, position, epoch, part, length, checksum, bytes)).await
    }

    /// Writes an entry, and checks afterwards that this process still owns the log.
    async fn put(&self, entry: &[u8]) -> Result<()> {
        let first = &entry[..entry.len().min(PART)];
        let rest = entry[first.len()..].chunks(PART);
        for some in rest.enumerate().collect::<Vec<_>>().chunks(self.link.location.parallel) {
            try_join_all(some.iter().map(|(index, bytes)| self.write(index + 1, None, bytes))).await?;
        }
        let head = (entry.len() as i64, i64::from(crc32c::crc32c(entry)));
        self.write(0, Some(head), first).await?;
        match epochs::newest(&self.link, self.store, &self.writer).await? {
            Some(newest) if newest == self.epoch => Ok(()),
            Some(_) => Err(self.refused("another process has taken the log")),
            None => Err(self.refused("the table was dropped")),
        }
    }
}

impl LogOwner for CassandraLog {
    fn append(&mut self, entry: &[u8]) -> Result<u64> {
        if let Some(cause) = &self.failed {
            return Err(self.refused(cause));
        }
        match self.link.wait(self.put(entry)) {
            Ok(()) => {
                self.position = after(self.position, entry.len() as u64);
                Ok(self.position)
            }
            Err(error) => {
                self.failed = Some(match &error {
                    Error::Refused { cause, .. } => cause.clone(),
                    other => other.to_string(),
                });
                Err(error)
            }
        }
    }

    fn position(&self) -> u64 {
        self.position
    }

    fn writer(&self) -> &str {
        &self.writer
    }
}

impl Drop for CassandraLog {
    fn drop(&mut self) {
        if self.link.is_this_process() {
            self.renewal.abort();
            self.me.end();
            // If this fails, the claim expires.
            let _ = self.link.wait(epochs::release(&self.link, self.store, &self.writer, &self.me));
        }
    }
}
