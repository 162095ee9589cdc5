//! The tests of the server, one program: `--test it hostile::` runs those of `hostile.rs`.

mod common;

mod description;
mod hostile;
mod http;
mod identity;
mod slow;
