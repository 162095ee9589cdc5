//! Numbered files of a shared store: entries of logs, and claims on them.
//!
//! ```text
//! logs/kubist.shared.log          the mark of a shared store
//! logs/<writer>.entries/<number>  an entry, or the fence of a new owner, at that position
//! logs/<writer>.claims/<number>   the holder of the log, renewed by a file with the next number
//! logs/<writer>.seal              the end of the log of one machine, if there was one
//! ```
//!
//! Each file gets its name once, complete and durable; of several files with one number one wins. So nothing
//! depends on a lock, a length, a listing or a clock. Listings only shorten the search for the newest number.

use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::disk::Sort;
use crate::format::{Kind, Says, check_header, header, numbered, numbered_value};
use crate::{Error, Result, Stamp};

use super::place::Place;
use super::temporary::{self, First};

pub(super) const LOGS: &str = "logs";
pub(super) const ENTRIES: &str = ".entries";
pub(super) const CLAIMS: &str = ".claims";
pub(super) const SEAL: &str = ".seal";
/// The name of the mark in the folder of the logs, and the writer's name that is reserved for it.
pub(super) const MARK: &str = "kubist.shared.log";
pub(super) const NO_WRITER: &str = "kubist.shared";

pub(super) fn folder(writer: &str, suffix: &str) -> String {
    format!("{LOGS}/{writer}{suffix}")
}

fn path(place: &Place, folder: &str, number: u64) -> PathBuf {
    place.root.join(folder).join(format!("{number:020}"))
}

/// Writes a file under its number, durably. Returns `false` if the number is taken.
pub(super) fn put(place: &Place, folder: &str, number: u64, says: Says, payload: &[u8]) -> Result<bool> {
    put_after(place, folder, number, says, payload, None)
}

/// [`put`] after `first` is durable.
pub(super) fn put_after(
    place: &Place,
    folder: &str,
    number: u64,
    says: Says,
    payload: &[u8],
    first: First<'_>,
) -> Result<bool> {
    let whole = place.folders.ensure(folder)?;
    let (bytes, path) = (numbered(says, number, payload), path(place, folder, number));
    let won = temporary::publish_after(place, place.is_shared(), &bytes, &path, first)?;
    place.folders.sync(&whole)?;
    if !won {
        place.learn();
    }
    Ok(won)
}

/// Returns the record type and payload of a numbered file; `None` if there is none.
pub(super) fn get(place: &Place, folder: &str, number: u64) -> Result<Option<(Says, Bytes)>> {
    let path = path(place, folder, number);
    place.patiently(|| {
        let Some((says, found, payload)) = read(place, &path)? else { return Ok(None) };
        match found == number {
            true => Ok(Some((says, payload))),
            false => Err(Error::damaged(path.display().to_string(), 16, format!("it has number {found}"))),
        }
    })
}

/// Returns the version mark of a numbered file.
pub(super) fn stamp(place: &Place, folder: &str, number: u64) -> Result<Stamp> {
    place.stamp_of(&path(place, folder, number))
}

/// Creates the mark, durably.
pub(super) fn mark(place: &Place) -> Result<()> {
    let folder = place.folders.ensure(LOGS)?;
    temporary::publish_as(place, true, &header(Kind::Shared), &folder.join(MARK))?;
    place.folders.sync(&folder)
}

pub(super) fn is_marked(place: &Place) -> Result<bool> {
    let path = place.root.join(LOGS).join(MARK);
    match place.whole(&path) {
        // Other users of the logs' folder report this error.
        Err(Error::Irregular { wanted: Sort::Directory, .. }) | Ok(None) => Ok(false),
        Err(error) => Err(error),
        Ok(Some(bytes)) => check_header(Kind::Shared, &bytes, &path.display().to_string()).map(|()| true),
    }
}

/// Writes a file that has a fixed name; `false` if it exists.
pub(super) fn put_alone(place: &Place, name: &str, says: Says, number: u64) -> Result<bool> {
    let folder = place.folders.ensure(LOGS)?;
    let won = temporary::publish(place, &numbered(says, number, b""), &folder.join(name))?;
    place.folders.sync(&folder)?;
    if !won {
        place.learn();
    }
    Ok(won)
}

/// Returns the number in a file that has a fixed name; `None` if there is no such file.
pub(super) fn get_alone(place: &Place, name: &str, says: Says) -> Result<Option<u64>> {
    let path = place.root.join(LOGS).join(name);
    place.patiently(|| match read(place, &path)? {
        Some((found, number, _)) if found == says => Ok(Some(number)),
        Some((found, ..)) => {
            Err(Error::damaged(path.display().to_string(), 16, format!("its record type is {found:?}")))
        }
        None => Ok(None),
    })
}

fn read(place: &Place, path: &Path) -> Result<Option<(Says, u64, Bytes)>> {
    let Some(bytes) = place.whole(path)? else { return Ok(None) };
    numbered_value(&bytes, &path.display().to_string()).map(Some)
}

/// Returns the numbers in a listing of a folder, in order. The listing may be old.
pub(super) fn listed(place: &Place, folder: &str) -> Result<Vec<u64>> {
    let listed = place.folders.list(&place.root.join(folder))?;
    let number = |name: &String| name.parse::<u64>().ok().filter(|number| format!("{number:020}") == *name);
    let mut numbers: Vec<u64> = listed.iter().filter_map(|listed| number(&listed.name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Deletes a numbered file, best effort: nothing depends on it.
pub(super) fn forget(place: &Place, folder: &str, number: u64) {
    let _ = place.disk.unlink(&path(place, folder, number));
}
