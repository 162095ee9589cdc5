//! The store that a partial copy is read through.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use kubist_store::names::{check_object, check_part};
use kubist_store::{
    Abilities, Answers, Capabilities, Content, Error, Fencing, LogEntry, LogOwner, LogTail, Partial, Reads, Request,
    Result, Segment, Sharing, Size, Stamp, Stamps, Store, StoreExt, StoredKind, Watch, locate,
};

use crate::format::{Entry, HEAD, Head, MANIFESTS, VERSION, Wrong};
use crate::held::{Held, Keeper, explained, read};
use crate::index::Piece;
use crate::manifest::Manifest;

/// The object whose value tells one source from another.
const IDENTITY: &str = "table";
/// It exists while a copy has no manifest yet.
const UNFINISHED: &str = "unfinished";
/// A manifest can be replaced between the read of the log and of the manifest.
const ATTEMPTS: usize = 100;

/// A partial copy. Another handle that fetches is seen, but a new manifest only by a new handle.
#[derive(Debug)]
pub struct PartialStore {
    own: Arc<dyn Store>,
    source: String,
    manifest: Manifest,
    number: u64,
    held: Mutex<Held>,
    keeper: Mutex<Option<Keeper>>,
    fetches: AtomicBool,
    /// The opened source.
    upstream: Mutex<Option<Arc<dyn Store>>>,
}

impl PartialStore {
    /// Begins a copy of the store at `source` in an empty store, or continues one that has no manifest yet.
    ///
    /// # Errors
    ///
    /// `Exists` if it is a copy of another source; a storage error.
    pub fn begin(own: Arc<dyn Store>, source: &str) -> Result<PartialStore> {
        let head = Head { format_version: VERSION, source: source.into() };
        let bytes = serde_json::to_vec(&head).expect("a text and a number are valid JSON");
        own.put_if_absent(HEAD, &bytes)?;
        let location = own.location().to_owned();
        match PartialStore::open(own)? {
            Some(store) if store.source == source => Ok(store),
            _ => Err(Error::Exists { file: location }),
        }
    }

    /// Opens a copy; `None` if the store is no partial copy.
    ///
    /// # Errors
    ///
    /// `Damaged`; `Newer`; a storage error.
    pub fn open(own: Arc<dyn Store>) -> Result<Option<PartialStore>> {
        let Some(head) = own.get(HEAD)? else { return Ok(None) };
        let head: Head = serde_json::from_slice(&head).map_err(|_| explained(&*own, HEAD, 0, Wrong::Damaged))?;
        if head.format_version > VERSION {
            return Err(explained(&*own, HEAD, 0, Wrong::Newer(head.format_version)));
        }
        let mut held = Held::default();
        let mut found = None;
        for _ in 0..ATTEMPTS {
            held.catch_up(&*own)?;
            let Some(number) = held.manifest else { break };
            let name = format!("{MANIFESTS}{number:020}");
            if let Some(bytes) = own.get(&name)? {
                let manifest = Manifest::decode(&bytes).map_err(|wrong| explained(&*own, &name, 0, wrong))?;
                found = Some((manifest, number));
                break;
            }
        }
        let (manifest, number) = match (found, held.manifest) {
            (Some(found), _) => found,
            (None, None) => (Manifest::default(), 0),
            (None, Some(number)) => {
                let file = format!("{}/{MANIFESTS}{number:020}", own.location());
                return Err(Error::Damaged { file, offset: 0, what: "the file is missing".into() });
            }
        };
        Ok(Some(PartialStore {
            own,
            source: head.source,
            manifest,
            number,
            held: Mutex::new(held),
            keeper: Mutex::default(),
            fetches: AtomicBool::new(false),
            upstream: Mutex::default(),
        }))
    }

