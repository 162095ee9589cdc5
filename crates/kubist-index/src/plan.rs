//! The reading rule: which runs a query must look at, from metadata alone.
//!
//! For a box R and a range of priorities, walk down from each start cube over
//! the cubes that meet R. Read a cube's runs if their priorities meet the range;
//! go below a cube only if the range reaches its cutoff (I2). At a start below
//! the root, replicas in it or above it stand in for the ancestors' runs that they
//! copy; the other ancestor runs are read once, restricted to the starts whose
//! replicas do not cover them. Which starts to choose is the matter of `start`.
//!
//! The directory is flat, sorted arrays: a walk is a scan in depth-first order
//! that jumps over subtrees.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::cube::{CubeId, Geometry, GridBox};
use crate::priority::{PriorityRange, Threshold};
use crate::start::Start;
use crate::state::{Run, RunId, State};

/// All live runs of a snapshot, arranged for planning.
#[derive(Debug)]
pub struct Directory<L> {
    pub(crate) geometry: Geometry,
    /// Cubes that hold runs or have a cutoff, in depth-first order.
    cubes: Vec<CubeId>,
    cutoffs: Vec<Threshold>,
    /// `low[0..k], high[0..k]` of each cube.
    spans: Vec<u32>,
    /// Where the runs of each cube begin in `runs`; one more than cubes.
    first_run: Vec<u32>,
    /// Primaries by cube, then id.
    runs: Vec<Arc<Run<L>>>,
    pub(crate) replicas: Arc<Replicas<L>>,
    rows: u64,
}

/// All live replicas of a snapshot.
#[derive(Debug)]
pub(crate) struct Replicas<L> {
    pub by_cube: BTreeMap<CubeId, Vec<Arc<Run<L>>>>,
    /// Primaries that some replica copies.
    pub copied: HashSet<RunId>,
}

/// A run to read; if `within` is given, only its points inside those cubes.
#[derive(Debug)]
pub struct Visit<'a, L> {
    pub run: &'a Arc<Run<L>>,
    pub within: Option<Arc<[CubeId]>>,
}

/// What a query has to read.
#[derive(Debug)]
pub struct Plan<'a, L> {
    pub visits: Vec<Visit<'a, L>>,
    pub cubes_visited: u64,
}

impl<L> Directory<L> {
    pub fn new(geometry: Geometry, state: &State<L>) -> Directory<L> {
        let (mut runs, mut by_cube): (Vec<_>, BTreeMap<CubeId, Vec<_>>) = Default::default();
        for run in state.live() {
            match run.is_replica() {
                true => by_cube.entry(run.cube).or_default().push(run.clone()),
                false => runs.push((run.cube, run.id, run.clone())),
            }
        }
        // With what they are sorted by beside them: following each pointer would take longer.
        runs.sort_unstable_by_key(|(cube, id, _)| (*cube, *id));
        let runs = runs.into_iter().map(|(_, _, run)| run).collect();
        for replicas in by_cube.values_mut() {
            replicas.sort_unstable_by_key(|run| run.id);
        }
        let copied = by_cube.values().flatten().flat_map(|replica| replica.copies.iter().copied()).collect();
        Directory::arrange(geometry, state, runs, Arc::new(Replicas { by_cube, copied }))
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
        replicas: Arc<Replicas<L>>,
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

    /// All live replicas, by cube in depth-first order.
    pub fn replicas(&self) -> impl Iterator<Item = &Arc<Run<L>>> {
        self.replicas.by_cube.values().flatten()
    }

    /// The live replicas in one cube.
    pub fn replicas_in(&self, cube: CubeId) -> &[Arc<Run<L>>] {
        self.replicas.by_cube.get(&cube).map_or(&[], Vec::as_slice)
    }

    /// Cubes that hold runs or have a cutoff, in depth-first order.
    pub fn cubes(&self) -> &[CubeId] {
        &self.cubes
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

    /// The runs to read for a box and a range of priorities, from where that costs least.
    pub fn plan(&self, grid_box: &GridBox, range: PriorityRange) -> Plan<'_, L> {
        match self.replicas.by_cube.is_empty() {
            true => self.plan_from(&[Start::ROOT], grid_box, range),
            false => self.plan_from(&self.starts(grid_box, range), grid_box, range),
        }
    }

    /// The same from given starts, of whose regions none contains another and which
    /// together cover the box.
    pub fn plan_from(&self, starts: &[Start], grid_box: &GridBox, range: PriorityRange) -> Plan<'_, L> {
        let mut plan = Plan { visits: Vec::new(), cubes_visited: 0 };
        let starts: Vec<&Start> = starts.iter().filter(|start| self.geometry.meets(start.region, grid_box)).collect();
        // The starts below each cube, and those that use its replicas.
        let (mut below, mut using): (BTreeMap<_, Vec<&Start>>, BTreeMap<_, Vec<&Start>>) = Default::default();
        for start in &starts {
            for ancestor in self.geometry.ancestors(start.region) {
                below.entry(ancestor).or_default().push(start);
            }
            using.entry(start.source).or_default().push(start);
        }
        let mut covered: HashMap<CubeId, HashSet<RunId>> = HashMap::new();
        for (source, users) in &using {
            let whole = users[0].region == *source || users.len() == below[source].len();
            let replicas = self.replicas_in(*source);
            for replica in replicas.iter().filter(|replica| replica.rows > 0 && meets(replica, range)) {
                let within = (!whole).then(|| regions(users.iter()));
                plan.visits.push(Visit { run: replica, within });
            }
            covered.insert(*source, replicas.iter().flat_map(|replica| replica.copies.iter().copied()).collect());
        }
        for (ancestor, starts) in &below {
            let Ok(place) = self.cubes.binary_search(ancestor) else { continue };
            plan.cubes_visited += 1;
            for run in self.readable(place, range) {
                // Most runs are copied nowhere: no need to look at every start.
                if !self.replicas.copied.contains(&run.id) {
                    plan.visits.push(Visit { run, within: None });
                    continue;
                }
                let open: Vec<&&Start> =
                    starts.iter().filter(|start| !covered[&start.source].contains(&run.id)).collect();
                if !open.is_empty() {
                    let within = (open.len() < starts.len()).then(|| regions(open.into_iter()));
                    plan.visits.push(Visit { run, within });
                }
            }
        }
        for start in &starts {
            self.walk(start.region, grid_box, range, &mut plan);
        }
        plan
    }

    /// The readable runs of a cube that some replica copies.
    pub(crate) fn copied_runs(&self, cube: CubeId, range: PriorityRange) -> impl Iterator<Item = &Arc<Run<L>>> {
        let copied = self.runs_of(cube).iter().filter(move |run| meets(run, range));
        copied.filter(|run| self.replicas.copied.contains(&run.id))
    }

    fn readable(&self, place: usize, range: PriorityRange) -> impl Iterator<Item = &Arc<Run<L>>> {
        let runs = &self.runs[self.first_run[place] as usize..self.first_run[place + 1] as usize];
        runs.iter().filter(move |run| meets(run, range))
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

/// May the run hold priorities in the range?
pub(crate) fn meets<L>(run: &Run<L>, range: PriorityRange) -> bool {
    range.meets(run.priorities.0, run.priorities.1)
}

fn regions<'a>(starts: impl Iterator<Item = &'a &'a Start>) -> Arc<[CubeId]> {
    starts.map(|start| start.region).collect()
}
