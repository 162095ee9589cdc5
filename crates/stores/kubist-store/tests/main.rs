//! Tests of the local store and the simulated disk, as one program: `--test it crash::` runs those of `crash.rs`.

mod common;

#[rustfmt::skip] // as it stands on the page
#[path = "example/bucket.rs"]
mod bucket;
#[rustfmt::skip]
#[path = "example/scheme.rs"]
mod scheme;

mod crash;
mod damage;
mod engines;
mod example_store;
mod failures;
mod processes;
mod shared;
mod untrusted_paths;
