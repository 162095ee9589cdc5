//! Errors of stored bytes.

use crate::wire::Short;

/// The reason why an entry cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub enum EntryError {
    /// The bytes are invalid.
    Bad(String),
    /// Only a newer version can read the bytes.
    Newer(String),
}

impl From<Short> for EntryError {
    fn from(_: Short) -> EntryError {
        EntryError::Bad("it ends too early".into())
    }
}
