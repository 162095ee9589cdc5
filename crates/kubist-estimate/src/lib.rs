//! Estimates: aggregates of a sample, each with an interval that holds the truth as often as
//! it says.
//!
//! They read through the same questions as all other readers, and know nothing of how rows are
//! stored or where they lie.

mod accumulate;
mod aggregate;
mod aggregates;
mod axis;
mod call;
mod distribution;
mod estimation;
mod figure;
mod goal;
mod group;
mod interval;
mod joint;
mod options;
mod own;
mod sums;
mod totals;
mod unit;
mod words;
mod zones;

pub use aggregates::documentation;
pub use estimation::{Estimation, estimate, estimate_telling, estimates};
pub use figure::{Estimate, Figure, Outlook, Stop};
pub use goal::Absolute;
pub use options::EstimateOptions;
pub use own::{Own, Told};
pub use words::{in_words, texts_in_words};
