//! The compaction planner: measures the debt of a layout, and chooses the runs to replace.
//!
//! Debt counts rows that a new build would place in another cube, or that are in surplus runs of their cube. All rows
//! in trees of older grids are debt. They move to the newest tree first, in groups of neighbouring runs that fit in
//! memory.
//!
//! A subtree is rewritten when its fraction of debt is large enough, so a row is rewritten about once each time the
//! data around it doubles. It is also rewritten when queries have wasted as many rows on it as the rewrite costs. Until
//! then, cubes with many runs merge runs of similar size, so the number of runs grows with the logarithm of commits.
//!
//! The runs arrive in depth-first order of cubes. The planner holds sums for the open cubes, and the ids of a bounded
//! number of runs to rewrite; the next plan finds the others. A cube ends after all cubes below it, so its rewrite
//! replaces the rewrites below.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use kubist_index::cube::CubeId;
use kubist_index::forest::Forest;
use kubist_index::layout::Capacity;
use kubist_index::priority::Threshold;
use kubist_index::state::{Run, RunId};

use crate::policy::OptimizeOptions;
use kubist_catalog::directory::Entry;
use kubist_catalog::read_amplification::ReadAmplification;
use kubist_catalog::view::View;
use kubist_format::location::Location;
use kubist_format::names::REWRITE_SEGMENT;

/// Limit of runs in a rewrite, and in a plan with several rewrites.
const RUNS_AT_ONCE: usize = 1 << 18;
/// A cube with more runs than this merges runs of similar size.
const MANY_RUNS: u64 = 16;

pub struct Plan {
    pub debt: Debt,
    /// Disjoint rewrites. While older trees have runs, they are moves. Otherwise they are compactions, first where
    /// queries wasted most, then from the root downwards. A plan for one round compacts the cubes with most runs, and
    /// then has at most one move, or else the most useful subtree.
    pub rewrites: Vec<Rewrite>,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Debt {
    pub rows: u64,
    /// Debt in the newest tree, which makes commits wait when it is too large. Commits add nothing to older trees.
    pub pressing: u64,
    pub rows_to_move: u64,
    /// The number of runs in the cube with most runs.
    pub most_runs: u64,
}

impl Debt {
    pub fn total(&self) -> u64 {
        self.pressing + self.rows_to_move
    }
}

pub struct Rewrite {
    /// The root of the rewritten subtree; for a move, the cube of the first run.
    pub top: CubeId,
    pub kind: Kind,
    pub runs: Vec<(CubeId, RunId)>,
    pub rows: u64,
    pub debt: u64,
    wasted: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Merges or pushes down some runs of a cube.
    Own,
    /// Distributes all runs of a subtree over its new cubes.
    Whole,
    /// Neighbouring runs of an older tree, which move to the newest.
    Move,
}

#[derive(Clone, Copy)]
pub struct PlanRequest<'a> {
    pub options: &'a OptimizeOptions,
    /// By cube, the largest debt at which it is tried again.
    pub tried: &'a HashMap<CubeId, u64>,
}

impl PlanRequest<'_> {
    fn is_helpless(&self, top: CubeId, debt: u64) -> bool {
        self.tried.get(&top).is_some_and(|most| debt > *most)
    }

    fn is_worth(&self, debt: u64, rows: u64, wasted: u64) -> bool {
        debt > 0 && (debt as f64 >= self.options.debt_share * rows as f64 || wasted >= rows)
    }

    fn fits_whole(&self, tree: &Sum) -> bool {
        self.options.fits(tree.rows, tree.bytes) && tree.runs <= RUNS_AT_ONCE as u64
    }
}

#[derive(Clone, Copy)]
struct Brief {
    id: RunId,
    rows: u64,
    bytes: u64,
    priorities: (u64, u64),
    /// An optimizer wrote the run, not a commit.
    is_placed: bool,
}

#[derive(Clone, Copy, Default)]
struct Sum {
    runs: u64,
    rows: u64,
    debt: u64,
    bytes: u64,
    wasted: u64,
}

struct Node {
    cube: CubeId,
    /// The runs in the cube itself, up to the limit of a rewrite.
    own: Vec<Brief>,
    runs: u64,
    rows: u64,
    bytes: u64,
    largest: u64,
    cutoff: Threshold,
    debt: u64,
    wasted: u64,
    /// Maximum number of rows that a new build leaves in the cube.
    usual: u64,
    tree: Sum,
    /// The runs of the subtree, while it may be rewritten as a whole.
    whole: Vec<(CubeId, RunId)>,
    before: usize,
}

