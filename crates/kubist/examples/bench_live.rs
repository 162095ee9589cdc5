//! A table that grows by many small commits: what queries examine before and after
//! the optimizer, what it writes, how fast opening stays, how soon a watcher sees.
//!
//!     cargo run --release -p kubist --example bench_live [-- --commits 2000 --rows 10000 --at DIR]
//!
//! Prints tables; asserts nothing.

mod common;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::*;
use kubist::{Cancel, OptimizeOptions, Query, Table, WriterOptions};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

fn make(at: &str, name: &str) -> (String, Table) {
    let path = format!("{at}/{name}");
    let table = Table::create(&path, schema(), &options()).expect("an empty directory");
    (path, table)
}

/// Rows examined a row returned, for samples of everything and for boxes.
fn ratios(table: &Table, bulk: &Table, boxes: usize) -> Vec<f64> {
    let ratio = |query: &Query| {
        let (stats, _) = run(table, query);
        stats.rows_read as f64 / stats.rows_returned.max(1) as f64
    };
    let mut found = Vec::new();
    for precision in [0.001, 0.01, 0.1] {
        found.push(ratio(&Query { precision: Some(precision), ..Query::default() }));
    }
    let mut rng = SmallRng::seed_from_u64(5);
    for wanted in [1_000_000u64, 100_000, 10_000, 1_000] {
        let of_boxes = (0..boxes).map(|_| {
            let centre: [f64; 3] = std::array::from_fn(|_| rng.random_range(0.15..0.85));
            let half = half_width(bulk, &centre, wanted);
            ratio(&Query { bounds: cube_box(&centre, half), ..Query::default() })
        });
        found.push(median(of_boxes.collect()));
    }
    found
}

fn show(label: &str, ratios: &[f64], bulk: &[f64]) {
    print!("{label:24}");
    for (ratio, bulk) in ratios.iter().zip(bulk) {
        print!(" {ratio:7.2} ({:4.2}x)", ratio / bulk);
    }
    println!();
}

