//! The store that adds a cache to another store.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use kubist_store::names::{check_object, check_part};
use kubist_store::{
    Abilities, Answers, CacheUse, Capabilities, Copies, Error, LogOwner, LogTail, Reads, Request, Result, Segment,
    Service, Size, Stamp, Store, StoreExt, Traffic, Watch,
};

use crate::folder::Folder;

/// Size of a cached block, at whose multiples blocks start.
pub const BLOCK_BYTES: u64 = 128 << 10;
/// Reads of more than 1/4 of the capacity are not cached, because they would evict everything else.
const LARGE_SHARE: u64 = 4;

/// A network store that is read through a folder of copies.
#[derive(Debug)]
pub struct Cached {
    store: Arc<dyn Store>,
    identity: String,
    folder: Folder,
    hits: AtomicU64,
    misses: AtomicU64,
    bytes: AtomicU64,
}

/// Blocks by number; `None` if the folder does not have the block.
type Blocks = BTreeMap<u64, Option<Bytes>>;

impl Cached {
    /// Wraps a store with this identity, so that the folder gets copies of its bytes.
    pub fn new(store: Arc<dyn Store>, identity: u128, folder: Folder) -> Cached {
        Cached {
            store,
            identity: format!("{identity:032x}"),
            folder,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    fn block_key(&self, segment: &str, block: u64) -> String {
        format!("{}/segments/{segment}/{block:012x}", self.identity)
    }

    fn look(&self, key: &str) -> Option<Bytes> {
        let found = self.folder.get(key);
        match &found {
            Some(bytes) => {
                self.hits.fetch_add(1, Ordering::Relaxed);
                self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            }
            None => {
                self.misses.fetch_add(1, Ordering::Relaxed);
            }
        }
        found
    }

    fn blocks(&self, segment: &str, ranges: &[Range<u64>], watch: Watch<'_>) -> Blocks {
        let (asked, mut blocks, mut cached) = (Instant::now(), Blocks::new(), 0);
        for range in ranges.iter().filter(|range| range.start < range.end) {
            for number in numbers(range) {
                let block = blocks.entry(number).or_insert_with(|| self.look(&self.block_key(segment, number)));
                if block.is_some() {
                    cached += range.end.min((number + 1) * BLOCK_BYTES) - range.start.max(number * BLOCK_BYTES);
                }
            }
        }
        if cached > 0 {
            let answered = Instant::now();
            watch(Request { asked, sent: asked, answered, bytes: cached, host: None, cached: true });
        }
        blocks
    }

    fn take(&self, segment: &str, blocks: &mut Blocks, ranges: &[Range<u64>], answer: Vec<Bytes>) {
        for (range, bytes) in ranges.iter().zip(answer) {
            for number in numbers(range) {
                let begin = (number * BLOCK_BYTES - range.start) as usize;
                let end = bytes.len().min(begin + BLOCK_BYTES as usize);
                if begin < end {
                    let block = bytes.slice(begin..end);
                    self.folder.put(&self.block_key(segment, number), self.store.location(), &block);
                    blocks.insert(number, Some(block));
                }
            }
        }
    }
}

fn numbers(range: &Range<u64>) -> Range<u64> {
    range.start / BLOCK_BYTES..range.end.div_ceil(BLOCK_BYTES)
}

/// The ranges of the missing blocks, where adjacent blocks form one range.
fn missing(blocks: &Blocks) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for (number, _) in blocks.iter().filter(|(_, block)| block.is_none()) {
        let (begin, end) = (number * BLOCK_BYTES, (number + 1) * BLOCK_BYTES);
        match ranges.last_mut() {
            Some(last) if last.end == begin => last.end = end,
            _ => ranges.push(begin..end),
        }
    }
    ranges
}

/// The bytes of a range; `None` if one of its blocks is missing.
fn cut_out(range: &Range<u64>, blocks: &Blocks) -> Option<Bytes> {
    let within = |number: u64| {
        let block = blocks.get(&number)?.as_ref()?;
        let base = number * BLOCK_BYTES;
        let (begin, end) = (range.start.max(base) - base, range.end.min(base + BLOCK_BYTES) - base);
        (end <= block.len() as u64).then(|| block.slice(begin as usize..end as usize))
    };
    if range.start == range.end {
        return Some(Bytes::new());
    }
    let numbers = numbers(range);
    if numbers.end - numbers.start == 1 {
        return within(numbers.start);
    }
    let mut whole = BytesMut::with_capacity((range.end - range.start) as usize);
    for number in numbers {
        whole.extend_from_slice(&within(number)?);
    }
    Some(whole.freeze())
}

/// Whether the blocks have at most `most` bytes in total, because damaged data may request anything.
fn is_within(wanted: &[(&str, &[Range<u64>])], most: u64) -> bool {
    let mut ranges = wanted.iter().flat_map(|(_, ranges)| ranges.iter());
    let bytes = ranges.try_fold(0u64, |all, range| {
        let end = range.end.checked_next_multiple_of(BLOCK_BYTES)?;
        all.checked_add(range.end.checked_sub(range.start).and(end.checked_sub(range.start))?)
    });
    wanted.iter().all(|(segment, _)| check_part(segment).is_ok()) && bytes.is_some_and(|bytes| bytes <= most)
}

impl Store for Cached {
    fn location(&self) -> &str {
        self.store.location()
    }
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn abilities(&self) -> Abilities<'_> {
        Abilities { reads: Some(self), service: Some(self), copies: Some(self), ..self.store.abilities() }
    }
    fn put_if_absent(&self, name: &str, value: &[u8]) -> Result<bool> {
        self.store.put_if_absent(name, value)
    }
    fn get(&self, name: &str) -> Result<Option<Bytes>> {
        self.store.get(name)
    }
    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.store.list(prefix)
    }
    fn delete(&self, name: &str) -> Result<()> {
        self.store.delete(name)
    }
    fn create_segment(&self, name: &str) -> Result<Box<dyn Segment>> {
        self.store.create_segment(name)
    }
    fn read(&self, segment: &str, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.read_watched(segment, ranges, &|_| {})
    }
    fn segment_len(&self, segment: &str) -> Result<Option<u64>> {
        self.store.segment_len(segment)
    }
    fn segments(&self) -> Result<Vec<String>> {
        self.store.segments()
    }
    fn delete_segment(&self, segment: &str) -> Result<()> {
        self.store.delete_segment(segment)?;
        // Copies that remain after a failure are evicted later.
        let _ = self.folder.remove(&format!("{}/segments/{segment}", self.identity));
        Ok(())
    }
    fn own_log(&self, writer: &str) -> Result<Box<dyn LogOwner>> {
        self.store.own_log(writer)
    }
    fn logs(&self) -> Result<Vec<String>> {
        self.store.logs()
    }
    fn read_log(&self, writer: &str, from: u64) -> Result<LogTail> {
        self.store.read_log(writer, from)
    }
    fn sizes(&self) -> Result<Vec<Size>> {
        self.store.sizes()
    }
    fn erase(&self, objects: &[String]) -> Result<()> {
        self.store.erase(objects)?;
        let _ = self.folder.remove(&self.identity);
        Ok(())
    }
}

