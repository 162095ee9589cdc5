//! Asking: from a question to a plan, from the plan to a stream of batches.
//!
//! Every question is bound to one snapshot, returns each matching record once, and never
//! changes anything. Nothing here may write to a store. A question travels one way:
//!
//! `QuerySpec` and [`request`] -> [`bind`] -> [`plan`] (logical plan, then a read plan for each
//! window of priorities) -> [`execute`] -> `select`, where records are chosen by priority, or
//! `sort`, where they are brought into an order that was asked for -> [`stream`].

pub mod bind;
pub mod count;
pub mod execute;
pub mod grids;
pub mod plan;
pub mod postings;
pub mod refine;
pub mod request;
pub mod ring;
pub mod runs;
mod select;
mod sort;
pub mod splits;
pub mod stream;
pub mod trajectories;
mod visit;
pub mod workers;