/// Commits with nothing else going on, and beside the optimizer: rows a second.
fn commit_all(table: &Table, commits: usize, rows: usize) -> f64 {
    let mut writer = table.writer(&WriterOptions::default()).expect("a free name");
    let mut seconds = 0.0;
    for commit in 0..commits {
        let made = batch(commit * rows, rows);
        let begin = Instant::now();
        writer.append(&made).expect("rows of the schema");
        writer.commit().expect("a durable commit");
        seconds += begin.elapsed().as_secs_f64();
    }
    (commits * rows) as f64 / seconds
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let after =
        |flag: &str| arguments.iter().position(|argument| argument == flag).map(|place| arguments[place + 1].clone());
    let number = |flag: &str, usual: usize| after(flag).map_or(usual, |text| text.parse().expect("a number"));
    let (commits, rows) = (number("--commits", 2000), number("--rows", 10_000));
    let at = after("--at").map_or_else(|| std::env::temp_dir().join("kubist-bench-live"), PathBuf::from);
    let at = at.to_str().expect("a path in UTF-8");
    if Path::new(at).exists() {
        std::fs::remove_dir_all(at).expect("an old table to remove");
    }
    println!("{commits} commits of {rows} rows of {ROW_BYTES} bytes\n");

    let (_, bulk) = make(at, "bulk");
    let mut writer = bulk.writer(&WriterOptions::default()).expect("a free name");
    for first in (0..commits * rows).step_by(BATCH_ROWS) {
        writer.append(&batch(first, BATCH_ROWS.min(commits * rows - first))).expect("rows of the schema");
    }
    writer.commit().expect("a durable commit");
    drop(writer);
    let (path, table) = make(at, "small");
    let alone = commit_all(&table, commits, rows);
    println!("commits alone            {:8.0} rows/s, {:.0} commits/s", alone, alone / rows as f64);

    println!("\nrows examined a row returned (times what the bulk build examines)");
    println!(
        "{:24} 0.1 % all        1 %             10 %            1 M rows        100 k           10 k            1 k",
        ""
    );
    let of_bulk = ratios(&bulk, &bulk, 9);
    show("bulk build", &of_bulk, &of_bulk);
    show("small commits", &ratios(&table, &bulk, 9), &of_bulk);
    let info = table.snapshot().expect("readable").info().expect("readable");
    println!(
        "{:24} {} runs in {} cubes, {:.2} runs a cube",
        "",
        info.runs,
        info.cubes,
        info.runs as f64 / info.cubes as f64
    );
    let begin = Instant::now();
    let report = table.optimize(&OptimizeOptions::default(), &mut |_, _| {}).expect("an optimized table");
    let seconds = begin.elapsed().as_secs_f64();
    show("optimized", &ratios(&table, &bulk, 9), &of_bulk);
    let info = table.snapshot().expect("readable").info().expect("readable");
    println!(
        "{:24} {} runs in {} cubes, {:.2} runs a cube",
        "",
        info.runs,
        info.cubes,
        info.runs as f64 / info.cubes as f64
    );
    let ingested = (commits * rows) as u64 * ROW_BYTES;
    println!(
        "\nthe optimizer            {:8.2} s, {:.0} rows/s, {} rewrites; {:.2} bytes written a byte ingested",
        seconds,
        report.rows_rewritten as f64 / seconds,
        report.rewrites,
        report.bytes_written as f64 / ingested as f64
    );

    let (other, table) = make(at, "beside");
    let (done, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let beside = std::thread::scope(|scope| {
        scope.spawn(|| {
            let table = Table::open(&other).expect("a table");
            while !done.load(Ordering::Relaxed) {
                let options = OptimizeOptions::background();
                let report = table.optimize(&options, &mut |_, _| {}).expect("an optimized table");
                written.fetch_add(report.bytes_written, Ordering::Relaxed);
            }
        });
        let beside = commit_all(&table, commits, rows);
        done.store(true, Ordering::Relaxed);
        beside
    });
    println!(
        "commits beside it        {beside:8.0} rows/s, {:.2} of those alone; {:.2} bytes written a byte ingested",
        beside / alone,
        1.0 + written.load(Ordering::Relaxed) as f64 / ingested as f64
    );

    let (short, table) = make(at, "short");
    for commit in 0..10_000 {
        let mut writer = Table::open(&short)
            .and_then(|table| {
                table.writer(&WriterOptions { name: Some(format!("w{}", commit % 200)), ..Default::default() })
            })
            .expect("a free name");
        writer.append(&batch(commit, 4)).expect("rows of the schema");
        writer.commit().expect("a durable commit");
    }
    drop(table);
    let opening = |path: &str| {
        median(
            (0..9)
                .map(|_| {
                    let begin = Instant::now();
                    Table::open(path).expect("a table");
                    begin.elapsed().as_secs_f64() * 1e3
                })
                .collect(),
        )
    };
    println!("\nopening, median of 9     {:8.2} ms after 10,000 commits by 200 short-lived writers", opening(&short));
    println!("                         {:8.2} ms for the table of small commits", opening(&path));

    let table = Table::open(&path).expect("a table");
    let mut writer = table.writer(&WriterOptions::default()).expect("a free name");
    let latencies = (0..50).map(|number| {
        let seen = Table::open(&path).and_then(|table| Ok((table.snapshot()?, table))).expect("readable");
        std::thread::scope(|scope| {
            let watcher = scope.spawn(move || {
                let (seen, table) = seen;
                let found = table.wait(&seen, Duration::from_secs(10), &Cancel::default()).expect("readable");
                found.map(|_| Instant::now()).expect("a commit")
            });
            writer.append(&batch(number * 100, 100)).expect("rows of the schema");
            writer.commit().expect("a durable commit");
            let committed = Instant::now();
            watcher.join().expect("a watcher").saturating_duration_since(committed).as_secs_f64() * 1e3
        })
    });
    println!("a watcher sees a commit  {:8.2} ms after it returned, median of 50", median(latencies.collect()));
    std::fs::remove_dir_all(at).expect("the tables to remove");
}
