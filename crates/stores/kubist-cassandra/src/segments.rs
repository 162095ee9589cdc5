//! Segments: byte streams, split into blocks that are sent when they are full.
//!
//! A lightweight transaction claims a segment's name. Its only owner writes the length after all blocks up to it were
//! acknowledged. The length is also its timestamp, so the largest length wins in any order of requests. After a sync,
//! the next bytes begin a new block, so nothing is written twice.
//!
//! A deletion first marks the segment as gone, so that a reader reports it as missing, not as damaged. Then it removes
//! the blocks, and finally the name from the list, so an interrupted deletion is visible and can be repeated. The mark
//! stays for a day, because a delayed claim of the same name must fail.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use futures_util::future::{Either, join, ready};
use futures_util::stream::{StreamExt, TryStreamExt, iter};
use kubist_store::names::check_part;
use kubist_store::{Error, Result, Segment, Size, StoredKind, Watch};
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::blocks::{self, BLOCK, MOST_SENT, end_of_block};
use crate::cluster::{Agreed, Link};
use crate::names::{self, Kind};

/// The maximum bytes of a read before the segment's length is known.
const MAX_SPECULATIVE_BYTES: u64 = 64 << 20;

const CLAIM: &str = "UPDATE kubist_segments SET nonce = ? WHERE store = ? AND name = ? IF nonce = null";
const LENGTHEN: &str = "UPDATE kubist_segments USING TIMESTAMP ? SET length = ? WHERE store = ? AND name = ?";
const FIND: &str = "SELECT nonce, length, gone FROM kubist_segments WHERE store = ? AND name = ?";
const MARK: &str =
    "UPDATE kubist_segments USING TTL 86400 SET gone = true, nonce = ? WHERE store = ? AND name = ? IF gone = null";
const FORGET: &str = "DELETE length FROM kubist_segments WHERE store = ? AND name = ?";

/// The known lengths. They only grow, so most reads do not request the length.
#[derive(Debug, Default)]
pub struct Lengths(Mutex<HashMap<String, u64>>);

const MOST_LENGTHS: usize = 1 << 16;

impl Lengths {
    fn known(&self, name: &str) -> Option<u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(name).copied()
    }

    fn learn(&self, name: &str, length: Option<u64>) {
        let mut lengths = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match length {
            Some(length) => {
                if lengths.len() >= MOST_LENGTHS {
                    lengths.clear();
                }
                lengths.insert(name.to_owned(), length);
            }
            None => {
                lengths.remove(name);
            }
        }
    }
}

fn file(link: &Link, name: &str) -> String {
    format!("{}/segments/{name}", link.location)
}

pub async fn create(link: Link, store: Uuid, name: &str) -> Result<Box<dyn Segment>> {
    check_part(name)?;
    names::add(&link, store, Kind::Segment, name).await?;
    let nonce = Uuid::new_v4();
    if !link.decide(CLAIM, &(nonce, store, name)).await?.won(nonce) {
        return Err(Error::Exists { file: file(&link, name) });
    }
    Ok(Box::new(CassandraSegment {
        name: name.to_owned(),
        store,
        pending: BytesMut::with_capacity(BLOCK as usize),
        start: 0,
        synced: 0,
        sent: Vec::new(),
        failed: None,
        link,
    }))
}

/// The synced length, and whether only the mark of a deletion remains.
async fn find(link: &Link, store: Uuid, name: &str) -> Result<Option<(u64, bool)>> {
    type Found = (Option<Uuid>, Option<i64>, Option<bool>);
    let found: Option<Found> = link.first(FIND, &(store, name), Agreed::Enough).await?;
    Ok(found.map(|(nonce, length, gone)| (length.unwrap_or(0) as u64, gone == Some(true) || nonce.is_none())))
}

pub async fn len(link: &Link, store: Uuid, lengths: &Lengths, name: &str) -> Result<Option<u64>> {
    check_part(name)?;
    let length = find(link, store, name).await?.filter(|(_, gone)| !gone).map(|(length, _)| length);
    lengths.learn(name, length);
    Ok(length)
}

pub async fn read(
    link: &Link,
    store: Uuid,
    lengths: &Lengths,
    name: &str,
    ranges: &[Range<u64>],
    watch: Watch<'_>,
) -> Result<Vec<Bytes>> {
    check_part(name)?;
    let missing = || Error::Missing { file: file(link, name) };
    let end = ranges.iter().map(|range| range.start.max(range.end)).max().unwrap_or(0);
    let blocks = blocks::read_watched(link, store, name, ranges, watch);
    let (length, blocks) = match lengths.known(name) {
        Some(length) if end <= length => (length, Either::Left(blocks)),
        _ if is_little(ranges) => {
            let (length, blocks) = join(len(link, store, lengths, name), blocks).await;
            (length?.ok_or_else(missing)?, Either::Right(ready(blocks)))
        }
        _ => (len(link, store, lengths, name).await?.ok_or_else(missing)?, Either::Left(blocks)),
    };
    let damaged =
        |range: &Range<u64>, what: String| Error::Damaged { file: file(link, name), offset: range.start, what };
    if let Some(range) = ranges.iter().find(|range| range.start > range.end || range.end > length) {
        let what = format!("a read needs bytes up to {}, but the segment ends at byte {length}", range.end);
        return Err(damaged(range, what));
    }
    let mut found = Vec::with_capacity(ranges.len());
    for (bytes, range) in blocks.await?.into_iter().zip(ranges) {
        match bytes {
            Ok(bytes) => found.push(bytes),
            Err(hole) => {
                len(link, store, lengths, name).await?.ok_or_else(missing)?;
                return Err(damaged(range, format!("no available replica has the bytes at {hole}")));
            }
        }
    }
    Ok(found)
}

