//! Errors of an ingestion.

use std::any::Any;
use std::fmt;
use std::path::Path;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug)]
pub enum Error {
    Table(kubist::Error),
    File(kubist_files::Error),
    Invalid(String),
    /// Another ingestion reads the same file.
    Busy(String),
    /// The table does not exist, and neither the user nor the files name the columns of positions.
    NoPositions(String),
    Source {
        message: String,
        is_of_file: bool,
        cause: Box<dyn Any + Send + Sync>,
    },
}

impl Error {
    pub(crate) fn invalid(message: impl fmt::Display) -> Error {
        Error::Invalid(message.to_string())
    }

    /// Whether the ingestion can continue with the next file.
    pub fn is_of_file(&self) -> bool {
        match self {
            Error::Table(error) => {
                matches!(error.kind(), kubist::ErrorKind::InvalidInput | kubist::ErrorKind::Busy)
            }
            Error::File(error) => !matches!(error.kind(), kubist_files::Kind::System),
            Error::Invalid(_) | Error::Busy(_) => true,
            Error::NoPositions(_) => false,
            Error::Source { is_of_file, .. } => *is_of_file,
        }
    }

    /// Adds the path if the message lacks it; errors about the whole table are unchanged.
    pub(crate) fn within(self, path: &Path) -> Error {
        let message = named(path, &self.to_string());
        match self {
            Error::Table(error) if error.kind() == kubist::ErrorKind::InvalidInput => Error::Invalid(message),
            Error::Table(error) if error.kind() == kubist::ErrorKind::Busy => Error::Busy(message),
            Error::Invalid(_) => Error::Invalid(message),
            Error::Source { is_of_file: true, cause, .. } => Error::Source { message, is_of_file: true, cause },
            other => other,
        }
    }
}

fn named(path: &Path, message: &str) -> String {
    let text = message.split_whitespace().collect::<Vec<_>>().join(" ");
    let path = path.display().to_string();
    if text.contains(&path) { text } else { format!("{path}: {text}") }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Table(error) => error.fmt(out),
            Error::File(error) => error.fmt(out),
            Error::Invalid(message)
            | Error::Busy(message)
            | Error::NoPositions(message)
            | Error::Source { message, .. } => out.write_str(message),
        }
    }
}

impl std::error::Error for Error {}

impl From<kubist::Error> for Error {
    fn from(error: kubist::Error) -> Error {
        Error::Table(error)
    }
}

impl From<kubist_files::Error> for Error {
    fn from(error: kubist_files::Error) -> Error {
        Error::File(error)
    }
}

#[derive(Debug)]
pub struct Failed {
    pub error: Error,
    /// The files and parts that were committed before the error.
    pub kept: String,
}
