//! Any bytes as the postings of a lookup: a directory and a block, cut where the first byte says.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let [runs, cut, bytes @ ..] = bytes {
        let (directory, block) = bytes.split_at(bytes.len() * usize::from(*cut) / 256);
        kubist::fuzz::postings(u32::from(*runs), directory, block);
    }
});
