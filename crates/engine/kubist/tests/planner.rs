//! The incremental planner compared with a walk over the whole tree.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use kubist::store::MemoryStore;
use kubist::{Dimension, Domain, GridOptions, OptimizeOptions, Table, TableOptions, Value, WriterOptions};
use kubist_catalog::core::Core;
use kubist_catalog::directory::{Directory, Runs};
use kubist_catalog::read_amplification::ReadAmplification;
use kubist_catalog::view::View;
use kubist_format::location::Location;
use kubist_format::names::REWRITE_SEGMENT;
use kubist_index::cube::{CubeId, MAX_DIMENSIONS};
use kubist_index::layout::Capacity;
use kubist_index::priority::Threshold;
use kubist_index::state::{Run, RunId, State};
use kubist_maintain::planner::{CompactionPlanner, Kind, PlanRequest};
use kubist_types::Cancel;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const CAPACITY: u32 = 64;
const BYTES_AT_ONCE: u64 = 512 << 20;

type RunOfTable = Arc<Run<Location>>;
type Found = (CubeId, Kind, Vec<RunId>, u64);

fn table() -> Table {
    let schema = Arc::new(Schema::new(["x", "y"].map(|name| Field::new(name, DataType::Float64, false)).to_vec()));
    let dimension =
        |name: &str| Dimension { column: name.into(), domain: Domain::Linear(Value::Int(0), Value::Int(1)) };
    let dimensions = vec![dimension("x"), dimension("y")];
    let options = TableOptions { dimensions: dimensions.clone(), capacity: Some(CAPACITY), ..Default::default() };
    let table = Table::create(Arc::new(MemoryStore::new("planner")), schema.clone(), &options).unwrap();
    let mut writer = table.writer(&WriterOptions::default()).unwrap();
    let column = || Arc::new(Float64Array::from(vec![0.5])) as ArrayRef;
    writer.append(&RecordBatch::try_new(schema, vec![column(), column()]).unwrap()).unwrap();
    writer.commit().unwrap();
    table.regrid(&GridOptions { dimensions: Some(dimensions), ..Default::default() }, &mut |_, _| {}).unwrap();
    table
}

fn directory(core: &Core, rng: &mut SmallRng) -> Directory {
    let forest = core.forest();
    let (mut runs, mut cutoffs): (Vec<RunOfTable>, _) = (Vec::new(), Vec::new());
    let cubes = rng.random_range(1..120);
    let (spread, older) = (rng.random_range(1..4), [0.0, 0.1][rng.random_range(0..2)]);
    for _ in 0..cubes {
        let tree = forest.tree(if rng.random_bool(older) { 0 } else { 1 }).unwrap();
        let point: Vec<u32> =
            (0..2).map(|_| rng.random_range(0..=tree.last_coordinate()) >> rng.random_range(0..spread)).collect();
        let cube = tree.cube_of(tree.key(&point), rng.random_range(0..6));
        if rng.random_bool(0.6) {
            cutoffs.push((cube, Threshold::new(rng.random::<u64>().into())));
        }
        let many = if rng.random_bool(0.1) { 40 } else { 3 };
        for _ in 0..rng.random_range(0..=many) {
            let made_by = if rng.random_bool(0.5) { REWRITE_SEGMENT } else { "ada-" };
            let (first, most_rows): (u64, u64) = (rng.random(), 1 << rng.random_range(1..11));
            let payload = Location {
                segment: format!("{made_by}7").into(),
                data_offset: 0,
                data_length: if rng.random_bool(0.02) { BYTES_AT_ONCE } else { rng.random_range(1..1 << 20) },
                map_offset: 0,
                map_length: 0,
                low: [0; MAX_DIMENSIONS],
                high: [0; MAX_DIMENSIONS],
                origin: None,
                lookup: None,
                ranges: None,
            };
            runs.push(Arc::new(Run {
                id: RunId::new(rng.random(), rng.random_range(1..1 << 40), 0),
                cube,
                rows: rng.random_range(0..most_rows),
                priorities: (first, rng.random_range(first..=u64::MAX)),
                copies: Vec::new(),
                payload,
            }));
        }
    }
    Directory::of(forest, runs.into_iter(), cutoffs.into_iter(), &Cancel::default()).unwrap()
}

struct Node {
    cube: CubeId,
    runs: Vec<RunOfTable>,
    cutoff: Threshold,
    debt: u64,
    wasted: u64,
    usual: u64,
    rows: u64,
    /// Rows, debt, bytes and surplus rows of the subtree.
    tree: [u64; 4],
    end: usize,
}

