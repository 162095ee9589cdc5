//! Making replicas: copies of records in the cubes that their outlook reaches.
//!
//! A replica names the runs that it copies and holds all their rows inside its cube,
//! overflow too, and perhaps none (I4). It counts only while all of them live, so
//! nobody has to be told of it, and nothing breaks when one of them is rewritten.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use kubist_index::cube::CubeId;
use kubist_index::layout::Placement;
use kubist_index::outlook::Replication;
use kubist_index::priority::Threshold;
use kubist_index::state::{Run, RunId};
use rayon::prelude::*;

use crate::planner::movable;
use crate::policy::OptimizeOptions;
use kubist_catalog::directory::Directory;
use kubist_catalog::snapshot::Snapshot;
use kubist_catalog::view::View;
use kubist_format::location::Location;
use kubist_read::runs::read_run;
use kubist_types::cancel::Cancel;
use kubist_types::error::Result;
use kubist_write::build::SortedRows;
use kubist_write::publish::{NewRuns, Replacement, Written};

/// A cube that gets a replica, and the runs that it copies.
struct Target {
    cube: CubeId,
    sources: Vec<Arc<Run<Location>>>,
    /// Replicas that it replaces.
    old: Vec<Arc<Run<Location>>>,
}

/// Targets that are neighbours and whose sources fit in memory.
pub struct Part {
    /// Holds all of them.
    pub top: CubeId,
    targets: Vec<Target>,
}

/// All cubes of the newest tree that lack a good share of the replicas that the policy
/// wants there: the runs of older trees are about to move.
pub fn parts(view: &View, directory: &Directory, policy: Replication, options: &OptimizeOptions) -> Vec<Part> {
    let (newest, movable) = (view.schema.newest_grid(), movable(view));
    let Some(tree) = directory.trees().find(|tree| tree.geometry.grid() == newest) else { return Vec::new() };
    let geometry = tree.geometry;
    let mut outlooks: HashMap<CubeId, u32> = HashMap::new();
    let mut parts: Vec<Part> = Vec::new();
    let (mut held, mut rows): (HashSet<RunId>, u64) = Default::default();
    for cube in &directory.cubes()[tree.cubes] {
        let reaching = geometry.ancestors(*cube).filter(|ancestor| {
            let outlook = outlooks.entry(*ancestor);
            let outlook = outlook.or_insert_with(|| policy.outlook(&geometry, *ancestor, directory.cutoff(*ancestor)));
            ancestor.level() + *outlook >= cube.level()
        });
        // Of each cube the largest run: the others are about to be merged, and a replica
        // that names one of them dies with it.
        let largest = |ancestor| directory.runs_of(ancestor).iter().max_by_key(|run| run.rows);
        let sources: Vec<Arc<Run<Location>>> =
            reaching.filter_map(largest).filter(|run| movable(run)).cloned().collect();
        let old = directory.replicas_in(*cube);
        let missing: f64 = sources
            .iter()
            .filter(|run| !old.iter().any(|replica| replica.copies.contains(&run.id)))
            .map(|run| {
                let levels = (cube.level() - run.cube.level()) as i32;
                // A run without rows there is worth naming, too.
                (run.rows as f64 * 0.5f64.powi(levels * geometry.dimensions() as i32)).max(1.0)
            })
            .sum();
        let there = old.iter().map(|replica| replica.rows).sum::<u64>() as f64;
        if missing == 0.0 || (!old.is_empty() && missing < options.debt_share * (missing + there)) {
            continue;
        }
        if rows > options.rows_at_once || parts.is_empty() {
            parts.push(Part { top: *cube, targets: Vec::new() });
            (held, rows) = Default::default();
        }
        rows += sources.iter().filter(|run| held.insert(run.id)).map(|run| run.rows).sum::<u64>();
        if let Some(part) = parts.last_mut() {
            while !geometry.contains(part.top, *cube) {
                part.top = geometry.parent(part.top).unwrap_or(geometry.root());
            }
            part.targets.push(Target { cube: *cube, sources, old: old.to_vec() });
        }
    }
    parts
}

/// Writes the replicas of a part; `None` if somebody else has replaced one of the
/// sources, or copied one, first.
///
/// # Errors
///
/// `Cancelled`; `Damaged`; as of [`Core::view`]; a storage error.
pub fn copy(snapshot: &Snapshot, part: &Part, cancel: &Cancel) -> Result<Option<Written>> {
    let core = &snapshot.core;
    let Some(frame) = core.frame(&snapshot.view.schema, part.top.grid())? else { return Ok(Some(Written::default())) };
    let directory = snapshot.directory()?;
    let sources: BTreeMap<RunId, &Arc<Run<Location>>> =
        part.targets.iter().flat_map(|target| &target.sources).map(|run| (run.id, run)).collect();
    let number: HashMap<RunId, u32> = sources.keys().enumerate().map(|(number, run)| (*run, number as u32)).collect();
    let sources: Vec<&Arc<Run<Location>>> = sources.into_values().collect();
    let read = sources.par_iter().map(|run| {
        cancel.check()?;
        Ok(read_run(snapshot, run)?.0)
    });
    let batches = read.collect::<Result<Vec<_>>>()?;
    let source_of: Vec<u32> =
        batches.iter().zip(0u32..).flat_map(|(batch, source)| std::iter::repeat_n(source, batch.num_rows())).collect();
    let schema = &snapshot.view.schema;
    let sorted = SortedRows::new(&frame, &schema.stored, schema.run_encoding(), &batches, cancel)?;
    drop(batches);
    let source_of = sorted.arranged(source_of);
    let placements: Vec<Placement> = part
        .targets
        .par_iter()
        .map(|target| {
            let parent = frame.geometry.parent(target.cube);
            let cutoff = parent.map_or(Threshold::ALL, |parent| directory.cutoff(parent));
            let copied: HashSet<u32> = target.sources.iter().map(|run| number[&run.id]).collect();
            let rows = sorted.inside(&frame.geometry, target.cube);
            let rows = rows.filter(|row| copied.contains(&source_of[*row as usize]));
            let (within, overflow) = rows.partition(|row| cutoff.admits(sorted.priorities[*row as usize]));
            Placement { cube: target.cube, within, overflow, cutoff, is_one_of_many: false }
        })
        .collect();
    let mut new = NewRuns::write(core, &snapshot.view, &sorted, &placements, cancel)?;
    for (run, target) in new.runs.iter_mut().zip(&part.targets) {
        Arc::make_mut(run).copies = target.sources.iter().map(|source| source.id).collect();
    }
    let replacement = Replacement {
        inputs: part.targets.iter().flat_map(|target| target.old.iter().cloned()).collect(),
        copied: sources.into_iter().cloned().collect(),
        ..Replacement::default()
    };
    new.publish(core, replacement, cancel)
}
