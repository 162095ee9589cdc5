//! A store in memory, for tests and temporary tables.
//!
//! It gives only the guarantees of the trait: segments are readable up to their last sync, offsets do not start at 0,
//! and log positions count entries instead of bytes.
//!
//! The scheme `memory` names stores of this process: until the process ends, `memory://name` is the same store.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use crate::{
    Abilities, Capabilities, Content, Error, Fencing, Latency, Locality, LogEntry, LogOwner, LogTail, Result, Scheme,
    Scratch, Segment, Size, Spill, Store, StoreLocation, StoredKind, names,
};

const SEGMENT_START: u64 = 16;

/// A store in memory. Its clones are handles to the same store, like processes on one directory.
#[derive(Debug, Clone)]
pub struct MemoryStore {
    location: String,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<String, Bytes>,
    segments: BTreeMap<String, Vec<u8>>,
    logs: BTreeMap<String, Log>,
}

#[derive(Debug, Default)]
struct Log {
    entries: Vec<Bytes>,
    owned: bool,
}

impl MemoryStore {
    /// Creates an empty store with a name for messages.
    pub fn new(name: &str) -> MemoryStore {
        MemoryStore { location: format!("memory:{name}"), state: Arc::default() }
    }

    fn is_empty(&self) -> bool {
        let state = self.state();
        state.objects.is_empty() && state.segments.is_empty() && state.logs.is_empty()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, kind: &str, name: &str) -> String {
        format!("{}/{kind}/{name}", self.location)
    }
}

