//! Subregions: parts of space, with a number of records estimated from the manifest.
//!
//! A subregion is a cube with its subtree. Its runs contain its records with priorities at or above the parent's
//! cutoff T (I2). Priorities are uniform, so n records at or above T stand for about n / (1 - T) records.
//!
//! The runs above the cube may still have other records of its region. They have none in two cases: if they keep
//! only priorities below their cubes' cutoffs, or if one entry placed them together with all runs below. Such an
//! entry leaves records above only where it has no run below (`layout`).

use std::collections::{BinaryHeap, HashMap, HashSet};
use std::sync::Arc;

use super::Directory;
use crate::cube::{CubeId, Geometry, GridBox};
use crate::priority::Threshold;
use crate::state::{Run, RunId};

/// A cube with a higher cutoff than this is not divided: its children have too few records for an estimate.
const MOST_ABOVE: f64 = 0.5;
/// With a probability of 1/1000, the lowest of n priorities is this many mean distances above the lower bound.
const MOST_GAP: f64 = 7.0;
/// Maximum number of subregions along the edge of a box, as a multiple of the wanted number.
const MOST_AT_EDGE: usize = 3;
const SEVERAL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Subregion {
    pub cube: CubeId,
    /// Estimated number of records of all priorities, from an exact count at or above `cutoff`.
    pub rows: f64,
    /// The parent's cutoff.
    pub cutoff: f64,
}

/// A box in a tree.
#[derive(Clone, Copy, Debug)]
pub struct Bounds<'a> {
    pub grid_box: &'a GridBox,
    /// By dimension: whether the box bounds it. At the box's outermost coordinates, values decide.
    pub is_bounded: &'a [bool],
}

#[derive(Debug)]
pub struct Subtrees {
    tree: Geometry,
    /// Cubes in depth-first order.
    nodes: Vec<Node>,
}

#[derive(Debug)]
struct Node {
    cube: CubeId,
    /// The cube's cutoff; `around` is the parent's.
    cutoff: f64,
    around: f64,
    /// The number of records in the cube's own runs; `rows` includes the runs below.
    own_rows: u64,
    rows: u64,
    end: u32,
    lowest: u64,
    /// All priorities in the cube's runs are below its cutoff.
    keeps: bool,
    /// The entry that placed the cube's runs, if there is one; `of_all` is the entry of the whole subtree.
    of_run: u32,
    of_all: u32,
}

/// The records in a cube's region that runs above it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Above {
    Below,
    /// All records except those that this entry placed below.
    But(u32),
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Open {
    /// Nodes that cross the edge of the box come first.
    crosses: bool,
    rows: u64,
    node: u32,
    above: Above,
}

impl<L> Directory<L> {
    /// The sums of subtrees; `None` if the directory is partial. `placed` returns whether an entry placed the run,
    /// not only copied it. Later calls return the result of the first one.
    pub fn subtrees(&self, placed: impl Fn(RunId) -> bool) -> Option<&Subtrees> {
        let tree = self.forest().tree(0).filter(|_| self.is_whole())?;
        Some(self.subtrees.get_or_init(|| self.arranged(tree, placed)))
    }

    pub fn knows_subtrees(&self) -> bool {
        self.subtrees.get().is_some()
    }

