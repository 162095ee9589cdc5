//! CSV in the form of `kubist query`.

use arrow_csv::WriterBuilder;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrow::Batch;
use crate::error::invalid;

/// The rows of a batch, after a line of column names if `header` is true.
#[pyfunction]
pub fn csv<'py>(py: Python<'py>, batch: &Batch, header: bool) -> PyResult<Bound<'py, PyBytes>> {
    let text = py.detach(|| {
        let mut writer = WriterBuilder::new().with_header(header).build(Vec::new());
        writer.write(&batch.0).map(|()| writer.into_inner())
    });
    Ok(PyBytes::new(py, &text.map_err(|error| invalid(py, &format!("CSV: {error}")))?))
}
