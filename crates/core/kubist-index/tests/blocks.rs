//! A directory of many blocks after changes equals a newly built one.

use std::collections::BTreeSet;
use std::sync::Arc;

use kubist_index::cube::{CubeId, Geometry, GridBox};
use kubist_index::directory::{Changes, Directory};
use kubist_index::forest::{Forest, Region};
use kubist_index::gradual::Never;
use kubist_index::priority::{PriorityRange, Threshold};
use kubist_index::state::{Commit, Rewrite, Run, RunId, State};
use rand::rngs::SmallRng;
use rand::seq::{IndexedRandom, IteratorRandom};
use rand::{Rng, SeedableRng};

struct Table {
    rng: SmallRng,
    forest: Forest,
    entries: u64,
    state: State<()>,
    changes: Changes<()>,
}

impl Table {
    fn new(seed: u64) -> Table {
        let forest = Forest::of(Geometry::new(2).unwrap());
        let (rng, state, changes) = (SmallRng::seed_from_u64(seed), State::default(), Changes::default());
        Table { rng, forest, entries: 0, state, changes }
    }

    fn cube(&mut self, level: u32) -> CubeId {
        let tree = self.forest.trees().choose(&mut self.rng).unwrap();
        tree.cube_of(self.rng.random::<u128>() >> 32, level)
    }

    fn run(&mut self, cube: CubeId, index: usize, copies: Vec<RunId>) -> Arc<Run<()>> {
        let id = RunId::new(copies.len() as u64, self.entries, index as u32);
        let first = if copies.is_empty() { self.rng.random() } else { 0 };
        let last = if copies.is_empty() { self.rng.random_range(first..=u64::MAX) } else { u64::MAX };
        let priorities = (first, last);
        Arc::new(Run { id, cube, rows: self.rng.random_range(1..9), priorities, copies, payload: () })
    }

    fn cutoffs(&mut self, count: usize) -> Vec<(CubeId, Threshold)> {
        let cutoff = |table: &mut Table| {
            let level = table.rng.random_range(0..6);
            (table.cube(level), Threshold::new(table.rng.random::<u64>() as u128))
        };
        (0..count).map(|_| cutoff(self)).collect()
    }

    fn commit(&mut self) {
        self.entries += 1;
        let (count, level) = (self.rng.random_range(1..300), self.rng.random_range(0..6));
        let place = self.rng.random_bool(0.3).then(|| self.cube(level));
        let runs: Vec<_> = (0..count)
            .map(|index| {
                let cube = place.unwrap_or_else(|| self.cube(level));
                self.run(cube, index, Vec::new())
            })
            .collect();
        let cutoffs = self.cutoffs(count / 20);
        self.changes.added.extend_from_slice(&runs);
        self.changes.cutoffs.extend_from_slice(&cutoffs);
        self.state.commit("ada", self.entries, Commit { runs, cutoffs });
    }

    fn rewrite(&mut self, most: usize) {
        self.entries += 1;
        let (level, share) = (self.rng.random_range(0..3), self.rng.random_range(0.0..1.0));
        let top = self.cube(level);
        let mut live: Vec<Arc<Run<()>>> = self.state.live().cloned().collect();
        live.sort_by_key(|run| run.id);
        let tree = self.forest.tree_of(top);
        let inside = |run: &&Arc<Run<()>>| run.cube.grid() == top.grid() && tree.contains(top, run.cube);
        let chosen: Vec<&Arc<Run<()>>> =
            live.iter().filter(inside).filter(|_| self.rng.random_bool(share)).take(most).collect();
        let removes: Vec<RunId> = chosen.iter().map(|run| run.id).collect();
        let mut runs = vec![self.run(top, 0, Vec::new())];
        let sources: Vec<&Arc<Run<()>>> = live.iter().filter(|run| !run.is_replica()).collect();
        for index in 1..self.rng.random_range(1..40) {
            let Some(source) = sources.choose(&mut self.rng).filter(|run| run.cube.level() < tree.deepest()) else {
                continue;
            };
            let of_source = self.forest.tree_of(source.cube);
            let below = of_source.children(source.cube).choose(&mut self.rng).unwrap();
            runs.push(self.run(below, index, vec![source.id]));
        }
        let cutoffs = self.cutoffs(2);
        self.changes.added.extend_from_slice(&runs);
        self.changes.cutoffs.extend_from_slice(&cutoffs);
        self.changes.removed.extend(removes.iter().copied());
        let number = self.state.rewrites() + 1;
        self.state.rewrite(number, Rewrite { runs, removes, cutoffs, needs: Vec::new() }).unwrap();
    }

