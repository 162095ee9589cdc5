//! Writes a sealed file: a store that receives a copy, and then becomes the file.
//!
//! Segments are written to the file immediately. Objects and logs stay in memory, because they are few and are written
//! last, next to the tree. Until [`Packer::seal`], the file has a temporary name. A dropped packer removes it; a killed
//! process leaves it, which does no harm.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use kubist_store::names::check_part;
use kubist_store::{Capabilities, Error, LogOwner, LogTail, MemoryStore, Result, Segment, Size, Store, StoredKind};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::extents::{Extent, Extents, Nonce};
use crate::format::{Footer, Log, MOST_BYTES, Tree, header};

/// The bytes of small appends that are written together. This also needs fewer extents.
const BUFFER_BYTES: usize = 1 << 20;

/// A store whose bytes become one sealed file. Clones are handles to the same file.
#[derive(Debug, Clone)]
pub struct Packer {
    file: Arc<Packing>,
    rest: MemoryStore,
}

#[derive(Debug)]
struct Packing {
    file: File,
    path: PathBuf,
    temporary: PathBuf,
    location: String,
    nonce: Nonce,
    is_sealed: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    end: u64,
    segments: std::collections::BTreeMap<String, Extents>,
}

impl Drop for Packing {
    fn drop(&mut self) {
        if !self.is_sealed.load(Ordering::Relaxed) {
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

impl Packing {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, operation: &'static str, source: io::Error) -> Error {
        failed(operation, &self.location, source)
    }

    fn write(&self, state: &mut State, bytes: &[u8]) -> Result<u64> {
        let position = state.end;
        self.file.write_all_at(bytes, position).map_err(|error| self.failed("write", error))?;
        state.end += bytes.len() as u64;
        Ok(position)
    }
}

fn failed(operation: &'static str, file: &str, source: io::Error) -> Error {
    let file = file.to_owned();
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::NoSpace { operation, file },
        io::ErrorKind::AlreadyExists => Error::Exists { file },
        _ => Error::Io { operation, file, source },
    }
}

impl Packer {
    /// Begins a file at a free path.
    ///
    /// # Errors
    ///
    /// `Exists` if something is at the path; `NoSpace`; `Io`.
    pub fn create(path: &Path) -> Result<Packer> {
        let location = path.display().to_string();
        if path.symlink_metadata().is_ok() {
            return Err(Error::Exists { file: location });
        }
        let mut nonce = Nonce::default();
        getrandom::fill(&mut nonce).map_err(|error| failed("create", &location, io::Error::other(error)))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let temporary = path.with_file_name(format!(".{name}.{:02x}{:02x}.part", nonce[0], nonce[1]));
        let options = OpenOptions::new().read(true).write(true).create_new(true).open(&temporary);
        let packing = Packing {
            file: options.map_err(|error| failed("create", &temporary.display().to_string(), error))?,
            path: path.into(),
            temporary,
            location: location.clone(),
            nonce,
            is_sealed: AtomicBool::new(false),
            state: Mutex::default(),
        };
        packing.write(&mut packing.state(), &header(&nonce))?;
        Ok(Packer { file: Arc::new(packing), rest: MemoryStore::new(&location) })
    }

    /// Completes the file, makes it durable, and gives it its name. Returns its length in bytes. All segments must be
    /// synced.
    ///
    /// # Errors
    ///
    /// `Exists` if something has appeared at the path; `NoSpace`; `Io`. After an error, nothing is at the path.
    pub fn seal(&self) -> Result<u64> {
        let length = self.write_end()?;
        let packing = &self.file;
        packing.file.sync_all().map_err(|error| packing.failed("sync", error))?;
        name(&packing.temporary, &packing.path).map_err(|error| packing.failed("name", error))?;
        packing.is_sealed.store(true, Ordering::Relaxed);
        let folder = packing.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| packing.failed("sync", error))?;
        Ok(length)
    }

    /// Writes everything after the segments. A later call writes it again.
    fn write_end(&self) -> Result<u64> {
        let (packing, rest) = (&self.file, &self.rest);
        let mut tree = Tree::default();
        let mut values: Vec<(Bytes, Owner)> = Vec::new();
        for object in rest.list("")? {
            let value = rest.get(&object)?.unwrap_or_default();
            values.push((value, Owner::Object(object)));
        }
        for writer in rest.logs()? {
            let LogTail { entries, next, .. } = rest.read_log(&writer, 0)?;
            tree.logs.insert(writer.clone(), Log { entries: Vec::new(), next });
            let owner = |position| Owner::Entry(writer.clone(), position);
            values.extend(entries.into_iter().map(|entry| (entry.bytes, owner(entry.position))));
        }
        // The small objects come last, next to the tree, so one read returns them together.
        values.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
        let mut state = packing.state();
        let State { end: _, segments } = &*state;
        tree.segments = segments.clone();
        for (value, owner) in values {
            if value.len() as u64 > MOST_BYTES {
                let why = format!("an object has {} bytes, and a sealed file holds up to {MOST_BYTES}", value.len());
                return Err(packing.failed("write", io::Error::new(io::ErrorKind::Unsupported, why)));
            }
            let mut extent = Extent::at(&packing.nonce, packing.write(&mut state, &value)?);
            extent.extend(&value);
            match owner {
                Owner::Object(name) => drop(tree.objects.insert(name, extent)),
                Owner::Entry(writer, at) => tree.logs.entry(writer).or_default().entries.push((at, extent)),
            }
        }
        tree.logs.values_mut().for_each(|log| log.entries.sort_unstable_by_key(|(position, _)| *position));
        let bytes = tree.encode();
        let mut extent = Extent::at(&packing.nonce, packing.write(&mut state, &bytes)?);
        extent.extend(&bytes);
        packing.write(&mut state, &Footer { nonce: packing.nonce, tree: extent }.encode())?;
        Ok(state.end)
    }

