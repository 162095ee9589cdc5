//! Makes replicas: copies of rows in the deeper cubes that their outlook reaches.
//!
//! A replica names the runs that it copies and holds all their rows inside its cube, including overflow; it may be
//! empty (I4). It counts only while all these runs live, so a rewrite that replaces a run needs no other change.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use kubist_index::cube::{CubeId, Geometry};
use kubist_index::layout::Placement;
use kubist_index::outlook::Replication;
use kubist_index::priority::Threshold;
use kubist_index::state::{Run, RunId};
use rayon::prelude::*;

use crate::planner::movable;
use crate::policy::OptimizeOptions;
use kubist_catalog::core::Core;
use kubist_catalog::directory::Entry;
use kubist_catalog::snapshot::Snapshot;
use kubist_catalog::view::View;
use kubist_format::location::Location;
use kubist_read::runs::read_run;
use kubist_types::cancel::Cancel;
use kubist_types::error::Result;
use kubist_write::build::SortedRows;
use kubist_write::publish::{NewRuns, Replacement, Written};

/// After this many targets no further part starts; the next plan finds the other replicas.
const MANY_TARGETS: usize = 1 << 16;

struct Target {
    cube: CubeId,
    cutoff: Threshold,
    sources: Vec<Arc<Run<Location>>>,
    old: Vec<Arc<Run<Location>>>,
}

/// Neighbouring targets whose sources fit in memory.
pub struct Part {
    pub top: CubeId,
    targets: Vec<Target>,
}

pub struct Parts {
    pub parts: Vec<Part>,
    pub are_all: bool,
}

struct Node {
    cube: CubeId,
    cutoff: Threshold,
    outlook: u32,
    /// The other runs will soon be merged, and then a replica that copies them would no longer count.
    largest: Option<Arc<Run<Location>>>,
    replicas: Vec<Arc<Run<Location>>>,
}

impl Node {
    fn new(cube: CubeId) -> Node {
        Node { cube, cutoff: Threshold::ALL, outlook: 0, largest: None, replicas: Vec::new() }
    }
}

struct Targets<'a> {
    geometry: Geometry,
    policy: Replication,
    options: &'a OptimizeOptions,
    path: Vec<Node>,
    here: Option<Node>,
    parts: Vec<Part>,
    targets: usize,
    held: HashSet<RunId>,
    rows: u64,
    bytes: u64,
    are_all: bool,
}

/// Finds the cubes of the newest tree that lack a large fraction of the required replicas, because rows of older trees
/// will move.
///
/// # Errors
///
/// The errors of [`Core::view`].
pub fn parts(core: &Core, policy: Replication, options: &OptimizeOptions) -> Result<(Arc<View>, Parts)> {
    core.view_with(&options.cancel, |view| {
        let (newest, movable) = (view.schema.newest_grid(), movable(view));
        let geometry = core.forest().tree(newest).filter(|_| policy != Replication::None);
        let Some(geometry) = geometry else { return Ok(Parts { parts: Vec::new(), are_all: true }) };
        let mut targets = Targets {
            geometry,
            policy,
            options,
            path: Vec::new(),
            here: None,
            parts: Vec::new(),
            targets: 0,
            held: HashSet::new(),
            rows: 0,
            bytes: 0,
            are_all: true,
        };
        view.runs.each_in_order(core, &options.cancel, |entry| {
            if entry.cube().grid() == newest {
                targets.add(entry, &movable);
            }
            Ok(())
        })?;
        targets.settle(&movable);
        Ok(Parts { parts: targets.parts, are_all: targets.are_all })
    })
}

