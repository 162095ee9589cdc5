//! The live runs of a snapshot, arranged for planning.
//!
//! Runs are in sorted arrays, in blocks that directories of later snapshots share (`blocks`). A walk scans them in
//! depth-first order, tree by tree, and skips subtrees.

mod blocks;
pub mod subregions;

use std::sync::{Arc, OnceLock};

use crate::cube::{CubeId, Geometry};
use crate::forest::Forest;
use crate::gradual::{self, Never, Steps, Stop};
use crate::priority::{PriorityRange, Threshold};
use crate::spread::SpreadSet;
use crate::state::{Run, RunId, State};
use blocks::{Block, Blocks, BlocksBuilder, Change, Sorted};
use subregions::Subtrees;

#[derive(Debug)]
pub struct Directory<L> {
    forest: Forest,
    pub(crate) primaries: Blocks<L>,
    pub(crate) copies: Blocks<L>,
    otherwise: Threshold,
    pub(crate) subtrees: OnceLock<Subtrees>,
}

#[derive(Debug)]
pub struct Changes<L> {
    /// New live primaries and replicas, each once.
    pub added: Vec<Arc<Run<L>>>,
    /// New cutoffs, and perhaps unchanged ones.
    pub cutoffs: Vec<(CubeId, Threshold)>,
    /// Removed runs; replicas of these runs are dead too.
    pub removed: SpreadSet<RunId>,
}

impl<L> Default for Changes<L> {
    fn default() -> Changes<L> {
        Changes { added: Vec::new(), cutoffs: Vec::new(), removed: SpreadSet::default() }
    }
}

impl<L> Directory<L> {
    pub fn new(forest: Forest, state: &State<L>) -> Directory<L> {
        let Ok(directory) = Directory::of(forest, state.live().cloned(), state.cutoffs(), &Never);
        directory
    }

    /// Builds the directory from live runs in any order, and the lowest cutoff per cube.
    ///
    /// # Errors
    ///
    /// `Stopped` if the work was cancelled.
    pub fn of<S: Stop>(
        forest: Forest,
        live: impl Iterator<Item = Arc<Run<L>>>,
        cutoffs: impl Iterator<Item = (CubeId, Threshold)>,
        stop: &S,
    ) -> Result<Directory<L>, S::Stopped> {
        Directory::made(forest, live, cutoffs, Threshold::ALL, stop)
    }

