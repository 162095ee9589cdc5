//! Arbitrary bytes as the body of a request to the server.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| kubist_server::fuzz::body(bytes));
