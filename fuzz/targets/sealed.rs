//! Arbitrary bytes as the header, the footer and the tree of names of a sealed file.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| kubist_one::fuzz::sealed(bytes));
