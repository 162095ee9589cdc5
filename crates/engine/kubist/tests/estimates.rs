//! Estimates compared with all records: exact and sampled values, and the coverage of intervals.

mod coverage;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{Array, ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use kubist::store::MemoryStore;
use kubist::{
    Absolute, Bound, Dimension, Domain, ErrorKind, Estimate, EstimateOptions, Figure, Query, Snapshot, Stop, Table,
    TableOptions, Value, WriterOptions,
};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use statrs::distribution::{ContinuousCDF, Normal};

const ROWS: usize = 30_000;

struct World {
    x: Vec<f64>,
    y: Vec<f64>,
    value: Vec<Option<f64>>,
    kind: Vec<i32>,
    on: Vec<Option<bool>>,
    pid: Vec<i64>,
}

fn world(seed: u64, rows: usize, steps: i64) -> World {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut world = World { x: vec![], y: vec![], value: vec![], kind: vec![], on: vec![], pid: vec![] };
    for row in 0..rows {
        let crowded = random.random_bool(0.5);
        let coordinate =
            |random: &mut SmallRng| if crowded { 0.3 + 0.02 * random.random::<f64>() } else { random.random() };
        world.x.push(coordinate(&mut random));
        world.y.push(coordinate(&mut random));
        let noise: f64 = (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
        let value = 5.0 + noise + if crowded { 3.0 } else { 0.0 };
        world.value.push(match random.random_range(0..50) {
            0 => None,
            1 => Some(f64::NAN),
            _ => Some(value),
        });
        world.kind.push(random.random_range(0..5) * random.random_range(1..3));
        world.on.push(if random.random_bool(0.02) {
            None
        } else {
            Some(random.random_bool(if crowded { 0.8 } else { 0.1 }))
        });
        world.pid.push(row as i64 / steps);
    }
    world
}

impl World {
    fn batch(&self) -> RecordBatch {
        let rows = self.x.len();
        RecordBatch::try_from_iter_with_nullable([
            ("x", Arc::new(Float64Array::from(self.x.clone())) as Arc<dyn Array>, false),
            ("y", Arc::new(Float64Array::from(self.y.clone())), false),
            ("value", Arc::new(Float64Array::from(self.value.clone())), true),
            ("kind", Arc::new(Int32Array::from(self.kind.clone())), false),
            ("on", Arc::new(BooleanArray::from(self.on.clone())), true),
            ("pid", Arc::new(Int64Array::from(self.pid.clone())), false),
            ("row", Arc::new(Int64Array::from_iter_values(0..rows as i64)), false),
            ("name", Arc::new(StringArray::from_iter_values(self.kind.iter().map(|kind| format!("k{kind}")))), false),
        ])
        .unwrap()
    }

    fn values(&self, inside: impl Fn(usize) -> bool) -> Vec<f64> {
        let rows = (0..self.x.len()).filter(|row| inside(*row));
        rows.filter_map(|row| self.value[row]).filter(|value| !value.is_nan()).collect()
    }
}

fn table(world: &World, identity: &[&str], seed: u64) -> Snapshot {
    let dimension =
        |name: &str| Dimension { column: name.into(), domain: Domain::Linear(Value::Float(0.0), Value::Float(1.0)) };
    let options = TableOptions {
        dimensions: ["x", "y"].map(dimension).into(),
        identity: identity.iter().map(|name| name.to_string()).collect(),
        capacity: Some(512),
        seed,
        ..TableOptions::default()
    };
    let batch = world.batch();
    let table = Table::create(Arc::new(MemoryStore::new("t")), batch.schema(), &options).unwrap();
    let mut writer = table.writer(&WriterOptions::default()).unwrap();
    writer.append(&batch).unwrap();
    writer.commit().unwrap();
    table.snapshot().unwrap()
}

fn wish(aggregates: &[&str]) -> EstimateOptions {
    EstimateOptions {
        aggregates: aggregates.iter().map(|text| text.to_string()).collect(),
        ..EstimateOptions::default()
    }
}

fn all(aggregates: &[&str]) -> EstimateOptions {
    let mut wish = wish(aggregates);
    wish.query.sample = Some(1.0);
    wish
}

fn bounds(x: (f64, f64), y: (f64, f64)) -> Vec<Bound> {
    let bound = |column: &str, (low, high): (f64, f64)| Bound {
        column: column.into(),
        low: Some(Value::Float(low)),
        high: Some(Value::Float(high)),
    };
    vec![bound("x", x), bound("y", y)]
}

fn figure<'a>(estimate: &'a Estimate, name: &str) -> &'a Figure {
    estimate.figures.iter().find(|figure| figure.aggregate == name).unwrap()
}

