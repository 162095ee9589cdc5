//! Errors of stored bytes.

use crate::wire::UnexpectedEnd;

#[derive(Clone, Debug, PartialEq)]
pub enum EntryError {
    Bad(String),
    /// Only a newer version can read the bytes.
    Newer(String),
}

impl From<UnexpectedEnd> for EntryError {
    fn from(_: UnexpectedEnd) -> EntryError {
        EntryError::Bad("it ends too early".into())
    }
}
