//! Arrow data between Python and the engine without copies, as PyCapsules of the Arrow C data and C stream
//! interfaces. Any library with these interfaces works, so pyarrow is not needed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi, to_ffi};
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::types::{DurationSecondType, TimestampSecondType};
use arrow_array::{
    Array, ArrayRef, RecordBatch, RecordBatchIterator, RecordBatchOptions, RecordBatchReader, StructArray,
};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, FieldRef, Fields, SchemaRef, TimeUnit};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList, PyTuple};

use crate::column::{Column, NumpyValues, to_numpy};
use crate::error::invalid;
use crate::plain;

const SCHEMA: &std::ffi::CStr = c"arrow_schema";
const ARRAY: &std::ffi::CStr = c"arrow_array";
const STREAM: &std::ffi::CStr = c"arrow_array_stream";

#[pyclass(frozen, module = "kubist._kubist")]
pub struct Schema(pub SchemaRef);

#[pymethods]
impl Schema {
    /// Accepts any object with `__arrow_c_schema__`, such as a `pyarrow.Schema`.
    #[new]
    pub fn new(source: &Bound<'_, PyAny>) -> PyResult<Schema> {
        let py = source.py();
        let capsule = source.call_method0("__arrow_c_schema__")?;
        let pointer = capsule.cast::<PyCapsule>()?.pointer_checked(Some(SCHEMA))?;
        // SAFETY: the capsule's name determines its type, and it outlives this borrow.
        let schema = unsafe { pointer.cast::<FFI_ArrowSchema>().as_ref() };
        let schema = arrow_schema::Schema::try_from(schema)
            .map_err(|error| invalid(py, &format!("not a schema of columns: {error}")))?;
        Ok(Schema(Arc::new(schema)))
    }

    #[staticmethod]
    fn of_column(py: Python<'_>, name: &str, kind: &str, nullable: bool) -> PyResult<Schema> {
        let data_type = kubist_types::type_names::data_type(kind)
            .map_err(|error| invalid(py, &format!("column {name}: {error}")))?;
        let field = arrow_schema::Field::new(name, data_type, nullable);
        Ok(Schema(Arc::new(arrow_schema::Schema::new(vec![field]))))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.0)
    }
}

/// A batch of a result (`__arrow_c_array__`). Libraries that read a struct as one column use
/// `__arrow_c_stream__`.
#[pyclass(frozen, module = "kubist._kubist")]
pub struct Batch(pub RecordBatch);

#[pymethods]
impl Batch {
    /// Copies any object with `__arrow_c_array__`, such as a `pyarrow.RecordBatch`.
    #[new]
    fn new(source: &Bound<'_, PyAny>) -> PyResult<Batch> {
        let batch = incoming_batch(source)?;
        validated(batch).map(Batch).map_err(|error| unreadable(source.py(), &error))
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let _ = requested_schema;
        let array = array_capsule(py, &StructArray::from(self.0.clone()))?;
        PyTuple::new(py, [schema_capsule(py, &self.0.schema())?, array])
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        stream_capsule(py, RecordBatchIterator::new([Ok(self.0.clone())], self.0.schema()))
    }

    /// See [`refuse_beyond_milliseconds`].
    fn check_milliseconds(&self, py: Python<'_>) -> PyResult<()> {
        refuse_beyond_milliseconds(py, std::slice::from_ref(&self.0))
    }

    /// Values, null flags, and texts instead of values if NumPy has no such type.
    fn column(&self, py: Python<'_>, index: usize) -> PyResult<(Option<Column>, Option<Column>, Vec<Option<String>>)> {
        let NumpyValues { values, nulls, texts } = to_numpy(py, self.0.column(index))?;
        Ok((values, nulls, texts))
    }

    /// Values as numbers, booleans and text.
    fn values<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyList>> {
        plain::values(py, self.0.column(index))
    }

    /// By column: the kind of value that its texts stand for; None for Python's own types.
    fn kinds(&self) -> Vec<Option<&'static str>> {
        self.0.columns().iter().map(|column| plain::kind(column.data_type())).collect()
    }

    /// Values as displayed text.
    fn texts(&self, py: Python<'_>, index: usize, most: usize) -> PyResult<Vec<Option<String>>> {
        plain::texts(py, self.0.column(index), most)
    }

    fn names(&self) -> Vec<String> {
        names(&self.0.schema())
    }

    fn units(&self) -> Vec<Option<String>> {
        self.0.schema().fields().iter().map(|field| field.metadata().get("unit").cloned()).collect()
    }

    fn rows(&self) -> usize {
        self.0.num_rows()
    }
}