fn near(found: Option<f64>, expected: f64) {
    let found = found.unwrap();
    assert!((found - expected).abs() <= 1e-9 * expected.abs().max(1.0), "{found} is not {expected}");
}

fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let rank = (values.len() - 1) as f64 * share;
    let (low, part) = (rank as usize, rank.fract());
    values[low] + if part > 0.0 { part * (values[low + 1] - values[low]) } else { 0.0 }
}

#[test]
fn what_is_read_whole_is_plain_arithmetic() {
    let world = world(1, ROWS, 10);
    let snapshot = table(&world, &["row"], 0);
    for ((x_ends, y_ends), boxed) in [(((0.0, 1.0), (0.0, 1.0)), false), (((0.25, 0.31), (0.1, 0.6)), true)] {
        let ((x0, x1), (y0, y1)) = (x_ends, y_ends);
        let inside = |row: usize| (x0..=x1).contains(&world.x[row]) && (y0..=y1).contains(&world.y[row]);
        let mut options = all(&[
            "count()",
            "count(value)",
            "sum(value)",
            "mean(value), std(value)",
            "variance(value)",
            "min(value)",
            "max(value)",
            "median(value)",
            "p95(value)",
            "mean(on)",
            "ratio(value, x)",
            "cov(x, value)",
            "covar(value, x)",
            "corr(x, value)",
            "weighted_mean(value, x)",
            "count_distinct(name)",
            "mean(2 * value + x)",
        ]);
        if boxed {
            options.query.bounds = bounds(x_ends, y_ends);
        }
        let estimate = snapshot.estimate(&options, &mut |_| {}).unwrap();
        assert_eq!(estimate.stopped, Stop::Exact);
        assert!(estimate.figures.iter().all(|figure| figure.exact && figure.low == figure.high), "{estimate:?}");
        assert!(estimate.warnings.is_empty(), "{:?}", estimate.warnings);
        let mut values = world.values(inside);
        let n = values.len() as f64;
        let rows: Vec<usize> = (0..ROWS).filter(|row| inside(*row)).collect();
        let known: Vec<usize> =
            rows.iter().copied().filter(|row| world.value[*row].is_some_and(|value| !value.is_nan())).collect();
        let (sum, mean) = (values.iter().sum::<f64>(), values.iter().sum::<f64>() / n);
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let xs: Vec<f64> = known.iter().map(|row| world.x[*row]).collect();
        let x_mean = xs.iter().sum::<f64>() / n;
        let of_known = |row: &usize| world.value[*row].unwrap();
        let covariance =
            known.iter().map(|row| (world.x[*row] - x_mean) * (of_known(row) - mean)).sum::<f64>() / (n - 1.0);
        let x_variance = xs.iter().map(|x| (x - x_mean).powi(2)).sum::<f64>() / (n - 1.0);
        let on: Vec<bool> = rows.iter().filter_map(|row| world.on[*row]).collect();
        let value = |name: &str| figure(&estimate, name).value;
        near(value("count()"), rows.len() as f64);
        near(value("count(value)"), n);
        near(value("sum(value)"), sum);
        near(value("mean(value)"), mean);
        near(value("variance(value)"), variance);
        near(value("std(value)"), variance.sqrt());
        near(value("min(value)"), values.iter().copied().fold(f64::INFINITY, f64::min));
        near(value("max(value)"), values.iter().copied().fold(f64::NEG_INFINITY, f64::max));
        near(value("mean(on)"), on.iter().filter(|on| **on).count() as f64 / on.len() as f64);
        near(value("ratio(value, x)"), sum / xs.iter().sum::<f64>());
        near(value("cov(x, value)"), covariance);
        near(value("covar(value, x)"), covariance);
        let weighted: f64 = known.iter().map(|row| world.x[*row] * of_known(row)).sum();
        near(value("weighted_mean(value, x)"), weighted / xs.iter().sum::<f64>());
        near(value("corr(x, value)"), covariance / (variance * x_variance).sqrt());
        near(value("mean(2 * value + x)"), 2.0 * mean + x_mean);
        let mut kinds: Vec<i32> = rows.iter().map(|row| world.kind[*row]).collect();
        kinds.sort_unstable();
        kinds.dedup();
        near(value("count_distinct(name)"), kinds.len() as f64);
        near(value("median(value)"), quantile(&mut values, 0.5));
        near(value("p95(value)"), quantile(&mut values, 0.95));
    }
}

