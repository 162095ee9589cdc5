//! Kubist's store on Apache Cassandra, or another database that speaks its protocol.
//!
//! The database is distributed, replicated and there while nodes fail; this crate keeps the
//! promises of [`kubist_store::Store`] on it, with nothing installed on its nodes. Objects
//! and claims are rows that lightweight transactions decide (`objects`, `identity`),
//! segments are immutable blocks that the ring spreads (`segments`, `blocks`), and logs are
//! chains of rows that epochs fence (`logs`, `epochs`).
//!
//! What all of it rests on:
//!
//! - **Rows do not change.** Blocks and log entries are written once, with one timestamp
//!   for ever; what has to be decided is decided by a transaction, with a number of the
//!   claimant's own. So every request can be repeated, none that comes late does harm, and
//!   no clock is trusted.
//! - **A majority confirms and a majority is asked** (`consistency`, by default `quorum`),
//!   but for blocks, which one replica gives if it has them: it cannot have wrong ones.
//! - **A store is an id, not a name** (`identity`): what a dropped table left behind is
//!   never another's.
//! - **A name that comes back does no harm.** A replica that slept for longer than the
//!   database remembers deletions (an hour) may bring back an object's or a segment's row.
//!   Segments' names are not used again, what the engine deletes is what nothing needs any
//!   more, and the same happens in a directory after a power failure. A table's own name
//!   must not come back: its deletion is remembered for ten days, in which a cluster that
//!   had a node away has to be repaired.
//!
//! This crate alone knows the network. It must not know what a table is.

mod blocks;
mod cluster;
mod epochs;
mod identity;
mod limiter;
mod location;
mod logs;
mod names;
mod objects;
mod process;
mod replication;
mod request_limit;
mod schema;
mod scheme;
mod segments;
mod session;
mod store;
mod tls;

pub use location::{Agreement, Location, PASSWORD_VARIABLE};
pub use scheme::Clusters;
pub use store::CassandraStore;
