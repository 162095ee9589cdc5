//! The cost of secondary indexes, and tables with missing, wrong or damaged postings.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{ArrayRef, Float32Array, Int32Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use kubist_index::state::Run;
use kubist_store::MemoryStore;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use kubist::OptimizeOptions;
use kubist::Table;
use kubist::VerifyOptions;
use kubist::{Dimension, Domain, Query, Stats, TableOptions, Value, WriterOptions};
use kubist_format::location::Location;
use kubist_format::lookup::Lookup;
use kubist_format::zone_map::ZONES_PER_PAGE;
use kubist_read::runs::read_run;
use kubist_write::publish::{Replacement, publish};

const PARTICLES: i32 = 400;

fn options() -> TableOptions {
    let domain = || Domain::Linear(Value::Int(0), Value::Int(1));
    TableOptions {
        dimensions: ["x", "y"].map(|name| Dimension { column: name.into(), domain: domain() }).to_vec(),
        identity: vec!["pid".into(), "time".into()],
        lookup: vec!["pid".into()],
        capacity: Some(512),
        ..TableOptions::default()
    }
}

fn schema() -> Arc<Schema> {
    let float = |name| Field::new(name, DataType::Float32, false);
    Arc::new(Schema::new(vec![Field::new("pid", DataType::Int32, false), float("time"), float("x"), float("y")]))
}

