//! The embedded dictionary (`kubist-kv`) for `kubist.dict`. Keys and values are bytes.

use std::ops::Bound::{Excluded, Included, Unbounded};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kubist::store::disk::{Disk, OsDisk};
use kubist_kv::{Batch, Range, Snapshot, Writer};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::of_dictionary;
use crate::process_bound::ProcessBound;

/// Number of entries that a range reads together.
const AT_ONCE: usize = 1024;

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    // A writer that failed says so itself.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Open for writing, or for reading its state at opening.
#[pyclass(frozen)]
pub struct Dictionary {
    writer: Option<ProcessBound<Mutex<Option<Writer>>>>,
    snapshot: Mutex<Snapshot>,
}

#[pymethods]
impl Dictionary {
    #[new]
    fn new(py: Python<'_>, directory: PathBuf, name: String, writable: bool) -> PyResult<Dictionary> {
        let opened = py.detach(|| {
            let disk: Arc<dyn Disk> = Arc::new(OsDisk::beneath(&directory));
            if !writable {
                return Ok((None, Snapshot::open(&disk, &directory, &name)?));
            }
            let writer = Writer::open(&disk, &directory, &name)?;
            let snapshot = writer.snapshot();
            Ok((Some(writer), snapshot))
        });
        let (writer, snapshot) = opened.map_err(|error| of_dictionary(py, &error))?;
        let place = directory.join(&name).display().to_string();
        let writer = writer.map(|writer| ProcessBound::new(&place, Mutex::new(Some(writer))));
        Ok(Dictionary { writer, snapshot: Mutex::new(snapshot) })
    }

    fn get<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Bytes<'py>>> {
        let snapshot = lock(&self.snapshot).clone();
        let found = py.detach(|| snapshot.get(key)).map_err(|error| of_dictionary(py, &error))?;
        Ok(found.map(|value| PyBytes::new(py, &value)))
    }

    /// Puts and deletes keys in one durable batch; None deletes.
    fn commit(&self, py: Python<'_>, changes: Vec<(Vec<u8>, Option<Vec<u8>>)>) -> PyResult<()> {
        self.write(py, |writer| {
            let mut batch = Batch::new();
            for (key, value) in &changes {
                match value {
                    Some(value) => batch.put(key, value)?,
                    None => batch.delete(key)?,
                }
            }
            writer.commit(&batch)
        })
    }

    fn compact(&self, py: Python<'_>) -> PyResult<()> {
        self.write(py, Writer::compact)
    }

    /// Entries in [low, high), in ascending order.
    fn range(&self, py: Python<'_>, low: Option<Vec<u8>>, high: Option<Vec<u8>>) -> PyResult<DictionaryRange> {
        let snapshot = lock(&self.snapshot).clone();
        let low = low.as_deref().map_or(Unbounded, Included);
        let high = high.as_deref().map_or(Unbounded, Excluded);
        let range = snapshot.range((low, high)).map_err(|error| of_dictionary(py, &error))?;
        Ok(DictionaryRange { range: Mutex::new(range) })
    }

    /// The same content, unchanged by later commits.
    fn pinned(&self) -> Dictionary {
        Dictionary { writer: None, snapshot: Mutex::new(lock(&self.snapshot).clone()) }
    }

    fn keys(&self) -> u64 {
        lock(&self.snapshot).keys()
    }

    fn close(&self) {
        if let Some(Ok(writer)) = self.writer.as_ref().map(ProcessBound::get) {
            *lock(writer) = None;
        }
    }
}

impl Dictionary {
    fn write(&self, py: Python<'_>, act: impl FnOnce(&mut Writer) -> kubist_kv::Result<()> + Send) -> PyResult<()> {
        let Some(bound) = &self.writer else {
            return Err(crate::error::invalid(py, "this dictionary was opened for reading"));
        };
        let shared = bound.get().map_err(|error| crate::error::exception(py, error))?;
        let done = py.detach(|| {
            let mut open = lock(shared);
            let Some(writer) = open.as_mut() else {
                return Err(kubist_kv::Error::Invalid("the dictionary is closed".into()));
            };
            act(writer)?;
            *lock(&self.snapshot) = writer.snapshot();
            Ok(())
        });
        done.map_err(|error| of_dictionary(py, &error))
    }
}

#[pyclass(frozen)]
pub struct DictionaryRange {
    range: Mutex<Range>,
}

#[pymethods]
impl DictionaryRange {
    /// Empty at the end.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Vec<(Bytes<'py>, Bytes<'py>)>> {
        let read = py.detach(|| lock(&self.range).by_ref().take(AT_ONCE).collect::<kubist_kv::Result<Vec<_>>>());
        let read = read.map_err(|error| of_dictionary(py, &error))?;
        Ok(read.iter().map(|(key, value)| (PyBytes::new(py, key), PyBytes::new(py, value))).collect())
    }
}

type Bytes<'py> = pyo3::Bound<'py, PyBytes>;
