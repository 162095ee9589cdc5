//! Samples of unequal probability: an oracle that computes every priority, and estimates over many seeds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use kubist::{
    Bound, CommitOptions, CopyOptions, Dimension, Domain, Estimate, EstimateOptions, GridOptions, Query, Snapshot,
    Stop, Table, TableOptions, Value, VerifyOptions, WriterOptions,
};
use kubist_index::priority::{PriorityRange, Threshold, inclusion, priorities, stored_weight, weigh};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::fresh::{elsewhere, fresh_store};

const ROWS: i64 = 12_000;

struct World {
    x: Vec<f64>,
    size: Vec<f64>,
    class: Vec<i64>,
}

fn world(seed: u64, rows: i64) -> World {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut world = World { x: vec![], size: vec![], class: vec![] };
    for row in 0..rows {
        world.x.push(random.random());
        // A Pareto distribution with exponent 1.2.
        world.size.push((1.0 - random.random::<f64>()).powf(-1.0 / 1.2));
        world.class.push(if row % 400 == 7 { 2 } else { row % 2 });
    }
    world
}

impl World {
    fn batch(&self, rows: std::ops::Range<usize>) -> RecordBatch {
        let float = |values: &[f64]| Arc::new(Float64Array::from(values[rows.clone()].to_vec())) as ArrayRef;
        let ids = Int64Array::from_iter_values(rows.clone().map(|row| row as i64));
        RecordBatch::try_from_iter([
            ("id", Arc::new(ids) as ArrayRef),
            ("x", float(&self.x)),
            ("size", float(&self.size)),
            ("class", Arc::new(Int64Array::from(self.class[rows.clone()].to_vec()))),
        ])
        .unwrap()
    }

    fn rows(&self) -> usize {
        self.x.len()
    }
}

fn options(weight: Option<&str>, strata: &[&str], seed: u64) -> TableOptions {
    let x = Dimension { column: "x".into(), domain: Domain::Linear(Value::Float(0.0), Value::Float(1.0)) };
    let strata: Vec<String> = strata.iter().map(|name| name.to_string()).collect();
    TableOptions {
        dimensions: vec![x],
        identity: vec!["id".into()],
        capacity: Some(64),
        seed,
        sampling: (weight.map(str::to_string), strata, None::<u32>).try_into().unwrap(),
        ..TableOptions::default()
    }
}

fn table(world: &World, options: &TableOptions) -> Table {
    let batch = world.batch(0..world.rows());
    let table = Table::create(fresh_store("weights"), batch.schema(), options).unwrap();
    let mut writer = table.writer(&WriterOptions::default()).unwrap();
    writer.append(&batch).unwrap();
    writer.commit().unwrap();
    table
}

fn found(snapshot: &Snapshot, query: Query) -> BTreeMap<i64, f64> {
    let columns = Some(vec!["id".to_string(), "inclusion".to_string()]);
    let mut all = BTreeMap::new();
    for batch in snapshot.query(&Query { columns, ..query }).unwrap() {
        let batch = batch.unwrap();
        let ids = batch["id"].as_primitive::<Int64Type>().values();
        let chances = batch["inclusion"].as_primitive::<Float64Type>().values();
        for (id, chance) in ids.iter().zip(chances) {
            assert!(all.insert(*id, *chance).is_none(), "row {id} twice");
        }
    }
    all
}

fn check(snapshot: &Snapshot, world: &World, weights: &[f32], seed: u64) {
    let ids = Int64Array::from_iter_values(0..world.rows() as i64);
    let mut known = priorities(&[&ids], world.rows(), seed);
    weigh(&mut known, weights);
    let cuts = [(0.0, 1e-4), (0.0, 0.01), (0.0, 0.2), (0.1, 0.3), (0.0, 1.0), (0.9, 1.0)];
    for (low, high) in cuts {
        let range = PriorityRange::between(Threshold::from_fraction(low), Threshold::from_fraction(high)).unwrap();
        for (left, right) in [(0.0, 1.0), (0.25, 0.4)] {
            let inside = |row: &usize| range.holds(known[*row]) && (left..=right).contains(&world.x[*row]);
            let wanted: BTreeMap<i64, f64> =
                (0..world.rows()).filter(inside).map(|row| (row as i64, inclusion(weights[row], range))).collect();
            let bound = Bound { column: "x".into(), low: Some(Value::Float(left)), high: Some(Value::Float(right)) };
            let query = Query { window: Some((low, high)), bounds: vec![bound], ..Query::default() };
            assert_eq!(found(snapshot, query), wanted, "window {low} to {high}, x from {left} to {right}");
        }
    }
    // The first excluded priority determines the probabilities.
    let mut order: Vec<usize> = (0..world.rows()).collect();
    order.sort_by_key(|row| known[*row]);
    let below = PriorityRange::between(Threshold::NONE, Threshold::new(known[order[300]].into())).unwrap();
    let wanted: BTreeMap<i64, f64> =
        order[..300].iter().map(|row| (*row as i64, inclusion(weights[*row], below))).collect();
    assert_eq!(found(snapshot, Query { limit: Some(300), ..Query::default() }), wanted);
}

