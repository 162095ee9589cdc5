//! Arrow IPC from untrusted sources: files, stored bytes, responses of a server.
//!
//! The `arrow-ipc` crate panics on some invalid messages: a buffer that ends outside its message or within a
//! number, a misaligned union, a negative width. It also allocates any length that a message states. So this
//! crate first compares each buffer's offset, length and decompressed length with the existing bytes and a
//! limit. It decodes only columns of plain types, and the decoder validates their values.

mod decoder;
mod error;
mod layout;
mod plain;
mod stream;

pub use decoder::Decoder;
pub use error::{Error, Result};
pub use plain::is_plain;
pub use stream::Stream;

/// Bytes of the longest metadata of a message or file.
pub const LONGEST_METADATA: u64 = 64 << 20;

/// Checks that a number is not negative; `what` names it in the error.
///
/// # Errors
///
/// [`Error::Damaged`] if it is negative.
pub fn unsigned(number: i64, what: &str) -> Result<u64> {
    u64::try_from(number).map_err(|_| Error::Damaged(format!("{what} is {number}")))
}
