//! A second, naive reading of the rules: one row at a time, values as rationals
//! or as the machine's floats, nothing shared with the crate but its words.
//!
//! Also a source of random tables and random conditions, repeatable from a seed.

mod conditions;
mod rules;
mod tables;

pub use conditions::{Cond, Lit, Names, condition, literal};
pub use rules::{against, answer, went_beyond};
pub use tables::{Cell, Rng, Table, table};