    /// Returns the copy with a newer manifest of the same source. It keeps the pieces, because bytes of segments never
    /// change.
    ///
    /// # Errors
    ///
    /// `Busy` while another process fetches; `NoSpace`; a storage error.
    pub fn renewed(self, manifest: &Manifest) -> Result<PartialStore> {
        let earlier = self.own.list(MANIFESTS)?;
        let number =
            earlier.last().and_then(|name| name[MANIFESTS.len()..].parse::<u64>().ok()).unwrap_or(0).max(self.number)
                + 1;
        self.own.put_if_absent(&format!("{MANIFESTS}{number:020}"), &manifest.encode())?;
        self.note(Entry::Manifest(number))?;
        for name in earlier {
            self.own.delete(&name)?;
        }
        let own = self.own.clone();
        drop(self);
        let location = own.location().to_owned();
        PartialStore::open(own)?.ok_or(Error::Missing { file: location })
    }

    /// Records a query that the copy is made for, before its bytes are fetched and after they arrived.
    ///
    /// # Errors
    ///
    /// As for [`PartialStore::renewed`].
    pub fn want(&self, query: &[u8], is_held: bool) -> Result<()> {
        self.note(Entry::Wanted { is_held, query: query.into() })
    }

    /// The recorded queries, and whether all their bytes arrived.
    pub fn queries(&self) -> Vec<(Bytes, bool)> {
        self.held().wanted.clone()
    }

    /// Whether a manifest exists, so that the copy can be read.
    pub fn is_begun(&self) -> bool {
        self.number > 0
    }

    /// The size of the whole source when the manifest was copied.
    pub fn source_bytes(&self) -> u64 {
        self.manifest.source_bytes
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, entry: Entry) -> Result<()> {
        self.with_keeper(|keeper, held| keeper.note(held, entry))
    }

    /// After an error the log's owner is unusable, so the next call takes the log again.
    fn with_keeper<T>(&self, work: impl FnOnce(&mut Keeper, &mut Held) -> Result<T>) -> Result<T> {
        let mut slot = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        let mut keeper = match slot.take() {
            Some(keeper) => keeper,
            None => Keeper::begin(&*self.own, &mut self.held())?,
        };
        let done = work(&mut keeper, &mut self.held())?;
        *slot = Some(keeper);
        Ok(done)
    }

    /// Opens the source on first use.
    fn upstream(&self) -> Result<Arc<dyn Store>> {
        let mut upstream = self.upstream.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = &*upstream {
            return Ok(store.clone());
        }
        let unreachable = |why: String| Error::Unreachable { location: self.source.clone(), why };
        let store = match locate(&self.source).map_err(unreachable)?.find()? {
            Content::Store(store) => store,
            Content::NoStore(what) => return Err(unreachable(what.into())),
            Content::Nothing => return Err(unreachable("the source of this partial copy is not there".into())),
        };
        if store.get(IDENTITY)?.as_ref() != self.manifest.object(IDENTITY) {
            let cause = format!("another table is there now, not the source of {}", self.location());
            return Err(Error::Refused { file: self.source.clone(), cause });
        }
        Ok(upstream.insert(store).clone())
    }

    /// Fetches the missing bytes of ranges, and keeps them.
    fn fetch(&self, wanted: &[(&str, &[Range<u64>])]) -> Result<()> {
        let upstream = self.upstream()?;
        // One fetch at a time, so that no byte is fetched twice.
        let mut slot = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        let mut keeper = match slot.take() {
            Some(keeper) => keeper,
            None => Keeper::begin(&*self.own, &mut self.held())?,
        };
        let missing = self.gaps(wanted);
        if missing.is_empty() {
            *slot = Some(keeper);
            return Ok(());
        }
        let asked: Vec<(&str, &[Range<u64>])> =
            missing.iter().map(|(segment, ranges)| (*segment, &ranges[..])).collect();
        let answers = match upstream.read_segments(&asked, &|_| {}) {
            Ok(answers) => answers,
            Err(error) => {
                *slot = Some(keeper);
                return Err(error);
            }
        };
        let mut arrived = Vec::new();
        for ((segment, ranges), answer) in missing.iter().zip(answers) {
            match answer {
                Ok(bytes) => {
                    arrived.extend(ranges.iter().cloned().zip(bytes).map(|(range, bytes)| (*segment, range, bytes)));
                }
                Err(error) => {
                    *slot = Some(keeper);
                    return Err(self.cleaned(error));
                }
            }
        }
        keeper.keep(&mut self.held(), &arrived)?;
        *slot = Some(keeper);
        Ok(())
    }

