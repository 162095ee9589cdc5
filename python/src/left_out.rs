//! Errors for parts that a partial build (`make demo`) omits.

use pyo3::exceptions::{PyAttributeError, PyImportError};
use pyo3::prelude::*;

const PARTS: [(&[&str], &str); 3] = [
    (&["File", "FileRows", "fingerprint", "Files", "expanded", "ingest"], "readers and indexes of files"),
    (&["Picture", "Scene"], "plots"),
    (&["box_ranges", "command"], "the command"),
];

/// Called by Python for a missing name of the module.
///
/// # Errors
///
/// Always: `ImportError` with the way to get the part, `AttributeError` for other names.
#[pyfunction]
#[pyo3(name = "__getattr__")]
pub fn absent(name: &str) -> PyResult<()> {
    Err(match PARTS.iter().find(|(names, _)| names.contains(&name)) {
        Some((_, what)) => {
            PyImportError::new_err(format!("this build for the demo lacks {what}: run make build for a complete one"))
        }
        None => PyAttributeError::new_err(format!("module 'kubist._kubist' has no attribute '{name}'")),
    })
}
