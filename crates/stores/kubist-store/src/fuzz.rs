//! Entry point of the fuzz targets in `fuzz/`; not part of the public interface.

use bytes::Bytes;

use crate::frame::{frame, frames};

/// Parses a log that begins at `position`, alone and after a valid frame, and returns the number of entries.
pub fn log(bytes: &[u8], position: u64) -> usize {
    let found = frames(&Bytes::copy_from_slice(bytes), position);
    let Some(mut framed) = frame(position, bytes) else { return found.entries.len() };
    framed.extend_from_slice(bytes);
    found.entries.len() + frames(&Bytes::from(framed), position).entries.len()
}
