//! Logs of a store on one machine: one file per writer. The handle that holds the file's lock appends to it.
//!
//! After an entry is durable, its owner writes the log's length into a second file, the acknowledgement. This write is
//! not synced, because it need not survive a crash. A broken entry before the acknowledged length is damage. Bytes
//! after this length may be an append that is in progress or was never finished.
//!
//! The first version of the acknowledgement is durable before the log gets its first entry, and it fits into one disk
//! sector, so no crash makes it unreadable. If it is missing and the end of the log is broken, the log is therefore
//! damaged.
//!
//! After a store becomes shared, its logs continue in `entries`. If an owner finds after an append that the store is
//! shared, or that another file is at the log's path, it is refused, because readers may not see the entry.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use crate::disk::{Disk, DiskFile, Open, read_range, read_up_to, write_all};
use crate::format::{self, HEADER_BYTES, Kind};
use crate::frame::{FRAME_HEAD_BYTES, Frames, Pieces, Rest, frame, frames, pieces};
use crate::{BrokenEntry, Error, LogEntry, LogOwner, LogTail, Result, SoundLog, Stamp, names};

use super::LocalStore;
use super::health::HandleHealth;
use super::numbered::{MARK, NO_WRITER};
use super::temporary;

const FOLDER: &str = "logs";
const SUFFIX: &str = ".log";
const ACKNOWLEDGEMENT_SUFFIX: &str = ".ack";
/// Bytes of a log that are in memory at a time if entries are not kept. A longer entry needs more.
const BUFFER_BYTES: u64 = 8 << 20;

#[derive(Debug)]
struct LocalLog {
    disk: Arc<dyn Disk>,
    writer: String,
    path: PathBuf,
    mark: PathBuf,
    node: u64,
    file: Box<dyn DiskFile>,
    acknowledgement: Box<dyn DiskFile>,
    acknowledgement_path: PathBuf,
    health: HandleHealth,
    position: u64,
}

pub(super) fn own(store: &LocalStore, writer: &str) -> Result<Box<dyn LogOwner>> {
    names::check_part(writer)?;
    let folder = store.folders.ensure(FOLDER)?;
    let path = path_of(store, writer, SUFFIX);
    let file = open_or_create(store, &path)?;
    let locked = file.try_lock().map_err(|error| Error::io("lock", &path, error))?;
    if !locked {
        return Err(Error::Busy { writer: writer.to_owned(), file: path.display().to_string() });
    }
    let node =
        store.disk.find(&path).map_err(|error| Error::io("examine", &path, error))?.map_or(0, |found| found.node);
    let durable = read_acknowledgement(store, writer)?;
    let is_trusted = matches!(durable, Acknowledged::Up(_));
    let mut last = None;
    let found = walk(&*file, &path, HEADER_BYTES, BUFFER_BYTES, &mut |entry| {
        last = Some(entry);
        true
    })?;
    if let Some(damage) = damage(&found, durable, &path) {
        return Err(damage);
    }
    settle(&*file, &path, &found, last, durable.length())?;
    let acknowledgement_path = path_of(store, writer, ACKNOWLEDGEMENT_SUFFIX);
    let acknowledgement = open_acknowledgement(&*store.disk, &acknowledgement_path, is_trusted)?;
    acknowledge(&*acknowledgement, &acknowledgement_path, found.end)?;
    // The process that created them may have died before the two files or their names were durable.
    acknowledgement.sync_data().map_err(|error| Error::io("sync", &acknowledgement_path, error))?;
    store.folders.sync(&folder)?;
    Ok(Box::new(LocalLog {
        health: HandleHealth::new(&*store.disk, path.display().to_string()),
        disk: store.disk.clone(),
        writer: writer.to_owned(),
        path,
        mark: folder.join(MARK),
        node,
        file,
        acknowledgement,
        acknowledgement_path,
        position: found.end,
    }))
}

