//! A sealed file as a read-only store.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kubist_store::names::{check_object, check_part};
use kubist_store::{
    Abilities, Answers, Capabilities, Error, Fencing, Latency, Locality, LogEntry, LogOwner, LogTail, Reads, Result,
    Segment, Service, Sharing, Size, Stamp, Stamps, Store, StoredKind, Traffic, Watch,
};

use crate::extents::{Extent, Extents, Nonce, checksum};
use crate::format::{FOOTER_BYTES, Footer, HEADER_BYTES, Tree, Wrong, read_header};
use crate::source::Source;

/// The bytes at the end of the file that are read first: small objects, the tree and the footer.
const TAIL_BYTES: u64 = 128 << 10;
/// The bytes of an extent that [`SealedStore::check`] holds in memory at a time.
const CHECKED_BYTES: u64 = 4 << 20;

/// A sealed file, as a store. All writes are refused.
#[derive(Debug)]
pub struct SealedStore {
    source: Arc<dyn Source>,
    nonce: Nonce,
    tree: Tree,
    length: u64,
    /// The last bytes of the file, and their position.
    tail: (u64, Bytes),
}

impl SealedStore {
    /// Opens a file. Returns `None` if it is another kind of file.
    ///
    /// # Errors
    ///
    /// `Damaged` if it is truncated or damaged; `Newer` if a newer Kubist wrote it; errors of the source.
    pub fn open(source: Arc<dyn Source>) -> Result<Option<SealedStore>> {
        let (bytes, length) = source.tail(TAIL_BYTES)?;
        let start = length.saturating_sub(bytes.len() as u64);
        let wrong = |wrong| explained(source.location(), wrong);
        let header = |source: &dyn Source| match start {
            0 => Ok(bytes.clone()),
            _ => Ok(source.read(&[0..HEADER_BYTES.min(length)], &|_| {})?.swap_remove(0)),
        };
        let footer = match Footer::decode(&bytes, length) {
            Ok(footer) => footer,
            Err(Wrong::Foreign) => {
                return match read_header(&header(source.as_ref())?) {
                    Err(Wrong::Foreign) => Ok(None),
                    Err(other) => Err(wrong(other)),
                    Ok(_) => {
                        let what = "its end is missing: it was truncated, or is still being copied".into();
                        Err(wrong(Wrong::Damaged(length.saturating_sub(FOOTER_BYTES), what)))
                    }
                };
            }
            Err(other) => return Err(wrong(other)),
        };
        // On a network, this read is saved: the footer has the same number.
        if start == 0 || source.latency() != Latency::Network {
            match read_header(&header(source.as_ref())?) {
                Ok(nonce) if nonce == footer.nonce => {}
                Ok(_) => return Err(wrong(Wrong::Damaged(16, "its header is of another file than its end".into()))),
                Err(Wrong::Foreign) => return Ok(None),
                Err(other) => return Err(wrong(other)),
            }
        }
        let mut store = SealedStore {
            nonce: footer.nonce,
            tree: Tree::default(),
            length,
            tail: (start, bytes.clone()),
            source: source.clone(),
        };
        let tree = store.whole("", &footer.tree)?;
        store.tree = Tree::decode(&tree, footer.tree.position).map_err(wrong)?;
        Ok(Some(store))
    }

    /// The length of the file in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Reads the whole file and compares every checksum. Calls `progress(done, total)` in bytes.
    ///
    /// # Errors
    ///
    /// `Damaged` names the object, log or segment and the position; errors of the source and of `progress`.
    pub fn check(&self, progress: &mut dyn FnMut(u64, u64) -> Result<()>) -> Result<()> {
        let header = self.bytes(&[0..HEADER_BYTES], &|_| {})?.swap_remove(0);
        match read_header(&header) {
            Ok(nonce) if nonce == self.nonce => {}
            Ok(_) => return Err(self.damaged("", 16, "the header is of another file")),
            Err(wrong) => return Err(explained(self.location(), wrong)),
        }
        let mut done = HEADER_BYTES;
        for (name, extent) in self.tree.extents() {
            let (mut found, mut at) = (checksum(&self.nonce, extent.position, b""), extent.position);
            while at < extent.end() {
                let end = extent.end().min(at + CHECKED_BYTES);
                found = crc32c::crc32c_append(found, &self.bytes(&[at..end], &|_| {})?[0]);
                done += end - at;
                at = end;
                progress(done.min(self.length), self.length)?;
            }
            if found != extent.checksum {
                return Err(self.damaged(&name, extent.position, "its checksum is wrong"));
            }
        }
        progress(self.length, self.length)
    }

    fn file(&self, name: &str) -> String {
        match name.is_empty() {
            true => self.location().to_owned(),
            false => format!("{}/{name}", self.location()),
        }
    }

