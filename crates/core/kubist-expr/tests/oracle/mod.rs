//! A naive implementation of the rules for comparison, which shares no code with the crate: one row at a time, with
//! rational numbers or floats. It also generates random tables and conditions from a seed.

mod conditions;
mod rules;
mod tables;

pub use conditions::{Cond, Lit, Names, condition, literal};
pub use rules::{against, answer, went_beyond};
pub use tables::{Cell, Rng, Table, table};