/// Cuts off an unfinished entry at the end, and makes everything from `durable` on durable.
fn settle(file: &dyn DiskFile, path: &Path, found: &Walked, last: Option<LogEntry>, durable: u64) -> Result<()> {
    let at = |operation| move |error| Error::io(operation, path, error);
    if let Some(Rest::Torn { .. }) = found.rest {
        file.truncate(found.end).map_err(at("cut the torn tail of"))?;
    }
    // After a failed sync, the system may have marked the pages of the last entry as clean, so the entry may be
    // readable but not on disk. It is therefore written again. Earlier entries were durable before this entry was
    // started.
    if let Some(last) = last.filter(|_| durable < found.end) {
        let frame = frame(last.position, &last.bytes).unwrap_or_default();
        write_all(file, &frame, last.position).map_err(at("write"))?;
    }
    file.sync_data().map_err(at("sync"))
}

/// Opens or creates the file of a log, where a new file gets its name together with its header.
fn open_or_create(store: &LocalStore, path: &Path) -> Result<Box<dyn DiskFile>> {
    loop {
        match store.disk.open(path, Open::ReadWrite) {
            Ok(file) => return Ok(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io("open", path, error)),
        }
        temporary::publish(store, &format::header(Kind::Log), path)?;
    }
}

impl LogOwner for LocalLog {
    fn append(&mut self, entry: &[u8]) -> Result<u64> {
        self.health.check(&*self.disk)?;
        let Some(frame) = frame(self.position, entry) else {
            let what = format!("an entry of {} bytes is too long", entry.len());
            let source = io::Error::new(io::ErrorKind::InvalidInput, what);
            return Err(Error::io("append to", &self.path, source));
        };
        let result = write_all(&*self.file, &frame, self.position)
            .map_err(|error| Error::io("write", &self.path, error))
            .and_then(|()| self.file.sync_data().map_err(|error| Error::io("sync", &self.path, error)))
            .and_then(|()| self.check_name(self.position + frame.len() as u64));
        self.health.note(result)?;
        self.position += frame.len() as u64;
        // The entry is durable, so a failure here is reported by the next append.
        let acknowledged = acknowledge(&*self.acknowledgement, &self.acknowledgement_path, self.position);
        let _ = self.health.note(acknowledged);
        Ok(self.position)
    }

    fn position(&self) -> u64 {
        self.position
    }

    fn writer(&self) -> &str {
        &self.writer
    }
}

impl LocalLog {
    /// Returns an error unless the log's path still leads to the written file, the file ends at `end`, and the store is
    /// not shared.
    fn check_name(&self, end: u64) -> Result<()> {
        let mark = self.disk.find(&self.mark).map_err(|error| Error::io("examine", &self.mark, error))?;
        if mark.is_some() {
            let cause = "the table was made shared; open it again".into();
            return Err(Error::Refused { file: self.path.display().to_string(), cause });
        }
        let found = self.disk.find(&self.path).map_err(|error| Error::io("measure", &self.path, error))?;
        match found {
            Some(found) if found.bytes == end && found.node == self.node => Ok(()),
            other => {
                let length = other.map_or(0, |found| found.bytes);
                let what = format!("it was removed or replaced while its owner wrote up to byte {end}");
                Err(Error::damaged(self.path.display().to_string(), length, what))
            }
        }
    }
}

pub(super) fn writers(store: &LocalStore) -> Result<Vec<String>> {
    let mut writers = store.folders.names(FOLDER, SUFFIX)?;
    writers.retain(|writer| writer != NO_WRITER);
    Ok(writers)
}

pub(super) fn is_there(store: &LocalStore, writer: &str) -> Result<bool> {
    let path = path_of(store, writer, SUFFIX);
    let found = store.disk.find(&path).map_err(|error| Error::io("examine", &path, error))?;
    Ok(found.is_some())
}

pub(super) fn stamp(store: &LocalStore, writer: &str) -> Result<Stamp> {
    names::check_part(writer)?;
    store.stamp_of(&path_of(store, writer, SUFFIX))
}

