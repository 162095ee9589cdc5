//! Runs by cube in depth-first order, in immutable blocks of cubes.
//!
//! A change rewrites the blocks in which runs are added or removed, and shares the others at one step each.

use std::ops::Range;
use std::sync::Arc;
use std::vec::IntoIter;

use super::meets;
use crate::cube::CubeId;
use crate::forest::Forest;
use crate::gradual::{Never, Steps, Stop};
use crate::priority::{PriorityRange, Threshold};
use crate::state::{Run, RunId};

/// Usual number of cubes in a new block; at most twice as many.
pub const USUAL_CUBES: usize = 64;
/// A block with fewer cubes is merged with the next one.
const LEAST_CUBES: usize = USUAL_CUBES / 4;

/// Sorted by cube and id. The cubes are copied here because following each pointer would take longer.
pub(super) type Sorted<L> = Vec<(CubeId, Arc<Run<L>>)>;

struct Ahead<T>(IntoIter<(CubeId, T)>);

impl<T> Ahead<T> {
    fn cube(&self) -> Option<CubeId> {
        self.0.as_slice().first().map(|(cube, _)| *cube)
    }

    fn of(&self, cube: CubeId) -> Option<&T> {
        self.0.as_slice().first().filter(|(next, _)| *next == cube).map(|(_, next)| next)
    }

    fn take_of(&mut self, cube: CubeId) -> Option<T> {
        self.of(cube)?;
        self.0.next().map(|(_, next)| next)
    }

    fn before(&self, end: Option<CubeId>) -> usize {
        end.map_or(self.0.len(), |end| self.0.as_slice().partition_point(|(cube, _)| *cube < end))
    }
}

pub(super) struct Change<'a, L> {
    pub keeps: &'a dyn Fn(&Block<L>, usize) -> bool,
    /// Whether a replica may copy the run after the change.
    pub is_copied: &'a dyn Fn(RunId) -> bool,
}

#[derive(Debug)]
pub(crate) struct Block<L> {
    pub cubes: Vec<CubeId>,
    pub cutoffs: Vec<Threshold>,
    /// `low[0..k], high[0..k]` per cube, where k is the number of dimensions of its tree.
    spans: Vec<u32>,
    first_run: Vec<u32>,
    pub runs: Vec<Arc<Run<L>>>,
    pub ids: Vec<RunId>,
    pub sources: Vec<RunId>,
    /// Whether a replica may copy the run.
    pub is_copied: Vec<bool>,
    rows: u64,
}

impl<L> Block<L> {
    fn nothing() -> Block<L> {
        Block {
            cubes: Vec::new(),
            cutoffs: Vec::new(),
            spans: Vec::new(),
            first_run: Vec::new(),
            runs: Vec::new(),
            ids: Vec::new(),
            sources: Vec::new(),
            is_copied: Vec::new(),
            rows: 0,
        }
    }

    fn reserve(&mut self, cubes: usize, stride: usize) {
        self.cubes.reserve_exact(cubes);
        self.cutoffs.reserve_exact(cubes);
        self.spans.reserve_exact(cubes * stride);
        self.first_run.reserve_exact(cubes);
        self.runs.reserve(cubes);
        self.ids.reserve(cubes);
        self.is_copied.reserve(cubes);
    }

    pub fn of_cube(&self, index: usize) -> Range<usize> {
        let end = self.first_run.get(index + 1).map_or(self.runs.len(), |end| *end as usize);
        self.first_run[index] as usize..end
    }

    /// The cube's runs that may have priorities in the range, each with whether a replica may copy it.
    pub fn readable(&self, index: usize, range: PriorityRange) -> impl Iterator<Item = (&Arc<Run<L>>, bool)> {
        let places = self.of_cube(index);
        let runs = self.runs[places.clone()].iter().zip(self.is_copied[places].iter().copied());
        runs.filter(move |(run, _)| meets(run, range))
    }

    pub fn span(&self, index: usize, stride: usize) -> &[u32] {
        &self.spans[index * stride..][..stride]
    }
}

#[derive(Debug)]
pub(crate) struct Blocks<L> {
    firsts: Vec<CubeId>,
    blocks: Vec<Arc<Block<L>>>,
    /// Twice the most dimensions of a tree, or 0.
    pub stride: usize,
    /// Runs per grid, ascending, without grids that have none.
    pub runs: Vec<(u32, usize)>,
    pub rows: u64,
}

