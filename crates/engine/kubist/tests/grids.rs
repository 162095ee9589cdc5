//! A table that outgrew its first grid gets an index as good as with the right grid, and its results stay
//! right.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kubist::store::{MemoryStore, Store};
use kubist::{
    Bound, Cancel, Dimension, Domain, Error, ErrorKind, GridOptions, OptimizeOptions, Query, Table, TableOptions,
    Value, VerifyOptions, WriterOptions,
};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

type Point = [f64; 3];
const NAMES: [&str; 3] = ["t", "x", "y"];

fn schema() -> SchemaRef {
    let of = |name: &&str| Field::new(*name, DataType::Float64, false);
    let fields = std::iter::once(Field::new("id", DataType::Int64, false)).chain(NAMES.iter().map(of));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn table(domain: impl Fn(usize) -> Domain) -> (Arc<MemoryStore>, Table) {
    let store = Arc::new(MemoryStore::new("grids"));
    let dimension = |(d, name): (usize, &&str)| Dimension { column: name.to_string(), domain: domain(d) };
    let options = TableOptions {
        dimensions: NAMES.iter().enumerate().map(dimension).collect(),
        identity: vec!["id".into()],
        capacity: Some(256),
        ..Default::default()
    };
    (store.clone(), Table::create(store, schema(), &options).unwrap())
}

fn batch(first: usize, points: &[Point]) -> RecordBatch {
    let column = |d: usize| Arc::new(Float64Array::from_iter_values(points.iter().map(|point| point[d]))) as ArrayRef;
    let ids = Arc::new(Int64Array::from_iter_values(first as i64..(first + points.len()) as i64)) as ArrayRef;
    RecordBatch::try_new(schema(), vec![ids, column(0), column(1), column(2)]).unwrap()
}

fn commit(table: &Table, first: usize, points: &[Point]) {
    let mut writer = table.writer(&WriterOptions::default()).unwrap();
    writer.append(&batch(first, points)).unwrap();
    writer.commit().unwrap();
}

fn optimize(table: &Table) -> kubist::OptimizeReport {
    table.optimize(&OptimizeOptions::default(), &mut |_, _| {}).unwrap()
}

/// Rows examined per returned row, over boxes with about 1 % of the data.
fn examined(table: &Table, all: &[Point], seed: u64) -> f64 {
    let mut rng = SmallRng::seed_from_u64(seed);
    let snapshot = table.snapshot().unwrap();
    let sorted: Vec<Vec<f64>> = (0..3)
        .map(|d| {
            let mut values: Vec<f64> = all.iter().map(|point| point[d]).collect();
            values.sort_unstable_by(f64::total_cmp);
            values
        })
        .collect();
    let (mut read, mut returned) = (0, 0);
    for _ in 0..20 {
        let center = all[rng.random_range(0..all.len())];
        let ends: Vec<(f64, f64)> = (0..3)
            .map(|d| {
                let (rank, reach) = (sorted[d].partition_point(|value| *value < center[d]), all.len() / 9);
                (sorted[d][rank.saturating_sub(reach)], sorted[d][(rank + reach).min(all.len() - 1)])
            })
            .collect();
        let bound = |(name, (low, high)): (&&str, &(f64, f64))| Bound {
            column: name.to_string(),
            low: Some(Value::Float(*low)),
            high: Some(Value::Float(*high)),
        };
        let query = Query { bounds: NAMES.iter().zip(&ends).map(bound).collect(), ..Default::default() };
        let mut stream = snapshot.query(&query).unwrap();
        let mut found: Vec<i64> = stream
            .by_ref()
            .flat_map(|batch| batch.unwrap()["id"].as_primitive::<Int64Type>().values().to_vec())
            .collect();
        found.sort_unstable();
        let inside = |point: &Point| (0..3).all(|d| (ends[d].0..=ends[d].1).contains(&point[d]));
        let expected: Vec<i64> = (0..all.len()).filter(|row| inside(&all[*row])).map(|row| row as i64).collect();
        assert_eq!(found, expected);
        let half = Query { sample: Some(0.5), ..query };
        let sampled: u64 = snapshot.query(&half).unwrap().map(|batch| batch.unwrap().num_rows() as u64).sum();
        assert_eq!(sampled, snapshot.count(&half).unwrap());
        read += stream.stats().rows_read;
        returned += found.len() as u64;
    }
    read as f64 / returned.max(1) as f64
}

fn sound(table: &Table, rows: usize) {
    let report = table.verify(&VerifyOptions::deep(), &mut |_, _| {}).unwrap();
    assert_eq!((report.findings, report.rows), (vec![], rows as u64));
}

fn grid(table: &Table) -> u32 {
    table.snapshot().unwrap().about().unwrap().grid
}

fn step(rng: &mut SmallRng, number: usize, rows: usize) -> Vec<Point> {
    let reach = (number + 1) as f64;
    (0..rows).map(|_| [number as f64 * 0.01, rng.random_range(0.0..reach), rng.random_range(-reach..reach)]).collect()
}

#[test]
fn the_index_follows_data_that_grows() {
    for first in [1, 10, 1000, 100_000] {
        let mut rng = SmallRng::seed_from_u64(first as u64);
        let ((store, mut grown), mut all) = (table(|_| Domain::Learned), step(&mut rng, 0, first));
        commit(&grown, 0, &all);
        for number in 1..28 {
            let points = step(&mut rng, number, 2000);
            commit(&grown, all.len(), &points);
            all.extend(points);
            if number % 5 == 0 {
                optimize(&grown);
                examined(&grown, &all, number as u64);
            }
            if number % 9 == 0 {
                assert!(grown.checkpoint().unwrap());
                grown = Table::open(store.clone() as Arc<dyn Store>).unwrap();
            }
        }
        optimize(&grown);
        sound(&grown, all.len());
        assert!(grid(&grown) <= 5, "{} grids", grid(&grown));
        let info = grown.snapshot().unwrap().info().unwrap();
        assert_eq!(info.rows_to_move, 0);
        let ends = [(0.0, 0.28), (0.0, 28.0), (-28.0, 28.0)];
        let (_, right) = table(|d| Domain::Linear(Value::Float(ends[d].0), Value::Float(ends[d].1)));
        commit(&right, 0, &all);
        optimize(&right);
        let (found, wanted) = (examined(&grown, &all, 7), examined(&right, &all, 7));
        assert!(found <= 1.3 * wanted, "{found} rows examined for each returned, {wanted} with the right grid");
    }
}

#[test]
fn what_comes_goes_to_a_grid_that_fits_without_an_optimizer() {
    let mut rng = SmallRng::seed_from_u64(3);
    let ends = [(0.0, 0.4), (0.0, 40.0), (-40.0, 40.0)];
    let (_, right) = table(|d| Domain::Linear(Value::Float(ends[d].0), Value::Float(ends[d].1)));
    let ((_, grown), mut all) = (table(|_| Domain::Learned), Vec::new());
    for number in 0..40 {
        let points = step(&mut rng, number, 2000);
        commit(&grown, all.len(), &points);
        commit(&right, all.len(), &points);
        all.extend(points);
    }
    sound(&grown, all.len());
    assert!((1..=4).contains(&grid(&grown)), "{} grids", grid(&grown));
    let (found, wanted) = (examined(&grown, &all, 7), examined(&right, &all, 7));
    assert!(found <= 4.0 * wanted, "{found} rows examined for each returned, {wanted} with the right grid");
}

#[test]
fn scales_that_drift_and_clouds_that_cluster_keep_their_answers() {
    let mut rng = SmallRng::seed_from_u64(5);
    let ((store, mut drifting), mut all) = (table(|_| Domain::Learned), Vec::new());
    for number in 0..12 {
        let scale = 10f64.powf(number as f64 / 2.0);
        let clustered = number % 2 == 1;
        let points: Vec<Point> = (0..3000)
            .map(|_| {
                let spread = if clustered { rng.random::<f64>().powi(6) } else { rng.random() };
                [number as f64, scale * spread, scale * rng.random::<f64>() - 5.0 * scale]
            })
            .collect();
        commit(&drifting, all.len(), &points);
        all.extend(points);
        if number % 3 == 2 {
            optimize(&drifting);
            drifting = Table::open(store.clone() as Arc<dyn Store>).unwrap();
        }
        examined(&drifting, &all, number);
    }
    optimize(&drifting);
    sound(&drifting, all.len());
}

#[test]
fn a_commit_larger_than_the_table_makes_a_grid_that_fits_it() {
    let mut rng = SmallRng::seed_from_u64(6);
    let (_, bulk) = table(|_| Domain::Learned);
    let mut all: Vec<Point> = vec![[0.0, 0.0, 0.0]];
    commit(&bulk, 0, &all);
    let points: Vec<Point> =
        (0..40_000).map(|_| [rng.random(), 1e4 * rng.random::<f64>(), 1e-3 * rng.random::<f64>()]).collect();
    commit(&bulk, 1, &points);
    all.extend(points);
    assert_eq!(grid(&bulk), 1);
    let (_, right) = table(|d| Domain::Linear(Value::Int(0), Value::Float([1.0, 1e4, 1e-3][d])));
    commit(&right, 0, &all);
    let (found, wanted) = (examined(&bulk, &all, 1), examined(&right, &all, 1));
    assert!(found <= 1.3 * wanted, "{found} rows examined for each returned, {wanted} with the right grid");
}

#[test]
fn a_writer_that_holds_an_older_grid_loses_nothing() {
    let mut rng = SmallRng::seed_from_u64(8);
    let (_, table) = table(|_| Domain::Linear(Value::Int(0), Value::Int(1)));
    let mut all = step(&mut rng, 0, 3000);
    commit(&table, 0, &all);
    let points = step(&mut rng, 1, 3000);
    let options = WriterOptions { memory_bytes: Some(1), name: Some("late".into()), ..Default::default() };
    let mut late = table.writer(&options).unwrap();
    late.append(&batch(all.len(), &points)).unwrap();
    let options = GridOptions { dimensions: Some(["y", "x"].map(Dimension::learned).into()), ..Default::default() };
    let done = table.regrid(&options, &mut |_, _| {}).unwrap();
    assert_eq!((done.grid, done.optimized.rows_moved), (1, 3000));
    late.commit().unwrap();
    all.extend(points);
    let info = table.snapshot().unwrap().info().unwrap();
    assert_eq!((info.about.rows, info.rows_to_move, info.about.grid), (6000, 3000, 1));
    assert_eq!(info.about.dimensions.iter().map(|dimension| &dimension.column[..]).collect::<Vec<_>>(), ["y", "x"]);
    examined(&table, &all, 1);
    sound(&table, all.len());
    let report = optimize(&table);
    assert_eq!((report.rows_moved, report.new_grid), (3000, false));
    let info = table.snapshot().unwrap().info().unwrap();
    assert_eq!(info.rows_to_move, 0);
    examined(&table, &all, 2);
    sound(&table, all.len());
    assert_eq!(optimize(&table).rows_moved, 0);
}

#[test]
fn a_snapshot_keeps_its_grid_and_its_rows() {
    let mut rng = SmallRng::seed_from_u64(9);
    let (_, table) = table(|_| Domain::Learned);
    let all = step(&mut rng, 3, 5000);
    commit(&table, 0, &all);
    let before = table.snapshot().unwrap();
    let token = before.token();
    let by_quantiles = ["x", "y", "t"].map(|name| Dimension { column: name.into(), domain: Domain::Quantile });
    let options = GridOptions { dimensions: Some(by_quantiles.into()), ..Default::default() };
    table.regrid(&options, &mut |_, _| {}).unwrap();
    for snapshot in [before, table.at(&token).unwrap()] {
        let info = snapshot.info().unwrap();
        assert_eq!((info.about.grid, info.about.rows, &info.about.dimensions[1].scale[..]), (0, 5000, "linear"));
    }
    let info = table.snapshot().unwrap().info().unwrap();
    assert_eq!((info.about.grid, info.about.rows, &info.about.dimensions[1].scale[..]), (1, 5000, "quantile"));
    table.regrid(&GridOptions::default(), &mut |_, _| {}).unwrap();
    let info = table.snapshot().unwrap().info().unwrap();
    assert_eq!((info.about.grid, &info.about.dimensions[1].scale[..]), (2, "quantile"));
}

#[test]
fn two_optimizers_and_a_regrid_at_once() {
    let mut rng = SmallRng::seed_from_u64(10);
    let (store, table) = table(|_| Domain::Learned);
    let mut all: Vec<Point> = Vec::new();
    for number in 0..10 {
        let points = step(&mut rng, number, 2000);
        commit(&table, all.len(), &points);
        all.extend(points);
    }
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let table = Table::open(store.clone() as Arc<dyn Store>).unwrap();
                let options = OptimizeOptions { rows_at_once: 3000, ..Default::default() };
                for _ in 0..4 {
                    table.optimize(&options, &mut |_, _| {}).unwrap();
                }
            });
        }
        scope.spawn(|| {
            for names in [vec!["x", "y"], vec!["t"], vec!["y", "t", "x"]] {
                let dimensions = Some(names.into_iter().map(Dimension::learned).collect());
                let done = table.regrid(&GridOptions { dimensions, ..Default::default() }, &mut |_, _| {});
                assert!(matches!(done, Ok(_) | Err(Error::Busy(_))), "{done:?}");
            }
        });
    });
    optimize(&table);
    assert_eq!(table.snapshot().unwrap().info().unwrap().rows_to_move, 0);
    examined(&table, &all, 3);
    sound(&table, all.len());
}