    /// A missing segment was cleaned, because its name was in the manifest.
    fn cleaned(&self, error: Error) -> Error {
        match error {
            Error::Missing { file } => {
                let cause =
                    format!("the source has cleaned it; `kubist deepen {}` takes the newest state", self.location());
                Error::Refused { file, cause }
            }
            error => error,
        }
    }

    /// The missing ranges by segment, without empty ones.
    fn gaps<'a>(&self, wanted: &[(&'a str, &[Range<u64>])]) -> Vec<(&'a str, Vec<Range<u64>>)> {
        let held = self.held();
        let of_segment = |(segment, ranges): &(&'a str, &[Range<u64>])| {
            let mut gaps: Vec<Range<u64>> = ranges.iter().flat_map(|range| held.index.find(segment, range).1).collect();
            gaps.sort_unstable_by_key(|gap| gap.start);
            // The same bytes may be wanted twice.
            let mut all: Vec<Range<u64>> = Vec::with_capacity(gaps.len());
            for gap in gaps {
                match all.last_mut() {
                    Some(last) if gap.start < last.end => last.end = last.end.max(gap.end),
                    _ => all.push(gap),
                }
            }
            (*segment, all)
        };
        wanted.iter().map(of_segment).filter(|(_, gaps)| !gaps.is_empty()).collect()
    }

    fn read_all(&self, wanted: &[(&str, &[Range<u64>])], watch: Watch<'_>) -> Result<Answers> {
        let asked = Instant::now();
        if self.missing(wanted) > 0 {
            Partial::catch_up(self)?;
        }
        let mut missing = self.missing(wanted);
        if missing > 0 && self.fetches() {
            let known: Vec<_> = wanted.iter().filter(|(segment, _)| self.has(segment)).copied().collect();
            self.fetch(&known)?;
            missing = 0;
        }
        let mut answers = Answers::with_capacity(wanted.len());
        for (segment, ranges) in wanted {
            check_part(segment)?;
            answers.push(match self.of_segment(segment, ranges, missing) {
                Err(Error::Damaged { .. } | Error::Missing { .. }) if self.fetches() && self.has(segment) => {
                    for range in *ranges {
                        self.forget(segment, range.clone())?;
                    }
                    self.fetch(&[(segment, ranges)])?;
                    self.of_segment(segment, ranges, 0)
                }
                answer => answer,
            });
        }
        let bytes = answers.iter().flatten().flatten().map(|bytes| bytes.len() as u64).sum();
        watch(Request { asked, sent: asked, answered: Instant::now(), bytes, host: None, cached: false });
        Ok(answers)
    }

    fn has(&self, segment: &str) -> bool {
        self.manifest.segments.contains_key(segment)
    }

    /// `missing` bytes of the whole request are not held.
    fn of_segment(&self, segment: &str, ranges: &[Range<u64>], missing: u64) -> Result<Vec<Bytes>> {
        if !self.has(segment) {
            return Err(Error::Missing { file: format!("{}/segments/{segment}.seg", self.location()) });
        }
        let mut found: Vec<Vec<Piece>> = Vec::with_capacity(ranges.len());
        {
            let held = self.held();
            for range in ranges {
                let (pieces, gaps) = held.index.find(segment, range);
                if !gaps.is_empty() {
                    return Err(Error::NotHere { location: self.location().into(), bytes: missing.max(1) });
                }
                found.push(pieces);
            }
        }
        let mut pieces: Vec<Piece> = found.iter().flatten().cloned().collect();
        pieces.sort_by_key(|piece| piece.range.start);
        pieces.dedup();
        let bytes = read(&*self.own, &pieces)?;
        let cut = |(range, of_range): (&Range<u64>, Vec<Piece>)| {
            let mut parts = of_range.iter().filter_map(|piece| {
                let place = pieces.binary_search_by_key(&piece.range.start, |piece| piece.range.start).ok()?;
                let (start, end) = (range.start.max(piece.range.start), range.end.min(piece.range.end));
                Some(bytes[place].slice((start - piece.range.start) as usize..(end - piece.range.start) as usize))
            });
            match (of_range.len(), parts.next()) {
                (1, Some(only)) => only,
                (_, first) => {
                    let mut whole = BytesMut::with_capacity((range.end - range.start) as usize);
                    first.iter().for_each(|part| whole.extend_from_slice(part));
                    parts.for_each(|part| whole.extend_from_slice(&part));
                    whole.freeze()
                }
            }
        };
        Ok(ranges.iter().zip(found).map(cut).collect())
    }

    fn refused<T>(&self) -> Result<T> {
        let why = format!("it is a partial copy, which cannot be written to; write to its source {}", self.source);
        let source = io::Error::new(io::ErrorKind::ReadOnlyFilesystem, why);
        Err(Error::Io { operation: "change", file: self.location().into(), source })
    }
}

