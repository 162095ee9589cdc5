//! Any bytes as the entries of logs, rewrites, checkpoints' pages, and the table's header.
#![no_main]

use kubist_format::alteration::Alteration;
use kubist_format::entry::{self, CommitEntry, RewriteEntry};
use kubist_format::{grid, header};
use kubist_index::cube::Geometry;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let [kind, bytes @ ..] = bytes else { return };
    let Some(geometry) = Geometry::new(1 + usize::from(kind / 8 % 8)) else { return };
    match kind % 8 {
        0 => drop(CommitEntry::decode(bytes, &geometry)),
        1 => drop(RewriteEntry::decode(bytes, &geometry)),
        2 => drop(entry::decode_page(bytes, &geometry)),
        3 => drop(header::decode_header(bytes)),
        4 => drop(grid::decode_grid(bytes, geometry.dimensions())),
        _ => drop(Alteration::decode(bytes)),
    }
});
