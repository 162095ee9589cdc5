//! The tests of the index's rules in one program: `--test it accuracy::` runs the tests of `accuracy.rs`.

mod accuracy;
mod blocks;
mod protocol;
mod stopped;
