//! All tests of the server in one program: `--test it hostile::` runs the tests of `hostile.rs`.

mod common;

mod description;
mod hostile;
mod http;
mod identity;
mod slow;
