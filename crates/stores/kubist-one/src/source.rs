//! The interface to the bytes of a sealed file.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use kubist_store::{Latency, Result, Traffic, Watch};

/// A file with fixed content that is read by ranges. A source refuses to read once its file was replaced or changed.
pub trait Source: Send + Sync + fmt::Debug {
    /// The location, as the user wrote it, for messages.
    fn location(&self) -> &str;

    /// What a read waits for.
    fn latency(&self) -> Latency;

    /// Reads the last `bytes` bytes, or all if the file is shorter, and returns them with the file's length.
    ///
    /// # Errors
    ///
    /// `Missing` if there is no such file; `Refused` if it was changed; `Io` or `Unreachable`.
    fn tail(&self, bytes: u64) -> Result<(Bytes, u64)>;

    /// Reads ranges inside the file: one `Bytes` per range, in the same order. A source on a network sends all requests
    /// together.
    ///
    /// # Errors
    ///
    /// `Damaged` if bytes of a range are missing; `Refused` if the file was changed; `Io` or `Unreachable`.
    fn read(&self, ranges: &[Range<u64>], watch: Watch<'_>) -> Result<Vec<Bytes>>;

    /// The requests to the service so far, if there is a service.
    fn traffic(&self) -> Option<Traffic> {
        None
    }

    /// Whether the last read waited for a device.
    fn waited(&self) -> bool {
        false
    }
}
