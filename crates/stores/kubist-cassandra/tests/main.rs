//! The tests of stores on a cluster, one program: `--test it model::` runs those of `model.rs`.

mod common;

mod model;
mod promises;
mod secure;
