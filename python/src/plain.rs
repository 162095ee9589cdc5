//! Arrow values as Python values and as text, without pyarrow and NumPy.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef};
use arrow_cast::cast;
use arrow_cast::display::array_value_to_string;
use arrow_schema::{DataType, TimeUnit};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::error::invalid;

/// Numbers, booleans and text have Python's types, others become text.
pub fn values<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Bound<'py, PyList>> {
    let failed = |error: arrow_schema::ArrowError| invalid(py, &error.to_string());
    if let DataType::Dictionary(_, values_of) = array.data_type() {
        return values(py, &cast(array, values_of).map_err(failed)?);
    }
    let kind = array.data_type();
    let list = PyList::empty(py);
    let as_type = |kind: DataType| cast(array, &kind).map_err(failed);
    let add = |row: usize, value: PyResult<Bound<'py, PyAny>>| match array.is_valid(row) {
        true => list.append(value?),
        false => list.append(py.None()),
    };
    match kind {
        DataType::Boolean => {
            let booleans = array.as_boolean();
            (0..array.len()).try_for_each(|row| add(row, booleans.value(row).into_bound_py_any(py)))?;
        }
        _ if kind.is_signed_integer() => {
            let numbers = as_type(DataType::Int64)?;
            let numbers = numbers.as_primitive::<Int64Type>();
            (0..array.len()).try_for_each(|row| add(row, numbers.value(row).into_bound_py_any(py)))?;
        }
        _ if kind.is_unsigned_integer() => {
            let numbers = as_type(DataType::UInt64)?;
            let numbers = numbers.as_primitive::<UInt64Type>();
            (0..array.len()).try_for_each(|row| add(row, numbers.value(row).into_bound_py_any(py)))?;
        }
        _ if kind.is_floating() => {
            let numbers = as_type(DataType::Float64)?;
            let numbers = numbers.as_primitive::<Float64Type>();
            (0..array.len()).try_for_each(|row| add(row, numbers.value(row).into_bound_py_any(py)))?;
        }
        // As integers, because the text of a duration is for people.
        DataType::Duration(_) => {
            let ticks = as_type(DataType::Int64)?;
            let ticks = ticks.as_primitive::<Int64Type>();
            (0..array.len()).try_for_each(|row| add(row, ticks.value(row).to_string().into_bound_py_any(py)))?;
        }
        _ => {
            let text = |row: usize| array_value_to_string(array, row).map_err(failed);
            (0..array.len()).try_for_each(|row| add(row, text(row)?.into_bound_py_any(py)))?;
        }
    }
    Ok(list)
}

/// The kind of value that a text of [`values`] stands for; `None` if the values have their own type.
pub fn kind(data_type: &DataType) -> Option<&'static str> {
    use DataType::{
        Binary, BinaryView, Date32, Date64, Decimal32, Decimal64, Decimal128, Decimal256, Dictionary, Duration,
        FixedSizeBinary, LargeBinary, Time32, Time64, Timestamp,
    };
    Some(match data_type {
        Date32 | Date64 => "date",
        Duration(TimeUnit::Second) => "duration_s",
        Duration(TimeUnit::Millisecond) => "duration_ms",
        Duration(TimeUnit::Microsecond) => "duration_us",
        Duration(TimeUnit::Nanosecond) => "duration_ns",
        Timestamp(TimeUnit::Nanosecond, _) => "timestamp_ns",
        Timestamp(..) => "timestamp",
        Time64(TimeUnit::Nanosecond) => "time_ns",
        Time32(_) | Time64(_) => "time",
        Decimal32(..) | Decimal64(..) | Decimal128(..) | Decimal256(..) => "decimal",
        Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => "bytes",
        Dictionary(_, values) => return kind(values),
        _ => return None,
    })
}

/// The first values as displayed text, with significant digits; null is None.
pub fn texts(py: Python<'_>, array: &ArrayRef, most: usize) -> PyResult<Vec<Option<String>>> {
    kubist_estimate::values_in_words(array, most).map_err(|error| invalid(py, &error.to_string()))
}
