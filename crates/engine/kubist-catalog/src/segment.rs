//! Segments of rewrites and checkpoints, which belong to no writer.

use std::error::Error as _;
use std::io::ErrorKind::StaleNetworkFileHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use kubist_store::Segment;
use kubist_types::{Error, Result};

use crate::error::store_error;
use crate::files::TableFiles;

pub fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

fn new_segment(files: &TableFiles, prefix: &str, number: u64) -> Result<Box<dyn Segment>> {
    let now = unix_ms();
    for attempt in 0..10_000 {
        let name = format!("{prefix}{number:06}-{:013}", now + attempt);
        match files.store.create_segment(&name) {
            Err(kubist_store::Error::Exists { .. }) => {}
            Err(error) if is_cleaned_away(files, &name, &error) => {}
            other => return other.map_err(store_error),
        }
    }
    Err(Error::Busy(format!("{}: ten thousand {prefix}{number:06} were begun", files.store.location())))
}

/// Writes a durable segment; returns its name and the result of `fill`. Cleaning may delete the segment of a process
/// that is suspended for long; later writes then fail with `SnapshotExpired`.
///
/// # Errors
///
/// `SnapshotExpired` if the segment was cleaned; `Busy` if ten thousand names are taken; the errors of `fill`; a
/// storage error.
pub fn write_segment<T>(
    files: &TableFiles,
    prefix: &str,
    number: u64,
    fill: impl FnOnce(&mut dyn Segment) -> Result<T>,
) -> Result<(String, T)> {
    let mut segment = new_segment(files, prefix, number)?;
    let name = segment.name().to_string();
    let filled = fill(segment.as_mut()).and_then(|filled| {
        segment.sync().map_err(store_error)?;
        Ok(filled)
    });
    let error = match filled {
        Ok(filled) => return Ok((name, filled)),
        Err(error) => error,
    };
    match error.source().and_then(|source| source.downcast_ref()) {
        Some(of_store) if is_cleaned_away(files, &name, of_store) => {
            let why = format!("segment {name} was cleaned away while this process stood still; try again");
            Err(Error::SnapshotExpired { location: files.store.location().into(), why })
        }
        _ => Err(error),
    }
}

fn is_cleaned_away(files: &TableFiles, segment: &str, error: &kubist_store::Error) -> bool {
    let is_stale = matches!(error, kubist_store::Error::Io { source, .. } if source.kind() == StaleNetworkFileHandle);
    is_stale && matches!(files.store.segment_len(segment), Ok(None))
}
