//! The command `kubist` in the module's library, so that a wheel contains the engine once.

use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::prelude::*;

/// Returns the exit code. `interpreter` is the running Python.
#[pyfunction]
pub fn command(py: Python<'_>, interpreter: PathBuf, arguments: Vec<OsString>) -> u8 {
    py.detach(|| kubist_cli::main(arguments, Some(interpreter)))
}
