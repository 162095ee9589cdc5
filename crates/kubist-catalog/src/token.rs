//! The name of a snapshot, for other processes.
//!
//! A snapshot is the join of the logs up to some positions, so the positions name it.
//! They are small, and pin nothing: once the snapshot's files were cleaned away, its name
//! leads to `SnapshotExpired`, and never to other rows.

use kubist_format::history::Declared;
use kubist_format::location::Location;
use kubist_index::state::State;
use serde::{Deserialize, Serialize};

/// One moment of one table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// Tells the table from another one in its place.
    pub table: String,
    /// How far each log had been read.
    pub positions: Vec<(String, u64)>,
    pub rewrites: u64,
    pub alterations: u64,
    pub declared: Option<Declared>,
    /// Only up to this step.
    pub step: Option<i64>,
}

impl Moment {
    /// Does nothing of a state come later?
    pub fn is_at_or_after(&self, state: &State<Location>) -> bool {
        let of =
            |writer: &str| self.positions.iter().find(|(name, _)| name == writer).map_or(0, |(_, position)| *position);
        state.rewrites() <= self.rewrites && state.positions().all(|(writer, position)| position <= of(writer))
    }
}