fn step(step: i32) -> RecordBatch {
    let angle = |pid: i32| pid as f32 * 0.7 + step as f32 * 0.01;
    let floats = |value: &dyn Fn(i32) -> f32| -> ArrayRef {
        Arc::new(Float32Array::from_iter_values((0..PARTICLES).map(value)))
    };
    let radius = |pid: i32| 0.1 + 0.39 * (pid % 37) as f32 / 37.0;
    let columns = vec![
        Arc::new(Int32Array::from_iter_values(0..PARTICLES)) as ArrayRef,
        floats(&|_| step as f32),
        floats(&|pid| 0.5 + radius(pid) * angle(pid).cos()),
        floats(&|pid| 0.5 + radius(pid) * angle(pid).sin()),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn fill(table: &Table, steps: std::ops::Range<i32>, commits: usize) {
    let mut writer = table.writer(&WriterOptions::default()).unwrap();
    let of_commit = steps.len() / commits;
    for (index, number) in steps.enumerate() {
        writer.append(&step(number)).unwrap();
        if (index + 1) % of_commit == 0 {
            writer.commit().unwrap();
        }
    }
}

fn table(steps: i32, commits: usize) -> Table {
    let table = Table::create(Arc::new(MemoryStore::new("particles")), schema(), &options()).unwrap();
    fill(&table, 0..steps, commits);
    table
}

fn of(pid: i32) -> Query {
    Query { filter: Some(format!("pid = {pid}")), ..Query::default() }
}

fn look_up(table: &Table, pid: i32) -> (Vec<i64>, Stats) {
    let mut stream = table.snapshot().unwrap().query(of(pid)).unwrap();
    let mut times = Vec::new();
    for batch in stream.by_ref() {
        let batch = batch.unwrap();
        assert!(batch["pid"].as_primitive::<Int32Type>().values().iter().all(|found| *found == pid));
        let of_batch = batch["time"].as_primitive::<arrow_array::types::Float32Type>();
        times.extend(of_batch.values().iter().map(|time| *time as i64));
    }
    times.sort_unstable();
    (times, stream.stats())
}

fn held(table: &Table, pid: i32) -> (u64, u64) {
    let snapshot = table.snapshot().unwrap();
    let (mut pages, mut rows) = (0, 0);
    for run in snapshot.pinned().directory().unwrap().runs() {
        let (batch, map) = read_run(snapshot.pinned(), run).unwrap();
        let zone_of_row = (0..map.zones()).flat_map(|zone| std::iter::repeat_n(zone, map.rows[zone] as usize));
        let pids = batch["pid"].as_primitive::<Int32Type>().values();
        let zones: BTreeSet<usize> =
            zone_of_row.zip(pids).filter(|(_, found)| **found == pid).map(|(zone, _)| zone).collect();
        rows += zones.iter().map(|zone| map.rows[*zone] as u64).sum::<u64>();
        pages += zones.iter().map(|zone| zone / ZONES_PER_PAGE).collect::<BTreeSet<_>>().len() as u64;
    }
    (pages, rows)
}

fn findings(table: &Table, deep: bool) -> Vec<String> {
    table.verify(&VerifyOptions { deep, ..VerifyOptions::default() }, &mut |_, _| {}).unwrap().findings
}

#[test]
fn a_particle_costs_the_pages_that_hold_it() {
    for (commits, optimized) in [(1, false), (20, false), (20, true)] {
        let table = table(200, commits);
        if optimized {
            let replication = Some("full".parse().unwrap());
            let options = OptimizeOptions { replication, ..OptimizeOptions::default() };
            assert!(table.optimize(&options, &mut |_, _| {}).unwrap().rows_copied > 0);
        }
        let info = table.snapshot().unwrap().info().unwrap();
        for pid in [0, 17, 399] {
            let (times, stats) = look_up(&table, pid);
            assert!(times.into_iter().eq(0..200), "particle {pid}");
            assert_eq!((stats.pages_read, stats.rows_read), held(&table, pid), "{commits} commits, particle {pid}");
            assert_eq!(stats.runs_looked_up, info.runs);
            assert!(stats.rows_read < info.about.rows / 20);
        }
        let share = info.disk.lookups as f64 / (info.about.rows + info.replica_rows) as f64;
        assert!(share < 2.7, "{share} bytes a row");
        assert_eq!(look_up(&table, PARTICLES).1.rows_read, 0);
        assert_eq!(findings(&table, true), Vec::<String>::new());
    }
}

fn rename(table: &Table, change: impl FnOnce(&mut Vec<Arc<Run<Location>>>)) {
    let inputs = table.snapshot().unwrap().pinned().directory().unwrap().runs().cloned().collect::<Vec<_>>();
    let mut runs = inputs.clone();
    runs.sort_by_key(|run| run.id);
    change(&mut runs);
    let replacement = Replacement { inputs, runs, ..Replacement::default() };
    assert!(publish(table.core(), replacement, &Default::default()).unwrap());
}

#[test]
fn runs_without_postings_are_scanned() {
    let table = table(30, 1);
    rename(&table, |runs| runs.iter_mut().for_each(|run| Arc::make_mut(run).payload.lookup = None));
    fill(&table, 30..60, 1);
    for again in 0..2 {
        let (times, stats) = look_up(&table, 17);
        assert!(times.into_iter().eq(0..60));
        let runs = table.snapshot().unwrap().pinned().directory().unwrap().runs().count() as u64;
        assert!(stats.runs_looked_up > 0 && stats.runs_looked_up < runs, "{stats:?}");
        assert_eq!(findings(&table, true), Vec::<String>::new(), "{again}");
        assert!(table.checkpoint().unwrap());
    }
}

#[test]
fn postings_that_lie_behind_right_checksums_are_found() {
    let table = table(60, 1);
    rename(&table, |runs| {
        assert!(runs.len() > 1);
        runs.rotate_left(1);
    });
    assert_eq!(findings(&table, false), Vec::<String>::new());
    let found = findings(&table, true);
    assert!(found.iter().any(|what| what.contains("names other zones of it")), "{found:?}");
}

#[test]
fn large_directories_are_read_in_part() {
    const ROWS: i64 = 2_500_000;
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("table").to_str().unwrap().to_string();
    let fields = [Field::new("id", DataType::Int64, false), Field::new("x", DataType::Float32, false)];
    let schema = Arc::new(Schema::new(fields.to_vec()));
    let dimension = Dimension { column: "x".into(), domain: Domain::Linear(Value::Int(0), Value::Int(1)) };
    let options = TableOptions {
        dimensions: vec![dimension],
        identity: vec!["id".into()],
        lookup: vec!["id".into()],
        ..Default::default()
    };
    let table = Table::create(&at, schema.clone(), &options).unwrap();
    let mut rng = SmallRng::seed_from_u64(5);
    let x: ArrayRef = Arc::new(Float32Array::from_iter_values((0..ROWS).map(|_| rng.random::<f32>())));
    let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from_iter_values(0..ROWS)), x];
    let mut writer = table.writer(&WriterOptions::default()).unwrap();
    writer.append(&RecordBatch::try_new(schema, columns).unwrap()).unwrap();
    writer.commit().unwrap();
    let ask = |at: &str, filter: &str| {
        let snapshot = Table::open(at).unwrap().snapshot().unwrap();
        let mut stream = snapshot.query(&Query { filter: Some(filter.into()), ..Query::default() }).unwrap();
        let batches: Vec<RecordBatch> = stream.by_ref().map(Result::unwrap).collect();
        let mut ids: Vec<i64> =
            batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect();
        ids.sort_unstable();
        (ids, stream.stats())
    };
    let lookup = {
        let snapshot = table.snapshot().unwrap();
        let directory = snapshot.pinned().directory().unwrap();
        directory.runs().next().unwrap().payload.lookup.clone().unwrap()
    };
    let postings = lookup.columns[0].clone();
    assert!(postings.index_length > 0 && postings.index_length < postings.directory_length / 100, "{postings:?}");
    for _ in 0..2 {
        let (ids, stats) = ask(&at, "id = 1234567");
        assert_eq!(ids, [1_234_567]);
        assert!(stats.bytes_read < postings.directory_length as u64 / 2, "{stats:?} of {postings:?}");
        let (ids, _) = ask(&at, "id IN (5, 77, 2499999, 2500000, 1000000, -4)");
        assert_eq!(ids, [5, 77, 1_000_000, 2_499_999]);
        table.checkpoint().unwrap();
    }
    assert_eq!(findings(&table, true), Vec::<String>::new());
    let file = format!("{at}/segments/{}.seg", lookup.segment);
    let sound = std::fs::read(&file).unwrap();
    let directory = postings.offset + postings.blocks_length;
    let end = directory + postings.directory_length as u64 + postings.index_length as u64;
    for round in 0..24 {
        let byte = match round % 2 {
            0 => rng.random_range(directory + postings.directory_length as u64..end),
            _ => rng.random_range(directory..end),
        };
        let mut damaged = sound.clone();
        damaged[byte as usize] ^= 1 << rng.random_range(0..8);
        std::fs::write(&file, &damaged).unwrap();
        for id in [0, 1_777_777] {
            assert_eq!(ask(&at, &format!("id = {id}")).0, [id], "byte {byte}");
        }
        let found = findings(&Table::open(&at).unwrap(), false);
        assert!(found.len() == 1 && found[0].contains(&file), "byte {byte}: {found:?}");
    }
}

