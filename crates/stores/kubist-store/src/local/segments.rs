//! Segments: large files that one owner writes from front to back and all processes read.
//!
//! Small appends are buffered. Every few megabytes, the system starts to write to the device, so the sync of a commit
//! waits only for the last megabytes. In a shared store, a sync also closes the file, because errors may appear only
//! then. Readers reopen a file that seems too short or that another machine has deleted.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use crate::disk::{DiskFile, Open, PathMetadata, Sort, irregular, write_all};
use crate::format::{Kind, header};
use crate::{BLOCK_BYTES, Error, Result, Segment, names};

use super::LocalStore;
use super::directory::StoreDirectory;
use super::health::HandleHealth;
use super::open_files::check_range;

const FOLDER: &str = "segments";
const SUFFIX: &str = ".seg";

const BUFFER_BYTES: usize = 1 << 20;

/// Larger parts are written without a copy.
const BIG_PART_BYTES: usize = 256 << 10;

/// The number of written bytes after which the system starts to write to the device.
const WRITEBACK_BYTES: u64 = 8 << 20;

#[derive(Debug)]
struct LocalSegment {
    directory: Arc<StoreDirectory>,
    name: String,
    path: PathBuf,
    /// `None` after a sync of a shared store.
    file: Option<Box<dyn DiskFile>>,
    health: HandleHealth,
    /// The bytes in the file, without the buffer.
    written: u64,
    buffer: Vec<u8>,
    writeback_begun: u64,
    synced: u64,
}

pub(super) fn create(store: &LocalStore, name: &str) -> Result<Box<dyn Segment>> {
    names::check_part(name)?;
    let folder = store.folders.ensure(FOLDER)?;
    let path = path_of(store, name);
    let file = match store.disk.open(&path, Open::Create) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let file = path.display().to_string();
            return Err(Error::Exists { file });
        }
        Err(error) => return Err(Error::io("create", &path, error)),
    };
    store.folders.sync(&folder)?;
    Ok(Box::new(LocalSegment {
        health: HandleHealth::new(&*store.disk, path.display().to_string()),
        directory: store.directory.clone(),
        name: name.to_owned(),
        path,
        file: Some(file),
        written: 0,
        buffer: header(Kind::Segment).to_vec(),
        writeback_begun: 0,
        synced: 0,
    }))
}

impl Segment for LocalSegment {
    fn append(&mut self, parts: &[&[u8]]) -> Result<u64> {
        self.health.check(&*self.directory.disk)?;
        let offset = self.len();
        for part in parts {
            let result = self.append_part(part);
            self.health.note(result)?;
        }
        Ok(offset)
    }

    fn sync(&mut self) -> Result<()> {
        self.health.check(&*self.directory.disk)?;
        let result = self.flush_and_sync();
        self.health.note(result)
    }

    fn len(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    fn name(&self) -> &str {
        &self.name
    }
}

/// Deletes a segment that was never synced, because no entry names it. Its owner often failed on a full disk.
impl Drop for LocalSegment {
    fn drop(&mut self) {
        if self.synced == 0 && self.health.is_own(&*self.directory.disk) {
            // A failure does no harm: a process that dies leaves the file behind too.
            let _ = self.directory.disk.unlink(&self.path);
        }
    }
}

impl LocalSegment {
    fn append_part(&mut self, part: &[u8]) -> Result<()> {
        if part.len() >= BIG_PART_BYTES {
            self.flush()?;
            return self.write(part);
        }
        self.buffer.extend_from_slice(part);
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let result = self.write(&buffer);
        buffer.clear();
        self.buffer = buffer;
        result
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let file = match self.file.take() {
            Some(file) => file,
            None => {
                let opened = self.directory.open(&self.path, Open::ReadWrite);
                opened.map_err(|error| Error::io("open", &self.path, error))?
            }
        };
        let file = self.file.insert(file);
        write_all(&**file, bytes, self.written).map_err(|error| Error::io("write", &self.path, error))?;
        self.written += bytes.len() as u64;
        if self.written - self.writeback_begun >= WRITEBACK_BYTES {
            file.start_writeback(self.writeback_begun..self.written);
            self.writeback_begun = self.written;
        }
        Ok(())
    }

