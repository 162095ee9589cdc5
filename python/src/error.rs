//! Converts engine errors to Python exceptions. `kubist/_errors.py` defines the classes; this file maps
//! error kinds to them.

use kubist::{Error, ErrorKind};
use pyo3::prelude::*;

pub fn exception(py: Python<'_>, error: Error) -> PyErr {
    let class = match &error {
        Error::Invalid(_) | Error::Expression(_) => "InvalidInput",
        Error::NotATable { .. } | Error::Missing { .. } => "NotATable",
        Error::Exists { .. } => "TableExists",
        Error::Damaged { .. } => "Damaged",
        Error::Newer(_) => "NewerFormat",
        Error::Busy(_) => "Busy",
        Error::NotHere { bytes, .. } => return not_here(py, &error.to_string(), *bytes),
        Error::SnapshotExpired { .. } => "SnapshotExpired",
        Error::Replaced { .. } => "TableReplaced",
        Error::Cancelled => "Cancelled",
        Error::Forked { .. } | Error::Refused(_) => "Refused",
        other => match other.kind() {
            ErrorKind::Unavailable => "Unavailable",
            ErrorKind::NoSpace => "NoSpace",
            ErrorKind::Permission => "NotPermitted",
            ErrorKind::Unsupported => "StorageError",
            ErrorKind::Internal => "InternalError",
            _ => "Error",
        },
    };
    raise(py, class, &error.to_string())
}

/// The exception for a step that was not written.
pub fn failed(py: Python<'_>, failure: &kubist_insitu::Failure) -> PyErr {
    let class = match failure.kind {
        ErrorKind::InvalidInput => "InvalidInput",
        ErrorKind::Corrupt => "Damaged",
        ErrorKind::Unavailable => "Unavailable",
        ErrorKind::NoSpace => "NoSpace",
        ErrorKind::Permission => "NotPermitted",
        ErrorKind::Busy => "Busy",
        ErrorKind::Expired => "Refused",
        ErrorKind::Cancelled => "Cancelled",
        ErrorKind::Unsupported => "StorageError",
        ErrorKind::NotFound => "NotATable",
        ErrorKind::Exists => "TableExists",
        ErrorKind::NotHere => "NotHere",
        _ => "InternalError",
    };
    raise(py, class, &failure.message)
}

pub fn of_dictionary(py: Python<'_>, error: &kubist_kv::Error) -> PyErr {
    use kubist_kv::Error as Of;
    let class = match error {
        Of::Busy { .. } => "Busy",
        Of::Damaged { .. } => "Damaged",
        Of::Invalid(_) => "InvalidInput",
        Of::Newer { .. } => "NewerFormat",
        Of::Missing { .. } => "NotATable",
        Of::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull => "NoSpace",
        Of::Io { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => "NotPermitted",
        _ => "StorageError",
    };
    raise(py, class, &error.to_string())
}

/// An `InvalidInput` found before the engine was called.
pub fn invalid(py: Python<'_>, message: &str) -> PyErr {
    raise(py, "InvalidInput", message)
}

/// A `StorageError` for an incomplete response.
pub fn cut_off(py: Python<'_>, message: &str) -> PyErr {
    raise(py, "StorageError", &format!("the response is incomplete: {message}"))
}

/// An `InternalError` for a panic of the engine.
pub fn internal(py: Python<'_>, panic: &(dyn std::any::Any + Send)) -> PyErr {
    let message = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    raise(py, "InternalError", &format!("a bug in Kubist stopped this call: {message}"))
}

/// A `NotHere` with the number of missing bytes.
fn not_here(py: Python<'_>, message: &str, bytes: u64) -> PyErr {
    let exception = raise(py, "NotHere", message);
    match exception.value(py).setattr("bytes", bytes) {
        Ok(()) => exception,
        Err(failure) => failure,
    }
}

fn raise(py: Python<'_>, class: &str, message: &str) -> PyErr {
    let made =
        py.import("kubist._errors").and_then(|errors| errors.getattr(class)).and_then(|class| class.call1((message,)));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(failure) => failure,
    }
}