#[test]
fn groups_and_bins_add_up() {
    let world = world(2, ROWS, 10);
    let snapshot = table(&world, &["row"], 0);
    let mut options = all(&["count()", "mean(value)", "histogram(x, 4, 0, 1)"]);
    options.group_by = vec!["kind".into(), "on".into()];
    let estimate = snapshot.estimate(&options, &mut |_| {}).unwrap();
    let batch = estimate.to_batch().unwrap();
    let mut expected: BTreeMap<(i32, Option<bool>), (u64, f64, u64)> = BTreeMap::new();
    for row in 0..ROWS {
        let group = expected.entry((world.kind[row], world.on[row])).or_default();
        group.0 += 1;
        if let Some(value) = world.value[row].filter(|value| !value.is_nan()) {
            (group.1, group.2) = (group.1 + value, group.2 + 1);
        }
    }
    assert_eq!(batch.num_rows(), expected.len() * 6);
    let kinds = batch.column_by_name("kind").unwrap().as_any().downcast_ref::<Int32Array>().unwrap().clone();
    let ons = batch.column_by_name("on").unwrap().as_any().downcast_ref::<BooleanArray>().unwrap().clone();
    for (index, ((kind, on), (count, sum, known))) in expected.iter().enumerate() {
        let row = index * 6;
        assert_eq!((kinds.value(row), ons.is_valid(row).then(|| ons.value(row))), (*kind, *on));
        near(estimate.figures[row].value, *count as f64);
        near(estimate.figures[row + 1].value, sum / *known as f64);
        let bins: f64 = (2..6).map(|bin| estimate.figures[row + bin].value.unwrap()).sum();
        near(Some(bins), *count as f64);
        assert_eq!(estimate.figures[row + 3].bin, [(0.25, 0.5)]);
    }
}

#[test]
fn outer_bins_say_what_they_hold() {
    let world = world(4, ROWS, 1);
    let snapshot = table(&world, &["row"], 0);
    let known = |values: &[Option<f64>]| {
        let known = values.iter().flatten().filter(|value| !value.is_nan());
        known.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(*value), high.max(*value)))
    };
    let ends = |estimate: &Estimate| {
        let bins = &estimate.figures;
        (bins[0].bin[0].0, bins[bins.len() - 1].bin[0].1)
    };
    let (least, most) = known(&world.value);
    let exact = snapshot.estimate(&all(&["histogram(value, 5, 0, 0.25)"]), &mut |_| {}).unwrap();
    assert_eq!(ends(&exact), (least.min(0.0), most.max(0.25)));
    // Zone maps give the extremes of a sample, unless NaN hides them.
    let of_sample = EstimateOptions { max_rows: Some(8_000), ..wish(&["histogram(x, 8, 0.25, 0.5)"]) };
    let sample = snapshot.estimate(&of_sample, &mut |_| {}).unwrap();
    let xs: Vec<Option<f64>> = world.x.iter().copied().map(Some).collect();
    assert!(!sample.figures[0].exact);
    assert_eq!(ends(&sample), known(&xs));
    assert_eq!(sample.figures[3].bin[0].0, 0.25 + 3.0 / 32.0);
    let first = snapshot.estimates(&of_sample).unwrap().next().unwrap().unwrap();
    assert_eq!((first.stopped, ends(&first)), (Stop::Progress, (f64::NEG_INFINITY, f64::INFINITY)));
    let computed = EstimateOptions { aggregates: vec!["histogram(x * 2, 8)".into()], ..of_sample };
    assert_eq!(ends(&snapshot.estimate(&computed, &mut |_| {}).unwrap()), (f64::NEG_INFINITY, f64::INFINITY));
}

