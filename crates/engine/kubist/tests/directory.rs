//! Paged manifests give the same results and read only a small part of the manifest.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Float32Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kubist::{
    Bound, Dimension, Domain, Error, EstimateOptions, OptimizeOptions, Query, Snapshot, Stats, Table, TableOptions,
    Value, VerifyOptions, WriterOptions,
};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const ROWS: i64 = 6_000;
const COMMITS: i64 = 5;

fn schema() -> SchemaRef {
    let floats = ["x", "y"].map(|name| Field::new(name, DataType::Float32, false));
    Arc::new(Schema::new([vec![Field::new("id", DataType::Int64, false)], floats.to_vec()].concat()))
}

fn rows(first: i64, count: i64) -> RecordBatch {
    let mut rng = SmallRng::seed_from_u64(first as u64);
    let mut column = || Arc::new(Float32Array::from_iter_values((0..count).map(|_| rng.random::<f32>()))) as ArrayRef;
    let columns = vec![Arc::new(Int64Array::from_iter_values(first..first + count)) as ArrayRef, column(), column()];
    RecordBatch::try_new(schema(), columns).unwrap()
}

const HELD: [u64; 2] = [1 << 18, 0];

fn options() -> TableOptions {
    let dimension =
        |name: &str| Dimension { column: name.into(), domain: Domain::Linear(Value::Int(0), Value::Int(1)) };
    TableOptions {
        dimensions: vec![dimension("x"), dimension("y")],
        identity: vec!["id".into()],
        capacity: Some(16),
        ..Default::default()
    }
}

fn build(at: &str, held: u64) -> Table {
    let options = TableOptions { replication: "outlook(-1)".parse().unwrap(), ..options() };
    let table = Table::create(at, schema(), &options).unwrap();
    table.limit_runs_in_memory(held);
    let mut writer = table.writer(&WriterOptions::default()).unwrap();
    for commit in 0..COMMITS {
        writer.append(&rows(commit * ROWS, ROWS)).unwrap();
        writer.commit().unwrap();
        if commit + 2 == COMMITS {
            table.optimize(&OptimizeOptions::default(), &mut |_, _| {}).unwrap();
            assert!(table.checkpoint().unwrap());
        }
    }
    table
}

fn ask(snapshot: &Snapshot, query: &Query) -> (Vec<i64>, Stats) {
    let mut stream = snapshot.query(query).unwrap();
    let mut ids: Vec<i64> = Vec::new();
    for batch in stream.by_ref() {
        ids.extend_from_slice(batch.unwrap().column(0).as_primitive::<Int64Type>().values());
    }
    ids.sort_unstable();
    (ids, stream.stats())
}

fn around(rng: &mut SmallRng, half: f64) -> Vec<Bound> {
    let mut bound = |name: &str| {
        let middle: f64 = rng.random();
        let end = |end: f64| Some(Value::Float(end));
        Bound { column: name.into(), low: end(middle - half), high: end(middle + half) }
    };
    vec![bound("x"), bound("y")]
}

fn questions(rng: &mut SmallRng) -> Query {
    let half = [0.01, 0.1, 0.6][rng.random_range(0..3)];
    let bounds = if rng.random_bool(0.8) { around(rng, half) } else { vec![] };
    let sample = [None, Some(0.001), Some(0.1), Some(0.7)][rng.random_range(0..4)];
    let window = rng.random_bool(0.2).then(|| {
        let low = rng.random_range(0.0..0.9);
        (low, low + 0.1)
    });
    let limit = rng.random_bool(0.2).then(|| rng.random_range(1..200));
    Query { bounds, sample, window, limit, ..Query::default() }
}

fn segments(at: &str) -> Vec<std::path::PathBuf> {
    let files = std::fs::read_dir(format!("{at}/segments")).unwrap().map(|file| file.unwrap().path());
    files.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("pages-")).collect()
}

#[test]
fn pages_of_runs_answer_as_all_runs_do() {
    let mut rng = SmallRng::seed_from_u64(2);
    for written in HELD {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("t").display().to_string();
        let table = build(&at, written);
        let whole = table.snapshot().unwrap();
        let info = whole.info().unwrap();
        assert!(info.runs > 1_500 && info.replica_rows > 0 && !segments(&at).is_empty(), "{info:?}");
        for held in HELD {
            let paged = Table::open(&at).unwrap();
            paged.limit_runs_in_memory(held);
            let paged = paged.snapshot().unwrap();
            assert_eq!(paged.rows().unwrap(), whole.rows().unwrap());
            for _ in 0..60 {
                let query = questions(&mut rng);
                assert_eq!(ask(&paged, &query).0, ask(&whole, &query).0, "{query:?}");
                let exact = Query { limit: None, ..query };
                assert_eq!(paged.count(&exact).unwrap(), whole.count(&exact).unwrap(), "{exact:?}");
            }
        }
    }
}

