//! The last exchange with another site: the object `sync/peers/ID/NUMBER` with the highest number.

use std::time::Duration;

use kubist_catalog::core::Core;
use kubist_catalog::error::store_error;
use kubist_catalog::hold;
use kubist_format::names::SYNC;
use kubist_types::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::metadata::Entries;

/// A site that is silent for longer may find commits cleaned away.
const KEPT: Duration = Duration::from_secs(31 * 86_400);

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Peer {
    /// Keeps the bytes of commits that the other site lacks.
    pub hold: String,
    /// The states of both tables after the exchange.
    pub here: String,
    pub there: String,
    /// The metadata that both had.
    pub metadata: Entries,
}

fn names(core: &Core, peer: &str) -> Result<Vec<String>> {
    core.store.list(&format!("{SYNC}peers/{peer}/")).map_err(store_error)
}

/// The last exchange with a peer.
///
/// # Errors
///
/// `Damaged`; a storage error.
pub fn last(core: &Core, peer: &str) -> Result<Option<Peer>> {
    let Some(name) = names(core, peer)?.pop() else { return Ok(None) };
    let Some(bytes) = core.store.get(&name).map_err(store_error)? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| Error::Damaged {
        file: format!("{}/{name}", core.store.location()),
        offset: 0,
        what: error.to_string(),
    })
}

/// Records an exchange that began at `since`, in milliseconds since 1970, and ends the previous hold.
///
/// # Errors
///
/// A storage error.
pub fn record(core: &Core, peer: &str, since: u64, mut now: Peer) -> Result<()> {
    let (earlier, last) = (names(core, peer)?, last(core, peer)?);
    let number = earlier.last().map_or(0, |name| kubist_format::names::number_of(name)) + 1;
    now.hold = hold::put(core, since, KEPT)?;
    let bytes = serde_json::to_vec(&now).map_err(Error::internal)?;
    if !core.store.put_if_absent(&format!("{SYNC}peers/{peer}/{number:020}"), &bytes).map_err(store_error)? {
        // Another sync was faster; its hold is not newer.
        return hold::release(core, &now.hold);
    }
    for name in earlier {
        core.store.delete(&name).map_err(store_error)?;
    }
    last.map_or(Ok(()), |last| hold::release(core, &last.hold))
}
