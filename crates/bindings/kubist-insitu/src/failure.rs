//! An error that can be cloned and passed to another process.

use kubist::{Error, ErrorKind};

pub type Result<T> = std::result::Result<T, Failure>;

#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    pub kind: ErrorKind,
    pub message: String,
}

impl Failure {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Failure {
        Failure { kind, message: message.into() }
    }

    /// The same error with a kind that tells later callers not to wait.
    pub fn lasting(self) -> Failure {
        match self.kind {
            ErrorKind::Busy | ErrorKind::Cancelled => Failure { kind: ErrorKind::Unavailable, ..self },
            _ => self,
        }
    }

    pub fn invalid(message: impl Into<String>) -> Failure {
        Failure::new(ErrorKind::InvalidInput, message)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::new(error.kind(), error.to_string())
    }
}
