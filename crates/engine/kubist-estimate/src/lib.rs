//! Estimates: aggregates computed from a sample, each with a confidence interval.
//!
//! The sample comes from a [`kubist_population::Population`], such as the rows of a table ([`records`]) or
//! of files. This crate does not know how rows are stored.

mod accumulate;
mod aggregate;
mod aggregates;
mod auxiliary;
mod axis;
mod call;
mod control;
mod distribution;
mod edge;
mod estimation;
mod figure;
mod goal;
mod group;
mod interval;
mod joint;
mod options;
mod own;
mod records;
mod representatives;
mod sums;
mod totals;
mod unit;
mod words;
mod zones;

pub use aggregates::documentation;
pub use estimation::{Estimation, estimate, estimate_of, estimates, estimates_of};
pub use figure::{Estimate, Figure, Outlook, Stop};
pub use goal::Absolute;
pub use options::EstimateOptions;
pub use own::{ExactInterval, JsonValue};
pub use records::Records;
pub use words::{bin_in_words, bound_in_words, in_words, texts_in_words, values_in_words};
