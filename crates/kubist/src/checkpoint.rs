//! Checkpoints: the state of the table in one object, so that opening reads it
//! and the ends of the logs instead of everything that ever happened.
//!
//! A checkpoint holds what a prefix of every log and of the rewrite log amounts
//! to: the live runs, the cutoffs and the writers' history. It is written only
//! when all of those entries are durable. Nothing depends on it: without any
//! checkpoint the logs say the same, as long as no rewrite was cleaned away.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use kubist_index::state::{Commit, State};

use crate::entry::{CommitEntry, Location, Origin};
use crate::error::{Result, store_error};
use crate::history::History;
use crate::options::Cancel;
use crate::rewrite::settle;
use crate::table::{Core, Table, bad_entry};

pub(crate) const CHECKPOINTS: &str = "checkpoints/";
/// A checkpoint is due after so many entries, and once the runs in them are a
/// good share of all.
const ENTRIES: u64 = 200;

/// The part of a checkpoint that is JSON.
#[derive(Serialize, Deserialize)]
struct Head {
    positions: Vec<(String, u64)>,
    rewrites: u64,
    history: History,
    /// The step of each run, for those that have one.
    steps: Vec<(usize, i64)>,
}

/// The state that the newest checkpoint holds, if there is one.
pub(crate) fn load(core: &Core) -> Result<Option<(State<Location>, History)>> {
    // One that disappears between the two calls was replaced by a newer one.
    loop {
        let Some(name) = core.store.list(CHECKPOINTS).map_err(store_error)?.pop() else { return Ok(None) };
        if let Some(held) = read(core, &name)? {
            return Ok(Some(held));
        }
    }
}

/// The state that a checkpoint holds, unless it is gone.
pub(crate) fn read(core: &Core, name: &str) -> Result<Option<(State<Location>, History)>> {
    let Some(bytes) = core.store.get(name).map_err(store_error)? else { return Ok(None) };
    let bad = |error| bad_entry(core.store.location(), name, 0, error);
    let what = |text: &str| bad(crate::entry::EntryError::Bad(text.into()));
    let length = bytes.get(..4).map(|length| u32::from_le_bytes([length[0], length[1], length[2], length[3]]) as usize);
    let head = length.and_then(|length| bytes.get(4..4 + length)).ok_or_else(|| what("it ends too early"))?;
    let body = &bytes[4 + head.len()..];
    let head: Head = serde_json::from_slice(head).map_err(|error| what(&error.to_string()))?;
    let mut runs = CommitEntry::decode(body, &core.geometry).map_err(bad)?.commit;
    for (run, step) in head.steps {
        let run = runs.runs.get_mut(run).ok_or_else(|| what("it names a run that it does not hold"))?;
        Arc::make_mut(run).payload.origin = Some(Arc::new(Origin { writer: "".into(), position: 0, step: Some(step) }));
    }
    let state = State::restore(runs, head.positions, head.rewrites);
    Ok(Some((state, head.history)))
}

impl Table {
    /// Writes a checkpoint of all that is durable by now, unless the newest one
    /// is as good. `false` if some writer is just making an entry durable.
    pub fn checkpoint(&self) -> Result<bool> {
        let core = &self.core;
        // Listed before the table is looked at: a checkpoint that took long to make
        // finds its number taken, instead of following a newer one.
        core.check_still_there()?;
        let names = core.store.list(CHECKPOINTS).map_err(store_error)?;
        let view = core.view()?;
        for (writer, position) in &view.positions {
            if settle(core, writer, *position, std::time::Duration::ZERO, &Cancel::default()).is_err() {
                return Ok(false);
            }
        }
        let runs: Vec<_> = view.directory.runs().iter().chain(view.directory.replicas()).collect();
        let steps =
            runs.iter().enumerate().filter_map(|(place, run)| Some((place, run.payload.origin.as_ref()?.step?)));
        let head = Head {
            positions: view.positions.clone(),
            rewrites: view.rewrites,
            history: view.history.clone(),
            steps: steps.collect(),
        };
        let head = serde_json::to_vec(&head).expect("a checkpoint's head is plain data");
        let commit = Commit { runs: runs.into_iter().cloned().collect(), cutoffs: view.directory.cutoffs().collect() };
        let body =
            CommitEntry { sequence: 0, rows: 0, token: None, step: None, steps: vec![], commit }.encode(&core.geometry);
        let bytes = [&(head.len() as u32).to_le_bytes()[..], &head, &body].concat();
        let newest = names.last().and_then(|name| name[CHECKPOINTS.len()..].parse::<u64>().ok()).unwrap_or(0);
        // Whoever loses the race has lost nothing: the other's is as new.
        core.store.put_if_absent(&format!("{CHECKPOINTS}{:020}", newest + 1), &bytes).map_err(store_error)?;
        // The one before stays for readers that just listed it.
        for old in names.iter().rev().skip(1) {
            core.store.delete(old).map_err(store_error)?;
        }
        core.checkpointed(&view);
        Ok(true)
    }

    /// Is so much new since the last checkpoint that one is worth writing?
    pub(crate) fn checkpoint_is_due(&self) -> bool {
        let (entries, new_runs, runs) = self.core.since_checkpoint();
        entries >= ENTRIES && (new_runs * 4 >= runs || entries >= 16 * ENTRIES)
    }
}
