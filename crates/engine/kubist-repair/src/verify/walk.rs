//! Walks through the runs of a table in the order of their cubes, some at a time, to bound memory.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use kubist_catalog::directory::Entry;
use kubist_catalog::error::store_error;
use kubist_catalog::snapshot::Snapshot;
use kubist_format::location::Location;
use kubist_format::lookup::Lookup;
use kubist_format::lookups::first_run;
use kubist_index::cube::CubeId;
use kubist_index::forest::Forest;
use kubist_index::priority::Threshold;
use kubist_index::state::{Run, RunId};
use kubist_types::cancel::Cancel;
use kubist_types::error::Result;

use crate::verify::{VerifyOptions, VerifyReport};

const MAPS_AT_ONCE: usize = 256;
const ROWS_AT_ONCE: u64 = 1 << 18;

pub fn length(run: &Run<Location>, deep: bool) -> u64 {
    run.payload.map_length as u64 + if deep { run.payload.data_length } else { 0 }
}

pub struct WalkFindings {
    pub bytes: u64,
    pub lookups: BTreeMap<RunId, Arc<Lookup>>,
    pub replicas: Vec<Arc<Run<Location>>>,
    pub absent: HashSet<Arc<str>>,
}

impl WalkFindings {
    pub fn of(snapshot: &Snapshot, options: &VerifyOptions, report: &mut VerifyReport) -> Result<WalkFindings> {
        let (core, mut segments) = (&snapshot.core, BTreeSet::new());
        let mut seen =
            WalkFindings { bytes: 0, lookups: BTreeMap::new(), replicas: Vec::new(), absent: HashSet::new() };
        snapshot.view.runs.each(core, &options.cancel, |run| {
            seen.bytes += length(run, options.deep);
            if let Some(lookup) = &run.payload.lookup {
                seen.lookups.entry(first_run(run, lookup)).or_insert_with(|| lookup.clone());
            }
            if !segments.contains(&run.payload.segment) {
                segments.insert(run.payload.segment.clone());
            }
            if run.is_replica() {
                seen.replicas.push(run.clone());
            }
        })?;
        for segment in segments {
            match core.store.segment_len(&segment).map_err(store_error) {
                Ok(None) => drop(seen.absent.insert(segment)),
                Ok(Some(_)) => {}
                // The pass over the rows reads it again.
                Err(error) => report.note(error)?,
            }
        }
        seen.replicas.sort_by_key(|replica| (replica.cube, replica.id));
        Ok(seen)
    }

    pub fn sources(&self, snapshot: &Snapshot, cancel: &Cancel) -> Result<HashMap<RunId, CubeId>> {
        let named: HashSet<RunId> = self.replicas.iter().flat_map(|replica| replica.copies.iter().copied()).collect();
        let mut cubes = HashMap::new();
        if !named.is_empty() {
            snapshot.view.runs.each(&snapshot.core, cancel, |run| {
                if !run.is_replica() && named.contains(&run.id) {
                    cubes.insert(run.id, run.cube);
                }
            })?;
        }
        Ok(cubes)
    }
}

/// A run with the highest cutoff of the cubes above it.
pub type Placed = (Arc<Run<Location>>, Option<Threshold>);

/// Collects runs, in depth-first order of cubes, up to a number of rows in a deep check, otherwise of zone maps.
#[derive(Default)]
pub struct Waiting {
    pub runs: Vec<Placed>,
    rows: u64,
    /// The cutoffs of the last cube and the cubes above it.
    above: Vec<(CubeId, Threshold)>,
}

impl Waiting {
    pub fn take(&mut self, forest: &Forest, entry: Entry, deep: bool) -> Vec<Placed> {
        let cube = entry.cube();
        let tree = forest.tree_of(cube);
        while self.above.pop_if(|(other, _)| !tree.contains(*other, cube)).is_some() {}
        match entry {
            Entry::Cutoff(_, cutoff) => {
                self.above.push((cube, cutoff));
                Vec::new()
            }
            Entry::Run(run) => {
                let above = self.above.iter().filter(|(other, _)| *other != cube);
                let highest = match (tree.ancestors(cube).count(), above.clone().count()) {
                    (0, _) => None,
                    (all, known) if known < all => Some(Threshold::ALL),
                    _ => above.map(|(_, cutoff)| *cutoff).max(),
                };
                let is_enough = self.runs.len() >= MAPS_AT_ONCE || (deep && self.rows + run.rows > ROWS_AT_ONCE);
                let enough = if is_enough { std::mem::take(&mut self.runs) } else { Vec::new() };
                self.rows = run.rows + if is_enough { 0 } else { self.rows };
                self.runs.push((run, highest));
                enough
            }
        }
    }
}