impl Store for PartialStore {
    fn location(&self) -> &str {
        self.own.location()
    }

    fn capabilities(&self) -> Capabilities {
        let staleness = Duration::ZERO;
        Capabilities { fencing: Fencing::Lock, staleness, punches: false, ..self.own.capabilities() }
    }

    fn abilities(&self) -> Abilities<'_> {
        Abilities {
            reads: Some(self),
            stamps: Some(self),
            sharing: Some(self),
            partial: Some(self),
            ..Abilities::default()
        }
    }

    fn put_if_absent(&self, name: &str, _value: &[u8]) -> Result<bool> {
        check_object(name)?;
        self.refused()
    }

    fn get(&self, name: &str) -> Result<Option<Bytes>> {
        check_object(name)?;
        if name == UNFINISHED && !self.is_begun() {
            return Ok(Some(Bytes::new()));
        }
        Ok(self.manifest.objects.get(name).cloned())
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        let names = self.manifest.objects.range(prefix.to_owned()..).map(|(name, _)| name);
        Ok(names.take_while(|name| name.starts_with(prefix)).cloned().collect())
    }

    fn delete(&self, name: &str) -> Result<()> {
        check_object(name)?;
        self.refused()
    }

    fn create_segment(&self, name: &str) -> Result<Box<dyn Segment>> {
        check_part(name)?;
        self.refused()
    }

    fn read(&self, segment: &str, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let answer = self.read_all(&[(segment, ranges)], &|_| {})?.pop();
        answer.unwrap_or_else(|| Ok(Vec::new()))
    }

    fn segment_len(&self, segment: &str) -> Result<Option<u64>> {
        check_part(segment)?;
        Ok(self.manifest.segments.get(segment).copied())
    }

    fn segments(&self) -> Result<Vec<String>> {
        Ok(self.manifest.segments.keys().cloned().collect())
    }

    fn delete_segment(&self, segment: &str) -> Result<()> {
        check_part(segment)?;
        self.refused()
    }

    fn own_log(&self, writer: &str) -> Result<Box<dyn LogOwner>> {
        check_part(writer)?;
        self.refused()
    }

    fn logs(&self) -> Result<Vec<String>> {
        Ok(self.manifest.logs.keys().cloned().collect())
    }

    fn read_log(&self, writer: &str, from: u64) -> Result<LogTail> {
        check_part(writer)?;
        let Some(log) = self.manifest.logs.get(writer) else {
            return Err(Error::Missing { file: format!("{}/log of {writer}", self.location()) });
        };
        if from < log.from {
            return Err(Error::NotHere { location: self.location().into(), bytes: log.from - from });
        }
        let entry = |(position, bytes): (&u64, &Bytes)| LogEntry { position: *position, bytes: bytes.clone() };
        Ok(LogTail { entries: log.entries.range(from..).map(entry).collect(), next: log.next, durable: log.durable })
    }

    /// The sizes of the copy itself.
    fn sizes(&self) -> Result<Vec<Size>> {
        let mut sizes = self.own.sizes()?;
        sizes.retain(|size| size.kind != StoredKind::Temporary);
        Ok(sizes)
    }

    fn erase(&self, _objects: &[String]) -> Result<()> {
        let why = "it is a partial copy; delete its directory";
        let source = io::Error::new(io::ErrorKind::ReadOnlyFilesystem, why);
        Err(Error::Io { operation: "drop", file: self.location().into(), source })
    }
}

