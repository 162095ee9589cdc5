//! The reads that value ranges of runs save, and tables with missing ranges.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int64Type};
use arrow_array::{ArrayRef, Float32Array, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use kubist_expr::{Nulls, Zone};
use kubist_index::cube::{CubeId, MAX_DIMENSIONS};
use kubist_index::priority::PriorityRange;
use kubist_index::state::{Run, RunId};
use kubist_store::MemoryStore;
use proptest::prelude::*;

use kubist::EstimateOptions;
use kubist::OptimizeOptions;
use kubist::Table;
use kubist::VerifyOptions;
use kubist::{Dimension, Domain, Query, Stats, TableOptions, Value, WriterOptions};
use kubist_format::location::Location;
use kubist_format::ranges::{RunRanges, decode, encode};
use kubist_read::plan::Planner;
use kubist_read::runs::read_run;
use kubist_write::publish::{Replacement, publish};

const SIDE: i64 = 160;

fn schema() -> Arc<Schema> {
    let field = |name, data_type, nullable| Field::new(name, data_type, nullable);
    Arc::new(Schema::new(vec![
        field("id", DataType::Int64, false),
        field("x", DataType::Float64, false),
        field("y", DataType::Float64, false),
        field("heat", DataType::Float32, true),
        field("name", DataType::Utf8, false),
    ]))
}

/// A hot spot at (0.8, 0.8); some points in the left half have null or NaN.
fn heat(id: i64) -> Option<f32> {
    let (x, y) = position(id);
    match id % 37 {
        3 if x < 0.5 => None,
        5 if x < 0.5 => Some(f32::NAN),
        _ => Some((-20.0 * ((x - 0.8).powi(2) + (y - 0.8).powi(2))).exp() as f32),
    }
}

fn name(id: i64) -> &'static str {
    if position(id).0 < 0.2 { "left" } else { "right" }
}

fn position(id: i64) -> (f64, f64) {
    ((id % SIDE) as f64 / SIDE as f64, (id / SIDE) as f64 / SIDE as f64)
}

fn rows(ids: impl Iterator<Item = i64> + Clone) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(ids.clone())),
        Arc::new(Float64Array::from_iter_values(ids.clone().map(|id| position(id).0))),
        Arc::new(Float64Array::from_iter_values(ids.clone().map(|id| position(id).1))),
        Arc::new(Float32Array::from_iter(ids.clone().map(heat))),
        Arc::new(StringArray::from_iter_values(ids.map(name))),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn table(commits: i64) -> Table {
    let domain = || Domain::Linear(Value::Int(0), Value::Int(1));
    let options = TableOptions {
        dimensions: ["x", "y"].map(|name| Dimension { column: name.into(), domain: domain() }).to_vec(),
        identity: vec!["id".into()],
        capacity: Some(256),
        ..TableOptions::default()
    };
    let table = Table::create(Arc::new(MemoryStore::new("points")), schema(), &options).unwrap();
    let mut writer = table.writer(&WriterOptions::default()).unwrap();
    for commit in 0..commits {
        writer.append(&rows((0..SIDE * SIDE).filter(|id| id % commits == commit))).unwrap();
        writer.commit().unwrap();
    }
    drop(writer);
    table
}

fn ids(table: &Table, filter: &str) -> (Vec<i64>, Stats) {
    let query = Query { filter: Some(filter.into()), columns: Some(vec!["id".into()]), ..Query::default() };
    let mut stream = table.snapshot().unwrap().query(&query).unwrap();
    let mut found = Vec::new();
    for batch in stream.by_ref() {
        found.extend_from_slice(batch.unwrap()["id"].as_primitive::<Int64Type>().values());
    }
    found.sort_unstable();
    (found, stream.stats())
}

fn visited(table: &Table, filter: &str) -> usize {
    let query = Query { filter: Some(filter.into()), ..Query::default() };
    let mut planner = Planner::new(table.snapshot().unwrap().pinned(), &query.into()).unwrap();
    planner.read_plan(PriorityRange::ALL, &mut Stats::default()).unwrap().visits.len()
}

type Holds = fn(i64) -> bool;

