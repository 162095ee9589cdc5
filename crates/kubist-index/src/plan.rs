//! The reading rule: which runs a query must look at, from metadata alone.
//!
//! For a box R and a range of priorities, walk down from each start cube over
//! the cubes that meet R. Read a cube's runs if their priorities meet the range;
//! go below a cube only if the range reaches its cutoff (I2). At a start below
//! the root, its replicas stand in for the ancestors' runs that they copy, and
//! the other ancestor runs are read once per start, restricted to the start.
//!
//! The directory is flat, sorted arrays: a walk is a scan in depth-first order
//! that jumps over subtrees.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::cube::{CubeId, Geometry, GridBox};
use crate::priority::{PriorityRange, Threshold};
use crate::state::{Run, RunId, State};

/// All live runs of a snapshot, arranged for planning.
#[derive(Debug)]
pub struct Directory<L> {
    geometry: Geometry,
    /// Cubes that hold runs or have a cutoff, in depth-first order.
    cubes: Vec<CubeId>,
    cutoffs: Vec<Threshold>,
    /// `low[0..k], high[0..k]` of each cube.
    spans: Vec<u32>,
    /// Where the runs of each cube begin in `runs`; one more than cubes.
    first_run: Vec<u32>,
    /// Primaries by cube, then id.
    runs: Vec<Arc<Run<L>>>,
    replicas: HashMap<CubeId, Vec<Arc<Run<L>>>>,
    rows: u64,
}

/// A run to read; if `within` is given, only its points inside that cube.
#[derive(Debug)]
pub struct Visit<'a, L> {
    pub run: &'a Arc<Run<L>>,
    pub within: Option<CubeId>,
}

/// What a query has to read.
#[derive(Debug)]
pub struct Plan<'a, L> {
    pub visits: Vec<Visit<'a, L>>,
    pub cubes_visited: u64,
}

impl<L> Directory<L> {
    pub fn new(geometry: Geometry, state: &State<L>) -> Directory<L> {
        let (mut runs, mut replicas): (Vec<_>, HashMap<CubeId, Vec<_>>) = Default::default();
        for run in state.live() {
            match run.is_replica() {
                true => replicas.entry(run.cube).or_default().push(run.clone()),
                false => runs.push(run.clone()),
            }
        }
        runs.sort_unstable_by_key(|run: &Arc<Run<L>>| (run.cube, run.id));
        for copies in replicas.values_mut() {
            copies.sort_unstable_by_key(|run| run.id);
        }
        Directory::arrange(geometry, state, runs, replicas)
    }

    /// The directory of a state that has gained these primary runs and lost none:
    /// the same as [`Directory::new`], without sorting everything again.
    pub fn with_added(&self, state: &State<L>, mut added: Vec<Arc<Run<L>>>) -> Directory<L> {
        added.sort_unstable_by_key(|run| (run.cube, run.id));
        let mut runs = Vec::with_capacity(self.runs.len() + added.len());
        let mut old = self.runs.iter().peekable();
        for run in added {
            while let Some(before) = old.next_if(|old| (old.cube, old.id) < (run.cube, run.id)) {
                runs.push(before.clone());
            }
            runs.push(run);
        }
        runs.extend(old.cloned());
        Directory::arrange(self.geometry, state, runs, self.replicas.clone())
    }

    /// From sorted runs.
    fn arrange(
        geometry: Geometry,
        state: &State<L>,
        runs: Vec<Arc<Run<L>>>,
        replicas: HashMap<CubeId, Vec<Arc<Run<L>>>>,
    ) -> Directory<L> {
        let with_cutoff = state.cutoffs().filter(|(_, cutoff)| *cutoff < Threshold::ALL).map(|(cube, _)| cube);
        let mut cubes: Vec<CubeId> = runs.chunk_by(|a, b| a.cube == b.cube).map(|of_cube| of_cube[0].cube).collect();
        cubes.extend(with_cutoff);
        cubes.sort_unstable();
        cubes.dedup();
        let k = geometry.dimensions();
        let (mut spans, mut first_run, mut next) = (Vec::with_capacity(cubes.len() * 2 * k), vec![0], 0usize);
        for cube in &cubes {
            let span = geometry.span(*cube);
            spans.extend_from_slice(&span.low[..k]);
            spans.extend_from_slice(&span.high[..k]);
            next += runs[next..].iter().take_while(|run| run.cube == *cube).count();
            first_run.push(next as u32);
        }
        let cutoffs = cubes.iter().map(|cube| state.cutoff(*cube)).collect();
        let rows = runs.iter().map(|run| run.rows).sum();
        Directory { geometry, cubes, cutoffs, spans, first_run, runs, replicas, rows }
    }

    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Live primary records.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// All live primary runs, by cube in depth-first order.
    pub fn runs(&self) -> &[Arc<Run<L>>] {
        &self.runs
    }

