//! Properties of stores.

use std::time::Duration;

/// The properties of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// The location of its bytes, relative to the reader.
    pub locality: Locality,
    /// What a read waits for.
    pub latency: Latency,
    /// How the store limits a log to one owner.
    pub fencing: Fencing,
    /// How long a process may not see the writes of others; visible data is always complete and correct.
    pub staleness: Duration,
    /// Whether [`StoreExt::punch`](crate::StoreExt::punch) can free ranges of a segment, which the file system must
    /// support too.
    pub punches: bool,
}

/// Where the bytes are, relative to their reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locality {
    /// At the same distance from all processes.
    Here,
    /// On hosts of the store ([`StoreExt::hosts`](crate::StoreExt::hosts)). They limit the number of requests, and work
    /// can be sent to them. [`StoreExt::replica_locations`](crate::StoreExt::replica_locations) returns the hosts that
    /// store given bytes.
    Hosts,
}

/// The cause of a read's wait, which decides how many reads start together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Latency {
    /// A read does not wait.
    Memory,
    /// A read waits for a device if the bytes are not in memory ([`StoreExt::waited`](crate::StoreExt::waited)).
    Device,
    /// A read always waits for a network.
    Network,
}

/// The mechanism that limits a log to one owner ([`Store::own_log`](crate::Store::own_log)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fencing {
    /// A lock, which ends immediately with its owner's process.
    Lock,
    /// A claim, with which the log of a dead owner stays busy for up to `lapse`.
    Claim {
        /// The lifetime of a claim that is not renewed.
        lapse: Duration,
    },
}

impl Fencing {
    /// How long the log of a dead owner may stay busy: zero with a lock.
    pub fn outlives(self) -> Duration {
        match self {
            Fencing::Lock => Duration::ZERO,
            Fencing::Claim { lapse } => lapse,
        }
    }
}