#[test]
fn edges_are_round_or_logarithmic_and_bins_hold_all() {
    let world = world(5, ROWS, 1);
    let snapshot = table(&world, &["row"], 0);
    let edges = |text: &str| {
        let estimate = snapshot.estimate(&all(&[text]), &mut |_| {}).unwrap();
        let rows: f64 = estimate.figures.iter().filter_map(|figure| figure.value).sum();
        assert_eq!(rows, ROWS as f64, "{text}");
        estimate.figures.iter().map(|figure| figure.bin[0]).collect::<Vec<_>>()
    };
    let round: Vec<f64> = edges("histogram(x, 10, round)").iter().skip(1).map(|bin| bin.0).collect();
    assert_eq!(round, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]);
    let log: Vec<f64> = edges("histogram(x, 3, 0.001, 1, LOG)").iter().skip(1).map(|bin| bin.0).collect();
    assert!(log.iter().zip([0.01, 0.1]).all(|(edge, wanted)| (edge / wanted - 1.0).abs() < 1e-12), "{log:?}");
    let decades = edges("histogram(x, 4, log, round)");
    assert!(decades.iter().any(|bin| bin.0 == 0.1), "{decades:?}");
    let wrong = snapshot.estimate(&all(&["histogram(x, 3, 0, 1, log)"]), &mut |_| {}).unwrap_err().to_string();
    assert!(wrong.contains("logarithmic bins begin above 0"), "{wrong}");
}

#[test]
fn an_estimate_says_early_what_its_goal_takes() {
    let rows = 300_000i64;
    let schema = Arc::new(Schema::new(vec![Field::new("x", DataType::Float64, false)]));
    let around_zero: ArrayRef = Arc::new(Float64Array::from_iter_values(
        (0..rows).map(|row| ((row * 104_729) % rows) as f64 - rows as f64 / 2.0),
    ));
    let batch = RecordBatch::try_new(schema.clone(), vec![around_zero]).unwrap();
    let dimensions = vec![Dimension { column: "x".into(), domain: Domain::Learned }];
    let options = TableOptions { dimensions, ..TableOptions::default() };
    let table = Table::create(Arc::new(MemoryStore::new("zero")), schema, &options).unwrap();
    let mut writer = table.writer(&WriterOptions::default()).unwrap();
    writer.append(&batch).unwrap();
    writer.commit().unwrap();
    let snapshot = table.snapshot().unwrap();
    let mut told = Vec::new();
    let relative = wish(&["mean(x)"]);
    let read = snapshot.estimate(&relative, &mut |estimate| told.extend(estimate.outlook.clone())).unwrap();
    assert_eq!((read.stopped, told.len()), (Stop::Exact, 1));
    let said = told[0].to_string();
    assert!(told[0].around_zero && told[0].rows == told[0].of, "{said}");
    for part in ["records, because of mean(x)", "contains 0", "0.01 abs", "max_rows and within"] {
        assert!(said.contains(part), "{said}");
    }
    let mut told = Vec::new();
    let near =
        EstimateOptions { error: None, absolute: Some(Absolute::Number(0.1 * rows as f64)), ..wish(&["mean(x)"]) };
    let read = snapshot.estimate(&near, &mut |estimate| told.extend(estimate.outlook.clone())).unwrap();
    assert!(read.stats.rows_read < 50_000 && told.is_empty(), "{read:?}");
    let bounded = snapshot.estimate(&EstimateOptions { max_rows: Some(20_000), ..relative }, &mut |_| {}).unwrap();
    assert!(bounded.stopped == Stop::Rows && bounded.stats.rows_read < 40_000, "{bounded:?}");
}

