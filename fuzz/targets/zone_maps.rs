//! Any bytes, behind a right checksum, as the zone map of a run.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| kubist::fuzz::zone_map(bytes));
