//! Errors of the dictionary.

use std::io;

/// The result of every operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of a dictionary, whose message names the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another handle or process writes to the keyspace.
    #[error("{file} is busy: another handle or process writes to it")]
    Busy {
        /// The file.
        file: String,
    },
    /// Stored bytes differ from the bytes that were written.
    #[error("{file} is damaged at byte {offset}: {what}")]
    Damaged {
        /// The file.
        file: String,
        /// The position.
        offset: u64,
        /// The kind of damage.
        what: String,
    },
    /// The input is wrong: a name, a key or a value.
    #[error("{0}")]
    Invalid(String),
    /// An earlier write of this handle failed, so the state on disk is unknown until the keyspace is opened again.
    #[error("{file}: this handle stopped after an earlier failure ({cause}); open it again")]
    Stopped {
        /// The file.
        file: String,
        /// The earlier failure.
        cause: String,
    },
    /// A newer Kubist wrote the file.
    #[error("{file} has format version {found}, but this program reads version {known}; use a newer Kubist")]
    Newer {
        /// The file.
        file: String,
        /// The file's version.
        found: u32,
        /// The version that this program reads.
        known: u32,
    },
    /// There is no such keyspace.
    #[error("{file} does not exist")]
    Missing {
        /// The file.
        file: String,
    },
    /// The operating system refused the operation.
    #[error("cannot {operation} {file}: {source}")]
    Io {
        /// The failed operation, a verb.
        operation: &'static str,
        /// The file.
        file: String,
        /// The system's error.
        source: io::Error,
    },
}
