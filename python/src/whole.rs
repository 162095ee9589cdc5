//! A complete result with one array per column, for NumPy and pandas.
//!
//! Several threads join columns of fixed width, without the interpreter lock, into memory of the engine's
//! allocator, which later results reuse. Nothing else refers to this memory, so NumPy may write to it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, make_array, new_empty_array};
use arrow_data::transform::MutableArrayData;
use arrow_schema::{ArrowError, DataType, SchemaRef};
use pyo3::prelude::*;

use crate::arrow::{Batches, Schema, names};
use crate::column::{Column, NumpyValues, has_numpy_type, to_numpy};
use crate::error::invalid;

/// For fewer bytes, starting threads takes longer than the copies.
const SMALL: usize = 1 << 20;

#[pyclass(frozen, module = "kubist._kubist")]
pub struct Whole {
    schema: SchemaRef,
    /// By column; a single array if the width is fixed.
    columns: Vec<Vec<ArrayRef>>,
    /// Number of rows of each batch.
    lengths: Vec<usize>,
}

impl Whole {
    /// Joins the batches.
    ///
    /// # Errors
    ///
    /// A column does not fit in an array.
    pub fn of(schema: SchemaRef, batches: Vec<RecordBatch>) -> Result<Whole, ArrowError> {
        let lengths = batches.iter().map(RecordBatch::num_rows).collect();
        let bytes: usize = batches.iter().map(RecordBatch::get_array_memory_size).sum();
        let parts = |index: usize| Ok(batches.iter().map(|batch| batch.column(index).clone()).collect());
        let columns: Vec<Mutex<Result<Vec<ArrayRef>, ArrowError>>> =
            (0..schema.fields().len()).map(parts).map(Mutex::new).collect();
        // A column frees its arrays once it is joined.
        drop(batches);
        let fixed: Vec<_> =
            columns.iter().zip(schema.fields()).filter(|(_, field)| has_numpy_type(field.data_type())).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some((column, field)) = fixed.get(next.fetch_add(1, Ordering::Relaxed)) {
                let mut parts = column.lock().expect("no other thread has this column");
                let own = std::mem::replace(&mut *parts, Ok(vec![]));
                *parts = own.and_then(|own| Ok(vec![joined(&own, field.data_type())?]));
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(fixed.len());
        std::thread::scope(|scope| {
            if bytes >= SMALL {
                (1..threads).for_each(|_| drop(scope.spawn(work)));
            }
            work();
        });
        let columns = columns.into_iter().map(|parts| parts.into_inner().expect("no thread panicked"));
        Ok(Whole { columns: columns.collect::<Result<_, _>>()?, schema, lengths })
    }
}

fn joined(parts: &[ArrayRef], data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    if parts.is_empty() {
        return Ok(new_empty_array(data_type));
    }
    let data: Vec<_> = parts.iter().map(|part| part.to_data()).collect();
    let rows = data.iter().map(|part| part.len()).sum();
    let mut whole = MutableArrayData::new(data.iter().collect(), false, rows);
    for (index, part) in data.iter().enumerate() {
        whole.try_extend(index, 0, part.len())?;
    }
    Ok(make_array(whole.freeze()))
}

#[pymethods]
impl Whole {
    fn names(&self) -> Vec<String> {
        names(&self.schema)
    }

    fn schema(&self) -> Schema {
        Schema(self.schema.clone())
    }

    fn rows(&self) -> usize {
        self.lengths.iter().sum()
    }

    fn has_nulls(&self, index: usize) -> bool {
        self.columns[index].iter().any(|part| part.null_count() > 0)
    }

    /// Values, null flags, and texts instead of values if NumPy has no such type.
    fn column(&self, py: Python<'_>, index: usize) -> PyResult<(Option<Column>, Option<Column>, Vec<Option<String>>)> {
        let parts = &self.columns[index];
        let parts = match self.schema.field(index).data_type() {
            DataType::Dictionary(_, values) if has_numpy_type(values) => {
                let plain: Result<Vec<_>, _> = parts.iter().map(|part| arrow_cast::cast(part, values)).collect();
                let whole = plain.and_then(|plain| joined(&plain, values));
                vec![whole.map_err(|error| invalid(py, &error.to_string()))?]
            }
            _ => parts.clone(),
        };
        if let [part] = parts.as_slice() {
            let NumpyValues { values, nulls, texts } = to_numpy(py, part)?;
            return Ok((values.map(Column::writable), nulls, texts));
        }
        let mut all = Vec::with_capacity(self.rows());
        for part in &parts {
            all.extend(to_numpy(py, part)?.texts);
        }
        Ok((None, None, all))
    }

    /// Columns in batches, without a copy.
    fn batches(&self, py: Python<'_>, indices: Vec<usize>) -> PyResult<Batches> {
        let failed = |error: ArrowError| invalid(py, &error.to_string());
        let schema: SchemaRef = self.schema.project(&indices).map_err(failed)?.into();
        let mut first = 0;
        let mut batches = Vec::with_capacity(self.lengths.len());
        for (batch, &rows) in self.lengths.iter().enumerate() {
            let column = |&index: &usize| match has_numpy_type(self.schema.field(index).data_type()) {
                true => self.columns[index][0].slice(first, rows),
                false => self.columns[index][batch].clone(),
            };
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            let columns = indices.iter().map(column).collect();
            batches.push(RecordBatch::try_new_with_options(schema.clone(), columns, &options).map_err(failed)?);
            first += rows;
        }
        Ok(Batches { schema, batches })
    }
}