#[test]
fn samples_of_large_boxes_do_not_read_the_whole_list() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("t").display().to_string();
    let table = Table::create(&at, schema(), &TableOptions { capacity: Some(64), ..options() }).unwrap();
    let mut writer = table.writer(&WriterOptions::default()).unwrap();
    let mut hits = 0;
    writer.append(&rows(0, 2_000_000)).unwrap();
    writer.commit().unwrap();
    table.checkpoint().unwrap();
    let pages: u64 = segments(&at).iter().map(|path| path.metadata().unwrap().len()).sum();
    let mut rng = SmallRng::seed_from_u64(8);
    for _ in 0..20 {
        let half = rng.random_range(0.3..0.5);
        let bound = |name: &str| {
            let end = |end: f64| Some(Value::Float(end));
            Bound { column: name.into(), low: end(0.5 - half), high: end(0.5 + half) }
        };
        let query = Query { bounds: vec![bound("x"), bound("y")], ..Query::default() };
        let truth = table.snapshot().unwrap().count(&query).unwrap() as f64;
        let limited = Query { limit: Some(1000), ..query.clone() };
        let paged = Table::open(&at).unwrap();
        paged.limit_runs_in_memory(0);
        let (ids, stats) = ask(&paged.snapshot().unwrap(), &limited);
        assert_eq!(ids, ask(&table.snapshot().unwrap(), &limited).0);
        assert!(stats.bytes_read < pages / 8 && stats.rows_read < 10_000, "{stats:?} of {pages}");
        let options = EstimateOptions { aggregates: vec!["count()".into()], query, ..EstimateOptions::default() };
        let options = EstimateOptions { error: Some(0.05), ..options };
        let paged = Table::open(&at).unwrap();
        paged.limit_runs_in_memory(0);
        let found = paged.snapshot().unwrap().estimate(&options, &mut |_| {}).unwrap();
        assert!(found.stats.bytes_read < pages / 8, "{:?} of {pages}", found.stats);
        let figure = &found.figures[0];
        hits += (figure.low..=figure.high).contains(&truth) as usize;
        let held = table.snapshot().unwrap().estimate(&options, &mut |_| {}).unwrap();
        assert_eq!((held.figures[0].value, held.figures[0].exact), (Some(truth), true));
    }
    assert!(hits >= 16, "intervals hold {hits} of 20 times");
    let runs = table.snapshot().unwrap().info().unwrap().runs;
    assert!(runs > 60_000, "{runs} runs are few");
    for _ in 0..40 {
        let half = [0.002, 0.02, 0.2, 0.5][rng.random_range(0..4)];
        let bounds = around(&mut rng, half);
        let window = rng.random_bool(0.3).then(|| (rng.random_range(0.0..0.3), 0.4));
        let sample = rng.random_bool(0.3).then_some(0.02).filter(|_| window.is_none());
        let limit = Some([1, 100, 3000, 100_000][rng.random_range(0..4)]);
        let query = Query { bounds, window, sample, limit, ..Query::default() };
        let paged = Table::open(&at).unwrap();
        paged.limit_runs_in_memory(0);
        let paged = paged.snapshot().unwrap();
        assert_eq!(ask(&paged, &query).0, ask(&table.snapshot().unwrap(), &query).0, "{query:?}");
    }
}

#[test]
fn a_small_question_reads_few_pages() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("t").display().to_string();
    build(&at, HELD[0]);
    let pages: u64 = segments(&at).iter().map(|path| path.metadata().unwrap().len()).sum();
    let mut rng = SmallRng::seed_from_u64(5);
    let snapshot = || Table::open(&at).unwrap().snapshot().unwrap();
    for _ in 0..5 {
        let query = Query { bounds: around(&mut rng, 0.01), ..Query::default() };
        let (_, first) = ask(&snapshot(), &query);
        assert!(first.bytes_read < pages / 4, "{first:?} of {pages}");
        assert!(first.round_trips <= 4, "{first:?}");
    }
    // A sample reads no manifest pages of replicas in deeper cubes.
    let in_tiers = folder.path().join("tiers").display().to_string();
    build(&in_tiers, 0);
    let paged = Table::open(&in_tiers).unwrap();
    paged.limit_runs_in_memory(0);
    let (ids, sample) = ask(&paged.snapshot().unwrap(), &Query { sample: Some(0.0001), ..Query::default() });
    assert!(!ids.is_empty() && sample.bytes_read < pages / 4, "{sample:?} of {pages}");
    let (snapshot, query) = (snapshot(), Query { sample: Some(0.001), ..Query::default() });
    let (_, first) = ask(&snapshot, &query);
    let (_, again) = ask(&snapshot, &query);
    assert!(again.bytes_read < first.bytes_read, "{again:?} after {first:?}");
    assert!(again.round_trips <= first.round_trips, "{again:?} after {first:?}");
}

