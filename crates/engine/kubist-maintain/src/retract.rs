//! Retracts steps: removes their rows and forgets their tokens.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::BooleanArray;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_select::filter::filter_record_batch;
use kubist_catalog::core::Core;
use kubist_catalog::directory::Entry;
use kubist_catalog::snapshot::Snapshot;
use kubist_format::location::Location;
use kubist_index::cube::CubeId;
use kubist_index::layout::Placement;
use kubist_index::order::Keyed;
use kubist_index::state::Run;
use kubist_read::runs::read_run;
use kubist_types::{Cancel, Error, Result};
use kubist_write::build::SortedRows;
use kubist_write::output::{DEFAULT_MEMORY, Output};
use kubist_write::publish::{Replacement, publish, write_segment};

/// Zone maps that are read together, for runs whose entries do not give their steps.
const LOOKED_AT: usize = 4096;

#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Retraction {
    pub rows: u64,
    /// Runs with retracted rows only; `runs_rewritten` counts runs that also had other rows.
    pub runs_removed: u64,
    pub runs_rewritten: u64,
}

/// Retracts every commit of a step after `step` that is in the logs now. New snapshots do not show these rows, and
/// their tokens are free again, so that a solver can continue from a checkpoint. Stop the writers of the old attempt
/// first, because their later commits count.
///
/// # Errors
///
/// The errors of [`Core::view`].
pub fn retract(core: &Arc<Core>, step: i64, cancel: &Cancel) -> Result<Retraction> {
    retract_before(core, step, None, cancel)
}

/// Retracts commits of steps after `step` before the given log positions. Rows do not name their commits, so no other
/// commit may have rows of these steps.
///
/// # Errors
///
/// `Refused` names a step with rows of both kinds of commits; the errors of [`retract`].
pub fn retract_up_to(core: &Arc<Core>, step: i64, positions: &[(String, u64)], cancel: &Cancel) -> Result<Retraction> {
    retract_before(core, step, Some(positions), cancel)
}

/// The later steps whose commits are not before the positions.
fn staying(snapshot: &Snapshot, step: i64, positions: &[(String, u64)]) -> Result<BTreeSet<i64>> {
    let history = &snapshot.view.history;
    let (mut leaving, mut staying) = (BTreeSet::new(), BTreeSet::new());
    for writer in history.writers.keys() {
        let end = positions.iter().find(|(name, _)| name == writer).map_or(0, |(_, position)| *position);
        for (of_commit, position) in history.marks(writer).filter(|(of_commit, _)| *of_commit > step) {
            if position <= end { &mut leaving } else { &mut staying }.insert(of_commit);
        }
    }
    match leaving.intersection(&staying).next() {
        None => Ok(staying),
        Some(both) => Err(Error::Refused(format!(
            "{}: step {both} has rows to retract and others; retract the steps after {} here first",
            snapshot.core.store.location(),
            both.saturating_sub(1)
        ))),
    }
}

