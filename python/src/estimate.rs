//! Estimates: figures with intervals, once or as they narrow.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kubist::{EstimateOptions, Estimation, Stats, Stop};
use pyo3::prelude::*;

use crate::arrow::Batch;
use crate::call::run;
use crate::error::{exception, invalid};
use crate::process_bound::ProcessBound;
use crate::query::Query;

/// What is estimated and how well; the question says of which records.
#[pyclass(frozen, module = "kubist._kubist")]
pub struct EstimateSpec(EstimateOptions);

#[pymethods]
impl EstimateSpec {
    #[new]
    #[pyo3(signature = (query, aggregates, *, group_by, error, absolute, within, rows, bytes, confidence, tails))]
    #[expect(clippy::too_many_arguments, reason = "keywords, all of them, in Python")]
    fn new(
        py: Python<'_>,
        query: &Query,
        aggregates: Vec<String>,
        group_by: Vec<String>,
        error: Option<f64>,
        absolute: Option<f64>,
        within: Option<f64>,
        rows: Option<u64>,
        bytes: Option<u64>,
        confidence: f64,
        tails: Option<f64>,
    ) -> PyResult<EstimateSpec> {
        let seconds = |seconds: f64| {
            Duration::try_from_secs_f64(seconds).map_err(|error| invalid(py, &format!("within: {error}")))
        };
        let within = within.map(seconds).transpose()?;
        Ok(EstimateSpec(EstimateOptions {
            aggregates,
            group_by,
            query: query.spec().clone(),
            run: kubist::RunOptions::default(),
            error,
            absolute,
            within,
            rows,
            bytes,
            confidence,
            tails,
        }))
    }
}

impl EstimateSpec {
    /// With a stop switch of its own, so that it can be asked again.
    pub fn fresh(&self) -> EstimateOptions {
        EstimateOptions { run: kubist::RunOptions::default(), ..self.0.clone() }
    }
}

/// Figures as of one precision.
#[pyclass(frozen, module = "kubist._kubist")]
pub struct Figures(pub kubist::Estimate);

/// What goes with figures.
#[derive(serde::Serialize)]
struct About<'a> {
    precision: f64,
    confidence: f64,
    stats: Stats,
    stopped: Stop,
    missed_group: Option<u64>,
    warnings: &'a [String],
}

#[pymethods]
impl Figures {
    /// A row an aggregate and group.
    fn batch(&self, py: Python<'_>) -> PyResult<Batch> {
        self.0.to_batch().map(Batch).map_err(|error| exception(py, error))
    }

    /// Precision, cost, why it stopped, warnings: as JSON.
    fn about(&self) -> String {
        let kubist::Estimate { precision, confidence, stats, stopped, missed_group, warnings, .. } = &self.0;
        let about = About {
            precision: *precision,
            confidence: *confidence,
            stats: *stats,
            stopped: *stopped,
            missed_group: *missed_group,
            warnings,
        };
        serde_json::to_string(&about).expect("figures and words are valid JSON")
    }
}

/// Estimates of growing precision.
#[pyclass(frozen, module = "kubist._kubist")]
pub struct Estimates {
    steps: ProcessBound<Mutex<Estimation>>,
    cancel: kubist::Cancel,
}

impl Estimates {
    pub fn new(location: &str, steps: Estimation, cancel: kubist::Cancel) -> Estimates {
        Estimates { steps: ProcessBound::new(location, Mutex::new(steps)), cancel }
    }
}

#[pymethods]
impl Estimates {
    /// The next estimate, or `None` after the last.
    fn next_step(&self, py: Python<'_>) -> PyResult<Option<Figures>> {
        let step = run(py, &self.cancel, || {
            let steps = self.steps.get()?;
            steps.lock().unwrap_or_else(PoisonError::into_inner).next().transpose()
        })?;
        Ok(step.map(Figures))
    }
}
