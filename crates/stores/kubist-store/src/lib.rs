//! The storage layer of Kubist: small objects, large write-once segments and one append-only log per writer, behind the
//! [`Store`] trait. Optional operations are [`Abilities`]; callers use them through [`StoreExt`].
//!
//! Every store gives these guarantees, and [`conformance`] tests them:
//!
//! - an object is written once, completely or not at all; if several writers put the same name, exactly one succeeds;
//! - the bytes of a segment are durable once `sync` has returned;
//! - a log entry is durable once `append` has returned, readers see complete entries in order, and a log has at most
//!   one owner at a time;
//! - damage is an error that names file and offset, never a wrong result and never a panic.
//!
//! This crate has two stores: [`LocalStore`] (a directory that any number of processes share, without a server) and
//! [`MemoryStore`] (for tests). Other stores are separate crates; `docs/stores.md` shows how to write one. A [`Scheme`]
//! turns a location into a store. The local store makes every system call through [`disk::Disk`], so `kubist-simulate`
//! can test it on a disk that tears, reorders and loses unsynced writes.

#![deny(missing_docs)]

mod capabilities;
pub mod claims;
pub mod conformance;
pub mod disk;
mod error;
mod format;
mod frame;
#[doc(hidden)]
pub mod fuzz;
mod local;
mod memory;
pub mod names;
mod scheme;
mod stop;
mod store;
mod traffic;

pub use capabilities::{Capabilities, Fencing, Latency, Locality};
pub use error::{Error, Result};
pub use local::{Directories, LocalStore, open_local};
pub use memory::{Memories, MemoryStore};
pub use scheme::{Content, PATHS, Scheme, StoreLocation, locate, register};
pub use stop::{Switches, check_stopped, stoppable, switches};
use store::read_watched;
pub use store::{
    Abilities, Answers, BLOCK_BYTES, BrokenEntry, Copies, LogEntry, LogOwner, LogTail, Logs, Partial, Reads,
    ReplicaLocation, Replicas, Scratch, Segment, Service, Sharing, Size, SoundLog, Space, Spill, Stamp, Stamps, Store,
    StoreExt, StoredKind, local_scratch, sound_log,
};
pub use traffic::{CacheUse, Chain, Request, Traffic, Watch};
