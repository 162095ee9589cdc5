//! Arbitrary bytes as a log: the boundaries of its entries.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    kubist_store::fuzz::log(bytes, bytes.len() as u64);
});
