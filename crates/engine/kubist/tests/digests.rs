//! Extremes, nulls and indexed values of long manifests, with intact, damaged and missing digests.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kubist::{
    Dimension, Domain, Estimate, EstimateOptions, OptimizeOptions, Query, Snapshot, Stats, Table, TableOptions, Value,
    VerifyOptions, WriterOptions,
};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const ROWS: i64 = 60_000;
const COMMITS: i64 = 4;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("x", DataType::Float64, true),
        Field::new("y", DataType::Float64, false),
        Field::new("a", DataType::Float64, true),
        Field::new("n", DataType::Int64, false),
        Field::new("s", DataType::Int64, false),
    ]))
}

/// `a` falls with `x`, so runs bound it well; some values are null, and `s` differs in few rows.
fn rows(first: i64) -> RecordBatch {
    let mut rng = SmallRng::seed_from_u64(first as u64);
    let x: Vec<f64> = (0..ROWS).map(|_| rng.random()).collect();
    let mut some = |value: &f64| (!rng.random_bool(0.001)).then_some(*value);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(first..first + ROWS)),
        Arc::new(Float64Array::from_iter(x.iter().map(&mut some))),
        Arc::new(Float64Array::from_iter_values(x.iter().map(|x| x * x))),
        Arc::new(Float64Array::from_iter(x.iter().map(|x| -x).map(|value| some(&value)))),
        Arc::new(Int64Array::from_iter_values((0..ROWS).map(|row| (first + row) * 7919 % 1_000_003))),
        Arc::new(Int64Array::from_iter_values((0..ROWS).map(|row| i64::from(row % 25_000 != 7)))),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

const HELD: [u64; 2] = [1 << 18, 0];

/// If `held` is 0, the table has several page levels and a commit after its checkpoint.
fn build(at: &str, held: u64) -> Vec<RecordBatch> {
    let dimension =
        |name: &str| Dimension { column: name.into(), domain: Domain::Linear(Value::Int(0), Value::Int(1)) };
    let options = TableOptions {
        dimensions: vec![dimension("x"), dimension("y")],
        identity: vec!["id".into()],
        lookup: vec!["n".into(), "id".into()],
        capacity: Some(64),
        replication: "outlook(-1)".parse().unwrap(),
        ..Default::default()
    };
    let table = Table::create(at, schema(), &options).unwrap();
    table.limit_runs_in_memory(held);
    let mut writer = table.writer(&WriterOptions::default()).unwrap();
    let all: Vec<RecordBatch> = (0..COMMITS).map(|commit| rows(commit * ROWS)).collect();
    for (commit, batch) in all.iter().enumerate() {
        writer.append(batch).unwrap();
        writer.commit().unwrap();
        if commit + 1 < all.len() {
            assert!(table.checkpoint().unwrap());
        }
    }
    all
}

fn opened(at: &str, held: u64) -> Snapshot {
    let table = Table::open(at).unwrap();
    table.limit_runs_in_memory(held);
    table.snapshot().unwrap()
}

fn segments(at: &str) -> Vec<PathBuf> {
    let files = std::fs::read_dir(format!("{at}/segments")).unwrap().map(|file| file.unwrap().path());
    let is_of_pages = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("pages-");
    let mut files: Vec<PathBuf> = files.filter(is_of_pages).collect();
    files.sort_unstable();
    files
}

fn digest_of(file: &Path) -> Option<usize> {
    std::fs::read(file).unwrap().windows(4).rposition(|bytes| bytes == b"KDG1")
}

const EXTREMES: [&str; 8] = ["min(x)", "max(y)", "min(a)", "max(a)", "min(n)", "max(id)", "min(s)", "count(y)"];

fn estimate(snapshot: &Snapshot, filter: Option<&str>) -> Estimate {
    let query = Query { filter: filter.map(Into::into), ..Query::default() };
    let aggregates = EXTREMES.map(String::from).to_vec();
    snapshot.estimate(&EstimateOptions { aggregates, query, ..EstimateOptions::default() }, &mut |_| {}).unwrap()
}

fn expected(all: &[RecordBatch], inside: impl Fn(Option<f64>, i64) -> bool) -> Vec<f64> {
    let floats = |batch: &RecordBatch, column: usize| -> Vec<Option<f64>> {
        batch.column(column).as_primitive::<arrow_array::types::Float64Type>().iter().collect()
    };
    let (mut kept, mut count) = (vec![Vec::new(); 6], 0);
    for batch in all {
        let [x, y, a] = [1, 2, 3].map(|column| floats(batch, column));
        let [id, n, s] = [0, 4, 5].map(|column| batch.column(column).as_primitive::<Int64Type>().values());
        for row in (0..batch.num_rows()).filter(|row| inside(a[*row], n[*row])) {
            kept[0].extend(x[row]);
            kept[1].extend(y[row]);
            kept[2].extend(a[row]);
            kept[3].push(n[row] as f64);
            kept[4].push(id[row] as f64);
            kept[5].push(s[row] as f64);
            count += 1;
        }
    }
    let least = |column: usize| kept[column].iter().copied().fold(f64::INFINITY, f64::min);
    let most = |column: usize| kept[column].iter().copied().fold(f64::NEG_INFINITY, f64::max);
    vec![least(0), most(1), least(2), most(2), least(3), most(4), least(5), f64::from(count)]
}

