//! What can go wrong, by what the caller can do about it.
//!
//! Every message names what it is about: the table, the file and offset, the
//! column, the row, the value. Nothing in the engine panics on input.
//!
//! [`Error::kind`] is what doors decide by: exit codes, HTTP status and exception classes.
//! `# Errors` sections name variants of [`Error`]. They call `Unavailable`, `NoSpace`, `Permission`
//! and `Unsupported` together a **storage error**: an operation of the storage failed, which says
//! nothing of the bytes in it.
//!
//! No error of a foreign crate becomes one of these by itself: the code that meets it decides what it
//! means, for the same failure of a library is a mistake of the caller in one context and
//! damage in another.

use std::fmt::Display;
use std::io;

use arrow_schema::ArrowError;
use kubist_expr::ExprError;

pub type Result<T> = std::result::Result<T, Error>;

/// The error that was the cause, of whatever crate.
pub type Source = Box<dyn std::error::Error + Send + Sync>;

/// What a caller can do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Fix the input and call again; nothing was written.
    InvalidInput,
    /// Stored bytes are not what was written: reading them again gives the same answer.
    Corrupt,
    /// The storage does not answer, or an operation of it failed. It says nothing of the
    /// bytes that are kept there: try again.
    Unavailable,
    /// The disk or the quota is full: make room.
    NoSpace,
    /// Who runs this may not do that.
    Permission,
    /// Someone else holds it: wait, or use another name.
    Busy,
    /// A handle or a snapshot that cannot be used any more: take a fresh one.
    Expired,
    /// The caller stopped it; the table is as before.
    Cancelled,
    /// This version of Kubist cannot do it: upgrade.
    Unsupported,
    /// There is no table here.
    NotFound,
    /// Something is already here.
    Exists,
    /// A mistake in Kubist itself: report it.
    Internal,
}

impl ErrorKind {
    /// What a failed operation of the operating system means, when it was asked to read or
    /// write what should be there.
    pub fn of_io(error: &io::Error) -> ErrorKind {
        use io::ErrorKind as Io;
        match error.kind() {
            Io::StorageFull | Io::QuotaExceeded => ErrorKind::NoSpace,
            Io::PermissionDenied | Io::ReadOnlyFilesystem => ErrorKind::Permission,
            Io::Unsupported => ErrorKind::Unsupported,
            _ => ErrorKind::Unavailable,
        }
    }
}

/// A failure of the storage: what was tried, and the error that came of it.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    message: String,
    #[source]
    source: Source,
}

/// An error of the engine. The variants say what happened, [`Error::kind`] what a caller can
/// do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Fix the input and call again; nothing was written.
    #[error("{0}")]
    Invalid(String),
    /// A condition or an expression makes no sense: fix it and call again.
    #[error("{0}")]
    Expression(#[source] ExprError),
    /// There is no table here.
    #[error("{location} is not a Kubist table: {why}")]
    NotATable { location: String, why: String },
    /// There is nothing here at all. `hint` says what may be meant, or is empty.
    #[error("{location} does not exist{hint}")]
    Missing { location: String, hint: String },
    /// Something is already here.
    #[error("{location} already exists: {why}")]
    Exists { location: String, why: String },
    /// Bytes on disk are not what was written. Other parts may still be sound.
    #[error("damaged data in {file} at byte {offset}: {what}")]
    Damaged { file: String, offset: u64, what: String },
    /// The table was written by a newer Kubist: upgrade.
    #[error("{0}")]
    Newer(String),
    /// Someone else holds it: wait, or use another name.
    #[error("{0}")]
    Busy(String),
    /// The files of this snapshot were cleaned away: take a fresh snapshot.
    #[error("the snapshot of {location} has expired: {why}")]
    SnapshotExpired { location: String, why: String },
    /// Another table is at the location, or another history of the same one: open it again.
    #[error("the table at {location} was replaced by another: {why}; open it again")]
    Replaced { location: String, why: String },
    /// The call was cancelled; the table is as before.
    #[error("cancelled")]
    Cancelled,
    /// A handle was used in a process forked from the one that opened it.
    #[error("this handle of {location} was opened before a fork: open the table again in this process")]
    Forked { location: String },
    /// An earlier write or sync failed: this writer refuses to go on. What was
    /// acknowledged is safe; open a new writer to continue.
    #[error("{0}")]
    Refused(String),
    /// The storage could not be asked, or failed to answer. Nothing is known of the bytes
    /// that were to be read or written: try again.
    #[error(transparent)]
    Unavailable(Failure),
    /// The disk or the quota is full.
    #[error(transparent)]
    NoSpace(Failure),
    /// The operating system does not permit it.
    #[error(transparent)]
    Permission(Failure),
    /// The operating system or the storage cannot do it.
    #[error(transparent)]
    Unsupported(Failure),
    /// A mistake in Kubist itself.
    #[error("{0}")]
    Internal(String),
}

