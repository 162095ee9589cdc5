//! Segments that belong to no writer, and the clock that names them.

use std::time::{SystemTime, UNIX_EPOCH};

use kubist_store::Segment;
use kubist_types::{Error, Result};

use crate::error::store_error;
use crate::files::TableFiles;

/// Milliseconds since 1970.
pub fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// A segment that is no writer's: of a rewrite or a checkpoint of that number.
///
/// # Errors
///
/// `Busy` if ten thousand names are taken; a storage error.
pub fn new_segment(files: &TableFiles, prefix: &str, number: u64) -> Result<Box<dyn Segment>> {
    let now = unix_ms();
    for attempt in 0..10_000 {
        match files.store.create_segment(&format!("{prefix}{number:06}-{:013}", now + attempt)) {
            Err(kubist_store::Error::Exists { .. }) => {}
            other => return other.map_err(store_error),
        }
    }
    Err(Error::Busy(format!("{}: ten thousand {prefix}{number:06} were begun", files.store.location())))
}