#[test]
fn a_sample_says_what_its_records_say() {
    let world = world(3, ROWS, 10);
    let snapshot = table(&world, &["row"], 5);
    let mut options = wish(&["mean(value)", "sum(x)", "count()", "median(value)", "max(value)"]);
    options.query = Query {
        bounds: bounds((0.1, 0.9), (0.0, 0.32)),
        sample: Some(0.2),
        filter: Some("value IS NULL OR value > -100".into()),
        ..Query::default()
    };
    let estimate = snapshot.estimate(&options, &mut |_| {}).unwrap();
    assert_eq!((estimate.stopped, estimate.fraction), (Stop::Sample, 0.2));
    let (mut values, mut rows, mut sum) = (Vec::new(), 0, 0.0);
    for batch in snapshot.query(&options.query).unwrap() {
        let batch = batch.unwrap();
        rows += batch.num_rows();
        let column =
            |name: &str| batch.column_by_name(name).unwrap().as_any().downcast_ref::<Float64Array>().unwrap().clone();
        sum += column("x").iter().flatten().sum::<f64>();
        values.extend(column("value").iter().flatten().filter(|value| !value.is_nan()));
    }
    near(figure(&estimate, "mean(value)").value, values.iter().sum::<f64>() / values.len() as f64);
    near(figure(&estimate, "sum(x)").value, sum / 0.2);
    near(figure(&estimate, "count()").value, rows as f64 / 0.2);
    near(figure(&estimate, "median(value)").value, quantile(&mut values, 0.5));
    let largest = figure(&estimate, "max(value)");
    let inside = |row: usize| (0.1..=0.9).contains(&world.x[row]) && world.y[row] <= 0.32;
    near(largest.value, world.values(inside).into_iter().fold(f64::NEG_INFINITY, f64::max));
    assert!(largest.exact && estimate.stats.rows_read < ROWS as u64 / 2, "{estimate:?}");
    assert_eq!(snapshot.estimate(&options, &mut |_| {}).unwrap().figures, estimate.figures);
}

#[test]
fn the_tree_counts_boxes() {
    let world = world(4, ROWS, 10);
    let snapshot = table(&world, &["row"], 0);
    let mut options = wish(&["count()", "sum(x)"]);
    options.query.bounds = bounds((0.05, 0.95), (0.02, 0.97));
    options.query.sample = Some(0.05);
    let estimate = snapshot.estimate(&options, &mut |_| {}).unwrap();
    let inside = |row: &usize| (0.05..=0.95).contains(&world.x[*row]) && (0.02..=0.97).contains(&world.y[*row]);
    let rows: Vec<usize> = (0..ROWS).filter(inside).collect();
    let count = figure(&estimate, "count()");
    near(count.value, rows.len() as f64);
    assert!(count.exact);
    // With a known number of terms, a sum has the relative error of the mean.
    let (sum, truth) = (figure(&estimate, "sum(x)"), rows.iter().map(|row| world.x[*row]).sum::<f64>());
    assert!((sum.high - sum.low) < 0.06 * truth && (sum.value.unwrap() / truth - 1.0).abs() < 0.06, "{sum:?} {truth}");
    assert_eq!(snapshot.count(&Query { sample: None, ..options.query.clone() }).unwrap(), rows.len() as u64);
}

#[test]
fn goals_are_reached_with_few_records() {
    let world = world(5, 200_000, 10);
    let snapshot = table(&world, &["row"], 0);
    let half = |figure: &Figure| (figure.high - figure.low) / 2.0;
    let estimate =
        snapshot.estimate(&EstimateOptions { error: Some(0.02), ..wish(&["mean(value)"]) }, &mut |_| {}).unwrap();
    let mean = &estimate.figures[0];
    assert_eq!(estimate.stopped, Stop::Goal);
    assert!(half(mean) <= 0.02 * mean.value.unwrap() && estimate.stats.rows_read < 5_000, "{estimate:?}");
    let estimate = snapshot
        .estimate(&EstimateOptions { absolute: Some(Absolute::Number(0.1)), ..wish(&["mean(value)"]) }, &mut |_| {})
        .unwrap();
    assert!(half(&estimate.figures[0]) <= 0.1 && estimate.stopped == Stop::Goal);
    let estimate =
        snapshot.estimate(&EstimateOptions { error: Some(1e-6), ..wish(&["mean(value)"]) }, &mut |_| {}).unwrap();
    assert!(estimate.figures[0].exact && estimate.stopped == Stop::Exact);
    let estimate =
        snapshot.estimate(&EstimateOptions { max_rows: Some(20_000), ..wish(&["mean(value)"]) }, &mut |_| {}).unwrap();
    assert_eq!(estimate.stopped, Stop::Rows);
    assert!((5_000..=25_000).contains(&estimate.stats.rows_read), "{}", estimate.stats.rows_read);
    let within = Some(Duration::from_secs(3600));
    let estimate = snapshot.estimate(&EstimateOptions { within, ..wish(&["mean(value)"]) }, &mut |_| {}).unwrap();
    assert!(estimate.figures[0].exact, "there was time for everything");
    let within = Some(Duration::ZERO);
    let estimate = snapshot.estimate(&EstimateOptions { within, ..wish(&["mean(value)"]) }, &mut |_| {}).unwrap();
    assert_eq!(estimate.stopped, Stop::Time);
    assert!(estimate.figures.len() == 1 && estimate.figures[0].value.is_none() && !estimate.warnings.is_empty());
}

