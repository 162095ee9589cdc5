//! All live runs of a snapshot, arranged for planning.
//!
//! The directory is sorted arrays, in blocks that directories of later snapshots share (`blocks`): a walk is a scan in
//! depth-first order that jumps over subtrees. The trees of a forest follow one another.

mod blocks;
pub mod parcels;

use std::sync::{Arc, OnceLock};

use crate::cube::{CubeId, Geometry};
use crate::forest::Forest;
use crate::gradual::{self, Never, Steps, Stop};
use crate::priority::{PriorityRange, Threshold};
use crate::spread::SpreadSet;
use crate::state::{Run, RunId, State};
use blocks::{Block, Blocks, Change, Making, Sorted};
use parcels::Subtrees;

/// All live runs of a snapshot, arranged for planning.
#[derive(Debug)]
pub struct Directory<L> {
    forest: Forest,
    /// Cubes that hold primaries or have a cutoff, tree by tree in depth-first order.
    pub(crate) primaries: Blocks<L>,
    /// Cubes that hold replicas.
    pub(crate) copies: Blocks<L>,
    /// The cutoff of cubes of which none is known.
    otherwise: Threshold,
    /// Once they were asked for.
    pub(crate) subtrees: OnceLock<Subtrees>,
}

/// What a state has gained and lost since it was arranged.
#[derive(Debug)]
pub struct Changes<L> {
    /// Primaries and replicas that live and were not there before, each once.
    pub added: Vec<Arc<Run<L>>>,
    /// At least the cutoffs that came with them.
    pub cutoffs: Vec<(CubeId, Threshold)>,
    /// Runs that are no more; replicas of these are none, either.
    pub removed: SpreadSet<RunId>,
}