    fn arranged(&self, tree: Geometry, placed: impl Fn(RunId) -> bool) -> Subtrees {
        let (mut nodes, mut entries, mut in_parts) = (Vec::<Node>::new(), HashMap::new(), HashSet::new());
        let runs: Vec<&Arc<Run<L>>> =
            self.runs().filter(|run| run.cube.grid() == tree.grid() && run.rows > 0).collect();
        for of_cube in runs.chunk_by(|one, other| one.cube == other.cube) {
            let mut of_runs: Vec<u32> = of_cube
                .iter()
                .map(|run| {
                    let known = entries.len() as u32;
                    *entries.entry(run.id.0 >> 32).or_insert(known)
                })
                .collect();
            of_runs.sort_unstable();
            in_parts.extend(of_runs.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]));
            let (first, last) = (of_runs[0], of_runs[of_runs.len() - 1]);
            let of_all = if first == last { first } else { SEVERAL };
            let (cube, cutoff) = (of_cube[0].cube, self.cutoff(of_cube[0].cube));
            let rows = of_cube.iter().map(|run| run.rows).sum();
            nodes.push(Node {
                cube,
                cutoff: cutoff.to_fraction(),
                around: tree.parent(cube).map_or(Threshold::NONE, |parent| self.cutoff(parent)).to_fraction(),
                own_rows: rows,
                rows,
                end: 0,
                lowest: of_cube.iter().map(|run| run.priorities.0).min().unwrap_or(0),
                keeps: of_cube.iter().all(|run| cutoff.admits(run.priorities.1)),
                of_run: if of_cube.len() == 1 && placed(of_cube[0].id) { first } else { SEVERAL },
                of_all,
            });
        }
        // An entry may leave records of one part above a region where another part has runs.
        for node in nodes.iter_mut().filter(|node| in_parts.contains(&node.of_run)) {
            node.of_run = SEVERAL;
        }
        let mut open: Vec<usize> = Vec::new();
        for index in 0..=nodes.len() {
            let next = nodes.get(index).map(|node| node.cube);
            while let Some(last) = open.pop_if(|last| !next.is_some_and(|next| tree.contains(nodes[*last].cube, next)))
            {
                nodes[last].end = index as u32;
                if let Some(around) = open.last() {
                    let (rows, of_all) = (nodes[last].rows, nodes[last].of_all);
                    nodes[*around].rows += rows;
                    if nodes[*around].of_all != of_all {
                        nodes[*around].of_all = SEVERAL;
                    }
                }
            }
            open.push(index);
        }
        Subtrees { tree, nodes }
    }
}

impl Subtrees {
    /// Disjoint subregions inside a box, by cube: about `wanted` of similar size, and smaller ones along the edge.
    pub fn divide(&self, bounds: &Bounds, wanted: usize) -> Vec<Subregion> {
        let (mut open, mut found, mut inside) = (BinaryHeap::new(), Vec::new(), 0);
        let root = self.nodes.first().filter(|node| node.cube == self.tree.root());
        open.extend(root.and_then(|_| self.open(bounds, 0, Above::Below)));
        inside += open.iter().filter(|root| !root.crosses).count();
        while let Some(next) = open.pop() {
            if inside >= if next.crosses { MOST_AT_EDGE * wanted } else { wanted } {
                open.push(next);
                break;
            }
            match self.divided(bounds, &next) {
                Some(parts) => {
                    inside -= !next.crosses as usize;
                    inside += parts.iter().filter(|part| !part.crosses).count();
                    open.extend(parts);
                }
                None if next.crosses => {}
                None => found.push(next.node),
            }
        }
        found.extend(open.into_iter().filter(|open| !open.crosses).map(|open| open.node));
        found.sort_unstable();
        let subregion = |node: &u32| {
            let Node { cube, rows, around, .. } = self.nodes[*node as usize];
            Subregion { cube, rows: rows as f64 / (1.0 - around), cutoff: around }
        };
        found.iter().map(subregion).collect()
    }

    fn open(&self, bounds: &Bounds, node: u32, above: Above) -> Option<Open> {
        let Node { cube, rows, .. } = self.nodes[node as usize];
        let (span, asked) = (self.tree.span(cube), bounds.grid_box);
        let mut crosses = false;
        for (d, is_bounded) in bounds.is_bounded.iter().enumerate() {
            if span.low[d] > asked.high[d] || span.high[d] < asked.low[d] {
                return None;
            }
            crosses |= *is_bounded && (span.low[d] <= asked.low[d] || asked.high[d] <= span.high[d]);
        }
        Some(Open { crosses, rows, node, above })
    }

