//! Files of other programs with a value index. Queries, requests and results are JSON.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use kubist::Cancel;
use kubist_blocks::{Block, BuildOptions, Device, FileQuery, Library, Positions, Report, RunOptions};
use pyo3::prelude::*;
use serde::Deserialize;

use crate::arrow::{Batches, Schema};
use crate::call::{run, run_to_end};
use crate::error::{exception, invalid};
use crate::estimate::{EstimateRequest, Estimates, Figures, figures};

#[pyclass(frozen, module = "kubist._kubist")]
pub struct Files(Arc<kubist_blocks::Files>);

/// One process with the formats' libraries for all files.
fn library(python: &Path) -> Arc<Library> {
    static LIBRARY: OnceLock<Arc<Library>> = OnceLock::new();
    LIBRARY.get_or_init(|| Arc::new(Library::new(python))).clone()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Run {
    workers: usize,
    gap: Option<u64>,
    sorted: bool,
}

impl Default for Run {
    fn default() -> Run {
        Run { workers: kubist_blocks::workers(), gap: None, sorted: true }
    }
}

impl Run {
    fn options(self) -> RunOptions {
        RunOptions { workers: self.workers.max(1), gap: self.gap, use_sorted: self.sorted, ..RunOptions::default() }
    }
}

#[pymethods]
impl Files {
    /// Indexes a file and returns the report as JSON. Calls `progress(done, total)` with bytes.
    #[staticmethod]
    #[pyo3(signature = (path, *, into, variables, block, sorted, refresh, python, progress))]
    #[expect(clippy::too_many_arguments, reason = "keywords, all of them, in Python")]
    fn index(
        py: Python<'_>,
        path: PathBuf,
        into: Option<PathBuf>,
        variables: Option<Vec<String>>,
        block: Option<&str>,
        sorted: Option<f64>,
        refresh: bool,
        python: PathBuf,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let block = block.map(str::parse::<Block>).transpose().map_err(|why| invalid(py, &why))?;
        let options = BuildOptions { variables, block, sorted, ..BuildOptions::default() };
        let library = library(&python);
        let (done, all) = (AtomicU64::new(0), AtomicU64::new(0));
        let tell = |now: u64, total: u64| {
            done.fetch_max(now, Ordering::Relaxed);
            all.store(total, Ordering::Relaxed);
        };
        let cancel = Cancel::default();
        let call = || kubist_blocks::index(&path, into.as_deref(), &options, refresh, Some(&library), &tell, &cancel);
        let meanwhile = || {
            if let Some(progress) = &progress {
                let now = (done.load(Ordering::Relaxed), all.load(Ordering::Relaxed));
                // An error of the progress function does not stop the call.
                let _ = Python::attach(|py| progress.call1(py, now));
            }
        };
        let ended = run_to_end(py, &cancel, call, meanwhile);
        let built = match ended.interrupt {
            Some(interrupt) => return Err(interrupt),
            None => ended.result?,
        };
        as_json(py, &built)
    }

    /// With `any`, also opens files without an index.
    #[staticmethod]
    #[pyo3(signature = (paths, *, into, any, python))]
    fn open(py: Python<'_>, paths: Vec<PathBuf>, into: Option<PathBuf>, any: bool, python: PathBuf) -> PyResult<Files> {
        let library = library(&python);
        let cancel = Cancel::default();
        let open = if any { kubist_blocks::Files::open_any } else { kubist_blocks::Files::open };
        run(py, &cancel, || open(&paths, into.as_deref(), Some(&library), &cancel)).map(|files| Files(Arc::new(files)))
    }

    fn schema(&self) -> Schema {
        Schema(self.0.names())
    }

    fn columns(&self) -> Vec<String> {
        self.0.names().fields().iter().map(|field| field.name().clone()).collect()
    }

    fn described(&self, py: Python<'_>, query: &str) -> PyResult<String> {
        let query: FileQuery = from_json(py, query)?;
        let schema = self.0.schema(&query).map_err(|error| exception(py, error))?;
        let described = |field: &arrow_schema::FieldRef| serde_json::json!({ "name": field.name(), "data_type": field.data_type().to_string() });
        as_json(py, &schema.fields().iter().map(described).collect::<Vec<_>>())
    }

    fn query(&self, py: Python<'_>, query: &str, options: &str) -> PyResult<(Batches, String)> {
        let query: FileQuery = from_json(py, query)?;
        let options = from_json::<Run>(py, options)?.options();
        let cancel = Cancel::default();
        let (schema, batches, report) = run(py, &cancel, || {
            let mut batches = Vec::new();
            let schema = self.0.schema(&query)?;
            let report = self.0.query(&query, &options, &cancel, &mut |batch| {
                batches.push(batch);
                Ok(())
            })?;
            Ok((schema, batches, report))
        })?;
        Ok((Batches { schema, batches }, as_json(py, &report)?))
    }

    fn count(&self, py: Python<'_>, query: &str, options: &str) -> PyResult<String> {
        let query: FileQuery = from_json(py, query)?;
        let options = from_json::<Run>(py, options)?.options();
        let cancel = Cancel::default();
        let report: Report = run(py, &cancel, || self.0.count(&query, &options, &cancel))?;
        as_json(py, &report)
    }

    /// The blocks that a query reads, as JSON, to simulate a device.
    fn hits(&self, py: Python<'_>, query: &str, options: &str) -> PyResult<String> {
        let query: FileQuery = from_json(py, query)?;
        let options = from_json::<Run>(py, options)?.options();
        let cancel = Cancel::default();
        let hits = run(py, &cancel, || self.0.hits(&query, &options, &cancel))?;
        as_json(py, &hits)
    }

    fn estimate(&self, py: Python<'_>, query: &str, request: &str) -> PyResult<Figures> {
        let query: FileQuery = from_json(py, query)?;
        let options = from_json::<EstimateRequest>(py, request)?.options(py)?;
        let cancel = options.run.cancel.clone();
        let positions = Positions::new(&self.0, &query, &cancel);
        figures(py, &cancel, |tell| kubist_estimate::estimate_of(positions, &options, tell))
    }

    fn estimates(&self, py: Python<'_>, query: &str, request: &str) -> PyResult<Estimates> {
        let query: FileQuery = from_json(py, query)?;
        let options = from_json::<EstimateRequest>(py, request)?.options(py)?;
        let cancel = options.run.cancel.clone();
        let positions = Positions::new(&self.0, &query, &cancel);
        let steps = run(py, &cancel, || kubist_estimate::estimates_of(positions, &options))?;
        let location = self.0.members[0].path.display().to_string();
        Ok(Estimates::new(&location, steps, cancel))
    }

    fn about(&self, py: Python<'_>) -> PyResult<String> {
        as_json(py, &self.0.about())
    }

    /// Block sizes for a selectivity, the fastest first, as JSON. `device` is JSON in the form of `about`.
    #[staticmethod]
    fn advise(py: Python<'_>, elements: u64, width: u64, selectivity: f64, device: &str) -> PyResult<String> {
        let device: Device = from_json(py, device)?;
        as_json(py, &kubist_blocks::advise(elements, width.max(1), selectivity, &device))
    }
}

fn from_json<T: for<'a> Deserialize<'a>>(py: Python<'_>, text: &str) -> PyResult<T> {
    serde_json::from_str(text).map_err(|error| invalid(py, &error.to_string()))
}

fn as_json(py: Python<'_>, value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| exception(py, kubist::Error::internal(error)))
}
