//! The command `kubist`, in the same library: a wheel has the engine once.

use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::prelude::*;

/// Runs the command with these arguments, and returns its exit code. `interpreter` is the running Python.
#[pyfunction]
pub fn command(py: Python<'_>, interpreter: PathBuf, arguments: Vec<OsString>) -> u8 {
    py.detach(|| kubist_cli::main(arguments, Some(interpreter)))
}
