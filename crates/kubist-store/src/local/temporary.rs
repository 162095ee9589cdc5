//! Files that are not there yet: written and synced in `tmp/`, then linked to
//! their name, so that a name never leads to half a file.
//!
//! A temporary file's maker holds its lock. What a dead process left behind is
//! therefore unlocked, and the next handle that makes a temporary removes it. A
//! file can lose that race between its making and its locking; its link then
//! fails with `NotFound` and it is made again.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::disk::{DiskFile, Open, Sort, write_all};
use crate::{Error, Result};

use super::LocalStore;

pub(super) const FOLDER: &str = "tmp";

/// How often a file is made again. Each time another handle must begin its
/// clean-up in the very same moment.
const ATTEMPTS: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Temporaries {
    cleaned: AtomicBool,
}

/// Gives a file with these bytes, durable, the name `path` in one step. `false`
/// if the name is taken. Its folder is the caller's to make and to sync.
pub(super) fn publish(store: &LocalStore, bytes: &[u8], path: &Path) -> Result<bool> {
    let mut outcome = Err(Error::io("link", path, io::ErrorKind::NotFound.into()));
    for _ in 0..ATTEMPTS {
        let (file, temporary) = create(store)?;
        outcome = fill_and_link(store, &*file, &temporary, bytes, path);
        // It does no harm if it stays: the next handle's clean-up finds it unlocked.
        let _ = store.disk.unlink(&temporary);
        match &outcome {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            _ => break,
        }
    }
    outcome
}

fn fill_and_link(store: &LocalStore, file: &dyn DiskFile, temporary: &Path, bytes: &[u8], path: &Path) -> Result<bool> {
    let at = |operation| move |error| Error::io(operation, temporary, error);
    // If the lock is another's, the file is being cleaned away: linking will fail.
    file.try_lock().map_err(at("lock"))?;
    write_all(file, bytes, 0).map_err(at("write"))?;
    file.sync_data().map_err(at("sync"))?;
    match store.disk.link(temporary, path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(Error::io("link", path, error)),
    }
}

/// An empty file without a name, gone when it is closed, and what to call it in
/// messages.
pub(super) fn nameless(store: &LocalStore) -> Result<(Box<dyn DiskFile>, PathBuf)> {
    let (file, path) = create(store)?;
    match store.disk.unlink(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("unlink", &path, error)),
        _ => Ok((file, path)),
    }
}

fn create(store: &LocalStore) -> Result<(Box<dyn DiskFile>, PathBuf)> {
    let folder = store.folders.ensure(FOLDER)?;
    if !store.temporaries.cleaned.swap(true, Ordering::Relaxed) {
        clean(store, &folder);
    }
    loop {
        let path = folder.join(name(store.disk.unique()));
        match store.disk.open(&path, Open::Create) {
            Ok(file) => return Ok((file, path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::io("create", &path, error)),
        }
    }
}

/// Removes what dead processes left behind. Failing to is no reason not to
/// write: the files do no harm.
fn clean(store: &LocalStore, folder: &Path) {
    let mut listed = store.folders.list(folder).unwrap_or_default();
    listed.retain(|listed| listed.sort == Sort::File && is_name(&listed.name));
    for listed in listed {
        let path = folder.join(listed.name);
        let Ok(file) = store.disk.open(&path, Open::ReadWrite) else {
            continue;
        };
        if matches!(file.try_lock(), Ok(true)) {
            let _ = store.disk.unlink(&path);
        }
    }
}

fn name(number: u64) -> String {
    format!("{number:016x}")
}

/// Is it the name of a temporary file? Other files in the folder are foreign.
pub(super) fn is_name(name: &str) -> bool {
    u64::from_str_radix(name, 16).is_ok_and(|number| self::name(number) == name)
}
