//! Tables whose data leave the domain of the first step: rows examined by boxes, compared with a table with
//! the right grid, the cost of following, and commits and queries during a move.
//!
//!     cargo run --release -p kubist-bench --bin bench_grids [-- --steps 27 --rows 40000 --at DIR --airway
//!     DIR]
//!
//! `--airway` is a folder of Parquet files, one per step, with columns x, y, z; the default is the demo's folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kubist::{
    Bound, Dimension, Domain, GridOptions, OptimizeOptions, Query, Table, TableOptions, Value, WriterOptions,
};
use kubist_bench::{cube_box, median};
use kubist_files::{Input, Options};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const DIMENSIONS: [&str; 3] = ["x", "y", "z"];
const SHARES: [f64; 4] = [0.01, 0.03, 0.1, 0.3];
const BOXES: usize = 15;
const COMMIT: usize = 2_000;
const CORE_SHARE: f64 = 0.5;

fn schema() -> SchemaRef {
    let double = DIMENSIONS.map(|name| Field::new(name, DataType::Float64, false));
    Arc::new(Schema::new([vec![Field::new("id", DataType::Int64, false)], double.to_vec()].concat()))
}

fn rows(first: usize, points: &[[f64; 3]]) -> RecordBatch {
    let ids = Int64Array::from_iter_values(first as i64..(first + points.len()) as i64);
    let mut columns: Vec<ArrayRef> = vec![Arc::new(ids)];
    for d in 0..3 {
        columns.push(Arc::new(Float64Array::from_iter_values(points.iter().map(|point| point[d]))));
    }
    RecordBatch::try_new(schema(), columns).expect("columns fit the schema")
}

/// A sum of uniform numbers approximates a normal deviate.
fn normal(rng: &mut SmallRng) -> f64 {
    (0..6).map(|_| rng.random::<f64>() - 0.5).sum::<f64>() / 0.707
}

/// The points of a step; `at` increases from 0 to 1.
type Drift = fn(at: f64, rng: &mut SmallRng) -> [f64; 3];

const DRIFTS: [(&str, Drift); 4] = [
    ("a cloud grows 50 times", |at, rng| std::array::from_fn(|_| (0.02 + 0.98 * at) * normal(rng))),
    ("a cloud moves on", |at, rng| std::array::from_fn(|d| [20.0, -5.0, 3.0][d] * at + 0.3 * normal(rng))),
    ("scale drifts by 1e6", |at, rng| std::array::from_fn(|_| 1e6f64.powf(at) * (0.5 + normal(rng)))),
    ("even, then clusters", |at, rng| {
        if rng.random::<f64>() >= at {
            return std::array::from_fn(|_| rng.random());
        }
        let mut centres = SmallRng::seed_from_u64(rng.random_range(0..40));
        std::array::from_fn(|_| centres.random::<f64>() + 0.002 * normal(rng))
    }),
];

fn drifting(drift: Drift, steps: usize, size: usize) -> Vec<Vec<[f64; 3]>> {
    let step = |number: usize| {
        let mut rng = SmallRng::seed_from_u64(number as u64);
        let at = number as f64 / (steps - 1).max(1) as f64;
        (0..size).map(|_| drift(at, &mut rng)).collect()
    };
    (0..steps).map(step).collect()
}

fn from_files(folder: &Path) -> Option<Vec<Vec<[f64; 3]>>> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).ok()?.filter_map(|file| Some(file.ok()?.path())).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "parquet"));
    files.sort();
    let step = |file: &PathBuf| {
        let input = Input::inspect(file, &Options::default()).expect("a file of records");
        let wanted: Vec<Field> =
            DIMENSIONS.iter().map(|name| input.fields.find(name).expect("a position").1.as_ref().clone()).collect();
        let mut points = Vec::new();
        for batch in input.read(&wanted.into(), Arc::new(AtomicU64::new(0))) {
            let batch = batch.expect("sound");
            let column = |d: usize| cast(batch.column(d), &DataType::Float64).expect("a number");
            let columns: [ArrayRef; 3] = std::array::from_fn(column);
            let columns = columns.each_ref().map(|column| column.as_primitive::<Float64Type>());
            points.extend((0..batch.num_rows()).map(|row| columns.map(|column| column.value(row))));
        }
        points
    };
    Some(files.iter().map(step).collect()).filter(|steps: &Vec<_>| !steps.is_empty())
}

