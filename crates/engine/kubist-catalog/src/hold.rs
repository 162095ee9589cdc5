//! Holds: they keep the files of snapshots that a process uses for a long time, such as for training.
//!
//! A hold begins no later than its snapshot. Until it ends, no process deletes checkpoints, rewrites, or segments and
//! bytes that were in use when it began, even if its process has crashed. A cleaner that listed the holds just before a
//! hold was put may ignore it.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use kubist_format::names::HOLDS;
use kubist_types::{Error, Result};

use crate::core::Core;
use crate::error::store_error;
use crate::segment::unix_ms;

/// Maximum difference between the clocks of machines.
const CLOCKS: Duration = Duration::from_secs(600);
/// Longest hold; a later end came from a wrong clock.
const LONGEST: Duration = Duration::from_secs(31 * 86_400);

/// Puts a hold that ends after `time`; returns its name. `since`, in milliseconds since 1970, is not later than the
/// snapshot.
///
/// # Errors
///
/// `Invalid` for a time of more than 31 days; a storage error.
pub fn put(core: &Core, since: u64, time: Duration) -> Result<String> {
    if time > LONGEST {
        return Err(Error::invalid("a snapshot is held for at most 31 days at a time"));
    }
    let (since, until) = (since.saturating_sub(millis(CLOCKS)), unix_ms() + millis(time));
    let name = format!("{HOLDS}{since:020}-{until:020}-{:016x}", RandomState::new().hash_one(until));
    core.store.put_if_absent(&name, &[]).map_err(store_error)?;
    Ok(name)
}

/// Ends a hold; no error if it has ended.
///
/// # Errors
///
/// `Invalid` if it is no name of a hold; a storage error.
pub fn release(core: &Core, name: &str) -> Result<()> {
    if parse(name).is_none() {
        return Err(Error::invalid(format!("{name:?} is not the name of a hold")));
    }
    core.store.delete(name).map_err(store_error)
}

/// Deletes ended holds, and returns the time since which everything is held.
///
/// # Errors
///
/// A storage error.
pub fn oldest(core: &Core, now: u64) -> Result<Option<u64>> {
    let mut oldest: Option<u64> = None;
    for name in core.store.list(HOLDS).map_err(store_error)? {
        match parse(&name) {
            Some((since, until)) if (now..=now + millis(LONGEST + CLOCKS)).contains(&until) => {
                oldest = Some(oldest.map_or(since, |other| other.min(since)));
            }
            _ => core.store.delete(&name).map_err(store_error)?,
        }
    }
    Ok(oldest)
}

fn parse(name: &str) -> Option<(u64, u64)> {
    let mut parts = name.strip_prefix(HOLDS)?.split('-');
    let (since, until) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some((since, until))
}

fn millis(time: Duration) -> u64 {
    time.as_millis() as u64
}
