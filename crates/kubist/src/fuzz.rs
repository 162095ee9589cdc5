//! Decoders of what stands in a table's files, for the fuzz targets in `fuzz/`. Not part of
//! the interface.
//!
//! Where bytes carry a checksum, it is made right here: a fuzzer would not get past it.

use kubist_index::cube::Geometry;

use crate::alter::Alteration;
use crate::codec::zone_map::ZoneMap;
use crate::entry::{self, CommitEntry, RewriteEntry};
use crate::lookup::postings::Directory;

/// Reads the entry of a log, or another small object, as what its kind says.
pub fn entry(kind: u8, bytes: &[u8]) {
    let Some(geometry) = Geometry::new(1 + usize::from(kind / 8 % 8)) else { return };
    match kind % 8 {
        0 => drop(CommitEntry::decode(bytes, &geometry)),
        1 => drop(RewriteEntry::decode(bytes, &geometry)),
        2 => drop(entry::decode_page(bytes, &geometry)),
        3 => drop(entry::decode_header(bytes)),
        4 => drop(entry::decode_grid(bytes, geometry.dimensions())),
        _ => drop(Alteration::decode(bytes)),
    }
}

/// Reads a zone map, and every zone of it.
pub fn zone_map(bytes: &[u8]) {
    let Ok(map) = ZoneMap::decode(&checked(bytes)) else { return };
    for (place, column) in map.columns.iter().enumerate() {
        map.whole(place);
        for zone in 0..map.zones() {
            map.zone(zone, column);
        }
    }
}

/// Reads the directory of a lookup's postings that ends with the place of one block, and the
/// block.
pub fn postings(runs: u32, directory: &[u8], block: &[u8]) {
    let mut of_one_block = directory.to_vec();
    of_one_block.extend_from_slice(&0u32.to_le_bytes());
    of_one_block.extend_from_slice(&(block.len() as u32).to_le_bytes());
    of_one_block.extend_from_slice(&crc32c::crc32c(block).to_le_bytes());
    if let Ok(directory) = Directory::decode(&checked(&of_one_block), runs, block.len() as u64) {
        drop(directory.read_block(0, block, None, &mut |_, _| ()));
    }
}

/// Bytes behind their checksum.
fn checked(bytes: &[u8]) -> Vec<u8> {
    let mut checked = crc32c::crc32c(bytes).to_le_bytes().to_vec();
    checked.extend_from_slice(bytes);
    checked
}
