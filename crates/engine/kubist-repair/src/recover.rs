//! Recovery of lost rows from replaced runs (`replaced`) and replicas.
//!
//! A replica holds exactly the rows of its source runs inside its cube (I4). So the lost rows are the multiset
//! difference: rows of the replica minus the readable rows of its sources.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;
use kubist_index::cube::{CubeId, MortonKey};
use kubist_index::state::{Run, RunId};

use crate::ledger::PageLedger;
use crate::readable::{grid, row_hashes};
use crate::replaced::rows_of_replaced;
use kubist_catalog::frame::Frame;
use kubist_catalog::snapshot::Snapshot;
use kubist_format::location::Location;
use kubist_types::cancel::Cancel;
use kubist_types::error::{Error, Result};

type Rows = Vec<(MortonKey, u64)>;

/// Rows of damaged runs that replicas or replaced runs still hold, each once.
///
/// # Errors
///
/// `Unavailable` if anything it needs cannot be read; `Cancelled`; a storage error.
pub fn recover(
    snapshot: &Snapshot,
    damaged: &HashSet<RunId>,
    pages: &mut PageLedger,
    cancel: &Cancel,
) -> Result<Vec<RecordBatch>> {
    let directory = snapshot.directory()?;
    let runs: HashMap<RunId, &Arc<Run<Location>>> = directory.runs().map(|run| (run.id, run)).collect();
    let mut found = rows_of_replaced(snapshot, damaged, pages, cancel)?;
    for tree in directory.trees() {
        // Without the grid, the cube of a row is unknown.
        let Some(frame) = grid(snapshot, tree.grid())? else { continue };
        in_tree(snapshot, &frame, &runs, damaged, pages, &mut found, cancel)?;
    }
    Ok(found)
}

fn in_tree(
    snapshot: &Snapshot,
    frame: &Frame,
    runs: &HashMap<RunId, &Arc<Run<Location>>>,
    damaged: &HashSet<RunId>,
    pages: &mut PageLedger,
    found: &mut Vec<RecordBatch>,
    cancel: &Cancel,
) -> Result<()> {
    let directory = snapshot.directory()?;
    let geometry = frame.geometry;
    let mut sources: HashMap<RunId, Rows> = HashMap::new();
    let position = |batch: &RecordBatch| frame.keys(batch).into_iter().zip(row_hashes(batch));
    let mut recovered: Rows = found.iter().flat_map(position).collect();
    // Starts at the root, so rows recovered above are not taken again.
    for replica in directory.replicas().filter(|replica| replica.cube.grid() == geometry.grid()) {
        if !replica.copies.iter().any(|source| damaged.contains(source)) {
            continue;
        }
        cancel.check()?;
        let mut known: HashMap<u64, u64> = HashMap::new();
        let mut know = |rows: &Rows, cube: CubeId| {
            for (_, hash) in rows.iter().filter(|(key, _)| geometry.contains_key(cube, *key)) {
                *known.entry(*hash).or_default() += 1;
            }
        };
        know(&recovered, replica.cube);
        for source in &replica.copies {
            if !sources.contains_key(source) {
                let rows = match runs.get(source) {
                    Some(run) => {
                        sound_rows(snapshot, run, pages, frame)?.into_iter().flat_map(|(_, rows)| rows).collect()
                    }
                    None => Vec::new(),
                };
                sources.insert(*source, rows);
            }
            know(&sources[source], replica.cube);
        }
        for (batch, rows) in sound_rows(snapshot, replica, pages, frame)? {
            let is_new = rows.iter().map(|(_, hash)| match known.get_mut(hash) {
                Some(count) if *count > 0 => {
                    *count -= 1;
                    false
                }
                _ => true,
            });
            let is_new: Vec<bool> = is_new.collect();
            recovered.extend(rows.iter().zip(&is_new).filter(|(_, new)| **new).map(|(row, _)| *row));
            let batch = filter_record_batch(&batch, &BooleanArray::from(is_new)).map_err(Error::kernel)?;
            if batch.num_rows() > 0 {
                found.push(batch);
            }
        }
    }
    Ok(())
}

fn sound_rows(
    snapshot: &Snapshot,
    run: &Arc<Run<Location>>,
    pages: &mut PageLedger,
    frame: &Frame,
) -> Result<Vec<(RecordBatch, Rows)>> {
    let sound = pages.read_whole(snapshot, run)?;
    let rows = |batch: &RecordBatch| frame.keys(batch).into_iter().zip(row_hashes(batch)).collect();
    Ok(sound.batches().map(|batch| (batch.clone(), rows(batch))).collect())
}