fn commit_all(at: &str, domain: impl Fn(usize) -> Domain, steps: &[Vec<[f64; 3]>]) -> (Table, u64) {
    let dimensions = DIMENSIONS.iter().enumerate();
    let dimensions = dimensions.map(|(d, name)| Dimension { column: name.to_string(), domain: domain(d) }).collect();
    let options = TableOptions { dimensions, identity: vec!["id".into()], ..TableOptions::default() };
    let table = Table::create(at, schema(), &options).expect("an empty directory");
    let mut writer = table.writer(&WriterOptions::default()).expect("a free name");
    let (mut first, mut bytes) = (0, 0);
    for step in steps {
        writer.append(&rows(first, step)).expect("rows of the schema");
        bytes += writer.commit().expect("a durable commit").bytes_written;
        first += step.len();
    }
    (table, bytes)
}

/// Each returns about a fraction `share` of all records.
fn boxes(table: &Table, all: &[[f64; 3]], share: f64) -> Vec<Vec<Bound>> {
    let (snapshot, mut rng) = (table.snapshot().expect("readable"), SmallRng::seed_from_u64(3));
    let wanted = (all.len() as f64 * share) as u64;
    let farthest = all.iter().flatten().fold(0.0f64, |most, value| most.max(value.abs()));
    let one = |_| {
        let centre = all[rng.random_range(0..all.len())];
        let (mut low, mut high) = (0.0, 2.0 * farthest);
        for _ in 0..40 {
            let middle: f64 = 0.5 * (low + high);
            let query = Query { bounds: cube_box(&centre, middle), ..Query::default() };
            let count = snapshot.count(&query).expect("a count");
            if count.abs_diff(wanted) * 20 < wanted {
                return cube_box(&centre, middle);
            }
            if count < wanted { low = middle } else { high = middle }
        }
        cube_box(&centre, high)
    };
    (0..BOXES).map(one).collect()
}

fn folder_bytes(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).expect("a folder");
    files.map(|file| file.and_then(|file| file.metadata()).expect("a file").len()).sum()
}

fn examined(table: &Table, boxes: &[Vec<Bound>]) -> f64 {
    let ratio = |bounds: &Vec<Bound>| {
        let (stats, _) = kubist_bench::run(table, &Query { bounds: bounds.clone(), ..Query::default() });
        stats.rows_read as f64 / stats.rows_returned.max(1) as f64
    };
    median(boxes.iter().map(ratio).collect())
}

/// Returns the duration of `upkeep`, and how often `work` runs during it, at least once.
fn beside(upkeep: impl FnOnce() + Send, work: &mut dyn FnMut()) -> (usize, Duration) {
    let going = AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            upkeep();
            going.store(false, Ordering::SeqCst);
        });
        let (begin, mut done) = (Instant::now(), 0);
        while done == 0 || going.load(Ordering::SeqCst) {
            work();
            done += 1;
        }
        (done, begin.elapsed())
    })
}

fn timed(often: usize, work: &mut dyn FnMut()) -> Duration {
    let begin = Instant::now();
    (0..often).for_each(|_| work());
    begin.elapsed()
}

fn committing<'a>(table: &Table, last: &'a [[f64; 3]], mut first: usize) -> impl FnMut() + 'a {
    let mut writer = table.writer(&WriterOptions::default()).expect("a free name");
    let mut rng = SmallRng::seed_from_u64(9);
    move || {
        let few: Vec<[f64; 3]> = (0..COMMIT).map(|_| last[rng.random_range(0..last.len())]).collect();
        writer.append(&rows(first, &few)).expect("rows of the schema");
        writer.commit().expect("a durable commit");
        first += few.len();
    }
}

fn copied(table: &Table) -> Table {
    fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(to)?;
        for entry in std::fs::read_dir(from)? {
            let (from, to) = (entry?.path(), to);
            let to = to.join(from.file_name().expect("an entry has a name"));
            if from.is_dir() { copy(&from, &to)? } else { std::fs::copy(&from, &to).map(drop)? }
        }
        Ok(())
    }
    let to = format!("{}-alone", table.location());
    copy(Path::new(table.location()), Path::new(&to)).expect("space for a copy");
    Table::open(&to).expect("a table")
}