    pub fn replicas(&self) -> impl Iterator<Item = &Arc<Run<L>>> {
        self.replicas.values().flatten()
    }

    /// Cubes that hold at least one run.
    pub fn occupied_cubes(&self) -> usize {
        self.first_run.windows(2).filter(|pair| pair[0] < pair[1]).count()
    }

    /// Levels of the tree: one more than that of the deepest cube with a run.
    pub fn height(&self) -> u32 {
        self.runs.iter().map(|run| run.cube.level() + 1).max().unwrap_or(0)
    }

    /// W(cube) in this snapshot.
    pub fn cutoff(&self, cube: CubeId) -> Threshold {
        self.cubes.binary_search(&cube).map_or(Threshold::ALL, |place| self.cutoffs[place])
    }

    /// All cutoffs below "everything".
    pub fn cutoffs(&self) -> impl Iterator<Item = (CubeId, Threshold)> {
        let cutoffs = self.cubes.iter().copied().zip(self.cutoffs.iter().copied());
        cutoffs.filter(|(_, cutoff)| *cutoff < Threshold::ALL)
    }

    /// The primary runs of one cube.
    pub fn runs_of(&self, cube: CubeId) -> &[Arc<Run<L>>] {
        match self.cubes.binary_search(&cube) {
            Ok(place) => &self.runs[self.first_run[place] as usize..self.first_run[place + 1] as usize],
            Err(_) => &[],
        }
    }

    /// The runs to read for a box and a range of priorities, from the root.
    pub fn plan(&self, grid_box: &GridBox, range: PriorityRange) -> Plan<'_, L> {
        self.plan_from(&[CubeId::ROOT], grid_box, range)
    }

    /// The same from start cubes, of which none contains another and which
    /// together cover the box.
    pub fn plan_from(&self, starts: &[CubeId], grid_box: &GridBox, range: PriorityRange) -> Plan<'_, L> {
        let mut plan = Plan { visits: Vec::new(), cubes_visited: 0 };
        for start in starts.iter().filter(|start| self.geometry.meets(**start, grid_box)) {
            let mut covered: HashSet<RunId> = HashSet::new();
            for replica in self.replicas.get(start).into_iter().flatten() {
                covered.extend(&replica.copies);
                if range.meets(replica.priorities.0, replica.priorities.1) && replica.rows > 0 {
                    plan.visits.push(Visit { run: replica, within: None });
                }
            }
            for ancestor in self.geometry.ancestors(*start) {
                if let Ok(place) = self.cubes.binary_search(&ancestor) {
                    plan.cubes_visited += 1;
                    let visits = self.readable(place, range).filter(|run| !covered.contains(&run.id));
                    plan.visits.extend(visits.map(|run| Visit { run, within: Some(*start) }));
                }
            }
            self.walk(*start, grid_box, range, &mut plan);
        }
        plan
    }

    fn readable(&self, place: usize, range: PriorityRange) -> impl Iterator<Item = &Arc<Run<L>>> {
        let runs = &self.runs[self.first_run[place] as usize..self.first_run[place + 1] as usize];
        runs.iter().filter(move |run| range.meets(run.priorities.0, run.priorities.1))
    }

    fn walk<'a>(&'a self, start: CubeId, grid_box: &GridBox, range: PriorityRange, plan: &mut Plan<'a, L>) {
        let k = self.geometry.dimensions();
        let end = self.geometry.end_of(start);
        let mut place = self.cubes.partition_point(|cube| *cube < start);
        while place < self.cubes.len() && self.cubes[place].to_u128() < end {
            let span = &self.spans[place * 2 * k..(place + 1) * 2 * k];
            let meets = (0..k).all(|d| span[d] <= grid_box.high[d] && span[k + d] >= grid_box.low[d]);
            if meets {
                plan.cubes_visited += 1;
                plan.visits.extend(self.readable(place, range).map(|run| Visit { run, within: None }));
            }
            if meets && !self.cutoffs[place].admits(range.last) {
                place += 1;
            } else {
                let past = self.geometry.end_of(self.cubes[place]);
                // Subtrees are mostly small: look nearby before searching.
                let near = self.cubes[place + 1..].iter().take(8).position(|cube| cube.to_u128() >= past);
                place = match near {
                    Some(step) => place + 1 + step,
                    None => place + self.cubes[place..].partition_point(|cube| cube.to_u128() < past),
                };
            }
        }
    }
}
