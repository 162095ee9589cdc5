//! Claims: what is to come into a table once, as a file that is ingested, is one writer's work at a time.
//!
//! A claim is an object that names its writer, put if none is there. It does not end by itself. Whoever finds one
//! takes the log of that writer: while that is refused the writer is at work, and once it is given the writer's work
//! has ended for good ([`kubist_store::Store::own_log`]), so that its claim can be removed while the log is held.
//! Whether the work was done only the tokens of commits say: the new holder looks at them after it has its claim.

use std::sync::Arc;
use std::time::Duration;

use kubist_catalog::core::Core;
use kubist_catalog::error::store_error;
use kubist_format::names::CLAIMS;
use kubist_store::{Store, StoreExt};
use kubist_types::cancel::Cancel;
use kubist_types::error::{Error, Result};
use xxhash_rust::xxh3::xxh3_128;

use crate::names::own_log;

/// Between two looks at a claim that comes or goes.
const MOMENT: Duration = Duration::from_millis(5);

/// Held until it is dropped, which must be before its writer's log is given back.
pub(crate) struct Claim {
    store: Arc<dyn Store>,
    name: String,
    writer: String,
}

impl Claim {
    /// Takes `what` for a writer, whose log is held.
    ///
    /// # Errors
    ///
    /// `Busy` if another writer is at it; `Cancelled`; a storage error.
    pub fn take(core: &Core, writer: &str, what: &str, cancel: &Cancel) -> Result<Claim> {
        let store = &core.store;
        let name = format!("{CLAIMS}{:032x}", xxh3_128(what.as_bytes()));
        let claim = Claim { store: store.clone(), name: name.clone(), writer: writer.into() };
        while !store.put_if_absent(&name, writer.as_bytes()).map_err(store_error)? {
            cancel.check()?;
            let Some(other) = claim.holder()? else {
                std::thread::sleep(MOMENT);
                continue;
            };
            // Its own is of an earlier life: it has one at a time.
            if other == writer {
                break;
            }
            let log = match own_log(core, &other) {
                Err(Error::Busy(_)) => {
                    return Err(Error::Busy(format!("writer {other:?} is at work on it")));
                }
                log => log?,
            };
            if claim.holder()?.is_some_and(|now| now == other) {
                store.delete(&name).map_err(store_error)?;
            }
            drop(log);
            // What that writer committed last is seen by who looks now.
            store.catch_up().map_err(store_error)?;
        }
        Ok(claim)
    }

    fn holder(&self) -> Result<Option<String>> {
        let found = self.store.get(&self.name).map_err(store_error)?;
        Ok(found.map(|writer| String::from_utf8_lossy(&writer).into_owned()))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Whoever took its log since has one of its own. What cannot be removed is removed by the next to claim it.
        if self.holder().is_ok_and(|now| now.is_some_and(|now| now == self.writer)) {
            let _ = self.store.delete(&self.name);
        }
    }
}
