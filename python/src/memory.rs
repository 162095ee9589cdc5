//! A result in memory, which can be read repeatedly.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use pyo3::prelude::*;

use crate::arrow::Batches;
use crate::stream::{BatchSource, Stream};

struct InMemory {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    /// Index of the next batch; beyond the end after `close`.
    next: AtomicUsize,
    stats: String,
    fraction: f64,
}

/// Streams the batches with the original cost (JSON) and fraction.
#[pyfunction]
pub fn replay(batches: &Batches, stats: String, fraction: f64) -> Stream {
    let Batches { schema, batches } = batches;
    let (schema, batches) = (schema.clone(), batches.clone());
    Stream(Arc::new(InMemory { schema, batches, next: AtomicUsize::new(0), stats, fraction }))
}

impl BatchSource for InMemory {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn next(&self, _py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        let place = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| next.checked_add(1));
        Ok(place.ok().and_then(|place| self.batches.get(place).cloned()))
    }

    fn rows(&self, _py: Python<'_>) -> PyResult<u64> {
        let come = self.batches.iter().take(self.next.load(Ordering::Relaxed));
        Ok(come.map(|batch| batch.num_rows() as u64).sum())
    }

    fn stats(&self, _py: Python<'_>) -> PyResult<String> {
        Ok(self.stats.clone())
    }

    fn fraction(&self, _py: Python<'_>) -> PyResult<f64> {
        Ok(self.fraction)
    }

    fn close(&self, _py: Python<'_>) -> PyResult<()> {
        self.next.store(usize::MAX, Ordering::Relaxed);
        Ok(())
    }
}