    fn flush_and_sync(&mut self) -> Result<()> {
        self.flush()?;
        if self.synced < self.written {
            if let Some(file) = &self.file {
                file.sync_data().map_err(|error| Error::io("sync", &self.path, error))?;
            }
            if let Some(file) = self.file.take_if(|_| self.directory.is_shared()) {
                file.close().map_err(|error| Error::io("close", &self.path, error))?;
            }
            self.synced = self.written;
        }
        Ok(())
    }
}

pub(super) fn read(store: &LocalStore, name: &str, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
    names::check_part(name)?;
    let path = path_of(store, name);
    // A retry cannot make an inverted range valid.
    ranges.iter().filter(|range| range.start > range.end).try_for_each(|range| check_range(range, 0, &path))?;
    let read = || {
        let Some(file) = store.open_files.get(&path, Kind::Segment)? else {
            let file = path.display().to_string();
            return Err(Error::Missing { file });
        };
        // A file that was opened before another process wrote may not show the new bytes.
        file.read_all(ranges).inspect_err(|_| store.open_files.forget(&path))
    };
    let (found, waited) = store.retry_while_stale(read)?;
    store.waited.store(waited, Ordering::Relaxed);
    Ok(found)
}

/// Returns small ranges that are in memory. Otherwise it starts to read all ranges, and returns whether any is absent.
pub(super) fn read_present(store: &LocalStore, wanted: &[(&str, &[Range<u64>])]) -> (Vec<Option<Vec<Bytes>>>, bool) {
    let (mut present, mut waits) = (Vec::with_capacity(wanted.len()), false);
    for (name, ranges) in wanted {
        // A later read reports the error.
        let is_name = names::check_part(name).is_ok();
        let open = || store.open_files.get(&path_of(store, name), Kind::Segment).ok().flatten();
        let file = is_name.then(open).flatten();
        let found = file.as_ref().and_then(|file| file.read_present(ranges));
        waits |= found.is_none() && file.is_some_and(|file| file.ask_for_absent(ranges));
        present.push(found);
    }
    (present, waits)
}

pub(super) fn len(store: &LocalStore, name: &str) -> Result<Option<u64>> {
    names::check_part(name)?;
    let path = path_of(store, name);
    if store.is_shared() {
        // Opening returns the current length, unlike a lookup of the name. The file may be deleted in between.
        return store.retry_while_stale(|| match store.open(&path, Open::Read) {
            Ok(file) => file.bytes().map(Some).map_err(|error| Error::io("measure", &path, error)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("open", &path, error)),
        });
    }
    Ok(find(store, &path)?.map(|found| found.bytes))
}

pub(super) fn taken(store: &LocalStore, name: &str) -> Result<Option<u64>> {
    if store.is_shared() {
        return len(store, name);
    }
    names::check_part(name)?;
    Ok(find(store, &path_of(store, name))?.map(|found| found.taken))
}

fn find(store: &LocalStore, path: &Path) -> Result<Option<PathMetadata>> {
    match store.disk.find(path) {
        Ok(Some(found)) if found.sort != Sort::File => {
            Err(Error::io("measure", path, irregular(path, found.sort, Sort::File)))
        }
        found => found.map_err(|error| Error::io("measure", path, error)),
    }
}

pub(super) fn names(store: &LocalStore) -> Result<Vec<String>> {
    store.folders.names(FOLDER, SUFFIX)
}

pub(super) fn delete(store: &LocalStore, name: &str) -> Result<()> {
    names::check_part(name)?;
    let path = path_of(store, name);
    store.open_files.forget(&path);
    match store.disk.unlink(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("delete", &path, error)),
        _ => Ok(()),
    }
}

pub(super) fn punch(store: &LocalStore, name: &str, ranges: &[Range<u64>]) -> Result<()> {
    names::check_part(name)?;
    let path = path_of(store, name);
    let opened = store.disk.open(&path, Open::ReadWrite).and_then(|file| Ok((file, store.disk.names_of(&path)?)));
    let file = match opened {
        // A copy by hard links shares these bytes, so they are not freed.
        Ok((_, 2..)) => return Ok(()),
        Ok((file, _)) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Error::Missing { file: path.display().to_string() });
        }
        Err(error) => return Err(Error::io("open", &path, error)),
    };
    for range in ranges {
        // The header's block is never punched.
        let start = range.start.max(1).next_multiple_of(BLOCK_BYTES);
        let blocks = start..range.end / BLOCK_BYTES * BLOCK_BYTES;
        if blocks.is_empty() {
            continue;
        }
        match file.punch(blocks) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::Unsupported => return Ok(()),
            Err(error) => return Err(Error::io("free a range of", &path, error)),
        }
    }
    Ok(())
}

fn path_of(store: &LocalStore, name: &str) -> PathBuf {
    Path::join(&store.root, FOLDER).join(format!("{name}{SUFFIX}"))
}
