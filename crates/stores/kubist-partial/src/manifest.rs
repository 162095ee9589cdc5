//! The small objects and the ends of the logs of a source, as a reader of its newest state sees them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use kubist_store::{Abilities, Capabilities, LogOwner, LogTail, Result, Segment, Size, Store, StoredKind};

/// Everything of a source except its segments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manifest {
    pub(crate) objects: BTreeMap<String, Bytes>,
    pub(crate) logs: BTreeMap<String, LogEnd>,
    /// The length of each segment.
    pub(crate) segments: BTreeMap<String, u64>,
    /// The size of the whole source.
    pub(crate) source_bytes: u64,
}

/// The entries of a log from a position on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LogEnd {
    pub from: u64,
    pub entries: BTreeMap<u64, Bytes>,
    pub next: u64,
    pub durable: u64,
}

impl Manifest {
    /// The value of an object that was read.
    pub fn object(&self, name: &str) -> Option<&Bytes> {
        self.objects.get(name)
    }
}

/// A store that records what is read through it, except bytes of segments.
#[derive(Debug)]
pub struct Recorder {
    store: Arc<dyn Store>,
    recorded: Mutex<Manifest>,
}

impl Recorder {
    /// Records reads of `store`.
    pub fn new(store: Arc<dyn Store>) -> Recorder {
        Recorder { store, recorded: Mutex::default() }
    }

    /// The recorded objects and entries, with the lengths of the segments of `names`.
    ///
    /// # Errors
    ///
    /// As for [`Store::sizes`] and [`Store::segment_len`].
    pub fn manifest(&self, names: impl Iterator<Item = String>) -> Result<Manifest> {
        let mut manifest = self.recorded().clone();
        for name in names {
            if let Some(length) = self.store.segment_len(&name)? {
                manifest.segments.insert(name, length);
            }
        }
        let sizes = self.store.sizes()?;
        manifest.source_bytes =
            sizes.iter().filter(|size| size.kind != StoredKind::Temporary).map(|size| size.bytes).sum();
        Ok(manifest)
    }

    fn recorded(&self) -> MutexGuard<'_, Manifest> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Required calls only, so that every read is seen; the abilities would read past it.
impl Store for Recorder {
    fn location(&self) -> &str {
        self.store.location()
    }

    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn abilities(&self) -> Abilities<'_> {
        Abilities { sharing: self.store.abilities().sharing, ..Abilities::default() }
    }

    fn put_if_absent(&self, name: &str, value: &[u8]) -> Result<bool> {
        self.store.put_if_absent(name, value)
    }

    fn get(&self, name: &str) -> Result<Option<Bytes>> {
        let found = self.store.get(name)?;
        if let Some(value) = &found {
            self.recorded().objects.insert(name.into(), value.clone());
        }
        Ok(found)
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
        self.store.read(segment, ranges)
    }

    fn segment_len(&self, segment: &str) -> Result<Option<u64>> {
        self.store.segment_len(segment)
    }

    fn segments(&self) -> Result<Vec<String>> {
        self.store.segments()
    }

    fn delete_segment(&self, segment: &str) -> Result<()> {
        self.store.delete_segment(segment)
    }

    fn own_log(&self, writer: &str) -> Result<Box<dyn LogOwner>> {
        self.store.own_log(writer)
    }

    fn logs(&self) -> Result<Vec<String>> {
        self.store.logs()
    }

    fn read_log(&self, writer: &str, from: u64) -> Result<LogTail> {
        let tail = self.store.read_log(writer, from)?;
        let mut recorded = self.recorded();
        let new = || LogEnd { from, ..LogEnd::default() };
        let log = recorded.logs.entry(writer.into()).or_insert_with(new);
        log.from = log.from.min(from);
        log.entries.extend(tail.entries.iter().map(|entry| (entry.position, entry.bytes.clone())));
        (log.next, log.durable) = (log.next.max(tail.next), log.durable.max(tail.durable));
        Ok(tail)
    }

    fn sizes(&self) -> Result<Vec<Size>> {
        self.store.sizes()
    }

    fn erase(&self, objects: &[String]) -> Result<()> {
        self.store.erase(objects)
    }
}