impl Error {
    pub fn invalid(message: impl Display) -> Error {
        Error::Invalid(message.to_string())
    }

    /// What must not happen, whatever the input.
    pub fn internal(message: impl Display) -> Error {
        Error::Internal(message.to_string())
    }

    /// A failed kernel of Arrow, over values that fit it by the way they were made. Only that
    /// they are more than one array can hold is the caller's.
    pub fn kernel(error: ArrowError) -> Error {
        match error {
            ArrowError::OffsetOverflowError(_) => Error::invalid(format!("{error}: ask for fewer records at once")),
            error => Error::Internal(error.to_string()),
        }
    }

    /// A failed operation of the operating system; `message` says which, and why.
    pub fn io(message: impl Display, source: io::Error) -> Error {
        Error::storage(ErrorKind::of_io(&source), message, source)
    }

    /// A failure of the storage, of one of its kinds; of any other it is unavailable.
    pub fn storage(kind: ErrorKind, message: impl Display, source: impl Into<Source>) -> Error {
        let failure = Failure { message: message.to_string(), source: source.into() };
        match kind {
            ErrorKind::NoSpace => Error::NoSpace(failure),
            ErrorKind::Permission => Error::Permission(failure),
            ErrorKind::Unsupported => Error::Unsupported(failure),
            _ => Error::Unavailable(failure),
        }
    }

    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Invalid(_) | Error::Expression(_) => ErrorKind::InvalidInput,
            Error::NotATable { .. } | Error::Missing { .. } => ErrorKind::NotFound,
            Error::Exists { .. } => ErrorKind::Exists,
            Error::Damaged { .. } => ErrorKind::Corrupt,
            Error::Newer(_) | Error::Unsupported(_) => ErrorKind::Unsupported,
            Error::Busy(_) => ErrorKind::Busy,
            Error::SnapshotExpired { .. } | Error::Replaced { .. } | Error::Forked { .. } | Error::Refused(_) => {
                ErrorKind::Expired
            }
            Error::Cancelled => ErrorKind::Cancelled,
            Error::Unavailable(_) => ErrorKind::Unavailable,
            Error::NoSpace(_) => ErrorKind::NoSpace,
            Error::Permission(_) => ErrorKind::Permission,
            Error::Internal(_) => ErrorKind::Internal,
        }
    }
}

/// A filter or a value that is wrong is the caller's. A batch that does not fit the schema that an
/// expression was bound to is the engine's.
impl From<ExprError> for Error {
    fn from(error: ExprError) -> Error {
        match error {
            ExprError::Stopped => Error::Cancelled,
            ExprError::Batch { .. } => Error::internal(error),
            mistake => Error::Expression(mistake),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    #[test]
    fn a_failure_of_the_system_keeps_its_kind_and_its_cause() {
        let kinds = [
            (io::ErrorKind::StorageFull, ErrorKind::NoSpace),
            (io::ErrorKind::QuotaExceeded, ErrorKind::NoSpace),
            (io::ErrorKind::PermissionDenied, ErrorKind::Permission),
            (io::ErrorKind::ReadOnlyFilesystem, ErrorKind::Permission),
            (io::ErrorKind::TimedOut, ErrorKind::Unavailable),
            (io::ErrorKind::Interrupted, ErrorKind::Unavailable),
            (io::ErrorKind::Other, ErrorKind::Unavailable),
        ];
        for (of_system, kind) in kinds {
            let error = Error::io("cannot read t/grid", of_system.into());
            assert_eq!((error.kind(), error.to_string().as_str()), (kind, "cannot read t/grid"));
            let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
            assert_eq!(source.map(io::Error::kind), Some(of_system));
        }
    }

    #[test]
    fn a_wrong_expression_stays_its_own_cause() {
        let wrong = ExprError::TooDeep { limit: 64 };
        let error = Error::from(wrong.clone());
        assert_eq!((error.kind(), error.to_string()), (ErrorKind::InvalidInput, wrong.to_string()));
        assert_eq!(error.source().and_then(|source| source.downcast_ref()), Some(&wrong));
        assert_eq!(Error::from(ExprError::Stopped).kind(), ErrorKind::Cancelled);
        let (column, expected) = ("x".to_string(), arrow_schema::DataType::Int64);
        let misfit = ExprError::Batch { column, expected, found: String::new() };
        assert_eq!(Error::from(misfit).kind(), ErrorKind::Internal);
    }
}
