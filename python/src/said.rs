//! What Python says in the words of JSON: dicts as `kubist/_spec.py` describes them.

use pyo3::prelude::*;
use serde::de::DeserializeOwned;

use crate::error::invalid;

/// A value of Python that JSON can say, as the engine reads it from anywhere else.
pub struct Said<T>(pub T);

impl<T: DeserializeOwned> FromPyObject<'_, '_> for Said<T> {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, '_, PyAny>) -> PyResult<Said<T>> {
        let text: String = value.py().import("json")?.call_method1("dumps", (value,))?.extract()?;
        serde_json::from_str(&text).map(Said).map_err(|error| invalid(value.py(), &error.to_string()))
    }
}
