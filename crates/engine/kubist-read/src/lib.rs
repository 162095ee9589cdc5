//! From a query to a plan, and from the plan to a stream of batches. Every query reads one snapshot and
//! returns each matching row once, in these stages:
//!
//! `QuerySpec` and [`request`] -> [`bind`] -> [`plan`] (a logical plan, then a read plan for each window of
//! priorities) -> [`execute`] -> `select`, which chooses rows by priority, or `sort`, which orders them ->
//! [`stream`].

pub mod bind;
pub mod count;
pub mod execute;
pub mod grids;
pub mod held;
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
