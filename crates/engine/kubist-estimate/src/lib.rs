//! Estimates: aggregates of a sample, each with an interval that holds the truth as often as
//! it says.
//!
//! They are of any records of which a sample can be read ([`kubist_population::Population`]): of a table, through the
//! same questions as all other readers ([`records`]), or of files. They know nothing of how rows are stored or where
//! they lie.

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
mod like;
mod options;
mod own;
mod records;
mod sums;
mod totals;
mod unit;
mod words;
mod zones;

pub use aggregates::documentation;
pub use estimation::{Estimation, estimate, estimate_of, estimate_telling, estimates, estimates_of};
pub use figure::{Estimate, Figure, Outlook, Stop};
pub use goal::Absolute;
pub use options::EstimateOptions;
pub use own::{Own, Told};
pub use records::Records;
pub use words::{bin_in_words, in_words, texts_in_words, values_in_words};
