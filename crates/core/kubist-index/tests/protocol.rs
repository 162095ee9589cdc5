//! Random histories of writers, rewriters and readers against the real state and planner: on any snapshot a
//! query returns every committed matching row exactly once.
//!
//! Tables get up to three grids, and rewriters move runs between the trees. The tests must also detect every
//! broken rule. Rules of histories are broken in the history; rules of the state and the planner by a state
//! from an implementation without the rule, or by misreading the plan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubist_index::cube::{CubeId, Geometry, GridBox};
use kubist_index::directory::{Changes, Directory};
use kubist_index::forest::{Forest, Region};
use kubist_index::gradual::Never;
use kubist_index::layers::Layers;
use kubist_index::priority::{PriorityRange, Threshold};
use kubist_index::start::Start;
use kubist_index::state::{Commit, Rewrite, Run, RunId, State};
use rand::rngs::SmallRng;
use rand::seq::{IndexedRandom, IteratorRandom};
use rand::{Rng, SeedableRng};

const BITS: u32 = 4;
/// Levels per grid that separate points: on a line, in a square, and on a line with twice the length.
const LEVELS: [u32; 3] = [4, 2, 5];
const WRITERS: [&str; 3] = ["ada", "ben", "cleo"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    id: u32,
    point: u32,
    priority: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Rule {
    /// A rewrite checks its inputs again at its own number.
    RewritesAreSerial,
    /// A snapshot that shows a rewrite shows the commits that it read.
    RewritesCloseOverCommits,
    /// A commit restates every ancestor cutoff that its placement relied on.
    CommitsRestateCutoffs,
    /// A cube's cutoff is the recorded one, and is not derived from its live runs.
    CutoffsAreRecorded,
    CutoffsNeverRise,
    /// A removed run that is named again stays removed.
    RemovedStaysRemoved,
    /// A snapshot shows all entries of each log up to its position.
    LogsArePrefixes,
    /// A replica counts only while all its sources are live.
    ReplicasNeedLiveSources,
    /// Two replicas in one cube never copy the same run.
    ReplicaCoverageIsDisjoint,
    /// A replica copies all rows inside its cube, overflow too.
    ReplicasCopyWholeParts,
    /// An ancestor's run is read only for the starts whose replicas do not copy it.
    StartsRestrictAncestors,
    /// A query reads every tree that has runs.
    EveryTreeIsAsked,
    /// It uses the box in every tree's own grid.
    BoxesAreOfTheirGrid,
    /// A move removes the runs whose rows it places in another tree.
    MovesRemoveTheirSources,
    /// A move restates the cutoffs in that tree that its placement relied on.
    MovesRestateCutoffs,
    ReplicasStayInTheirTree,
}

impl Rule {
    const ALL: [Rule; 16] = [
        Rule::RewritesAreSerial,
        Rule::RewritesCloseOverCommits,
        Rule::CommitsRestateCutoffs,
        Rule::CutoffsAreRecorded,
        Rule::CutoffsNeverRise,
        Rule::RemovedStaysRemoved,
        Rule::LogsArePrefixes,
        Rule::ReplicasNeedLiveSources,
        Rule::ReplicaCoverageIsDisjoint,
        Rule::ReplicasCopyWholeParts,
        Rule::StartsRestrictAncestors,
        Rule::EveryTreeIsAsked,
        Rule::BoxesAreOfTheirGrid,
        Rule::MovesRemoveTheirSources,
        Rule::MovesRestateCutoffs,
        Rule::ReplicasStayInTheirTree,
    ];
}

fn forest() -> Forest {
    let mut forest = Forest::of(Geometry::new(1).unwrap());
    for (grid, dimensions) in [(1, 2), (2, 1)] {
        forest.learn(Geometry::of_grid(grid, dimensions).unwrap()).unwrap();
    }
    forest
}

fn coordinates(grid: u32, point: u32) -> Vec<u32> {
    match grid {
        0 => vec![point << (32 - BITS)],
        1 => vec![point >> 2 << 30, point << 30],
        _ => vec![point << (31 - BITS)],
    }
}

fn grid_box(grid: u32, low: u32, high: u32) -> GridBox {
    let mut around = GridBox { low: [0; 8], high: [0; 8] };
    let (first, last) = (coordinates(grid, low), coordinates(grid, high));
    around.low[..first.len()].copy_from_slice(&first);
    around.high[..last.len()].copy_from_slice(&last);
    if grid == 1 && low >> 2 != high >> 2 {
        (around.low[1], around.high[1]) = (0, 3 << 30);
    }
    around
}

struct Table {
    rng: SmallRng,
    broken: Option<Rule>,
    forest: Forest,
    grids: u32,
    logs: Vec<Vec<Commit<Vec<Row>>>>,
    rewrites: Vec<Rewrite<Vec<Row>>>,
    made: u32,
}

impl Table {
    fn new(seed: u64, broken: Option<Rule>) -> Table {
        Table {
            rng: SmallRng::seed_from_u64(seed),
            broken,
            forest: forest(),
            grids: 1,
            logs: vec![vec![]; 3],
            rewrites: vec![],
            made: 0,
        }
    }

    fn keeps(&self, rule: Rule) -> bool {
        self.broken != Some(rule)
    }

    fn tree(&self, grid: u32) -> Geometry {
        self.forest.tree(grid).unwrap()
    }

    fn cube(&self, grid: u32, row: &Row, level: u32) -> CubeId {
        let tree = self.tree(grid);
        tree.cube_of(tree.key(&coordinates(grid, row.point)), level)
    }

    fn holds(&self, cube: CubeId, row: &Row) -> bool {
        self.cube(cube.grid(), row, cube.level()) == cube
    }

    fn regrid(&mut self) {
        self.grids = (self.grids + 1).min(LEVELS.len() as u32);
    }

    fn run(&mut self, cube: CubeId, rows: Vec<Row>, copies: Vec<RunId>) -> Arc<Run<Vec<Row>>> {
        self.made += 1;
        let low = rows.iter().map(|row| row.priority).min().unwrap_or(0);
        let high = rows.iter().map(|row| row.priority).max().unwrap_or(0);
        let id = RunId::new(1, self.made as u64, 0);
        Arc::new(Run { id, cube, rows: rows.len() as u64, priorities: (low, high), copies, payload: rows })
    }

    /// The state with prefixes of the logs, closed over the needs of its rewrites.
    fn state(&self, rewrites: usize, mut positions: Vec<usize>) -> State<Vec<Row>> {
        if self.keeps(Rule::RewritesCloseOverCommits) {
            for (writer, needed) in self.rewrites[..rewrites].iter().flat_map(|rewrite| &rewrite.needs) {
                let place = WRITERS.iter().position(|name| name == writer).unwrap();
                positions[place] = positions[place].max(*needed as usize);
            }
        }
        let mut state = State::default();
        for (writer, log) in self.logs.iter().enumerate() {
            for (number, commit) in log[..positions[writer]].iter().enumerate() {
                let mut commit = commit.clone();
                if !self.keeps(Rule::LogsArePrefixes) && number + 2 == positions[writer] {
                    commit.runs.clear();
                }
                state.commit(WRITERS[writer], number as u64 + 1, commit);
            }
        }
        for (number, rewrite) in self.rewrites[..rewrites].iter().enumerate() {
            let mut rewrite = rewrite.clone();
            if !self.keeps(Rule::RewritesCloseOverCommits) {
                rewrite.needs.clear();
            }
            state.rewrite(number as u64 + 1, rewrite).unwrap();
        }
        self.forgetful(state, rewrites, &positions)
    }

    /// The state of an implementation without the broken rule.
    fn forgetful(&self, state: State<Vec<Row>>, rewrites: usize, positions: &[usize]) -> State<Vec<Row>> {
        let mut runs: BTreeMap<RunId, Arc<Run<Vec<Row>>>> = state.live().map(|run| (run.id, run.clone())).collect();
        let mut cutoffs: BTreeMap<CubeId, Threshold> = state.cutoffs().collect();
        let shown = self.logs.iter().zip(positions).flat_map(|(log, position)| &log[..*position]);
        match self.broken {
            Some(Rule::CutoffsAreRecorded) => {
                let mut priorities: BTreeMap<CubeId, Vec<u64>> = BTreeMap::new();
                for run in runs.values().filter(|run| !run.is_replica()) {
                    priorities.entry(run.cube).or_default().extend(run.payload.iter().map(|row| row.priority));
                }
                cutoffs.clear();
                for (cube, mut priorities) in priorities.into_iter().filter(|(_, priorities)| priorities.len() > 2) {
                    priorities.sort_unstable();
                    cutoffs.insert(cube, Threshold::new(priorities[2] as u128));
                }
            }
            Some(Rule::CutoffsNeverRise) => {
                let commits = shown.flat_map(|commit| &commit.cutoffs);
                let said = commits.chain(self.rewrites[..rewrites].iter().flat_map(|rewrite| &rewrite.cutoffs));
                cutoffs.extend(said.copied());
            }
            Some(Rule::RemovedStaysRemoved) => {
                let again = self.logs[0][..positions[0]].iter().flat_map(|commit| &commit.runs);
                runs.extend(again.map(|run| (run.id, run.clone())));
            }
            Some(Rule::ReplicasNeedLiveSources) => {
                let made = self.rewrites[..rewrites].iter().flat_map(|rewrite| &rewrite.runs);
                for replica in made.filter(|run| run.is_replica()) {
                    runs.insert(replica.id, replica.clone());
                    for id in &replica.copies {
                        let source = state.run(*id).unwrap().as_ref();
                        let emptied = || Arc::new(Run { rows: 0, payload: vec![], ..source.clone() });
                        runs.entry(*id).or_insert_with(emptied);
                    }
                }
            }
            _ => return state,
        }
        let live = Commit { runs: runs.into_values().collect(), cutoffs: cutoffs.into_iter().collect() };
        let positions = state.positions().map(|(writer, position)| (writer.to_string(), position)).collect();
        State::restore(live, positions, state.rewrites())
    }

    fn any_prefix(&mut self) -> (usize, Vec<usize>) {
        let rewrites = self.rng.random_range(0..=self.rewrites.len());
        let positions = self.logs.iter().map(|log| self.rng.random_range(0..=log.len())).collect();
        (rewrites, positions)
    }

    fn lengths(&self) -> Vec<usize> {
        self.logs.iter().map(Vec::len).collect()
    }

    /// A writer with a stale view places rows, and may lower cutoffs and leave overflow on the path.
    fn commit(&mut self) {
        let (rewrites, positions) = match self.rng.random_bool(0.3) {
            true => (self.rewrites.len(), self.lengths()),
            false => self.any_prefix(),
        };
        let mut known: BTreeMap<CubeId, Threshold> = self.state(rewrites, positions).cutoffs().collect();
        let grid = if self.rng.random_bool(0.5) { self.grids - 1 } else { self.rng.random_range(0..self.grids) };
        let rows: Vec<Row> = (0..self.rng.random_range(1..=8))
            .map(|_| {
                self.made += 1;
                Row { id: self.made, point: self.rng.random_range(0..1 << BITS), priority: self.rng.random() }
            })
            .collect();
        let (runs, cutoffs) = match self.rng.random_bool(0.4) {
            true => (vec![self.run(CubeId::root(grid), rows, vec![])], vec![]),
            false => self.place(grid, rows, &mut known, self.keeps(Rule::CommitsRestateCutoffs)),
        };
        let writer = self.rng.random_range(0..3);
        self.logs[writer].push(Commit { runs, cutoffs });
    }

    /// If `restates` is set, includes the cutoffs that the placement relied on.
    fn place(
        &mut self,
        grid: u32,
        rows: Vec<Row>,
        known: &mut BTreeMap<CubeId, Threshold>,
        restates: bool,
    ) -> (Vec<Arc<Run<Vec<Row>>>>, Vec<(CubeId, Threshold)>) {
        let mut recorded = BTreeMap::new();
        let mut placed: BTreeMap<CubeId, Vec<Row>> = BTreeMap::new();
        let levels = LEVELS[grid as usize];
        for level in 0..levels {
            if self.rng.random_bool(0.5) {
                let cube = self.cube(grid, &rows[0], level);
                let lower = Threshold::new(self.rng.random::<u64>() as u128);
                let cutoff = known.get(&cube).copied().unwrap_or(Threshold::ALL).min(lower);
                known.insert(cube, cutoff);
                recorded.insert(cube, cutoff);
            }
        }
        let cutoff = |cube| known.get(&cube).copied().unwrap_or(Threshold::ALL);
        for row in rows {
            let (mut level, deepest) = (0, self.rng.random_range(0..=levels));
            while level < deepest && !cutoff(self.cube(grid, &row, level)).admits(row.priority) {
                level += 1;
            }
            let cube = self.cube(grid, &row, level);
            placed.entry(cube).or_default().push(row);
            if restates {
                recorded.extend(self.tree(grid).ancestors(cube).map(|above| (above, cutoff(above))));
            }
        }
        let runs = placed.into_iter().map(|(cube, rows)| self.run(cube, rows, vec![])).collect();
        (runs, recorded.into_iter().collect())
    }

    /// Merges runs of a cube, pushes overflow down, replicates, or moves runs to the newest grid's tree.
    fn rewrite(&mut self) {
        let (rewrites, positions) = match self.keeps(Rule::RewritesAreSerial) {
            true => (self.rewrites.len(), self.any_prefix().1),
            false => (self.rewrites.len().saturating_sub(self.rng.random_range(0..3)), self.any_prefix().1),
        };
        let seen = self.state(rewrites, positions);
        let mut live: Vec<_> = seen.live().filter(|run| !run.is_replica()).cloned().collect();
        live.sort_by_key(|run| run.id);
        let Some(chosen) = live.choose(&mut self.rng).cloned() else { return };
        let cube = chosen.cube;
        let mut rewrite = Rewrite { runs: vec![], removes: vec![], cutoffs: vec![], needs: vec![] };
        let inputs: BTreeSet<RunId>;
        let (grid, newest) = (cube.grid(), self.grids - 1);
        let (tree, levels) = (self.tree(grid), LEVELS[grid as usize]);
        if grid < newest && self.rng.random_bool(0.4) {
            let taken: [bool; 2] = self.rng.random();
            let is_moved = |run: &&Arc<Run<Vec<Row>>>| {
                run.cube.grid() < newest && (run.id == chosen.id || taken[run.id.0 as usize >> 32 & 1])
            };
            let moved: Vec<_> = live.iter().filter(is_moved).cloned().collect();
            let rows = moved.iter().flat_map(|run| run.payload.iter().copied()).collect();
            let mut known = seen.cutoffs().collect();
            let restates = self.keeps(Rule::MovesRestateCutoffs);
            (rewrite.runs, rewrite.cutoffs) = self.place(newest, rows, &mut known, restates);
            inputs = moved.iter().map(|run| run.id).collect();
            if self.keeps(Rule::MovesRemoveTheirSources) {
                rewrite.removes = inputs.iter().copied().collect();
            }
        } else if self.rng.random_bool(0.5) {
            if cube.level() == levels {
                return;
            }
            let mut target = cube;
            for _ in 0..self.rng.random_range(1..=levels - cube.level()) {
                target = tree.children(target).choose(&mut self.rng).unwrap();
            }
            if !self.keeps(Rule::ReplicasStayInTheirTree) {
                target = CubeId::root(newest);
            }
            let mut covers = BTreeSet::from([chosen.id]);
            for run in live.iter().filter(|run| run.cube != target && tree.contains(run.cube, target)) {
                if self.rng.random_bool(0.3) {
                    covers.insert(run.id);
                }
            }
            if self.keeps(Rule::ReplicaCoverageIsDisjoint) {
                for replica in seen.live().filter(|run| run.is_replica() && run.cube == target) {
                    covers.retain(|run| !replica.copies.contains(run));
                }
            }
            if covers.is_empty() {
                return;
            }
            let whole = self.keeps(Rule::ReplicasCopyWholeParts);
            let copied = live.iter().filter(|run| covers.contains(&run.id)).flat_map(|run| {
                let cutoff = seen.cutoff(run.cube);
                run.payload.iter().filter(move |row| whole || cutoff.admits(row.priority)).copied()
            });
            let copied: Vec<Row> = copied.filter(|row| self.holds(target, row)).collect();
            rewrite.runs.push(self.run(target, copied, covers.iter().copied().collect()));
            inputs = covers;
        } else {
            let chosen_runs: Vec<_> = live
                .iter()
                .filter(|run| run.cube == cube && (run.id == chosen.id || self.rng.random_bool(0.6)))
                .cloned()
                .collect();
            let mut cutoff = Threshold::ALL;
            if cube.level() < levels && self.rng.random_bool(0.5) {
                cutoff = seen.cutoff(cube);
                if self.rng.random_bool(0.5) {
                    cutoff = cutoff.min(Threshold::new(self.rng.random::<u64>() as u128));
                }
                rewrite.cutoffs.push((cube, cutoff));
            }
            let mut placed: BTreeMap<CubeId, Vec<Row>> = BTreeMap::new();
            for row in chosen_runs.iter().flat_map(|run| &run.payload) {
                let target = if cutoff.admits(row.priority) { cube } else { self.cube(grid, row, cube.level() + 1) };
                placed.entry(target).or_default().push(*row);
            }
            rewrite.runs = placed.into_iter().map(|(cube, rows)| self.run(cube, rows, vec![])).collect();
            inputs = chosen_runs.iter().map(|run| run.id).collect();
            rewrite.removes = inputs.iter().copied().collect();
        }
        for (writer, log) in self.logs.iter().enumerate() {
            let read = log.iter().rposition(|commit| commit.runs.iter().any(|run| inputs.contains(&run.id)));
            rewrite.needs.extend(read.map(|place| (WRITERS[writer].to_string(), place as u64 + 1)));
        }
        self.rewrites.push(rewrite);
    }

    fn query(&mut self) -> (Vec<u32>, Vec<u32>) {
        let (rewrites, mut positions) = self.any_prefix();
        let state = self.state(rewrites, positions.clone());
        if self.keeps(Rule::RewritesCloseOverCommits) {
            positions = WRITERS.iter().map(|writer| state.position(writer) as usize).collect();
        }
        let directory = Directory::new(self.forest.clone(), &state);
        let (a, b) = (self.rng.random_range(0..1 << BITS), self.rng.random_range(0..1 << BITS));
        let (low, high) = (a.min(b), a.max(b));
        let threshold = match self.rng.random_bool(0.3) {
            true => Threshold::ALL,
            false => Threshold::new(self.rng.random::<u64>() as u128),
        };
        let Some(range) = PriorityRange::between(Threshold::NONE, threshold) else { return Default::default() };
        let newest = self.grids - 1;
        let mut region = Region::default();
        for grid in 0..self.grids {
            if grid == newest || self.keeps(Rule::EveryTreeIsAsked) {
                let of_grid = if self.keeps(Rule::BoxesAreOfTheirGrid) { grid } else { newest };
                region.insert(grid, grid_box(of_grid, low, high));
            }
        }
        let (mut starts, mut stack) = (vec![], (0..self.grids).map(CubeId::root).collect::<Vec<_>>());
        while let Some(cube) = stack.pop() {
            let tree = self.tree(cube.grid());
            match cube.level() < LEVELS[cube.grid() as usize] && self.rng.random_bool(0.5) {
                true => stack.extend(tree.children(cube)),
                false => {
                    let above = tree.ancestors(cube).choose(&mut self.rng).unwrap_or(cube);
                    let source = if self.rng.random_bool(0.5) { cube } else { above };
                    starts.push(Start { region: cube, source });
                }
            }
        }
        let wanted = |row: &Row| low <= row.point && row.point <= high && range.holds(row.priority);
        let mut answer = vec![];
        let Ok(plan) = match self.rng.random_bool(0.5) {
            true => directory.plan(&region, range, &Never),
            false => directory.plan_from(&starts, &region, range, &Never),
        };
        for visit in plan.visits {
            let within = visit.within.filter(|_| self.keeps(Rule::StartsRestrictAncestors));
            let inside =
                |row: &&Row| within.as_ref().is_none_or(|cubes| cubes.iter().any(|cube| self.holds(*cube, row)));
            let rows = visit.run.payload.iter().filter(|row| wanted(row));
            answer.extend(rows.filter(inside).map(|row| row.id));
        }
        let committed = self.logs.iter().zip(&positions).flat_map(|(log, position)| &log[..*position]);
        let rows = committed.flat_map(|commit| &commit.runs).flat_map(|run| &run.payload);
        let mut expected: Vec<u32> = rows.filter(|row| wanted(row)).map(|row| row.id).collect();
        expected.sort();
        answer.sort();
        (expected, answer)
    }
}

fn first_violation(broken: Option<Rule>, histories: u64) -> Option<u64> {
    (0..histories).find(|seed| {
        let mut table = Table::new(*seed, broken);
        (0..table.rng.random_range(3..30)).any(|_| {
            match table.rng.random_range(0..20) {
                0 => table.regrid(),
                1..=9 => table.commit(),
                _ => table.rewrite(),
            }
            (0..2).any(|_| {
                let (expected, answer) = table.query();
                expected != answer
            })
        })
    })
}

#[test]
fn every_snapshot_answers_exactly() {
    assert_eq!(first_violation(None, 5000), None);
}

#[derive(Default)]
struct Followed {
    state: State<Vec<Row>>,
    changes: Changes<Vec<Row>>,
    seen: ([usize; 3], usize),
}

impl Followed {
    fn follow(&mut self, table: &Table) {
        let added = |changes: &mut Changes<Vec<Row>>, runs: &[Arc<Run<Vec<Row>>>], cutoffs: &[_]| {
            changes.added.extend_from_slice(runs);
            changes.cutoffs.extend_from_slice(cutoffs);
        };
        for (writer, log) in table.logs.iter().enumerate() {
            for commit in &log[self.seen.0[writer]..] {
                self.seen.0[writer] += 1;
                added(&mut self.changes, &commit.runs, &commit.cutoffs);
                self.state.commit(WRITERS[writer], self.seen.0[writer] as u64, commit.clone());
            }
        }
        for rewrite in &table.rewrites[self.seen.1..] {
            self.seen.1 += 1;
            added(&mut self.changes, &rewrite.runs, &rewrite.cutoffs);
            self.changes.removed.extend(rewrite.removes.iter().copied());
            self.state.rewrite(self.seen.1 as u64, rewrite.clone()).unwrap();
        }
    }

    fn changes(&mut self) -> Changes<Vec<Row>> {
        let mut changes = std::mem::take(&mut self.changes);
        let is_live = |run: &RunId| self.state.is_live(*run);
        changes.added.retain(|run| is_live(&run.id) && run.copies.iter().all(is_live));
        changes
    }
}

#[test]
fn layers_change_as_if_made_anew() {
    let mut lost = 0;
    for seed in 0..300 {
        let (mut table, mut followed, mut grown) = (Table::new(seed, None), Followed::default(), None::<Layers<_>>);
        for number in 1..40 {
            match table.rng.random_range(0..12) {
                0 => table.regrid(),
                1..=7 => table.commit(),
                _ => table.rewrite(),
            }
            followed.follow(&table);
            if table.rng.random_bool(0.2) {
                continue;
            }
            let (forest, changes) = (table.forest.clone(), followed.changes());
            lost += changes.removed.len();
            let anew = Directory::new(forest.clone(), &followed.state);
            let nothing = || Layers::new(Arc::new(Directory::nothing(Forest::of(table.tree(0)))));
            let grows = grown.unwrap_or_else(nothing).with(&forest, &changes);
            for cube in anew.cubes() {
                let parts = grows.parts();
                assert_eq!(parts.iter().map(|part| part.cutoff(cube)).min(), Some(anew.cutoff(cube)), "seed {seed}");
                let runs: usize = parts.iter().map(|part| part.runs_of(cube).len()).sum();
                assert_eq!(runs, anew.runs_of(cube).len(), "seed {seed}");
            }
            assert_eq!((grows.len(), grows.rows()), (anew.len(), anew.rows()), "seed {seed}");
            // Some states are queried, so that later changes build on the merged directory.
            if (seed + number) % 3 == 0 {
                is_same(grows.joined(), &anew, &mut table);
            }
            grown = Some(grows);
        }
    }
    assert!(lost > 1000, "{lost}");
}

fn is_same(one: &Directory<Vec<Row>>, other: &Directory<Vec<Row>>, table: &mut Table) {
    let seen = |directory: &Directory<Vec<Row>>| {
        let runs: Vec<RunId> = directory.all().map(|run| run.id).collect();
        let (cutoffs, cubes): (Vec<_>, Vec<_>) = (directory.cutoffs().collect(), directory.cubes().collect());
        let trees: Vec<u32> = directory.trees().map(|tree| tree.grid()).collect();
        (runs, cutoffs, cubes, trees, (directory.rows(), directory.occupied_cubes(), directory.height()))
    };
    assert_eq!(seen(one), seen(other));
    let (a, b) = (table.rng.random_range(0..1 << BITS), table.rng.random_range(0..1 << BITS));
    let (low, high) = (a.min(b), a.max(b));
    let mut region = Region::default();
    other.forest().trees().for_each(|tree| region.insert(tree.grid(), grid_box(tree.grid(), low, high)));
    let Some(range) = PriorityRange::between(Threshold::NONE, Threshold::new(table.rng.random::<u64>() as u128)) else {
        return;
    };
    let rows = |directory: &Directory<Vec<Row>>| {
        let Ok(plan) = directory.plan(&region, range, &Never);
        let mut found = Vec::new();
        for visit in plan.visits {
            let is_asked = |row: &&Row| low <= row.point && row.point <= high && range.holds(row.priority);
            let is_within =
                |row: &&Row| visit.within.iter().flat_map(|cubes| cubes.iter()).any(|cube| table.holds(*cube, row));
            let rows = visit.run.payload.iter().filter(is_asked);
            found.extend(rows.filter(|row| visit.within.is_none() || is_within(row)).map(|row| row.id));
        }
        found.sort_unstable();
        found
    };
    assert_eq!(rows(one), rows(other));
}

#[test]
fn breaking_a_rule_is_caught() {
    for rule in Rule::ALL {
        let found = first_violation(Some(rule), 3000);
        assert!(found.is_some(), "{rule:?} was broken and nothing failed");
        println!("without {rule:?}: wrong in history {}", found.unwrap() + 1);
    }
}
