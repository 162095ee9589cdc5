//! The optimizer: replicas, regions that queries found expensive, and unchanged results.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kubist::store::MemoryStore;
use kubist::{
    Bound, CommitOptions, Compression, Dimension, Domain, GridOptions, OptimizeOptions, OptimizeReport, Query, Stats,
    Table, TableOptions, Value, WriterOptions,
};
use kubist_format::location::Location;
use kubist_index::state::Run;
use kubist_types::Cancel;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const CAPACITY: u32 = 64;

fn schema() -> SchemaRef {
    let field = |name: &str, data_type| Field::new(name, data_type, false);
    Arc::new(Schema::new(vec![
        field("id", DataType::Int64),
        field("x", DataType::Float64),
        field("y", DataType::Float64),
    ]))
}

fn table(name: &str) -> Table {
    Table::create(Arc::new(MemoryStore::new(name)), schema(), &table_options()).unwrap()
}

fn table_options() -> TableOptions {
    let dimension =
        |name: &str| Dimension { column: name.into(), domain: Domain::Linear(Value::Int(0), Value::Int(1)) };
    TableOptions {
        dimensions: vec![dimension("x"), dimension("y")],
        identity: vec!["id".into()],
        capacity: Some(CAPACITY),
        ..Default::default()
    }
}

fn commit(table: &Table, first: i64, points: &[[f64; 2]]) {
    let column = |d: usize| Arc::new(Float64Array::from_iter_values(points.iter().map(|point| point[d]))) as ArrayRef;
    let ids = Arc::new(Int64Array::from_iter_values(first..first + points.len() as i64)) as ArrayRef;
    let mut writer = table.writer(&WriterOptions::default()).unwrap();
    writer.append(&RecordBatch::try_new(schema(), vec![ids, column(0), column(1)]).unwrap()).unwrap();
    writer.commit().unwrap();
}

fn points(rng: &mut SmallRng, count: usize) -> Vec<[f64; 2]> {
    (0..count).map(|_| [rng.random(), rng.random()]).collect()
}

fn optimize(table: &Table, policy: &str) -> kubist::OptimizeReport {
    let replication = Some(policy.parse().unwrap());
    table.optimize(&OptimizeOptions { replication, ..Default::default() }, &mut |_, _| {}).unwrap()
}

fn small_box([x, y]: [f64; 2], side: f64) -> Query {
    let bound = |name: &str, low: f64| Bound {
        column: name.into(),
        low: Some(Value::Float(low)),
        high: Some(Value::Float(low + side)),
    };
    Query { bounds: vec![bound("x", x), bound("y", y)], ..Default::default() }
}

fn ask(table: &Table, query: &Query) -> (Vec<i64>, Stats) {
    let mut stream = table.snapshot().unwrap().query(query).unwrap();
    let batches: Vec<RecordBatch> = stream.by_ref().map(Result::unwrap).collect();
    let mut ids: Vec<i64> =
        batches.iter().flat_map(|batch| batch["id"].as_primitive::<Int64Type>().values().to_vec()).collect();
    ids.sort_unstable();
    (ids, stream.stats())
}

/// Both tables must return equal results.
fn pages(table: &Table, other: &Table, sample: Option<f64>) -> u64 {
    let mut rng = SmallRng::seed_from_u64(3);
    let asked = (0..60).map(|_| {
        let query = Query { sample, ..small_box([rng.random(), rng.random()], 0.03) };
        let (ids, stats) = ask(table, &query);
        assert_eq!(ids, ask(other, &query).0);
        assert_eq!(ids.len() as u64, table.snapshot().unwrap().count(&query).unwrap());
        stats.pages_read
    });
    asked.sum()
}

#[test]
fn replicas_save_pages_and_change_no_answer() {
    let (plain, copied) = (table("plain"), table("copied"));
    let points = points(&mut SmallRng::seed_from_u64(1), 20_000);
    for table in [&plain, &copied] {
        commit(table, 0, &points);
    }
    optimize(&plain, "none");
    let before = pages(&copied, &plain, None);
    let report = optimize(&copied, "outlook");
    assert!(report.rows_copied > 0, "{report:?}");
    let after = pages(&copied, &plain, None);
    assert!(4 * after < 3 * before, "{after} pages with replicas, {before} without");
    pages(&copied, &plain, Some(0.1));
    assert_eq!(optimize(&copied, "outlook").rewrites, 0);
    let info = copied.snapshot().unwrap().info().unwrap();
    assert_eq!((info.about.rows, info.replica_rows), (20_000, report.rows_copied));
    assert!(optimize(&copied, "full").rows_copied > 0);
    assert!(pages(&copied, &plain, None) <= after);
    let all = Query::default();
    assert_eq!(ask(&copied, &all).0, ask(&plain, &all).0);
}

