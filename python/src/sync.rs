//! Synchronization of two copies of a table.

use kubist::Cancel;
use kubist_sync::SyncOptions;
use pyo3::prelude::*;

use crate::call::run_with_progress;

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
