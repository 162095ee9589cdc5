//! Ownership of a writer's log, and thus of its name.

use std::time::{Duration, Instant};

use kubist_store::{LogOwner, StoreExt};

use kubist_catalog::core::Core;
use kubist_catalog::error::store_error;
use kubist_types::error::{Error, Result};

/// Maximum time for which cleaning or rewriting holds a log.
const MOMENT: Duration = Duration::from_millis(100);

/// Retries before it reports `Busy`, because cleaning and rewriting hold a log briefly.
pub(crate) fn own_log(core: &Core, name: &str) -> Result<Box<dyn LogOwner>> {
    let begin = Instant::now();
    loop {
        match core.store.own_log(name) {
            Err(kubist_store::Error::Busy { .. }) if begin.elapsed() < MOMENT => std::thread::sleep(MOMENT / 20),
            other => return other.map_err(store_error),
        }
    }
}

/// Takes the first free log of `writer-1`, `writer-2`, …. It does not wait for a remote writer that may have ended,
/// because any name will do.
pub(crate) fn first_free_log(core: &Core) -> Result<Box<dyn LogOwner>> {
    for number in 1..=10_000 {
        match core.store.own_free_log(&format!("writer-{number}")) {
            Err(kubist_store::Error::Busy { .. }) => {}
            other => return other.map_err(store_error),
        }
    }
    Err(Error::Busy(format!("{}: ten thousand writers are at work", core.store.location())))
}
