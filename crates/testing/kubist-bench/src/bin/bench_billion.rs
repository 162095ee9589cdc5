//! Compares tables of 10 million, 100 million and a billion rows: which costs grow with the result, and
//! which with the table.
//!
//!     cargo run --release -p kubist-bench --bin bench_billion
//!         [-- --rows 10000000,100000000,1000000000 --rewritten 100000000 --keep --at DIR]
//!
//! The rows of `bench`, with a secondary index on the id, arrive in commits of 4 million rows while the optimizer runs
//! and old files are cleaned. Each step runs in its own process, so that its peak memory is its own. Each table gets
//! queries with equal result sizes. Medians over many locations include the first query of a process. Tables of more
//! than `--rewritten` rows are not rewritten completely, which would need their space again.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kubist::{Compression, EstimateOptions, OptimizeOptions, Query, Table, TableOptions, VerifyOptions, WriterOptions};
use kubist_bench::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const COMMIT_ROWS: usize = 4_000_000;
const PLACES: usize = 21;
const STEPS: [&str; 8] = ["ingest", "settle", "fresh", "ask", "verify", "info", "commit", "rewrite"];
const FEW_ROWS: usize = 1000;

fn line(label: &str, value: f64, unit: &str) {
    println!("{label}\t{value}\t{unit}");
    std::io::stdout().flush().expect("an open pipe");
}

fn memory() -> f64 {
    peak_memory() as f64
}

/// The optimizer runs in the background of the writer, as in a server.
fn ingest(at: &str, rows: usize) {
    let options = TableOptions { lookup: vec!["id".into()], ..options() };
    let table = Table::create(at, schema(), &options).expect("an empty directory");
    let (done, begin) = (AtomicBool::new(false), Instant::now());
    let making = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                behind(at, &OptimizeOptions { one_round: true, core_share: 0.5, ..OptimizeOptions::default() });
                std::thread::sleep(Duration::from_millis(200));
            }
        });
        let making = commits(&table, rows);
        done.store(true, Ordering::Relaxed);
        making
    });
    let seconds = begin.elapsed().as_secs_f64() - making;
    line("ingest, optimizer behind it", rows as f64 / seconds / 1e6, "M rows/s");
    line("peak memory of both", memory(), "MB");
}

fn settle(at: &str, _: usize) {
    let begin = Instant::now();
    behind(at, &OptimizeOptions::default());
    line("what the optimizer had left", begin.elapsed().as_secs_f64(), "s");
    line("peak memory of it", memory(), "MB");
}

fn commits(table: &Table, rows: usize) -> f64 {
    let mut writer = table.writer(&WriterOptions::default()).expect("a free name");
    let (mut making, mut since) = (0.0, 0);
    for first in (0..rows).step_by(BATCH_ROWS) {
        let begin = Instant::now();
        let made = batch(first, BATCH_ROWS.min(rows - first));
        making += begin.elapsed().as_secs_f64();
        writer.append(&made).expect("rows of the schema");
        since += made.num_rows();
        if since >= COMMIT_ROWS {
            writer.commit().expect("a durable commit");
            since = 0;
        }
    }
    writer.commit().expect("a durable commit");
    making
}

fn behind(at: &str, options: &OptimizeOptions) {
    let table = Table::open(at).expect("a table");
    table.optimize(options, &mut |_, _| {}).expect("an optimized table");
    table.clean(Duration::ZERO).expect("a cleaned table");
}

fn fresh(at: &str, rows: usize) {
    let table = Table::open(at).expect("a table");
    line("one record by its id, in a fresh process", by_id(&table, rows / 3), "ms");
    line("extremes of two columns, then", extremes(&table), "ms");
}

fn by_id(table: &Table, id: usize) -> f64 {
    run(table, &Query { filter: Some(format!("id = {id}")), ..Query::default() }).1
}

fn extremes(table: &Table) -> f64 {
    let aggregates = ["min(x)", "max(x)", "min(a)", "max(a)"].map(String::from).to_vec();
    let begin = Instant::now();
    let options = EstimateOptions { aggregates, ..EstimateOptions::default() };
    table.snapshot().expect("readable").estimate(&options, &mut |_| {}).expect("an estimate");
    begin.elapsed().as_secs_f64() * 1e3
}

