//! Files that the engine reads itself: Parquet, Arrow, CSV, NPZ.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use kubist::Error;
use kubist_files::{Input, Kind, Limits, Marks, Options, fit};
use pyo3::prelude::*;

use crate::arrow::{Batch, Schema};
use crate::call::PATIENCE;
use crate::error::{exception, invalid};

#[pyclass(frozen, module = "kubist._kubist")]
pub struct File(pub Input);

#[pymethods]
impl File {
    /// `text`: read it as CSV, whatever its name.
    #[new]
    #[pyo3(signature = (path, *, columns, delimiter, names, null, decimal, text, limits))]
    fn new(
        py: Python<'_>,
        path: &str,
        columns: Option<Vec<String>>,
        delimiter: Option<&str>,
        names: Option<Vec<String>>,
        null: Vec<String>,
        decimal: Option<&str>,
        text: bool,
        limits: HashMap<String, u64>,
    ) -> PyResult<File> {
        let delimiter =
            delimiter.map(str::parse).transpose().map_err(|why: String| invalid(py, &format!("delimiter: {why}")))?;
        let decimal =
            decimal.map(str::parse).transpose().map_err(|why: String| invalid(py, &format!("decimal: {why}")))?;
        let marks = Marks { null, decimal: decimal.unwrap_or_default() };
        let options = Options { columns, delimiter, names, marks, text, limits: limits_of(&limits) };
        let input = py.detach(|| Input::inspect(Path::new(path), &options));
        input.map(File).map_err(|error| unread(py, &error))
    }

    /// Left-out columns, with reasons.
    fn left_out(&self) -> Vec<(String, String)> {
        self.0.left_out.clone()
    }

    /// Columns without any value are text.
    fn schema(&self) -> Schema {
        Schema(fit::storable_schema(&self.0))
    }

    /// Returns these columns and types; missing columns are null.
    fn read(&self, py: Python<'_>, wanted: &Schema) -> PyResult<FileRows> {
        let schema = wanted.0.clone();
        fit::check(&self.0, &schema, &[]).map_err(|error| unread(py, &error))?;
        let schema = fit::in_units_of(&self.0, &schema, &[]);
        let batches = self.0.read(schema.fields(), Arc::default());
        let path = self.0.path.clone();
        let rows = Rows { batches, next_row: 1 };
        Ok(FileRows { path, schema, rows: Mutex::new(rows) })
    }
}

/// The keys are the command's options.
fn limits_of(asked: &HashMap<String, u64>) -> Limits {
    let usual = Limits::default();
    let of = |name: &str, usual: u64| asked.get(name).copied().unwrap_or(usual);
    Limits {
        record_bytes: of("max_record", usual.record_bytes),
        columns: usize::try_from(of("max_columns", usual.columns as u64)).unwrap_or(usize::MAX),
        inflation: of("max_inflation", usual.inflation),
        batch_bytes: of("max_batch", usual.batch_bytes),
    }
}

#[pyclass(frozen, module = "kubist._kubist")]
pub struct FileRows {
    path: std::path::PathBuf,
    schema: SchemaRef,
    rows: Mutex<Rows>,
}

struct Rows {
    batches: Receiver<kubist_files::Result<RecordBatch>>,
    next_row: u64,
}

#[pymethods]
impl FileRows {
    /// `None` at the end.
    fn next_batch(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        loop {
            let next = py.detach(|| {
                let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
                let batch = match rows.batches.recv_timeout(PATIENCE) {
                    Err(RecvTimeoutError::Timeout) => return None,
                    Err(RecvTimeoutError::Disconnected) => return Some(Ok(None)),
                    Ok(batch) => batch,
                };
                let first = rows.next_row;
                let fitted = batch.and_then(|batch| fit::fitted(&self.path, &batch, &self.schema, first));
                Some(fitted.map(|batch| {
                    rows.next_row += batch.num_rows() as u64;
                    Some(Batch(batch))
                }))
            });
            py.check_signals()?;
            match next {
                Some(next) => return next.map_err(|error| unread(py, &error)),
                None => continue,
            }
        }
    }
}

#[pyfunction]
pub fn fingerprint(py: Python<'_>, files: Vec<PathBuf>) -> PyResult<String> {
    py.detach(|| kubist_files::fingerprint(&files)).map_err(|error| unread(py, &error))
}

pub fn unread(py: Python<'_>, error: &kubist_files::Error) -> PyErr {
    match error.kind() {
        Kind::System => exception(py, Error::Refused(error.to_string())),
        _ => invalid(py, &error.to_string()),
    }
}