fn nodes(directory: &Directory, capacity: &Capacity, wasted: &ReadAmplification) -> Vec<Node> {
    let newest: Vec<RunOfTable> = directory.runs().filter(|run| run.cube.grid() == 1).cloned().collect();
    let mut nodes: Vec<Node> = Vec::new();
    for of_cube in newest.chunk_by(|a, b| a.cube == b.cube) {
        let (cube, cutoff) = (of_cube[0].cube, directory.cutoff(of_cube[0].cube));
        let rows = of_cube.iter().map(|run| run.rows).sum::<u64>();
        let largest = of_cube.iter().map(|run| run.rows).max().unwrap();
        let usual = match cutoff == Threshold::ALL {
            true => capacity.leaf_rows,
            false => capacity.leaf_rows + 4 * capacity.worth_adding,
        } as u64;
        let debt = (rows - largest + largest.saturating_sub(usual)).min(rows);
        let (runs, wasted) = (of_cube.to_vec(), wasted.of(cube));
        nodes.push(Node { cube, runs, cutoff, debt, wasted, usual, rows, tree: [0; 4], end: 0 });
    }
    let tree = directory.forest().tree(1).unwrap();
    for index in 0..nodes.len() {
        let below = nodes[index..].iter().take_while(|node| tree.contains(nodes[index].cube, node.cube));
        let of_node = |node: &Node| {
            [node.rows, node.debt, node.runs.iter().map(|run| run.payload.data_length).sum(), node.wasted]
        };
        let sums: Vec<[u64; 4]> = below.map(of_node).collect();
        nodes[index].end = index + sums.len();
        nodes[index].tree = std::array::from_fn(|sum| sums.iter().map(|of_node| of_node[sum]).sum());
    }
    nodes
}

fn few(runs: Vec<RunOfTable>, options: &OptimizeOptions) -> Vec<RunOfTable> {
    let (mut rows, mut bytes) = (0, 0);
    let fits = |run: &RunOfTable| {
        rows += run.rows;
        bytes += run.payload.data_length;
        rows == run.rows || (rows <= options.rows_at_once && bytes <= BYTES_AT_ONCE)
    };
    runs.into_iter().take_while(fits).collect()
}

fn to_push(node: &Node, options: &OptimizeOptions) -> Vec<RunOfTable> {
    let below = |run: &RunOfTable| {
        let (first, last) = (run.priorities.0 as f64, run.priorities.1 as f64);
        let share = (node.cutoff.to_u128() as f64 - first) / (last - first).max(1.0);
        run.rows as f64 * share.clamp(0.0, 1.0)
    };
    let mut runs = node.runs.clone();
    runs.sort_by_key(|run| Reverse(run.rows));
    let (largest, others) = (&runs[0], &runs[1..]);
    let change = others.iter().map(below).sum::<f64>() + largest.rows as f64 - below(largest);
    if !others.is_empty() && largest.rows <= node.usual && change < options.debt_share * largest.rows as f64 {
        runs.remove(0);
    }
    runs.reverse();
    few(runs, options)
}

fn to_merge(node: &Node, options: &OptimizeOptions) -> Vec<RunOfTable> {
    let mut runs = node.runs.clone();
    runs.sort_by_key(|run| run.rows);
    let (mut alike, mut rows) = (0, 0);
    while alike < runs.len() && (alike < 2 || runs[alike].rows <= rows) {
        rows += runs[alike].rows;
        alike += 1;
    }
    runs.truncate(alike);
    few(runs, options)
}

fn moves(directory: &Directory, options: &OptimizeOptions, tried: &HashMap<CubeId, u64>) -> Vec<Found> {
    let older: Vec<&RunOfTable> = directory.runs().filter(|run| run.cube.grid() < 1).collect();
    let (mut moves, mut rest) = (Vec::new(), &older[..]);
    while let Some(first) = rest.first() {
        let (mut rows, mut bytes) = (0, 0);
        let part = rest.iter().take_while(|run| {
            rows += run.rows;
            bytes += run.payload.data_length;
            rows == run.rows || (rows <= options.rows_at_once && bytes <= BYTES_AT_ONCE)
        });
        let (part, later) = rest.split_at(part.count());
        rest = later;
        let debt = part.iter().map(|run| run.rows).sum();
        if tried.get(&first.cube).is_none_or(|most| debt <= *most) {
            moves.push((first.cube, Kind::Move, part.iter().map(|run| run.id).collect(), debt));
        }
    }
    moves
}