    /// `None` if the children's numbers of records cannot be estimated.
    fn divided(&self, bounds: &Bounds, open: &Open) -> Option<Vec<Open>> {
        let node = &self.nodes[open.node as usize];
        if node.end == open.node + 1 || node.cutoff > MOST_ABOVE {
            return None;
        }
        let above = match (node.keeps, open.above) {
            (true, above) => above,
            (false, _) if node.of_run == SEVERAL => return None,
            (false, _) => Above::But(node.of_run),
        };
        let (mut child, mut parts, mut told) = (open.node + 1, Vec::new(), 0);
        while child < node.end {
            let below = &self.nodes[child as usize];
            if below.is_told(above) {
                told += below.rows;
                parts.extend(self.open(bounds, child, above));
            }
            child = below.end;
        }
        (2 * told > node.rows - node.own_rows).then_some(parts)
    }
}

impl Node {
    /// Whether the runs of the cube and below have all records that the estimate assumes.
    fn is_told(&self, above: Above) -> bool {
        // With a higher cutoff when the runs were written, the lowest priorities would be missing.
        let gap = || (self.lowest as f64 / u64::MAX as f64 - self.around) / (1.0 - self.around);
        match above {
            Above::Below => self.around < 1.0,
            Above::But(of) => self.around < 1.0 && self.of_all == of && gap() * (self.rows as f64) < MOST_GAP,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cube::MortonKey;
    use crate::forest::Forest;
    use crate::layout::{Capacity, Placed, TreeState, place};
    use crate::ramps::Ramp;
    use crate::state::{Commit, State};
    use proptest::prelude::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    type Rows = Vec<(MortonKey, u64)>;

    impl TreeState for Directory<Rows> {
        fn cutoff(&self, cube: CubeId) -> Threshold {
            self.cutoff(cube)
        }

        fn holds_rows(&self, cube: CubeId) -> bool {
            !self.runs_of(cube).is_empty()
        }

        fn ramps(&self, cube: CubeId) -> Vec<Ramp> {
            let ramp = |run: &Arc<Run<Rows>>| Ramp::of_run(run.rows, run.priorities);
            self.runs_of(cube).iter().map(ramp).collect()
        }
    }

    const COPIES: u64 = 2;

    /// Commits with rows near one point each. If `varied`, some commits have two parts, and one entry may copy
    /// all runs.
    fn table(random: &mut SmallRng, tree: Geometry, commits: u64, most: usize, varied: bool) -> Directory<Rows> {
        let (mut state, forest) = (State::default(), Forest::of(tree));
        for number in 0..commits {
            let mut index = 0;
            for _ in 0..random.random_range(1..=1 + varied as u32) {
                let known = Directory::new(forest.clone(), &state);
                let all = some_rows(random, tree, most);
                let priorities: Vec<u64> = all.iter().map(|(_, priority)| *priority).collect();
                let mut placed = Placed::default();
                let capacity = if random.random_bool(0.5) { Capacity::new(32) } else { Capacity::for_commits(32) };
                let (key, ids) = (|row: u32| all[row as usize].0, (0..all.len() as u32).collect());
                place(&tree, &capacity, &known, tree.root(), Threshold::NONE, &key, &priorities, ids, &mut placed);
                let run = |placement: &crate::layout::Placement| {
                    let rows = placement.within.iter().chain(&placement.overflow).map(|row| all[*row as usize]);
                    let rows: Rows = rows.collect();
                    let priorities = rows.iter().map(|(_, priority)| *priority);
                    index += 1;
                    Arc::new(Run {
                        id: RunId::new(1, number, index),
                        cube: placement.cube,
                        rows: rows.len() as u64,
                        priorities: (priorities.clone().min().unwrap(), priorities.max().unwrap()),
                        copies: vec![],
                        payload: rows,
                    })
                };
                let runs = placed.placements.iter().map(run).collect();
                state.commit("writer", number, Commit { runs, cutoffs: placed.cutoffs });
            }
        }
        let directory = Directory::new(forest.clone(), &state);
        if !varied || random.random_bool(0.8) {
            return directory;
        }
        let copies = (0..)
            .zip(directory.runs())
            .map(|(index, run)| Arc::new(Run { id: RunId::new(COPIES, 0, index), ..Run::clone(run) }));
        Directory::of(forest, copies, directory.cutoffs(), &crate::gradual::Never)
            .unwrap_or_else(|never| match never {})
    }

    fn some_rows(random: &mut SmallRng, tree: Geometry, most: usize) -> Rows {
        let (rows, spread) = (random.random_range(1..=most), random.random_range(0..8));
        let near: Vec<u32> = (0..tree.dimensions()).map(|_| random.random_range(0..=tree.last_coordinate())).collect();
        let mut row = || {
            let point = near.iter().map(|near| match random.random_bool(0.5) {
                true => near ^ (random.random_range(0..=tree.last_coordinate()) >> spread),
                false => random.random_range(0..=tree.last_coordinate()),
            });
            (tree.key(&point.collect::<Vec<u32>>()), random.random())
        };
        let mut all: Rows = (0..rows).map(|_| row()).collect();
        all.sort_unstable();
        all
    }

    fn rows(directory: &Directory<Rows>) -> impl Iterator<Item = (MortonKey, u64)> + '_ {
        directory.runs().flat_map(|run| run.payload.iter().copied())
    }

    proptest! {
        #[test]
        fn subregions_have_what_they_say(seed in any::<u64>(), k in 1usize..=3, commits in 1u64..5, wanted in 1usize..400) {
            let (tree, mut random) = (Geometry::new(k).unwrap(), SmallRng::seed_from_u64(seed));
            let directory = table(&mut random, tree, commits, 6000, true);
            let mut grid_box = tree.everything();
            let is_bounded: Vec<bool> = (0..k).map(|_| random.random_bool(0.5)).collect();
            for d in (0..k).filter(|d| is_bounded[*d]) {
                let ends = [(); 2].map(|()| random.random_range(0..=tree.last_coordinate()));
                (grid_box.low[d], grid_box.high[d]) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
            }
            let bounds = Bounds { grid_box: &grid_box, is_bounded: &is_bounded };
            let subregions = directory.subtrees(|run| run.origin() != COPIES).unwrap().divide(&bounds, wanted);
            prop_assert!(subregions.windows(2).all(|pair| tree.last_key(pair[0].cube) < pair[1].cube.first_key()));
            for subregion in &subregions {
                let cutoff = tree.parent(subregion.cube).map_or(Threshold::NONE, |parent| directory.cutoff(parent));
                let found = rows(&directory)
                    .filter(|(key, priority)| tree.contains_key(subregion.cube, *key) && !cutoff.admits(*priority));
                let known = subregion.rows * (1.0 - subregion.cutoff);
                prop_assert!((found.count() as f64 - known).abs() < 0.5, "{subregion:?}: {known}");
                let span = tree.span(subregion.cube);
                for d in (0..k).filter(|d| is_bounded[*d]) {
                    prop_assert!(grid_box.low[d] < span.low[d] && span.high[d] < grid_box.high[d]);
                }
            }
        }
    }

    /// A table written at once is mostly in subregions, and their numbers of records add up.
    #[test]
    fn a_table_that_was_written_at_once_is_divided() {
        let (tree, mut random) = (Geometry::new(2).unwrap(), SmallRng::seed_from_u64(1));
        let directory = table(&mut random, tree, 1, 60_000, false);
        let everything = tree.everything();
        let bounds = Bounds { grid_box: &everything, is_bounded: &[false, false] };
        let subtrees = directory.subtrees(|run| run.origin() != COPIES).unwrap();
        for wanted in [1, 10, 100, 1000] {
            let subregions = subtrees.divide(&bounds, wanted);
            let (all, told) = (directory.rows() as f64, subregions.iter().map(|subregion| subregion.rows).sum::<f64>());
            assert!(subregions.len() as f64 > 0.5 * (wanted as f64).min(500.0), "{} of {wanted}", subregions.len());
            assert!((told / all - 1.0).abs() < 0.1, "{told} of {all} in {wanted}");
        }
    }
}