impl<L> std::ops::Deref for Blocks<L> {
    type Target = [Arc<Block<L>>];

    fn deref(&self) -> &[Arc<Block<L>>] {
        &self.blocks
    }
}

impl<L> Blocks<L> {
    /// The first position at or after a cube: a block, and an index in it.
    pub fn seek(&self, cube: CubeId) -> (usize, usize) {
        self.at_or_behind(0, cube.to_u128())
    }

    /// The first position at or after an id, searched from `block` on.
    pub fn at_or_behind(&self, block: usize, bound: u128) -> (usize, usize) {
        let begun = self.firsts[block.min(self.firsts.len())..].partition_point(|first| first.to_u128() < bound);
        let Some(last) = begun.checked_sub(1) else { return (block, 0) };
        let (block, cubes) = (block + last, &self.blocks[block + last].cubes);
        match cubes.partition_point(|cube| cube.to_u128() < bound) {
            index if index == cubes.len() => (block + 1, 0),
            index => (block, index),
        }
    }

    pub fn find(&self, cube: CubeId) -> Option<(&Block<L>, usize)> {
        let (block, index) = self.seek(cube);
        let block = self.blocks.get(block)?;
        (block.cubes[index] == cube).then_some((block, index))
    }

    pub fn behind(&self, cube: CubeId) -> Option<CubeId> {
        let (block, index) = self.seek(cube);
        let here = self.blocks.get(block)?;
        match here.cubes[index] == cube {
            false => Some(here.cubes[index]),
            true => here.cubes.get(index + 1).or_else(|| self.firsts.get(block + 1)).copied(),
        }
    }

    pub fn len_of_runs(&self) -> usize {
        self.runs.iter().map(|(_, runs)| runs).sum()
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<Run<L>>> + Clone {
        self.blocks.iter().flat_map(|block| &block.runs)
    }

    pub fn runs_of(&self, cube: CubeId) -> &[Arc<Run<L>>] {
        self.find(cube).map_or(&[], |(block, index)| &block.runs[block.of_cube(index)])
    }

    /// The blocks with added runs and lower cutoffs, and without the removed runs of `touched` blocks.
    pub(super) fn changed(
        &self,
        forest: &Forest,
        added: Sorted<L>,
        mut lowered: Vec<(CubeId, Threshold)>,
        touched: &[bool],
        change: &Change<'_, L>,
    ) -> Blocks<L> {
        // Commits repeat cutoffs; these change nothing.
        lowered.retain(|(cube, cutoff)| self.find(*cube).is_none_or(|(block, index)| *cutoff < block.cutoffs[index]));
        let mut making = BlocksBuilder::new(forest, self.stride);
        (making.done.runs, making.done.rows) = (self.runs.clone(), self.rows);
        making.done.firsts.reserve(self.blocks.len());
        making.done.blocks.reserve(self.blocks.len());
        let (mut added, mut lowered) = (Ahead(added.into_iter()), Ahead(lowered.into_iter()));
        for (number, block) in self.blocks.iter().enumerate() {
            let end = self.firsts.get(number + 1).copied();
            let coming = added.before(end) + lowered.before(end);
            let is_touched = coming > 0 || touched.get(number).is_some_and(|is_touched| *is_touched);
            if making.here.cubes.len() >= LEAST_CUBES {
                making.end_block();
            }
            if !is_touched && making.here.cubes.is_empty() {
                making.share(number, self);
                continue;
            }
            making.divide(block.cubes.len() + coming);
            making.leave_out(block);
            let Ok(()) = making.join(Some(block), end, &mut added, &mut lowered, change, &mut Steps::new(&Never));
        }
        let Ok(()) = making.join(None, None, &mut added, &mut lowered, change, &mut Steps::new(&Never));
        making.finish()
    }
}

fn runs_of_grid(runs: &mut Vec<(u32, usize)>, grid: u32) -> &mut usize {
    // Cubes arrive grid by grid, so the last entry mostly matches.
    let index = match runs.last() {
        Some((last, _)) if *last == grid => runs.len() - 1,
        _ => runs.binary_search_by_key(&grid, |(grid, _)| *grid).unwrap_or_else(|index| {
            runs.insert(index, (grid, 0));
            index
        }),
    };
    &mut runs[index].1
}

pub(super) struct BlocksBuilder<'a, L> {
    forest: &'a Forest,
    otherwise: Threshold,
    most_cubes: usize,
    room: usize,
    here: Block<L>,
    done: Blocks<L>,
}

