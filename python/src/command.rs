//! The command `kubist` in the module's library, so that a wheel contains the engine once.

use std::ffi::OsString;
use std::path::PathBuf;

use kubist::Query;
use pyo3::prelude::*;

use crate::arrow::Schema;
use crate::error::invalid;

/// Returns the exit code. `interpreter` is the running Python.
#[pyfunction]
pub fn command(py: Python<'_>, interpreter: PathBuf, arguments: Vec<OsString>) -> u8 {
    py.detach(|| kubist_cli::main(arguments, Some(interpreter)))
}

/// A query in JSON with the ranges of `--box` options as its box, with bounds in the types of their columns.
#[pyfunction]
pub fn box_ranges(py: Python<'_>, options: Vec<String>, schema: &Schema) -> PyResult<String> {
    let bounds =
        kubist_cli::box_bounds(&options, &schema.0).map_err(|error| invalid(py, &format!("--box: {error}")))?;
    let query = Query { bounds, ..Query::default() };
    Ok(serde_json::to_string(&query).expect("numbers and texts are valid JSON"))
}
