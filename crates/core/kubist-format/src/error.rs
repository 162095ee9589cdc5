//! Why stored bytes cannot be read.

use crate::wire::Short;

/// Why an entry cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub enum EntryError {
    /// The bytes make no sense.
    Bad(String),
    /// It says something that only a newer version understands.
    Newer(String),
}

impl From<Short> for EntryError {
    fn from(_: Short) -> EntryError {
        EntryError::Bad("it ends too early".into())
    }
}
