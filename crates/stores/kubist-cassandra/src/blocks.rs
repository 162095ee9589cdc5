//! Blocks: the bytes of segments, and of objects too large for a row.
//!
//! A block is one row of the table `kubist_blocks`, with at most [`BLOCK`] bytes. It never crosses a multiple of
//! [`BLOCK`], so a reader of any byte begins at the previous multiple. A partition has the blocks of [`BUCKET`] bytes.
//!
//! A block never changes: it is written with the constant timestamp 1, also when a write is repeated. A read therefore
//! asks one replica, and asks a majority only if that replica lacks a block.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use futures_util::stream::iter;
use kubist_store::{Error, ReplicaLocation, Request, Result, Watch};
use uuid::Uuid;

use crate::cluster::{Agreed, Link};

pub const BLOCK: u64 = 32 << 10;
const BUCKET: u64 = 1 << 20;

const TABLE: &str = "kubist_blocks";
const WRITE: &str =
    "INSERT INTO kubist_blocks (store, name, bucket, start, bytes) VALUES (?, ?, ?, ?, ?) USING TIMESTAMP 1";
const READ: &str =
    "SELECT start, bytes FROM kubist_blocks WHERE store = ? AND name = ? AND bucket = ? AND start >= ? AND start < ?";
const DELETE: &str = "DELETE FROM kubist_blocks WHERE store = ? AND name = ? AND bucket = ?";
const ANY: &str = "SELECT start FROM kubist_blocks WHERE store = ? AND name = ? AND bucket = ? LIMIT 1";

pub const MOST_SENT: usize = 96;
/// Maximum number of partitions that contain the blocks sent concurrently: 96 blocks of 32 KiB are 3 MiB.
const ON_THE_WAY: i32 = 4;

pub fn end_of_block(start: u64) -> u64 {
    (start / BLOCK + 1) * BLOCK
}

fn bucket(offset: u64) -> Result<i32> {
    i32::try_from(offset / BUCKET)
        .map_err(|_| Error::InvalidName { name: offset.to_string(), why: "an offset is less than 2 PiB".into() })
}

/// Writes one block; it must end at or before the next multiple of [`BLOCK`].
pub async fn write(link: &Link, store: Uuid, name: &str, start: u64, bytes: Bytes) -> Result<()> {
    let (permit, length) = (link.limiter.permit().await, bytes.len());
    link.run(WRITE, &(store, name, bucket(start)?, start as i64, bytes)).await?;
    permit.end(length);
    Ok(())
}

pub async fn write_all(link: &Link, store: Uuid, name: &str, value: &[u8]) -> Result<()> {
    let blocks = (0u64..).step_by(BLOCK as usize).zip(value.chunks(BLOCK as usize));
    let writes = blocks.map(|(start, bytes)| write(link, store, name, start, Bytes::copy_from_slice(bytes)));
    let mut writes = iter(writes).buffer_unordered(link.limiter.most());
    while let Some(written) = writes.next().await {
        written?;
    }
    Ok(())
}

/// Reads ranges of bytes, where a range with a missing block is `Err` with the first missing offset.
pub async fn read(
    link: &Link,
    store: Uuid,
    name: &str,
    ranges: &[Range<u64>],
) -> Result<Vec<std::result::Result<Bytes, u64>>> {
    read_watched(link, store, name, ranges, &|_| {}).await
}

/// Like [`read`]; calls `watch` after each request.
pub async fn read_watched(
    link: &Link,
    store: Uuid,
    name: &str,
    ranges: &[Range<u64>],
    watch: Watch<'_>,
) -> Result<Vec<std::result::Result<Bytes, u64>>> {
    let mut wanted: Vec<Range<u64>> = ranges.iter().filter(|range| !range.is_empty()).flat_map(in_buckets).collect();
    wanted.sort_unstable_by_key(|range| range.start);
    let wanted = merged(wanted);
    let fetches = wanted.into_iter().map(|range| fetch(link, store, name, range, watch));
    let mut fetches = iter(fetches).buffer_unordered(link.limiter.most());
    let mut blocks = BTreeMap::new();
    while let Some(fetched) = fetches.next().await {
        blocks.extend(fetched?);
    }
    Ok(ranges.iter().map(|range| assemble(&blocks, range)).collect())
}

/// Returns the replicas that store each byte, which a segment's name and an offset identify.
pub async fn replica_locations(link: &Link, store: Uuid, offsets: &[(&str, u64)]) -> Result<Vec<ReplicaLocation>> {
    let mut located: Vec<ReplicaLocation> = Vec::with_capacity(offsets.len());
    let mut last = None;
    for (name, offset) in offsets {
        let partition = Some((name, bucket(*offset)?));
        let location = match located.last() {
            Some(location) if last == partition => location.clone(),
            _ => link.replica_location(READ, &(store, name, bucket(*offset)?, 0i64, 0i64), TABLE).await?,
        };
        last = partition;
        located.push(location);
    }
    Ok(located)
}

/// Divides a range by partitions, and extends its start to a multiple of [`BLOCK`].
fn in_buckets(range: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
    let Range { start, end } = *range;
    let from = start / BLOCK * BLOCK;
    let cut = move |bucket: u64| (bucket * BUCKET).max(from)..((bucket + 1) * BUCKET).min(end);
    (from / BUCKET..=(end - 1) / BUCKET).map(cut)
}

/// Joins ranges of the same partition that overlap or touch; they must be sorted.
fn merged(ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end && range.start / BUCKET == last.start / BUCKET => {
                last.end = last.end.max(range.end);
            }
            _ => merged.push(range),
        }
    }
    merged
}

