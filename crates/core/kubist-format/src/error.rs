//! Errors of stored bytes.

use crate::wire::Short;

#[derive(Clone, Debug, PartialEq)]
pub enum EntryError {
    Bad(String),
    /// Only a newer version can read the bytes.
    Newer(String),
}

impl From<Short> for EntryError {
    fn from(_: Short) -> EntryError {
        EntryError::Bad("it ends too early".into())
    }
}
