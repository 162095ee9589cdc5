//! Any bytes as the entries of logs, rewrites, checkpoints' pages, and the table's header.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let [kind, bytes @ ..] = bytes {
        kubist::fuzz::entry(*kind, bytes);
    }
});
