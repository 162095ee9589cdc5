//! Grids, cubes, priorities, the state of a table, and the query planner, without I/O, clock or random numbers.

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
pub mod strata;
