//! Numbered files of a shared store: entries of logs, and claims on them.
//!
//! ```text
//! logs/kubist.shared.log          the mark of a shared store
//! logs/<writer>.entries/<number>  an entry, or the fence of a new owner, at that position
//! logs/<writer>.claims/<number>   the holder of the log, renewed by a file with the next number
//! logs/<writer>.seal              the end of the log of one machine, if there was one
//! ```
//!
//! Each file gets its name only when it is complete and durable. If several files get the same number, exactly one
//! succeeds. So nothing depends on a lock, a length, a listing or a clock: listings only shorten the search for the
//! newest number.

use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::disk::Sort;
use crate::format::{Kind, RecordType, check_header, header, numbered, numbered_value};
use crate::{Error, Result, Stamp};

use super::directory::StoreDirectory;
use super::temporary::{self, First};

pub(super) const LOGS: &str = "logs";
pub(super) const ENTRIES: &str = ".entries";
pub(super) const CLAIMS: &str = ".claims";
pub(super) const SEAL: &str = ".seal";
/// The name of the mark's file in the folder of the logs, and the reserved name of a writer.
pub(super) const MARK: &str = "kubist.shared.log";
pub(super) const NO_WRITER: &str = "kubist.shared";

pub(super) fn folder(writer: &str, suffix: &str) -> String {
    format!("{LOGS}/{writer}{suffix}")
}

fn path(directory: &StoreDirectory, folder: &str, number: u64) -> PathBuf {
    directory.root.join(folder).join(format!("{number:020}"))
}

/// Creates the file of a number, or returns `false` if the number is taken.
pub(super) fn put(
    directory: &StoreDirectory,
    folder: &str,
    number: u64,
    record_type: RecordType,
    payload: &[u8],
) -> Result<bool> {
    put_after(directory, folder, number, record_type, payload, None)
}

pub(super) fn put_after(
    directory: &StoreDirectory,
    folder: &str,
    number: u64,
    record_type: RecordType,
    payload: &[u8],
    first: First<'_>,
) -> Result<bool> {
    let whole = directory.folders.ensure(folder)?;
    let (bytes, path) = (numbered(record_type, number, payload), path(directory, folder, number));
    let won = temporary::publish_after(directory, directory.is_shared(), &bytes, &path, first)?;
    directory.folders.sync(&whole)?;
    if !won {
        directory.learn();
    }
    Ok(won)
}

pub(super) fn get(directory: &StoreDirectory, folder: &str, number: u64) -> Result<Option<(RecordType, Bytes)>> {
    let path = path(directory, folder, number);
    directory.retry_while_stale(|| {
        let Some((record_type, found, payload)) = read(directory, &path)? else { return Ok(None) };
        match found == number {
            true => Ok(Some((record_type, payload))),
            false => Err(Error::damaged(path.display().to_string(), 16, format!("it has number {found}"))),
        }
    })
}

pub(super) fn stamp(directory: &StoreDirectory, folder: &str, number: u64) -> Result<Stamp> {
    directory.stamp_of(&path(directory, folder, number))
}

pub(super) fn mark(directory: &StoreDirectory) -> Result<()> {
    let folder = directory.folders.ensure(LOGS)?;
    temporary::publish_as(directory, true, &header(Kind::Shared), &folder.join(MARK))?;
    directory.folders.sync(&folder)
}

pub(super) fn is_marked(directory: &StoreDirectory) -> Result<bool> {
    let path = directory.root.join(LOGS).join(MARK);
    match directory.whole(&path) {
        // Other calls that use the logs' folder report this error.
        Err(Error::Irregular { wanted: Sort::Directory, .. }) | Ok(None) => Ok(false),
        Err(error) => Err(error),
        Ok(Some(bytes)) => check_header(Kind::Shared, &bytes, &path.display().to_string()).map(|()| true),
    }
}

/// Returns `false` if the file exists.
pub(super) fn put_alone(directory: &StoreDirectory, name: &str, record_type: RecordType, number: u64) -> Result<bool> {
    let folder = directory.folders.ensure(LOGS)?;
    let won = temporary::publish(directory, &numbered(record_type, number, b""), &folder.join(name))?;
    directory.folders.sync(&folder)?;
    if !won {
        directory.learn();
    }
    Ok(won)
}

pub(super) fn get_alone(directory: &StoreDirectory, name: &str, record_type: RecordType) -> Result<Option<u64>> {
    let path = directory.root.join(LOGS).join(name);
    directory.retry_while_stale(|| match read(directory, &path)? {
        Some((found, number, _)) if found == record_type => Ok(Some(number)),
        Some((found, ..)) => {
            Err(Error::damaged(path.display().to_string(), 16, format!("its record type is {found:?}")))
        }
        None => Ok(None),
    })
}

fn read(directory: &StoreDirectory, path: &Path) -> Result<Option<(RecordType, u64, Bytes)>> {
    let Some(bytes) = directory.whole(path)? else { return Ok(None) };
    numbered_value(&bytes, &path.display().to_string()).map(Some)
}

/// Returns the sorted numbers in a folder, from a listing that may be stale.
pub(super) fn listed(directory: &StoreDirectory, folder: &str) -> Result<Vec<u64>> {
    let listed = directory.folders.list(&directory.root.join(folder))?;
    let number = |name: &String| name.parse::<u64>().ok().filter(|number| format!("{number:020}") == *name);
    let mut numbers: Vec<u64> = listed.iter().filter_map(|listed| number(&listed.name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

pub(super) fn forget(directory: &StoreDirectory, folder: &str, number: u64) {
    let _ = directory.disk.unlink(&path(directory, folder, number));
}