/// A complete result in memory (`__arrow_c_stream__`, repeatable).
#[pyclass(frozen, module = "kubist._kubist")]
pub struct Batches {
    pub schema: SchemaRef,
    pub batches: Vec<RecordBatch>,
}

#[pymethods]
impl Batches {
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches = self.batches.clone().into_iter().map(Ok);
        stream_capsule(py, RecordBatchIterator::new(batches, self.schema.clone()))
    }

    /// See [`refuse_beyond_milliseconds`].
    fn check_milliseconds(&self, py: Python<'_>) -> PyResult<()> {
        refuse_beyond_milliseconds(py, &self.batches)
    }
}

/// Checks that times in seconds do not overflow in Polars, which multiplies them by 1,000 without a check.
///
/// # Errors
///
/// `InvalidInput` with the column, row and value of the first overflow.
fn refuse_beyond_milliseconds(py: Python<'_>, batches: &[RecordBatch]) -> PyResult<()> {
    let mut first_row = 0;
    for batch in batches {
        for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            let seconds = match column.data_type() {
                DataType::Timestamp(TimeUnit::Second, _) => column.as_primitive::<TimestampSecondType>().values(),
                DataType::Duration(TimeUnit::Second) => column.as_primitive::<DurationSecondType>().values(),
                _ => continue,
            };
            let wraps = |(row, value): &(usize, &i64)| value.checked_mul(1000).is_none() && column.is_valid(*row);
            if let Some((row, value)) = seconds.iter().enumerate().find(wraps) {
                let (name, row) = (field.name(), first_row + row);
                return Err(invalid(
                    py,
                    &format!(
                        "column {name}, row {row}: {value} s cannot be held by Polars, whose coarsest unit is \
                         milliseconds; use to_arrow() or to_numpy(), or leave the column out with columns="
                    ),
                ));
            }
        }
        first_row += batch.num_rows();
    }
    Ok(())
}

/// Data from Python with `__arrow_c_stream__` or `__arrow_c_array__`, read in one pass over its batches.
#[pyclass(frozen, module = "kubist._kubist")]
pub struct Incoming {
    schema: SchemaRef,
    reader: Mutex<Box<dyn RecordBatchReader + Send>>,
}

#[pymethods]
impl Incoming {
    #[new]
    pub fn new(source: &Bound<'_, PyAny>) -> PyResult<Incoming> {
        let reader: Box<dyn RecordBatchReader + Send> = if source.hasattr("__arrow_c_stream__")? {
            Box::new(incoming_stream(source)?)
        } else {
            return Ok(Incoming::of_batch(incoming_batch(source)?));
        };
        let schema = with_plain_labels(reader.schema());
        Ok(Incoming { schema, reader: Mutex::new(reader) })
    }

    fn schema(&self) -> Schema {
        Schema(self.schema.clone())
    }
}

impl Incoming {
    pub fn of_batch(batch: RecordBatch) -> Incoming {
        let schema = batch.schema();
        let reader = RecordBatchIterator::new([Ok(batch)], schema.clone());
        Incoming { schema, reader: Mutex::new(Box::new(reader)) }
    }

