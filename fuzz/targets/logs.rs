//! Any bytes as a log: where its entries begin and end.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    kubist_store::fuzz::log(bytes, bytes.len() as u64);
});
