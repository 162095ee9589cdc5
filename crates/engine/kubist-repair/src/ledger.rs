//! What was decided of each page, once.
//!
//! A repair reads a table several times: to see what is lost, to look for it elsewhere, to
//! copy what is sound. If each time decided anew, a page could be told to be lost and be
//! copied, or be copied twice: once from its run and once from a replica. So the first read of
//! a run decides which of its pages are sound, and all others follow that: a page that was
//! decided to be lost is not read again, and one that was sound must still be, else the
//! repair ends with an error. Nothing is decided of a run that could not be read.

use std::collections::HashMap;
use std::sync::Arc;

use kubist_catalog::error::{is_damage, is_unread};
use kubist_catalog::snapshot::Snapshot;
use kubist_format::location::{Location, Site};
use kubist_index::state::Run;
use kubist_types::error::{Error, ErrorKind, Result};
use rayon::prelude::*;

use crate::readable::{Decided, Sound, read_decided, read_sound};

/// The decisions of one repair.
#[derive(Debug, Default)]
pub struct PageLedger {
    /// A run may go by several names one after the other: its bytes are judged once.
    runs: HashMap<Site, Decided>,
}

impl PageLedger {
    /// What is sound of a run: as was decided, or read now, and decided if all of it could be
    /// read.
    ///
    /// # Errors
    ///
    /// `SnapshotExpired`; `Unavailable` if a page that was read before cannot be read again.
    pub fn read(&mut self, snapshot: &Snapshot, run: &Arc<Run<Location>>) -> Result<Sound> {
        let (sound, decided) = self.look(snapshot, run)?;
        self.decide(run, decided);
        Ok(sound)
    }

    /// Forgets a run that was sound: whoever reads it again decides anew.
    pub fn forget(&mut self, run: &Run<Location>) {
        self.runs.remove(&run.payload.site());
    }

    /// The same of several runs side by side, and what is made of each, by its index.
    ///
    /// # Errors
    ///
    /// As of [`PageLedger::read`], and what `make` returns.
    pub fn read_all<T: Send>(
        &mut self,
        snapshot: &Snapshot,
        runs: &[&Arc<Run<Location>>],
        make: impl Fn(usize, &Sound) -> Result<T> + Sync,
    ) -> Result<Vec<(Sound, T)>> {
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

    /// What is sound of a run, and what was decided now.
    fn look(&self, snapshot: &Snapshot, run: &Arc<Run<Location>>) -> Result<(Sound, Option<Decided>)> {
        match self.runs.get(&run.payload.site()) {
            Some(decided) => Ok((read_decided(snapshot, run, decided).map_err(|error| changed(run, error))?, None)),
            None => {
                let (sound, decided) = read_sound(snapshot, run)?;
                let decided = sound.unread.is_empty().then_some(decided);
                Ok((sound, decided))
            }
        }
    }

    fn decide(&mut self, run: &Run<Location>, decided: Option<Decided>) {
        self.runs.extend(decided.map(|decided| (run.payload.site(), decided)));
    }

    /// The same; an error if anything could not be read.
    ///
    /// # Errors
    ///
    /// As of [`PageLedger::read`]; `Unavailable` if a part could not be read.
    pub fn read_whole(&mut self, snapshot: &Snapshot, run: &Arc<Run<Location>>) -> Result<Sound> {
        let mut sound = self.read(snapshot, run)?;
        match sound.unread.is_empty() {
            true => Ok(sound),
            false => Err(undecided(sound.unread.swap_remove(0).error)),
        }
    }
}

/// The end of a repair that would have to guess.
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

/// A page that was sound cannot be read any more.
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