/// Reads up to `most` bytes of a log that is sealed at `end`, and returns the position after these entries.
pub(super) fn read_sealed(
    store: &LocalStore,
    writer: &str,
    from: u64,
    end: u64,
    most: u64,
) -> Result<(Vec<LogEntry>, u64)> {
    let path = path_of(store, writer, SUFFIX);
    store.retry_while_stale(|| {
        let opened = store.open(&path, Open::Read);
        let file = match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Error::damaged(path.display().to_string(), 0, "the file is missing"));
            }
            opened => opened.map_err(|error| Error::io("open", &path, error))?,
        };
        let (mut entries, mut bytes, mut last) = (Vec::new(), 0, from.max(HEADER_BYTES));
        walk(&*file, &path, last, most.max(BUFFER_BYTES), &mut |entry| {
            if entry.position < end {
                last = behind(&entry);
                bytes += entry.bytes.len() as u64;
                entries.push(entry);
            }
            last < end && bytes < most
        })?;
        match last == end || (bytes >= most && !entries.is_empty()) {
            true => Ok((entries, last)),
            false => Err(Error::damaged(
                path.display().to_string(),
                last,
                format!("it ends here, but was sealed at byte {end}"),
            )),
        }
    })
}

/// Reads a log that is about to be sealed. Makes its entries durable, because the owner may have died before it synced
/// the last one.
pub(super) fn read_for_good(store: &LocalStore, writer: &str) -> Result<LogTail> {
    let tail = read(store, writer, 0, u64::MAX)?;
    let path = path_of(store, writer, SUFFIX);
    let file = store.open(&path, Open::ReadWrite).map_err(|error| Error::io("open", &path, error))?;
    if let Some(last) = tail.entries.last().filter(|_| tail.durable < tail.next) {
        // Writes the entry again, as its next owner would do.
        let frame = frame(last.position, &last.bytes).unwrap_or_default();
        write_all(&*file, &frame, last.position).map_err(|error| Error::io("write", &path, error))?;
    }
    file.sync_data().map_err(|error| Error::io("sync", &path, error))?;
    file.close().map_err(|error| Error::io("close", &path, error))?;
    store.folders.sync(&store.root.join(FOLDER))?;
    Ok(tail)
}

pub(super) fn read(store: &LocalStore, writer: &str, from: u64, most: u64) -> Result<LogTail> {
    names::check_part(writer)?;
    let path = path_of(store, writer, SUFFIX);
    let file = match store.disk.open(&path, Open::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let file = path.display().to_string();
            return Err(Error::Missing { file });
        }
        Err(error) => return Err(Error::io("open", &path, error)),
    };
    let mut looked_twice = false;
    loop {
        // Entries that are acknowledged now must be in the log later.
        let durable = read_acknowledgement(store, writer)?;
        let (mut entries, mut bytes) = (Vec::new(), 0);
        let found = walk(&*file, &path, from.max(HEADER_BYTES), most.max(BUFFER_BYTES), &mut |entry| {
            bytes += entry.bytes.len() as u64;
            entries.push(entry);
            bytes < most
        })?;
        match damage(&found, durable, &path) {
            None => {
                // The log may end before `from`.
                let next = found.end.min(found.length);
                return Ok(LogTail { entries, next, durable: durable.length() });
            }
            // Reads again, because some file systems show appended bytes in the wrong order.
            Some(_) if !looked_twice => looked_twice = true,
            Some(damage) => return Err(damage),
        }
    }
}

