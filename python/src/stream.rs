//! Results that are read batch by batch, from the engine or another source.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arrow::{Batch, Batches, Schema, names, stream_capsule};
use crate::error::invalid;
use crate::whole::Whole;

/// A source that any thread can read.
pub trait BatchSource: Send + Sync + 'static {
    fn schema(&self) -> SchemaRef;

    /// `None` at the end.
    fn next(&self, py: Python<'_>) -> PyResult<Option<RecordBatch>>;

    /// Number of rows so far.
    fn rows(&self, py: Python<'_>) -> PyResult<u64>;

    /// Cost so far, as JSON.
    fn stats(&self, py: Python<'_>) -> PyResult<String>;

    /// The fraction of the matching rows that the result has.
    fn fraction(&self, py: Python<'_>) -> PyResult<f64>;

    /// Stops the query and frees its resources.
    fn close(&self, py: Python<'_>) -> PyResult<()>;
}

#[pyclass(frozen, subclass, module = "kubist._kubist")]
pub struct Stream(pub Arc<dyn BatchSource>);

#[pymethods]
impl Stream {
    fn schema(&self) -> Schema {
        Schema(self.0.schema())
    }

    fn names(&self) -> Vec<String> {
        names(&self.0.schema())
    }

    fn units(&self) -> Vec<Option<String>> {
        self.0.schema().fields().iter().map(|field| field.metadata().get("unit").cloned()).collect()
    }

    fn empty_batch(&self) -> Batch {
        Batch(RecordBatch::new_empty(self.0.schema()))
    }

    /// `None` at the end.
    fn next_batch(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        Ok(self.0.next(py)?.map(Batch))
    }

    /// All remaining rows, in batches.
    fn collect(&self, py: Python<'_>) -> PyResult<Batches> {
        Ok(Batches { schema: self.0.schema(), batches: self.rest(py)? })
    }

    /// All remaining rows, by column.
    fn whole(&self, py: Python<'_>) -> PyResult<Whole> {
        let (schema, batches) = (self.0.schema(), self.rest(py)?);
        py.detach(|| Whole::of(schema, batches)).map_err(|error| invalid(py, &error.to_string()))
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        stream_capsule(py, CStream(self.0.clone()))
    }

    fn rows(&self, py: Python<'_>) -> PyResult<u64> {
        self.0.rows(py)
    }

    fn stats(&self, py: Python<'_>) -> PyResult<String> {
        self.0.stats(py)
    }

    /// Under a limit this waits for the first batch, which is kept.
    fn fraction(&self, py: Python<'_>) -> PyResult<f64> {
        self.0.fraction(py)
    }

    /// Stops the query, also while another thread reads.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.0.close(py)
    }
}

impl Stream {
    fn rest(&self, py: Python<'_>) -> PyResult<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        while let Some(batch) = self.0.next(py)? {
            batches.push(batch);
        }
        Ok(batches)
    }
}

/// Another library reads this through the C stream interface, on any thread, with or without the
/// interpreter lock.
struct CStream(Arc<dyn BatchSource>);

impl Iterator for CStream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = Python::try_attach(|py| {
            self.0.next(py).map_err(|error| {
                let message = error.value(py).to_string();
                // Exceptions cannot pass through C. An interrupt is set again, so that Python raises it
                // when the library returns.
                if error.is_instance_of::<pyo3::exceptions::PyKeyboardInterrupt>(py) {
                    // SAFETY: this thread is attached to the interpreter.
                    unsafe { pyo3::ffi::PyErr_SetInterrupt() };
                }
                // A C string ends at the first NUL.
                ArrowError::ExternalError(message.replace('\0', " ").into())
            })
        });
        match next {
            Some(next) => next.transpose(),
            None => Some(Err(ArrowError::ExternalError("Python is shutting down".into()))),
        }
    }
}

impl RecordBatchReader for CStream {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }
}
