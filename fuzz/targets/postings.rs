//! Arbitrary bytes as the postings of a lookup: a directory that ends with the offset of one block, and the
//! block. The second byte decides where they are split.
#![no_main]

use kubist_format::lookup::postings::Directory;
use libfuzzer_sys::fuzz_target;

mod checked;

fuzz_target!(|bytes: &[u8]| {
    let [runs, cut, bytes @ ..] = bytes else { return };
    let runs = u32::from(*runs);
    let (directory, block) = bytes.split_at(bytes.len() * usize::from(*cut) / 256);
    let mut of_one_block = directory.to_vec();
    of_one_block.extend_from_slice(&0u32.to_le_bytes());
    of_one_block.extend_from_slice(&(block.len() as u32).to_le_bytes());
    of_one_block.extend_from_slice(&crc32c::crc32c(block).to_le_bytes());
    if let Ok(directory) = Directory::decode(&checked::checked(&of_one_block), runs, block.len() as u64) {
        drop(directory.read_block(0, block, None, &mut |_, _| ()));
    }
});
