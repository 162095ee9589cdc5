//! Plain Python values as engine values. `kubist/_box.py` has already converted dates, NumPy scalars and
//! similar values.

use kubist::Value;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyString};

use crate::error::invalid;

/// `None` is open.
pub struct End(pub Option<Value>);

impl FromPyObject<'_, '_> for End {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, '_, PyAny>) -> PyResult<End> {
        let value = value.to_owned();
        if value.is_none() {
            return Ok(End(None));
        }
        // A bool is also an int in Python, so it is tested first.
        let plain = if let Ok(value) = value.cast::<PyBool>() {
            Value::Bool(value.is_true())
        } else if value.is_instance_of::<PyInt>() {
            let int = value.extract::<i128>();
            Value::Int(int.map_err(|_| invalid(value.py(), &format!("{value} is out of any column's range")))?)
        } else if let Ok(value) = value.cast::<PyFloat>() {
            Value::Float(value.extract()?)
        } else if let Ok(value) = value.cast::<PyString>() {
            Value::Text(value.to_string())
        } else if let Ok(value) = value.cast::<PyBytes>() {
            Value::Binary(value.as_bytes().to_vec())
        } else {
            let kind = value.get_type().name()?;
            return Err(invalid(value.py(), &format!("a {kind} cannot be compared with a column: {value}")));
        };
        Ok(End(Some(plain)))
    }
}