    fn damaged(&self, name: &str, offset: u64, what: impl Into<String>) -> Error {
        Error::Damaged { file: self.file(name), offset, what: what.into() }
    }

    /// Reads ranges. Ranges in the end of the file need no read.
    fn bytes(&self, ranges: &[Range<u64>], watch: Watch<'_>) -> Result<Vec<Bytes>> {
        let (start, tail) = &self.tail;
        let present = |range: &Range<u64>| range.start >= *start && range.end <= self.length;
        let cut = |range: &Range<u64>| tail.slice((range.start - start) as usize..(range.end - start) as usize);
        let absent: Vec<Range<u64>> = ranges.iter().filter(|range| !present(range)).cloned().collect();
        let read = if absent.is_empty() { Vec::new() } else { self.source.read(&absent, watch)? };
        let mut read = read.into_iter();
        let found = ranges.iter().map(|range| if present(range) { Some(cut(range)) } else { read.next() });
        found.collect::<Option<_>>().ok_or_else(|| self.damaged("", 0, "a read returned too few ranges"))
    }

    /// The bytes of an extent, after comparing them with its checksum.
    fn whole(&self, name: &str, extent: &Extent) -> Result<Bytes> {
        let bytes = self.bytes(&[extent.range()], &|_| {})?.swap_remove(0);
        match checksum(&self.nonce, extent.position, &bytes) == extent.checksum {
            true => Ok(bytes),
            false => Err(self.damaged(name, extent.position, "its checksum is wrong")),
        }
    }

    fn segment(&self, name: &str) -> Result<&Extents> {
        check_part(name)?;
        let missing = || Error::Missing { file: self.file(&format!("segments/{name}")) };
        self.tree.segments.get(name).ok_or_else(missing)
    }

    /// Reads all ranges with one call of the source. If `is_short`, ranges may extend past the end of their segment.
    fn read_all(&self, wanted: &[(&str, &[Range<u64>])], is_short: bool, watch: Watch<'_>) -> Result<Answers> {
        let located: Vec<Result<Vec<Vec<Range<u64>>>>> =
            wanted.iter().map(|(name, ranges)| self.located(name, ranges, is_short)).collect();
        let all: Vec<Range<u64>> = located.iter().flatten().flatten().flatten().cloned().collect();
        let mut read = self.bytes(&all, watch)?.into_iter();
        let mut joined = |parts: Vec<Range<u64>>| match parts.len() {
            1 => read.next().unwrap_or_default(),
            count => read
                .by_ref()
                .take(count)
                .fold(BytesMut::new(), |mut whole, part| {
                    whole.extend_from_slice(&part);
                    whole
                })
                .freeze(),
        };
        Ok(located.into_iter().map(|found| Ok(found?.into_iter().map(&mut joined).collect())).collect())
    }

    fn located(&self, name: &str, ranges: &[Range<u64>], is_short: bool) -> Result<Vec<Vec<Range<u64>>>> {
        let extents = self.segment(name)?;
        let end = if is_short { extents.length() } else { u64::MAX };
        let locate = |range: &Range<u64>| {
            let found = extents.locate(&(range.start.min(end)..range.end.min(end)));
            found.ok_or_else(|| {
                let what = format!(
                    "a read needs bytes up to {}, but the segment ends at byte {}",
                    range.end,
                    extents.length()
                );
                self.damaged(&format!("segments/{name}"), range.start, what)
            })
        };
        ranges.iter().map(locate).collect()
    }

    fn refused<T>(&self) -> Result<T> {
        let location = self.location();
        let why = format!(
            "it is a sealed file, which never changes; `kubist unpack {location} TABLE` makes a table that can be written"
        );
        let source = io::Error::new(io::ErrorKind::ReadOnlyFilesystem, why);
        Err(Error::Io { operation: "change", file: location.into(), source })
    }
}

fn explained(location: &str, wrong: Wrong) -> Error {
    let file = location.to_owned();
    match wrong {
        Wrong::Damaged(offset, what) => Error::Damaged { file, offset, what },
        Wrong::Newer(found) => Error::Newer { file, found, known: crate::format::VERSION },
        Wrong::Foreign => Error::Damaged { file, offset: 0, what: "it is not a sealed file".into() },
    }
}

