//! Waits until log entries on which other entries depend are durable.

use std::time::{Duration, Instant};

use kubist_types::{Cancel, Error, Result};

use crate::error::store_error;
use crate::files::TableFiles;

/// Whether a process owns the log; the entries of a log without an owner are durable.
///
/// # Errors
///
/// `Damaged` if the log is damaged; a storage error.
pub fn is_owned(files: &TableFiles, writer: &str) -> Result<bool> {
    match files.store.own_log(writer) {
        Ok(_) => Ok(false),
        Err(kubist_store::Error::Busy { .. }) => Ok(true),
        Err(error) => Err(store_error(error)),
    }
}

/// Waits until the log is durable up to `position`: a rewrite must not outlive a commit that it replaces.
///
/// # Errors
///
/// `Busy` if it is not durable after `patience`, or has lost an entry; `Damaged`; `Cancelled`; a storage error.
pub fn settle(files: &TableFiles, writer: &str, position: u64, patience: Duration, cancel: &Cancel) -> Result<()> {
    let begin = Instant::now();
    loop {
        cancel.check()?;
        if files.store.read_log(writer, position).map_err(store_error)?.durable >= position {
            return Ok(());
        }
        // To take the log makes the entries of a crashed owner durable.
        match files.store.own_log(writer) {
            Ok(owner) if owner.position() >= position => return Ok(()),
            Ok(_) | Err(kubist_store::Error::Busy { .. }) if begin.elapsed() < patience => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(_) => {
                return Err(Error::Busy(format!(
                    "the log of writer {writer:?} has lost an entry: open the table again"
                )));
            }
            Err(error) => return Err(store_error(error)),
        }
    }
}
