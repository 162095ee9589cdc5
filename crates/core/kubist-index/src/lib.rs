//! The mathematics of Kubist: grids, cubes, priorities, the lattice of a
//! table's state and the planner that reads it.
//!
//! Pure: no file, no clock, no randomness of its own. Everything here can be
//! tested from a seed, and is.

pub mod accuracy;
pub mod budget;
pub mod cube;
pub mod directory;
pub mod fit;
pub mod forest;
pub mod gradual;
pub mod grid;
pub mod layers;
pub mod layout;
pub mod levels;
pub mod order;
pub mod outlines;
pub mod outlook;
pub mod pages;
pub mod plain;
pub mod plan;
pub mod priority;
pub mod ramps;
pub mod spread;
pub mod start;
pub mod state;
