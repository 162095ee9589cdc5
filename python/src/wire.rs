//! Arrow IPC streams from a Python object that reads bytes, such as an HTTP response.
//!
//! A `Wire` is a `Stream` over a source with two methods: `read1(most)` waits for bytes and returns those
//! available, or none at the end, and `close()` may be called while another thread reads. Exceptions of the
//! source are passed on.
//!
//! The server is untrusted: `kubist-ipc` compares the sizes in messages with the received bytes and with a
//! limit.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use pyo3::prelude::*;

use crate::error::cut_off;
use crate::stream::{BatchSource, Stream};

const PIECE_BYTES: usize = 64 * 1024;
/// Number of bytes per read, which the source allocates.
const MOST_BYTES: usize = 256 * 1024;
/// Limit for one batch, and for all dictionaries of a result.
const BATCH_BYTES: u64 = 1 << 30;

#[pyclass(frozen, extends = Stream, module = "kubist._kubist")]
pub struct Wire(Arc<IpcSource>);

struct IpcSource {
    source: Py<PyAny>,
    shared: SharedReader,
    schema: SchemaRef,
    /// `None` at the end. Locked only without the interpreter lock, because reading acquires that.
    reader: Mutex<Option<kubist_ipc::Stream<SharedReader>>>,
    rows: AtomicU64,
    fraction: f64,
}

/// The bytes after the end of the previous stream.
#[derive(Clone)]
struct SharedReader {
    bytes: Arc<Mutex<BufReader<PythonReader>>>,
    raised: Raised,
}

/// An exception of the source that is still to be raised.
type Raised = Arc<Mutex<Option<PyErr>>>;

struct PythonReader {
    source: Py<PyAny>,
    raised: Raised,
}

/// The state is consistent after every statement, so a poisoned lock is ignored.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Read for PythonReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = Python::try_attach(|py| -> PyResult<usize> {
            let part = self.source.bind(py).call_method1("read1", (into.len().min(MOST_BYTES),))?;
            let part = part.extract::<&[u8]>()?;
            let length = part.len().min(into.len());
            into[..length].copy_from_slice(&part[..length]);
            Ok(length)
        });
        match read {
            Some(Ok(length)) => Ok(length),
            Some(Err(error)) => {
                *lock(&self.raised) = Some(error);
                Err(io::Error::other("the source raised"))
            }
            None => Err(io::Error::other("Python is shutting down")),
        }
    }
}

impl Read for SharedReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        lock(&self.bytes).read(into)
    }
}

impl SharedReader {
    fn is_at_end(&self) -> io::Result<bool> {
        Ok(lock(&self.bytes).fill_buf()?.is_empty())
    }

    /// The exception of the source, otherwise the error of the reader.
    fn failure(&self, py: Python<'_>, error: &dyn std::fmt::Display) -> PyErr {
        let raised = lock(&self.raised).take();
        raised.unwrap_or_else(|| cut_off(py, &error.to_string()))
    }
}

impl Wire {
    fn begin(
        py: Python<'_>,
        source: Py<PyAny>,
        shared: SharedReader,
        fraction: f64,
    ) -> PyResult<PyClassInitializer<Wire>> {
        let reader = py.detach(|| kubist_ipc::Stream::begin(shared.clone(), BATCH_BYTES));
        let reader = reader.map_err(|error| shared.failure(py, &error))?;
        let schema = reader.schema().clone();
        let reader = Mutex::new(Some(reader));
        let ipc = Arc::new(IpcSource { source, shared, schema, reader, rows: AtomicU64::new(0), fraction });
        Ok(PyClassInitializer::from(Stream(ipc.clone())).add_subclass(Wire(ipc)))
    }
}

#[pymethods]
impl Wire {
    #[new]
    fn new(py: Python<'_>, source: Py<PyAny>, fraction: f64) -> PyResult<PyClassInitializer<Wire>> {
        let raised = Raised::default();
        let reader = PythonReader { source: source.clone_ref(py), raised: raised.clone() };
        let bytes = Arc::new(Mutex::new(BufReader::with_capacity(PIECE_BYTES, reader)));
        Wire::begin(py, source, SharedReader { bytes, raised }, fraction)
    }

    /// The next stream, after this one was read to its end; `None` without one.
    fn following(&self, py: Python<'_>) -> PyResult<Option<Py<Wire>>> {
        let shared = self.0.shared.clone();
        let ended = py.detach(|| shared.is_at_end()).map_err(|error| shared.failure(py, &error))?;
        if ended {
            return Ok(None);
        }
        Py::new(py, Wire::begin(py, self.0.source.clone_ref(py), shared, self.0.fraction)?).map(Some)
    }

    /// Values of the complete result, as JSON.
    fn about(&self) -> String {
        self.0.schema.metadata().get("kubist").cloned().unwrap_or_else(|| "{}".into())
    }
}

impl BatchSource for IpcSource {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn next(&self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        let next = py.detach(|| {
            let mut reader = lock(&self.reader);
            let next = reader.as_mut().map_or(Ok(None), |reader| reader.next());
            if !matches!(next, Ok(Some(_))) {
                *reader = None;
            }
            next
        });
        let batch = next.map_err(|error| self.shared.failure(py, &error))?;
        self.rows.fetch_add(batch.as_ref().map_or(0, RecordBatch::num_rows) as u64, Ordering::Relaxed);
        Ok(batch)
    }

    fn rows(&self, _py: Python<'_>) -> PyResult<u64> {
        Ok(self.rows.load(Ordering::Relaxed))
    }

    /// The cost that the source reports.
    fn stats(&self, py: Python<'_>) -> PyResult<String> {
        self.source.bind(py).call_method0("stats")?.extract()
    }

    fn fraction(&self, _py: Python<'_>) -> PyResult<f64> {
        Ok(self.fraction)
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.source.bind(py).call_method0("close")?;
        Ok(())
    }
}