#[derive(Default)]
struct BestPlan {
    rewrites: Vec<Rewrite>,
    runs: usize,
}

impl BestPlan {
    /// Replaces the rewrites after the first `kept` by this one, unless the plan would have too many runs.
    fn put(&mut self, kept: usize, rewrite: Rewrite) {
        self.runs -= self.rewrites.drain(kept..).map(|one| one.runs.len()).sum::<usize>();
        if self.rewrites.is_empty() || self.runs + rewrite.runs.len() <= RUNS_AT_ONCE {
            self.runs += rewrite.runs.len();
            self.rewrites.push(rewrite);
        }
    }
}

/// Makes a plan from runs and cutoffs that arrive in depth-first order of cubes.
pub struct CompactionPlanner<'a> {
    forest: Forest,
    newest: u32,
    movable: Box<Movable>,
    capacity: &'a Capacity,
    read_amplification: &'a ReadAmplification,
    wanted: Option<PlanRequest<'a>>,
    debt: Debt,
    here: Option<Node>,
    /// The last cube of the newest tree with runs, and its ancestors with runs.
    open: Vec<Node>,
    compactions: BestPlan,
    /// The most useful subtree that may be rewritten whole, for one round.
    best: Option<Rewrite>,
    moves: BestPlan,
    moving: Option<(Rewrite, u64)>,
}

type Movable = dyn Fn(&Arc<Run<Location>>) -> bool;

/// Which runs may move: not those with rows of incomplete steps, which may be retracted.
pub fn movable(view: &View) -> impl Fn(&Arc<Run<Location>>) -> bool + use<> {
    let incomplete = view.history.incomplete();
    move |run| {
        let step = run.payload.origin.as_ref().and_then(|origin| origin.step);
        step.is_none_or(|step| !incomplete.contains(&step))
    }
}