/// A condition that half of the rows meet is a proportion of a known number, which needs half the rows.
#[test]
fn parts_of_a_known_number_take_fewer_records() {
    let rows = 200_000;
    let world = world(12, rows, 10);
    let snapshot = table(&world, &["row"], 0);
    let goal = 0.01;
    // The half-width for n rows is 1.96 sqrt((1 - p) / (p n)).
    let alone = |n: f64| 1.0 / (1.0 + n * (goal / 1.96f64).powi(2));
    let left = world.x.iter().filter(|x| **x < 0.315).count() as f64;
    let least = left.min(rows as f64 - left);
    let small = world.value.iter().filter(|value| value.is_some_and(|value| value < 7.0)).count() as f64;
    for (filter, group_by, parts) in
        [(None, "x < 0.315", vec![rows as f64 - left, left]), (Some("value < 7"), "", vec![small])]
    {
        let mut options = EstimateOptions { error: Some(goal), ..wish(&["count()"]) };
        options.group_by = [group_by].iter().filter(|by| !by.is_empty()).map(|by| by.to_string()).collect();
        options.query.filter = filter.map(str::to_string);
        let estimate = snapshot.estimate(&options, &mut |_| {}).unwrap();
        assert_eq!(estimate.stopped, Stop::Goal);
        let of_least = if group_by.is_empty() { small } else { least };
        assert!(estimate.fraction < 0.75 * alone(of_least), "{} {}", estimate.fraction, alone(of_least));
        assert_eq!(estimate.figures.len(), parts.len());
        for (figure, part) in estimate.figures.iter().zip(parts) {
            assert!(!figure.exact && figure.low <= part && part <= figure.high, "{figure:?} {part}");
            assert!(figure.high - figure.low <= 2.0 * goal * part * 1.05, "{figure:?}");
        }
    }
}

#[test]
fn each_record_is_read_once_while_intervals_narrow() {
    let world = world(6, 100_000, 10);
    let snapshot = table(&world, &["row"], 0);
    let options = all(&["mean(value)"]);
    let estimates: Vec<Estimate> = snapshot.estimates(&options).unwrap().map(Result::unwrap).collect();
    assert!(estimates.len() > 3);
    let rows: Vec<u64> = estimates.iter().map(|estimate| estimate.figures[0].rows).collect();
    assert!(rows.windows(2).all(|pair| pair[0] < pair[1]));
    let last = estimates.last().unwrap();
    assert_eq!((rows[rows.len() - 1], last.stopped), (world.values(|_| true).len() as u64, Stop::Exact));
    assert!(last.stats.rows_read as f64 <= 1.3 * 100_000.0, "{}", last.stats.rows_read);
    let truth = last.figures[0].value.unwrap();
    let widths: Vec<f64> =
        estimates.iter().map(|estimate| estimate.figures[0].high - estimate.figures[0].low).collect();
    assert!(widths[0] > widths[widths.len() - 2] && widths[widths.len() - 1] == 0.0);
    assert!(estimates.iter().all(|estimate| estimate.figures[0].low <= truth && truth <= estimate.figures[0].high));
}

#[test]
fn nothing_found_is_not_nothing_there() {
    let world = world(7, 50_000, 10);
    let snapshot = table(&world, &["row"], 0);
    let mut options = wish(&["count()", "mean(value)", "sum(value)"]);
    options.query.filter = Some("row IN (17, 20000, 49999)".into());
    options.query.sample = Some(0.01);
    let estimate = snapshot.estimate(&options, &mut |_| {}).unwrap();
    let count = figure(&estimate, "count()");
    if count.value == Some(0.0) {
        assert!(count.low == 0.0 && count.high >= 3.0 && count.high.is_finite());
        let mean = figure(&estimate, "mean(value)");
        let values = world.values(|_| true);
        let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        assert!(mean.value.is_none() && mean.high >= largest.min(8.0), "{mean:?}");
    }
    options.query.sample = None;
    let estimate = snapshot.estimate(&options, &mut |_| {}).unwrap();
    assert!(estimate.figures.iter().all(|figure| figure.exact));
    near(figure(&estimate, "count()").value, 3.0);
    let empty = World { x: vec![], y: vec![], value: vec![], kind: vec![], on: vec![], pid: vec![] };
    let snapshot = table(&empty, &["row"], 0);
    let estimate =
        snapshot.estimate(&wish(&["count()", "mean(value)", "median(value)", "max(x)"]), &mut |_| {}).unwrap();
    near(figure(&estimate, "count()").value, 0.0);
    assert!(figure(&estimate, "mean(value)").value.is_none() && figure(&estimate, "max(x)").value.is_none());
}

