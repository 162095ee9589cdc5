//! The properties of a page's runs that every query tests, in arrays, because the runs are scattered in memory.

use crate::cube::{GridBox, MAX_DIMENSIONS};
use crate::forest::{Forest, Region};
use crate::pages::Page;
use crate::priority::PriorityRange;

#[derive(Debug)]
pub struct Outlines {
    grid: u32,
    dimensions: usize,
    priorities: Vec<(u64, u64)>,
    /// Spans of the runs' cubes, then of the cutoffs: first and last coordinate by dimension.
    spans: Vec<[u32; 2]>,
}

impl Outlines {
    /// Requires that all entries of the page are in one grid.
    pub fn of<L>(page: &Page<L>, forest: &Forest) -> Outlines {
        let Some(first) = page.cubes().next() else {
            return Outlines { grid: 0, dimensions: 1, priorities: Vec::new(), spans: Vec::new() };
        };
        let tree = forest.tree_of(first);
        let dimensions = tree.dimensions();
        let mut spans = Vec::with_capacity(page.len() * dimensions);
        for cube in page.cubes() {
            let span = tree.span(cube);
            spans.extend((0..dimensions).map(|d| [span.low[d], span.high[d]]));
        }
        let priorities = page.runs.iter().map(|run| run.priorities).collect();
        Outlines { grid: first.grid(), dimensions, priorities, spans }
    }

    /// Runs that may have records in a region with priorities in a range.
    pub fn runs<'a>(&'a self, region: &'a Region, range: PriorityRange) -> impl Iterator<Item = usize> + 'a {
        let meets = self.meets(region);
        let of_runs = self.priorities.iter().zip(self.spans.chunks_exact(self.dimensions));
        let found = of_runs
            .enumerate()
            .filter(move |(_, (priorities, span))| range.meets(priorities.0, priorities.1) && meets(span));
        found.map(|(index, _)| index)
    }

    pub fn cutoffs<'a>(&'a self, region: &'a Region) -> impl Iterator<Item = usize> + 'a {
        let meets = self.meets(region);
        let of_cutoffs = self.spans[self.priorities.len() * self.dimensions..].chunks_exact(self.dimensions);
        of_cutoffs.enumerate().filter(move |(_, span)| meets(span)).map(|(index, _)| index)
    }

    fn meets<'a>(&self, region: &'a Region) -> impl Fn(&[[u32; 2]]) -> bool + use<'a> {
        let grid_box = region.in_tree(self.grid);
        move |span| {
            let Some(GridBox { low, high }) = grid_box else { return false };
            span.iter().zip(low.iter().zip(high)).all(|([first, last], (low, high))| first <= high && last >= low)
        }
    }

    pub fn memory(runs: usize, entries: usize) -> usize {
        size_of::<Outlines>() + runs * 16 + entries * MAX_DIMENSIONS * 8
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::cube::Geometry;
    use crate::priority::Threshold;
    use crate::state::{Run, RunId};

    proptest! {
        #[test]
        fn what_meets_is_found(seed in any::<u64>(), k in 1usize..=8, runs in 0usize..60, cutoffs in 0usize..60) {
            let mut rng = SmallRng::seed_from_u64(seed);
            let tree = Geometry::new(k).unwrap();
            let forest = Forest::of(tree);
            let cube = |rng: &mut SmallRng| {
                let point: Vec<u32> = (0..k).map(|_| rng.random_range(0..=tree.last_coordinate())).collect();
                tree.cube_of(tree.key(&point), rng.random_range(0..=6.min(tree.deepest())))
            };
            let mut page: Page<()> = Page::default();
            for id in 0..runs {
                let (cube, first) = (cube(&mut rng), rng.random::<u64>());
                let priorities = (first, rng.random_range(first..=u64::MAX));
                let run = Run { id: RunId(id as u128), cube, rows: 1, priorities, copies: vec![], payload: () };
                page.runs.push(Arc::new(run));
            }
            page.cutoffs = (0..cutoffs).map(|_| (cube(&mut rng), Threshold::new(rng.random()))).collect();
            let outlines = Outlines::of(&page, &forest);
            for _ in 0..8 {
                let mut grid_box = tree.everything();
                for d in 0..k {
                    let (a, b) = (rng.random_range(0..=tree.last_coordinate()), rng.random_range(0..=tree.last_coordinate()));
                    (grid_box.low[d], grid_box.high[d]) = (a.min(b), a.max(b));
                }
                let region = Region::in_grid(rng.random_range(0..=9) / 9, grid_box);
                let first: u64 = rng.random();
                let range = PriorityRange { first, last: rng.random_range(first..=u64::MAX) };
                let run = |index: &usize| {
                    let run = &page.runs[*index];
                    range.meets(run.priorities.0, run.priorities.1) && region.meets(&tree, run.cube)
                };
                prop_assert!(outlines.runs(&region, range).eq((0..runs).filter(run)));
                let of_cutoff = |index: &usize| region.meets(&tree, page.cutoffs[*index].0);
                prop_assert!(outlines.cutoffs(&region).eq((0..cutoffs).filter(of_cutoff)));
            }
        }
    }
}