/// Top down: rewrites the topmost worthwhile subtree that fits; otherwise only the cube's own runs, and
/// nothing below it in this pass.
fn compactions(nodes: &[Node], options: &OptimizeOptions, tried: &HashMap<CubeId, u64>) -> Vec<Found> {
    let worth = |debt: u64, rows: u64, wasted: u64| {
        debt > 0 && (debt as f64 >= options.debt_share * rows as f64 || wasted >= rows)
    };
    let fits = |[rows, _, bytes, _]: [u64; 4]| rows <= options.rows_at_once && bytes <= BYTES_AT_ONCE;
    let whole = |node: &Node| fits(node.tree) && worth(node.tree[1], node.tree[0], node.tree[3]);
    let candidates = nodes.iter().filter(|node| options.one_round && whole(node));
    let largest = candidates.max_by_key(|node| (node.tree[3], node.tree[1])).map(|node| node.cube);
    let helpless = |cube: &CubeId, debt: u64| tried.get(cube).is_some_and(|most| debt > *most);
    let mut found: Vec<(u64, Found)> = Vec::new();
    let (mut index, mut blocked_until) = (0, 0);
    while index < nodes.len() {
        let here = &nodes[index];
        if index < blocked_until {
            index += 1;
            continue;
        }
        let wanted = !options.one_round || largest == Some(here.cube);
        if wanted && whole(here) && !helpless(&here.cube, here.tree[1]) {
            let runs = nodes[index..here.end].iter().flat_map(|below| below.runs.iter().map(|run| run.id)).collect();
            found.push((here.tree[3], (here.cube, Kind::Whole, runs, here.tree[1])));
            index = here.end;
            continue;
        }
        let runs = match !fits(here.tree) && worth(here.debt, here.rows, here.wasted) {
            true => to_push(here, options),
            false if here.runs.len() > 16 => to_merge(here, options),
            false => Vec::new(),
        };
        let is_rewritten = |run: &RunOfTable| run.payload.segment.starts_with(REWRITE_SEGMENT);
        let useful = runs.len() > 1 || runs.iter().any(|run| run.rows > here.usual && !is_rewritten(run));
        if useful && !helpless(&here.cube, here.debt) {
            let runs = runs.iter().map(|run| run.id).collect();
            found.push((here.wasted, (here.cube, Kind::Own, runs, here.debt)));
            if !options.one_round {
                blocked_until = here.end;
            }
        }
        index += 1;
    }
    match options.one_round {
        true => found
            .sort_by_key(|(wasted, (_, kind, runs, _))| (*kind == Kind::Whole, Reverse(*wasted), Reverse(runs.len()))),
        false => found.sort_by_key(|(wasted, _)| Reverse(*wasted)),
    }
    found.into_iter().map(|(_, one)| one).collect()
}

#[test]
fn what_comes_in_order_gives_the_rewrites_that_a_look_from_the_root_gives() {
    let table = table();
    let core = table.core();
    let schema = core.view(&Cancel::default()).unwrap().schema.clone();
    assert_eq!(schema.newest_grid(), 1);
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for seed in 0..3_000 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let directory = directory(core, &mut rng);
        let wasted = ReadAmplification::default();
        let mut tried: HashMap<CubeId, u64> = HashMap::new();
        for run in directory.runs() {
            if rng.random_bool(0.1) {
                wasted.add([(run.cube, rng.random_range(1..3_000))].into_iter());
            }
            if rng.random_bool(0.05) {
                tried.insert(run.cube, rng.random_range(0..2_000));
            }
        }
        let most_rows = 1 << rng.random_range(5..20);
        let options = OptimizeOptions {
            debt_share: [0.05, 0.3, 0.9, f64::INFINITY][rng.random_range(0..4)],
            rows_at_once: rng.random_range(10..most_rows),
            one_round: rng.random(),
            ..Default::default()
        };
        let capacity = Capacity::adding(CAPACITY, options.debt_share);
        let nodes = nodes(&directory, &capacity, &wasted);
        let mut moves = moves(&directory, &options, &tried);
        let mut expected = compactions(&nodes, &options, &tried);
        match options.one_round {
            false if moves.is_empty() => {}
            false => expected = moves,
            true => {
                moves.truncate(1);
                if !moves.is_empty() {
                    expected.retain(|(_, kind, ..)| *kind == Kind::Own);
                }
                expected.extend(moves);
            }
        }
        let older: u64 = directory.runs().filter(|run| run.cube.grid() < 1).map(|run| run.rows).sum();
        let rows = directory.rows();

        let runs = Runs::new(None, directory, Arc::default());
        let view = View::new(schema.clone(), runs, Default::default(), &State::default());
        let wanted = PlanRequest { options: &options, tried: &tried };
        let mut planner = CompactionPlanner::new(&view, core.forest(), &capacity, &wasted, Some(wanted));
        let mut add = |entry| -> kubist::Result<()> {
            planner.add(&entry);
            Ok(())
        };
        view.runs.each_in_order(core, &Cancel::default(), &mut add).unwrap();
        let plan = planner.finish();
        assert_eq!(plan.debt.rows, rows, "seed {seed}");
        assert_eq!(plan.debt.rows_to_move, older, "seed {seed}");
        assert_eq!(plan.debt.pressing, nodes.iter().map(|node| node.debt).sum::<u64>(), "seed {seed}");
        let most = nodes.iter().map(|node| node.runs.len() as u64).max().unwrap_or(0);
        assert_eq!(plan.debt.most_runs, most, "seed {seed}");
        let found: Vec<Found> = plan
            .rewrites
            .iter()
            .map(|one| (one.top, one.kind, one.runs.iter().map(|(_, id)| *id).collect(), one.debt))
            .collect();
        assert_eq!(found, expected, "seed {seed}, {options:?}");
        for (_, kind, ..) in found {
            *seen.entry(["own", "whole", "move"][kind as usize]).or_default() += 1;
        }
    }
    assert!(seen.len() == 3 && seen.values().all(|times| *times > 300), "{seen:?}");
}