fn found(estimate: &Estimate) -> Vec<f64> {
    assert!(estimate.figures.iter().all(|figure| figure.exact), "{:?}", estimate.figures);
    estimate.figures.iter().map(|figure| figure.value.unwrap_or(f64::NAN)).collect()
}

fn of_value(snapshot: &Snapshot, filter: &str) -> (Vec<i64>, Stats) {
    let mut stream = snapshot.query(&Query { filter: Some(filter.into()), ..Query::default() }).unwrap();
    let mut ids: Vec<i64> = Vec::new();
    for batch in stream.by_ref() {
        ids.extend_from_slice(batch.unwrap().column(0).as_primitive::<Int64Type>().values());
    }
    ids.sort_unstable();
    (ids, stream.stats())
}

fn check(at: &str, held: u64, all: &[RecordBatch], rng: &mut SmallRng) {
    assert_eq!(found(&estimate(&opened(at, held), None)), expected(all, |_, _| true));
    let some = |a: Option<f64>, n| n < 300_000 && a.is_some_and(|a| a > -0.3);
    assert_eq!(found(&estimate(&opened(at, held), Some("a > -0.3 AND n < 300000"))), expected(all, some));
    let snapshot = opened(at, held);
    for _ in 0..4 {
        let id = rng.random_range(0..COMMITS * ROWS);
        assert_eq!(of_value(&snapshot, &format!("id = {id}")).0, vec![id]);
        let n = id * 7919 % 1_000_003;
        let same: Vec<i64> = (0..COMMITS * ROWS).filter(|id| id * 7919 % 1_000_003 == n).collect();
        assert_eq!(of_value(&snapshot, &format!("n = {n}")).0, same);
    }
    assert_eq!(of_value(&snapshot, "id = -1").0, Vec::<i64>::new());
}

#[test]
fn digests_save_reading() {
    let mut rng = SmallRng::seed_from_u64(1);
    for written in HELD {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("t").display().to_string();
        let all = build(&at, written);
        assert!(segments(&at).iter().all(|file| digest_of(file).is_some()));
        let list: u64 = segments(&at).iter().map(|file| file.metadata().unwrap().len()).sum();
        for held in HELD {
            check(&at, held, &all, &mut rng);
            let (ids, stats) = of_value(&opened(&at, held), "id = 77777");
            assert_eq!(ids, [77_777]);
            assert!(stats.bytes_read < list / 4, "{stats:?} of {list}");
            let stats = estimate(&opened(&at, held), None).stats;
            assert!(stats.bytes_read < list / 2 && stats.rows_read < 20_000, "{stats:?} of {list}");
        }
        let snapshot = opened(&at, HELD[0]);
        let read: Vec<u64> = (0..2_000)
            .map(|id| {
                let (ids, stats) = of_value(&snapshot, &format!("id = {id}"));
                assert_eq!(ids, [id]);
                stats.bytes_read
            })
            .collect();
        assert!(2 * read[1_999] < read[1], "{} and {}", read[1], read[1_999]);
        let table = Table::open(&at).unwrap();
        table.limit_runs_in_memory(written);
        let lists = segments(&at);
        let round = OptimizeOptions { one_round: true, ..OptimizeOptions::default() };
        let report = table.optimize(&round, &mut |_, _| {}).unwrap();
        assert!(report.rewrites > 0 && segments(&at) == lists, "{report:?}");
        HELD.iter().for_each(|held| check(&at, *held, &all, &mut rng));
        table.optimize(&OptimizeOptions::default(), &mut |_, _| {}).unwrap();
        HELD.iter().for_each(|held| check(&at, *held, &all, &mut rng));
        let report = Table::verify_at(&at, &VerifyOptions::default(), &mut |_, _| {}).unwrap();
        assert!(report.findings.is_empty(), "{report:?}");
    }
}

