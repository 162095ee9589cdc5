//! Arbitrary bytes as entries of logs, rewrites, checkpoint pages, and the table's header.
#![no_main]

use kubist_format::alteration::Alteration;
use kubist_format::entry::{self, CommitEntry, RewriteEntry};
use kubist_format::{checkpoint, grid, header};
use kubist_index::cube::Geometry;
use kubist_index::forest::Forest;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let [kind, bytes @ ..] = bytes else { return };
    let Some(geometry) = Geometry::new(1 + usize::from(kind / 8 % 8)) else { return };
    let forest = &mut Forest::of(geometry);
    match kind % 8 {
        0 => drop(CommitEntry::decode(bytes, forest)),
        1 => drop(RewriteEntry::decode(bytes, forest)),
        2 => drop(entry::decode_page(bytes, forest)),
        3 => drop(header::decode_header(bytes)),
        4 => drop(grid::decode_grid(bytes, geometry.dimensions())),
        5 => drop(checkpoint::decode_body(bytes, forest)),
        _ => drop(Alteration::decode(bytes)),
    }
});
