//! Manifests with more pages than one read fetches, compared with the records and with the manifest in
//! memory.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, Float32Array, Float64Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kubist::{
    Bound, Dimension, Domain, Estimate, EstimateOptions, NewColumn, OptimizeOptions, PerCell, Query, Snapshot, Table,
    TableOptions, Value, WriterOptions,
};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const ROWS: i64 = 700_000;
const LATER: i64 = 20_000;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("x", DataType::Float32, false),
        Field::new("y", DataType::Float32, true),
        Field::new("a", DataType::Float64, true),
        Field::new("n", DataType::Int64, false),
        Field::new("c", DataType::Float64, false),
    ]))
}

/// A fifth of the records are on a plane, some have null positions, and the extremes of `a` are among
/// nulls.
fn rows(first: i64, count: i64) -> RecordBatch {
    let mut rng = SmallRng::seed_from_u64(first as u64);
    let x = |rng: &mut SmallRng| if rng.random_bool(0.2) { [0.0, -0.0][rng.random_range(0..2)] } else { rng.random() };
    let y = |rng: &mut SmallRng| match rng.random_range(0..2000) {
        0 => None,
        1 => Some(f32::NAN),
        _ => Some(rng.random_range(-0.1..1.1f32)),
    };
    let a = |rng: &mut SmallRng| match rng.random_range(0..100) {
        0 => None,
        1 => Some(f64::NAN),
        _ => Some(rng.random::<f64>().ln()),
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(first..first + count)),
        Arc::new(Float32Array::from_iter_values((0..count).map(|_| x(&mut rng)))),
        Arc::new(Float32Array::from_iter((0..count).map(|_| y(&mut rng)))),
        Arc::new(Float64Array::from_iter((0..count).map(|_| a(&mut rng)))),
        Arc::new(Int64Array::from_iter_values((0..count).map(|_| rng.random_range(-1_000_000..1_000_000)))),
        Arc::new(Float64Array::from_iter_values((0..count).map(|_| 2.5))),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn build(at: &str) -> (Table, Vec<RecordBatch>) {
    let dimension =
        |name: &str| Dimension { column: name.into(), domain: Domain::Linear(Value::Int(0), Value::Int(1)) };
    let options = TableOptions {
        dimensions: vec![dimension("x"), dimension("y")],
        identity: vec!["id".into()],
        lookup: vec!["n".into()],
        capacity: Some(32),
        replication: "outlook(-1)".parse().unwrap(),
        ..Default::default()
    };
    let table = Table::create(at, schema(), &options).unwrap();
    let mut writer = table.writer(&WriterOptions::default()).unwrap();
    let all = vec![rows(0, ROWS), rows(ROWS, LATER), rows(ROWS + LATER, LATER)];
    writer.append(&all[0]).unwrap();
    writer.commit().unwrap();
    assert!(table.checkpoint().unwrap());
    for later in &all[1..] {
        writer.append(later).unwrap();
        writer.commit().unwrap();
    }
    table.optimize(&OptimizeOptions { one_round: true, ..OptimizeOptions::default() }, &mut |_, _| {}).unwrap();
    (table, all)
}

fn paged(at: &str) -> Snapshot {
    let table = Table::open(at).unwrap();
    table.limit_runs_in_memory(0);
    table.snapshot().unwrap()
}

fn ids(snapshot: &Snapshot, query: &Query) -> Vec<i64> {
    let mut ids: Vec<i64> = Vec::new();
    for batch in snapshot.query(query).unwrap() {
        ids.extend_from_slice(batch.unwrap().column(0).as_primitive::<Int64Type>().values());
    }
    ids
}

fn sorted(mut ids: Vec<i64>) -> Vec<i64> {
    ids.sort_unstable();
    ids
}

fn bound(name: &str, low: f64, high: f64) -> Bound {
    Bound { column: name.into(), low: Some(Value::Float(low)), high: Some(Value::Float(high)) }
}

type Row = ([Option<f64>; 3], i64);

fn records(all: &[RecordBatch]) -> impl Iterator<Item = (i64, Row)> + '_ {
    all.iter().flat_map(|batch| {
        let float = |column: usize, row: usize| {
            let array = batch.column(column).as_primitive::<Float32Type>();
            array.is_valid(row).then(|| f64::from(array.value(row)))
        };
        let double = |row: usize| {
            let array = batch.column(3).as_primitive::<Float64Type>();
            array.is_valid(row).then(|| array.value(row))
        };
        let whole = |column: usize, row: usize| batch.column(column).as_primitive::<Int64Type>().value(row);
        (0..batch.num_rows())
            .map(move |row| (whole(0, row), ([float(1, row), float(2, row), double(row)], whole(4, row))))
    })
}

