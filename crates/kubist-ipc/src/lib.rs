//! Arrow IPC from anybody: files, stored bytes, answers of a server.
//!
//! The `arrow-ipc` crate decodes messages that are right. It panics on some that are not (a
//! buffer that ends behind its message or within a number, a union at an odd address, a negative
//! width), and takes memory for lengths that it was only told. So each message is looked at first: where its
//! buffers lie, how long they are and what they say that they inflate to is compared with the
//! bytes that are there and with a bound, and only columns of plain types are decoded. The
//! decoder then validates the values.
//!
//! This crate knows no files and no tables.

mod decoder;
mod error;
mod layout;
mod plain;
mod stream;

pub use decoder::Decoder;
pub use error::{Error, Result};
pub use plain::is_plain;
pub use stream::Stream;

/// Metadata of a message, or of a file, longer than this describes no table.
pub const LONGEST_METADATA: u64 = 64 << 20;

/// A length or a place, which cannot be negative.
pub fn whole(number: i64, what: &str) -> Result<u64> {
    u64::try_from(number).map_err(|_| Error::Damaged(format!("{what} is {number}")))
}
