//! Rewrites runs with another compression or other strata, in the same cubes and with the same rows. The optimizer then
//! makes new replicas of the rewritten runs.

use std::sync::Arc;

use kubist_catalog::core::Core;
use kubist_catalog::directory::{Directory, Entry};
use kubist_catalog::frame::Frame;
use kubist_catalog::snapshot::Snapshot;
use kubist_catalog::view::View;
use kubist_format::location::Location;
use kubist_index::cube::CubeId;
use kubist_index::layout::Placement;
use kubist_index::state::Run;
use kubist_read::runs::read_run;
use kubist_types::{Cancel, Error, Result};
use kubist_write::build::{EncodedRun, SortedRows};
use kubist_write::keys::LookupColumns;
use kubist_write::output::{DEFAULT_MEMORY, Output};
use kubist_write::publish::{NewRuns, Replacement, Written};
use rayon::prelude::*;

use crate::inputs::above;
use crate::planner::movable;
use crate::policy::OptimizeOptions;

const LOOKED_AT: usize = 4096;
const HELD: usize = 1 << 16;

type Primaries = Vec<Arc<Run<Location>>>;

/// Rewrites all runs whose compression or strata are not the table's, in groups, and calls `done` after each. Skips a
/// group if another rewrite replaces one of its runs first.
///
/// # Errors
///
/// The errors of [`Core::view`]; the errors of `done`. Groups that were published before the error stay.
pub fn recompress(
    core: &Arc<Core>,
    options: &OptimizeOptions,
    done: &mut dyn FnMut(Written) -> Result<()>,
) -> Result<()> {
    let now = core.view(&options.cancel)?.schema.run_encoding();
    let mut from = Some(CubeId::root(0));
    while let Some(first) = from {
        let (view, (primary, next)) =
            core.view_with(&options.cancel, |view| some(core, view, first, &options.cancel))?;
        let snapshot = Snapshot::new(core.clone(), view);
        for looked_at in primary.chunks(LOOKED_AT) {
            options.cancel.check()?;
            let (maps, _) = snapshot.zone_maps(looked_at.iter(), true)?;
            let other = looked_at
                .iter()
                .zip(maps)
                .filter(|(_, map)| (map.compression, map.strata) != (now.compression, now.strata));
            let other: Vec<Arc<Run<Location>>> = other.map(|(run, _)| run.clone()).collect();
            let mut rest = &other[..];
            while let Some(first) = rest.first() {
                // Each group has runs from a single grid that fit in memory together.
                let (grid, mut rows) = (first.cube.grid(), 0);
                let fits = |run: &&Arc<Run<Location>>| {
                    rows += run.rows;
                    run.cube.grid() == grid && (rows <= options.rows_at_once || rows == run.rows)
                };
                let (group, later) = rest.split_at(rest.iter().take_while(fits).count());
                rest = later;
                if let Some(written) = rewrite(&snapshot, grid, group, &options.cancel)? {
                    done(written)?;
                }
            }
        }
        from = next;
    }
    Ok(())
}

/// Movable primary runs of cubes from `first` on, and the next cube if there are more than [`HELD`].
fn some(core: &Core, view: &View, first: CubeId, cancel: &Cancel) -> Result<(Primaries, Option<CubeId>)> {
    let movable = movable(view);
    let (mut runs, mut next) = (Primaries::new(), None);
    view.runs.each_in_order(core, cancel, |entry| {
        let Entry::Run(run) = entry else { return Ok(()) };
        if next.is_some() || run.cube < first || run.is_replica() || !movable(&run) {
            return Ok(());
        }
        let ends_a_cube = runs.last().is_some_and(|last| last.cube != run.cube);
        match ends_a_cube && runs.len() >= HELD {
            true => next = Some(run.cube),
            false => runs.push(run),
        }
        Ok(())
    })?;
    Ok((runs, next))
}

fn rewrite(snapshot: &Snapshot, grid: u32, group: &[Arc<Run<Location>>], cancel: &Cancel) -> Result<Option<Written>> {
    let (core, schema) = (&snapshot.core, &snapshot.view.schema);
    let missing =
        || Error::NotATable { location: core.store.location().into(), why: format!("its grid {grid} is missing") };
    let frame = core.frame(schema, grid)?.ok_or_else(missing)?;
    let cubes = above(&core.forest(), group.iter().map(|run| run.cube));
    let (_, directory) = core.view_with(cancel, |view| {
        let own = group.iter().map(|run| run.cube);
        view.runs.of_cubes(core, cubes.iter().copied().chain(own), cancel)
    })?;
    let new = NewRuns::filled(core, &snapshot.view, |segment| {
        let mut output = Output::new(core, &frame.dimensions, segment, DEFAULT_MEMORY, cancel);
        let lookup = output.lookup_columns();
        let encode = |run: &Arc<Run<Location>>| again(snapshot, &directory, &frame, run, &lookup, cancel);
        for some in group.chunks(8 * rayon::current_num_threads()) {
            output.append(some.par_iter().map(encode).collect::<Result<_>>()?)?;
        }
        output.finish()
    })?;
    let cutoffs = cubes.into_iter().map(|cube| (cube, directory.cutoff(cube))).collect();
    new.publish(core, Replacement { inputs: group.to_vec(), cutoffs, ..Replacement::default() }, cancel)
}

fn again(
    snapshot: &Snapshot,
    directory: &Directory,
    frame: &Arc<Frame>,
    run: &Arc<Run<Location>>,
    lookup: &LookupColumns,
    cancel: &Cancel,
) -> Result<EncodedRun> {
    cancel.check()?;
    let schema = &snapshot.view.schema;
    let (batch, _) = read_run(snapshot, run)?;
    let sorted = SortedRows::new(frame, &schema.stored, schema.run_encoding(), &[batch], cancel)?;
    let cutoff = directory.cutoff(run.cube);
    let (within, overflow) = sorted.all().partition(|row| cutoff.admits(sorted.priorities[*row as usize]));
    let placement = Placement { cube: run.cube, within, overflow, cutoff, is_one_of_many: false };
    Ok(sorted.encode(&placement, &lookup.keys(sorted.batch())))
}
