//! The compaction planner: what is wrong with a table's layout, and which runs to replace
//! for it.
//!
//! Debt is rows that a fresh build would put elsewhere, or that lie in surplus runs of
//! their cube. Rows in trees of older grids are debt, all of them: they move to the tree of
//! the newest, in parts of neighbouring runs that fit in memory, before anything else is
//! done for it. In the newest tree a part is rewritten when debt is a good share of it, so
//! each row is rewritten about once each time the data around it doubles; or when
//! queries have examined as many rows in vain there as rewriting it costs. Meanwhile
//! runs of like size are merged where a cube has many, so that they stay few: about as
//! many as the logarithm of the commits.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use kubist_index::cube::CubeId;
use kubist_index::layout::Capacity;
use kubist_index::priority::Threshold;
use kubist_index::state::{Run, RunId};

use crate::policy::OptimizeOptions;
use kubist_catalog::core::Core;
use kubist_catalog::directory::Directory;
use kubist_catalog::read_amplification::ReadAmplification;
use kubist_catalog::view::View;
use kubist_format::location::Location;
use kubist_format::names::REWRITES;

/// Stored bytes that are rewritten at once, in memory.
const BYTES_AT_ONCE: u64 = 512 << 20;

/// Runs of like size are merged in a cube that has more than this.
const MANY_RUNS: usize = 16;

/// Runs that one rewrite replaces.
pub struct Rewrite {
    /// The cube at and below which they are; of a move the first run's.
    pub top: CubeId,
    pub kind: Kind,
    pub runs: Vec<Arc<Run<Location>>>,
    /// Debt that it settles.
    pub debt: u64,
    wasted: u64,
}

/// Which runs a rewrite takes, and where their rows go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Some of a cube's own, which merge or are pushed down.
    Own,
    /// All at and below a cube, which are placed anew.
    Whole,
    /// Neighbours in the tree of an older grid, whose rows move to the newest.
    Move,
}

/// One cube with runs.
struct Node {
    cube: CubeId,
    runs: Vec<Arc<Run<Location>>>,
    cutoff: Threshold,
    debt: u64,
    wasted: u64,
    /// More rows than a fresh build leaves here.
    usual: u64,
    rows: u64,
    /// Of the cube and everything below it.
    tree: Sum,
    /// The first node that is not below it.
    end: usize,
}

#[derive(Clone, Copy, Default)]
struct Sum {
    rows: u64,
    debt: u64,
    bytes: u64,
    wasted: u64,
}

/// All cubes of the newest tree that have runs, in depth-first order, with what is wrong
/// with them; and the runs of older trees.
pub struct CompactionPlanner {
    nodes: Vec<Node>,
    /// Tree by tree in depth-first order.
    older: Vec<Arc<Run<Location>>>,
}

/// Runs that may be rewritten: rows of steps that are not complete are left alone,
/// because they may be retracted.
pub fn movable(view: &View) -> impl Fn(&Arc<Run<Location>>) -> bool + use<> {
    let incomplete = view.history.incomplete();
    move |run| {
        let step = run.payload.origin.as_ref().and_then(|origin| origin.step);
        step.is_none_or(|step| !incomplete.contains(&step))
    }
}

impl CompactionPlanner {
    /// `capacity`: what the placement of rows goes by.
    pub fn new(
        view: &View,
        directory: &Directory,
        capacity: &Capacity,
        read_amplification: &ReadAmplification,
    ) -> CompactionPlanner {
        let (newest, movable) = (view.schema.newest_grid(), movable(view));
        let mut nodes: Vec<Node> = Vec::new();
        let runs = directory.runs().iter().filter(|run| movable(run)).cloned();
        let (older, runs): (Vec<_>, Vec<_>) = runs.partition(|run| run.cube.grid() < newest);
        for of_cube in runs.chunk_by(|a, b| a.cube == b.cube) {
            let cube = of_cube[0].cube;
            let geometry = directory.forest().tree_of(cube);
            let rows = of_cube.iter().map(|run| run.rows).sum::<u64>();
            let largest = of_cube.iter().map(|run| run.rows).max().unwrap_or(0);
            let cutoff = directory.cutoff(cube);
            let usual = match cutoff == Threshold::ALL {
                true => capacity.leaf_rows,
                false => capacity.leaf_rows + (capacity.worth_adding << geometry.dimensions()),
            } as u64;
            let excess = if cube.level() < geometry.deepest() { largest.saturating_sub(usual) } else { 0 };
            let debt = (rows - largest + excess).min(rows);
            let wasted = read_amplification.of(cube);
            let bytes = of_cube.iter().map(|run| run.payload.data_length).sum();
            let tree = Sum { rows, debt, bytes, wasted };
            nodes.push(Node { cube, runs: of_cube.to_vec(), cutoff, debt, wasted, usual, rows, tree, end: 0 });
        }
        let mut open: Vec<usize> = Vec::new();
        for index in 0..=nodes.len() {
            while let Some(above) = open.last().copied() {
                let geometry = directory.forest().tree_of(nodes[above].cube);
                if index < nodes.len() && geometry.contains(nodes[above].cube, nodes[index].cube) {
                    break;
                }
                open.pop();
                nodes[above].end = index;
                if let Some(parent) = open.last().copied() {
                    let below = nodes[above].tree;
                    let tree = &mut nodes[parent].tree;
                    tree.rows += below.rows;
                    tree.debt += below.debt;
                    tree.bytes += below.bytes;
                    tree.wasted += below.wasted;
                }
            }
            open.push(index);
        }
        CompactionPlanner { nodes, older }
    }

