//! Maintenance of a table: compaction and replication, cleaning, copies, drops.
//!
//! No function here changes the result of a query on a snapshot, or loses an acknowledged row.

pub mod background;
pub mod clean;
pub mod column_use;
pub mod copy;
pub mod disk_use;
pub mod drop;
pub mod holes;
pub mod inputs;
pub mod learn;
pub mod lease;
pub mod merge_lookups;
pub mod optimize;
pub mod period;
pub mod planner;
pub mod policy;
pub mod recompress;
pub mod regrid;
pub mod replicate;
pub mod retract;
pub mod widen;