#[test]
fn damaged_postings_cost_speed_and_not_answers() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("table").to_str().unwrap().to_string();
    let lookup = {
        let table = Table::create(&at, schema(), &options()).unwrap();
        fill(&table, 0..60, 2);
        let snapshot = table.snapshot().unwrap();
        let directory = snapshot.pinned().directory().unwrap();
        let lookups: Vec<&Arc<Lookup>> =
            kubist_format::lookups::covering(directory.runs().map(|run| run.as_ref())).into_values().collect();
        assert_eq!(lookups.len(), 2);
        lookups[0].clone()
    };
    let file = format!("{at}/segments/{}.seg", lookup.segment);
    let sound = std::fs::read(&file).unwrap();
    let postings = &lookup.columns[0];
    let mut rng = SmallRng::seed_from_u64(1);
    for round in 0..60 {
        let byte = match round % 2 {
            0 => postings.offset + rng.random_range(0..postings.blocks_length),
            _ => postings.offset + postings.blocks_length + rng.random_range(0..postings.directory_length as u64),
        };
        let mut damaged = sound.clone();
        damaged[byte as usize] ^= 1 << rng.random_range(0..8);
        std::fs::write(&file, &damaged).unwrap();
        let table = Table::open(&at).unwrap();
        for pid in [1, 17, 211] {
            let (times, stats) = look_up(&table, pid);
            assert!(times.into_iter().eq(0..60), "byte {byte}");
            assert!(stats.runs_looked_up > 0, "the other commit's postings are sound");
        }
        for deep in [false, true] {
            let found = findings(&table, deep);
            assert!(found.len() == 1 && found[0].contains(&file), "byte {byte}: {found:?}");
        }
    }
    std::fs::write(&file, &sound).unwrap();
    assert_eq!(findings(&Table::open(&at).unwrap(), true), Vec::<String>::new());
}
