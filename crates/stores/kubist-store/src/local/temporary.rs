//! Temporary files are written and synced in `tmp/`, and only then linked to their name, so a name never leads to an
//! incomplete file.
//!
//! The next handle that creates a temporary file removes the files of dead processes. On one machine, the creator of a
//! file holds its lock. If a file is removed between its creation and its locking, its link fails with `NotFound`, and
//! it is created again. In a shared store, the file's name contains its creator, and each machine removes only its own
//! files.
//!
//! In a shared store, a file is closed before it gets its name, because errors may appear only then. If a response is
//! lost, a repeated link may find the name taken, so a file that has two names counts as linked.

use std::io;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::thread;

use crate::claims::Life;
use crate::disk::{DiskFile, Open, Sort, write_all};
use crate::{Error, Result};

use super::directory::StoreDirectory;

pub(super) const FOLDER: &str = "tmp";

/// An attempt fails only if another handle starts its clean-up at the same time.
const ATTEMPTS: usize = 16;

/// Creates the file `path` with these bytes, atomically and durably, or returns `false` if the name is taken. The
/// caller creates and syncs the folder.
pub(super) fn publish(directory: &StoreDirectory, bytes: &[u8], path: &Path) -> Result<bool> {
    publish_as(directory, directory.is_shared(), bytes, path)
}

pub(super) fn publish_as(directory: &StoreDirectory, shared: bool, bytes: &[u8], path: &Path) -> Result<bool> {
    publish_after(directory, shared, bytes, path, None)
}

/// Makes something durable before a file gets its name; it may be called repeatedly.
pub(super) type First<'a> = Option<&'a (dyn Fn() -> Result<()> + Sync)>;

/// As [`publish`], after `first`, where both are synced in parallel, so a disk can write both at once.
pub(super) fn publish_after(
    directory: &StoreDirectory,
    shared: bool,
    bytes: &[u8],
    path: &Path,
    first: First<'_>,
) -> Result<bool> {
    let mut outcome = Err(Error::io("link", path, io::ErrorKind::NotFound.into()));
    for _ in 0..ATTEMPTS {
        let (file, temporary) = create(directory, shared)?;
        outcome = match shared {
            true => fill_and_link_shared(directory, file, &temporary, bytes, path, first),
            false => fill_and_link(directory, &*file, &temporary, bytes, path, first),
        };
        let _ = directory.disk.unlink(&temporary);
        match &outcome {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            _ => break,
        }
    }
    outcome
}

fn fill_and_link(
    directory: &StoreDirectory,
    file: &dyn DiskFile,
    temporary: &Path,
    bytes: &[u8],
    path: &Path,
    first: First<'_>,
) -> Result<bool> {
    // If another handle is removing the file, linking it fails later.
    file.try_lock().map_err(|error| Error::io("lock", temporary, error))?;
    fill(directory, file, temporary, bytes, first)?;
    match directory.disk.link(temporary, path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(Error::io("link", path, error)),
    }
}

fn fill_and_link_shared(
    directory: &StoreDirectory,
    file: Box<dyn DiskFile>,
    temporary: &Path,
    bytes: &[u8],
    path: &Path,
    first: First<'_>,
) -> Result<bool> {
    fill(directory, &*file, temporary, bytes, first)?;
    file.close().map_err(|error| Error::io("close", temporary, error))?;
    match directory.disk.link(temporary, path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let names = directory.disk.names_of(temporary).map_err(|error| Error::io("examine", temporary, error))?;
            Ok(names > 1)
        }
        Err(error) => Err(Error::io("link", path, error)),
    }
}

fn fill(
    directory: &StoreDirectory,
    file: &dyn DiskFile,
    temporary: &Path,
    bytes: &[u8],
    first: First<'_>,
) -> Result<()> {
    let at = |operation| move |error| Error::io(operation, temporary, error);
    write_all(file, bytes, 0).map_err(at("write"))?;
    let (before, synced) = match first {
        None => (Ok(()), file.sync_data()),
        Some(first) if directory.disk.has_threads() => thread::scope(|scope| {
            let before = scope.spawn(first);
            let synced = file.sync_data();
            (before.join().unwrap_or_else(|panic| resume_unwind(panic)), synced)
        }),
        Some(first) => (first(), file.sync_data()),
    };
    before?;
    synced.map_err(at("sync"))
}

/// Creates a file that disappears when it is closed, and returns its path for messages.
pub(super) fn nameless(directory: &StoreDirectory) -> Result<(Box<dyn DiskFile>, PathBuf)> {
    let (file, path) = create(directory, directory.is_shared())?;
    match directory.disk.unlink(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("unlink", &path, error)),
        _ => Ok((file, path)),
    }
}

fn create(directory: &StoreDirectory, shared: bool) -> Result<(Box<dyn DiskFile>, PathBuf)> {
    let folder = directory.folders.ensure(FOLDER)?;
    if !directory.cleaned.swap(true, Ordering::Relaxed) {
        clean(directory, &folder);
    }
    let maker = if shared { directory.disk.holder().replace(' ', "-") + "-" } else { String::new() };
    loop {
        let path = folder.join(format!("{maker}{}", name(directory.disk.unique())));
        match directory.disk.open(&path, Open::Create) {
            Ok(file) => return Ok((file, path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::io("create", &path, error)),
        }
    }
}

/// Removes the files of dead processes, and ignores failures, because these files do no harm.
fn clean(directory: &StoreDirectory, folder: &Path) {
    let mut listed = directory.folders.list(folder).unwrap_or_default();
    listed.retain(|listed| listed.sort == Sort::File && is_name(&listed.name));
    for listed in listed {
        let path = folder.join(&listed.name);
        let is_left = match maker(&listed.name) {
            Some(maker) => directory.disk.life(&maker) == Life::Ended && maker != own(directory, &listed.name),
            None if directory.is_shared() => false,
            None => {
                let opened = directory.disk.open(&path, Open::ReadWrite);
                opened.is_ok_and(|file| matches!(file.try_lock(), Ok(true)))
            }
        };
        if is_left {
            let _ = directory.disk.unlink(&path);
        }
    }
}

fn maker(name: &str) -> Option<String> {
    name.contains('-').then(|| name.replace('-', " "))
}

/// This process counts as one holder, whose other handles may use the file.
fn own(directory: &StoreDirectory, name: &str) -> String {
    let number = name.rsplit('-').next().unwrap_or_default();
    format!("{} {number}", directory.disk.holder())
}

fn name(number: u64) -> String {
    format!("{number:016x}")
}

pub(super) fn is_name(name: &str) -> bool {
    let (maker, number) = name.rsplit_once('-').map_or((None, name), |(maker, number)| (Some(maker), number));
    let is_number = u64::from_str_radix(number, 16).is_ok_and(|found| self::name(found) == number);
    let is_maker = |maker: &str| {
        let parts: Vec<&str> = maker.split('-').collect();
        parts.len() == 3 && parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_alphanumeric()))
    };
    is_number && maker.is_none_or(is_maker)
}