fn retract_before(
    core: &Arc<Core>,
    step: i64,
    positions: Option<&[(String, u64)]>,
    cancel: &Cancel,
) -> Result<Retraction> {
    loop {
        let snapshot = Snapshot::now(core, cancel)?;
        let stays = positions.map_or(Ok(BTreeSet::new()), |positions| staying(&snapshot, step, positions))?;
        let column = core.created.step();
        let (mut report, mut inputs, mut mixed) = (Retraction::default(), Vec::new(), Vec::new());
        // It has no rows to retract, and the retraction must not cover its entry.
        let is_later = |run: &Run<Location>| {
            let origin = run.payload.origin.as_ref().filter(|origin| !origin.writer.is_empty());
            origin.zip(positions).is_some_and(|(origin, positions)| {
                let end = positions.iter().find(|(writer, _)| **writer == *origin.writer);
                end.is_none_or(|(_, end)| origin.position > *end)
            })
        };
        let mut judge = |run: Arc<Run<Location>>, first: u64, last: u64| {
            let (first, last) = (i64::from_key(first), i64::from_key(last));
            // A run of staying steps is also rewritten if other steps lie between them.
            if last > step && !(first == last && stays.contains(&first)) && !is_later(&run) {
                inputs.push(run.clone());
                match first > step && stays.range(first..=last).next().is_none() {
                    true => (report.rows, report.runs_removed) = (report.rows + run.rows, report.runs_removed + 1),
                    false => mixed.push(run),
                }
            }
        };
        let ends = |runs: &[Arc<Run<Location>>]| -> Result<Vec<(u64, u64)>> {
            let (maps, _) = snapshot.zone_maps(runs.iter(), true)?;
            Ok(maps.iter().map(|map| map.run_zone(column)).map(|zone| (zone.min, zone.max)).collect())
        };
        let mut unknown: Vec<Arc<Run<Location>>> = Vec::new();
        snapshot.view.runs.each_in_order(core, cancel, |entry| {
            let Entry::Run(run) = entry else { return Ok(()) };
            match run.payload.ranges.as_ref().and_then(|ranges| ranges.zone(column)) {
                _ if run.is_replica() => {}
                Some(zone) => judge(run, zone.min, zone.max),
                None => unknown.push(run),
            }
            if unknown.len() >= LOOKED_AT {
                let found = ends(&unknown)?;
                unknown.drain(..).zip(found).for_each(|(run, (first, last))| judge(run, first, last));
            }
            Ok(())
        })?;
        let found = ends(&unknown)?;
        unknown.into_iter().zip(found).for_each(|(run, (first, last))| judge(run, first, last));
        let tree = |cube: CubeId| core.forest().tree_of(cube);
        let above: BTreeSet<CubeId> = mixed.iter().flat_map(|run| tree(run.cube).ancestors(run.cube)).collect();
        let concerned = above.iter().copied().chain(mixed.iter().map(|run| run.cube));
        let directory = snapshot.view.runs.of_cubes(core, concerned, cancel)?;
        let mut output_runs = Vec::new();
        if !mixed.is_empty() {
            let schema = &snapshot.view.schema;
            output_runs = write_segment(core, &snapshot.view, |segment| {
                let mut output = Output::new(core, &schema.dimensions, segment, DEFAULT_MEMORY, cancel);
                for run in mixed {
                    let grid = run.cube.grid();
                    let missing = || Error::NotATable {
                        location: core.store.location().into(),
                        why: format!("its grid {grid} is missing"),
                    };
                    let frame = core.frame(schema, grid)?.ok_or_else(missing)?;
                    let (batch, _) = read_run(&snapshot, &run)?;
                    let steps = batch.column(column).as_primitive::<Int64Type>();
                    let kept: BooleanArray =
                        steps.values().iter().map(|of_row| Some(*of_row <= step || stays.contains(of_row))).collect();
                    let batch = filter_record_batch(&batch, &kept).map_err(Error::kernel)?;
                    report.rows += run.rows - batch.num_rows() as u64;
                    report.runs_rewritten += 1;
                    let sorted = SortedRows::new(&frame, &batch.schema(), schema.run_encoding(), &[batch], cancel)?;
                    let cutoff = directory.cutoff(run.cube);
                    let (within, overflow) =
                        sorted.all().partition(|row| cutoff.admits(sorted.priorities[*row as usize]));
                    let placement = Placement { cube: run.cube, within, overflow, cutoff, is_one_of_many: false };
                    output.write(&sorted, &[placement])?;
                }
                Ok(output.finish()?.0)
            })?
            .1;
        }
        let replacement = Replacement {
            inputs,
            runs: output_runs,
            cutoffs: above.into_iter().map(|cube| (cube, directory.cutoff(cube))).collect(),
            retract_after: Some(step),
            needs: positions.map_or_else(|| snapshot.view.positions.clone(), <[_]>::to_vec),
            ..Replacement::default()
        };
        if publish(core, replacement, cancel)? {
            return Ok(report);
        }
    }
}
