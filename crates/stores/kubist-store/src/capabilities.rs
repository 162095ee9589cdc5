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
    /// How long writes of others may stay invisible. Visible data is always complete and correct.
    pub staleness: Duration,
    /// Whether [`StoreExt::punch`](crate::StoreExt::punch) can free ranges of a segment, if the file system supports
    /// it.
    pub punches: bool,
}

/// The distance of the bytes from their reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locality {
    /// Equally near to all processes.
    Here,
    /// On hosts of the store ([`StoreExt::hosts`](crate::StoreExt::hosts)), which limit the number of requests and to
    /// which work can be sent. [`StoreExt::replica_locations`](crate::StoreExt::replica_locations) returns the hosts of
    /// given bytes.
    Hosts,
}

/// What a read waits for; decides how many reads start together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Latency {
    /// Nothing.
    Memory,
    /// A device, for bytes that are not in memory ([`StoreExt::waited`](crate::StoreExt::waited)).
    Device,
    /// A network, always.
    Network,
}

/// The mechanism that limits a log to one owner ([`Store::own_log`](crate::Store::own_log)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fencing {
    /// A lock, which ends immediately with its owner's process.
    Lock,
    /// A claim. After its owner died, the log stays busy for up to `lapse`.
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
