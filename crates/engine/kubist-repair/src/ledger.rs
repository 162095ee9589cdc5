//! Record of the readable pages of each run, for one repair.
//!
//! A repair reads a table several times: to count the loss, to search for lost rows elsewhere, and to copy intact rows.
//! The first complete read of a run decides, so that no page is both lost and copied. Later reads skip the lost pages,
//! and end the repair with an error if an intact page has become unreadable.

use std::collections::HashMap;
use std::sync::Arc;

use kubist_catalog::error::{is_damage, is_unread};
use kubist_catalog::snapshot::Snapshot;
use kubist_format::location::{Location, Site};
use kubist_index::state::Run;
use kubist_types::error::{Error, ErrorKind, Result};
use rayon::prelude::*;

use crate::readable::{DamageDecision, ValidRows, read_decided, read_sound};

#[derive(Debug, Default)]
pub struct PageLedger {
    /// Decisions by location, because the same bytes may get several run ids.
    runs: HashMap<Site, DamageDecision>,
}

impl PageLedger {
    /// Returns the rows that the first complete read found intact.
    ///
    /// # Errors
    ///
    /// `SnapshotExpired`; `Unavailable` if a page that was intact before cannot be read again.
    pub fn read(&mut self, snapshot: &Snapshot, run: &Arc<Run<Location>>) -> Result<ValidRows> {
        let (sound, decided) = self.look(snapshot, run)?;
        self.decide(run, decided);
        Ok(sound)
    }

    /// Saves memory if an intact run is not needed later.
    pub fn forget(&mut self, run: &Run<Location>) {
        self.runs.remove(&run.payload.site());
    }

    /// Reads runs in parallel; calls `make` with the index and intact rows of each.
    ///
    /// # Errors
    ///
    /// The errors of [`PageLedger::read`], and every error of `make`.
    pub fn read_all<T: Send>(
        &mut self,
        snapshot: &Snapshot,
        runs: &[&Arc<Run<Location>>],
        make: impl Fn(usize, &ValidRows) -> Result<T> + Sync,
    ) -> Result<Vec<(ValidRows, T)>> {
        let read = runs.par_iter().enumerate().map(|(index, run)| {
            let (sound, decided) = self.look(snapshot, run)?;
            let made = make(index, &sound)?;
            Ok((sound, made, decided))
        });
        let read = read.collect::<Result<Vec<_>>>()?;
        let decide = |(run, (sound, made, decided)): (&&Arc<Run<Location>>, _)| {
            self.decide(run, decided);
            (sound, made)
        };
        Ok(runs.iter().zip(read).map(decide).collect())
    }

    /// The second value is a new decision; `None` if there is one or pages are unread.
    fn look(&self, snapshot: &Snapshot, run: &Arc<Run<Location>>) -> Result<(ValidRows, Option<DamageDecision>)> {
        match self.runs.get(&run.payload.site()) {
            Some(decided) => Ok((read_decided(snapshot, run, decided).map_err(|error| changed(run, error))?, None)),
            None => {
                let (sound, decided) = read_sound(snapshot, run)?;
                let decided = sound.unread.is_empty().then_some(decided);
                Ok((sound, decided))
            }
        }
    }

    fn decide(&mut self, run: &Run<Location>, decided: Option<DamageDecision>) {
        self.runs.extend(decided.map(|decided| (run.payload.site(), decided)));
    }

    /// Like [`PageLedger::read`], but an unread page is an error.
    ///
    /// # Errors
    ///
    /// The errors of [`PageLedger::read`]; `Unavailable` if a page or the zone map could not be read.
    pub fn read_whole(&mut self, snapshot: &Snapshot, run: &Arc<Run<Location>>) -> Result<ValidRows> {
        let mut sound = self.read(snapshot, run)?;
        match sound.unread.is_empty() {
            true => Ok(sound),
            false => Err(undecided(sound.unread.swap_remove(0).error)),
        }
    }
}

/// The final error of a repair, because otherwise the loss would be a guess.
pub fn undecided(error: Error) -> Error {
    match is_unread(&error) {
        true => Error::storage(
            ErrorKind::Unavailable,
            format!(
                "{error} (tried several times): whether it is damaged is not known, nor what that would cost; repeat \
                 this once it can be read"
            ),
            error,
        ),
        false => error,
    }
}

fn changed(run: &Run<Location>, error: Error) -> Error {
    match is_unread(&error) || is_damage(&error) {
        true => Error::storage(
            ErrorKind::Unavailable,
            format!(
                "run {:#x} was sound when it was read first, and is not now ({error}): what is lost is not known; repeat \
                 this",
                run.id.0
            ),
            error,
        ),
        false => error,
    }
}