impl Store for MemoryStore {
    fn location(&self) -> &str {
        &self.location
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            locality: Locality::Here,
            latency: Latency::Memory,
            fencing: Fencing::Lock,
            staleness: Duration::ZERO,
            punches: false,
        }
    }

    fn abilities(&self) -> Abilities<'_> {
        Abilities { spill: Some(self), ..Abilities::default() }
    }

    fn put_if_absent(&self, name: &str, value: &[u8]) -> Result<bool> {
        names::check_object(name)?;
        let objects = &mut self.state().objects;
        if objects.contains_key(name) {
            return Ok(false);
        }
        let folder = format!("{name}/");
        let above = |(at, _): (usize, &str)| objects.contains_key(&name[..at]);
        let below = objects.range(folder.clone()..).next();
        if below.is_some_and(|(below, _)| below.starts_with(&folder)) || name.match_indices('/').any(above) {
            return Err(names::object_and_folder(name));
        }
        objects.insert(name.to_owned(), Bytes::copy_from_slice(value));
        Ok(true)
    }

    fn get(&self, name: &str) -> Result<Option<Bytes>> {
        names::check_object(name)?;
        Ok(self.state().objects.get(name).cloned())
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        let state = self.state();
        let from = state.objects.range(prefix.to_owned()..);
        let names = from.map(|(name, _)| name.clone());
        Ok(names.take_while(|name| name.starts_with(prefix)).collect())
    }

    fn delete(&self, name: &str) -> Result<()> {
        names::check_object(name)?;
        self.state().objects.remove(name);
        Ok(())
    }

    fn create_segment(&self, name: &str) -> Result<Box<dyn Segment>> {
        names::check_part(name)?;
        let segments = &mut self.state().segments;
        if segments.contains_key(name) {
            let file = self.file("segments", name);
            return Err(Error::Exists { file });
        }
        segments.insert(name.to_owned(), Vec::new());
        Ok(Box::new(MemorySegment {
            store: self.clone(),
            name: name.to_owned(),
            unsynced: Vec::new(),
            synced: SEGMENT_START,
        }))
    }

    fn read(&self, segment: &str, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        names::check_part(segment)?;
        let state = self.state();
        let Some(bytes) = state.segments.get(segment) else {
            let file = self.file("segments", segment);
            return Err(Error::Missing { file });
        };
        let read = |range: &Range<u64>| part(bytes, SEGMENT_START, range, || self.file("segments", segment));
        ranges.iter().map(read).collect()
    }

    fn segment_len(&self, segment: &str) -> Result<Option<u64>> {
        names::check_part(segment)?;
        let state = self.state();
        let bytes = state.segments.get(segment);
        Ok(bytes.map(|bytes| SEGMENT_START + bytes.len() as u64))
    }

    fn segments(&self) -> Result<Vec<String>> {
        Ok(self.state().segments.keys().cloned().collect())
    }

    fn delete_segment(&self, segment: &str) -> Result<()> {
        names::check_part(segment)?;
        self.state().segments.remove(segment);
        Ok(())
    }

    fn own_log(&self, writer: &str) -> Result<Box<dyn LogOwner>> {
        names::check_part(writer)?;
        let mut state = self.state();
        let log = state.logs.entry(writer.to_owned()).or_default();
        if log.owned {
            return Err(Error::Busy { writer: writer.to_owned(), file: self.file("logs", writer) });
        }
        log.owned = true;
        Ok(Box::new(MemoryLog { store: self.clone(), writer: writer.to_owned(), position: log.entries.len() as u64 }))
    }

    fn logs(&self) -> Result<Vec<String>> {
        Ok(self.state().logs.keys().cloned().collect())
    }

    fn read_log(&self, writer: &str, from: u64) -> Result<LogTail> {
        names::check_part(writer)?;
        let state = self.state();
        let Some(log) = state.logs.get(writer) else {
            let file = self.file("logs", writer);
            return Err(Error::Missing { file });
        };
        let numbered = (0u64..).zip(&log.entries);
        let entries = numbered
            .skip(usize::try_from(from).unwrap_or(usize::MAX))
            .map(|(position, bytes)| LogEntry { position, bytes: bytes.clone() })
            .collect();
        let end = log.entries.len() as u64;
        Ok(LogTail { entries, next: end, durable: end })
    }

    fn sizes(&self) -> Result<Vec<Size>> {
        let state = self.state();
        let size = |kind, name: &String, bytes: usize| Size { kind, name: name.clone(), bytes: bytes as u64 };
        let objects = state.objects.iter().map(|(name, value)| size(StoredKind::Object, name, value.len()));
        let start = SEGMENT_START as usize;
        let segments = state.segments.iter().map(|(name, bytes)| size(StoredKind::Segment, name, start + bytes.len()));
        let logs =
            state.logs.iter().map(|(name, log)| size(StoredKind::Log, name, log.entries.iter().map(Bytes::len).sum()));
        Ok(objects.chain(segments).chain(logs).collect())
    }

    fn erase(&self, objects: &[String]) -> Result<()> {
        let mut state = self.state();
        state.segments.clear();
        state.logs.clear();
        state.objects.retain(|name, _| !objects.contains(name));
        Ok(())
    }
}

impl Spill for MemoryStore {
    fn scratch(&self) -> Result<Box<dyn Scratch>> {
        let file = self.file("tmp", "scratch");
        Ok(Box::new(MemoryScratch { file, bytes: Mutex::default() }))
    }
}

/// The scheme `memory`: stores of this process, by name.
#[derive(Debug, Clone, Copy)]
pub struct Memories;

const PREFIX: &str = "memory://";

static STORES: Mutex<BTreeMap<String, MemoryStore>> = Mutex::new(BTreeMap::new());

impl Scheme for Memories {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn read(&self, location: &str) -> Result<Arc<dyn StoreLocation>, String> {
        let form = |why: &str| format!("a location is {PREFIX}name{why}");
        let name = location.strip_prefix(PREFIX).ok_or_else(|| form(""))?;
        // The message must not repeat the location, which may contain a password.
        names::check_part(name).map_err(|error| match error {
            Error::InvalidName { why, .. } => form(&format!(": {why}")),
            _ => form(""),
        })?;
        Ok(Arc::new(Named { location: location.into() }))
    }
}

struct Named {
    location: String,
}

impl fmt::Display for Named {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.location)
    }
}

impl StoreLocation for Named {
    fn find(&self) -> Result<Content> {
        let named = STORES.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(match named.get(&self.location) {
            Some(store) if !store.is_empty() => Content::Store(Arc::new(store.clone())),
            _ => Content::Nothing,
        })
    }

