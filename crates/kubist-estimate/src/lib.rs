//! Estimates: aggregates of a sample, each with an interval that holds the truth as often as
//! it says.
//!
//! They read through the same questions as everybody else, and know nothing of how rows are
//! stored or where they lie.

mod estimate;

pub use estimate::{Estimate, EstimateOptions, Estimation, Figure, Stop, estimate, estimate_telling, estimates};
