//! Checkpoints: the state of a table in one object, so that opening need not read all log entries.
//!
//! A checkpoint holds the result of a durable prefix of every log and of the rewrites: live runs, cutoffs, and the
//! history of writers. Many runs are in pages in separate segments (`directory`); the object then lists its own pages
//! and those of the previous checkpoint.

use kubist_store::StoreExt;
use std::sync::Arc;

use kubist_format::checkpoint::{Body, Head, decode_body, split};
use kubist_format::entry::{Page, decode_live};
use kubist_format::history::History;
use kubist_format::location::Location;
use kubist_format::names::CHECKPOINTS;
use kubist_index::state::{Commit, State};
use kubist_types::{Cancel, Result};

use crate::directory::Base;
use crate::error::{bad_entry, store_error};
use crate::files::TableFiles;
use crate::proven_positions::ProvenPositions;

pub struct LoadedCheckpoint {
    pub name: String,
    /// The state, without the runs and cutoffs that are on pages of the base.
    pub state: State<Location>,
    pub base: Option<Arc<Base>>,
    pub history: History,
}

/// Returns the newest checkpoint.
///
/// # Errors
///
/// `Damaged`, `Newer`, `Cancelled` or a storage error.
pub fn load(files: &TableFiles, cancel: &Cancel) -> Result<Option<LoadedCheckpoint>> {
    load_listed(files, None, cancel)
}

/// Like [`load`], with the listing if the caller has it.
///
/// # Errors
///
/// The errors of [`load`].
pub fn load_listed(
    files: &TableFiles,
    mut listed: Option<Vec<String>>,
    cancel: &Cancel,
) -> Result<Option<LoadedCheckpoint>> {
    // A newer checkpoint replaced one that disappears between the calls; a stale listing lacks it.
    for attempt in 0.. {
        cancel.check()?;
        let names = listed.take().map_or_else(|| files.store.list(CHECKPOINTS), Ok);
        let Some(name) = names.map_err(store_error)?.pop() else { return Ok(None) };
        if let Some(held) = read(files, &name)? {
            return Ok(Some(held));
        }
        if attempt == 0 {
            files.store.learn();
        }
        files.store.look_again(attempt).map_err(store_error)?;
    }
    Ok(None)
}

/// # Errors
///
/// `Damaged`, `Newer` or a storage error.
pub fn read(files: &TableFiles, name: &str) -> Result<Option<LoadedCheckpoint>> {
    let Some(bytes) = files.store.get_immutable(name).map_err(store_error)? else { return Ok(None) };
    let bad = |error| bad_entry(files.store.location(), name, 0, error);
    let (head, body) = split(&bytes).map_err(bad)?;
    let Head { positions, rewrites, history } = head;
    let (state, base) = match files.decoded(|forest| decode_body(body, forest)).map_err(bad)? {
        Body::Runs(body) => {
            let live = files.decoded(|forest| decode_live(body, forest)).map_err(bad)?;
            (State::restore(live, positions, rewrites), None)
        }
        Body::Pages(pages, removed) => {
            (State::continuing(positions, rewrites), Some(Arc::new(Base::new(pages, removed))))
        }
    };
    Ok(Some(LoadedCheckpoint { name: name.into(), state, base, history }))
}

impl LoadedCheckpoint {
    pub fn proven(&self) -> ProvenPositions {
        let (mut proven, who) = (ProvenPositions::default(), format!("checkpoint {}", &self.name[CHECKPOINTS.len()..]));
        self.state.positions().for_each(|(writer, position)| proven.say(writer, position, &self.history, &who));
        proven
    }

    /// Returns the state with all its runs in memory.
    ///
    /// # Errors
    ///
    /// `Damaged`, `SnapshotExpired` if the pages were cleaned, `Cancelled` or a storage error.
    pub fn whole(&self, files: &TableFiles, cancel: &Cancel) -> Result<State<Location>> {
        let mut live = Commit::default();
        if let Some(base) = &self.base {
            base.each(files, cancel, |page| {
                take_live(base, page, &mut live);
                Ok(())
            })?;
        }
        Ok(self.with(live))
    }

    /// The state with the runs of all readable pages, and the number of other runs.
    ///
    /// # Errors
    ///
    /// `Cancelled` or a storage error.
    pub fn readable_state(&self, files: &TableFiles, cancel: &Cancel) -> Result<(State<Location>, u64)> {
        let (mut live, mut lost) = (Commit::default(), 0);
        if let Some(base) = &self.base {
            lost = base.each_readable(files, cancel, |page| take_live(base, page, &mut live))?;
        }
        Ok((self.with(live), lost))
    }

    fn with(&self, live: Commit<Location>) -> State<Location> {
        if self.base.is_none() {
            return self.state.clone();
        }
        let positions = self.state.positions().map(|(writer, position)| (writer.to_string(), position)).collect();
        State::restore(live, positions, self.state.rewrites())
    }
}

fn take_live(base: &Base, page: &Page, live: &mut Commit<Location>) {
    live.runs.extend(page.runs.iter().filter(|run| base.lives(run)).cloned());
    live.cutoffs.extend_from_slice(&page.cutoffs);
}