    fn missing(&self, segment: &str) -> Error {
        Error::Missing { file: format!("{}/segments/{segment}", self.file.location) }
    }
}

/// The object or log entry that a value belongs to.
enum Owner {
    Object(String),
    /// The writer, and the position in its log.
    Entry(String, u64),
}

/// Gives the file its name, unless the name is taken.
fn name(temporary: &Path, path: &Path) -> io::Result<()> {
    match renameat_with(CWD, temporary, CWD, path, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        // Some file systems cannot rename without replacing a file.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            std::fs::hard_link(temporary, path)?;
            std::fs::remove_file(temporary)
        }
        Err(error) => Err(error.into()),
    }
}

impl Store for Packer {
    fn location(&self) -> &str {
        &self.file.location
    }

    fn capabilities(&self) -> Capabilities {
        self.rest.capabilities()
    }

    fn put_if_absent(&self, name: &str, value: &[u8]) -> Result<bool> {
        self.rest.put_if_absent(name, value)
    }

    fn get(&self, name: &str) -> Result<Option<Bytes>> {
        self.rest.get(name)
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.rest.list(prefix)
    }

    fn delete(&self, name: &str) -> Result<()> {
        self.rest.delete(name)
    }

    fn create_segment(&self, name: &str) -> Result<Box<dyn Segment>> {
        check_part(name)?;
        let mut state = self.file.state();
        if state.segments.contains_key(name) {
            return Err(Error::Exists { file: format!("{}/segments/{name}", self.file.location) });
        }
        state.segments.insert(name.to_owned(), Extents::default());
        Ok(Box::new(PackedSegment { packing: self.file.clone(), name: name.into(), written: 0, buffer: Vec::new() }))
    }

    fn read(&self, segment: &str, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        check_part(segment)?;
        let extents = self.file.state().segments.get(segment).cloned().ok_or_else(|| self.missing(segment))?;
        let read = |range: &Range<u64>| {
            let file = format!("{}/segments/{segment}", self.file.location);
            let short = || Error::Damaged { file, offset: range.start, what: "these bytes are not there".into() };
            let mut whole = BytesMut::new();
            for part in extents.locate(range).ok_or_else(short)? {
                let begin = whole.len();
                whole.resize(begin + (part.end - part.start) as usize, 0);
                let read = self.file.file.read_exact_at(&mut whole[begin..], part.start);
                read.map_err(|error| self.file.failed("read", error))?;
            }
            Ok(whole.freeze())
        };
        ranges.iter().map(read).collect()
    }

    fn segment_len(&self, segment: &str) -> Result<Option<u64>> {
        check_part(segment)?;
        Ok(self.file.state().segments.get(segment).map(Extents::length))
    }

    fn segments(&self) -> Result<Vec<String>> {
        Ok(self.file.state().segments.keys().cloned().collect())
    }

    fn delete_segment(&self, segment: &str) -> Result<()> {
        check_part(segment)?;
        self.file.state().segments.remove(segment);
        Ok(())
    }

    fn own_log(&self, writer: &str) -> Result<Box<dyn LogOwner>> {
        self.rest.own_log(writer)
    }

    fn logs(&self) -> Result<Vec<String>> {
        self.rest.logs()
    }

    fn read_log(&self, writer: &str, from: u64) -> Result<LogTail> {
        self.rest.read_log(writer, from)
    }

    fn sizes(&self) -> Result<Vec<Size>> {
        let mut sizes = self.rest.sizes()?;
        let state = self.file.state();
        let size = |(name, extents): (&String, &Extents)| Size {
            kind: StoredKind::Segment,
            name: name.clone(),
            bytes: extents.length(),
        };
        sizes.extend(state.segments.iter().map(size));
        Ok(sizes)
    }

    fn erase(&self, objects: &[String]) -> Result<()> {
        self.file.state().segments.clear();
        self.rest.erase(objects)
    }
}

struct PackedSegment {
    packing: Arc<Packing>,
    name: String,
    /// The bytes in the file, before the bytes in the buffer.
    written: u64,
    buffer: Vec<u8>,
}

impl PackedSegment {
    fn flush(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let mut state = self.packing.state();
        let position = self.packing.write(&mut state, &self.buffer)?;
        // A deleted segment accepts the bytes, as an unlinked file does.
        if let Some(extents) = state.segments.get_mut(&self.name) {
            extents.append(&self.packing.nonce, position, &self.buffer);
        }
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

impl Segment for PackedSegment {
    fn append(&mut self, parts: &[&[u8]]) -> Result<u64> {
        let offset = self.len();
        for part in parts {
            self.buffer.extend_from_slice(part);
        }
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush()?;
        }
        Ok(offset)
    }

    fn sync(&mut self) -> Result<()> {
        self.flush()
    }

    fn len(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    fn name(&self) -> &str {
        &self.name
    }
}

#[cfg(test)]
mod tests;
