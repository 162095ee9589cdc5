//! Errors of stores and of stored bytes as the engine's.

use kubist_format::error::EntryError;
use kubist_types::Error;

/// A store's error as the engine's.
pub fn store_error(error: kubist_store::Error) -> Error {
    use kubist_store::Error as Store;
    match error {
        Store::Busy { .. } => Error::Busy(error.to_string()),
        Store::Damaged { file, offset, what } => Error::Damaged { file, offset, what },
        Store::Refused { .. } => Error::Refused(error.to_string()),
        Store::Newer { .. } => Error::Newer(error.to_string()),
        Store::InvalidName { .. } => Error::Invalid(error.to_string()),
        Store::Irregular { file, found, wanted } => {
            Error::Damaged { file, offset: 0, what: format!("it is {found}, not {wanted}") }
        }
        Store::Missing { file } => Error::Damaged { file, offset: 0, what: "the file is missing".into() },
        other => Error::Io(other.to_string()),
    }
}

/// Stored bytes that cannot be read, as an error that names the file and the place in it.
pub fn bad_entry(location: &str, name: &str, offset: u64, error: EntryError) -> Error {
    match error {
        EntryError::Bad(what) => Error::Damaged { file: format!("{location}/{name}"), offset, what },
        EntryError::Newer(what) => Error::Newer(format!("{location}/{name}: {what}; a newer Kubist wrote it")),
    }
}

/// Is this an error of bytes, not of the moment?
pub fn is_damage(error: &Error) -> bool {
    matches!(error, Error::Damaged { .. } | Error::Newer(_) | Error::Invalid(_) | Error::Io(_))
}
