//! Errors of stores, grouped by what the caller can do.

use std::io;
use std::path::Path;

use crate::disk::{Irregular, Sort};

/// The result of every operation on a store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of a store, whose message names the file and, if there is one, the offset.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another process or handle owns the log: wait, or write under another name.
    #[error(
        "writer `{writer}` is busy: {file} is owned by another process or handle; close that one, or write under another name"
    )]
    Busy {
        /// The writer's name.
        writer: String,
        /// The file's path or address.
        file: String,
    },

    /// Stored bytes differ from the bytes that were written. Restore the file or read around it; a retry does not help.
    #[error("{file} is damaged at byte {offset}: {what}")]
    Damaged {
        /// The file's path or address.
        file: String,
        /// The position in the file.
        offset: u64,
        /// The kind of damage.
        what: String,
    },

    /// A link, pipe, device or folder is at the path of a store's file, or a file or link at the path of a folder.
    /// Nothing was read or written: restore the file, or read around it.
    #[error("{file} is {found}, not {wanted}")]
    Irregular {
        /// The file's path or address.
        file: String,
        /// The type at the path.
        found: Sort,
        /// The expected type.
        wanted: Sort,
    },

    /// There is no such directory, segment or log.
    #[error("{file} does not exist")]
    Missing {
        /// The file's path or address.
        file: String,
    },

    /// The name of a new segment is taken: choose another one, because names are never reused.
    #[error("{file} exists already")]
    Exists {
        /// The file's path or address.
        file: String,
    },

    /// The name is not allowed: choose another one.
    #[error("`{name}` cannot be used as a name: {why}")]
    InvalidName {
        /// The name.
        name: String,
        /// The reason.
        why: String,
    },

    /// The disk or the quota is full: free space, then open a new handle.
    #[error("no space left to {operation} {file}")]
    NoSpace {
        /// The failed operation, a verb.
        operation: &'static str,
        /// The file's path or address.
        file: String,
    },

    /// This handle failed earlier and does not know the state on disk: open a new handle.
    #[error("{file}: this handle stopped after an earlier failure ({cause}); open it again")]
    Refused {
        /// The file's path or address.
        file: String,
        /// The earlier failure.
        cause: String,
    },

    /// A newer Kubist wrote the file, and is needed to read it.
    #[error("{file} has format version {found}, but this program reads versions up to {known}; use a newer Kubist")]
    Newer {
        /// The file's path or address.
        file: String,
        /// The file's version.
        found: u32,
        /// The newest version that this program reads.
        known: u32,
    },

    /// A partial copy does not hold these bytes. Fetch them, or ask for less.
    #[error("{location} is a partial copy without {bytes} of the bytes that were read")]
    NotHere {
        /// The location of the store.
        location: String,
        /// The number of bytes that are missing.
        bytes: u64,
    },

    /// The call was cancelled while it waited ([`stoppable`](crate::stoppable)). The outcome of its last request is
    /// unknown.
    #[error("{location}: the call was stopped while it waited")]
    Stopped {
        /// The location of the store.
        location: String,
    },

    /// A network store or too many of its hosts do not respond. The outcome of the last request is unknown. Check the
    /// service, then try again.
    #[error("{location} cannot be reached: {why}")]
    Unreachable {
        /// The location of the store.
        location: String,
        /// The request and the response.
        why: String,
    },

    /// The operating system refused the operation; `source` has the reason.
    #[error("cannot {operation} {file}: {source}")]
    Io {
        /// The failed operation, a verb.
        operation: &'static str,
        /// The file's path or address.
        file: String,
        /// The system's error.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn io(operation: &'static str, file: &Path, source: io::Error) -> Error {
        if let Some(Irregular { path, sort, wanted }) = source.get_ref().and_then(|source| source.downcast_ref()) {
            let file = path.display().to_string();
            return Error::Irregular { file, found: *sort, wanted: *wanted };
        }
        let file = file.display().to_string();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::NoSpace { operation, file },
            _ => Error::Io { operation, file, source },
        }
    }

    pub(crate) fn damaged(file: impl Into<String>, offset: u64, what: impl Into<String>) -> Error {
        Error::Damaged { file: file.into(), offset, what: what.into() }
    }
}
