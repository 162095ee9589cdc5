//! Keeping a table in shape: compaction and replication, cleaning, copies, the end of a table.
//!
//! Whatever it does, every snapshot answers as before, and nothing that was acknowledged is
//! lost. Nothing here may choose what a question returns.

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
pub mod planner;
pub mod policy;
pub mod recompress;
pub mod regrid;
pub mod replicate;
pub mod retract;
