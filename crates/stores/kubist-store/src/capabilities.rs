//! Properties of stores.

use std::time::Duration;

/// The properties of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Where its bytes are.
    pub locality: Locality,
    /// What a read waits for.
    pub latency: Latency,
    /// How the store limits a log to one owner.
    pub fencing: Fencing,
    /// How long writes of others may stay invisible. Visible things are always complete and correct.
    pub staleness: Duration,
    /// Whether [`StoreExt::punch`](crate::StoreExt::punch) can free ranges of a segment, if the file system
    /// supports it.
    pub punches: bool,
}

/// The distance of the bytes from the process that reads them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locality {
    /// Equally near to all processes.
    Here,
    /// On hosts of the store. [`StoreExt::hosts`](crate::StoreExt::hosts) names them, and
    /// [`StoreExt::replica_locations`](crate::StoreExt::replica_locations) says which hosts store which
    /// bytes. Work can be sent there, and the hosts limit the number of requests.
    Hosts,
}

/// What a read waits for, which decides how many reads start before the first has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Latency {
    /// Nothing.
    Memory,
    /// A device, for bytes that are not in memory, as [`StoreExt::waited`](crate::StoreExt::waited) reports.
    Device,
    /// A network, always.
    Network,
}

/// The mechanism that limits a log to one owner: see [`Store::own_log`](crate::Store::own_log).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fencing {
    /// A lock, which ends at once with its owner's process.
    Lock,
    /// A claim. That of a dead owner stays for up to `lapse`, and the log is busy until then.
    Claim {
        /// The lifetime of a claim that is not renewed.
        lapse: Duration,
    },
}

impl Fencing {
    /// How long the log of a dead owner may stay busy.
    pub fn outlives(self) -> Duration {
        match self {
            Fencing::Lock => Duration::ZERO,
            Fencing::Claim { lapse } => lapse,
        }
    }
}