#[test]
fn samples_by_weight_are_the_oracles_through_every_change() {
    let (world, seed) = (world(1, ROWS), 5);
    let batch = world.batch(0..world.rows());
    let table = Table::create(fresh_store("weights"), batch.schema(), &options(Some("size / 2"), &[], seed)).unwrap();
    let commit = |name: &str, memory: Option<usize>, rows: std::ops::Range<usize>, step: Option<i64>| {
        let options = WriterOptions { name: Some(name.into()), memory_bytes: memory, ..WriterOptions::default() };
        let mut writer = table.writer(&options).unwrap();
        writer.append(&world.batch(rows.start..rows.start + rows.len() / 2)).unwrap();
        writer.append(&world.batch(rows.start + rows.len() / 2..rows.end)).unwrap();
        writer.commit_as(&CommitOptions { step, ..CommitOptions::default() }).unwrap();
    };
    commit("ada", None, 0..4_000, None);
    commit("ben", Some(1), 4_000..8_000, None);
    commit("cy", None, 8_000..12_000, Some(1));
    table.retract(0).unwrap();
    commit("cy", None, 8_000..12_000, Some(1));
    // The scale is the mean of the first commit, where a row counts as at most 100 times the mean.
    let mean = |most: f64| world.size[..4_000].iter().map(|size| (size / 2.0).min(most) / 4_000.0).sum::<f64>();
    let scale = (0..200).fold(mean(f64::INFINITY), |scale, _| mean(100.0 * scale));
    let weights: Vec<f32> = world.size.iter().map(|size| stored_weight(size / 2.0 / scale)).collect();
    check(&table.snapshot().unwrap(), &world, &weights, seed);
    table.optimize(&Default::default(), &mut |_, _| {}).unwrap();
    check(&table.snapshot().unwrap(), &world, &weights, seed);
    let size = Dimension { column: "size".into(), domain: Domain::Quantile };
    table.regrid(&GridOptions { dimensions: Some(vec![size]), ..GridOptions::default() }, &mut |_, _| {}).unwrap();
    table.checkpoint().unwrap();
    table.clean(Duration::ZERO).unwrap();
    let reopened = Table::open(elsewhere(&table.core().store)).unwrap();
    check(&reopened.snapshot().unwrap(), &world, &weights, seed);
    let report = reopened.verify(&VerifyOptions::default(), &mut |_, _| {}).unwrap();
    assert!(report.is_sound(), "{report:?}");
    let copy = fresh_store("copy");
    reopened.snapshot().unwrap().copy_to(copy.clone(), &CopyOptions::default(), &mut |_, _| {}).unwrap();
    let copy = Table::open(elsewhere(&copy)).unwrap();
    check(&copy.snapshot().unwrap(), &world, &weights, seed);
    assert_eq!(copy.snapshot().unwrap().about().unwrap().sampling, "by weight size / 2");
    assert_eq!(copy.snapshot().unwrap().about().unwrap().format_version, 1);
}

#[test]
fn each_stratum_is_in_every_sample() {
    let (world, seed) = (world(2, ROWS), 9);
    let snapshot = table(&world, &options(None, &["class"], seed)).snapshot().unwrap();
    let counted = |class: i64| world.class.iter().filter(|other| **other == class).count() as f64;
    let weight = |class: &i64| stored_weight((1.0 + ROWS as f64 / 3.0 / counted(*class)) / 2.0);
    let weights: Vec<f32> = world.class.iter().map(weight).collect();
    check(&snapshot, &world, &weights, seed);
    // Expected: at least 0.004 * 12,000 / (2 * 3) rows; a uniform sample would have 0.1 rows.
    let sample = found(&snapshot, Query { sample: Some(0.004), ..Query::default() });
    let rare = sample.keys().filter(|id| world.class[**id as usize] == 2).count();
    assert!(rare >= 3, "{rare} rows of 30");
}

