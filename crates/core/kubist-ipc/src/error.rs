//! Errors of reading a message.

use std::fmt;

use arrow_schema::ArrowError;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug)]
pub enum Error {
    /// The source of the bytes failed.
    Io(std::io::Error),
    /// The bytes end too early or contradict each other.
    Damaged(String),
    /// Valid Arrow IPC that this crate does not decode, or a value that is invalid for its type.
    Invalid(String),
    /// `what` needs more bytes than the limit.
    TooLarge { what: &'static str, bytes: u64, most: u64 },
}

impl Error {
    pub(crate) fn of_decoder(error: ArrowError) -> Error {
        match error {
            ArrowError::IoError(_, error) => Error::Io(error),
            ArrowError::ParseError(what) | ArrowError::IpcError(what) => Error::Invalid(what),
            error => Error::Invalid(error.to_string()),
        }
    }

    pub(crate) fn damaged(why: impl fmt::Display) -> Error {
        Error::Damaged(why.to_string())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io(error) => error.fmt(out),
            Error::Damaged(what) | Error::Invalid(what) => out.write_str(what),
            Error::TooLarge { what, bytes, most } => {
                write!(out, "{what} takes {bytes} bytes, and the limit is {most} bytes")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io(error) => Some(error),
            _ => None,
        }
    }
}
