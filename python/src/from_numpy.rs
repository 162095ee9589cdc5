//! NumPy arrays as columns without pyarrow: Arrow arrays over the same memory if the layouts agree.

use std::sync::Arc;

use arrow_array::builder::{GenericStringBuilder, StringBuilder};
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, make_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, Schema};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};

use crate::arrow::{Incoming, array_capsules, unreadable};
use crate::error::invalid;

const MOST_TEXT: usize = i32::MAX as usize;

#[pyclass(frozen, module = "kubist._kubist")]
pub struct NumpyColumn(pub ArrayRef);

/// Keeps Python's memory at its address.
struct Held(#[expect(dead_code, reason = "kept, not read")] PyBuffer<u8>);

// A view of bytes has no state that a panic could leave inconsistent.
impl std::panic::RefUnwindSafe for Held {}

#[pymethods]
impl NumpyColumn {
    /// Contiguous values of a fixed width. `nulls` has one byte per value, nonzero for null.
    #[staticmethod]
    fn of_bytes(py: Python<'_>, kind: &str, bytes: PyBuffer<u8>, nulls: Option<PyBuffer<u8>>) -> PyResult<NumpyColumn> {
        let data_type = kubist_types::type_names::data_type(kind).map_err(|error| invalid(py, &error))?;
        let nulls = nulls.map(|nulls| nulls.to_vec(py)).transpose()?;
        let nulls = nulls.map(|nulls| NullBuffer::from_iter(nulls.iter().map(|null| *null == 0)));
        if data_type == DataType::Boolean {
            let bytes = bytes.to_vec(py)?;
            let values = BooleanBuffer::from_iter(bytes.iter().map(|byte| *byte != 0));
            check_lengths(py, values.len(), nulls.as_ref())?;
            return Ok(NumpyColumn(Arc::new(BooleanArray::new(values, nulls))));
        }
        let width = data_type.primitive_width().ok_or_else(|| invalid(py, &format!("{kind} has no width")))?;
        let length = bytes.len_bytes() / width;
        check_lengths(py, length, nulls.as_ref())?;
        let buffer = match std::ptr::NonNull::new(bytes.buf_ptr().cast::<u8>()) {
            Some(start) if bytes.len_bytes() > 0 && bytes.is_c_contiguous() => {
                let size = bytes.len_bytes();
                // SAFETY: `start` points to `size` bytes that the view keeps in place until it is released,
                // and the buffer owns the view. Python code may write to the memory, as to any Arrow array
                // from Python. Then numbers change, and any bytes are valid numbers.
                unsafe { Buffer::from_custom_allocation(start, size, Arc::new(Held(bytes))) }
            }
            _ => Buffer::from(bytes.to_vec(py)?),
        };
        let data = ArrayData::builder(data_type).len(length).add_buffer(buffer).nulls(nulls);
        let data = data.align_buffers(true).build().map_err(|error| invalid(py, &error.to_string()))?;
        Ok(NumpyColumn(make_array(data)))
    }

    /// None is null.
    #[staticmethod]
    fn of_texts(py: Python<'_>, values: &Bound<'_, PyList>) -> PyResult<NumpyColumn> {
        let mut texts: StringBuilder = GenericStringBuilder::with_capacity(values.len(), 0);
        for (row, value) in values.iter().enumerate() {
            if value.is_none() {
                texts.append_null();
                continue;
            }
            let kind = value.get_type().name()?;
            let text = value.cast::<PyString>().map_err(|_| {
                invalid(py, &format!("row {row}: expected text, found a {kind}; pass other objects as pyarrow arrays"))
            })?;
            let text = text.to_cow().map_err(|error| invalid(py, &format!("row {row}: {error}")))?;
            if texts.values_slice().len() + text.len() > MOST_TEXT {
                return Err(invalid(py, "more than 2 GiB of text in one array: append it in parts"));
            }
            texts.append_value(text);
        }
        Ok(NumpyColumn(Arc::new(texts.finish())))
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let _ = requested_schema;
        array_capsules(py, &self.0)
    }
}

/// Columns must have equal lengths.
#[pyfunction]
pub fn numpy_columns(py: Python<'_>, names: Vec<String>, columns: Vec<PyRef<'_, NumpyColumn>>) -> PyResult<Incoming> {
    let field =
        |(name, column): (&String, &PyRef<'_, NumpyColumn>)| Field::new(name, column.0.data_type().clone(), true);
    let schema = Schema::new(names.iter().zip(&columns).map(field).collect::<Vec<_>>());
    let arrays = columns.iter().map(|column| column.0.clone()).collect();
    let rows = columns.first().map_or(0, |column| column.0.len());
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = RecordBatch::try_new_with_options(Arc::new(schema), arrays, &options);
    let batch = batch.map_err(|error| unreadable(py, &error))?;
    Ok(Incoming::of_batch(batch))
}

fn check_lengths(py: Python<'_>, values: usize, nulls: Option<&NullBuffer>) -> PyResult<()> {
    match nulls.filter(|nulls| nulls.len() != values) {
        Some(nulls) => Err(invalid(py, &format!("{values} values, but a mask of {}", nulls.len()))),
        None => Ok(()),
    }
}
