//! Estimates with expected counts of regions need fewer records, and their intervals keep the coverage for
//! any table and values.

use std::sync::Arc;

use arrow_array::{BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use kubist::store::MemoryStore;
use kubist::{
    Bound, Dimension, Domain, EstimateOptions, Figure, OptimizeOptions, Query, Snapshot, Stop, Table, TableOptions,
    Value, WriterOptions,
};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

struct World {
    x: Vec<f64>,
    y: Vec<f64>,
    wave: Vec<f64>,
}

impl World {
    fn new(seed: u64, rows: usize) -> World {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut world = World { x: vec![], y: vec![], wave: vec![] };
        for _ in 0..rows {
            let crowded = random.random_bool(0.5);
            let mut at = || {
                let at: f64 = random.random();
                if crowded { 0.3 + 0.1 * at * at } else { at }
            };
            let (x, y) = (at(), at());
            let noise: f64 = (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
            world.wave.push(10.0 + 4.0 * (6.0 * x).sin() * (5.0 * y).cos() + noise);
            world.x.push(x);
            world.y.push(y);
        }
        world
    }

    fn batch(&self, rows: std::ops::Range<usize>) -> RecordBatch {
        let floats = |values: &[f64]| Arc::new(Float64Array::from(values[rows.clone()].to_vec())) as _;
        let wave = &self.wave[rows.clone()];
        RecordBatch::try_from_iter([
            ("x", floats(&self.x)),
            ("y", floats(&self.y)),
            ("wave", floats(&self.wave)),
            ("row", Arc::new(Int64Array::from_iter_values(rows.clone().map(|row| row as i64))) as _),
            ("high", Arc::new(BooleanArray::from_iter(wave.iter().map(|wave| Some(*wave > 10.0)))) as _),
            ("name", Arc::new(StringArray::from_iter_values(wave.iter().map(|wave| format!("{}", *wave > 10.0)))) as _),
        ])
        .unwrap()
    }

    fn is_inside(&self, row: usize) -> bool {
        (0.05..=0.9).contains(&self.x[row]) && (0.1..=0.95).contains(&self.y[row])
    }

    fn inside(&self) -> impl Iterator<Item = f64> + '_ {
        (0..self.x.len()).filter(|row| self.is_inside(*row)).map(|row| self.wave[row])
    }
}

fn table(batch: &RecordBatch, seed: u64) -> Table {
    let dimension =
        |name: &str| Dimension { column: name.into(), domain: Domain::Linear(Value::Float(0.0), Value::Float(1.0)) };
    let options = TableOptions {
        dimensions: ["x", "y"].map(dimension).into(),
        identity: vec!["row".into()],
        capacity: Some(256),
        seed,
        ..TableOptions::default()
    };
    Table::create(Arc::new(MemoryStore::new("expected")), batch.schema(), &options).unwrap()
}

fn written(batch: &RecordBatch, seed: u64) -> Snapshot {
    let table = table(batch, seed);
    let mut writer = table.writer(&WriterOptions::default()).unwrap();
    writer.append(batch).unwrap();
    writer.commit().unwrap();
    table.snapshot().unwrap()
}

fn the_box() -> Query {
    let bound = |column: &str, low: f64, high: f64| Bound {
        column: column.into(),
        low: Some(Value::Float(low)),
        high: Some(Value::Float(high)),
    };
    Query { bounds: vec![bound("x", 0.05, 0.9), bound("y", 0.1, 0.95)], ..Query::default() }
}

fn asked(aggregate: &str, filter: Option<&str>, group_by: &str, error: f64) -> EstimateOptions {
    EstimateOptions {
        aggregates: vec![aggregate.into()],
        group_by: [group_by].iter().filter(|by| !by.is_empty()).map(|by| by.to_string()).collect(),
        error: Some(error),
        query: Query { filter: filter.map(str::to_string), ..the_box() },
        ..EstimateOptions::default()
    }
}

fn holds(figure: &Figure, truth: f64) -> bool {
    figure.low <= truth && truth <= figure.high
}

/// Binomial bound of a 95 % proportion with a probability of 1 in 100,000.
fn slack(tries: u64) -> f64 {
    4.4 * (0.95 * 0.05 / tries as f64).sqrt()
}

#[test]
fn what_is_expected_takes_fewer_records() {
    let world = World::new(1, 200_000);
    let count = world.inside().count() as f64;
    let sum = world.inside().sum::<f64>();
    let high = world.inside().filter(|wave| *wave > 10.0).count() as f64;
    let of_high = world.inside().filter(|wave| *wave > 10.0).sum::<f64>();
    let of_x = (0..world.x.len()).filter(|row| world.is_inside(*row));
    let of_x: f64 = of_x.map(|row| world.x[row] * world.wave[row]).sum();
    let questions = [
        ("mean(wave)", None, "", 0.004, vec![sum / count], 0.5),
        ("sum(wave)", None, "", 0.01, vec![sum], 0.3),
        ("sum(wave) / count()", None, "", 0.004, vec![sum / count], 0.5),
        ("sum(x * wave) + count()", None, "", 0.012, vec![of_x + count], 0.4),
        ("share(wave > 10)", None, "", 0.015, vec![high / count], 0.85),
        ("count()", Some("wave > 10"), "", 0.02, vec![high], 0.6),
        ("sum(wave)", Some("wave > 10"), "", 0.02, vec![of_high], 0.6),
        ("count()", None, "wave > 10", 0.02, vec![count - high, high], 0.6),
    ];
    let seeds = 40;
    let mut held = vec![0; questions.len()];
    let (mut drawn, mut alone) = (vec![0; questions.len()], vec![0; questions.len()]);
    for seed in 0..seeds {
        let snapshot = written(&world.batch(0..world.x.len()), seed);
        for (number, (aggregate, filter, group_by, error, truths, _)) in questions.iter().enumerate() {
            let options = asked(aggregate, *filter, group_by, *error);
            let found = snapshot.estimate(&options, &mut |_| {}).unwrap();
            assert_eq!((found.stopped, found.figures.len()), (Stop::Goal, truths.len()), "{aggregate}");
            held[number] += found.figures.iter().zip(truths).filter(|(figure, truth)| holds(figure, **truth)).count();
            drawn[number] += found.stats.rows_returned;
            let query = Query { window: Some((0.0, 0.9999)), ..options.query.clone() };
            alone[number] +=
                snapshot.estimate(&EstimateOptions { query, ..options }, &mut |_| {}).unwrap().stats.rows_returned;
        }
    }
    for (number, (aggregate, filter, .., truths, most)) in questions.iter().enumerate() {
        let share = held[number] as f64 / (seeds as usize * truths.len()) as f64;
        let part = drawn[number] as f64 / alone[number] as f64;
        println!("{aggregate} {filter:?}: {share} hold, {part} drawn");
        assert!(share >= 0.94 - slack(seeds), "{aggregate} {filter:?}: {share} of the intervals hold the truth");
        assert!(part < *most, "{aggregate} {filter:?}: {part} of what a sample alone draws");
    }
}

/// Many commits leave overlapping runs, which the optimizer reduces step by step.
#[test]
fn intervals_hold_however_a_table_came_to_be() {
    let world = World::new(2, 120_000);
    let (sum, count) = (world.inside().sum::<f64>(), world.inside().count() as f64);
    let high = world.inside().filter(|wave| *wave > 10.0).count() as f64;
    let questions = [
        ("mean(wave)", None, 0.004, sum / count),
        ("sum(wave)", None, 0.01, sum),
        ("count()", Some("wave > 10"), 0.02, high),
    ];
    let seeds = 24;
    let mut held = [[0; 3]; 3];
    for seed in 0..seeds {
        let mut random = SmallRng::seed_from_u64(seed);
        let table = table(&world.batch(0..1), seed);
        let mut writer = table.writer(&WriterOptions::default()).unwrap();
        let mut from = 0;
        while from < world.x.len() {
            let end = (from + random.random_range(500..12_000)).min(world.x.len());
            writer.append(&world.batch(from..end)).unwrap();
            writer.commit().unwrap();
            from = end;
        }
        for state in &mut held {
            let snapshot = table.snapshot().unwrap();
            for (held, (aggregate, filter, error, truth)) in state.iter_mut().zip(&questions) {
                let found = snapshot.estimate(&asked(aggregate, *filter, "", *error), &mut |_| {}).unwrap();
                *held += holds(&found.figures[0], *truth) as u64;
            }
            table.optimize(&OptimizeOptions::default(), &mut |_, _| {}).unwrap();
        }
    }
    for (state, held) in held.iter().enumerate() {
        for (held, (aggregate, filter, ..)) in held.iter().zip(&questions) {
            let share = *held as f64 / seeds as f64;
            assert!(share >= 0.94 - slack(seeds), "{aggregate} {filter:?} after {state} turns: {share} hold");
        }
    }
}

/// Text, booleans, NaN and null positions have no expected counts; figures stay right.
#[test]
fn odd_values_spoil_nothing() {
    let mut world = World::new(3, 60_000);
    for row in (0..world.x.len()).step_by(7) {
        world.wave[row] = [f64::NAN, 1e9, -1e9, 10.0][row % 4];
    }
    for row in (0..world.x.len()).step_by(53) {
        world.y[row] = [f64::NAN, f64::INFINITY, -3.0, 7.0][row % 4];
    }
    let rows: Vec<usize> = (0..world.x.len()).filter(|row| world.is_inside(*row)).collect();
    let high = rows.iter().filter(|row| world.wave[**row] > 10.0).count() as f64;
    let present = rows.iter().filter(|row| !world.wave[**row].is_nan()).count() as f64;
    let questions = [
        ("count()", Some("wave > 10"), "", vec![high]),
        ("count()", Some("high"), "", vec![high]),
        ("count()", Some("name = 'true'"), "", vec![high]),
        ("count(wave)", Some("x < 2"), "", vec![present]),
        ("count()", None, "name", vec![rows.len() as f64 - high, high]),
    ];
    let seeds = 30;
    let mut held = vec![0; questions.len()];
    for seed in 0..seeds {
        let snapshot = written(&world.batch(0..world.x.len()), seed);
        for (held, (aggregate, filter, group_by, truths)) in held.iter_mut().zip(&questions) {
            let found = snapshot.estimate(&asked(aggregate, *filter, group_by, 0.02), &mut |_| {}).unwrap();
            assert_eq!(found.figures.len(), truths.len(), "{aggregate} {filter:?}");
            *held += found.figures.iter().zip(truths).filter(|(figure, truth)| holds(figure, **truth)).count();
        }
    }
    for (held, (aggregate, filter, _, truths)) in held.iter().zip(&questions) {
        let share = *held as f64 / (seeds as usize * truths.len()) as f64;
        assert!(share >= 0.94 - slack(seeds), "{aggregate} {filter:?}: {share} of the intervals hold the truth");
    }
    world.wave[17] = f64::INFINITY;
    let snapshot = written(&world.batch(0..world.x.len()), 1);
    let found = snapshot.estimate(&EstimateOptions { error: None, ..asked("sum(wave)", None, "", 0.0) }, &mut |_| {});
    assert!(found.is_ok_and(|found| !found.figures.is_empty()));
}