    pub fn debt(&self) -> u64 {
        self.pressing_debt() + self.rows_to_move()
    }

    /// Debt in the newest tree. Commits wait when this is too much, but not for rows in older
    /// trees: these cost questions as much as before, and commits do not add to them.
    pub fn pressing_debt(&self) -> u64 {
        self.nodes.iter().map(|node| node.debt).sum()
    }

    /// Rows in trees of older grids.
    pub fn rows_to_move(&self) -> u64 {
        self.older.iter().map(|run| run.rows).sum()
    }

    pub fn rows(&self) -> u64 {
        self.nodes.iter().map(|node| node.rows).sum::<u64>() + self.rows_to_move()
    }

    /// Of the cube that has most.
    pub fn most_runs(&self) -> u64 {
        self.nodes.iter().map(|node| node.runs.len() as u64).max().unwrap_or(0)
    }

    /// Disjoint rewrites: as long as older trees have runs, moves; otherwise compactions. For
    /// one round: compactions, and one move if there is any.
    ///
    /// `tried`: tops of earlier rewrites, and the most debt with which one is tried again.
    pub fn rewrites(&self, options: &OptimizeOptions, tried: &HashMap<CubeId, u64>) -> Vec<Rewrite> {
        let helpless = |one: &Rewrite| tried.get(&one.top).is_some_and(|most| one.debt > *most);
        let mut moves = self.moves(options).into_iter().filter(|one| !helpless(one));
        if !options.one_round {
            let moves: Vec<Rewrite> = moves.collect();
            return if moves.is_empty() { self.compactions(options, tried) } else { moves };
        }
        let one_move = moves.next();
        let mut rewrites = self.compactions(options, tried);
        if one_move.is_some() {
            rewrites.retain(|one| one.kind == Kind::Own);
        }
        rewrites.extend(one_move);
        rewrites
    }

    /// The runs of older trees in parts that fit in memory.
    fn moves(&self, options: &OptimizeOptions) -> Vec<Rewrite> {
        let (mut moves, mut rest) = (Vec::new(), &self.older[..]);
        while let Some(first) = rest.first() {
            let (mut rows, mut bytes) = (0, 0);
            let part = rest.iter().take_while(|run| {
                rows += run.rows;
                bytes += run.payload.data_length;
                let fits = rows <= options.rows_at_once && bytes <= BYTES_AT_ONCE;
                run.cube.grid() == first.cube.grid() && (fits || rows == run.rows)
            });
            let (part, later) = rest.split_at(part.count());
            rest = later;
            let debt = part.iter().map(|run| run.rows).sum();
            moves.push(Rewrite { top: first.cube, kind: Kind::Move, runs: part.to_vec(), debt, wasted: 0 });
        }
        moves
    }