const CONDITIONS: [(&str, Holds); 6] = [
    ("heat > 0.9", |id| heat(id).is_some_and(|heat| heat > 0.9)),
    ("heat > 0.9 AND x > 0.8", |id| heat(id).is_some_and(|heat| heat > 0.9) && position(id).0 > 0.8),
    ("heat > 0.9 OR id < 40", |id| heat(id).is_some_and(|heat| heat > 0.9) || id < 40),
    ("heat IS NULL", |id| heat(id).is_none()),
    ("isnan(heat)", |id| heat(id).is_some_and(f32::is_nan)),
    ("name = 'left'", |id| name(id) == "left"),
];

fn check(table: &Table) -> Vec<Stats> {
    let of = |(filter, holds): &(&str, Holds)| {
        let (found, stats) = ids(table, filter);
        assert_eq!(found, (0..SIDE * SIDE).filter(|id| holds(*id)).collect::<Vec<_>>(), "{filter}");
        stats
    };
    CONDITIONS.iter().map(of).collect()
}

fn findings(table: &Table) -> [Vec<String>; 2] {
    [false, true].map(|deep| {
        let options = VerifyOptions { deep, ..VerifyOptions::default() };
        table.verify(&options, &mut |_, _| {}).unwrap().findings
    })
}

/// Changes the description of runs, not their bytes.
fn say(table: &Table, change: impl Fn(usize, &mut Run<Location>)) {
    let inputs = table.snapshot().unwrap().pinned().directory().unwrap().runs().cloned().collect::<Vec<_>>();
    let mut runs = inputs.clone();
    runs.iter_mut().enumerate().for_each(|(position, run)| change(position, Arc::make_mut(run)));
    let replacement = Replacement { inputs, runs, ..Replacement::default() };
    assert!(publish(table.core(), replacement, &Default::default()).unwrap());
}

#[test]
fn a_condition_rules_out_runs() {
    for (commits, optimized) in [(1, false), (8, false), (8, true)] {
        let table = table(commits);
        if optimized {
            table.optimize(&OptimizeOptions::default(), &mut |_, _| {}).unwrap();
        }
        for checkpointed in [false, true] {
            if checkpointed {
                assert!(table.checkpoint().unwrap());
            }
            let all = visited(&table, "id >= 0");
            for (filter, _) in CONDITIONS {
                let some = visited(&table, filter);
                assert!(some < all, "{filter}: {some} of {all} runs, {commits} commits");
            }
            let hot = |heat: Option<f32>| heat.is_some_and(|heat| heat > 0.9 || heat.is_nan());
            let snapshot = table.snapshot().unwrap();
            let holds = |run: &&Arc<Run<Location>>| {
                let (rows, _) = read_run(snapshot.pinned(), run).unwrap();
                rows["heat"].as_primitive::<Float32Type>().iter().any(hot)
            };
            let expected = snapshot.pinned().directory().unwrap().runs().filter(holds).count();
            assert_eq!(visited(&table, "heat > 0.9"), expected);
            check(&table);
        }
        assert_eq!(findings(&table), [vec![], vec![]] as [Vec<String>; 2]);
    }
}

#[test]
fn what_is_asked_again_and_again_is_not_read_again() {
    let table = table(5);
    let first = check(&table);
    check(&table);
    let third = check(&table);
    for ((filter, _), (first, third)) in CONDITIONS.iter().zip(first.iter().zip(&third)) {
        assert_eq!(first.rows_read, third.rows_read, "{filter}");
        assert_eq!(third.bytes_cached, third.bytes_read, "{filter}: {third:?}");
        assert!(first.bytes_read >= third.bytes_read && third.bytes_read > 0, "{filter}: {first:?} {third:?}");
    }
}

#[test]
fn the_largest_value_is_found_without_the_maps_of_runs_that_are_beaten() {
    let table = table(8);
    let largest = || {
        let fresh = Table::open(table.core().store.clone()).unwrap();
        let options = EstimateOptions { aggregates: vec!["max(heat)".into()], ..EstimateOptions::default() };
        let estimate = fresh.snapshot().unwrap().estimate(&options, &mut |_| {}).unwrap();
        assert!(estimate.figures[0].exact);
        (estimate.figures[0].value.unwrap(), estimate.stats.bytes_read)
    };
    let (value, bytes) = largest();
    let numbers = (0..SIDE * SIDE).filter_map(heat).filter(|heat| !heat.is_nan());
    assert_eq!(value, numbers.fold(f32::MIN, f32::max) as f64);
    say(&table, |_, run| run.payload.ranges = None);
    let (same, without) = largest();
    assert_eq!(same, value);
    assert!(bytes < without, "{bytes} of {without}");
}

