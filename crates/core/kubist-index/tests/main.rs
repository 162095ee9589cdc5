//! `--test it accuracy::` runs the tests of `accuracy.rs`.

mod accuracy;
mod blocks;
mod protocol;
mod stopped;