impl<'a> CompactionPlanner<'a> {
    /// `capacity` is the capacity of rewrites. Without `wanted`, the planner only counts debt.
    pub fn new(
        view: &View,
        forest: Forest,
        capacity: &'a Capacity,
        read_amplification: &'a ReadAmplification,
        wanted: Option<PlanRequest<'a>>,
    ) -> CompactionPlanner<'a> {
        CompactionPlanner {
            forest,
            newest: view.schema.newest_grid(),
            movable: Box::new(movable(view)),
            capacity,
            read_amplification,
            wanted,
            debt: Debt::default(),
            here: None,
            open: Vec::new(),
            compactions: BestPlan::default(),
            best: None,
            moves: BestPlan::default(),
            moving: None,
        }
    }

    pub fn add(&mut self, entry: &Entry) {
        let cube = entry.cube();
        if self.here.as_ref().is_some_and(|here| here.cube != cube) {
            self.settle();
        }
        match entry {
            Entry::Cutoff(_, cutoff) => self.here.get_or_insert_with(|| Node::new(cube)).cutoff = *cutoff,
            Entry::Run(run) if !run.is_replica() && (self.movable)(run) => {
                self.here.get_or_insert_with(|| Node::new(cube)).add(run);
            }
            Entry::Run(_) => {}
        }
    }

    pub fn finish(mut self) -> Plan {
        self.settle();
        while let Some(node) = self.open.pop() {
            self.close(node);
        }
        self.end_move();
        let CompactionPlanner { forest, wanted, debt, compactions, best, moves, .. } = self;
        let (mut rewrites, moves) = (compactions.rewrites, moves.rewrites);
        if wanted.is_none_or(|wanted| !wanted.options.one_round) {
            rewrites.sort_by_key(|one| Reverse(one.wasted));
            return Plan { debt, rewrites: if moves.is_empty() { rewrites } else { moves } };
        }
        let is_helpless = |one: &Rewrite| wanted.is_some_and(|wanted| wanted.is_helpless(one.top, one.debt));
        if let Some(best) = best.filter(|best| !is_helpless(best)) {
            rewrites.retain(|one| !forest.tree_of(best.top).contains(best.top, one.top));
            rewrites.push(best);
        }
        rewrites.sort_by_key(|one| (one.kind == Kind::Whole, Reverse(one.wasted), Reverse(one.runs.len()), one.top));
        if !moves.is_empty() {
            rewrites.retain(|one| one.kind == Kind::Own);
        }
        rewrites.extend(moves);
        Plan { debt, rewrites }
    }

    fn settle(&mut self) {
        let Some(mut here) = self.here.take().filter(|here| here.runs > 0) else { return };
        here.own.sort_unstable_by_key(|run| run.id);
        self.debt.rows += here.rows;
        if here.cube.grid() < self.newest {
            self.debt.rows_to_move += here.rows;
            return self.go_on_with_move(&here);
        }
        self.end_move();
        let tree = self.forest.tree_of(here.cube);
        while let Some(above) = self.open.pop() {
            if tree.contains(above.cube, here.cube) {
                self.open.push(above);
                break;
            }
            self.close(above);
        }
        here.usual = match here.cutoff == Threshold::ALL {
            true => self.capacity.leaf_rows,
            false => self.capacity.leaf_rows + (self.capacity.worth_adding << tree.dimensions()),
        } as u64;
        let excess = if here.cube.level() < tree.deepest() { here.largest.saturating_sub(here.usual) } else { 0 };
        here.debt = (here.rows - here.largest + excess).min(here.rows);
        here.wasted = self.read_amplification.of(here.cube);
        let Node { runs, rows, bytes, debt, wasted, .. } = here;
        here.tree = Sum { runs, rows, debt, bytes, wasted };
        if self.wanted.is_some_and(|wanted| wanted.fits_whole(&here.tree)) {
            here.whole = here.own.iter().map(|run| (here.cube, run.id)).collect();
        }
        here.before = self.compactions.rewrites.len();
        self.debt.pressing += debt;
        self.debt.most_runs = self.debt.most_runs.max(runs);
        self.open.push(here);
    }

    /// Decides on a subtree, and adds its sums to the parent's.
    fn close(&mut self, node: Node) {
        let Some(wanted) = self.wanted else { return };
        if wanted.options.one_round || self.moves.rewrites.is_empty() {
            self.decide(wanted, &node);
        }
        let Some(above) = self.open.last_mut() else { return };
        above.tree.runs += node.tree.runs;
        above.tree.rows += node.tree.rows;
        above.tree.debt += node.tree.debt;
        above.tree.bytes += node.tree.bytes;
        above.tree.wasted += node.tree.wasted;
        match wanted.fits_whole(&above.tree) {
            true => above.whole.extend(node.whole),
            false => above.whole = Vec::new(),
        }
    }

    fn decide(&mut self, wanted: PlanRequest<'_>, node: &Node) {
        let Sum { rows, debt, wasted, .. } = node.tree;
        let one_round = wanted.options.one_round;
        if wanted.fits_whole(&node.tree) && wanted.is_worth(debt, rows, wasted) {
            let whole = || Rewrite { top: node.cube, kind: Kind::Whole, runs: node.whole.clone(), rows, debt, wasted };
            if one_round {
                let worth = (wasted, debt, node.cube);
                if self.best.as_ref().is_none_or(|best| (best.wasted, best.debt, best.top) < worth) {
                    self.best = Some(whole());
                }
            } else if !wanted.is_helpless(node.cube, debt) {
                return self.compactions.put(node.before, whole());
            }
        }
        let own = node.rewrite_of_own(wanted);
        if let Some(own) = own.filter(|own| !wanted.is_helpless(own.top, own.debt)) {
            // If a cube's own runs are rewritten, nothing below is, because rows are about to arrive there.
            let kept = if one_round { self.compactions.rewrites.len() } else { node.before };
            self.compactions.put(kept, own);
        }
    }

    /// Adds the cube's runs to the current move. A move must fit in memory and be in one grid, or the next one starts.
    fn go_on_with_move(&mut self, here: &Node) {
        let Some(wanted) = self.wanted else { return };
        for run in &here.own {
            let goes_on = self.moving.as_ref().is_some_and(|(part, bytes)| {
                let fits = part.rows == 0 || wanted.options.fits(part.rows + run.rows, bytes + run.bytes);
                part.top.grid() == here.cube.grid() && part.runs.len() < RUNS_AT_ONCE && fits
            });
            if !goes_on {
                self.end_move();
            }
            let (part, bytes) = self.moving.get_or_insert_with(|| {
                let (top, kind) = (here.cube, Kind::Move);
                (Rewrite { top, kind, runs: Vec::new(), rows: 0, debt: 0, wasted: 0 }, 0)
            });
            part.runs.push((here.cube, run.id));
            part.rows += run.rows;
            part.debt += run.rows;
            *bytes += run.bytes;
        }
    }

    fn end_move(&mut self) {
        let Some(((part, _), wanted)) = self.moving.take().zip(self.wanted) else { return };
        let is_enough = wanted.options.one_round && !self.moves.rewrites.is_empty();
        if !is_enough && !wanted.is_helpless(part.top, part.debt) {
            self.moves.put(self.moves.rewrites.len(), part);
        }
    }
}

