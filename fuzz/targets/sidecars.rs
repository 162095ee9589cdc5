//! Arbitrary bytes as the sections of an index of a file, after correct checksums.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // The lengths of the first two sections.
    let [first, second, file, bytes @ ..] = bytes else { return };
    let cut = |share: &u8, bytes: &[u8]| usize::from(*share) * bytes.len() / 255;
    let (description, rest) = bytes.split_at(cut(first, bytes));
    let (tables, blocks) = rest.split_at(cut(second, rest));
    kubist_blocks::fuzz::sections(description, tables, blocks, 16 << (file % 24));
});
