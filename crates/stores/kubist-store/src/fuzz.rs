//! What reads bytes of a log, for the fuzz targets in `fuzz/`. Not part of the interface.

use bytes::Bytes;

use crate::frame::{frame, frames};

/// Takes a log apart that begins at `position`, once as it is and once behind a frame that is
/// sound; says how many entries it has.
pub fn log(bytes: &[u8], position: u64) -> usize {
    let found = frames(&Bytes::copy_from_slice(bytes), position);
    let Some(mut framed) = frame(position, bytes) else { return found.entries.len() };
    framed.extend_from_slice(bytes);
    found.entries.len() + frames(&Bytes::from(framed), position).entries.len()
}
