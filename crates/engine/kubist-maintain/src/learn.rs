//! Derives the scales of a grid from the rows of lowest priority, which are a uniform sample.

use kubist_catalog::frame;
use kubist_catalog::snapshot::Snapshot;
use kubist_index::grid::Scale;
use kubist_read::request::RunOptions;
use kubist_read::stream::QueryStream;
use kubist_types::{Cancel, Domain, QuerySpec, Result};

const LEARNED_ROWS: u64 = 1 << 16;

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

    pub fn to_learn(domain: &Domain) -> ScaleKind {
        match domain {
            Domain::Quantile => ScaleKind::Quantile,
            Domain::Learned | Domain::Linear(..) => ScaleKind::Linear,
        }
    }

    pub fn learn(self, values: &[f64]) -> Scale {
        match self {
            ScaleKind::Linear => Scale::learn_linear(values.iter().copied()),
            ScaleKind::Quantile => Scale::learn_quantile(values.iter().copied()),
        }
    }
}

/// Values of columns in a sample of 65,536 rows, in row order; NaN if no number.
///
/// # Errors
///
/// `Invalid` if there is no such column; `SnapshotExpired`; `Damaged`; `Cancelled`; a storage error.
pub fn sample(snapshot: &Snapshot, columns: Vec<String>, cancel: &Cancel) -> Result<Vec<Vec<f64>>> {
    sample_of(snapshot, columns, LEARNED_ROWS, cancel)
}

/// [`sample`] with another number of rows.
///
/// # Errors
///
/// The same as [`sample`].
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
