//! What can go wrong with bytes, sorted by what the caller can do about it.

use std::io;
use std::path::Path;

use crate::disk::{Irregular, Sort};

/// The result of every operation on a store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a store could not do as asked. Messages name the file and, where there
/// is one, the offset in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another process or handle owns the log. Wait for it, or write under another name.
    #[error(
        "writer `{writer}` is busy: {file} is owned by another process or handle; close that one, or write under another name"
    )]
    Busy {
        /// The writer's name.
        writer: String,
        /// The file, as a path or an address.
        file: String,
    },

    /// Stored bytes are not what was written. Restore the file, or read around
    /// it; asking again gives the same answer.
    #[error("{file} is damaged at byte {offset}: {what}")]
    Damaged {
        /// The file, as a path or an address.
        file: String,
        /// Where in the file.
        offset: u64,
        /// What is wrong with it.
        what: String,
    },

    /// A link, a pipe, a device or a folder stands where a file of the store belongs, or a
    /// file or link where a folder does. Nothing was read from it or written to it. Restore
    /// what belongs there, or read around it.
    #[error("{file} is {found}, not {wanted}")]
    Irregular {
        /// The file, as a path or an address.
        file: String,
        /// What stands there.
        found: Sort,
        /// What belongs there.
        wanted: Sort,
    },

    /// There is no such directory, segment or log.
    #[error("{file} does not exist")]
    Missing {
        /// The file, as a path or an address.
        file: String,
    },

    /// The name of a new segment is taken. Choose another: names are not reused.
    #[error("{file} exists already")]
    Exists {
        /// The file, as a path or an address.
        file: String,
    },

    /// The name cannot be used. Choose another.
    #[error("`{name}` cannot be used as a name: {why}")]
    InvalidName {
        /// The name.
        name: String,
        /// Why not.
        why: String,
    },

    /// The disk or the quota is full. Make room, then open a fresh handle.
    #[error("no space left to {operation} {file}")]
    NoSpace {
        /// What was to be done: a verb.
        operation: &'static str,
        /// The file, as a path or an address.
        file: String,
    },

    /// This handle met an error earlier and cannot know any more what is on
    /// disk. Drop it and open a fresh one, which looks.
    #[error("{file}: this handle stopped after an earlier failure ({cause}); open it again")]
    Refused {
        /// The file, as a path or an address.
        file: String,
        /// The earlier failure.
        cause: String,
    },

    /// A newer Kubist wrote the file. Use that version, or a newer one.
    #[error("{file} has format version {found}, this program knows versions up to {known}")]
    Newer {
        /// The file, as a path or an address.
        file: String,
        /// The file's version.
        found: u32,
        /// The newest version that this program reads.
        known: u32,
    },

    /// The call was ended while it waited ([`stoppable`](crate::stoppable)). Nothing is known of what
    /// was asked last.
    #[error("{location}: the call was stopped while it waited")]
    Stopped {
        /// Where the store is.
        location: String,
    },

    /// A store on the network does not answer, or too few of its hosts do. Nothing is known of
    /// what was asked last. Look after it, then try again.
    #[error("{location} cannot be reached: {why}")]
    Unreachable {
        /// Where it is.
        location: String,
        /// What was tried, and what came back.
        why: String,
    },

    /// The operating system refused; the source says why.
    #[error("cannot {operation} {file}: {source}")]
    Io {
        /// What was to be done: a verb.
        operation: &'static str,
        /// The file, as a path or an address.
        file: String,
        /// The system's error.
        source: io::Error,
    },
}

impl Error {
    /// `source` happened while doing `operation` (a verb, "write") to `file`.
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
