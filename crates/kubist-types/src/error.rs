//! What can go wrong, by what the caller can do about it.
//!
//! Every message names what it is about: the table, the file and offset, the
//! column, the row, the value. Nothing in the engine panics on input.

use std::fmt::Display;

pub type Result<T> = std::result::Result<T, Error>;

/// An error of the engine. The variants say what a caller can do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Fix the input and call again; nothing was written.
    #[error("{0}")]
    Invalid(String),
    /// There is no table here.
    #[error("{location} is not a Kubist table: {why}")]
    NotATable { location: String, why: String },
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
    /// The operating system said no (full disk, permissions, a broken device).
    #[error("{0}")]
    Io(String),
}

impl Error {
    pub fn invalid(message: impl Display) -> Error {
        Error::Invalid(message.to_string())
    }
}

impl From<kubist_expr::ExprError> for Error {
    fn from(error: kubist_expr::ExprError) -> Error {
        match error {
            kubist_expr::ExprError::Stopped => Error::Cancelled,
            mistake => Error::Invalid(mistake.to_string()),
        }
    }
}

impl From<arrow_schema::ArrowError> for Error {
    fn from(error: arrow_schema::ArrowError) -> Error {
        Error::Invalid(error.to_string())
    }
}
