//! Logs: one file per writer, appended by the one handle that holds its lock.
//!
//! After an entry is durable, its owner writes the log's length into a second
//! file, the acknowledgement: one small write, not synced, for it only has to be
//! right, not to survive. It tells damage from tearing. What lies before the
//! acknowledged length was durable once, so if it is not whole it is damage; what
//! lies behind it may be an append in progress, or one that never finished.
//!
//! The acknowledgement is always at most what is durable, because it is written
//! after the sync. It may be less, or lost: then `frame.rs` still knows that
//! only the last frame can be unfinished.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use crate::disk::{Disk, DiskFile, Open, read_up_to, write_all};
use crate::format::{self, HEADER_BYTES, Kind};
use crate::frame::{Frames, Rest, frame, frames};
use crate::{Error, LogOwner, LogTail, Result, names};

use super::LocalStore;
use super::standing::Standing;
use super::temporary;

const FOLDER: &str = "logs";
const SUFFIX: &str = ".log";
const ACKNOWLEDGEMENT_SUFFIX: &str = ".ack";

#[derive(Debug)]
struct LocalLog {
    disk: Arc<dyn Disk>,
    writer: String,
    path: PathBuf,
    file: Box<dyn DiskFile>,
    acknowledgement: Box<dyn DiskFile>,
    acknowledgement_path: PathBuf,
    standing: Standing,
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
    // Whoever made the log may have died before its name was durable.
    store.folders.sync(&folder)?;

    let acknowledged = read_acknowledgement(store, writer)?;
    let (durable, is_trusted) = (acknowledged.unwrap_or(0), acknowledged.is_some());
    let found = contents(&*file, &path, HEADER_BYTES)?;
    if let Some(damage) = damage(&found, durable, &path) {
        return Err(damage);
    }
    let found = found.frames;
    settle(&*file, &path, &found, durable)?;
    let acknowledgement_path = path_of(store, writer, ACKNOWLEDGEMENT_SUFFIX);
    let acknowledgement = open_acknowledgement(&*store.disk, &acknowledgement_path, is_trusted)?;
    acknowledge(&*acknowledgement, &acknowledgement_path, found.end)?;
    Ok(Box::new(LocalLog {
        standing: Standing::new(&*store.disk, path.display().to_string()),
        disk: store.disk.clone(),
        writer: writer.to_owned(),
        path,
        file,
        acknowledgement,
        acknowledgement_path,
        position: found.end,
    }))
}

/// Cuts off a torn tail and makes all that is before it durable, as all before
/// `durable` is known to be.
fn settle(file: &dyn DiskFile, path: &Path, found: &Frames, durable: u64) -> Result<()> {
    let at = |operation| move |error| Error::io(operation, path, error);
    if let Rest::Torn { .. } = found.rest {
        file.truncate(found.end).map_err(at("cut the torn tail of"))?;
    }
    // The last entry may be readable and yet not be on disk, even if it was
    // synced: when that sync failed, the system may have called it clean. So it
    // is written again. Those before it were durable before it was begun.
    if let Some(last) = found.entries.last().filter(|_| durable < found.end) {
        let frame = frame(last.position, &last.bytes).unwrap_or_default();
        write_all(file, &frame, last.position).map_err(at("write"))?;
    }
    file.sync_data().map_err(at("sync"))
}

/// Logs get their name with their header in them, so there is never half a log.
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
        self.standing.check(&*self.disk)?;
        let Some(frame) = frame(self.position, entry) else {
            let what = format!("an entry of {} bytes is too long", entry.len());
            let source = io::Error::new(io::ErrorKind::InvalidInput, what);
            return Err(Error::io("append to", &self.path, source));
        };
        let result = write_all(&*self.file, &frame, self.position)
            .map_err(|error| Error::io("write", &self.path, error))
            .and_then(|()| self.file.sync_data().map_err(|error| Error::io("sync", &self.path, error)));
        self.standing.note(result)?;
        self.position += frame.len() as u64;
        // The entry is durable whatever becomes of its acknowledgement, so a
        // failure here must not look like one of the entry: the next append tells.
        let acknowledged = acknowledge(&*self.acknowledgement, &self.acknowledgement_path, self.position);
        let _ = self.standing.note(acknowledged);
        Ok(self.position)
    }

    fn position(&self) -> u64 {
        self.position
    }

    fn writer(&self) -> &str {
        &self.writer
    }
}

pub(super) fn writers(store: &LocalStore) -> Result<Vec<String>> {
    store.folders.names(FOLDER, SUFFIX)
}

pub(super) fn read(store: &LocalStore, writer: &str, from: u64) -> Result<LogTail> {
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
        // In this order: what is acknowledged now must be in the log later.
        let durable = read_acknowledgement(store, writer)?.unwrap_or(0);
        let found = contents(&*file, &path, from.max(HEADER_BYTES))?;
        match damage(&found, durable, &path) {
            None => {
                return Ok(LogTail { entries: found.frames.entries, next: found.frames.end, durable });
            }
            // Some file systems show a live owner's append in the wrong order.
            Some(_) if !looked_twice => looked_twice = true,
            Some(damage) => return Err(damage),
        }
    }
}