/// Whether a read is small enough before the length is known, because damaged data may request anything.
fn is_little(ranges: &[Range<u64>]) -> bool {
    let length = |range: &Range<u64>| range.end.checked_sub(range.start);
    ranges
        .iter()
        .try_fold(0u64, |all, range| all.checked_add(length(range)?))
        .is_some_and(|all| all <= MAX_SPECULATIVE_BYTES)
}

pub async fn list(link: &Link, store: Uuid) -> Result<Vec<String>> {
    names::list(link, store, Kind::Segment).await
}

pub async fn delete(link: &Link, store: Uuid, lengths: &Lengths, name: &str) -> Result<()> {
    check_part(name)?;
    lengths.learn(name, None);
    link.decide(MARK, &(Uuid::new_v4(), store, name)).await?;
    let length = find(link, store, name).await?.map_or(0, |(length, _)| length);
    blocks::delete(link, store, name, length).await?;
    link.run(FORGET, &(store, name)).await?;
    names::remove(link, store, Kind::Segment, name).await
}

pub async fn sizes(link: &Link, store: Uuid) -> Result<Vec<Size>> {
    let names = list(link, store).await?;
    let lengths = iter(&names).map(|name| find(link, store, name)).buffered(link.location.parallel);
    let lengths: Vec<_> = lengths.try_collect().await?;
    let size = |(name, found): (String, Option<(u64, bool)>)| {
        let (bytes, gone) = found?;
        Some(Size { kind: if gone { StoredKind::Temporary } else { StoredKind::Segment }, name, bytes })
    };
    Ok(names.into_iter().zip(lengths).filter_map(size).collect())
}

struct CassandraSegment {
    link: Link,
    store: Uuid,
    name: String,
    /// Bytes that were not sent yet, and their offset.
    pending: BytesMut,
    start: u64,
    synced: u64,
    sent: Vec<JoinHandle<Result<()>>>,
    failed: Option<String>,
}

impl CassandraSegment {
    fn unless_failed<T>(&mut self, act: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if let Some(cause) = &self.failed {
            return Err(Error::Refused { file: file(&self.link, &self.name), cause: cause.clone() });
        }
        let done = act(self);
        if let Err(error) = &done {
            self.failed = Some(error.to_string());
        }
        done
    }

    /// Sends a block. Waits if too many blocks are outstanding.
    fn send(&mut self) -> Result<()> {
        let bytes = self.pending.split().freeze();
        self.pending.reserve(BLOCK as usize);
        let (link, store, name, start) = (self.link.clone(), self.store, self.name.clone(), self.start);
        self.start += bytes.len() as u64;
        self.sent.push(self.link.begin(async move { blocks::write(&link, store, &name, start, bytes).await })?);
        let most = MOST_SENT.min(2 * self.link.limiter.most());
        if self.sent.len() >= most {
            let oldest: Vec<_> = self.sent.drain(..most / 2).collect();
            self.wait_for(oldest)?;
        }
        Ok(())
    }

    fn wait_for(&self, sent: Vec<JoinHandle<Result<()>>>) -> Result<()> {
        self.link.wait(async {
            for block in sent {
                block.await.unwrap_or_else(|ended| {
                    let why = format!("a write ended early ({ended})");
                    Err(Error::Unreachable { location: self.link.location.to_string(), why })
                })?;
            }
            Ok(())
        })
    }
}

impl Segment for CassandraSegment {
    fn append(&mut self, parts: &[&[u8]]) -> Result<u64> {
        self.unless_failed(|segment| {
            let offset = segment.len();
            for mut part in parts.iter().copied() {
                while !part.is_empty() {
                    let free = (end_of_block(segment.start) - segment.len()) as usize;
                    let (now, later) = part.split_at(free.min(part.len()));
                    segment.pending.extend_from_slice(now);
                    part = later;
                    if now.len() == free {
                        segment.send()?;
                    }
                }
            }
            Ok(offset)
        })
    }

    fn sync(&mut self) -> Result<()> {
        self.unless_failed(|segment| {
            if !segment.pending.is_empty() {
                segment.send()?;
            }
            let sent = std::mem::take(&mut segment.sent);
            segment.wait_for(sent)?;
            let length = segment.start as i64;
            if segment.start > segment.synced {
                let (link, store, name) = (&segment.link, segment.store, &segment.name);
                link.wait(link.run(LENGTHEN, &(length, length, store, name)))?;
                segment.synced = segment.start;
            }
            Ok(())
        })
    }

    fn len(&self) -> u64 {
        self.start + self.pending.len() as u64
    }

    fn name(&self) -> &str {
        &self.name
    }
}
