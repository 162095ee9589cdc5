//! Arbitrary bytes as the parts of a digest after their checksums: its head, the page about pages, the list
//! of places and a block of it. Also as the index of a lookup's directory, with a chunk and a stretch.
#![no_main]

use kubist_format::digest::{Head, Places, decode_abstracts};
use kubist_format::lookup::postings::Index;
use kubist_index::cube::Geometry;
use kubist_index::forest::Forest;
use libfuzzer_sys::fuzz_target;

mod checked;

fuzz_target!(|bytes: &[u8]| {
    let [kind, cut, bytes @ ..] = bytes else { return };
    let (bytes, part) = bytes.split_at(bytes.len() * usize::from(*cut) / 256);
    match kind % 4 {
        0 => drop(Head::decode(bytes)),
        1 => {
            let Some(geometry) = Geometry::new(1 + usize::from(kind / 4 % 8)) else { return };
            drop(decode_abstracts(&checked::checked(bytes), part.len(), &mut Forest::of(geometry)));
        }
        2 => {
            let Ok(places) = Places::decode(&checked::checked(bytes)) else { return };
            for of in places.lookups.iter().filter(|of| of.blocks() > 0) {
                let last = of.blocks() - 1;
                let pages = of.block(last, checked::checked(part).into());
                let _ = (of.place(last), pages.map(|block| block.page(block.runs.start)));
            }
        }
        _ => {
            let runs = 40 * u32::from(kind / 4);
            let Ok(index) = Index::decode(&checked::checked(bytes), runs, u64::MAX, part.len() as u32) else { return };
            for chunk in index.chunks_of(&[0, 1 << 31, u32::MAX]) {
                let _ = (index.chunk(chunk), index.part(&[chunk], &[part]));
            }
            for stretch in index.stretches_of(&[0, 1, u32::MAX]) {
                let _ = (index.stretch(stretch), index.firsts(stretch, part));
            }
        }
    }
});