#[test]
fn alike_values_are_not_certain() {
    let mut world = world(8, 50_000, 10);
    world.value = (0..50_000).map(|row| Some(if row % 25_000 == 9 { 101.0 } else { 1.0 })).collect();
    let snapshot = table(&world, &["row"], 3);
    let mut options = wish(&["mean(value)"]);
    options.query.sample = Some(0.01);
    let estimate = snapshot.estimate(&options, &mut |_| {}).unwrap();
    let mean = &estimate.figures[0];
    let truth = 1.0 + 2.0 * 100.0 / 50_000.0;
    assert!(mean.low <= truth && truth <= mean.high && mean.high > mean.low, "{mean:?}");
    if mean.value == Some(1.0) {
        assert!(
            estimate.warnings.iter().any(|warning| warning.contains("all values in the sample are equal")),
            "{:?}",
            estimate.warnings
        );
    }
}

fn pairs(x: Vec<f64>, other: Vec<f64>) -> Snapshot {
    let batch = RecordBatch::try_from_iter([
        ("row", Arc::new(Int64Array::from_iter_values(0..x.len() as i64)) as Arc<dyn Array>),
        ("x", Arc::new(Float64Array::from(x))),
        ("other", Arc::new(Float64Array::from(other))),
    ])
    .unwrap();
    let options = TableOptions {
        dimensions: vec![Dimension { column: "x".into(), domain: Domain::Learned }],
        identity: vec!["row".into()],
        ..TableOptions::default()
    };
    let table = Table::create(Arc::new(MemoryStore::new("pairs")), batch.schema(), &options).unwrap();
    let mut writer = table.writer(&WriterOptions::default()).unwrap();
    writer.append(&batch).unwrap();
    writer.commit().unwrap();
    table.snapshot().unwrap()
}

#[test]
fn more_values_than_are_kept_have_their_median() {
    // A sample in the order of space would have only small values.
    let rows = 5_000_000;
    let x: Vec<f64> = (0..rows).map(|row| (row as f64 * 0.618_033_988_749_895).fract()).collect();
    let snapshot = pairs(x.clone(), vec![0.0; rows]);
    let estimate = snapshot.estimate(&all(&["median(x)", "p95(x)"]), &mut |_| {}).unwrap();
    let mut x = x;
    assert!(estimate.figures.iter().all(|figure| figure.exact));
    near(figure(&estimate, "median(x)").value, quantile(&mut x, 0.5));
    near(figure(&estimate, "p95(x)").value, quantile(&mut x, 0.95));
}