#[test]
fn runs_of_which_nothing_is_said_are_judged_by_their_zone_maps() {
    let table = table(1);
    let known = check(&table);
    for every in [2, 1] {
        say(&table, |position, run| run.payload.ranges = run.payload.ranges.take().filter(|_| position % every != 0));
        let judged = check(&table);
        assert!(judged.iter().zip(&known).all(|(stats, known)| stats.rows_returned == known.rows_returned));
        assert!(table.checkpoint().unwrap());
        check(&table);
        assert_eq!(findings(&table), [vec![], vec![]] as [Vec<String>; 2]);
    }
}

#[test]
fn wrong_ranges_are_found() {
    let table = table(1);
    let of_next = table.snapshot().unwrap().pinned().directory().unwrap().runs().cloned().collect::<Vec<_>>();
    say(&table, |position, run| run.payload.ranges = of_next[(position + 1) % of_next.len()].payload.ranges.clone());
    for found in findings(&table) {
        assert!(found.iter().any(|what| what.contains("other ends or nulls of column \"heat\"")), "{found:?}");
    }
}

fn run(ranges: Option<RunRanges>) -> Arc<Run<Location>> {
    let payload = Location {
        segment: "a".into(),
        data_offset: 0,
        data_length: 0,
        map_offset: 0,
        map_length: 0,
        low: [0; MAX_DIMENSIONS],
        high: [0; MAX_DIMENSIONS],
        origin: None,
        lookup: None,
        ranges,
    };
    Arc::new(Run { id: RunId(0), cube: CubeId::root(0), rows: 1, priorities: (0, 1), copies: vec![], payload })
}

fn any_zone() -> impl Strategy<Value = Zone> {
    (any::<(u64, u64)>(), 0u8..3).prop_map(|((a, b), nulls)| match nulls {
        0 => Zone { min: a.min(b), max: a.max(b), nulls: Nulls::None },
        1 => Zone { min: a.min(b), max: a.max(b), nulls: Nulls::Some },
        _ => Zone { min: 0, max: 0, nulls: Nulls::All },
    })
}

fn tell(runs: &mut [Arc<Run<Location>>], ranges: impl Iterator<Item = RunRanges>) {
    for (run, ranges) in runs.iter_mut().zip(ranges) {
        Arc::make_mut(run).payload.ranges = Some(ranges);
    }
}

fn any_runs() -> impl Strategy<Value = Vec<Arc<Run<Location>>>> {
    let of_entry = (prop::collection::btree_set(0usize..6, 0..4), 0usize..30).prop_flat_map(|(columns, runs)| {
        let zones = prop::collection::vec(prop::collection::vec(any_zone(), columns.len()), runs);
        zones.prop_map(move |zones| {
            let mut gathered = kubist_format::ranges::RangesBuilder::default();
            zones.iter().for_each(|of_run| gathered.add(columns.iter().copied().zip(of_run.iter().copied())));
            let mut runs = vec![run(None); zones.len()];
            let ranges = gathered.finish(runs.len());
            tell(&mut runs, ranges.into_iter());
            runs
        })
    });
    (of_entry.clone(), of_entry, 0usize..4, any::<u64>()).prop_map(|(mut runs, more, unknown, turn)| {
        runs.extend(more);
        runs.extend(vec![run(None); unknown]);
        let middle = turn as usize % runs.len().max(1);
        runs.rotate_left(middle);
        runs
    })
}

proptest! {
    #[test]
    fn decode_inverts_encode(runs in any_runs(), cut in any::<prop::sample::Index>()) {
        let mut found: Vec<_> = runs.iter().map(|_| run(None)).collect();
        if let Some(body) = encode(runs.iter().map(|run| run.payload.ranges.as_ref())) {
            let ranges = decode(&body, runs.len()).unwrap();
            tell(&mut found, (0..runs.len()).map(|run| ranges.of_run(run)));
            prop_assert!(decode(&body[..cut.index(body.len())], runs.len()).is_err());
        }
        for (run, found) in runs.iter().zip(&found) {
            for column in 0..6 {
                let zone = |run: &Arc<Run<Location>>| run.payload.ranges.as_ref().and_then(|ranges| ranges.zone(column));
                prop_assert_eq!(zone(run), zone(found));
            }
        }
    }
}
