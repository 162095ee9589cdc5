//! Claims: they let one writer at a time do work that must enter a table once, such as the ingestion of a file.
//!
//! A claim is an object that names its writer, is put only if absent, and does not expire. A process that finds a claim
//! tries to take the log of its writer. If it succeeds, the writer has ended permanently
//! ([`kubist_store::Store::own_log`]), so the claim can be removed while the log is held. Only the tokens of commits
//! show whether the work was done, so the new holder checks them.

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

const MOMENT: Duration = Duration::from_millis(5);

/// Must be dropped before its writer's log is released.
pub(crate) struct Claim {
    store: Arc<dyn Store>,
    name: String,
    writer: String,
}

impl Claim {
    /// Claims `what` for a writer, whose log is held.
    ///
    /// # Errors
    ///
    /// `Busy` if another writer has claimed it; `Cancelled`; a storage error.
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
            // A writer has one claim at a time, so this is left from an earlier process.
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
        // A process that took the log since has its own claim. The next process that finds a remaining claim removes
        // it.
        if self.holder().is_ok_and(|now| now.is_some_and(|now| now == self.writer)) {
            let _ = self.store.delete(&self.name);
        }
    }
}
