//! Tests of stores on a cluster, as one program: `--test it model::` runs those of `model.rs`.

mod common;

mod model;
mod promises;
mod secure;
