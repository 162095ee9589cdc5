//! All live runs of a snapshot, arranged for planning.
//!
//! The directory is flat, sorted arrays: a walk is a scan in depth-first order
//! that jumps over subtrees. The trees of a forest follow one another.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use crate::cube::{CubeId, Geometry};
use crate::forest::Forest;
use crate::gradual::{self, Never, Steps, Stop};
use crate::priority::{PriorityRange, Threshold};
use crate::state::{Run, RunId, State};

/// All live runs of a snapshot, arranged for planning.
#[derive(Debug)]
pub struct Directory<L> {
    forest: Forest,
    /// Cubes that hold runs or have a cutoff, tree by tree in depth-first order.
    pub(crate) cubes: Vec<CubeId>,
    pub(crate) cutoffs: Vec<Threshold>,
    /// `low[0..k], high[0..k]` of each cube, of which the k of its tree are used.
    pub(crate) spans: Vec<u32>,
    /// As many numbers are of each cube: twice the most dimensions of a tree.
    pub(crate) stride: usize,
    /// Where the runs of each cube begin in `runs`; one more than cubes.
    pub(crate) first_run: Vec<u32>,
    /// Primaries by cube, then id.
    pub(crate) runs: Vec<Arc<Run<L>>>,
    pub(crate) replicas: Arc<Replicas<L>>,
    rows: u64,
    /// The cutoff of cubes of which none is known.
    otherwise: Threshold,
}

/// The part of a directory that is of one tree.
pub struct Tree {
    pub geometry: Geometry,
    /// Its cubes, by their indices in the directory.
    pub cubes: Range<usize>,
    /// Its primary runs, likewise.
    pub runs: Range<usize>,
}

/// All live replicas of a snapshot.
#[derive(Debug)]
pub(crate) struct Replicas<L> {
    pub by_cube: BTreeMap<CubeId, Vec<Arc<Run<L>>>>,
    /// How many there are.
    pub count: usize,
    /// Primaries that some replica copies.
    pub copied: HashSet<RunId>,
}

impl<L> Directory<L> {
    /// Of a whole state.
    pub fn new(forest: Forest, state: &State<L>) -> Directory<L> {
        let Ok(directory) = Directory::of(forest, state.live().cloned(), state.cutoffs(), &Never);
        directory
    }

    /// Of live runs, in any order, and cutoffs, of which the lowest of each cube counts.
    ///
    /// # Errors
    ///
    /// `Stopped` once the work is to end.
    pub fn of<S: Stop>(
        forest: Forest,
        live: impl Iterator<Item = Arc<Run<L>>>,
        cutoffs: impl Iterator<Item = (CubeId, Threshold)>,
        stop: &S,
    ) -> Result<Directory<L>, S::Stopped> {
        Directory::made(forest, live, cutoffs, Threshold::ALL, stop)
    }

    /// The same of a part that is enough for a box and a range of priorities: all runs that
    /// meet both, and any cutoffs. Plans for that box and range are then as good as with
    /// all (I2: what lies below a cube has priorities at or above its cutoff, so
    /// that it makes no difference whether one looks there).
    ///
    /// # Errors
    ///
    /// `Stopped` once the work is to end.
    pub fn of_part<S: Stop>(
        forest: Forest,
        live: impl Iterator<Item = Arc<Run<L>>>,
        cutoffs: impl Iterator<Item = (CubeId, Threshold)>,
        stop: &S,
    ) -> Result<Directory<L>, S::Stopped> {
        Directory::made(forest, live, cutoffs, Threshold::NONE, stop)
    }

    fn made<S: Stop>(
        forest: Forest,
        live: impl Iterator<Item = Arc<Run<L>>>,
        cutoffs: impl Iterator<Item = (CubeId, Threshold)>,
        otherwise: Threshold,
        stop: &S,
    ) -> Result<Directory<L>, S::Stopped> {
        let (mut primaries, mut order, mut by_cube): (Vec<_>, Vec<_>, BTreeMap<CubeId, Vec<_>>) = Default::default();
        let mut steps = Steps::new(stop);
        for run in live {
            steps.step(1)?;
            match run.is_replica() {
                true => by_cube.entry(run.cube).or_default().push(run),
                false => {
                    order.push((run.cube, run.id, primaries.len() as u32));
                    primaries.push(Some(run));
                }
            }
        }
        // What they are sorted by, without the runs: following each pointer would take longer.
        // Most come nearly in order, which this sort makes use of.
        gradual::sort(&mut order, stop)?;
        for replicas in by_cube.values_mut() {
            steps.step(replicas.len())?;
            replicas.sort_unstable_by_key(|run| run.id);
        }
        let mut copied = HashSet::new();
        for replica in by_cube.values().flatten() {
            steps.step(replica.copies.len())?;
            copied.extend(replica.copies.iter().copied());
        }
        let count = by_cube.values().map(Vec::len).sum();
        let mut directory = Directory::empty(forest, primaries.len(), Arc::new(Replicas { by_cube, count, copied }));
        directory.otherwise = otherwise;
        let sorted = order.into_iter().filter_map(|(cube, _, index)| Some((cube, primaries[index as usize].take()?)));
        directory.arrange(cutoffs, sorted, stop)?;
        Ok(directory)
    }