fn ask(at: &str, rows: usize) {
    let begin = Instant::now();
    let table = Table::open(at).expect("a table");
    line("opening", begin.elapsed().as_secs_f64() * 1e3, "ms");
    let (_, first) = run(&table, &Query { limit: Some(100_000), ..Query::default() });
    line("first 100,000 points", first, "ms");
    for wanted in [1_000.0, 100_000.0, 1_000_000.0] {
        let query = Query { sample: Some((wanted / rows as f64).min(1.0)), ..Query::default() };
        let times = (0..PLACES).map(|_| run(&table, &query).1).collect();
        line(&format!("a sample of {wanted} of all"), median(times), "ms");
    }
    let mut rng = SmallRng::seed_from_u64(5);
    for wanted in [1_000_000u64, 100_000, 1_000] {
        let (mut boxes, mut samples, mut examined) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..PLACES {
            let centre: [f64; 3] = std::array::from_fn(|_| rng.random_range(0.15..0.85));
            let half = half_width(&table, &centre, wanted);
            let query = Query { bounds: cube_box(&centre, half), ..Query::default() };
            let (stats, milliseconds) = run(&table, &query);
            boxes.push(milliseconds);
            examined.push(stats.rows_read as f64 / stats.rows_returned.max(1) as f64);
            samples.push(run(&table, &Query { limit: Some(1000), ..query }).1);
        }
        line(&format!("a box of {wanted}"), median(boxes), "ms");
        line(&format!("  read per record of a box of {wanted}"), median(examined), "");
        line(&format!("  1,000 of a box of {wanted}"), median(samples), "ms");
    }
    let times = (0..PLACES).map(|_| by_id(&table, rng.random_range(0..rows)));
    line("one record by its id", median(times.collect()), "ms");
    for aggregate in ["mean(a)", "count(a > 1.5)"] {
        let options =
            EstimateOptions { aggregates: vec![aggregate.into()], error: Some(0.01), ..EstimateOptions::default() };
        let times = (0..PLACES).map(|_| {
            let begin = Instant::now();
            table.snapshot().expect("readable").estimate(&options, &mut |_| {}).expect("an estimate");
            begin.elapsed().as_secs_f64() * 1e3
        });
        line(&format!("{aggregate} to 1 %"), median(times.collect()), "ms");
    }
    let times = (0..PLACES).map(|_| extremes(&table));
    line("extremes of two columns", median(times.collect()), "ms");
    line("peak memory of the questions", memory(), "MB");
}

fn rewrite(at: &str, rows: usize, most: usize) {
    if rows > most {
        return;
    }
    let begin = Instant::now();
    Table::open(at).expect("a table").set_compression(Compression::Small).expect("a table that can be written");
    let options = OptimizeOptions { recompress: true, ..OptimizeOptions::default() };
    behind(at, &options);
    line("rewriting all of it as `small`", rows as f64 / begin.elapsed().as_secs_f64() / 1e6, "M rows/s");
    line("peak memory of rewriting", memory(), "MB");
}

fn verify(at: &str, rows: usize) {
    let begin = Instant::now();
    let table = Table::open(at).expect("a table");
    let report = table.verify(&VerifyOptions::deep(), &mut |_, _| {}).expect("a look at all");
    assert_eq!(report.rows, rows as u64, "all rows are there");
    line("verify --deep", rows as f64 / begin.elapsed().as_secs_f64() / 1e6, "M rows/s");
    line("peak memory of verify", memory(), "MB");
}

fn info(at: &str, _: usize) {
    let begin = Instant::now();
    let info = Table::open(at).expect("a table").snapshot().expect("readable").info().expect("readable");
    line("info", begin.elapsed().as_secs_f64() * 1e3, "ms");
    line("bytes a row", info.bytes as f64 / info.about.rows as f64, "");
    line("runs", info.runs as f64, "");
    line("peak memory of info", memory(), "MB");
}