    fn changes(&mut self) -> Changes<()> {
        let mut changes = std::mem::take(&mut self.changes);
        let lives =
            |run: &Arc<Run<()>>| self.state.is_live(run.id) && run.copies.iter().all(|id| self.state.is_live(*id));
        changes.added.retain(lives);
        changes
    }
}

fn is_same(one: &Directory<()>, other: &Directory<()>, rng: &mut SmallRng) {
    let seen = |directory: &Directory<()>| {
        let runs: Vec<RunId> = directory.runs().map(|run| run.id).collect();
        let replicas: Vec<RunId> = directory.replicas().map(|run| run.id).collect();
        let (cutoffs, cubes): (Vec<_>, Vec<_>) = (directory.cutoffs().collect(), directory.cubes().collect());
        let of_cubes: Vec<(usize, usize)> =
            cubes.iter().map(|cube| (directory.runs_of(*cube).len(), directory.replicas_in(*cube).len())).collect();
        let trees: Vec<u32> = directory.trees().map(|tree| tree.grid()).collect();
        (runs, replicas, cutoffs, of_cubes, trees, (directory.len(), directory.rows(), directory.occupied_cubes()))
    };
    assert_eq!(seen(one), seen(other));
    for _ in 0..4 {
        let mut region = Region::default();
        for tree in other.forest().trees() {
            let sides: [[u32; 2]; 3] = rng.random();
            let (mut low, mut high) = (tree.everything().low, tree.everything().high);
            for (d, side) in sides.into_iter().enumerate().take(tree.dimensions()) {
                (low[d], high[d]) = (side[0].min(side[1]), side[0].max(side[1]));
            }
            region.insert(tree.grid(), GridBox { low, high });
        }
        let range = PriorityRange::between(Threshold::NONE, Threshold::new(rng.random::<u64>() as u128));
        let Some(range) = range else { continue };
        let read = |directory: &Directory<()>| {
            let Ok(plan) = directory.plan_primaries(&region, range, &Never);
            let runs: Vec<RunId> = plan.visits.iter().map(|visit| visit.run.id).collect();
            (runs, plan.cubes_visited)
        };
        assert_eq!(read(one), read(other));
        // The plans may use different replicas, but must cover the same runs.
        let Ok(plan) = one.plan(&region, range, &Never);
        let named = |run: &Run<()>| if run.is_replica() { run.copies.clone() } else { vec![run.id] };
        let read_or_copied: BTreeSet<RunId> = plan.visits.iter().flat_map(|visit| named(visit.run)).collect();
        let primaries: BTreeSet<RunId> = read(other).0.into_iter().collect();
        assert!(primaries.is_subset(&read_or_copied));
        let whole = plan.visits.iter().filter(|visit| visit.within.is_none() && !visit.run.is_replica());
        let copied: BTreeSet<RunId> = plan.visits.iter().flat_map(|visit| visit.run.copies.iter().copied()).collect();
        whole.for_each(|visit| assert!(!copied.contains(&visit.run.id), "read and copied"));
    }
}

#[test]
fn a_directory_changes_as_if_made_anew() {
    let mut largest = 0;
    for seed in 0..60 {
        let mut table = Table::new(seed);
        let mut known = Directory::nothing(table.forest.clone());
        for number in 0..30 {
            match table.rng.random_range(0..10) {
                _ if number == 15 => table.forest.learn(Geometry::of_grid(1, 3).unwrap()).unwrap(),
                0..=4 => table.commit(),
                5 => table.rewrite(usize::MAX),
                _ => table.rewrite(20),
            }
            if table.rng.random_bool(0.2) {
                continue;
            }
            let changes = table.changes();
            known = known.with(&table.forest, &changes);
            let anew = Directory::new(table.forest.clone(), &table.state);
            is_same(&known, &anew, &mut table.rng);
            largest = largest.max(known.len());
        }
    }
    assert!(largest > 1000, "{largest}");
}