#[test]
fn replicas_follow_a_growing_table() {
    let (plain, copied) = (table("plain"), table("copied"));
    let mut rng = SmallRng::seed_from_u64(2);
    for round in 0..12 {
        let points = points(&mut rng, 300 << (round % 4));
        for table in [&plain, &copied] {
            commit(table, round * 10_000, &points);
        }
        pages(&copied, &plain, None);
        if round % 3 == 2 {
            optimize(&copied, "full");
            pages(&copied, &plain, None);
            pages(&copied, &plain, Some(0.3));
        }
    }
    optimize(&copied, "full");
    optimize(&plain, "none");
    let (with, without) = (pages(&copied, &plain, None), pages(&plain, &copied, None));
    assert!(with < without, "{with} pages with replicas, {without} without");
    assert!(copied.verify(&kubist::VerifyOptions::deep(), &mut |_, _| {}).unwrap().findings.is_empty());
}

/// All points are in one corner. Empty children must not prevent deeper replicas.
#[test]
fn the_outlook_rises_over_empty_children() {
    let (plain, copied) = (table("plain"), table("copied"));
    let mut rng = SmallRng::seed_from_u64(4);
    let points: Vec<[f64; 2]> = points(&mut rng, 8000).iter().map(|[x, y]| [x / 16.0, y / 16.0]).collect();
    for table in [&plain, &copied] {
        commit(table, 0, &points);
    }
    optimize(&plain, "none");
    let height = plain.snapshot().unwrap().info().unwrap().height;
    assert!(optimize(&copied, "outlook").rows_copied > 0);
    let pages = |table: &Table| {
        let asked = (0..40).map(|step| ask(table, &small_box([0.0015 * step as f64, 0.03], 0.002)));
        let (ids, pages): (Vec<_>, Vec<_>) = asked.map(|(ids, stats)| (ids, stats.pages_read)).unzip();
        (ids, pages.into_iter().sum::<u64>())
    };
    let ((with_ids, with), (without_ids, without)) = (pages(&copied), pages(&plain));
    assert_eq!(with_ids, without_ids);
    assert!(height >= 6 && 5 * with < 4 * without, "height {height}: {with} pages with replicas, {without} without");
}

#[test]
fn what_queries_find_expensive_is_optimized_behind_them() {
    let table = table("heat");
    let mut rng = SmallRng::seed_from_u64(5);
    for number in 0..60 {
        commit(&table, number * 1000, &points(&mut rng, 300));
    }
    let debt = || table.snapshot().unwrap().info().unwrap().debt;
    let before = debt();
    let all = ask(&table, &Query::default()).0;
    let optimizer = table.optimize_reads();
    let query = small_box([0.2, 0.2], 0.01);
    let expected = ask(&table, &query).0;
    let asked = (0..1_000_000).find(|_| {
        assert_eq!(ask(&table, &query).0, expected);
        debt() < before / 2
    });
    assert!(asked.is_some(), "nothing was optimized");
    drop(optimizer);
    assert_eq!(ask(&table, &Query::default()).0, all);
}

#[test]
fn nothing_is_rewritten_without_a_reason() {
    let table = table("calm");
    commit(&table, 0, &points(&mut SmallRng::seed_from_u64(6), 20_000));
    optimize(&table, "none");
    for _ in 0..3 {
        pages(&table, &table, None);
        assert_eq!(optimize(&table, "none").rewrites, 0);
    }
}

/// Indivisible cubes are left alone, so rounds end, also if no move fits in memory.
#[test]
fn rows_at_one_point_do_not_keep_it_busy() {
    let table = table("point");
    for number in 0..6 {
        commit(&table, number * 10_000, &vec![[0.25, 0.75]; 2000]);
    }
    let options = OptimizeOptions { rows_at_once: 1000, ..OptimizeOptions::background() };
    let rounds = (0..200).find(|_| table.optimize(&options, &mut |_, _| {}).unwrap().rewrites == 0);
    assert!(rounds.is_some(), "two hundred rounds and no end");
    assert_eq!(table.snapshot().unwrap().rows().unwrap(), 12_000);
    assert!(table.verify(&kubist::VerifyOptions::deep(), &mut |_, _| {}).unwrap().findings.is_empty());
}

#[test]
fn one_call_goes_on_until_nothing_is_left() {
    let table = table("large");
    let mut rng = SmallRng::seed_from_u64(8);
    for number in 0..400 {
        commit(&table, number * 100, &points(&mut rng, 50));
    }
    let options = OptimizeOptions { rows_at_once: 2000, ..OptimizeOptions::default() };
    let report = table.optimize(&options, &mut |_, _| {}).unwrap();
    assert!(report.debt_after * 10 < report.debt_before, "{report:?}");
    let rounds = (0..20).find(|_| table.optimize(&options, &mut |_, _| {}).unwrap().rewrites == 0);
    assert!(rounds.is_some(), "{report:?}");
}