pub(super) fn read_sound(store: &LocalStore, writer: &str, from: u64) -> Result<SoundLog> {
    let nothing = |damage| SoundLog { entries: Vec::new(), broken: Vec::new(), next: from, damage: Some(damage) };
    let damage = match read(store, writer, from, u64::MAX) {
        Ok(LogTail { entries, next, .. }) => return Ok(SoundLog { entries, broken: Vec::new(), next, damage: None }),
        Err(error @ (Error::Missing { .. } | Error::Irregular { .. })) => return Ok(nothing(error)),
        Err(error @ Error::Damaged { .. }) => error,
        Err(error) => return Err(error),
    };
    let path = path_of(store, writer, SUFFIX);
    let file = store.disk.open(&path, Open::Read).map_err(|source| Error::io("open", &path, source))?;
    let from = from.max(HEADER_BYTES);
    let length = length(&*file, &path)?;
    let bytes = bytes_of(&*file, &path, from..length)?;
    let Pieces { entries, mut broken, end } = pieces(&bytes, from);
    match read_acknowledgement(store, writer)? {
        // The end of the log is an unfinished append, which loses nothing.
        Acknowledged::Up(durable) if durable <= end => broken.retain(|broken| broken.position < end),
        Acknowledged::Up(durable) if durable > length && end == length => {
            broken.push(BrokenEntry { position: end, bytes: Bytes::new() })
        }
        _ => {}
    }
    Ok(SoundLog { entries, broken, next: end, damage: Some(damage) })
}

pub(super) fn check(store: &LocalStore, writer: &str) -> Result<Vec<String>> {
    names::check_part(writer)?;
    let path = path_of(store, writer, SUFFIX);
    let shown = path.display();
    let mut findings = Vec::new();
    let acknowledgement_path = path_of(store, writer, ACKNOWLEDGEMENT_SUFFIX);
    let durable = match acknowledgement_bytes(store, &acknowledgement_path)? {
        None => {
            findings.push(format!("{} does not exist", acknowledgement_path.display()));
            Acknowledged::Absent
        }
        Some(bytes) => {
            let file = acknowledgement_path.display().to_string();
            match format::acknowledged(&bytes, &file) {
                Ok(length) => Acknowledged::Up(length),
                Err(error) => {
                    findings.push(error.to_string());
                    Acknowledged::Unreadable
                }
            }
        }
    };
    let file = match store.disk.open(&path, Open::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            findings.push(format!("{shown} does not exist"));
            return Ok(findings);
        }
        Err(error) => return Err(Error::io("open", &path, error)),
    };
    match walk(&*file, &path, HEADER_BYTES, BUFFER_BYTES, &mut |_| true) {
        Ok(found) => match (damage(&found, durable, &path), &found.rest) {
            (Some(damage), _) => findings.push(damage.to_string()),
            (None, Some(Rest::Torn { bytes })) => findings.push(format!(
                "{shown} ends in an unfinished entry of {bytes} bytes at byte {}, which its \
                 next owner cuts off",
                found.end
            )),
            _ => {}
        },
        Err(error) => findings.push(error.to_string()),
    }
    Ok(findings)
}

struct Walked {
    length: u64,
    end: u64,
    rest: Option<Rest>,
}

/// Parses a log from `from` on, about `buffer` bytes at a time. Stops at its end, at damage, or if `each` returns
/// `false`.
fn walk(
    file: &dyn DiskFile,
    path: &Path,
    from: u64,
    buffer: u64,
    each: &mut dyn FnMut(LogEntry) -> bool,
) -> Result<Walked> {
    let at = |operation| move |error| Error::io(operation, path, error);
    let mut header = [0; HEADER_BYTES as usize];
    let got = read_up_to(file, &mut header, 0).map_err(at("read"))?;
    format::check_header(Kind::Log, &header[..got], &path.display().to_string())?;
    let length = length(file, path)?;
    let (mut next, mut most) = (from, buffer);
    loop {
        let wanted = next..length.min(next.saturating_add(most));
        let bytes = bytes_of(file, path, wanted.clone())?;
        let reached = next + bytes.len() as u64;
        let is_last = reached >= length || reached < wanted.end;
        let Frames { entries, end, rest } = frames(&bytes, next);
        // More bytes are needed to decide whether the entry is incomplete.
        most = if entries.is_empty() { most.saturating_mul(2) } else { buffer };
        for entry in entries {
            let behind = behind(&entry);
            if !each(entry) {
                return Ok(Walked { length, end: behind, rest: None });
            }
        }
        if is_last || matches!(rest, Rest::Damaged { .. }) {
            return Ok(Walked { length, end, rest: Some(rest) });
        }
        next = end;
    }
}

