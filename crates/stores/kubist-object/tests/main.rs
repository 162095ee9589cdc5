//! Tests of stores in buckets, as one program: `--test it bucket::` runs those of `bucket.rs`.

mod common;

mod bucket;
mod cached;
mod misbehaving;
mod sealed;
