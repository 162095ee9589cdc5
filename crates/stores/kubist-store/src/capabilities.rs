//! What kinds of stores there are.

use std::time::Duration;

/// What kind of store this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Where its bytes are.
    pub locality: Locality,
    /// What a read waits for.
    pub latency: Latency,
    /// How a log is kept to one owner.
    pub fencing: Fencing,
    /// For how long it may not be seen yet what others did; zero: it is seen at once. What is
    /// seen is whole and right all the same.
    pub staleness: Duration,
    /// Can parts of a segment be given back ([`StoreExt::punch`](crate::StoreExt::punch))? Not
    /// everywhere that this says so: a file system may not know how.
    pub punches: bool,
}

/// Where the bytes are, as seen from a process that reads them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locality {
    /// Equally near to all processes that open the store.
    Here,
    /// On hosts of the store's own: [`StoreExt::hosts`](crate::StoreExt::hosts) names them, and
    /// [`StoreExt::replica_locations`](crate::StoreExt::replica_locations) says which of them keep which
    /// bytes. Work can be sent there, and they bound the requests to them.
    Hosts,
}

/// What a read waits for. It decides how many are begun before the first has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Latency {
    /// Nothing.
    Memory,
    /// A device, for what is not in memory yet: [`StoreExt::waited`](crate::StoreExt::waited) says when
    /// it did.
    Device,
    /// A network, always.
    Network,
}

/// How a log is kept to one owner: see [`Store::own_log`](crate::Store::own_log).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fencing {
    /// By a lock that ends with its owner's process, and at once.
    Lock,
    /// By a claim. One whose owner died stands for up to `lapse`, and the log is busy meanwhile.
    Claim {
        /// For how long a claim stands that is not renewed.
        lapse: Duration,
    },
}

impl Fencing {
    /// How long a log may be busy whose owner is dead.
    pub fn outlives(self) -> Duration {
        match self {
            Fencing::Lock => Duration::ZERO,
            Fencing::Claim { lapse } => lapse,
        }
    }
}
