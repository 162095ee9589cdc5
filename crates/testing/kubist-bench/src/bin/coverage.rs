//! Coverage of intervals and bias of estimates: `make coverage` prints docs/coverage.md.
//!
//! A population of clustered points has values of named distributions that correlate with the density of points (a
//! normal copula). It is stored many times under different seeds, which give different samples, and every estimate is
//! compared with the exact value.
//!
//! Environment variables: `SEEDS` (2000), `ROWS` per table (100,000), `FROM` (0), the first seed, and `ONLY`, the name
//! of one table of kinds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{Float32Array, Float64Array, Int64Array, RecordBatch};
use kubist::store::MemoryStore;
use kubist::{
    Bound, Dimension, Domain, Estimate, EstimateOptions, Query, Snapshot, Stop, Table, TableOptions, Value,
    WriterOptions,
};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use statrs::distribution::{ContinuousCDF, Normal};

#[global_allocator]
static ALLOCATOR: kubist_memory::Allocator = kubist_memory::Allocator;

const CORRELATION: f64 = 0.7;
const CLUSTERS: usize = 200;
const STEPS: i64 = 50;

const FINE: u32 = 64;

const DISTRIBUTIONS: [(&str, fn(f64) -> f64); 5] = [
    ("normal", |u| 10.0 + 3.0 * Normal::standard().inverse_cdf(u)),
    ("uniform", |u| u),
    ("lognormal1", |u| Normal::standard().inverse_cdf(u).exp()),
    ("lognormal2", |u| (2.0 * Normal::standard().inverse_cdf(u)).exp()),
    ("pareto", |u| (1.0 - u).powf(-1.0 / 1.5)),
];

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Half of the points are in clusters; values follow the rank of density.
fn population(rows: usize) -> RecordBatch {
    let mut random = StdRng::seed_from_u64(1);
    let normal = |random: &mut StdRng| Normal::standard().inverse_cdf(random.random_range(1e-12..1.0));
    let clusters: Vec<([f64; 3], f64)> = (0..CLUSTERS)
        .map(|_| ([0; 3].map(|_| random.random()), 0.002 * (random.random::<f64>() * 3.0).exp()))
        .collect();
    let mut points = Vec::with_capacity(rows);
    for row in 0..rows {
        points.push(match row % 2 {
            0 => ([0; 3].map(|_| random.random::<f64>()), -0.1),
            _ => {
                let (centre, size) = clusters[random.random_range(0..CLUSTERS)];
                (centre.map(|at| (at + size * normal(&mut random)).clamp(0.0, 1.0)), -size.ln())
            }
        });
    }
    let mut order: Vec<usize> = (0..rows).collect();
    let jitter: Vec<f64> = (0..rows).map(|_| random.random::<f64>() * 1e-3).collect();
    order.sort_by(|a, b| (points[*a].1 + jitter[*a]).total_cmp(&(points[*b].1 + jitter[*b])));
    let mut ranks = vec![0.0; rows];
    for (rank, row) in order.into_iter().enumerate() {
        let of_density = Normal::standard().inverse_cdf((rank as f64 + 0.5) / rows as f64);
        let mixed = CORRELATION * of_density + (1.0 - CORRELATION * CORRELATION).sqrt() * normal(&mut random);
        ranks[row] = Normal::standard().cdf(mixed).clamp(1e-12, 1.0 - 1e-12);
    }
    let of = |d: usize| Arc::new(points.iter().map(|point| point.0[d] as f32).collect::<Float32Array>()) as _;
    let mut columns: Vec<(String, arrow_array::ArrayRef)> =
        vec![("x".into(), of(0)), ("y".into(), of(1)), ("z".into(), of(2))];
    columns.push(("pid".into(), Arc::new((0..rows as i64).map(|row| row / STEPS).collect::<Int64Array>())));
    columns.push(("time".into(), Arc::new((0..rows as i64).map(|row| row % STEPS).collect::<Int64Array>())));
    // Trajectories have values at even quantiles, so that none is extreme by chance.
    let trajectories = rows.div_ceil(STEPS as usize);
    let mut of_trajectories: Vec<f64> = (0..trajectories).map(|at| (at as f64 + 0.5) / trajectories as f64).collect();
    of_trajectories.shuffle(&mut random);
    for (name, value) in DISTRIBUTIONS {
        columns.push((name.into(), Arc::new(ranks.iter().map(|u| value(*u)).collect::<Float64Array>())));
        let along = (0..rows).map(|row| value(of_trajectories[row / STEPS as usize]));
        columns.push((format!("path_{name}"), Arc::new(along.collect::<Float64Array>())));
    }
    let wave =
        points.iter().map(|(at, _)| 10.0 + 3.0 * (6.0 * at[0]).sin() * (5.0 * at[1]).cos() + normal(&mut random));
    columns.push(("wave".into(), Arc::new(wave.collect::<Float64Array>())));
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stored {
    Records,
    Trajectories,
    /// Small runs, so that a box's boundary crosses as many runs as in a table of millions of rows.
    Fine,
}

fn build(rows: &RecordBatch, stored: Stored, seed: u64) -> Snapshot {
    let identity: &[&str] = if stored == Stored::Trajectories { &["pid"] } else { &["pid", "time"] };
    let dimension =
        |name: &str| Dimension { column: name.into(), domain: Domain::Linear(Value::Float(0.0), Value::Float(1.0)) };
    let options = TableOptions {
        dimensions: ["x", "y", "z"].map(dimension).into(),
        identity: identity.iter().map(|name| name.to_string()).collect(),
        capacity: (stored == Stored::Fine).then_some(FINE),
        seed,
        ..TableOptions::default()
    };
    let store = Arc::new(MemoryStore::new("coverage"));
    let table = Table::create(store, rows.schema(), &options).expect("a new table");
    let mut writer = table.writer(&WriterOptions::default()).expect("its writer");
    writer.append(rows).expect("good rows");
    writer.commit().expect("a commit");
    table.snapshot().expect("a snapshot")
}

#[derive(Default)]
struct Cell {
    held: u32,
    tries: u32,
    exact: u32,
    errors: Vec<f64>,
    rows: u64,
    examined: u64,
    /// Values within the goal.
    within: u32,
    width: f64,
    warned: u32,
}

impl Cell {
    fn add(&mut self, estimate: &Estimate, truth: f64, goal: Option<f64>) {
        let figure = &estimate.figures[0];
        let value = figure.value.unwrap_or(f64::NAN);
        let slack = 1e-9 * truth.abs();
        self.held += (figure.low - slack <= truth && truth <= figure.high + slack) as u32;
        self.tries += 1;
        self.exact += figure.exact as u32;
        self.rows += figure.rows;
        self.examined += estimate.stats.rows_read;
        self.within += goal.is_some_and(|goal| (value - truth).abs() <= goal * truth.abs()) as u32;
        self.width += (figure.high - figure.low) / 2.0 / truth.abs();
        self.warned += !estimate.warnings.is_empty() as u32;
        self.errors.push(value - truth);
    }

    /// The mean error, in standard errors of the mean.
    fn lean(&self) -> f64 {
        let n = self.errors.len() as f64;
        let mean = self.errors.iter().sum::<f64>() / n;
        let variance = self.errors.iter().map(|error| (error - mean).powi(2)).sum::<f64>() / (n - 1.0);
        if variance == 0.0 { 0.0 } else { mean / (variance / n).sqrt() }
    }
}

struct Kind {
    table: &'static str,
    title: String,
    stored: Stored,
    boxed: bool,
    options: EstimateOptions,
    watched: bool,
}

fn kinds(rows: usize) -> Vec<Kind> {
    let mut kinds = Vec::new();
    let boxed_rows = rows as f64 / 4.0;
    let mut add =
        |table, title: String, aggregate: &str, stored, boxed, change: &dyn Fn(&mut EstimateOptions), watched| {
            let mut options = EstimateOptions { aggregates: vec![aggregate.into()], ..EstimateOptions::default() };
            change(&mut options);
            kinds.push(Kind { table, title, stored, boxed, options, watched });
        };
    let share = |n: f64, of: f64| move |options: &mut EstimateOptions| options.query.sample = Some(n / of);
    let alone = |n: f64, of: f64| move |options: &mut EstimateOptions| options.query.window = Some((0.0, n / of));
    for boxed in [false, true] {
        let (of, region) = if boxed { (boxed_rows, "a box") } else { (rows as f64, "everything") };
        for (name, n) in
            [("normal", 100.0), ("uniform", 100.0), ("normal", 2000.0), ("uniform", 2000.0), ("lognormal1", 2000.0)]
        {
            add(
                "means",
                format!("{name}, {region}"),
                &format!("mean({name})"),
                Stored::Records,
                boxed,
                &share(n, of),
                false,
            );
        }
        for name in ["lognormal2", "pareto"] {
            add(
                "tails",
                format!("{name}, {region}"),
                &format!("mean({name})"),
                Stored::Records,
                boxed,
                &share(2000.0, of),
                false,
            );
            let tails = |options: &mut EstimateOptions| {
                share(2000.0, of)(options);
                options.tails = Some(0.005);
            };
            add(
                "tails",
                format!("{name}, {region}, tails=0.005"),
                &format!("mean({name})"),
                Stored::Records,
                boxed,
                &tails,
                false,
            );
        }
        for (aggregate, n) in [
            ("count()", 200.0),
            ("sum(normal)", 1000.0),
            ("share(uniform > 0.9)", 300.0),
            ("median(lognormal1)", 300.0),
            ("p95(lognormal2)", 500.0),
            ("std(normal)", 500.0),
            ("std(uniform)", 500.0),
            ("ratio(lognormal1, normal)", 2000.0),
            ("corr(normal, z)", 500.0),
            ("corr(normal, uniform)", 500.0),
            ("cov(normal, x)", 1000.0),
            ("covar(normal, lognormal1)", 1000.0),
            ("weighted_mean(lognormal1, normal)", 2000.0),
            ("weighted_mean(normal, lognormal1)", 2000.0),
        ] {
            add("others", format!("{aggregate}, {region}"), aggregate, Stored::Records, boxed, &alone(n, of), false);
        }
        let goals = [("normal", 0.01), ("uniform", 0.03), ("lognormal1", 0.05), ("lognormal2", 0.1), ("pareto", 0.1)];
        for (name, error) in goals {
            let goal = |options: &mut EstimateOptions| options.error = Some(error);
            let (title, aggregate) = (format!("{name}, {region}, error={error}"), format!("mean({name})"));
            add("goals", title.clone(), &aggregate, Stored::Records, boxed, &goal, false);
            add("watched", title, &aggregate, Stored::Records, boxed, &goal, true);
        }
    }
    // For a whole table or a box the number of records is known, so a sum is a mean.
    add(
        "others",
        "sum(normal), everything, number known".into(),
        "sum(normal)",
        Stored::Records,
        false,
        &share(1000.0, rows as f64),
        false,
    );
    add(
        "others",
        "sum(normal), a box, number known".into(),
        "sum(normal)",
        Stored::Records,
        true,
        &share(1000.0, boxed_rows),
        false,
    );
    for boxed in [false, true] {
        let (of, region) = if boxed { (boxed_rows, "a box") } else { (rows as f64, "everything") };
        for (aggregate, n) in [
            ("sum(lognormal1 * normal) / sum(normal)", 2000.0),
            ("sum((uniform > 0.7) * power(normal, 3)) / sum(power(normal, 3))", 2000.0),
            ("sqrt(mean(normal*normal) - power(mean(normal), 2))", 1000.0),
            ("sum(CASE WHEN uniform > 0.5 THEN normal ELSE 0 END)", 1000.0),
            ("sum(normal) / count(*) + 100 * share(uniform > 0.9)", 1000.0),
            ("mean(bin(normal, 0.5) + hypot(x, y))", 1000.0),
        ] {
            add(
                "expressions",
                format!("{aggregate}, {region}"),
                aggregate,
                Stored::Records,
                boxed,
                &share(n, of),
                false,
            );
        }
    }
    for (aggregate, n) in [
        ("mean(normal)", 10_000.0),
        ("count()", 10_000.0),
        ("sum(uniform)", 10_000.0),
        ("share(uniform > 0.5)", 10_000.0),
        ("median(normal)", 10_000.0),
        ("sum(normal * uniform) / sum(uniform)", 10_000.0),
    ] {
        let change = alone(n, rows as f64);
        add("trajectories", aggregate.to_string(), aggregate, Stored::Trajectories, false, &change, false);
    }
    for trajectories in [15, 35, 70] {
        for aggregate in [
            "mean(normal)",
            "mean(lognormal1)",
            "mean(path_normal)",
            "mean(path_lognormal1)",
            "mean(path_pareto)",
            "std(normal)",
            "std(lognormal1)",
            "std(path_normal)",
            "std(path_lognormal1)",
            "median(path_normal)",
            "p95(path_normal)",
        ] {
            let change = share((trajectories * STEPS) as f64, rows as f64);
            add(
                "few",
                format!("{aggregate}, {trajectories} trajectories"),
                aggregate,
                Stored::Trajectories,
                false,
                &change,
                false,
            );
        }
    }
    for (table, aggregate, filter, boxed, error, watched) in [
        ("numbers", "sum(normal)", None, true, 0.015, false),
        ("numbers", "sum(lognormal1)", None, true, 0.03, false),
        ("numbers", "count()", Some("uniform < 0.9"), true, 0.015, false),
        ("numbers", "count()", Some("normal < 14"), true, 0.015, false),
        ("numbers", "sum(uniform)", Some("normal < 14"), true, 0.015, false),
        ("numbers", "sum(normal) + 10 * count()", None, true, 0.015, false),
        ("numbers", "sum(normal)", None, true, 0.015, true),
        ("expected", "mean(wave)", None, false, 0.004, false),
        ("expected", "mean(wave)", None, true, 0.004, false),
        ("expected", "sum(wave)", None, true, 0.02, false),
        ("expected", "sum(lognormal1 * wave)", None, true, 0.03, false),
        ("expected", "std(wave)", None, false, 0.01, false),
        ("expected", "share(wave > 11)", None, true, 0.025, false),
        ("expected", "count()", Some("wave > 11"), true, 0.025, false),
        ("expected", "sum(wave)", Some("wave > 10"), true, 0.02, false),
        ("expected", "corr(wave, x)", None, true, 0.05, false),
        ("expected", "ratio(wave, normal)", None, false, 0.004, false),
        ("expected", "sum(wave * x) / sum(wave)", None, true, 0.006, false),
        ("expected", "sum(wave)", None, true, 0.02, true),
        ("expected", "std(x)", None, false, 0.005, false),
        ("expected", "corr(x, x + y)", None, false, 0.005, false),
        ("expected", "sum(x * y) / sum(x)", None, false, 0.005, false),
        ("expected", "mean(x * wave)", None, true, 0.006, false),
    ] {
        let change = |options: &mut EstimateOptions| {
            options.error = Some(error);
            options.query.filter = filter.map(str::to_string);
        };
        let condition = filter.map_or(String::new(), |filter| format!(" where {filter}"));
        let region = match (table, boxed) {
            ("numbers", _) => "",
            (_, true) => ", a box",
            (_, false) => ", everything",
        };
        let look = if watched { ", watched" } else { "" };
        let title = format!("{aggregate}{condition}{region}, error={error}{look}");
        add(table, title, aggregate, Stored::Fine, boxed, &change, watched);
    }
    if let Ok(only) = std::env::var("ONLY") {
        kinds.retain(|kind| kind.table == only);
    }
    kinds
}

fn asked(snapshot: &Snapshot, kind: &Kind, truth: f64, cell: &mut Cell) {
    let mut options = kind.options.clone();
    if kind.boxed {
        let bound = |column: &str, low: f64, high: f64| Bound {
            column: column.into(),
            low: Some(Value::Float(low)),
            high: Some(Value::Float(high)),
        };
        options.query.bounds = match kind.stored {
            Stored::Fine => vec![bound("x", 0.05, 0.9), bound("y", 0.1, 0.95), bound("z", 0.05, 0.95)],
            _ => vec![bound("x", 0.1, 0.7), bound("y", 0.2, 0.85), bound("z", 0.15, 0.8)],
        };
    }
    match kind.watched {
        false => cell.add(&snapshot.estimate(&options, &mut |_| {}).expect("an estimate"), truth, options.error),
        // Covered only if every intermediate interval covers.
        true => {
            let all: Vec<Estimate> =
                snapshot.estimates(&options).expect("a question").map(|each| each.expect("an estimate")).collect();
            let held = all.iter().all(|each| {
                let figure = &each.figures[0];
                figure.low <= truth + 1e-9 * truth.abs() && truth - 1e-9 * truth.abs() <= figure.high
            });
            let last = all.last().expect("at least one look");
            assert_ne!(last.stopped, Stop::Progress);
            let before = cell.held;
            cell.add(last, truth, options.error);
            cell.held = before + held as u32;
        }
    }
}

fn main() {
    let (seeds, rows, from) = (setting("SEEDS", 2000), setting("ROWS", 100_000), setting("FROM", 0));
    let population = population(rows);
    let kinds = kinds(rows);
    let mut cells: Vec<Cell> = kinds.iter().map(|_| Cell::default()).collect();
    let mut truths: BTreeMap<usize, f64> = BTreeMap::new();
    let (begin, mut reported) = (Instant::now(), Instant::now());
    for seed in from..from + seeds {
        let all = [Stored::Records, Stored::Trajectories, Stored::Fine];
        for stored in all.into_iter().filter(|of| kinds.iter().any(|kind| kind.stored == *of)) {
            let snapshot = build(&population, stored, seed as u64);
            for (number, kind) in kinds.iter().enumerate().filter(|(_, kind)| kind.stored == stored) {
                let truth = *truths.entry(number).or_insert_with(|| {
                    let mut exact = Cell::default();
                    let query =
                        Query { filter: kind.options.query.filter.clone(), sample: Some(1.0), ..Query::default() };
                    let options =
                        EstimateOptions { query, error: None, absolute: None, tails: None, ..kind.options.clone() };
                    asked(&snapshot, &Kind { options, title: String::new(), watched: false, ..*kind }, 0.0, &mut exact);
                    assert_eq!(exact.exact, 1);
                    exact.errors[0]
                });
                asked(&snapshot, kind, truth, &mut cells[number]);
            }
        }
        if reported.elapsed() > Duration::from_secs(10) {
            let done = seed + 1 - from;
            let left = begin.elapsed().as_secs_f64() / done as f64 * (seeds - done) as f64;
            eprintln!("{done} of {seeds} seeds, {left:.0} s left");
            reported = Instant::now();
        }
    }
    println!(
        "# Coverage\n\nHow often intervals of 95 % hold the truth, measured: `make coverage` stores one population of\n\
         clustered points under many seeds, estimates from each, and compares with the exact value. Values\n\
         have the distribution named and go with the density of points (correlation {CORRELATION} of the ranks).\n\
         {seeds} seeds, {rows} records; a box holds about a quarter of them. With this many seeds chance alone\n\
         moves a share of 95 % by {:.1} points (two standard errors). \"Mean error\" is that of the value, in\n\
         its own standard errors: beyond 3 an estimator leans to a side. Where a goal decides when to stop, values\n\
         and their errors that go together make it lean, by an eighth of an error at most (5 or 6 here).\n",
        200.0 * (0.95 * 0.05 / seeds as f64).sqrt()
    );
    for table in
        ["means", "tails", "others", "expressions", "goals", "numbers", "expected", "watched", "trajectories", "few"]
    {
        println!("### {}\n", heading(table));
        let with_goal = table == "goals";
        let (heads, rules) = match with_goal {
            true => (" rows examined | values within the goal |", " ---: | ---: |"),
            false => ("", ""),
        };
        println!(
            "| what | rows sampled | intervals that hold the truth | half an interval | mean error | warned |{heads}"
        );
        println!("| --- | ---: | ---: | ---: | ---: | ---: |{rules}");
        for (kind, cell) in kinds.iter().zip(&cells).filter(|(kind, _)| kind.table == table) {
            let n = cell.tries as f64;
            let of_goal = match with_goal {
                true => {
                    format!(" {:.0} | {:.1} % |", cell.examined as f64 / n, 100.0 * cell.within as f64 / n)
                }
                false => String::new(),
            };
            println!(
                "| {} | {:.0} | {:.1} % | {:.2} % | {:+.1} se | {:.0} % |{of_goal}",
                kind.title,
                cell.rows as f64 / n,
                100.0 * cell.held as f64 / n,
                100.0 * cell.width / n,
                cell.lean(),
                100.0 * cell.warned as f64 / n,
            );
        }
        println!();
    }
}

fn heading(table: &str) -> &str {
    match table {
        "means" => "Means of a sample",
        "tails" => "Heavy tails, and the same with tails read whole",
        "others" => "Other aggregates",
        "expressions" => "Expressions, and formulas of aggregates",
        "goals" => "Stopped by a goal",
        "numbers" => "A box of two thirds, its number told by the list of many runs, to a goal",
        "expected" => "Corrected by what is expected where records lie, to a goal; `wave` goes with the place",
        "watched" => "Watched: all looks must hold",
        "trajectories" => "Whole trajectories of 50 records sampled",
        _ => "Few whole trajectories of 50 records sampled (values with `path_` are the same along each)",
    }
}