impl Node {
    fn new(cube: CubeId) -> Node {
        Node {
            cube,
            own: Vec::new(),
            runs: 0,
            rows: 0,
            bytes: 0,
            largest: 0,
            cutoff: Threshold::ALL,
            debt: 0,
            wasted: 0,
            usual: 0,
            tree: Sum::default(),
            whole: Vec::new(),
            before: 0,
        }
    }

    fn add(&mut self, run: &Run<Location>) {
        let Run { id, rows, priorities, .. } = *run;
        let bytes = run.payload.data_length;
        self.runs += 1;
        self.rows += rows;
        self.bytes += bytes;
        self.largest = self.largest.max(rows);
        if self.own.len() < RUNS_AT_ONCE {
            let is_placed = run.payload.segment.starts_with(REWRITE_SEGMENT);
            self.own.push(Brief { id, rows, bytes, priorities, is_placed });
        }
    }

    /// Rewrites all or some runs of the cube; `None` if that would not help.
    fn rewrite_of_own(&self, wanted: PlanRequest<'_>) -> Option<Rewrite> {
        let runs = match !wanted.fits_whole(&self.tree) && wanted.is_worth(self.debt, self.rows, self.wasted) {
            true => self.to_push(wanted),
            false if self.runs > MANY_RUNS => self.to_merge(wanted),
            false => return None,
        };
        // A run of an optimizer would stay as it is. A single run is useful only if a commit left it too large.
        let is_useful = runs.len() > 1 || runs.iter().any(|run| run.rows > self.usual && !run.is_placed);
        let rows = runs.iter().map(|run| run.rows).sum();
        let runs = runs.into_iter().map(|run| (self.cube, run.id)).collect();
        let (top, kind) = (self.cube, Kind::Own);
        is_useful.then_some(Rewrite { top, kind, runs, rows, debt: self.debt, wasted: self.wasted })
    }

    /// The runs of the cube to rewrite while the runs below stay. They fit in memory. If the largest run is nearly
    /// right, it is not among them, so that its replicas stay valid.
    fn to_push(&self, wanted: PlanRequest<'_>) -> Vec<Brief> {
        let below = |run: &Brief| {
            let (first, last) = (run.priorities.0 as f64, run.priorities.1 as f64);
            let share = (self.cutoff.to_u128() as f64 - first) / (last - first).max(1.0);
            run.rows as f64 * share.clamp(0.0, 1.0)
        };
        let mut runs = self.own.clone();
        runs.sort_by_key(|run| Reverse(run.rows));
        let (largest, others) = (&runs[0], &runs[1..]);
        let change = others.iter().map(below).sum::<f64>() + largest.rows as f64 - below(largest);
        let changes_little = change < wanted.options.debt_share * largest.rows as f64;
        if !others.is_empty() && largest.rows <= self.usual && changes_little {
            runs.remove(0);
        }
        // The smallest runs come first, because more runs fit then.
        runs.reverse();
        few(runs, wanted)
    }

    /// The smallest runs, up to the first one that is larger than all smaller ones together. A row is then merged about
    /// once each time its run doubles.
    fn to_merge(&self, wanted: PlanRequest<'_>) -> Vec<Brief> {
        let mut runs = self.own.clone();
        runs.sort_by_key(|run| run.rows);
        let mut rows = 0;
        let alike = runs.iter().enumerate().take_while(|(number, run)| {
            let alike = *number < 2 || run.rows <= rows;
            rows += run.rows;
            alike
        });
        let count = alike.count();
        runs.truncate(count);
        few(runs, wanted)
    }
}

fn few(mut runs: Vec<Brief>, wanted: PlanRequest<'_>) -> Vec<Brief> {
    let (mut rows, mut bytes) = (0, 0);
    let few = runs.iter().take_while(|run| {
        rows += run.rows;
        bytes += run.bytes;
        rows == run.rows || wanted.options.fits(rows, bytes)
    });
    let count = few.count();
    runs.truncate(count);
    runs
}
