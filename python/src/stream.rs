//! An answer as it comes, from the engine or from elsewhere: `Stream`.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arrow::{Batch, Batches, Schema, names, stream_capsule};

/// Batches that come one by one, on whatever thread asks for them, and what is known of them.
pub trait Answer: Send + Sync + 'static {
    fn schema(&self) -> SchemaRef;

    /// The next batch, or `None` at the end.
    fn next(&self, py: Python<'_>) -> PyResult<Option<RecordBatch>>;

    /// How many rows have come.
    fn rows(&self, py: Python<'_>) -> PyResult<u64>;

    /// What it cost so far, as JSON.
    fn stats(&self, py: Python<'_>) -> PyResult<String>;

    /// The share of the matching records that the answer holds.
    fn fraction(&self, py: Python<'_>) -> PyResult<f64>;

    /// Stops the work and lets go of everything held.
    fn close(&self, py: Python<'_>) -> PyResult<()>;
}

/// An answer as it comes.
#[pyclass(frozen, subclass, module = "kubist._kubist")]
pub struct Stream(pub Arc<dyn Answer>);

#[pymethods]
impl Stream {
    fn schema(&self) -> Schema {
        Schema(self.0.schema())
    }

    /// The names of the columns.
    fn names(&self) -> Vec<String> {
        names(&self.0.schema())
    }

    /// The units of the columns, in their order.
    fn units(&self) -> Vec<Option<String>> {
        self.0.schema().fields().iter().map(|field| field.metadata().get("unit").cloned()).collect()
    }

    /// The columns without rows.
    fn empty_batch(&self) -> Batch {
        Batch(RecordBatch::new_empty(self.0.schema()))
    }

    /// The next batch, or `None` at the end.
    fn next_batch(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        Ok(self.0.next(py)?.map(Batch))
    }

    /// All that is left, in memory.
    fn collect(&self, py: Python<'_>) -> PyResult<Batches> {
        let mut batches = Vec::new();
        while let Some(batch) = self.0.next(py)? {
            batches.push(batch);
        }
        Ok(Batches { schema: self.0.schema(), batches })
    }

    /// Hands what is left to another library, which pulls at its own pace.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        stream_capsule(py, Outgoing(self.0.clone()))
    }

    /// How many have come.
    fn rows(&self, py: Python<'_>) -> PyResult<u64> {
        self.0.rows(py)
    }

    /// The figures so far, as JSON.
    fn stats(&self, py: Python<'_>) -> PyResult<String> {
        self.0.stats(py)
    }

    /// Under a limit the fraction is known only with the first batch, which is then
    /// fetched and kept.
    fn fraction(&self, py: Python<'_>) -> PyResult<f64> {
        self.0.fraction(py)
    }

    /// Stops the work and lets go of everything held, also while another thread reads.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.0.close(py)
    }
}

/// An answer as another library reads it through the C stream interface: on
/// any thread, with or without the interpreter lock.
struct Outgoing(Arc<dyn Answer>);

impl Iterator for Outgoing {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = Python::try_attach(|py| {
            self.0.next(py).map_err(|error| {
                let message = error.value(py).to_string();
                // The exception cannot pass through C. An interrupt is put back,
                // so that Python raises it as soon as the library returns.
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

impl RecordBatchReader for Outgoing {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }
}