#[test]
fn a_goal_is_not_reached_by_seeing_nothing() {
    let rows = 200_000;
    let x: Vec<f64> = (0..rows).map(|row| row as f64).collect();
    let rare: Vec<f64> = (0..rows).map(|row| if row % 20_000 == 77 { 1.0 } else { 0.0 }).collect();
    let snapshot = pairs(x.clone(), rare);
    for aggregate in
        ["sum(other)", "mean(other)", "std(other)", "mean(2 * other)", "ratio(other, x)", "weighted_mean(other, x)"]
    {
        let estimate =
            snapshot.estimate(&EstimateOptions { error: Some(0.01), ..wish(&[aggregate]) }, &mut |_| {}).unwrap();
        assert!(estimate.figures[0].exact && estimate.figures[0].value > Some(0.0), "{aggregate}: {estimate:?}");
        let options =
            EstimateOptions { query: Query { sample: Some(0.002), ..Query::default() }, ..wish(&[aggregate]) };
        let seen = snapshot.estimate(&options, &mut |_| {}).unwrap();
        let (seen, truth) = (&seen.figures[0], estimate.figures[0].value.unwrap());
        assert!(seen.low <= truth && truth <= seen.high && seen.low < seen.high, "{aggregate}: {seen:?} {truth}");
    }
    let snapshot = pairs(x.clone(), vec![3.5; rows]);
    let estimate = snapshot.estimate(&wish(&["mean(other)"]), &mut |_| {}).unwrap();
    assert!(estimate.figures[0].exact && estimate.stats.rows_read < 10_000, "{estimate:?}");
    let snapshot = pairs(x.clone(), x.iter().map(|x| if x % 9.0 == 0.0 { f64::INFINITY } else { *x }).collect());
    let options = EstimateOptions { max_rows: Some(5_000), error: Some(0.01), ..wish(&["mean(other)"]) };
    let estimate = snapshot.estimate(&options, &mut |_| {}).unwrap();
    let mean = &estimate.figures[0];
    assert!(mean.low <= 1.0 && mean.high == f64::INFINITY && estimate.stopped != Stop::Goal, "{mean:?}");
    let estimate = snapshot.estimate(&wish(&["stddev(other)", "variance(other)"]), &mut |_| {}).unwrap();
    assert!(estimate.figures.iter().all(|figure| figure.value.is_none_or(f64::is_nan)), "{estimate:?}");
    let snapshot = pairs(x.clone(), vec![f64::INFINITY; rows]);
    let estimate = snapshot.estimate(&wish(&["median(other)"]), &mut |_| {}).unwrap();
    assert_eq!(estimate.figures[0].value, Some(f64::INFINITY), "{estimate:?}");
}

#[test]
fn questions_that_make_no_sense_are_refused() {
    let world = world(9, 25_000, 1);
    let snapshot = table(&world, &["row"], 0);
    let refused = |options: &EstimateOptions| match snapshot.estimate(options, &mut |_| {}) {
        Err(error) if error.kind() == ErrorKind::InvalidInput => error.to_string(),
        other => panic!("{other:?}"),
    };
    let with = |change: &dyn Fn(&mut EstimateOptions)| {
        let mut options = wish(&["mean(value)"]);
        change(&mut options);
        options
    };
    for (options, part) in [
        (wish(&[]), "at least one aggregate"),
        (wish(&["mode(value)"]), "there is no aggregate \"mode\""),
        (wish(&["mean(name)"]), "`name` of type Utf8 is not a number"),
        (wish(&["mean(speed)"]), "no column `speed`"),
        (with(&|o| o.error = Some(0.0)), "error must be above 0, found 0"),
        (with(&|o| o.error = Some(f64::NAN)), "error must be above 0"),
        (with(&|o| o.absolute = Some(Absolute::Number(-1.0))), "absolute must be above 0, found -1"),
        (with(&|o| o.confidence = 1.0), "confidence must be between 0 and 1"),
        (with(&|o| o.query.limit = Some(5)), "takes no limit"),
        (with(&|o| o.query.sample = Some(0.0)), "sample must be above 0"),
        (with(&|o| (o.query.window, o.query.sample) = (Some((0.5, 0.6)), Some(0.3))), "sample must be above 0.5"),
        (with(&|o| o.aggregates = vec!["mean(value)".into(); 65]), "one estimate has at most 64"),
        (
            EstimateOptions { group_by: vec!["pid".into()], ..wish(&["histogram(x, 65536)"]) },
            "would take too much memory",
        ),
        (wish(&["histogram(x, 65536)"; 5]), "figures would take too much memory; ask for fewer at once"),
        (with(&|o| o.max_rows = Some(0)), "above 0"),
        (with(&|o| o.group_by = vec!["row".into()]), "more than 10,000 groups"),
        (with(&|o| o.group_by = vec!["speed".into()]), "speed"),
        (with(&|o| o.group_by = vec!["value".into()]), "already has a column \"value\""),
        (with(&|o| o.tails = Some(0.5)), "tails must be in (0, 0.1]"),
        (EstimateOptions { tails: Some(0.01), ..wish(&["median(value)"]) }, "tails: not supported for median(value)"),
        (with(&|o| o.query.filter = Some("x >".into())), "character"),
    ] {
        let message = refused(&options);
        assert!(message.contains(part), "{message}");
    }
}
