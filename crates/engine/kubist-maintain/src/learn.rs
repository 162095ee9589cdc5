//! Learning the scales of a grid from a table's own sample: the records of lowest priority
//! are uniform over all that it holds.

use kubist_catalog::frame;
use kubist_catalog::snapshot::Snapshot;
use kubist_index::grid::Scale;
use kubist_read::request::RunOptions;
use kubist_read::stream::QueryStream;
use kubist_types::{Cancel, Domain, QuerySpec, Result};

/// Rows that a scale is learned from.
const LEARNED_ROWS: u64 = 1 << 16;

/// How the inside of a domain is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleKind {
    Linear,
    Quantile,
}

impl ScaleKind {
    pub fn of(scale: &Scale) -> ScaleKind {
        match scale {
            Scale::Linear { .. } => ScaleKind::Linear,
            Scale::Quantile { .. } => ScaleKind::Quantile,
        }
    }

    /// How a domain that is to be learned is divided.
    pub fn to_learn(domain: &Domain) -> ScaleKind {
        match domain {
            Domain::Quantile => ScaleKind::Quantile,
            Domain::Learned | Domain::Linear(..) => ScaleKind::Linear,
        }
    }

    /// A scale for values like these.
    pub fn learn(self, values: &[f64]) -> Scale {
        match self {
            ScaleKind::Linear => Scale::learn_linear(values.iter().copied()),
            ScaleKind::Quantile => Scale::learn_quantile(values.iter().copied()),
        }
    }
}

/// The values of some columns in the sample, record by record: NaN is what is not a number.
///
/// # Errors
///
/// `Invalid` if there is no such column; `SnapshotExpired`; `Damaged`; `Cancelled`; a storage
/// error.
pub fn sample(snapshot: &Snapshot, columns: Vec<String>, cancel: &Cancel) -> Result<Vec<Vec<f64>>> {
    sample_of(snapshot, columns, LEARNED_ROWS, cancel)
}

/// The same in a sample of this many records.
///
/// # Errors
///
/// As of [`sample`].
pub fn sample_of(snapshot: &Snapshot, columns: Vec<String>, rows: u64, cancel: &Cancel) -> Result<Vec<Vec<f64>>> {
    let mut values = vec![Vec::new(); columns.len()];
    let query = QuerySpec { columns: Some(columns), limit: Some(rows), ..QuerySpec::default() };
    for batch in QueryStream::of(snapshot, &RunOptions::with_cancel(cancel).of(query))? {
        let batch = batch?;
        for (values, array) in values.iter_mut().zip(batch.columns()) {
            values.extend(frame::numbers(array.as_ref()));
        }
    }
    Ok(values)
}
