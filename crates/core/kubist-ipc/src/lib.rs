//! Arrow IPC from untrusted sources: files, stored bytes, answers of a server.
//!
//! The `arrow-ipc` crate decodes valid messages. It panics on some invalid ones (a buffer that
//! ends behind its message or within a number, a union at an odd address, a negative width), and
//! reserves memory for any length that a message states. Each message is therefore checked first:
//! the offset and length of each buffer, and the length that it states to inflate to, are compared
//! with the bytes that are there and with a bound. Only columns of plain types are decoded. The
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

/// A length or an offset, which cannot be negative.
///
/// # Errors
///
/// [`Error::Damaged`] if it is.
pub fn whole(number: i64, what: &str) -> Result<u64> {
    u64::try_from(number).map_err(|_| Error::Damaged(format!("{what} is {number}")))
}