    pub fn schema_ref(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Validates every value.
    pub fn next(&self) -> Option<Result<RecordBatch, ArrowError>> {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        // Arrow panics for some invalid array lengths.
        let known = |batch| validated(batch).and_then(|batch| with_schema(batch, &self.schema));
        let next = catch_unwind(AssertUnwindSafe(|| Some(reader.next()?.and_then(known))));
        next.unwrap_or_else(|_| Some(Err(ArrowError::CDataInterface("its arrays do not match their types".into()))))
    }
}

/// Replaces dictionary labels by plain text, because Polars exports Categorical and Enum with views, which
/// tables do not store.
fn with_plain_labels(schema: SchemaRef) -> SchemaRef {
    let is_view = |field: &FieldRef| matches!(field.data_type(), DataType::Dictionary(_, labels) if **labels == DataType::Utf8View);
    if !schema.fields().iter().any(is_view) {
        return schema;
    }
    let labels = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let plain = |field: &FieldRef| match is_view(field) {
        true => Arc::new(field.as_ref().clone().with_data_type(labels.clone())),
        false => field.clone(),
    };
    let fields: Fields = schema.fields().iter().map(plain).collect();
    Arc::new(arrow_schema::Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn with_schema(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    if Arc::ptr_eq(batch.schema_ref(), schema) || batch.schema_ref() == schema {
        return Ok(batch);
    }
    let fields = schema.fields().iter().zip(batch.columns());
    let columns = fields.map(|(field, column)| match field.data_type() == column.data_type() {
        true => Ok(column.clone()),
        false => cast(column, field.data_type()),
    });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options)
}

/// Validates data of another language: text may be invalid UTF-8, keys and offsets out of range. Errors
/// name column and row.
fn validated(batch: RecordBatch) -> Result<RecordBatch, ArrowError> {
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        let data = column.to_data();
        let Err(error) = data.validate_full() else { continue };
        // Bisects for the first invalid row: a prefix that contains it is invalid.
        let is_sound = |rows: usize| data.slice(0, rows).validate_full().is_ok();
        let (mut sound, mut spoilt) = (0, data.len());
        if !is_sound(0) || is_sound(spoilt) {
            return Err(ArrowError::CDataInterface(format!("column {:?}: {error}", field.name())));
        }
        while spoilt - sound > 1 {
            let middle = sound + (spoilt - sound) / 2;
            *(if is_sound(middle) { &mut sound } else { &mut spoilt }) = middle;
        }
        let error = data.slice(sound, 1).validate_full().err().unwrap_or(error);
        return Err(ArrowError::CDataInterface(format!(
            "column {:?}, row {sound} of the batch: {error}",
            field.name()
        )));
    }
    Ok(batch)
}

fn incoming_stream(source: &Bound<'_, PyAny>) -> PyResult<RecordBatchStreamReader> {
    let capsule = source.call_method0("__arrow_c_stream__")?;
    let pointer = capsule.cast::<PyCapsule>()?.pointer_checked(Some(STREAM))?;
    // SAFETY: the capsule's name determines its type. The reader moves the stream out and leaves a released
    // one for the capsule's destructor.
    let reader = unsafe { RecordBatchStreamReader::from_raw(pointer.cast().as_ptr()) };
    reader.map_err(|error| unreadable(source.py(), &error))
}

fn incoming_batch(source: &Bound<'_, PyAny>) -> PyResult<RecordBatch> {
    let py = source.py();
    let pair = source.call_method0("__arrow_c_array__")?;
    let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) = pair.extract()?;
    let schema = schema.pointer_checked(Some(SCHEMA))?;
    let array = array.pointer_checked(Some(ARRAY))?;
    // SAFETY: the capsules' names determine their types. The array is moved out, and a released one is left
    // for the capsule's destructor.
    let data = unsafe {
        let array = FFI_ArrowArray::from_raw(array.cast().as_ptr());
        from_ffi(array, schema.cast::<FFI_ArrowSchema>().as_ref())
    };
    let array = arrow_array::make_array(data.map_err(|error| unreadable(py, &error))?);
    let Some(columns) = array.as_any().downcast_ref::<StructArray>() else {
        return Err(invalid(py, &format!("expected a batch of columns, not a single array of {}", array.data_type())));
    };
    if columns.null_count() > 0 {
        return Err(invalid(py, "a batch of columns cannot have null rows"));
    }
    let schema = Arc::new(arrow_schema::Schema::new(columns.fields().clone()));
    let options = RecordBatchOptions::new().with_row_count(Some(columns.len()));
    RecordBatch::try_new_with_options(schema, columns.columns().to_vec(), &options)
        .map_err(|error| unreadable(py, &error))
}

/// The error for data that its producer could not deliver.
pub fn unreadable(py: Python<'_>, error: &ArrowError) -> PyErr {
    invalid(py, &format!("the data could not be read: {error}"))
}

pub fn array_capsules<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Bound<'py, PyTuple>> {
    let schema = FFI_ArrowSchema::try_from(array.data_type()).map_err(|e| invalid(py, &e.to_string()))?;
    let schema = PyCapsule::new_with_value(py, schema, SCHEMA)?;
    PyTuple::new(py, [schema, array_capsule(py, array)?])
}

fn array_capsule<'py>(py: Python<'py>, array: &dyn Array) -> PyResult<Bound<'py, PyCapsule>> {
    let (array, _) = to_ffi(&array.to_data()).map_err(|e| invalid(py, &e.to_string()))?;
    PyCapsule::new_with_value(py, array, ARRAY)
}

pub fn names(schema: &arrow_schema::Schema) -> Vec<String> {
    schema.fields().iter().map(|field| field.name().clone()).collect()
}

fn schema_capsule<'py>(py: Python<'py>, schema: &arrow_schema::Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema).map_err(|e| invalid(py, &e.to_string()))?;
    PyCapsule::new_with_value(py, schema, SCHEMA)
}

pub fn stream_capsule<'py>(
    py: Python<'py>,
    reader: impl RecordBatchReader + Send + 'static,
) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), STREAM)
}
