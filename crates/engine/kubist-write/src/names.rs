//! The log that a writer owns, and with it the name that it writes under.

use std::time::{Duration, Instant};

use kubist_store::{LogOwner, StoreExt};

use kubist_catalog::core::Core;
use kubist_catalog::error::store_error;
use kubist_types::error::{Error, Result};

/// How long somebody else may hold a log without being its writer.
const MOMENT: Duration = Duration::from_millis(100);

/// A writer's log. Cleaning and rewriting take a log for a moment: look again before
/// calling it busy.
pub(crate) fn own_log(core: &Core, name: &str) -> Result<Box<dyn LogOwner>> {
    let begin = Instant::now();
    loop {
        match core.store.own_log(name) {
            Err(kubist_store::Error::Busy { .. }) if begin.elapsed() < MOMENT => std::thread::sleep(MOMENT / 20),
            other => return other.map_err(store_error),
        }
    }
}

/// The first of `writer-1`, `writer-2`, … that nobody owns. Whether a writer elsewhere is still at
/// work is not waited for: another name does as well.
pub(crate) fn first_free_log(core: &Core) -> Result<Box<dyn LogOwner>> {
    for number in 1..=10_000 {
        match core.store.own_free_log(&format!("writer-{number}")) {
            Err(kubist_store::Error::Busy { .. }) => {}
            other => return other.map_err(store_error),
        }
    }
    Err(Error::Busy(format!("{}: ten thousand writers are at work", core.store.location())))
}
