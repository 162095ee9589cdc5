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
    /// The cutoff of cubes of which none is known.
    otherwise: Threshold,
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
    /// Of a whole state.
    pub fn new(geometry: Geometry, state: &State<L>) -> Directory<L> {
        Directory::of(geometry, state.live().cloned(), state.cutoffs())
    }

    /// Of live runs, in any order, and cutoffs, of which the lowest of each cube counts.
    pub fn of(
        geometry: Geometry,
        live: impl Iterator<Item = Arc<Run<L>>>,
        cutoffs: impl Iterator<Item = (CubeId, Threshold)>,
    ) -> Directory<L> {
        Directory::made(geometry, live, cutoffs, Threshold::ALL)
    }

    /// The same of a part that is enough for a box and a range of priorities: all runs that
    /// meet both, and any cutoffs. Plans for that box and range are then as good as with
    /// all (I2: what lies below a cube has priorities at or above its cutoff, so
    /// that it makes no difference whether one looks there).
    pub fn of_part(
        geometry: Geometry,
        live: impl Iterator<Item = Arc<Run<L>>>,
        cutoffs: impl Iterator<Item = (CubeId, Threshold)>,
    ) -> Directory<L> {
        Directory::made(geometry, live, cutoffs, Threshold::NONE)
    }

    fn made(
        geometry: Geometry,
        live: impl Iterator<Item = Arc<Run<L>>>,
        cutoffs: impl Iterator<Item = (CubeId, Threshold)>,
        otherwise: Threshold,
    ) -> Directory<L> {
        let (mut runs, mut by_cube): (Vec<_>, BTreeMap<CubeId, Vec<_>>) = Default::default();
        for run in live {
            match run.is_replica() {
                true => by_cube.entry(run.cube).or_default().push(run),
                false => runs.push((run.cube, run.id, run)),
            }
        }
        // With what they are sorted by beside them: following each pointer would take longer.
        // Most come nearly in order, which this sort makes use of.
        runs.sort_by_key(|(cube, id, _)| (*cube, *id));
        for replicas in by_cube.values_mut() {
            replicas.sort_unstable_by_key(|run| run.id);
        }
        let copied = by_cube.values().flatten().flat_map(|replica| replica.copies.iter().copied()).collect();
        let mut directory = Directory::empty(geometry, runs.len(), Arc::new(Replicas { by_cube, copied }));
        directory.otherwise = otherwise;
        directory.arrange(cutoffs, runs.into_iter().map(|(cube, _, run)| (cube, run)));
        directory
    }

    /// The directory of a state that has gained these primary runs and lost none:
    /// the same as [`Directory::new`], without sorting everything again. `lowered` has at
    /// least the cutoffs that came with them.
    pub fn with_added(
        &self,
        lowered: impl Iterator<Item = (CubeId, Threshold)>,
        mut added: Vec<Arc<Run<L>>>,
    ) -> Directory<L> {
        added.sort_unstable_by_key(|run| (run.cube, run.id));
        let mut directory = Directory::empty(self.geometry, self.runs.len() + added.len(), self.replicas.clone());
        let of_cubes = self.cubes.iter().zip(self.first_run.windows(2));
        let old = of_cubes
            .flat_map(|(cube, ends)| self.runs[ends[0] as usize..ends[1] as usize].iter().map(|run| (*cube, run)));
        let (mut old, mut new) = (old.peekable(), added.into_iter().peekable());
        directory.arrange(
            self.cutoffs().chain(lowered),
            std::iter::from_fn(|| {
                let before = |(cube, old): &(CubeId, &Arc<Run<L>>)| {
                    new.peek().is_none_or(|new| *cube < new.cube || (*cube == new.cube && old.id < new.id))
                };
                match old.next_if(before) {
                    Some((cube, run)) => Some((cube, run.clone())),
                    None => new.next().map(|run| (run.cube, run)),
                }
            }),
        );
        directory
    }

    /// One of no runs yet.
    fn empty(geometry: Geometry, runs: usize, replicas: Arc<Replicas<L>>) -> Directory<L> {
        Directory {
            geometry,
            cubes: Vec::with_capacity(runs),
            cutoffs: Vec::with_capacity(runs),
            spans: Vec::with_capacity(runs * 2 * geometry.dimensions()),
            first_run: Vec::with_capacity(runs + 1),
            runs: Vec::with_capacity(runs),
            replicas,
            rows: 0,
            otherwise: Threshold::ALL,
        }
    }

    /// Takes all runs, sorted by cube and id, and the cutoffs.
    fn arrange(
        &mut self,
        cutoffs: impl Iterator<Item = (CubeId, Threshold)>,
        runs: impl Iterator<Item = (CubeId, Arc<Run<L>>)>,
    ) {
        let mut cutoffs: Vec<_> = cutoffs.filter(|(_, cutoff)| *cutoff < Threshold::ALL).collect();
        cutoffs.sort_unstable();
        cutoffs.dedup_by_key(|(cube, _)| *cube);
        let mut cutoffs = cutoffs.into_iter().peekable();
        for (cube, run) in runs {
            if self.cubes.last() != Some(&cube) {
                while let Some((empty, cutoff)) = cutoffs.next_if(|(next, _)| *next < cube) {
                    self.begin_cube(empty, cutoff);
                }
                let cutoff = cutoffs.next_if(|(next, _)| *next == cube).map_or(self.otherwise, |(_, cutoff)| cutoff);
                self.begin_cube(cube, cutoff);
            }
            self.rows += run.rows;
            self.runs.push(run);
        }
        cutoffs.for_each(|(empty, cutoff)| self.begin_cube(empty, cutoff));
        self.first_run.push(self.runs.len() as u32);
    }

    fn begin_cube(&mut self, cube: CubeId, cutoff: Threshold) {
        let (span, k) = (self.geometry.span(cube), self.geometry.dimensions());
        self.spans.extend_from_slice(&span.low[..k]);
        self.spans.extend_from_slice(&span.high[..k]);
        self.cubes.push(cube);
        self.cutoffs.push(cutoff);
        self.first_run.push(self.runs.len() as u32);
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

    /// All live runs: first primaries, then replicas.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Run<L>>> + Clone {
        self.runs.iter().chain(self.replicas.by_cube.values().flatten())
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
        self.cubes.binary_search(&cube).map_or(self.otherwise, |place| self.cutoffs[place])
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