#[test]
fn a_table_in_pages_is_written_and_rewritten() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("t").display().to_string();
    build(&at, HELD[0]);
    let table = Table::open(&at).unwrap();
    table.limit_runs_in_memory(100);
    let mut writer = table.writer(&WriterOptions { name: Some("late".into()), ..Default::default() }).unwrap();
    let mut truth = COMMITS * ROWS;
    let mut rng = SmallRng::seed_from_u64(4);
    for round in 0..6 {
        writer.append(&rows(truth, ROWS)).unwrap();
        writer.commit().unwrap();
        truth += ROWS;
        match round % 3 {
            0 => drop(table.optimize(&OptimizeOptions::default(), &mut |_, _| {}).unwrap()),
            1 => assert!(table.checkpoint().unwrap()),
            _ => drop(table.clean(Duration::ZERO).unwrap()),
        }
        let (ids, _) = ask(&table.snapshot().unwrap(), &Query::default());
        assert_eq!(ids, (0..truth).collect::<Vec<_>>());
        let fresh = Table::open(&at).unwrap().snapshot().unwrap();
        for _ in 0..20 {
            let query = questions(&mut rng);
            assert_eq!(ask(&table.snapshot().unwrap(), &query).0, ask(&fresh, &query).0, "{query:?}");
        }
    }
    let report = table.verify(&VerifyOptions { deep: true, ..Default::default() }, &mut |_, _| {}).unwrap();
    assert_eq!(report.findings, Vec::<String>::new());
    assert_eq!(report.rows, truth as u64);
}

#[test]
fn pages_outlive_the_handles_that_need_them() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("t").display().to_string();
    let writes = build(&at, HELD[0]);
    let reads = Table::open(&at).unwrap();
    reads.limit_runs_in_memory(0);
    let pinned = reads.snapshot().unwrap();
    let mut writer = writes.writer(&WriterOptions { name: Some("late".into()), ..Default::default() }).unwrap();
    for round in 0..4 {
        writer.append(&rows((COMMITS + round) * ROWS, ROWS)).unwrap();
        writer.commit().unwrap();
        assert!(writes.checkpoint().unwrap());
        writes.clean(Duration::ZERO).unwrap();
    }
    assert_eq!(segments(&at).len(), 2);
    assert_eq!(ask(&reads.snapshot().unwrap(), &Query::default()).0.len() as i64, (COMMITS + 4) * ROWS);
    match pinned.query(Query::default()).map(|stream| stream.collect::<Result<Vec<_>, _>>()) {
        Err(Error::SnapshotExpired { .. }) | Ok(Err(Error::SnapshotExpired { .. })) => {}
        other => panic!("{:?}", other.map(|batches| batches.map(|batches| batches.len()))),
    }
}

#[test]
fn a_damaged_page_is_named_and_costs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("t").display().to_string();
    drop(build(&at, HELD[0]));
    let file = segments(&at).remove(0);
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(&file, bytes).unwrap();
    let snapshot = Table::open(&at).unwrap().snapshot().unwrap();
    let error = snapshot.query(Query::default()).map(|stream| stream.collect::<Result<Vec<_>, _>>());
    let error = error.and_then(|batches| batches).unwrap_err().to_string();
    assert!(error.contains("segments/pages-") && error.contains("checksum"), "{error}");
    let report = Table::verify_at(&at, &VerifyOptions::default(), &mut |_, _| {}).unwrap();
    assert!(report.findings.iter().any(|finding| finding.contains("segments/pages-")), "{report:?}");
    let to = folder.path().join("saved").display().to_string();
    let report = Table::salvage(&at, &to, &Default::default(), &mut |_, _| {}).unwrap();
    assert_eq!((report.rows, report.rows_lost), ((COMMITS * ROWS) as u64, 0));
}