/// The entries before the first damage, and what that is.
pub(super) fn read_sound(store: &LocalStore, writer: &str, from: u64) -> Result<(LogTail, Option<Error>)> {
    let damage_of = |error| (LogTail { entries: Vec::new(), next: from, durable: from }, Some(error));
    match read(store, writer, from) {
        Err(error @ Error::Damaged { .. }) => {
            let path = path_of(store, writer, SUFFIX);
            let file = store.disk.open(&path, Open::Read).map_err(|source| Error::io("open", &path, source))?;
            let Ok(found) = contents(&*file, &path, from.max(HEADER_BYTES)) else { return Ok(damage_of(error)) };
            let Frames { entries, end, .. } = found.frames;
            Ok((LogTail { entries, next: end, durable: end }, Some(error)))
        }
        Err(error @ (Error::Missing { .. } | Error::Irregular { .. })) => Ok(damage_of(error)),
        read => Ok((read?, None)),
    }
}

/// What is to be known about a log, beyond that it can be read.
pub(super) fn check(store: &LocalStore, writer: &str) -> Result<Vec<String>> {
    names::check_part(writer)?;
    let path = path_of(store, writer, SUFFIX);
    let shown = path.display();
    let mut findings = Vec::new();
    let acknowledgement_path = path_of(store, writer, ACKNOWLEDGEMENT_SUFFIX);
    let durable = match acknowledgement_bytes(store, &acknowledgement_path)? {
        None => {
            findings.push(format!("{} does not exist", acknowledgement_path.display()));
            0
        }
        Some(bytes) => {
            let file = acknowledgement_path.display().to_string();
            format::acknowledged(&bytes, &file).unwrap_or_else(|error| {
                findings.push(error.to_string());
                0
            })
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
    match contents(&*file, &path, HEADER_BYTES) {
        Ok(found) => match (damage(&found, durable, &path), &found.frames.rest) {
            (Some(damage), _) => findings.push(damage.to_string()),
            (None, Rest::Torn { bytes }) => findings.push(format!(
                "{shown} ends in an unfinished entry of {bytes} bytes at byte {}, which its \
                 next owner cuts off",
                found.frames.end
            )),
            _ => {}
        },
        Err(error) => findings.push(error.to_string()),
    }
    Ok(findings)
}

/// What is in a log.
struct Contents {
    length: u64,
    frames: Frames,
}

/// The log from `from` to its end, taken apart, and its header checked.
fn contents(file: &dyn DiskFile, path: &Path, from: u64) -> Result<Contents> {
    let at = |operation| move |error| Error::io(operation, path, error);
    let mut header = [0; HEADER_BYTES as usize];
    let got = read_up_to(file, &mut header, 0).map_err(at("read"))?;
    format::check_header(Kind::Log, &header[..got], &path.display().to_string())?;
    // Not beyond the length of this moment: a live owner may append meanwhile,
    // and a frame half read must be the last.
    let length = file.bytes().map_err(at("measure"))?;
    let mut bytes = vec![0; length.saturating_sub(from) as usize];
    let got = read_up_to(file, &mut bytes, from).map_err(at("read"))?;
    bytes.truncate(got);
    let frames = frames(&Bytes::from(bytes), from);
    Ok(Contents { length, frames })
}

/// The damage in what was found, knowing that all before `durable` was durable
/// once.
fn damage(found: &Contents, durable: u64, path: &Path) -> Option<Error> {
    let Frames { end, rest, .. } = &found.frames;
    let (offset, what) = match rest {
        Rest::Damaged { what } => (*end, what.clone()),
        _ if found.length < durable => {
            (found.length, format!("it ends there, but was acknowledged up to byte {durable}"))
        }
        _ if *end >= durable => return None,
        Rest::Nothing | Rest::Torn { .. } => {
            (*end, format!("the entry there is not whole, but was acknowledged up to byte {durable}"))
        }
    };
    Some(Error::damaged(path.display().to_string(), offset, what))
}

/// The length that is acknowledged; `None` if there is no word of it, or none
/// that can be trusted.
fn read_acknowledgement(store: &LocalStore, writer: &str) -> Result<Option<u64>> {
    let path = path_of(store, writer, ACKNOWLEDGEMENT_SUFFIX);
    let bytes = acknowledgement_bytes(store, &path)?;
    Ok(bytes.and_then(|bytes| format::acknowledged(&bytes, "").ok()))
}

fn acknowledgement_bytes(store: &LocalStore, path: &Path) -> Result<Option<Vec<u8>>> {
    let file = match store.disk.open(path, Open::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("open", path, error)),
    };
    // One byte more than there should be, to notice that there is.
    let mut bytes = vec![0; format::ACKNOWLEDGEMENT_BYTES + 1];
    let got = read_up_to(&*file, &mut bytes, 0).map_err(|error| Error::io("read", path, error))?;
    bytes.truncate(got);
    Ok(Some(bytes))
}

/// What is no acknowledgement is not overwritten but replaced: it may be a second name of
/// somebody else's file.
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