type Blocks = Vec<(u64, Bytes)>;

async fn fetch(link: &Link, store: Uuid, name: &str, range: Range<u64>, watch: Watch<'_>) -> Result<Blocks> {
    let found = ask(link, store, name, &range, Agreed::One, watch).await?;
    match reaches(&found, &range) {
        true => Ok(found),
        // A majority has the missing block, and read repair copies it.
        false => ask(link, store, name, &range, Agreed::Enough, watch).await,
    }
}

async fn ask(
    link: &Link,
    store: Uuid,
    name: &str,
    range: &Range<u64>,
    agreed: Agreed,
    watch: Watch<'_>,
) -> Result<Blocks> {
    let asked = Instant::now();
    let permit = link.limiter.permit().await;
    let sent = Instant::now();
    let values = (store, name, bucket(range.start)?, range.start as i64, range.end as i64);
    let (found, host): (Vec<(i64, Bytes)>, _) = link.all_from(READ, &values, agreed).await?;
    let bytes = found.iter().map(|(_, bytes)| bytes.len()).sum();
    permit.end(bytes);
    watch(Request {
        asked,
        sent,
        answered: Instant::now(),
        bytes: bytes as u64,
        host: Some(host.to_string()),
        cached: false,
    });
    Ok(found.into_iter().map(|(start, bytes)| (start as u64, bytes)).collect())
}

/// Whether the blocks cover the range, which starts at a multiple of [`BLOCK`], without a gap.
fn reaches(blocks: &Blocks, range: &Range<u64>) -> bool {
    let mut at = range.start;
    for (start, bytes) in blocks {
        if *start != at {
            return false;
        }
        at += bytes.len() as u64;
    }
    at >= range.end
}

fn assemble(blocks: &BTreeMap<u64, Bytes>, range: &Range<u64>) -> std::result::Result<Bytes, u64> {
    let mut whole = BytesMut::new();
    let mut at = range.start;
    while at < range.end {
        let (start, bytes) = blocks.range(..=at).next_back().ok_or(at)?;
        let from = (at - start) as usize;
        let to = bytes.len().min((range.end - start) as usize);
        if from >= to {
            return Err(at);
        }
        if at == range.start && *start + to as u64 == range.end {
            return Ok(bytes.slice(from..to));
        }
        whole.reserve(if whole.is_empty() { (range.end - at) as usize } else { 0 });
        whole.extend_from_slice(&bytes[from..to]);
        at = start + to as u64;
    }
    Ok(whole.freeze())
}

/// Deletes the blocks of the first `length` bytes, and later blocks that a crashed writer may have sent.
///
/// Writers do not skip `ON_THE_WAY` partitions, so the search ends after as many empty ones.
pub async fn delete(link: &Link, store: Uuid, name: &str, length: u64) -> Result<()> {
    let known = bucket(length)?;
    let mut deletes = iter((0..=known).map(|bucket| remove(link, store, name, bucket))).buffer_unordered(8);
    while let Some(deleted) = deletes.next().await {
        deleted?;
    }
    let (mut bucket, mut empty) = (known + 1, 0);
    while empty < ON_THE_WAY {
        let found: Option<(i64,)> = link.first(ANY, &(store, name, bucket), Agreed::Enough).await?;
        empty = match found {
            Some(_) => {
                remove(link, store, name, bucket).await?;
                0
            }
            None => empty + 1,
        };
        bucket += 1;
    }
    Ok(())
}

async fn remove(link: &Link, store: Uuid, name: &str, bucket: i32) -> Result<()> {
    link.run(DELETE, &(store, name, bucket)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_into_partitions() {
        let cut = |range: Range<u64>| in_buckets(&range).collect::<Vec<_>>();
        assert_eq!(cut(5..6), [0..6]);
        assert_eq!(cut(BLOCK + 1..BLOCK + 2), [BLOCK..BLOCK + 2]);
        assert_eq!(cut(BUCKET - 1..BUCKET + 1), [BUCKET - BLOCK..BUCKET, BUCKET..BUCKET + 1]);
        assert_eq!(cut(BUCKET - 5..BUCKET), [BUCKET - BLOCK..BUCKET]);
        let many = vec![0..10, 5..20, 20..30, 40..50, BUCKET..BUCKET + 1];
        assert_eq!(merged(many), [0..30, 40..50, BUCKET..BUCKET + 1]);
    }

    #[test]
    fn a_hole_is_found() {
        let blocks = |starts: &[(u64, usize)]| starts.iter().map(|(at, n)| (*at, Bytes::from(vec![1; *n]))).collect();
        let whole: Blocks = blocks(&[(0, 10), (10, 5)]);
        assert!(reaches(&whole, &(0..15)) && reaches(&whole, &(0..12)) && !reaches(&whole, &(0..16)));
        assert!(!reaches(&blocks(&[(0, 10), (11, 5)]), &(0..12)) && !reaches(&blocks(&[]), &(0..1)));
        let map: BTreeMap<u64, Bytes> = whole.into_iter().collect();
        assert_eq!(assemble(&map, &(2..9)).unwrap().len(), 7);
        assert_eq!(assemble(&map, &(9..15)).unwrap().len(), 6);
        assert_eq!(assemble(&map, &(9..16)), Err(15));
        assert_eq!(assemble(&map, &(3..3)).unwrap().len(), 0);
        assert_eq!(assemble(&BTreeMap::new(), &(3..4)), Err(3));
    }
}
