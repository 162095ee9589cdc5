//! Estimates with intervals, single or progressive.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kubist::{EstimateOptions, Query, Stats, Stop};
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;

use crate::arrow::Batch;
use crate::call::{run, run_to_end};
use crate::error::{exception, invalid};
use crate::process_bound::ProcessBound;

pub struct EstimateRequest {
    spec: Query,
    goal: Goal,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Goal {
    aggregates: Vec<String>,
    #[serde(default)]
    group_by: Vec<String>,
    error: Option<f64>,
    absolute: Option<kubist::Absolute>,
    /// Time limit in seconds.
    within: Option<f64>,
    max_rows: Option<u64>,
    max_bytes: Option<u64>,
    confidence: f64,
    tails: Option<f64>,
}

/// One JSON object has both, as over HTTP.
impl<'de> serde::Deserialize<'de> for EstimateRequest {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<EstimateRequest, D::Error> {
        let all = serde_json::Map::deserialize(from)?;
        let is_of_records = |name: &String| Query::NAMES.contains(&name.as_str());
        let (spec, goal): (serde_json::Map<_, _>, _) = all.into_iter().partition(|(name, _)| is_of_records(name));
        Ok(EstimateRequest {
            spec: serde_json::from_value(spec.into()).map_err(serde::de::Error::custom)?,
            goal: serde_json::from_value(serde_json::Value::Object(goal)).map_err(serde::de::Error::custom)?,
        })
    }
}

impl EstimateRequest {
    pub fn options(self, py: Python<'_>) -> PyResult<EstimateOptions> {
        let EstimateRequest { spec, goal } = self;
        let seconds = |seconds: f64| {
            Duration::try_from_secs_f64(seconds).map_err(|error| invalid(py, &format!("within: {error}")))
        };
        Ok(EstimateOptions {
            within: goal.within.map(seconds).transpose()?,
            aggregates: goal.aggregates,
            group_by: goal.group_by,
            query: spec,
            run: kubist::RunOptions::default(),
            error: goal.error,
            absolute: goal.absolute,
            max_rows: goal.max_rows,
            max_bytes: goal.max_bytes,
            confidence: goal.confidence,
            tails: goal.tails,
        })
    }
}

#[pyclass(frozen, module = "kubist._kubist")]
pub struct Figures(pub kubist::Estimate);

/// Values that all aggregates share.
#[derive(serde::Serialize)]
struct About<'a> {
    fraction: f64,
    confidence: f64,
    units: &'a BTreeMap<String, String>,
    bin_units: &'a BTreeMap<String, Vec<Option<String>>>,
    stats: Stats,
    stopped: Stop,
    missed_group: Option<u64>,
    warnings: &'a [String],
    outlook: Option<String>,
    /// For each aggregate with a type other than float: its type, and value, low and high as text with all
    /// digits.
    own: Vec<Option<(&'static str, [Option<String>; 3])>>,
}

#[pymethods]
impl Figures {
    fn batch(&self, py: Python<'_>) -> PyResult<Batch> {
        self.0.to_batch().map(Batch).map_err(|error| exception(py, error))
    }

    /// Fraction, cost, reason to stop and warnings, as JSON.
    fn about(&self) -> String {
        let kubist::Estimate {
            fraction,
            confidence,
            units,
            bin_units,
            stats,
            stopped,
            missed_group,
            warnings,
            outlook,
            ..
        } = &self.0;
        let about = About {
            fraction: *fraction,
            confidence: *confidence,
            units,
            bin_units,
            stats: *stats,
            stopped: *stopped,
            missed_group: *missed_group,
            warnings,
            outlook: outlook.as_ref().map(|outlook| outlook.to_string()),
            own: self.0.figures.iter().map(|figure| figure.own.as_ref().map(|own| (own.kind(), own.texts()))).collect(),
        };
        serde_json::to_string(&about).expect("figures and words are valid JSON")
    }
}

/// The warning refers to the caller of the package.
fn warn(py: Python<'_>, what: &str) -> PyResult<()> {
    let what = CString::new(what).unwrap_or_default();
    PyErr::warn(py, &py.get_type::<PyUserWarning>(), &what, 2)
}

/// Runs an estimate. The pilot's prediction becomes a warning while it runs.
pub fn figures(
    py: Python<'_>,
    cancel: &kubist::Cancel,
    ask: impl FnOnce(&mut dyn FnMut(&kubist::Estimate)) -> kubist::Result<kubist::Estimate> + Send,
) -> PyResult<Figures> {
    let (outlook, mut refused) = (Mutex::new(None), None);
    let mut tell = |estimate: &kubist::Estimate| {
        if let Some(said) = &estimate.outlook {
            *outlook.lock().unwrap_or_else(PoisonError::into_inner) = Some(said.to_string());
        }
    };
    let ended = run_to_end(
        py,
        cancel,
        || ask(&mut tell),
        // Stops if the user's filters turn the warning into an exception.
        || {
            let said = outlook.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(Err(error)) = said.map(|said| Python::attach(|py| warn(py, &said))) {
                cancel.set();
                refused = Some(error);
            }
        },
    );
    match ended.interrupt.or(refused) {
        Some(error) => Err(error),
        None => ended.result.map(Figures),
    }
}

type Steps = Box<dyn Iterator<Item = kubist::Result<kubist::Estimate>> + Send>;

#[pyclass(frozen, module = "kubist._kubist")]
pub struct Estimates {
    steps: ProcessBound<Mutex<Steps>>,
    cancel: kubist::Cancel,
}

impl Estimates {
    pub fn new(
        location: &str,
        steps: impl Iterator<Item = kubist::Result<kubist::Estimate>> + Send + 'static,
        cancel: kubist::Cancel,
    ) -> Estimates {
        Estimates { steps: ProcessBound::new(location, Mutex::new(Box::new(steps))), cancel }
    }
}

#[pymethods]
impl Estimates {
    /// `None` after the last.
    fn next_step(&self, py: Python<'_>) -> PyResult<Option<Figures>> {
        let step = run(py, &self.cancel, || {
            let steps = self.steps.get()?;
            steps.lock().unwrap_or_else(PoisonError::into_inner).next().transpose()
        })?;
        Ok(step.map(Figures))
    }
}
