//! Synchronization of two copies of a table, and partial copies.

use kubist::{Cancel, Query};
use kubist_sync::SyncOptions;
use pyo3::prelude::*;

use crate::call::run_with_progress;
use crate::json::FromJson;

/// `progress(done, total)` in rows. Returns the report as JSON.
#[pyfunction]
#[pyo3(signature = (a, b, *, push, pull, memory, progress))]
pub fn sync(
    py: Python<'_>,
    a: &str,
    b: &str,
    push: bool,
    pull: bool,
    memory: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let cancel = Cancel::default();
    let options = SyncOptions { pull, push, memory_bytes: memory, cancel: cancel.clone() };
    let report = run_with_progress(py, &cancel, progress, |tell| kubist_sync::sync(a, b, &options, tell))?;
    Ok(serde_json::to_string(&report).expect("figures and names are valid JSON"))
}

/// `progress(done, total)` in runs. Returns the report as JSON.
#[pyfunction]
#[pyo3(signature = (source, dest, query, *, progress))]
pub fn clone(
    py: Python<'_>,
    source: &str,
    dest: &str,
    query: FromJson<Query>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let cancel = Cancel::default();
    let report =
        run_with_progress(py, &cancel, progress, |tell| kubist_sync::clone(source, dest, &query.0, &cancel, tell))?;
    Ok(serde_json::to_string(&report).expect("figures and names are valid JSON"))
}

/// Without a query, the copy is only brought up to date.
#[pyfunction]
#[pyo3(signature = (location, query, *, progress))]
pub fn deepen(
    py: Python<'_>,
    location: &str,
    query: Option<FromJson<Query>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let (cancel, query) = (Cancel::default(), query.map(|query| query.0));
    let report =
        run_with_progress(py, &cancel, progress, |tell| kubist_sync::deepen(location, query.as_ref(), &cancel, tell))?;
    Ok(serde_json::to_string(&report).expect("figures and names are valid JSON"))
}
