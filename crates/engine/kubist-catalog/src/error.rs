//! Conversion of errors to [`Error`].

use kubist_format::alteration::name_of;
use kubist_format::error::EntryError;
use kubist_types::{Error, ErrorKind};

/// Keeps the store's error as the source if that adds information.
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
        Store::Stopped { .. } => Error::Cancelled,
        Store::NotHere { location, bytes } => Error::NotHere { location, bytes },
        Store::Missing { file } => Error::Damaged { file, offset: 0, what: "the file is missing".into() },
        failed => Error::storage(storage_kind(&failed), failed.to_string(), failed),
    }
}

fn storage_kind(error: &kubist_store::Error) -> ErrorKind {
    match error {
        kubist_store::Error::NoSpace { .. } => ErrorKind::NoSpace,
        kubist_store::Error::Io { source, .. } => ErrorKind::of_io(source),
        _ => ErrorKind::Unavailable,
    }
}

pub fn is_transient(error: &kubist_store::Error) -> bool {
    matches!(error, kubist_store::Error::Unreachable { .. } | kubist_store::Error::Io { .. })
        && storage_kind(error) == ErrorKind::Unavailable
}

pub fn bad_entry(location: &str, name: &str, offset: u64, error: EntryError) -> Error {
    match error {
        EntryError::Bad(what) => Error::Damaged { file: format!("{location}/{name}"), offset, what },
        EntryError::Newer(what) => Error::Newer(format!("{location}/{name}: {what}; a newer Kubist wrote it")),
    }
}

pub fn missing_alteration(location: &str, number: u64) -> Error {
    let what = "the file is missing, and columns or metadata with it (salvage saves the rest)".into();
    Error::Damaged { file: format!("{location}/{}", name_of(number)), offset: 0, what }
}

/// True if stored bytes are damaged, the only errors that repair acts on.
pub fn is_damage(error: &Error) -> bool {
    error.kind() == ErrorKind::Corrupt
}

pub fn is_unread(error: &Error) -> bool {
    error.kind() == ErrorKind::Unavailable
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;
    use std::io;

    fn of_io(kind: io::ErrorKind) -> kubist_store::Error {
        kubist_store::Error::Io { operation: "read", file: "t/segments/a.seg".into(), source: kind.into() }
    }

    #[test]
    fn a_failing_storage_is_no_damage_and_stays_reachable() {
        let unreachable = kubist_store::Error::Unreachable { location: "host".into(), why: "no answer".into() };
        for error in [unreachable, of_io(io::ErrorKind::Other), of_io(io::ErrorKind::TimedOut)] {
            assert!(is_transient(&error));
            let error = store_error(error);
            assert!(is_unread(&error) && !is_damage(&error), "{error:?}");
            assert!(error.source().is_some_and(|source| source.is::<kubist_store::Error>()));
        }
        let error = store_error(of_io(io::ErrorKind::PermissionDenied));
        assert_eq!(error.kind(), ErrorKind::Permission);
        let cause = error.source().and_then(|of_store| of_store.source());
        let cause = cause.and_then(|cause| cause.downcast_ref::<io::Error>());
        assert_eq!(cause.map(io::Error::kind), Some(io::ErrorKind::PermissionDenied));
        let missing = store_error(kubist_store::Error::Missing { file: "a".into() });
        assert!(is_damage(&missing) && !is_damage(&Error::Newer("a".into())));
    }
}