impl<'a, L> BlocksBuilder<'a, L> {
    pub fn new(forest: &'a Forest, stride: usize) -> BlocksBuilder<'a, L> {
        let done = Blocks { firsts: Vec::new(), blocks: Vec::new(), stride, runs: Vec::new(), rows: 0 };
        let here = Block::nothing();
        BlocksBuilder { forest, otherwise: Threshold::ALL, most_cubes: USUAL_CUBES, room: 2 * USUAL_CUBES, here, done }
    }

    pub fn whole(self) -> BlocksBuilder<'a, L> {
        BlocksBuilder { most_cubes: usize::MAX, ..self }
    }

    pub fn otherwise(self, otherwise: Threshold) -> BlocksBuilder<'a, L> {
        BlocksBuilder { otherwise, ..self }
    }

    /// Adds sorted runs and cutoffs below [`Threshold::ALL`].
    pub fn of<S: Stop>(
        mut self,
        runs: Sorted<L>,
        cutoffs: Vec<(CubeId, Threshold)>,
        is_copied: &dyn Fn(RunId) -> bool,
        stop: &S,
    ) -> Result<Blocks<L>, S::Stopped> {
        self.room = self.most_cubes.min(runs.len());
        let (mut runs, mut cutoffs) = (Ahead(runs.into_iter()), Ahead(cutoffs.into_iter()));
        let change = Change { keeps: &|_, _| true, is_copied };
        self.join(None, None, &mut runs, &mut cutoffs, &change, &mut Steps::new(stop))?;
        Ok(self.finish())
    }

    fn finish(mut self) -> Blocks<L> {
        self.end_block();
        self.done.runs.retain(|(_, runs)| *runs > 0);
        self.done
    }

    fn divide(&mut self, more: usize) {
        let cubes = self.here.cubes.len() + more;
        self.most_cubes = cubes.div_ceil(cubes.div_ceil(2 * USUAL_CUBES).max(1));
    }

    /// Adds the cubes of a block, and the new items before a cube, or all items.
    fn join<S: Stop>(
        &mut self,
        old: Option<&Block<L>>,
        end: Option<CubeId>,
        added: &mut Ahead<Arc<Run<L>>>,
        lowered: &mut Ahead<Threshold>,
        change: &Change<'_, L>,
        steps: &mut Steps<'_, S>,
    ) -> Result<(), S::Stopped> {
        let mut index = 0;
        loop {
            steps.step(1)?;
            let known = old.filter(|old| index < old.cubes.len()).map(|old| (old, old.cubes[index]));
            let comes = |cube: &CubeId| end.is_none_or(|end| *cube < end);
            let coming = [added.cube().filter(comes), lowered.cube().filter(comes)];
            let next = coming.into_iter().chain([known.map(|(_, cube)| cube)]).flatten().min();
            let Some(cube) = next else { return Ok(()) };
            let old = known.filter(|(_, known)| *known == cube).map(|(old, _)| old);
            let known = old.map(|old| old.cutoffs[index]);
            let cutoff = known.into_iter().chain(lowered.take_of(cube)).min().unwrap_or(self.otherwise);
            self.begin_cube(cube, cutoff, old.map(|old| old.span(index, self.done.stride)));
            let first = self.here.runs.len();
            let mut left = old.map_or(0..0, |old| old.of_cube(index));
            loop {
                steps.step(1)?;
                let of_old = old.filter(|_| !left.is_empty()).map(|old| (old, left.start));
                let next = added.of(cube).map(|run| run.id);
                match of_old {
                    Some((old, place)) if next.is_none_or(|next| old.ids[place] < next) => {
                        left.start += 1;
                        if (change.keeps)(old, place) {
                            let is_copied = old.is_copied[place] || (change.is_copied)(old.ids[place]);
                            self.put(old.runs[place].clone(), is_copied);
                        }
                    }
                    _ => {
                        let Some(run) = added.take_of(cube) else { break };
                        let is_copied = (change.is_copied)(run.id);
                        self.put(run, is_copied);
                    }
                }
            }
            if self.here.runs.len() == first && cutoff == Threshold::ALL {
                self.forget_cube();
            }
            index += old.is_some() as usize;
        }
    }

    fn begin_cube(&mut self, cube: CubeId, cutoff: Threshold, span: Option<&[u32]>) {
        if self.here.cubes.len() >= self.most_cubes {
            self.end_block();
        }
        if self.here.cubes.is_empty() {
            self.here.reserve(self.room.min(self.most_cubes), self.done.stride);
        }
        let (here, stride) = (&mut self.here, self.done.stride);
        match span {
            Some(span) => here.spans.extend_from_slice(span),
            None if stride == 0 => {}
            None => {
                let (tree, end) = (self.forest.tree_of(cube), here.spans.len() + stride);
                let (span, k) = (tree.span(cube), tree.dimensions());
                here.spans.extend_from_slice(&span.low[..k]);
                here.spans.extend_from_slice(&span.high[..k]);
                here.spans.resize(end, 0);
            }
        }
        here.cubes.push(cube);
        here.cutoffs.push(cutoff);
        here.first_run.push(here.runs.len() as u32);
    }

    fn forget_cube(&mut self) {
        let here = &mut self.here;
        here.cubes.pop();
        here.cutoffs.pop();
        here.first_run.pop();
        here.spans.truncate(here.cubes.len() * self.done.stride);
    }

    fn put(&mut self, run: Arc<Run<L>>, is_copied: bool) {
        *runs_of_grid(&mut self.done.runs, run.cube.grid()) += 1;
        self.done.rows += run.rows;
        self.here.rows += run.rows;
        self.here.ids.push(run.id);
        self.here.sources.extend_from_slice(&run.copies);
        self.here.is_copied.push(is_copied);
        self.here.runs.push(run);
    }

    fn end_block(&mut self) {
        let Some(first) = self.here.cubes.first() else { return };
        self.done.firsts.push(*first);
        self.done.blocks.push(Arc::new(std::mem::replace(&mut self.here, Block::nothing())));
    }

    fn leave_out(&mut self, block: &Block<L>) {
        for (index, cube) in block.cubes.iter().enumerate() {
            *runs_of_grid(&mut self.done.runs, cube.grid()) -= block.of_cube(index).len();
        }
        self.done.rows -= block.rows;
    }

    fn share(&mut self, number: usize, of: &Blocks<L>) {
        self.done.firsts.push(of.firsts[number]);
        self.done.blocks.push(of.blocks[number].clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cube::Geometry;
    use crate::spread::SpreadSet;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn blocks_stay_of_a_size() {
        let tree = Geometry::new(2).unwrap();
        let (forest, mut rng) = (Forest::of(tree), SmallRng::seed_from_u64(1));
        let mut blocks = Blocks { firsts: Vec::new(), blocks: Vec::new(), stride: 4, runs: Vec::new(), rows: 0 };
        let (mut largest, mut number) = (0, 0);
        for round in 0..200 {
            let wide = if round < 20 { 1 << 90 } else { u128::MAX >> 32 };
            let new = if round < 120 { 100 } else { 0 };
            let mut added: Sorted<()> = (0..new)
                .map(|_| {
                    number += 1;
                    let (id, cube) = (RunId(number), tree.cube_of(rng.random::<u128>() % wide, 12));
                    (cube, Arc::new(Run { id, cube, rows: 1, priorities: (0, 1), copies: Vec::new(), payload: () }))
                })
                .collect();
            added.sort_by_key(|(cube, run)| (*cube, run.id));
            let left: SpreadSet<RunId> = blocks.all().map(|run| run.id).filter(|_| rng.random_bool(0.95)).collect();
            let keeps = |block: &Block<()>, place: usize| left.contains(&block.ids[place]);
            let touched: Vec<bool> =
                blocks.iter().map(|block| (0..block.runs.len()).any(|place| !keeps(block, place))).collect();
            let rows = left.len() + added.len();
            let change = Change { keeps: &keeps, is_copied: &|_| false };
            blocks = blocks.changed(&forest, added, Vec::new(), &touched, &change);
            let cubes: Vec<usize> = blocks.iter().map(|block| block.cubes.len()).collect();
            assert!(cubes.iter().all(|cubes| (1..=2 * USUAL_CUBES).contains(cubes)), "round {round}: {cubes:?}");
            let small = cubes.iter().filter(|cubes| **cubes < LEAST_CUBES).count();
            assert!(small <= 1 + cubes.len() / 8, "round {round}: {cubes:?}");
            assert_eq!((blocks.rows, blocks.len_of_runs(), blocks.all().count()), (rows as u64, rows, rows));
            largest = largest.max(cubes.len());
        }
        assert!(largest > 20, "{largest}");
    }
}