    /// First where queries wasted most, then from the root downwards. For one round: first
    /// those of cubes with most runs, and at the end one of a whole part of the tree at most,
    /// the one that is worth most.
    fn compactions(&self, options: &OptimizeOptions, tried: &HashMap<CubeId, u64>) -> Vec<Rewrite> {
        let worth = |debt: u64, rows: u64, wasted: u64| {
            debt > 0 && (debt as f64 >= options.debt_share * rows as f64 || wasted >= rows)
        };
        let fits = |tree: Sum| tree.rows <= options.rows_at_once && tree.bytes <= BYTES_AT_ONCE;
        let whole = |node: &Node| fits(node.tree) && worth(node.tree.debt, node.tree.rows, node.tree.wasted);
        let candidates = self.nodes.iter().filter(|node| options.one_round && whole(node));
        let largest = candidates.max_by_key(|node| (node.tree.wasted, node.tree.debt)).map(|node| node.cube);
        let mut rewrites = Vec::new();
        let mut index = 0;
        // Below a cube whose own runs move, nothing else rewrites in the same pass:
        // new rows are about to arrive there.
        let mut blocked_until = 0;
        let helpless = |cube: &CubeId, debt: u64| tried.get(cube).is_some_and(|most| debt > *most);
        while index < self.nodes.len() {
            let here = &self.nodes[index];
            if index < blocked_until {
                index += 1;
                continue;
            }
            let wanted = !options.one_round || largest == Some(here.cube);
            if wanted && whole(here) && !helpless(&here.cube, here.tree.debt) {
                let Sum { debt, wasted, .. } = here.tree;
                let runs = self.nodes[index..here.end].iter().flat_map(|below| below.runs.iter().cloned()).collect();
                rewrites.push(Rewrite { top: here.cube, kind: Kind::Whole, runs, debt, wasted });
                index = here.end;
                continue;
            }
            let runs = match !fits(here.tree) && worth(here.debt, here.rows, here.wasted) {
                true => here.to_push(options),
                false if here.runs.len() > MANY_RUNS => here.to_merge(options),
                false => Vec::new(),
            };
            // A run that was placed once comes to the same again; only one that a commit
            // left too large can be divided.
            let useful = runs.len() > 1 || runs.iter().any(|run| run.rows > here.usual && !is_rewritten(run));
            if useful && !helpless(&here.cube, here.debt) {
                let debt = here.debt;
                rewrites.push(Rewrite { top: here.cube, kind: Kind::Own, runs, debt, wasted: here.wasted });
                if !options.one_round {
                    blocked_until = here.end;
                }
            }
            index += 1;
        }
        match options.one_round {
            true => rewrites.sort_by_key(|one| (one.kind == Kind::Whole, Reverse(one.wasted), Reverse(one.runs.len()))),
            false => rewrites.sort_by_key(|one| Reverse(one.wasted)),
        }
        rewrites
    }
}

impl Node {
    /// The cube's runs that are worth rewriting when those below it stay: not its
    /// largest one while that is nearly as it should be, so that replicas of it stay
    /// of use; and no more than fit in memory.
    fn to_push(&self, options: &OptimizeOptions) -> Vec<Arc<Run<Location>>> {
        let below = |run: &Run<Location>| {
            let (first, last) = (run.priorities.0 as f64, run.priorities.1 as f64);
            let share = (self.cutoff.to_u128() as f64 - first) / (last - first).max(1.0);
            run.rows as f64 * share.clamp(0.0, 1.0)
        };
        let mut runs = self.runs.clone();
        runs.sort_by_key(|run| Reverse(run.rows));
        let (largest, others) = (&runs[0], &runs[1..]);
        let change = others.iter().map(|run| below(run)).sum::<f64>() + largest.rows as f64 - below(largest);
        if !others.is_empty() && largest.rows <= self.usual && change < options.debt_share * largest.rows as f64 {
            runs.remove(0);
        }
        // The smallest first: of those most fit.
        runs.reverse();
        few(runs, options)
    }

    /// The cube's smallest runs, up to the first that is larger than all of them
    /// together: so each row is merged about once each time its run doubles.
    fn to_merge(&self, options: &OptimizeOptions) -> Vec<Arc<Run<Location>>> {
        let mut runs = self.runs.clone();
        runs.sort_by_key(|run| run.rows);
        let mut rows = 0;
        let alike = runs.iter().enumerate().take_while(|(number, run)| {
            let alike = *number < 2 || run.rows <= rows;
            rows += run.rows;
            alike
        });
        let count = alike.count();
        runs.truncate(count);
        few(runs, options)
    }
}

/// Was it written by the optimizer, not by a commit?
fn is_rewritten(run: &Run<Location>) -> bool {
    run.id.origin() == RunId::new(Core::origin(REWRITES), 0, 0).origin()
}

/// The first of some runs, as many as fit in memory.
fn few(runs: Vec<Arc<Run<Location>>>, options: &OptimizeOptions) -> Vec<Arc<Run<Location>>> {
    let (mut rows, mut bytes) = (0, 0);
    let few = runs.into_iter().take_while(|run| {
        rows += run.rows;
        bytes += run.payload.data_length;
        rows == run.rows || (rows <= options.rows_at_once && bytes <= BYTES_AT_ONCE)
    });
    few.collect()
}