/// Samples of 1 % have on average `least` rows of each class, or all of its rows.
fn with_least(least: u32, seed: u64) -> TableOptions {
    let sampling = (None::<String>, vec!["class".to_string()], Some(least)).try_into().unwrap();
    TableOptions { sampling, ..options(None, &[], seed) }
}

/// The classes of the second commit are new, and some values are null.
#[test]
fn samples_of_one_percent_have_the_least_rows_of_each_stratum() {
    let (mut world, least) = (world(2, ROWS), 25);
    let half = world.rows() / 2;
    world.class[half..].iter_mut().filter(|class| **class == 1).for_each(|class| *class = 3);
    world.class[half] = 4;
    let nullable = |rows: std::ops::Range<usize>| {
        let class = world.class[rows.clone()].iter().map(|class| (*class != 0).then_some(*class));
        let class = Arc::new(class.collect::<Int64Array>()) as ArrayRef;
        let columns = world.batch(rows);
        let of = |name: &str| columns.column_by_name(name).unwrap().clone();
        RecordBatch::try_from_iter_with_nullable([
            ("id", of("id"), false),
            ("x", of("x"), false),
            ("size", of("size"), false),
            ("class", class, true),
        ])
        .unwrap()
    };
    let (mut counts, mut weights) = (BTreeMap::<i64, f64>::new(), Vec::new());
    for rows in [0..half, half..world.rows()] {
        world.class[rows.clone()].iter().for_each(|class| *counts.entry(*class).or_default() += 1.0);
        let each = counts.values().sum::<f64>() / counts.len() as f64;
        let weight = |class: &i64| {
            let weight = (1.0 + each / counts[class]) / 2.0;
            stored_weight(weight.max(99.0 * f64::from(least) / counts[class]))
        };
        weights.extend(world.class[rows].iter().map(weight));
    }
    let expected = |class: i64| {
        let range = PriorityRange::between(Threshold::NONE, Threshold::from_fraction(0.01)).unwrap();
        let of_class = world.class.iter().zip(&weights).filter(|(other, _)| **other == class);
        of_class.map(|(_, weight)| inclusion(*weight, range)).sum::<f64>()
    };
    for (class, rows) in &counts {
        assert!(expected(*class) >= 0.999 * rows.min(f64::from(least)), "{} of class {class}", expected(*class));
    }
    let mut found_of = BTreeMap::<i64, f64>::new();
    for seed in 0..20 {
        let table = Table::create(fresh_store("least"), nullable(0..1).schema(), &with_least(least, seed)).unwrap();
        let mut writer = table.writer(&WriterOptions::default()).unwrap();
        for rows in [0..half, half..world.rows()] {
            writer.append(&nullable(rows)).unwrap();
            writer.commit().unwrap();
        }
        let snapshot = table.snapshot().unwrap();
        check(&snapshot, &world, &weights, seed);
        let sample = found(&snapshot, Query { sample: Some(0.01), ..Query::default() });
        sample.keys().for_each(|id| *found_of.entry(world.class[*id as usize]).or_default() += 1.0 / 20.0);
    }
    for (class, found) in &found_of {
        let expected = expected(*class);
        assert!((found - expected).abs() < 5.0 * (expected / 20.0).sqrt(), "{found} of {expected} of class {class}");
    }
    assert_eq!(found_of.len(), counts.len());
}

fn estimate(snapshot: &Snapshot, aggregates: &[&str], sample: Option<f64>) -> Estimate {
    let mut options = EstimateOptions { aggregates: vec![], ..EstimateOptions::default() };
    options.aggregates = aggregates.iter().map(|text| text.to_string()).collect();
    options.query.sample = sample;
    snapshot.estimate(&options, &mut |_| {}).unwrap()
}

/// Over many seeds: the mean error in units of its standard error, and the coverage of intervals.
struct Held {
    bias: f64,
    held: f64,
}