    /// The directory of a state that has gained these primary runs and lost none:
    /// the same as [`Directory::new`], without sorting everything again. `lowered` has at
    /// least the cutoffs that came with them.
    pub fn with_added(
        &self,
        forest: Forest,
        lowered: impl Iterator<Item = (CubeId, Threshold)>,
        mut added: Vec<Arc<Run<L>>>,
    ) -> Directory<L> {
        added.sort_unstable_by_key(|run| (run.cube, run.id));
        let mut directory = Directory::empty(forest, self.runs.len() + added.len(), self.replicas.clone());
        let of_cubes = self.cubes.iter().zip(self.first_run.windows(2));
        let old = of_cubes
            .flat_map(|(cube, ends)| self.runs[ends[0] as usize..ends[1] as usize].iter().map(|run| (*cube, run)));
        let (mut old, mut new) = (old.peekable(), added.into_iter().peekable());
        let Ok(()) = directory.arrange(
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
            &Never,
        );
        directory
    }

    /// Of an empty table.
    pub fn nothing(forest: Forest) -> Directory<L> {
        let Ok(directory) = Directory::of(forest, std::iter::empty(), std::iter::empty(), &Never);
        directory
    }

    /// One of no runs yet.
    fn empty(forest: Forest, runs: usize, replicas: Arc<Replicas<L>>) -> Directory<L> {
        let stride = 2 * forest.most_dimensions();
        Directory {
            forest,
            cubes: Vec::with_capacity(runs),
            cutoffs: Vec::with_capacity(runs),
            spans: Vec::with_capacity(runs * stride),
            stride,
            first_run: Vec::with_capacity(runs + 1),
            runs: Vec::with_capacity(runs),
            replicas,
            rows: 0,
            otherwise: Threshold::ALL,
        }
    }

    /// Takes all runs, sorted by cube and id, and the cutoffs.
    fn arrange<S: Stop>(
        &mut self,
        cutoffs: impl Iterator<Item = (CubeId, Threshold)>,
        runs: impl Iterator<Item = (CubeId, Arc<Run<L>>)>,
        stop: &S,
    ) -> Result<(), S::Stopped> {
        let mut cutoffs: Vec<_> = cutoffs.filter(|(_, cutoff)| *cutoff < Threshold::ALL).collect();
        gradual::sort(&mut cutoffs, stop)?;
        cutoffs.dedup_by_key(|(cube, _)| *cube);
        let (mut cutoffs, mut steps) = (cutoffs.into_iter().peekable(), Steps::new(stop));
        for (cube, run) in runs {
            steps.step(1)?;
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
        Ok(())
    }

    fn begin_cube(&mut self, cube: CubeId, cutoff: Threshold) {
        let tree = self.forest.tree_of(cube);
        let (span, k, end) = (tree.span(cube), tree.dimensions(), self.spans.len() + self.stride);
        self.spans.extend_from_slice(&span.low[..k]);
        self.spans.extend_from_slice(&span.high[..k]);
        self.spans.resize(end, 0);
        self.cubes.push(cube);
        self.cutoffs.push(cutoff);
        self.first_run.push(self.runs.len() as u32);
    }

    /// The trees of its cubes.
    pub fn forest(&self) -> &Forest {
        &self.forest
    }

    /// The trees that have primary runs, oldest grid first: the others cost nothing.
    pub fn trees(&self) -> impl Iterator<Item = Tree> + '_ {
        self.forest.trees().filter_map(|geometry| {
            let end = geometry.end_of(geometry.root());
            let first = self.cubes.partition_point(|cube| *cube < geometry.root());
            let count = self.cubes[first..].partition_point(|cube| cube.to_u128() < end);
            let runs = self.first_run[first] as usize..self.first_run[first + count] as usize;
            (!runs.is_empty()).then_some(Tree { geometry, cubes: first..first + count, runs })
        })
    }

    /// Live runs, primaries and replicas.
    pub fn len(&self) -> usize {
        self.runs.len() + self.replicas.count
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Live primary records.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// All live primary runs, by cube, tree by tree in depth-first order.
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
        self.cubes.binary_search(&cube).map_or(self.otherwise, |index| self.cutoffs[index])
    }

    /// All cutoffs below "everything".
    pub fn cutoffs(&self) -> impl Iterator<Item = (CubeId, Threshold)> {
        let cutoffs = self.cubes.iter().copied().zip(self.cutoffs.iter().copied());
        cutoffs.filter(|(_, cutoff)| *cutoff < Threshold::ALL)
    }

    /// The primary runs of one cube.
    pub fn runs_of(&self, cube: CubeId) -> &[Arc<Run<L>>] {
        match self.cubes.binary_search(&cube) {
            Ok(index) => &self.runs[self.first_run[index] as usize..self.first_run[index + 1] as usize],
            Err(_) => &[],
        }
    }

    /// The readable runs of a cube that some replica copies.
    pub(crate) fn copied_runs(&self, cube: CubeId, range: PriorityRange) -> impl Iterator<Item = &Arc<Run<L>>> {
        let copied = self.runs_of(cube).iter().filter(move |run| meets(run, range));
        copied.filter(|run| self.replicas.copied.contains(&run.id))
    }
}

/// May the run hold priorities in the range?
pub(crate) fn meets<L>(run: &Run<L>, range: PriorityRange) -> bool {
    range.meets(run.priorities.0, run.priorities.1)
}