    fn create(&self) -> Result<Arc<dyn Store>> {
        let mut named = STORES.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || MemoryStore { location: self.location.clone(), state: Arc::default() };
        Ok(Arc::new(named.entry(self.location.clone()).or_insert_with(new).clone()))
    }

    fn beside(&self, suffix: &str, _requests: usize) -> String {
        format!("{}{suffix}", self.location)
    }
}

fn part(bytes: &[u8], start: u64, range: &Range<u64>, file: impl FnOnce() -> String) -> Result<Bytes> {
    let inside = |at: u64| usize::try_from(at.checked_sub(start)?).ok();
    let found = inside(range.start).zip(inside(range.end)).and_then(|(from, to)| bytes.get(from..to));
    match found {
        Some(found) => Ok(Bytes::copy_from_slice(found)),
        None => {
            let end = start + bytes.len() as u64;
            let what = format!("a read needs bytes up to {}, but the segment ends at byte {end}", range.end);
            Err(Error::damaged(file(), range.start, what))
        }
    }
}

struct MemorySegment {
    store: MemoryStore,
    name: String,
    unsynced: Vec<u8>,
    synced: u64,
}

impl Segment for MemorySegment {
    fn append(&mut self, parts: &[&[u8]]) -> Result<u64> {
        let offset = self.len();
        for part in parts {
            self.unsynced.extend_from_slice(part);
        }
        Ok(offset)
    }

    fn sync(&mut self) -> Result<()> {
        self.synced = self.len();
        // A deleted segment accepts the bytes, as an unlinked file does.
        if let Some(bytes) = self.store.state().segments.get_mut(&self.name) {
            bytes.extend_from_slice(&self.unsynced);
        }
        self.unsynced.clear();
        Ok(())
    }

    fn len(&self) -> u64 {
        self.synced + self.unsynced.len() as u64
    }

    fn name(&self) -> &str {
        &self.name
    }
}

struct MemoryLog {
    store: MemoryStore,
    writer: String,
    position: u64,
}

impl LogOwner for MemoryLog {
    fn append(&mut self, entry: &[u8]) -> Result<u64> {
        if let Some(log) = self.store.state().logs.get_mut(&self.writer) {
            log.entries.push(Bytes::copy_from_slice(entry));
        }
        self.position += 1;
        Ok(self.position)
    }

    fn position(&self) -> u64 {
        self.position
    }

    fn writer(&self) -> &str {
        &self.writer
    }
}

impl Drop for MemoryLog {
    fn drop(&mut self) {
        if let Some(log) = self.store.state().logs.get_mut(&self.writer) {
            log.owned = false;
        }
    }
}

struct MemoryScratch {
    file: String,
    bytes: Mutex<Vec<u8>>,
}

impl Scratch for MemoryScratch {
    fn append(&self, bytes: &[u8]) -> Result<u64> {
        let mut all = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let offset = all.len() as u64;
        all.extend_from_slice(bytes);
        Ok(offset)
    }

    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        let all = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        part(&all, 0, &range, || self.file.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_to_one_store_until_nothing_is_in_it() {
        let at = || Memories.read("memory://one").unwrap();
        assert!(matches!(at().find(), Ok(Content::Nothing)));
        at().create().unwrap().put_if_absent("table", b"x").unwrap();
        let Ok(Content::Store(store)) = at().find() else { panic!("there is one") };
        assert_eq!((store.get("table").unwrap().unwrap(), store.location()), (Bytes::from("x"), "memory://one"));
        assert!(at().create().unwrap().get("table").unwrap().is_some());
        assert!(matches!(Memories.read(&at().beside(".fit", 8)).unwrap().find(), Ok(Content::Nothing)));
        store.erase(&["table".into()]).unwrap();
        assert!(matches!(at().find(), Ok(Content::Nothing)));
        assert!(Memories.read("memory://a/b").is_err() && Memories.read("memory://").is_err());
    }
}