impl Store for SealedStore {
    fn location(&self) -> &str {
        self.source.location()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            locality: Locality::Here,
            latency: self.source.latency(),
            fencing: Fencing::Lock,
            staleness: Duration::ZERO,
            punches: false,
        }
    }

    fn abilities(&self) -> Abilities<'_> {
        let service = self.source.traffic().map(|_| self as &dyn Service);
        Abilities { reads: Some(self), stamps: Some(self), sharing: Some(self), service, ..Abilities::default() }
    }

    fn put_if_absent(&self, name: &str, _value: &[u8]) -> Result<bool> {
        check_object(name)?;
        self.refused()
    }

    fn get(&self, name: &str) -> Result<Option<Bytes>> {
        check_object(name)?;
        self.tree.objects.get(name).map(|extent| self.whole(name, extent)).transpose()
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        let names = self.tree.objects.range(prefix.to_owned()..).map(|(name, _)| name);
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
        let answer = self.read_all(&[(segment, ranges)], false, &|_| {})?.pop();
        answer.unwrap_or_else(|| Ok(Vec::new()))
    }

    fn segment_len(&self, segment: &str) -> Result<Option<u64>> {
        check_part(segment)?;
        Ok(self.tree.segments.get(segment).map(Extents::length))
    }

    fn segments(&self) -> Result<Vec<String>> {
        Ok(self.tree.segments.keys().cloned().collect())
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
        Ok(self.tree.logs.keys().cloned().collect())
    }

    fn read_log(&self, writer: &str, from: u64) -> Result<LogTail> {
        check_part(writer)?;
        let name = format!("logs/{writer}");
        let Some(log) = self.tree.logs.get(writer) else { return Err(Error::Missing { file: self.file(&name) }) };
        let wanted = &log.entries[log.entries.partition_point(|(position, _)| *position < from)..];
        let ranges: Vec<Range<u64>> = wanted.iter().map(|(_, extent)| extent.range()).collect();
        let mut entries = Vec::with_capacity(wanted.len());
        for ((position, extent), bytes) in wanted.iter().zip(self.bytes(&ranges, &|_| {})?) {
            if checksum(&self.nonce, extent.position, &bytes) != extent.checksum {
                return Err(self.damaged(&name, extent.position, "the checksum of an entry is wrong"));
            }
            entries.push(LogEntry { position: *position, bytes });
        }
        Ok(LogTail { entries, next: log.next, durable: log.next })
    }

    fn sizes(&self) -> Result<Vec<Size>> {
        let size = |kind, name: &String, bytes| Size { kind, name: name.clone(), bytes };
        let objects = self.tree.objects.iter().map(|(name, extent)| size(StoredKind::Object, name, extent.length));
        let segments = self.tree.segments.iter().map(|(name, all)| size(StoredKind::Segment, name, all.length()));
        let of_log = |log: &crate::format::Log| log.entries.iter().map(|(_, extent)| extent.length).sum();
        let logs = self.tree.logs.iter().map(|(name, log)| size(StoredKind::Log, name, of_log(log)));
        Ok(objects.chain(segments).chain(logs).collect())
    }

    fn erase(&self, _objects: &[String]) -> Result<()> {
        self.refused()
    }
}

impl Reads for SealedStore {
    fn read_segments(&self, wanted: &[(&str, &[Range<u64>])], watch: Watch<'_>) -> Result<Answers> {
        self.read_all(wanted, false, watch)
    }

    fn read_short(&self, wanted: &[(&str, &[Range<u64>])], watch: Watch<'_>) -> Result<Answers> {
        self.read_all(wanted, true, watch)
    }

    fn list_after(&self, prefix: &str, after: &str) -> Result<Vec<String>> {
        let mut names = self.list(prefix)?;
        names.retain(|name| name.as_str() > after);
        Ok(names)
    }

    fn waited(&self) -> bool {
        self.source.waited()
    }
}

impl Stamps for SealedStore {
    fn stamp(&self, name: &str) -> Result<Stamp> {
        check_object(name)?;
        let mark = |extent: &Extent| Stamp::Of(u128::from_le_bytes(self.nonce) ^ u128::from(extent.position));
        Ok(self.tree.objects.get(name).map_or(Stamp::Absent, mark))
    }

    fn log_stamps(&self, entries: &[(&str, u64)]) -> Result<Vec<Stamp>> {
        let mark = |(writer, position): &(&str, u64)| {
            check_part(writer)?;
            let log = self.tree.logs.get(*writer).filter(|log| log.next >= *position);
            Ok(log.map_or(Stamp::Absent, |_| Stamp::Of(u128::from_le_bytes(self.nonce) ^ u128::from(*position))))
        };
        entries.iter().map(mark).collect()
    }
}

/// A sealed file never changes, so there is nothing to wait for.
impl Sharing for SealedStore {
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

impl Service for SealedStore {
    /// The random number of the file. Its bytes never change, so copies stay valid.
    fn identity(&self) -> Option<u128> {
        Some(u128::from_le_bytes(self.nonce))
    }

    fn traffic(&self) -> Option<Traffic> {
        self.source.traffic()
    }
}