    /// Builds a partial directory: all runs that meet a box and a range of priorities, and any of the cutoffs.
    /// Plans for this box and range return the same rows as with the whole directory. By I2, rows below a cube
    /// have priorities at or above its cutoff, so a walk that descends further finds no other rows.
    ///
    /// # Errors
    ///
    /// `Stopped` if the work was cancelled.
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
        let (mut of_primaries, mut of_copies) =
            (BlocksBuilder::new(&forest, stride(&forest)), BlocksBuilder::new(&forest, 0));
        if otherwise < Threshold::ALL {
            (of_primaries, of_copies) = (of_primaries.otherwise(otherwise).whole(), of_copies.whole());
        }
        let primaries = of_primaries.of(primaries, lowest(cutoffs, stop)?, &|run| copied.contains(&run), stop)?;
        let copies = of_copies.of(replicas, Vec::new(), &|_| false, stop)?;
        Ok(Directory { forest, primaries, copies, otherwise, subtrees: OnceLock::new() })
    }

    /// Returns the directory of the changed state. The time is proportional to the changed blocks, with one step
    /// for each other block and each removed or copied run.
    ///
    /// # Panics
    ///
    /// In debug builds, if the directory is partial.
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

    pub fn nothing(forest: Forest) -> Directory<L> {
        let Ok(directory) = Directory::of(forest, std::iter::empty(), std::iter::empty(), &Never);
        directory
    }

    pub fn is_whole(&self) -> bool {
        self.otherwise == Threshold::ALL
    }

    pub fn forest(&self) -> &Forest {
        &self.forest
    }

    /// Trees with primary runs, oldest grid first.
    pub fn trees(&self) -> impl Iterator<Item = Geometry> + '_ {
        self.primaries.runs.iter().filter_map(|(grid, _)| self.forest.tree(*grid))
    }

    pub fn len(&self) -> usize {
        self.primaries.len_of_runs() + self.copies.len_of_runs()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn rows(&self) -> u64 {
        self.primaries.rows
    }

    /// All live primary runs, tree by tree in depth-first order.
    pub fn runs(&self) -> impl Iterator<Item = &Arc<Run<L>>> + Clone {
        self.primaries.all()
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<Run<L>>> + Clone {
        self.runs().chain(self.replicas())
    }

    pub fn replicas(&self) -> impl Iterator<Item = &Arc<Run<L>>> + Clone {
        self.copies.all()
    }

    pub fn replicas_in(&self, cube: CubeId) -> &[Arc<Run<L>>] {
        self.copies.runs_of(cube)
    }

    /// Cubes with primary runs or a cutoff, in depth-first order.
    pub fn cubes(&self) -> impl Iterator<Item = CubeId> + '_ {
        self.primaries.iter().flat_map(|block| block.cubes.iter().copied())
    }

    pub fn occupied_cubes(&self) -> usize {
        let occupied =
            |block: &Arc<Block<L>>| (0..block.cubes.len()).filter(|cube| !block.of_cube(*cube).is_empty()).count();
        self.primaries.iter().map(occupied).sum()
    }

    /// Number of levels down to the deepest cube with a primary run.
    pub fn height(&self) -> u32 {
        self.runs().map(|run| run.cube.level() + 1).max().unwrap_or(0)
    }

    /// The cutoff of a cube, W(cube), in this snapshot.
    pub fn cutoff(&self, cube: CubeId) -> Threshold {
        self.primaries.find(cube).map_or(self.otherwise, |(block, index)| block.cutoffs[index])
    }

    pub fn cutoffs(&self) -> impl Iterator<Item = (CubeId, Threshold)> {
        let cubes = self.cubes().zip(self.primaries.iter().flat_map(|block| block.cutoffs.iter().copied()));
        cubes.filter(|(_, cutoff)| *cutoff < Threshold::ALL)
    }

    pub fn runs_of(&self, cube: CubeId) -> &[Arc<Run<L>>] {
        self.primaries.runs_of(cube)
    }

    /// The cube's runs that meet the range and that a replica may copy.
    pub(crate) fn copied_runs(&self, cube: CubeId, range: PriorityRange) -> impl Iterator<Item = &Arc<Run<L>>> {
        let of_cube = self.primaries.find(cube).map(|(block, index)| block.readable(index, range));
        of_cube.into_iter().flatten().filter_map(|(run, is_copied)| is_copied.then_some(run))
    }
}

fn stride(forest: &Forest) -> usize {
    2 * forest.most_dimensions()
}

fn sorted<L, S: Stop>(runs: Vec<Arc<Run<L>>>, stop: &S) -> Result<Sorted<L>, S::Stopped> {
    let mut order: Vec<_> = (0u32..).zip(&runs).map(|(index, run)| (run.cube, run.id, index)).collect();
    // The sort does not follow the pointers to the runs. Most runs arrive nearly sorted.
    gradual::sort(&mut order, stop)?;
    let mut runs: Vec<_> = runs.into_iter().map(Some).collect();
    Ok(order.into_iter().filter_map(|(cube, _, index)| Some((cube, runs[index as usize].take()?))).collect())
}

fn lowest<S: Stop>(
    cutoffs: impl Iterator<Item = (CubeId, Threshold)>,
    stop: &S,
) -> Result<Vec<(CubeId, Threshold)>, S::Stopped> {
    let mut cutoffs: Vec<_> = cutoffs.filter(|(_, cutoff)| *cutoff < Threshold::ALL).collect();
    gradual::sort(&mut cutoffs, stop)?;
    cutoffs.dedup_by_key(|(cube, _)| *cube);
    Ok(cutoffs)
}

pub(crate) fn meets<L>(run: &Run<L>, range: PriorityRange) -> bool {
    range.meets(run.priorities.0, run.priorities.1)
}
