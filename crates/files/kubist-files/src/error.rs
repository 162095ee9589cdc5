//! Errors of files, grouped by what the caller can do.

use std::fmt::{self, Display};
use std::io::ErrorKind;
use std::path::Path;

use arrow_schema::ArrowError;
use parquet::errors::ParquetError;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// The file is damaged, has another format, or lacks a requested column.
    Invalid,
    /// The file exceeds one of [`crate::Limits`]; for a trusted source, the limit can be raised.
    Limit,
    Missing,
    /// The operating system refused the operation; the source has the reason.
    System,
}

/// The error of a file; its message is one line and names the file.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    message: String,
    source: Option<std::io::Error>,
}

impl Error {
    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn invalid(message: impl Display) -> Error {
        Error { kind: Kind::Invalid, message: message.to_string(), source: None }
    }

    /// The error if `what` exceeds `limit`, which `option` sets.
    pub(crate) fn limit(what: impl Display, limit: impl Display, option: &str) -> Error {
        let message = format!("{what}, and the limit is {limit} ({option} sets it)");
        Error { kind: Kind::Limit, message, source: None }
    }

    pub(crate) fn system(error: std::io::Error) -> Error {
        let error = match error.downcast::<Error>() {
            Ok(own) => return own,
            Err(error) => error,
        };
        let kind = match error.kind() {
            ErrorKind::NotFound => Kind::Missing,
            ErrorKind::InvalidData | ErrorKind::InvalidInput | ErrorKind::UnexpectedEof => Kind::Invalid,
            ErrorKind::Other if error.raw_os_error().is_none() => Kind::Invalid,
            _ => Kind::System,
        };
        let message = match kind {
            Kind::Missing => "no such file or directory".to_string(),
            _ => io_message(&error),
        };
        Error { kind, message, source: Some(error) }
    }

    pub(crate) fn io(path: &Path, error: std::io::Error) -> Error {
        Error::system(error).within(path.display())
    }

    pub(crate) fn arrow(path: &Path, error: ArrowError) -> Error {
        match error {
            ArrowError::IoError(_, error) => Error::io(path, error),
            ArrowError::CsvError(what) | ArrowError::ParseError(what) | ArrowError::IpcError(what) => {
                Error::invalid(what).within(path.display())
            }
            error => Error::invalid(error).within(path.display()),
        }
    }

    pub(crate) fn parquet(path: &Path, error: ParquetError) -> Error {
        match error {
            ParquetError::External(error) => match error.downcast::<std::io::Error>() {
                Ok(error) => Error::io(path, *error),
                Err(error) => Error::invalid(error).within(path.display()),
            },
            error => Error::invalid(error).within(path.display()),
        }
    }

    /// Prepends the location of the error.
    pub(crate) fn within(self, context: impl Display) -> Error {
        Error { message: format!("{context}: {}", self.message), ..self }
    }
}

/// Formats a system error: a file ends early, where the standard library says that a buffer was not filled.
pub(crate) fn io_message(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::UnexpectedEof if error.get_ref().is_none() => {
            "the file is truncated: it ends before its last value".to_string()
        }
        _ => error.to_string(),
    }
}

impl Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}

/// Carries an error through the reader of another crate.
impl From<Error> for std::io::Error {
    fn from(error: Error) -> std::io::Error {
        std::io::Error::other(error)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_missing_file_is_named() {
        let path = Path::new("no/such/file");
        let error = Error::io(path, std::fs::File::open(path).unwrap_err());
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (Kind::Missing, "no/such/file: no such file or directory")
        );
        assert!(std::error::Error::source(&error).is_some());
    }

    #[test]
    fn a_truncated_file_is_named() {
        let error = Error::io(Path::new("a.npy"), (&b"ab"[..]).read_exact(&mut [0; 3]).unwrap_err());
        let message = "a.npy: the file is truncated: it ends before its last value";
        assert_eq!((error.kind(), error.to_string().as_str()), (Kind::Invalid, message));
    }

    #[test]
    fn our_own_words_survive_a_foreign_reader() {
        let limit = Error::limit("line 3 has 9 bytes", 8, "read option max_record");
        let error = Error::io(Path::new("a.csv"), limit.into());
        let message = "a.csv: line 3 has 9 bytes, and the limit is 8 (read option max_record sets it)";
        assert_eq!((error.kind(), error.to_string().as_str()), (Kind::Limit, message));
    }
}
