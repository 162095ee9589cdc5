//! Columns for NumPy without pyarrow: NumPy reads their memory through `__array_interface__`, without a
//! copy if the layouts agree.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, UInt8Array};
use arrow_cast::cast;
use arrow_cast::display::array_value_to_string;
use arrow_schema::{DataType, TimeUnit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::error::invalid;

/// A column without nulls, of a type that NumPy has.
#[pyclass(frozen, module = "kubist._kubist")]
pub struct Column {
    array: ArrayRef,
    code: String,
    writable: bool,
}

impl Column {
    pub fn writable(self) -> Column {
        Column { writable: true, ..self }
    }
}

#[pymethods]
impl Column {
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let data = self.array.to_data();
        // The array keeps the memory alive as long as NumPy keeps this object.
        let start = match data.is_empty() {
            // Any valid address: older NumPy does not accept null for empty arrays.
            true => std::ptr::from_ref(self) as usize,
            false => data.buffers()[0].as_ptr() as usize + data.offset() * width_of(data.data_type()),
        };
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("typestr", &self.code)?;
        interface.set_item("shape", PyTuple::new(py, [data.len()])?)?;
        interface.set_item("data", (start, !self.writable))?;
        Ok(interface)
    }
}

fn width_of(data_type: &DataType) -> usize {
    data_type.primitive_width().unwrap_or(1)
}

/// A column in NumPy's types, and its nulls.
pub struct NumpyValues {
    pub values: Option<Column>,
    pub nulls: Option<Column>,
    /// Used if NumPy has no such type.
    pub texts: Vec<Option<String>>,
}

/// Decimals become floats; text, binary and labels become text.
pub fn to_numpy(py: Python<'_>, array: &ArrayRef) -> PyResult<NumpyValues> {
    let failed = |error: arrow_schema::ArrowError| invalid(py, &error.to_string());
    let array = match array.data_type() {
        DataType::Dictionary(_, values) => cast(array, values).map_err(failed)?,
        _ => array.clone(),
    };
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
    let nulls = nulls.map(|nulls| booleans(nulls.iter().map(|valid| !valid)));
    let Some((code, plain)) = numpy_type(array.data_type()) else {
        let text = |row| match array.data_type() {
            _ if array.is_null(row) => Ok(None),
            _ => array_value_to_string(&array, row).map(Some),
        };
        let texts = (0..array.len()).map(text).collect::<Result<_, _>>().map_err(failed)?;
        return Ok(NumpyValues { values: None, nulls, texts });
    };
    let values = match (array.data_type(), plain) {
        (DataType::Boolean, _) => booleans(array.as_boolean().values().iter()),
        (_, None) => Column { array, code, writable: false },
        (DataType::Time32(_), Some(plain)) => {
            let storage = cast(&array, &DataType::Int32).map_err(failed)?;
            Column { array: cast(&storage, &plain).map_err(failed)?, code, writable: false }
        }
        (_, Some(plain)) => Column { array: cast(&array, &plain).map_err(failed)?, code, writable: false },
    };
    Ok(NumpyValues { values: Some(values), nulls, texts: vec![] })
}

fn booleans(values: impl Iterator<Item = bool>) -> Column {
    let array = Arc::new(UInt8Array::from_iter_values(values.map(u8::from)));
    Column { array, code: "|b1".into(), writable: false }
}

/// True for types of fixed width.
pub fn has_numpy_type(data_type: &DataType) -> bool {
    numpy_type(data_type).is_some()
}

/// NumPy's name of the type, and the type to cast to first, if any.
fn numpy_type(data_type: &DataType) -> Option<(String, Option<DataType>)> {
    let unit = |unit: &TimeUnit| match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    };
    let width = data_type.primitive_width().unwrap_or(1);
    Some(match data_type {
        DataType::Boolean => ("|b1".into(), None),
        DataType::Float16 | DataType::Float32 | DataType::Float64 => (format!("<f{width}"), None),
        other if other.is_signed_integer() => (format!("<i{width}"), None),
        other if other.is_unsigned_integer() => (format!("<u{width}"), None),
        other if other.is_decimal() => ("<f8".into(), Some(DataType::Float64)),
        DataType::Timestamp(of, _) => (format!("<M8[{}]", unit(of)), None),
        DataType::Date32 => ("<M8[D]".into(), Some(DataType::Int64)),
        DataType::Date64 => ("<M8[ms]".into(), None),
        DataType::Duration(of) | DataType::Time64(of) => (format!("<m8[{}]", unit(of)), None),
        DataType::Time32(of) => (format!("<m8[{}]", unit(of)), Some(DataType::Int64)),
        _ => return None,
    })
}