impl Targets<'_> {
    fn add(&mut self, entry: Entry, movable: &impl Fn(&Arc<Run<Location>>) -> bool) {
        let cube = entry.cube();
        if self.here.as_ref().is_some_and(|here| here.cube != cube) {
            self.settle(movable);
        }
        let here = self.here.get_or_insert_with(|| Node::new(cube));
        match entry {
            Entry::Cutoff(_, cutoff) => here.cutoff = cutoff,
            Entry::Run(run) if run.is_replica() => here.replicas.push(run),
            Entry::Run(run) => {
                let is_larger = |other: &Arc<Run<Location>>| (run.rows, run.id) > (other.rows, other.id);
                if here.largest.as_ref().is_none_or(is_larger) {
                    here.largest = Some(run);
                }
            }
        }
    }

    fn settle(&mut self, movable: &impl Fn(&Arc<Run<Location>>) -> bool) {
        let Some(mut here) = self.here.take() else { return };
        let geometry = self.geometry;
        let around = |node: &&Node| node.cube != here.cube && geometry.contains(node.cube, here.cube);
        let kept = self.path.iter().take_while(around).count();
        self.path.truncate(kept);
        for empty in geometry.ancestors(here.cube).skip(kept) {
            self.path.push(Node { outlook: self.policy.outlook(&geometry, empty, Threshold::ALL), ..Node::new(empty) });
        }
        here.outlook = self.policy.outlook(&geometry, here.cube, here.cutoff);
        if here.largest.is_some() || here.cutoff < Threshold::ALL {
            self.consider(&mut here, movable);
        }
        self.path.push(here);
    }

    fn consider(&mut self, here: &mut Node, movable: &impl Fn(&Arc<Run<Location>>) -> bool) {
        let (cube, geometry) = (here.cube, self.geometry);
        let reaching = self.path.iter().filter(|above| above.cube.level() + above.outlook >= cube.level());
        let sources: Vec<Arc<Run<Location>>> =
            reaching.filter_map(|above| above.largest.as_ref()).filter(|run| movable(run)).cloned().collect();
        let mut old = std::mem::take(&mut here.replicas);
        old.sort_unstable_by_key(|run| run.id);
        let missing: f64 = sources
            .iter()
            .filter(|run| !old.iter().any(|replica| replica.copies.contains(&run.id)))
            .map(|run| {
                let levels = (cube.level() - run.cube.level()) as i32;
                // The replica must also name a run without rows here.
                (run.rows as f64 * 0.5f64.powi(levels * geometry.dimensions() as i32)).max(1.0)
            })
            .sum();
        let there = old.iter().map(|replica| replica.rows).sum::<u64>() as f64;
        if missing == 0.0 || (!old.is_empty() && missing < self.options.debt_share * (missing + there)) {
            return;
        }
        let is_full = |part: &Part| !self.options.fits(self.rows, self.bytes) || part.targets.len() >= MANY_TARGETS;
        if self.parts.last().is_none_or(is_full) {
            self.are_all &= self.targets < MANY_TARGETS;
            if !self.are_all {
                return;
            }
            self.parts.push(Part { top: cube, targets: Vec::new() });
            (self.held, self.rows, self.bytes) = Default::default();
        }
        for run in sources.iter().filter(|run| self.held.insert(run.id)) {
            self.rows += run.rows;
            self.bytes += run.payload.data_length;
        }
        self.targets += 1;
        if let Some(part) = self.parts.last_mut() {
            while !geometry.contains(part.top, cube) {
                part.top = geometry.parent(part.top).unwrap_or(geometry.root());
            }
            let cutoff = self.path.last().map_or(Threshold::ALL, |parent| parent.cutoff);
            part.targets.push(Target { cube, cutoff, sources, old });
        }
    }
}

/// Writes replicas; `None` if another rewrite has replaced or copied a source first.
///
/// # Errors
///
/// The errors of [`Core::view`].
pub fn copy(snapshot: &Snapshot, part: &Part, cancel: &Cancel) -> Result<Option<Written>> {
    let core = &snapshot.core;
    let Some(frame) = core.frame(&snapshot.view.schema, part.top.grid())? else { return Ok(Some(Written::default())) };
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
            let cutoff = target.cutoff;
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