fn over_seeds(
    world: &World,
    options: impl Fn(u64) -> TableOptions,
    aggregates: &[(&str, f64)],
    sample: f64,
    seeds: u64,
) -> Vec<Held> {
    let names: Vec<&str> = aggregates.iter().map(|(name, _)| *name).collect();
    let mut errors = vec![Vec::new(); names.len()];
    let mut held = vec![0u32; names.len()];
    for seed in 0..seeds {
        let snapshot = table(world, &options(seed)).snapshot().unwrap();
        let estimate = estimate(&snapshot, &names, Some(sample));
        assert_eq!(estimate.stopped, Stop::Sample);
        for (number, (name, truth)) in aggregates.iter().enumerate() {
            let figure = estimate.figures.iter().find(|figure| figure.aggregate == *name).unwrap();
            assert!(!figure.exact);
            errors[number].push(figure.value.unwrap() - truth);
            // A class that is certainly in the sample has an interval of rounding errors.
            let near = 1e-9 * truth.abs();
            held[number] += u32::from(figure.low - near <= *truth && *truth <= figure.high + near);
        }
    }
    let figures = errors.iter().zip(held).zip(aggregates).map(|((errors, held), (_, truth))| {
        let rows = errors.len() as f64;
        let mean = errors.iter().sum::<f64>() / rows;
        let variance = errors.iter().map(|error| (error - mean).powi(2)).sum::<f64>() / (rows - 1.0);
        Held { bias: mean / (variance / rows).sqrt().max(1e-9 * truth.abs()), held: f64::from(held) / rows }
    });
    figures.collect()
}

fn truths(world: &World) -> Vec<(&'static str, f64)> {
    let rows = world.rows() as f64;
    let total: f64 = world.size.iter().sum();
    let (mut of_x, mut x) = (0.0, 0.0);
    for row in 0..world.rows() {
        of_x += world.x[row] * world.size[row];
        x += world.x[row];
    }
    let rare = world.class.iter().filter(|class| **class == 2).count() as f64;
    let odd = world.class.iter().filter(|class| **class == 1).count() as f64;
    vec![
        ("count()", rows),
        ("sum(x * size)", of_x),
        ("mean(x)", x / rows),
        ("mean(size)", total / rows),
        ("share(class = 1)", odd / rows),
        ("sum(class = 2)", rare),
        ("sum(x * size) / sum(size)", of_x / total),
        ("weighted_mean(x, size)", of_x / total),
    ]
}

