//! Asking: from a question to a plan, from the plan to a stream of batches.
//!
//! Every question is bound to one snapshot, returns each matching record once, and never
//! changes anything. Nothing here may write to a store.

pub mod grids;
pub mod postings;
pub mod query;
pub mod question;
pub mod ring;
pub mod runs;
pub mod splits;
pub mod workers;