#[test]
fn bad_grids_are_refused() {
    let (_, table) = table(|_| Domain::Learned);
    let learned = |names: &[&str]| Some(names.iter().map(|name| Dimension::learned(*name)).collect());
    let refused = |dimensions: Option<Vec<Dimension>>, why: &str| match table
        .regrid(&GridOptions { dimensions, ..Default::default() }, &mut |_, _| {})
    {
        Err(error) if error.kind() == ErrorKind::InvalidInput => {
            assert!(error.to_string().contains(why), "{error}");
        }
        other => panic!("{other:?}"),
    };
    refused(None, "no values of it to learn");
    refused(learned(&["nope"]), "nope");
    let x = |low, high| Dimension { column: "x".into(), domain: Domain::Linear(Value::Int(low), Value::Int(high)) };
    refused(Some(vec![x(1, 0)]), "low < high");
    refused(Some(vec![x(0, 1), x(0, 1)]), "twice");
    refused(learned(&[]), "1 to 8");
    let cancel = Cancel::default();
    cancel.set();
    let stopped = table.regrid(&GridOptions { cancel, ..Default::default() }, &mut |_, _| {});
    assert!(matches!(stopped, Err(Error::Cancelled)), "{stopped:?}");
    assert_eq!(grid(&table), 0);
}