fn commit(at: &str, rows: usize) {
    let begin = Instant::now();
    let table = Table::open(at).expect("a table");
    let mut writer = table.writer(&WriterOptions::default()).expect("a free name");
    line("taking up writing again", begin.elapsed().as_secs_f64() * 1e3, "ms");
    let times: Vec<f64> = (0..PLACES)
        .map(|number| {
            writer.append(&batch(rows + number * FEW_ROWS, FEW_ROWS)).expect("rows of the schema");
            let begin = Instant::now();
            writer.commit().expect("a durable commit");
            begin.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    line("the first commit of 1,000 rows", times[0], "ms");
    line("a commit of 1,000 rows", median(times), "ms");
}

fn apart(step: &str, at: &str, rows: usize, rewritten: usize) -> Vec<(String, String)> {
    let program = std::env::current_exe().expect("this program");
    let arguments = ["--step", step, "--at", at, "--rows", &rows.to_string(), "--rewritten", &rewritten.to_string()];
    let output = Command::new(program).args(arguments).stderr(Stdio::inherit()).output().expect("itself");
    assert!(output.status.success(), "{step} failed");
    let text = String::from_utf8(output.stdout).expect("a report");
    let mut lines = Vec::new();
    for fields in text.lines().map(|line| line.split('\t').collect::<Vec<_>>()) {
        let [label, value, unit] = fields[..] else { panic!("a line of three fields") };
        let value: f64 = value.parse().expect("a number");
        let digits = usize::from(value < 1000.0) * 2;
        lines.push((label.to_string(), format!("{value:.digits$} {unit}").trim_end().to_string()));
    }
    lines
}

fn beside_each_other(sizes: &[usize], rewritten: usize, at: &Path, keep: bool) {
    let mut order = Vec::new();
    let mut found: BTreeMap<(String, usize), String> = BTreeMap::new();
    for &rows in sizes {
        let path = at.join(rows.to_string());
        let path = path.to_str().expect("a path in UTF-8");
        if Path::new(path).exists() {
            std::fs::remove_dir_all(path).expect("an old table to remove");
        }
        println!("{rows} rows");
        for step in STEPS {
            for (label, value) in apart(step, path, rows, rewritten) {
                println!("  {label:40} {value}");
                if !order.contains(&label) {
                    order.push(label.clone());
                }
                found.insert((label, rows), value);
            }
        }
        if !keep {
            std::fs::remove_dir_all(path).expect("the table to remove");
        }
    }
    let heads: Vec<String> = sizes.iter().map(usize::to_string).collect();
    println!("\n| rows | {} |\n|---|{}", heads.join(" | "), "---:|".repeat(sizes.len()));
    for label in order {
        let values = sizes.iter().map(|&rows| found.remove(&(label.clone(), rows)).unwrap_or_else(|| "-".into()));
        println!("| {} | {} |", label.trim(), values.collect::<Vec<_>>().join(" | "));
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let after =
        |flag: &str| arguments.iter().position(|argument| argument == flag).map(|index| arguments[index + 1].clone());
    let sizes = after("--rows").unwrap_or_else(|| "10000000,100000000,1000000000".into());
    let sizes: Vec<usize> = sizes.split(',').map(|rows| rows.parse().expect("numbers of rows")).collect();
    let rewritten: usize = after("--rewritten").map_or(100_000_000, |rows| rows.parse().expect("a number of rows"));
    let at = after("--at").map_or_else(|| std::env::temp_dir().join("kubist-bench-billion"), PathBuf::from);
    let path = at.to_str().expect("a path in UTF-8");
    match after("--step").as_deref() {
        Some("ingest") => ingest(path, sizes[0]),
        Some("settle") => settle(path, sizes[0]),
        Some("fresh") => fresh(path, sizes[0]),
        Some("ask") => ask(path, sizes[0]),
        Some("rewrite") => rewrite(path, sizes[0], rewritten),
        Some("verify") => verify(path, sizes[0]),
        Some("info") => info(path, sizes[0]),
        Some("commit") => commit(path, sizes[0]),
        Some(other) => panic!("{other} is no step"),
        None => {
            std::fs::create_dir_all(&at).expect("a folder to make");
            beside_each_other(&sizes, rewritten, &at, arguments.iter().any(|argument| argument == "--keep"));
        }
    }
}
