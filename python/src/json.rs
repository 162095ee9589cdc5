//! Python dicts as engine types, through JSON; `kubist/_spec.py` describes them.

use pyo3::prelude::*;
use serde::de::DeserializeOwned;

use crate::error::invalid;

pub struct FromJson<T>(pub T);

impl<T: DeserializeOwned> FromPyObject<'_, '_> for FromJson<T> {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, '_, PyAny>) -> PyResult<FromJson<T>> {
        let text: String = value.py().import("json")?.call_method1("dumps", (value,))?.extract()?;
        serde_json::from_str(&text).map(FromJson).map_err(|error| invalid(value.py(), &error.to_string()))
    }
}