impl Reads for Cached {
    fn read_segments(&self, wanted: &[(&str, &[Range<u64>])], watch: Watch<'_>) -> Result<Answers> {
        if !is_within(wanted, self.folder.bound() / LARGE_SHARE) {
            return self.store.read_segments(wanted, watch);
        }
        let found: Vec<Blocks> = wanted.iter().map(|(segment, ranges)| self.blocks(segment, ranges, watch)).collect();
        let absent: Vec<Vec<Range<u64>>> = found.iter().map(missing).collect();
        let asked: Vec<(&str, &[Range<u64>])> = wanted
            .iter()
            .zip(&absent)
            .filter(|(_, absent)| !absent.is_empty())
            .map(|((segment, _), absent)| (*segment, &absent[..]))
            .collect();
        let read = if asked.is_empty() { Vec::new() } else { self.store.read_short(&asked, watch)? };
        let mut read = read.into_iter();
        let mut answers = Answers::with_capacity(wanted.len());
        for (((segment, ranges), mut blocks), absent) in wanted.iter().zip(found).zip(&absent) {
            let failed = match if absent.is_empty() { None } else { read.next() } {
                Some(Ok(bytes)) => {
                    self.take(segment, &mut blocks, absent, bytes);
                    None
                }
                Some(Err(error)) => Some(error),
                None => None,
            };
            answers.push(match failed {
                // Whole blocks may extend past the end of the segment.
                None | Some(Error::Damaged { .. }) => {
                    // The store decides whether the segment exists at all.
                    let some = Some(ranges).filter(|_| !blocks.is_empty());
                    let cut = some.and_then(|ranges| {
                        ranges.iter().map(|range| cut_out(range, &blocks)).collect::<Option<Vec<Bytes>>>()
                    });
                    cut.map_or_else(|| self.store.read_watched(segment, ranges, watch), Ok)
                }
                Some(error) => Err(error),
            });
        }
        Ok(answers)
    }

    fn read_short(&self, wanted: &[(&str, &[Range<u64>])], watch: Watch<'_>) -> Result<Answers> {
        self.store.read_short(wanted, watch)
    }

    fn list_after(&self, prefix: &str, after: &str) -> Result<Vec<String>> {
        self.store.list_after(prefix, after)
    }

    fn waited(&self) -> bool {
        self.store.waited()
    }
}

impl Service for Cached {
    fn identity(&self) -> Option<u128> {
        self.store.identity()
    }

    fn traffic(&self) -> Option<Traffic> {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let cache = CacheUse { hits: of(&self.hits), misses: of(&self.misses), bytes: of(&self.bytes) };
        self.store.traffic().map(|traffic| Traffic { cache: Some(cache), ..traffic })
    }
}

impl Copies for Cached {
    fn uncached(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn get_immutable(&self, name: &str) -> Result<Option<Bytes>> {
        check_object(name)?;
        // After a copy or restore of a bucket, the same name may have another value.
        let Stamp::Of(stamp) = self.store.stamp(name)? else { return self.store.get_immutable(name) };
        let key = format!("{}/objects/{}~{stamp:032x}", self.identity, name.replace('/', "~"));
        if let Some(found) = self.look(&key) {
            return Ok(Some(found));
        }
        let found = self.store.get_immutable(name)?;
        if let Some(bytes) = &found {
            self.folder.put(&key, self.store.location(), bytes);
        }
        Ok(found)
    }
}
