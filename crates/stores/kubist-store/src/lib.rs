//! Where Kubist's bytes live.
//!
//! This crate knows bytes, not cubes: it stores small objects, large write-once
//! segments and one append-only log per writer, behind the [`Store`] trait.
//! Everything above it (tables, runs, cutoffs) is built from these three. What only some
//! stores can do besides are [`Abilities`]; [`StoreExt`] asks for it of any store.
//!
//! What every engine guarantees, and [`conformance`] checks:
//!
//! - an object is written once and is there whole or not at all; of several
//!   writers that put the same name exactly one learns that it won;
//! - the bytes of a segment are durable once `sync` returned;
//! - a log entry is durable once `append` returned, entries are seen whole and
//!   in order, and a log has at most one owner at a time;
//! - damage is an error that names file and offset, never a wrong answer and
//!   never a panic.
//!
//! Engines: [`LocalStore`] (a directory shared by any number of processes, no
//! server) and [`MemoryStore`] (tests); others are crates of their own, and `docs/stores.md`
//! shows how to write one. A location leads to a store by its [`Scheme`]. The local engine
//! makes every system call through [`disk::Disk`]. The crate `kubist-simulate` has a simulated one that tears,
//! reorders and loses whatever was not synced, so that tests run the code that users run.

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
pub use scheme::{Found, PATHS, Scheme, StoreLocation, locate, register};
pub use stop::{Switches, check_stopped, stoppable, switches};
use store::read_watched;
pub use store::{
    Abilities, Answers, BLOCK_BYTES, BrokenEntry, Copies, Kept, LogEntry, LogOwner, LogTail, Logs, Reads,
    ReplicaLocation, Replicas, Scratch, Segment, Service, Sharing, Size, SoundLog, Space, Spill, Stamp, Stamps, Store,
    StoreExt, local_scratch, sound_log,
};
pub use traffic::{CacheUse, Chain, Request, Traffic, Watch};
