//! Recovery of lost rows from the runs that a rewrite replaced.
//!
//! A rewrite copies the rows of the runs that it removes, except for retracted steps, and adds no others. Until the
//! removed runs are cleaned, the lost rows are the difference: rows of the removed runs minus the readable rows of the
//! new runs.

use kubist_store::StoreExt;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;
use kubist_index::state::{Run, RunId};

use crate::ledger::PageLedger;
use crate::readable::{ValidRows, row_hashes};
use kubist_catalog::error::{bad_entry, is_damage, store_error};
use kubist_catalog::snapshot::Snapshot;
use kubist_format::entry::{CommitEntry, RewriteEntry};
use kubist_format::error::EntryError;
use kubist_format::location::{Location, Site};
use kubist_format::names::REWRITES;
use kubist_types::cancel::Cancel;
use kubist_types::error::{Error, Result};

/// Rows of damaged runs that the replaced runs still hold, each once.
///
/// # Errors
///
/// The errors of [`recover`](crate::recover::recover).
pub fn rows_of_replaced(
    snapshot: &Snapshot,
    damaged: &HashSet<RunId>,
    pages: &mut PageLedger,
    cancel: &Cancel,
) -> Result<Vec<RecordBatch>> {
    let mut rewrites = readable_rewrites(snapshot)?;
    let directory = snapshot.directory()?;
    // Runs are compared by location, because the same bytes may have a new run id.
    let live: HashSet<Site> = directory.runs().map(|run| run.payload.site()).collect();
    let damaged = directory.runs().filter(|run| damaged.contains(&run.id));
    let damaged: HashSet<Site> = damaged.map(|run| run.payload.site()).collect();
    let is_hit = |run: &Arc<Run<Location>>| !run.is_replica() && damaged.contains(&run.payload.site());
    let known: Vec<Arc<Run<Location>>> = rewrites.iter().flat_map(|entry| entry.rewrite.runs.iter().cloned()).collect();
    rewrites.retain(|entry| entry.rewrite.runs.iter().any(is_hit));
    if rewrites.is_empty() {
        return Ok(Vec::new());
    }
    let runs: HashMap<RunId, Arc<Run<Location>>> =
        committed_runs(snapshot)?.into_iter().chain(known).map(|run| (run.id, run)).collect();
    // The same bytes with a new id are no earlier copy.
    let removed = |entry: &RewriteEntry| -> HashSet<Site> {
        entry.rewrite.removes.iter().filter_map(|id| runs.get(id)).map(|run| run.payload.site()).collect()
    };
    rewrites.retain(|entry| {
        let same = removed(entry);
        entry.rewrite.runs.iter().any(|run| is_hit(run) && !same.contains(&run.payload.site()))
    });
    let mut found = Vec::new();
    for entry in rewrites {
        cancel.check()?;
        let mut counts: HashMap<u64, u64> = HashMap::new();
        let mut is_certain = true;
        for run in entry.rewrite.runs.iter().filter(|run| !run.is_replica()) {
            let sound = read_what_is_there(snapshot, run, pages)?;
            // Later rewrites may have moved the rows of a replaced run. With pages lost, these cannot be distinguished
            // from lost rows.
            is_certain &= live.contains(&run.payload.site()) || sound.lost.is_empty();
            let hashes = sound.batches().flat_map(row_hashes);
            hashes.for_each(|hash| *counts.entry(hash).or_default() += 1);
        }
        if !is_certain {
            continue;
        }
        let replaced = entry.rewrite.removes.iter().filter_map(|id| runs.get(id)).filter(|run| !run.is_replica());
        for run in replaced {
            cancel.check()?;
            for batch in read_what_is_there(snapshot, run, pages)?.batches() {
                let steps = batch.column(snapshot.view.schema.step()).as_primitive::<Int64Type>().values();
                let is_lost = row_hashes(batch).into_iter().zip(steps).map(|(hash, step)| {
                    if entry.retract_after.is_some_and(|last| *step > last) {
                        return false;
                    }
                    match counts.get_mut(&hash) {
                        Some(count) if *count > 0 => {
                            *count -= 1;
                            false
                        }
                        _ => true,
                    }
                });
                let lost = filter_record_batch(batch, &BooleanArray::from(is_lost.collect::<Vec<bool>>()))
                    .map_err(Error::kernel)?;
                if lost.num_rows() > 0 {
                    found.push(lost);
                }
            }
        }
    }
    Ok(found)
}

fn read_what_is_there(snapshot: &Snapshot, run: &Arc<Run<Location>>, pages: &mut PageLedger) -> Result<ValidRows> {
    match pages.read_whole(snapshot, run) {
        Err(Error::SnapshotExpired { .. }) => Ok(ValidRows::gone(run)),
        sound => sound,
    }
}

fn readable_rewrites(snapshot: &Snapshot) -> Result<Vec<RewriteEntry>> {
    let core = &snapshot.core;
    let names = core.store.list(REWRITES).map_err(store_error)?;
    let mut rewrites = Vec::new();
    for name in &names {
        let bytes = match core.store.get(name).map_err(store_error) {
            Err(error) if is_damage(&error) => continue,
            bytes => bytes?,
        };
        let Some(bytes) = bytes else { continue };
        match core.decoded(|forest| RewriteEntry::decode(&bytes, forest)) {
            Ok(entry) => rewrites.push(entry),
            Err(EntryError::Bad(_)) => {}
            Err(newer) => return Err(bad_entry(core.store.location(), name, 0, newer)),
        }
    }
    Ok(rewrites)
}

fn committed_runs(snapshot: &Snapshot) -> Result<Vec<Arc<Run<Location>>>> {
    let (core, mut runs) = (&snapshot.core, Vec::new());
    for writer in core.store.logs().map_err(store_error)? {
        let log = core.store.read_sound_log(&writer, 0).map_err(store_error)?;
        let entries = log
            .entries
            .iter()
            .filter_map(|entry| core.decoded(|forest| CommitEntry::decode(&entry.bytes, forest)).ok());
        runs.extend(entries.flat_map(|entry| entry.commit.runs));
    }
    Ok(runs)
}
