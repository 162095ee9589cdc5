//! What a build without all of its parts leaves out, as the one that `make demo` makes.

use pyo3::exceptions::{PyAttributeError, PyImportError};
use pyo3::prelude::*;

/// Names of the module, and what they are for.
const PARTS: [(&[&str], &str); 3] = [
    (&["File", "FileRows", "common", "fingerprint", "Files"], "readers and indices of files"),
    (&["Picture", "Scene"], "pictures"),
    (&["command"], "command"),
];

/// Python asks this for a name that the module has not.
///
/// # Errors
///
/// Always: `ImportError` that says how to get the part, `AttributeError` for any other name.
#[pyfunction]
#[pyo3(name = "__getattr__")]
pub fn absent(name: &str) -> PyResult<()> {
    Err(match PARTS.iter().find(|(names, _)| names.contains(&name)) {
        Some((_, what)) => PyImportError::new_err(format!(
            "this build of Kubist was made for the demo and has no {what}: make build makes a whole one"
        )),
        None => PyAttributeError::new_err(format!("module 'kubist._kubist' has no attribute '{name}'")),
    })
}
