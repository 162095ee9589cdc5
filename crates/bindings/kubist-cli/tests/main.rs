//! All tests of the command in one program: `--test it asking::` runs the tests of `asking.rs`.

mod files;

mod asking;
mod campaign;
mod cli;
mod keep;
mod model;
mod untrusted_files;
mod view;