impl Partial for PartialStore {
    fn source(&self) -> &str {
        &self.source
    }

    fn wanted(&self) -> Vec<Bytes> {
        self.held().wanted.iter().filter(|(_, is_held)| *is_held).map(|(query, _)| query.clone()).collect()
    }

    fn held_bytes(&self) -> u64 {
        self.held().index.bytes()
    }

    fn missing(&self, wanted: &[(&str, &[Range<u64>])]) -> u64 {
        self.gaps(wanted).iter().flat_map(|(_, gaps)| gaps).map(|gap| gap.end - gap.start).sum()
    }

    fn catch_up(&self) -> Result<()> {
        self.held().catch_up(&*self.own)
    }

    fn fetches(&self) -> bool {
        self.fetches.load(Ordering::Relaxed)
    }

    fn fetch_missing(&self, fetches: bool) {
        self.fetches.store(fetches, Ordering::Relaxed);
        if !fetches {
            drop(self.keeper.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
    }

    fn forget(&self, segment: &str, range: Range<u64>) -> Result<()> {
        if self.held().index.find(segment, &range).0.is_empty() {
            return Ok(());
        }
        self.note(Entry::Forgotten { segment: segment.into(), range })
    }
}

impl Reads for PartialStore {
    fn read_segments(&self, wanted: &[(&str, &[Range<u64>])], watch: Watch<'_>) -> Result<Answers> {
        self.read_all(wanted, watch)
    }

    fn read_short(&self, wanted: &[(&str, &[Range<u64>])], watch: Watch<'_>) -> Result<Answers> {
        self.read_all(wanted, watch)
    }

    fn list_after(&self, prefix: &str, after: &str) -> Result<Vec<String>> {
        let mut names = self.list(prefix)?;
        names.retain(|name| name.as_str() > after);
        Ok(names)
    }

    fn waited(&self) -> bool {
        self.own.waited()
    }
}

/// Objects and logs do not change while the handle lives.
impl Stamps for PartialStore {
    fn stamp(&self, name: &str) -> Result<Stamp> {
        let is_there = self.get(name)?.is_some();
        Ok(if is_there { Stamp::Of(u128::from(self.number)) } else { Stamp::Absent })
    }

    fn log_stamps(&self, entries: &[(&str, u64)]) -> Result<Vec<Stamp>> {
        let mark = |(writer, position): &(&str, u64)| {
            let log = self.manifest.logs.get(*writer).filter(|log| log.next >= *position);
            log.map_or(Stamp::Absent, |_| Stamp::Of(u128::from(self.number)))
        };
        Ok(entries.iter().map(mark).collect())
    }
}

/// Nothing new ever appears.
impl Sharing for PartialStore {
    fn share(&self) -> Result<()> {
        self.refused()
    }

    fn learn(&self) {}

    fn look_again(&self, _attempt: u32) -> Result<bool> {
        Ok(false)
    }

    fn await_seen(&self, look: &mut dyn FnMut() -> Result<bool>) -> Result<bool> {
        look()
    }

    fn catch_up(&self) -> Result<()> {
        Ok(())
    }
}