fn scenario(at: &str, name: &str, steps: &[Vec<[f64; 3]>]) {
    let all: Vec<[f64; 3]> = steps.concat();
    let ends = |d: usize| {
        let of_dimension = || all.iter().map(|point| point[d]);
        (of_dimension().fold(f64::INFINITY, f64::min), of_dimension().fold(f64::NEG_INFINITY, f64::max))
    };
    let is_even = |d: usize| {
        let (low, high) = ends(d);
        let mut of_dimension: Vec<f64> = all.iter().map(|point| point[d]).collect();
        of_dimension.sort_unstable_by(f64::total_cmp);
        let middle = of_dimension[of_dimension.len() * 3 / 4] - of_dimension[of_dimension.len() / 4];
        middle > 0.02 * (high - low)
    };
    let known = |d: usize| match is_even(d) {
        true => Domain::Linear(Value::Float(ends(d).0), Value::Float(ends(d).1)),
        false => Domain::Quantile,
    };
    // The first commit determines the quantiles, so the reference table gets all rows in one commit.
    let whole = [all.clone()];
    let (right, _) = match (0..3).all(is_even) {
        true => commit_all(&format!("{at}/right"), known, steps),
        false => commit_all(&format!("{at}/right"), known, &whole),
    };
    let (table, committed) = commit_all(&format!("{at}/drifting"), |_| Domain::Learned, steps);
    println!("\n{name}: {} steps, {} rows", steps.len(), all.len());
    let all_boxes: Vec<Vec<Vec<Bound>>> = SHARES.iter().map(|share| boxes(&right, &all, *share)).collect();
    let show = |label: &str| {
        print!("  {label:18}");
        for boxes in &all_boxes {
            let (drifting, right) = (examined(&table, boxes), examined(&right, boxes));
            print!(" {drifting:7.2} ({right:5.2}, {:5.2}x)", drifting / right);
        }
        println!();
    };
    println!("  rows examined a row {}", SHARES.map(|share| format!("{:>5.0} % of all      ", 100.0 * share)).concat());
    show("before");
    let mut number = 0;
    let mut ask = || {
        number += 1;
        kubist_bench::run(&table, &Query { bounds: all_boxes[0][number % BOXES].clone(), ..Query::default() });
    };
    let asked_alone = 200.0 / timed(200, &mut ask).as_secs_f64();
    let optimize = OptimizeOptions { core_share: CORE_SHARE, ..OptimizeOptions::default() };
    let (asked, time) = beside(|| assert!(table.optimize(&optimize, &mut |_, _| {}).is_ok()), &mut ask);
    let asked_beside = asked as f64 / time.as_secs_f64();
    right.optimize(&OptimizeOptions::default(), &mut |_, _| {}).expect("optimized");
    show("after");
    let info = table.snapshot().and_then(|snapshot| snapshot.info()).expect("readable");
    let written = folder_bytes(&Path::new(table.location()).join("segments"));
    let ingested = (all.len() * 32) as f64;
    println!(
        "  grids {}, rows by older grids {}, bytes written a byte ingested {:.2} (commits alone {:.2})",
        info.about.grid + 1,
        info.rows_to_move,
        written as f64 / ingested,
        committed as f64 / ingested
    );
    // An idle copy gets the same number of commits, because a commit takes longer after many small ones.
    let (alone, last) = (copied(&table), steps.last().expect("a step"));
    let by_quantiles = DIMENSIONS.map(|name| Dimension { column: name.to_string(), domain: Domain::Quantile });
    let grid = GridOptions { dimensions: Some(by_quantiles.into()), core_share: CORE_SHARE, ..GridOptions::default() };
    let regrid =
        || assert!(table.regrid(&grid, &mut |_, _| {}).expect("moved").optimized.rows_moved >= all.len() as u64);
    let (commits, beside) = beside(regrid, &mut committing(&table, last, all.len()));
    let alone = timed(commits, &mut committing(&alone, last, all.len()));
    println!(
        "  beside the optimizer: questions {:.2} of their speed ({asked_alone:.0}/s); beside a move of all rows: \
         {commits} commits {:.2} ({:.0} rows/s)",
        asked_beside / asked_alone,
        alone.as_secs_f64() / beside.as_secs_f64(),
        (commits * COMMIT) as f64 / alone.as_secs_f64()
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let after =
        |flag: &str| arguments.iter().position(|argument| argument == flag).map(|index| arguments[index + 1].clone());
    let number = |flag: &str, usual: usize| after(flag).map_or(usual, |text| text.parse().expect("a number"));
    let (steps, size) = (number("--steps", 27), number("--rows", 40_000));
    let at = after("--at").map_or_else(|| std::env::temp_dir().join("kubist-bench-grids"), PathBuf::from);
    if at.exists() {
        std::fs::remove_dir_all(&at).expect("old tables to remove");
    }
    let airway = after("--airway").map_or_else(|| "examples/airway/steps".into(), PathBuf::from);
    let place = |number: usize| at.join(number.to_string()).to_str().expect("a path in UTF-8").to_string();
    match from_files(&airway) {
        Some(steps) => scenario(&place(0), "airway", &steps),
        None => println!("airway: skipped, there are no Parquet files in {}", airway.display()),
    }
    for (index, (name, drift)) in DRIFTS.into_iter().enumerate() {
        scenario(&place(1 + index), name, &drifting(drift, steps, size));
    }
    std::fs::remove_dir_all(at).expect("the tables to remove");
}