impl<L> Default for Changes<L> {
    fn default() -> Changes<L> {
        Changes { added: Vec::new(), cutoffs: Vec::new(), removed: SpreadSet::default() }
    }
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
        let (mut primaries, mut replicas) = (Vec::new(), Vec::new());
        let (mut copied, mut steps) = (SpreadSet::default(), Steps::new(stop));
        for run in live {
            steps.step(1 + run.copies.len())?;
            copied.extend(run.copies.iter().copied());
            if run.is_replica() { replicas.push(run) } else { primaries.push(run) }
        }
        let (primaries, replicas) = (sorted(primaries, stop)?, sorted(replicas, stop)?);
        let (mut of_primaries, mut of_copies) = (Making::new(&forest, stride(&forest)), Making::new(&forest, 0));
        // Nothing is added to a part.
        if otherwise < Threshold::ALL {
            (of_primaries, of_copies) = (of_primaries.otherwise(otherwise).whole(), of_copies.whole());
        }
        let primaries = of_primaries.of(primaries, lowest(cutoffs, stop)?, &|run| copied.contains(&run), stop)?;
        let copies = of_copies.of(replicas, Vec::new(), &|_| false, stop)?;
        Ok(Directory { forest, primaries, copies, otherwise, subtrees: OnceLock::new() })
    }

    /// The directory of a state that has changed: what [`Directory::new`] of it holds, in the time of the blocks that
    /// something changed in, a step for each other block, and one for each name where a run was removed or is copied.
    ///
    /// # Panics
    ///
    /// In debug builds, of a part.
    pub fn with(&self, forest: &Forest, changes: &Changes<L>) -> Directory<L> {
        debug_assert!(self.is_whole(), "a part of a directory does not change");
        let Changes { added, cutoffs, removed } = changes;
        let lives = |run: &Run<L>| !removed.contains(&run.id) && !run.copies.iter().any(|run| removed.contains(run));
        let added = added.iter().cloned();
        if stride(forest) != self.primaries.stride {
            let live = self.all().filter(|run| lives(run)).cloned().chain(added);
            let Ok(anew) = Directory::of(forest.clone(), live, self.cutoffs().chain(cutoffs.iter().copied()), &Never);
            return anew;
        }
        let (replicas, primaries): (Vec<_>, Vec<_>) = added.partition(|run| run.is_replica());
        let sources: SpreadSet<RunId> = replicas.iter().flat_map(|replica| replica.copies.iter().copied()).collect();
        let (Ok(primaries), Ok(replicas)) = (sorted(primaries, &Never), sorted(replicas, &Never));
        let Ok(cutoffs) = lowest(cutoffs.iter().copied(), &Never);
        let is_touched = |block: &Arc<Block<L>>| {
            let mut ids = block.ids.iter().zip(&block.is_copied);
            ids.any(|(id, is_copied)| removed.contains(id) || (!is_copied && sources.contains(id)))
        };
        let touched: Vec<bool> = match removed.is_empty() && sources.is_empty() {
            true => Vec::new(),
            false => self.primaries.iter().map(is_touched).collect(),
        };
        let primaries = self.primaries.changed(
            forest,
            primaries,
            cutoffs,
            &touched,
            &Change {
                keeps: &|block, place| !removed.contains(&block.ids[place]),
                is_copied: &|run| sources.contains(&run),
            },
        );
        let is_touched = |block: &Arc<Block<L>>| block.ids.iter().chain(&block.sources).any(|id| removed.contains(id));
        let touched: Vec<bool> = match removed.is_empty() {
            true => Vec::new(),
            false => self.copies.iter().map(is_touched).collect(),
        };
        let change = Change { keeps: &|block, place| lives(&block.runs[place]), is_copied: &|_| false };
        let copies = self.copies.changed(forest, replicas, Vec::new(), &touched, &change);
        Directory { forest: forest.clone(), primaries, copies, otherwise: self.otherwise, subtrees: OnceLock::new() }
    }

    /// Of an empty table.
    pub fn nothing(forest: Forest) -> Directory<L> {
        let Ok(directory) = Directory::of(forest, std::iter::empty(), std::iter::empty(), &Never);
        directory
    }

    /// Does it hold all runs and cutoffs of a state?
    pub fn is_whole(&self) -> bool {
        self.otherwise == Threshold::ALL
    }

    /// The trees of its cubes.
    pub fn forest(&self) -> &Forest {
        &self.forest
    }

    /// The trees that have primary runs, oldest grid first: the others cost nothing.
    pub fn trees(&self) -> impl Iterator<Item = Geometry> + '_ {
        self.primaries.runs.iter().filter_map(|(grid, _)| self.forest.tree(*grid))
    }

    /// Live runs, primaries and replicas.
    pub fn len(&self) -> usize {
        self.primaries.len_of_runs() + self.copies.len_of_runs()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Live primary records.
    pub fn rows(&self) -> u64 {
        self.primaries.rows
    }

    /// All live primary runs, by cube, tree by tree in depth-first order.
    pub fn runs(&self) -> impl Iterator<Item = &Arc<Run<L>>> + Clone {
        self.primaries.all()
    }

    /// All live runs: first primaries, then replicas.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Run<L>>> + Clone {
        self.runs().chain(self.replicas())
    }

    /// All live replicas, by cube in depth-first order.
    pub fn replicas(&self) -> impl Iterator<Item = &Arc<Run<L>>> + Clone {
        self.copies.all()
    }

    /// The live replicas in one cube.
    pub fn replicas_in(&self, cube: CubeId) -> &[Arc<Run<L>>] {
        self.copies.runs_of(cube)
    }

    /// Cubes that hold primary runs or have a cutoff, in depth-first order.
    pub fn cubes(&self) -> impl Iterator<Item = CubeId> + '_ {
        self.primaries.iter().flat_map(|block| block.cubes.iter().copied())
    }

    /// Cubes that hold at least one primary run.
    pub fn occupied_cubes(&self) -> usize {
        let occupied =
            |block: &Arc<Block<L>>| (0..block.cubes.len()).filter(|cube| !block.of_cube(*cube).is_empty()).count();
        self.primaries.iter().map(occupied).sum()
    }

    /// Levels of the tree: one more than that of the deepest cube with a primary run.
    pub fn height(&self) -> u32 {
        self.runs().map(|run| run.cube.level() + 1).max().unwrap_or(0)
    }

    /// W(cube) in this snapshot.
    pub fn cutoff(&self, cube: CubeId) -> Threshold {
        self.primaries.find(cube).map_or(self.otherwise, |(block, index)| block.cutoffs[index])
    }

    /// All cutoffs below "everything".
    pub fn cutoffs(&self) -> impl Iterator<Item = (CubeId, Threshold)> {
        let cubes = self.cubes().zip(self.primaries.iter().flat_map(|block| block.cutoffs.iter().copied()));
        cubes.filter(|(_, cutoff)| *cutoff < Threshold::ALL)
    }

    /// The primary runs of one cube.
    pub fn runs_of(&self, cube: CubeId) -> &[Arc<Run<L>>] {
        self.primaries.runs_of(cube)
    }

    /// The readable runs of a cube that some replica may copy.
    pub(crate) fn copied_runs(&self, cube: CubeId, range: PriorityRange) -> impl Iterator<Item = &Arc<Run<L>>> {
        let of_cube = self.primaries.find(cube).map(|(block, index)| block.readable(index, range));
        of_cube.into_iter().flatten().filter_map(|(run, is_copied)| is_copied.then_some(run))
    }
}

/// As many numbers say where a cube of a forest lies.
fn stride(forest: &Forest) -> usize {
    2 * forest.most_dimensions()
}

/// By cube, then id.
fn sorted<L, S: Stop>(runs: Vec<Arc<Run<L>>>, stop: &S) -> Result<Sorted<L>, S::Stopped> {
    let mut order: Vec<_> = (0u32..).zip(&runs).map(|(index, run)| (run.cube, run.id, index)).collect();
    // What they are sorted by, without the runs: following each pointer would take longer.
    // Most come nearly in order, which this sort makes use of.
    gradual::sort(&mut order, stop)?;
    let mut runs: Vec<_> = runs.into_iter().map(Some).collect();
    Ok(order.into_iter().filter_map(|(cube, _, index)| Some((cube, runs[index as usize].take()?))).collect())
}

/// Of each cube the lowest cutoff, where that is below "everything".
fn lowest<S: Stop>(
    cutoffs: impl Iterator<Item = (CubeId, Threshold)>,
    stop: &S,
) -> Result<Vec<(CubeId, Threshold)>, S::Stopped> {
    let mut cutoffs: Vec<_> = cutoffs.filter(|(_, cutoff)| *cutoff < Threshold::ALL).collect();
    gradual::sort(&mut cutoffs, stop)?;
    cutoffs.dedup_by_key(|(cube, _)| *cube);
    Ok(cutoffs)
}

/// May the run hold priorities in the range?
pub(crate) fn meets<L>(run: &Run<L>, range: PriorityRange) -> bool {
    range.meets(run.priorities.0, run.priorities.1)
}
