//! Entry point of the fuzz targets.

use crate::sidecar;
use crate::source::Key;

/// Parses the sections of an index, after their checksums. The indexed file has `bytes` bytes.
pub fn sections(description: &[u8], tables: &[u8], blocks: &[u8], bytes: u64) {
    let sections = [description.to_vec(), tables.to_vec(), blocks.to_vec()];
    if let Ok(index) = sidecar::parsed(&sections, Key { bytes, modified: 0, hash: 0 }) {
        assert!(index.layout.check(bytes).is_ok());
    }
}
