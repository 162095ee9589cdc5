//! The tests of the command, one program: `--test it asking::` runs those of `asking.rs`.

mod files;

mod asking;
mod campaign;
mod cli;
mod keep;
mod model;
mod strangers;
mod view;