fn layout(table: &Table) -> impl PartialEq + std::fmt::Debug + use<> {
    let (core, cancel) = (table.core(), Cancel::default());
    let directory = core.view(&cancel).unwrap().runs.directory(core, &cancel).unwrap();
    let of_run = |run: &Arc<Run<Location>>| (run.cube, run.rows, run.priorities, run.copies.len());
    let mut runs: Vec<_> = directory.all().map(of_run).collect();
    runs.sort_unstable();
    (runs, directory.cutoffs().collect::<Vec<_>>())
}

#[test]
fn a_list_that_is_not_held_leads_to_the_same_layout() {
    let [held, paged] = [1 << 18, 5].map(|limit| {
        let store = Arc::new(MemoryStore::new("t"));
        let table = Table::create(store.clone(), schema(), &table_options()).unwrap();
        let mut rng = SmallRng::seed_from_u64(9);
        for step in 0..60 {
            let mut writer = table.writer(&WriterOptions::default()).unwrap();
            let points = points(&mut rng, [40, 200, 1000][step as usize % 3]);
            let column =
                |d: usize| Arc::new(Float64Array::from_iter_values(points.iter().map(|point| point[d]))) as ArrayRef;
            let ids = Arc::new(Int64Array::from_iter_values((0..points.len() as i64).map(|id| step * 10_000 + id)));
            writer.append(&RecordBatch::try_new(schema(), vec![ids, column(0), column(1)]).unwrap()).unwrap();
            writer.commit_as(&CommitOptions { token: None, step: Some(step) }).unwrap();
        }
        table.checkpoint().unwrap();
        drop(table);
        let table = Table::open(store).unwrap();
        table.limit_runs_in_memory(limit);
        table
    });
    let both = [&held, &paged];
    let base = paged.core().view(&Cancel::default()).unwrap().runs.base.clone();
    assert!(base.is_some_and(|base| base.pages.len() > 5));
    let check = |what: &str| {
        let [one, other] = both.map(layout);
        assert!(one == other, "{what}");
        let [one, other] = both.map(|table| table.snapshot().unwrap().info().unwrap());
        let info = |info: &kubist::Info| {
            (
                info.about.rows,
                info.runs,
                info.cubes,
                info.most_runs,
                info.height,
                info.replica_rows,
                info.debt,
                info.bytes,
            )
        };
        assert_eq!(info(&one), info(&other), "{what}");
        assert_eq!(
            (one.disk.primary, one.disk.replicas, one.disk.zone_maps, one.disk.lookups),
            (other.disk.primary, other.disk.replicas, other.disk.zone_maps, other.disk.lookups),
            "{what}"
        );
        for sample in [None, Some(0.2)] {
            pages(&held, &paged, sample);
        }
    };
    check("commits");
    let optimized = |options: &OptimizeOptions| {
        let [one, other] = both.map(|table| table.optimize(options, &mut |_, _| {}).unwrap());
        assert_eq!(OptimizeReport { bytes_written: 0, ..one }, OptimizeReport { bytes_written: 0, ..other });
        assert!(one.rewrites > 0, "{one:?}");
    };
    let none = OptimizeOptions { replication: "none".parse().ok(), ..Default::default() };
    for _ in 0..3 {
        optimized(&OptimizeOptions { rows_at_once: 300, one_round: true, ..none.clone() });
        check("a round");
    }
    optimized(&OptimizeOptions { rows_at_once: 700, ..none.clone() });
    check("what is worth it");
    optimized(&OptimizeOptions { rows_at_once: 700, replication: "full".parse().ok(), ..Default::default() });
    check("replicas");
    let [one, other] = both.map(|table| table.retract(40).unwrap());
    assert_eq!(one, other);
    assert!(one.rows > 0 && one.runs_rewritten > 0, "{one:?}");
    check("steps taken back");
    for table in both {
        table.set_compression(Compression::Small).unwrap();
    }
    optimized(&OptimizeOptions { recompress: true, rows_at_once: 2_000, ..none.clone() });
    check("another compression");
    let dimensions = Some(["y", "x"].map(Dimension::learned).into());
    let options = GridOptions { dimensions, ..Default::default() };
    for table in both {
        table.regrid(&options, &mut |_, _| {}).unwrap();
    }
    check("another grid");
    assert_eq!(held.snapshot().unwrap().info().unwrap().rows_to_move, 0);
    for table in both {
        assert!(table.verify(&kubist::VerifyOptions::deep(), &mut |_, _| {}).unwrap().findings.is_empty());
    }
}