fn behind(entry: &LogEntry) -> u64 {
    entry.position + (FRAME_HEAD_BYTES + entry.bytes.len()) as u64
}

/// The length at the start of a read. Later bytes of a live owner are ignored, because an incomplete frame must be the
/// last one.
fn length(file: &dyn DiskFile, path: &Path) -> Result<u64> {
    file.bytes().map_err(|error| Error::io("measure", path, error))
}

fn bytes_of(file: &dyn DiskFile, path: &Path, range: Range<u64>) -> Result<Bytes> {
    let length = range.end.saturating_sub(range.start) as usize;
    let bytes = read_range(file, range.start, length).map_err(|error| Error::io("read", path, error))?;
    Ok(bytes.into())
}

/// The damage of a log, if any; all acknowledged bytes were durable once, so they must be intact.
fn damage(found: &Walked, acknowledged: Acknowledged, path: &Path) -> Option<Error> {
    let Walked { length, end, rest: Some(rest) } = found else { return None };
    let durable = acknowledged.length();
    let (offset, what) = match rest {
        Rest::Damaged { what } => (*end, what.clone()),
        _ if *length < durable => (*length, format!("it ends here, but was acknowledged up to byte {durable}")),
        Rest::Torn { .. } if !matches!(acknowledged, Acknowledged::Up(_)) => {
            let what = "the entry is incomplete, and the log's acknowledgement, which tells whether it was ever complete, \
                        is missing or unreadable";
            (*end, what.to_string())
        }
        _ if *end >= durable => return None,
        Rest::Nothing | Rest::Torn { .. } => {
            (*end, format!("the entry is incomplete, but the log was acknowledged up to byte {durable}"))
        }
    };
    Some(Error::damaged(path.display().to_string(), offset, what))
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Acknowledged {
    Up(u64),
    Unreadable,
    Absent,
}

impl Acknowledged {
    /// The number of bytes that must be intact; the header is durable before a log gets its name.
    fn length(self) -> u64 {
        match self {
            Acknowledged::Up(length) => length,
            Acknowledged::Unreadable => HEADER_BYTES,
            Acknowledged::Absent => 0,
        }
    }
}

fn read_acknowledgement(store: &LocalStore, writer: &str) -> Result<Acknowledged> {
    let path = path_of(store, writer, ACKNOWLEDGEMENT_SUFFIX);
    let bytes = acknowledgement_bytes(store, &path)?;
    let read = |bytes: Vec<u8>| format::acknowledged(&bytes, "").map_or(Acknowledged::Unreadable, Acknowledged::Up);
    Ok(bytes.map_or(Acknowledged::Absent, read))
}

fn acknowledgement_bytes(store: &LocalStore, path: &Path) -> Result<Option<Vec<u8>>> {
    let file = match store.disk.open(path, Open::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("open", path, error)),
    };
    // One more byte shows whether the file is longer.
    let mut bytes = vec![0; format::ACKNOWLEDGEMENT_BYTES + 1];
    let got = read_up_to(&*file, &mut bytes, 0).map_err(|error| Error::io("read", path, error))?;
    bytes.truncate(got);
    Ok(Some(bytes))
}

/// Replaces an invalid acknowledgement by a new file: if the old file had a second name, overwriting would change it.
fn open_acknowledgement(disk: &dyn Disk, path: &Path, is_trusted: bool) -> Result<Box<dyn DiskFile>> {
    if is_trusted {
        return disk.open(path, Open::ReadWrite).map_err(|error| Error::io("open", path, error));
    }
    match disk.unlink(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Error::io("replace", path, error)),
        _ => {}
    }
    disk.open(path, Open::Create).map_err(|error| Error::io("create", path, error))
}

fn acknowledge(file: &dyn DiskFile, path: &Path, length: u64) -> Result<()> {
    write_all(file, &format::acknowledgement(length), 0).map_err(|error| Error::io("write", path, error))
}

fn path_of(store: &LocalStore, writer: &str, suffix: &str) -> PathBuf {
    store.root.join(FOLDER).join(format!("{writer}{suffix}"))
}