fn ends<'a>(rows: impl Iterator<Item = &'a Row> + Clone) -> [Option<(f64, f64)>; 4] {
    let of = |value: &dyn Fn(&Row) -> Option<f64>| {
        let values = rows.clone().filter_map(value).filter(|value| !value.is_nan());
        values.fold(None, |ends: Option<(f64, f64)>, value| {
            Some(ends.map_or((value, value), |(low, high)| (low.min(value), high.max(value))))
        })
    };
    [of(&|row| row.0[0]), of(&|row| row.0[1]), of(&|row| row.0[2]), of(&|row| Some(row.1 as f64))]
}

fn estimate(snapshot: &Snapshot, aggregates: &[&str], query: &Query) -> Estimate {
    let aggregates = aggregates.iter().map(|text| (*text).to_owned()).collect();
    let options = EstimateOptions { aggregates, query: query.clone(), error: Some(0.1), ..EstimateOptions::default() };
    snapshot.estimate(&options, &mut |_| {}).unwrap()
}

const EXTREMES: [&str; 8] = ["min(x)", "max(x)", "min(y)", "max(y)", "min(a)", "max(a)", "min(n)", "max(n)"];

#[test]
fn long_lists_answer_as_those_in_memory_do() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("t").display().to_string();
    let (table, all) = build(&at);
    let held = table.snapshot().unwrap();
    let runs = held.info().unwrap().runs;
    assert!(runs > 25_000, "{runs} runs are few");
    let rows: Vec<(i64, Row)> = records(&all).collect();
    let segments = std::fs::read_dir(format!("{at}/segments")).unwrap().map(|entry| entry.unwrap());
    let of_pages = segments.filter(|entry| entry.file_name().to_str().unwrap().starts_with("pages-"));
    let list: u64 = of_pages.map(|entry| entry.metadata().unwrap().len()).sum();

    assert!(sorted(ids(&paged(&at), &Query::default())).into_iter().eq(0..ROWS + 2 * LATER));
    let mut rng = SmallRng::seed_from_u64(3);
    for turn in 0..12 {
        let [low, high] = [rng.random_range(-0.2..0.2), rng.random_range(0.8..1.2)];
        let mut query = Query { bounds: vec![bound("x", low, high), bound("y", low, high)], ..Query::default() };
        query.filter = (turn % 3 == 1).then(|| "a > -0.5 AND n < 100000".into());
        let inside = |row: &Row| {
            let [x, y, a] = row.0;
            let within = |value: Option<f64>| value.is_some_and(|value| (low..=high).contains(&value));
            within(x) && within(y) && (query.filter.is_none() || a.is_some_and(|a| a > -0.5) && row.1 < 100_000)
        };
        let expected: Vec<i64> = rows.iter().filter(|(_, row)| inside(row)).map(|(id, _)| *id).collect();
        let snapshot = paged(&at);
        assert!(sorted(ids(&snapshot, &query)) == expected, "{query:?}");
        assert_eq!(snapshot.count(&query).unwrap(), expected.len() as u64);
        for limit in [10, 1_000_000] {
            let some = Query { limit: Some(limit), ..query.clone() };
            assert!(ids(&paged(&at), &some) == ids(&held, &some), "{some:?}");
            assert_eq!(snapshot.count(&some).unwrap(), limit.min(expected.len() as u64));
            let first =
                Query { limit: Some(limit), order_by: Some(vec!["n desc".into(), "id".into()]), ..query.clone() };
            assert!(ids(&snapshot, &first) == ids(&held, &first), "{first:?}");
            assert_eq!(snapshot.count(&first).unwrap(), limit.min(expected.len() as u64));
        }
        let widths = vec![("x".into(), 0.13.into()), ("y".into(), 0.2.into())];
        let cells = Query { per_cell: Some(PerCell { rows: 3, widths }), ..query.clone() };
        assert!(sorted(ids(&paged(&at), &cells)) == sorted(ids(&held, &cells)), "{cells:?}");
        let window = Query { window: Some((0.1, 0.9)), ..query.clone() };
        assert!(sorted(ids(&paged(&at), &window)) == sorted(ids(&held, &window)), "{window:?}");
        let found = estimate(&paged(&at), &EXTREMES, &query);
        let expected = ends(rows.iter().map(|(_, row)| row).filter(|row| inside(row)));
        for (pair, expected) in found.figures.chunks(2).zip(expected) {
            let values = pair[0].value.zip(pair[1].value);
            assert_eq!(values, expected, "{} of {query:?}", pair[0].aggregate);
            assert!(pair.iter().all(|figure| figure.exact));
        }
    }

    let found = estimate(&paged(&at), &EXTREMES, &Query::default());
    for (pair, expected) in found.figures.chunks(2).zip(ends(rows.iter().map(|(_, row)| row))) {
        assert_eq!(pair[0].value.zip(pair[1].value), expected, "{}", pair[0].aggregate);
        assert!(pair.iter().all(|figure| figure.exact));
    }
    let wall = estimate(&paged(&at), &["min(x)", "max(x)", "min(n)"], &Query::default());
    assert!(wall.stats.rows_read < 20_000 && wall.stats.bytes_read < list + list / 4, "{:?} of {list}", wall.stats);

    // Zone maps give constants, ranges of histograms and complete columns.
    for aggregates in
        [&["stddev(c)"][..], &["histogram(x, 10)", "histogram(a, 5)"], &["count(x)", "count(a)", "count(n)"]]
    {
        let [one, other] = [&held, &paged(&at)].map(|snapshot| estimate(snapshot, aggregates, &Query::default()));
        for (one, other) in one.figures.iter().zip(&other.figures) {
            assert_eq!((one.exact, &one.bin), (other.exact, &other.bin), "{}", one.aggregate);
        }
        assert_eq!(one.figures.len(), other.figures.len());
    }

    for n in [rows[17].1.1, rows[90_000].1.1] {
        let sought =
            Query { bounds: vec![bound("x", -0.5, 0.97)], filter: Some(format!("n = {n}")), ..Query::default() };
        assert_eq!(sorted(ids(&paged(&at), &sought)), sorted(ids(&held, &sought)));
    }
    let query = Query { bounds: vec![bound("x", 0.1, 0.95)], ..Query::default() };
    let snapshot = paged(&at);
    let splits = snapshot.splits(&query, 5).unwrap();
    let read = |split: &kubist::Split| Table::open(&split.location).and_then(|table| table.read_split(split)).unwrap();
    let batches = splits.iter().flat_map(read).map(Result::unwrap);
    let found = batches.flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec());
    assert!(sorted(found.collect()) == sorted(ids(&held, &query)));

    let added = |name: &str, default| {
        let (name, data_type) = (name.into(), DataType::Float64);
        NewColumn { name, data_type, nullable: true, default, unit: None, accuracy: None }
    };
    table.add_column(&added("full", Value::Float(7.0))).unwrap();
    table.add_column(&added("empty", Value::Null)).unwrap();
    let aggregates = ["min(full)", "max(x)", "min(empty)", "count(full)", "count(empty)"];
    for snapshot in [table.snapshot().unwrap(), paged(&at)] {
        let found = estimate(&snapshot, &aggregates, &Query::default()).figures;
        assert_eq!((found[0].value, found[0].exact), (Some(7.0), true));
        assert!(found[1].exact);
        assert_eq!((found[2].value, found[2].exact), (None, false));
        assert_eq!((found[3].value, found[3].exact), (Some(rows.len() as f64), true));
        assert_eq!(found[4].value, Some(0.0));
    }

    let query = Query { bounds: vec![bound("x", 0.05, 0.95)], ..Query::default() };
    let (one, other) = (held.plan(&query).unwrap(), paged(&at).plan(&query).unwrap());
    let near = |one: f64, other: f64| (one - other).abs() < 0.02 * one;
    assert!(near(one.outline().rows_expected, other.outline().rows_expected));
    assert_eq!(other.outline().replicas, 0);
}
