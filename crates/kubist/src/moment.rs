//! Which moment a snapshot is of, in words that another process understands.
//!
//! A snapshot is the join of the logs up to some positions, so the positions name it.
//! They are small, and pin nothing: once the files of that moment were cleaned away, who
//! comes back to it gets `SnapshotExpired`, and never other rows.

use kubist_index::state::State;
use serde::{Deserialize, Serialize};

use crate::entry::Location;
use crate::error::{Error, Result};
use crate::history::Declared;
use crate::snapshot::Snapshot;
use crate::table::Table;

/// One moment of one table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// Tells the table from another one in its place.
    table: String,
    /// How far each log had been read.
    pub(crate) positions: Vec<(String, u64)>,
    pub(crate) rewrites: u64,
    pub(crate) alterations: u64,
    pub(crate) declared: Option<Declared>,
    /// Only up to this step.
    step: Option<i64>,
}

impl Moment {
    /// Does nothing of a state come later?
    pub(crate) fn is_at_or_after(&self, state: &State<Location>) -> bool {
        let of =
            |writer: &str| self.positions.iter().find(|(name, _)| name == writer).map_or(0, |(_, position)| *position);
        state.rewrites() <= self.rewrites && state.positions().all(|(writer, position)| position <= of(writer))
    }
}

impl Snapshot {
    /// The moment that this snapshot is of; [`Table::at`] comes back to it.
    pub fn moment(&self) -> Moment {
        Moment {
            table: self.core.header.id.clone(),
            positions: self.view.positions.clone(),
            rewrites: self.view.rewrites,
            alterations: self.view.schema.version,
            declared: self.view.history.declared.clone(),
            step: self.step,
        }
    }
}

impl Table {
    /// The table at a moment that a snapshot of it had, also in another process.
    ///
    /// `SnapshotExpired` if the files of that moment were cleaned away, now or when rows
    /// are read.
    pub fn at(&self, moment: &Moment) -> Result<Snapshot> {
        let core = &self.core;
        if core.header.id != moment.table {
            let why = "another table was made in the place of the one that was meant";
            return Err(Error::NotATable { location: self.location().into(), why: why.into() });
        }
        let now = self.snapshot()?;
        let view = match (Moment { step: moment.step, ..now.moment() }) == *moment {
            true => now.view,
            false => core.view_at(moment)?,
        };
        Ok(Snapshot { core: core.clone(), view, step: moment.step })
    }
}