#[test]
fn a_damaged_digest_is_named_and_costs_speed() {
    let mut rng = SmallRng::seed_from_u64(2);
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("t").display().to_string();
    let all = build(&at, HELD[1]);
    for turn in 0..40 {
        let file = &segments(&at).pop().unwrap();
        let sound = std::fs::read(file).unwrap();
        let begin = digest_of(file).unwrap();
        let at_byte = if turn < 8 { begin + 2 * turn } else { rng.random_range(begin..sound.len()) };
        let mut bytes = sound.clone();
        bytes[at_byte] ^= 1 << rng.random_range(0..8);
        std::fs::write(file, bytes).unwrap();
        check(&at, HELD[turn % 2], &all, &mut rng);
        if at_byte >= begin + 4 {
            let report = Table::verify_at(&at, &VerifyOptions::default(), &mut |_, _| {}).unwrap();
            assert!(report.findings.iter().any(|finding| finding.contains("segments/pages-")), "{at_byte}: {report:?}");
        }
        std::fs::write(file, sound).unwrap();
    }
    let report = Table::verify_at(&at, &VerifyOptions::default(), &mut |_, _| {}).unwrap();
    assert!(report.findings.is_empty(), "{report:?}");
    let table = Table::open(&at).unwrap();
    table.limit_runs_in_memory(0);
    table.optimize(&OptimizeOptions::default(), &mut |_, _| {}).unwrap();
    for part in [20, 9_000, usize::MAX] {
        let file = segments(&at).pop().unwrap();
        let mut bytes = std::fs::read(&file).unwrap();
        let at_byte = (digest_of(&file).unwrap().saturating_add(part)).min(bytes.len() - 1);
        bytes[at_byte] ^= 16;
        std::fs::write(&file, bytes).unwrap();
        table.optimize(&OptimizeOptions::default(), &mut |_, _| {}).unwrap();
        assert!(segments(&at).pop().unwrap() > file, "{part}");
        check(&at, HELD[1], &all, &mut rng);
    }
    let lists = segments(&at);
    table.optimize(&OptimizeOptions::default(), &mut |_, _| {}).unwrap();
    assert_eq!(segments(&at), lists);
}

/// Digests of unchanged levels still name postings that were deleted.
#[test]
fn lookups_that_were_replaced_are_not_asked() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("t").display().to_string();
    drop(build(&at, HELD[1]));
    let table = Table::open(&at).unwrap();
    table.limit_runs_in_memory(0);
    let mut writer = table.writer(&WriterOptions::default()).unwrap();
    table.optimize(&OptimizeOptions::default(), &mut |_, _| {}).unwrap();
    for few in 0..12 {
        writer.append(&rows(COMMITS * ROWS).slice(few * 12, 12)).unwrap();
        writer.commit().unwrap();
    }
    assert!(Table::open(&at).unwrap().checkpoint().unwrap());
    let lists = segments(&at);
    let merging = OptimizeOptions { few_lookups: 1, debt_share: 100.0, ..OptimizeOptions::default() };
    assert_eq!(table.optimize(&merging, &mut |_, _| {}).unwrap().lookups_merged, 12);
    table.clean(std::time::Duration::ZERO).unwrap();
    assert!(segments(&at).iter().any(|file| lists.contains(file)), "no level stayed");
    let snapshot = opened(&at, HELD[1]);
    assert!(snapshot.pinned().view.runs.removed().count() >= 12);
    let primaries = opened(&at, HELD[0]).pinned().directory().unwrap().runs().count() as u64;
    for id in [5, 100_000, COMMITS * ROWS + 7, COMMITS * ROWS + 143] {
        let (ids, stats) = of_value(&snapshot, &format!("id = {id}"));
        assert_eq!(ids, [id]);
        assert_eq!((stats.pages_read, stats.runs_looked_up), (1, primaries), "{stats:?}");
    }
}

#[test]
fn lists_whose_digests_are_cut_off_answer_as_well_and_get_new_ones() {
    let mut rng = SmallRng::seed_from_u64(3);
    for written in HELD {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("t").display().to_string();
        let mut all = build(&at, written);
        for file in segments(&at) {
            let bytes = std::fs::read(&file).unwrap();
            std::fs::write(&file, &bytes[..digest_of(&file).unwrap()]).unwrap();
        }
        HELD.iter().for_each(|held| check(&at, *held, &all, &mut rng));
        let report = Table::verify_at(&at, &VerifyOptions::default(), &mut |_, _| {}).unwrap();
        assert!(report.findings.iter().any(|what| what.contains("have no digest")), "{report:?}");
        let table = Table::open(&at).unwrap();
        table.limit_runs_in_memory(written);
        table.optimize(&OptimizeOptions::default(), &mut |_, _| {}).unwrap();
        assert!(digest_of(&segments(&at).pop().unwrap()).is_some());
        all.push(rows(COMMITS * ROWS));
        let mut writer = table.writer(&WriterOptions::default()).unwrap();
        writer.append(&all[all.len() - 1]).unwrap();
        writer.commit().unwrap();
        assert!(table.checkpoint().unwrap());
        table.clean(std::time::Duration::ZERO).unwrap();
        assert!(segments(&at).iter().all(|file| digest_of(file).is_some()));
        HELD.iter().for_each(|held| check(&at, *held, &all, &mut rng));
        let mut names = Vec::new();
        for _ in 0..2 {
            names = segments(&at);
            table.optimize(&OptimizeOptions::default(), &mut |_, _| {}).unwrap();
        }
        assert!(table.checkpoint().unwrap());
        assert_eq!(segments(&at), names);
    }
}
