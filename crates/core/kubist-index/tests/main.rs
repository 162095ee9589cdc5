//! The tests of the index's rules, one program: `--test it accuracy::` runs those of `accuracy.rs`.

mod accuracy;
mod blocks;
mod protocol;
mod stopped;
