//! Kubist's store on Apache Cassandra, or another database with its protocol.
//!
//! This crate implements [`kubist_store::Store`] and installs nothing on the nodes. Objects and claims are rows that
//! lightweight transactions decide (`objects`, `identity`). Segments are immutable blocks that the ring spreads
//! (`segments`, `blocks`). Logs are chains of rows that epochs fence (`logs`, `epochs`).
//!
//! Its principles are:
//!
//! - **Rows do not change.** Blocks and log entries are written once, with a constant timestamp. Decisions are
//!   transactions with a unique number. So every request can be repeated, a late request does no harm, and no clock is
//!   trusted.
//! - **A majority confirms writes and responds to reads** (`consistency`, by default `quorum`). For blocks, one replica
//!   is enough, because it cannot have wrong blocks; missing blocks are read from the others.
//! - **A store is an id, not a name** (`identity`), so data of a dropped table never belongs to another one.
//! - **A deleted name that reappears does no harm.** The database remembers a deletion for one hour. A replica that was
//!   down for longer may restore the row of an object or segment. Segment names are not reused, and Kubist deletes only
//!   things that nothing needs. A table's own name must not reappear, so its deletion is remembered for ten days. If a
//!   node was down, repair the cluster within this time.

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
