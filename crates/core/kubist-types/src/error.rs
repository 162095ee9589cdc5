//! Errors of the engine, classified by the caller's next action.
//!
//! Every message names the table, the file and offset, the column, the row or the value. No input makes the
//! engine panic.
//!
//! [`Error::kind`] determines exit codes, HTTP status codes and exception classes. In `# Errors` sections, a
//! **storage error** means `Unavailable`, `NoSpace`, `Permission` or `Unsupported`: an operation failed, but
//! the stored bytes may be intact.
//!
//! Errors of other crates, except `kubist-expr`, are not converted automatically: the same library error can be
//! the caller's mistake or damage.

use std::fmt::Display;
use std::io;

use arrow_schema::ArrowError;
use kubist_expr::ExprError;

use crate::human;

pub type Result<T> = std::result::Result<T, Error>;

pub type Source = Box<dyn std::error::Error + Send + Sync>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Fix the input and call again. Nothing was written.
    InvalidInput,
    /// Stored bytes differ from the written bytes. Reading again gives the same error.
    Corrupt,
    /// The storage does not respond, or an operation failed: try again.
    Unavailable,
    /// The disk or the quota is full: free space.
    NoSpace,
    /// The user has no permission for this operation.
    Permission,
    /// Another process holds it: wait, or use another name.
    Busy,
    /// The handle or snapshot is no longer valid: open a new one.
    Expired,
    /// The caller cancelled the call. The table is unchanged.
    Cancelled,
    /// This version of Kubist does not support it: upgrade.
    Unsupported,
    /// There is no table at this location.
    NotFound,
    /// A partial copy does not hold the data: fetch it, or ask for less.
    NotHere,
    /// Something already exists at this location.
    Exists,
    /// A bug in Kubist: report it.
    Internal,
}

impl ErrorKind {
    /// The kind of a failed system operation on a file that should exist.
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

#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    message: String,
    #[source]
    source: Source,
}

/// The variant says what happened; [`Error::kind`] says what a caller can do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("{0}")]
    Invalid(String),
    #[error("{0}")]
    Expression(#[source] ExprError),
    #[error("{location} is not a Kubist table: {why}")]
    NotATable { location: String, why: String },
    /// Nothing exists at this location. `hint` suggests another one, or is empty.
    #[error("{location} does not exist{hint}")]
    Missing { location: String, hint: String },
    #[error("{location} already exists: {why}")]
    Exists { location: String, why: String },
    /// Stored bytes differ from the written bytes. Other parts of the table may be intact.
    #[error("damaged data in {file} at byte {offset}: {what}")]
    Damaged { file: String, offset: u64, what: String },
    /// A newer Kubist wrote the table: upgrade.
    #[error("{0}")]
    Newer(String),
    #[error("{0}")]
    Busy(String),
    /// `clean` deleted the files of this snapshot: open a new one.
    #[error("the snapshot of {location} has expired: {why}")]
    SnapshotExpired { location: String, why: String },
    /// Another table, or another history of the same table, is at the location: open it again.
    #[error("the table at {location} was replaced by another: {why}; open it again")]
    Replaced { location: String, why: String },
    /// A partial copy does not hold all data of a query: fetch it, or ask for less.
    #[error(
        "{location} is a partial copy and lacks about {} of this query: deepen it, fetch the rest, or ask for a smaller \
         sample or region",
        human::bytes(*.bytes)
    )]
    NotHere { location: String, bytes: u64 },
    #[error("cancelled")]
    Cancelled,
    /// A handle was used in a forked process.
    #[error("this handle of {location} was opened before a fork: open the table again in this process")]
    Forked { location: String },
    /// An earlier write or sync failed, so this writer stops; acknowledged commits are safe, and a new writer can
    /// continue.
    #[error("{0}")]
    Refused(String),
    /// The storage could not be reached or failed, so the outcome is unknown.
    #[error(transparent)]
    Unavailable(Failure),
    #[error(transparent)]
    NoSpace(Failure),
    #[error(transparent)]
    Permission(Failure),
    #[error(transparent)]
    Unsupported(Failure),
    #[error("{0}")]
    Internal(String),
}

impl Error {
    pub fn invalid(message: impl Display) -> Error {
        Error::Invalid(message.to_string())
    }

    pub fn internal(message: impl Display) -> Error {
        Error::Internal(message.to_string())
    }

    /// Internal, because the inputs of an Arrow kernel fit by construction, unless a result exceeds the largest
    /// array.
    pub fn kernel(error: ArrowError) -> Error {
        match error {
            ArrowError::OffsetOverflowError(_) => Error::invalid(format!("{error}: ask for fewer records at once")),
            error => Error::Internal(error.to_string()),
        }
    }

    /// `message` names the failed system operation and its purpose.
    pub fn io(message: impl Display, source: io::Error) -> Error {
        Error::storage(ErrorKind::of_io(&source), message, source)
    }

    /// Wraps a storage error; any other kind becomes `Unavailable`.
    pub fn storage(kind: ErrorKind, message: impl Display, source: impl Into<Source>) -> Error {
        let failure = Failure { message: message.to_string(), source: source.into() };
        match kind {
            ErrorKind::NoSpace => Error::NoSpace(failure),
            ErrorKind::Permission => Error::Permission(failure),
            ErrorKind::Unsupported => Error::Unsupported(failure),
            _ => Error::Unavailable(failure),
        }
    }

    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Invalid(_) | Error::Expression(_) => ErrorKind::InvalidInput,
            Error::NotATable { .. } | Error::Missing { .. } => ErrorKind::NotFound,
            Error::Exists { .. } => ErrorKind::Exists,
            Error::NotHere { .. } => ErrorKind::NotHere,
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

/// Wrong conditions and values are the caller's mistake; a batch that does not fit the bound expression is
/// internal.
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
