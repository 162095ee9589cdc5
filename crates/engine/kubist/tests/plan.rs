//! Plans: predictions before reading, and windows that partition the records.

use crate::common;
use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Float32Array, Int64Array, RecordBatch};
use kubist::store::MemoryStore;
use kubist::{OptimizeOptions, Query, Stats, Table, Value, WriterOptions};
use kubist_index::priority::PriorityRange;
use kubist_read::execute::{self, Projection};
use kubist_read::plan::Planner;
use proptest::prelude::*;

const ROWS: i64 = 20_000;

fn table() -> Table {
    let table = Table::create(Arc::new(MemoryStore::new("plan")), common::schema(), &common::options()).unwrap();
    let mut writer = table.writer(&WriterOptions::default()).unwrap();
    for third in 0..3 {
        let ids = (0..ROWS).filter(|id| id % 3 == third);
        let at = |id: i64| {
            let turn = id as f32 / ROWS as f32;
            (0.5 + 0.5 * turn * (40.0 * turn).cos(), 0.5 + 0.5 * turn * (40.0 * turn).sin())
        };
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(ids.clone())),
            Arc::new(Float32Array::from_iter_values(ids.clone().map(|id| at(id).0))),
            Arc::new(Float32Array::from_iter_values(ids.map(|id| at(id).1))),
        ];
        writer.append(&RecordBatch::try_new(common::schema(), columns).unwrap()).unwrap();
        writer.commit().unwrap();
    }
    table.optimize(&OptimizeOptions::default(), &mut |_, _| {}).unwrap();
    table
}

fn found(planner: &mut Planner, range: PriorityRange) -> Vec<i64> {
    let wanted = Projection { columns: vec![0], priorities: false, coded: vec![] };
    let mut ids = Vec::new();
    for scanned in execute::scan(planner.read_plan(range, &mut Stats::default()).unwrap(), wanted) {
        let scanned = scanned.unwrap();
        if let Some(column) = scanned.columns.first().filter(|_| scanned.rows > 0) {
            ids.extend_from_slice(column.as_primitive::<Int64Type>().values());
        }
    }
    ids
}

fn boxed(x: (f64, f64), y: (f64, f64)) -> Query {
    let side = |(a, b): (f64, f64)| (Value::Float(a.min(b)), Value::Float(a.max(b)));
    let ((x0, x1), (y0, y1)) = (side(x), side(y));
    Query::new().between("x", x0, x1).between("y", y0, y1)
}

#[test]
fn windows_of_one_plan_share_out_its_records() {
    let table = table();
    let snapshot = table.snapshot().unwrap();
    let side = || (0.0..1.0f64, 0.0..1.0f64);
    let cases = (side(), side(), prop::collection::btree_set(any::<u64>(), 0..5));
    let config = ProptestConfig { cases: 40, ..ProptestConfig::default() };
    proptest!(config, |((x, y, cuts) in cases)| {
        let request = boxed(x, y).into();
        let planner = || Planner::new(snapshot.pinned(), &request).unwrap();
        let (mut fresh, mut whole) = (planner(), planner());
        whole.full_plan(&mut Stats::default()).unwrap();
        let (mut first, mut all) = (0, Vec::new());
        let ends: BTreeSet<u64> = cuts.into_iter().chain([u64::MAX]).collect();
        for last in ends {
            let range = PriorityRange { first, last };
            let (mut walked, mut narrowed) = (found(&mut fresh, range), found(&mut whole, range));
            walked.sort_unstable();
            narrowed.sort_unstable();
            prop_assert_eq!(&walked, &narrowed);
            all.extend(walked);
            first = last.saturating_add(1);
        }
        all.sort_unstable();
        let mut asked = Vec::new();
        for batch in snapshot.query(&request).unwrap() {
            asked.extend_from_slice(batch.unwrap()["id"].as_primitive::<Int64Type>().values());
        }
        asked.sort_unstable();
        prop_assert_eq!(all, asked);
    });
}

#[test]
fn a_plan_is_there_before_a_row_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("t");
    let table = Table::create(home.to_str().unwrap(), common::schema(), &common::options()).unwrap();
    let mut writer = table.writer(&WriterOptions::default()).unwrap();
    let ids = 0..5_000i64;
    let spread = |id: i64| (id as f32 * 0.618).fract();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(ids.clone())),
        Arc::new(Float32Array::from_iter_values(ids.clone().map(spread))),
        Arc::new(Float32Array::from_iter_values(ids.map(|id| spread(id * 7)))),
    ];
    writer.append(&RecordBatch::try_new(common::schema(), columns).unwrap()).unwrap();
    writer.commit().unwrap();
    let snapshot = Table::open(home.to_str().unwrap()).unwrap().snapshot().unwrap();
    for segment in std::fs::read_dir(home.join("segments")).unwrap() {
        std::fs::remove_file(segment.unwrap().path()).unwrap();
    }
    let queries = [
        (Query::new(), "all records that match"),
        (boxed((0.1, 0.3), (0.0, 0.4)).limit(10), "the 10 records of lowest priority"),
        (boxed((0.1, 0.3), (0.0, 0.4)).per_cell(2, vec![("x".into(), 0.1)]), "in each cell"),
        (boxed((5.0, 6.0), (5.0, 6.0)).filter("x < 1"), "nothing: no record can match"),
    ];
    for (query, said) in queries {
        let plan = snapshot.plan(&query).unwrap();
        let text = plan.to_string();
        assert!(text.contains(said) && text.contains("of the grid"), "{text}");
        let (outline, read) = (plan.outline().clone(), plan.explain(None));
        match outline.method {
            "nothing" => assert_eq!(read.unwrap().stats.rows_returned, 0),
            // The plan needs no rows, which are missing here.
            _ => assert!(outline.runs > 0 && outline.rows_expected > 0.0 && read.is_err(), "{text}"),
        }
    }
}

#[test]
fn a_plan_that_is_printed_is_the_one_that_runs() {
    let table = table();
    let snapshot = table.snapshot().unwrap();
    for query in [boxed((0.2, 0.6), (0.3, 0.8)), boxed((0.2, 0.6), (0.3, 0.8)).limit(50), Query::new().limit(50)] {
        let mut plain = snapshot.query(&query).unwrap();
        let rows: usize = plain.by_ref().map(|batch| batch.unwrap().num_rows()).sum();
        let explained = snapshot.plan(&query).unwrap().explain(None).unwrap();
        assert_eq!(explained.stats.rows_returned, rows as u64);
        let counts = |stats: kubist::Stats| (stats.rows_read, stats.pages_read, stats.cubes_visited);
        assert_eq!(counts(explained.stats), counts(plain.stats()));
        assert!(explained.plan.runs <= explained.plan.runs_there && explained.plan.cubes_visited > 0);
    }
}