/// 60 seeds, so the bounds are wide; `KUBIST_SEEDS=2000` repeats the campaign of docs/samples.md.
#[test]
fn estimates_by_weight_and_by_strata_are_unbiased_and_their_intervals_hold() {
    let seeds = std::env::var("KUBIST_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(60u64);
    let world = world(3, 6_000);
    let (by_weight, by_strata) = (|seed| options(Some("size"), &[], seed), |seed| options(None, &["class"], seed));
    // At least 50 rows of each class in 1 % double the weights of the two frequent classes.
    let kinds: [(&str, &dyn Fn(u64) -> TableOptions); 3] =
        [("weight", &by_weight), ("strata", &by_strata), ("least", &|seed| with_least(50, seed))];
    for (kind, options) in kinds {
        let mut aggregates = truths(&world);
        // By strata, sums of heavy tails are no better than in a uniform sample.
        aggregates.retain(|(name, _)| kind == "weight" || !name.contains("size"));
        // By weight, a class that does not determine the weights stays rare in samples.
        aggregates.retain(|(name, _)| kind != "weight" || *name != "sum(class = 2)");
        for ((name, _), Held { bias, held }) in
            aggregates.iter().zip(over_seeds(&world, options, &aggregates, 0.1, seeds))
        {
            println!("{kind} {name}: bias {bias:.2} standard errors, {:.1} % hold", 100.0 * held);
            let noise = 4.0 * (0.05f64 * 0.95 / seeds as f64).sqrt();
            assert!(bias.abs() < 4.0, "{kind} {name}: bias of {bias} standard errors");
            assert!((held - 0.95).abs() < 0.01 + noise, "{kind} {name}: {held} hold");
        }
    }
}

#[test]
fn a_rare_class_and_a_dominated_sum_need_a_twentieth_of_the_rows() {
    // The largest 1 % of the rows have almost all of the sum; one row in 10,000 has class 2.
    let mut random = SmallRng::seed_from_u64(4);
    let rows = 200_000;
    let mut world = World { x: vec![], size: vec![], class: vec![] };
    for row in 0..rows {
        world.x.push(random.random());
        world.size.push(if row % 100 == 3 { 1_000.0 + 500.0 * random.random::<f64>() } else { 0.1 });
        world.class.push(i64::from(row % 10_000 == 77) * 2);
    }
    let half = |weight, strata: &[&str], aggregate: &str, sample| {
        let snapshot = table(&world, &options(weight, strata, 1)).snapshot().unwrap();
        let estimate = estimate(&snapshot, &[aggregate], Some(sample));
        let figure = &estimate.figures[0];
        (figure.rows as f64, (figure.high - figure.low) / 2.0 / figure.value.unwrap())
    };
    // The half-width of an interval falls with the square root of the rows.
    let rows_for = |(rows, half): (f64, f64)| rows * (half / 0.01).powi(2);
    let (uniform, weighted) = (half(None, &[], "sum(size)", 0.05), half(Some("size"), &[], "sum(size)", 0.01));
    let gain = rows_for(uniform) / rows_for(weighted);
    println!("a sum dominated by 1 %: {gain:.0} times fewer rows; {uniform:?} and {weighted:?}");
    assert!(gain > 20.0, "{gain}");
    let rare = |strata: &[&str], sample| {
        let snapshot = table(&world, &options(None, strata, 1)).snapshot().unwrap();
        let sample = found(&snapshot, Query { sample: Some(sample), ..Query::default() });
        let of_class = sample.keys().filter(|id| world.class[**id as usize] == 2).count();
        (of_class, sample.len())
    };
    // A uniform sample of a fifth of the rows has 4 of the 20 rows of the class.
    let (of_class, sampled) = rare(&["class"], 0.01);
    let (uniform, of) = rare(&[], 0.2);
    println!("a class of 0.01 %: {of_class} of 20 in {sampled} rows; uniform {uniform} in {of} rows");
    assert!(of_class == 20 && sampled < 2_000 && uniform < 12, "{of_class} in {sampled}, {uniform} in {of}");
}

#[test]
fn a_goal_is_reached_with_few_rows_and_extremes_are_exact() {
    let world = world(5, 60_000);
    let snapshot = table(&world, &options(Some("size"), &[], 0)).snapshot().unwrap();
    let total: f64 = world.size.iter().sum();
    let largest = world.size.iter().copied().fold(0.0, f64::max);
    let estimate = estimate(&snapshot, &["sum(size)", "max(size)"], None);
    assert_eq!(estimate.stopped, Stop::Goal);
    let figure = |name: &str| estimate.figures.iter().find(|figure| figure.aggregate == name).unwrap();
    let sum = figure("sum(size)");
    assert!(sum.low <= total && total <= sum.high && sum.high - sum.low < 0.02 * total);
    assert_eq!((figure("max(size)").value, figure("max(size)").exact), (Some(largest), true));
    let counted = self::estimate(&snapshot, &["count()"], None);
    assert_eq!((counted.figures[0].value, counted.figures[0].exact), (Some(60_000.0), true));
}

#[test]
fn groups_are_weighed_too() {
    let world = world(6, ROWS);
    let snapshot = table(&world, &options(Some("size"), &[], 3)).snapshot().unwrap();
    let options = EstimateOptions {
        aggregates: vec!["sum(size)".into(), "mean(size)".into()],
        group_by: vec!["class".into()],
        query: Query { sample: Some(0.3), ..Query::default() },
        ..EstimateOptions::default()
    };
    let estimate = snapshot.estimate(&options, &mut |_| {}).unwrap();
    let classes = estimate.groups.column(0).as_primitive::<Int64Type>();
    for figure in &estimate.figures {
        let class = classes.value(figure.group);
        let sizes: Vec<f64> =
            (0..world.rows()).filter(|row| world.class[*row] == class).map(|row| world.size[row]).collect();
        let total: f64 = sizes.iter().sum();
        let truth = if figure.aggregate == "sum(size)" { total } else { total / sizes.len() as f64 };
        let value = figure.value.unwrap();
        assert!((value - truth).abs() < 2.5 * (figure.high - figure.low), "{figure:?} of {class}, in truth {truth}");
        assert!(class == 2 || (value - truth).abs() < 0.5 * truth, "{figure:?} of {class}, in truth {truth}");
    }
}

#[test]
fn values_need_all_rows_or_are_refused() {
    let world = world(7, ROWS);
    let snapshot = table(&world, &options(Some("size"), &[], 3)).snapshot().unwrap();
    let mut sizes = world.size.clone();
    sizes.sort_by(f64::total_cmp);
    let median = (sizes[ROWS as usize / 2 - 1] + sizes[ROWS as usize / 2]) / 2.0;
    let found = estimate(&snapshot, &["median(size)", "mean(x)", "count_distinct(class)"], None);
    assert_eq!(found.stopped, Stop::Exact);
    assert!((found.figures[0].value.unwrap() - median).abs() < 1e-12);
    assert!(found.figures.iter().all(|figure| figure.exact));
    let refused = |change: &dyn Fn(&mut EstimateOptions)| {
        let mut options = EstimateOptions { aggregates: vec!["mean(x)".into()], ..EstimateOptions::default() };
        change(&mut options);
        snapshot.estimate(&options, &mut |_| {}).unwrap_err().to_string()
    };
    let limited = refused(&|options| {
        options.aggregates = vec!["median(size)".into()];
        options.query.sample = Some(0.1);
    });
    assert!(limited.contains("median(size)") && limited.contains("needs all rows"), "{limited}");
    let window = refused(&|options| options.query.window = Some((0.5, 0.6)));
    assert!(window.contains("window") && window.contains("unequal probabilities"), "{window}");
    assert!(refused(&|options| options.tails = Some(0.01)).contains("tails"));
}

#[test]
fn bad_weights_and_strata_are_refused_by_name_row_and_value() {
    let create = |weight: Option<&str>, strata: &[&str]| {
        Table::create(fresh_store("bad"), world(1, 1).batch(0..1).schema(), &options(weight, strata, 0))
    };
    let refused = |weight, strata: &[&str]| create(weight, strata).unwrap_err().to_string();
    assert!(refused(Some("sise"), &[]).contains("sise"));
    assert!(refused(Some("size > 1"), &[]).contains("is a condition"));
    assert!(refused(None, &["klass"]).contains("klass"));
    assert!(refused(None, &["class", "CLASS"]).contains("given twice"));
    let least = |least| {
        let batch = world(1, 1).batch(0..1);
        Table::create(fresh_store("bad"), batch.schema(), &with_least(least, 0))
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    assert_eq!(least(10_000), Ok(()));
    assert!(least(10_001).unwrap_err().contains("least must be at most 10000"));
    let alone = kubist_types::options::Sampling::try_from((None::<String>, Vec::<String>::new(), Some(5u32)));
    assert!(alone.unwrap_err().to_string().contains("name the columns of strata"));
    let table = create(Some("size - 2"), &[]).unwrap();
    for (size, found) in [(2.0, "is 0:"), (1.0, "is -1:"), (f64::NAN, "null or NaN"), (f64::INFINITY, "is inf")] {
        let mut world = world(1, 40);
        world.size.iter_mut().for_each(|size| *size += 2.0);
        world.size[31] = size;
        let mut writer = table.writer(&WriterOptions::default()).unwrap();
        let error = writer.append(&world.batch(0..40)).unwrap_err().to_string();
        let named = [table.location(), "\"size - 2\"", "row 31", found];
        assert!(named.iter().all(|part| error.contains(part)), "{error}");
    }
    // One giant is in each sample, and the other rows keep their order of size.
    let mut giant = world(1, 1_000);
    giant.size[500] = 1e300;
    let snapshot = self::table(&giant, &options(Some("size"), &[], 0)).snapshot().unwrap();
    assert_eq!(found(&snapshot, Query { sample: Some(1e-5), ..Query::default() }).get(&500), Some(&1.0));
    let others = found(&snapshot, Query { sample: Some(0.1), ..Query::default() }).len();
    assert!((30..130).contains(&others), "{others}");
    assert_eq!(found(&snapshot, Query::default()).len(), 1_000);
    let x = Float64Array::from_iter_values((0..20_000).map(|row| row as f64 / 20_000.0));
    let names = StringArray::from_iter_values((0..20_000).map(|row| format!("n{row}")));
    let batch = RecordBatch::try_from_iter([("x", Arc::new(x) as ArrayRef), ("name", Arc::new(names))]).unwrap();
    let options = TableOptions { identity: vec![], ..options(None, &["name"], 0) };
    let table = Table::create(fresh_store("bad"), batch.schema(), &options).unwrap();
    let mut writer = table.writer(&WriterOptions::default()).unwrap();
    writer.append(&batch).unwrap();
    let error = writer.commit().unwrap_err().to_string();
    assert!(error.contains(table.location()) && error.contains("strata of name") && error.contains("10000"), "{error}");
    // Only the writers know the priorities, so a budget cannot select rows by them.
    let table = create(Some("size"), &[]).unwrap();
    assert!(table.priorities(&world(1, 3).batch(0..3)).unwrap_err().to_string().contains("by weight size"));
}
