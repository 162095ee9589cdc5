//! The engine with 20 million clustered rows on this machine.
//!
//!     cargo run --release -p kubist-bench --bin bench [-- --rows 20000000 --at DIR]
//!
//! Rows of 36 bytes: three float32 dimensions, four float32 attributes, an int64 id; half uniform, half in clusters.
//! Each step runs in its own process, so that its peak memory is its own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use kubist::{Query, Stats, Table, WriterOptions};
use kubist_bench::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

fn ingest(at: &str, rows: usize) {
    let table = Table::create(at, schema(), &options()).expect("an empty directory");
    let mut writer = table.writer(&WriterOptions::default()).expect("a free name");
    let (mut making, mut appending) = (0.0, 0.0);
    for first in (0..rows).step_by(BATCH_ROWS) {
        let begin = Instant::now();
        let made = batch(first, BATCH_ROWS.min(rows - first));
        making += begin.elapsed().as_secs_f64();
        let begin = Instant::now();
        writer.append(&made).expect("rows of the schema");
        appending += begin.elapsed().as_secs_f64();
    }
    let committed = writer.commit().expect("a durable commit");
    let seconds = appending + committed.seconds;
    let info = table.snapshot().expect("readable").info().expect("readable");
    println!("making the rows (not counted)          {making:8.2} s");
    println!("append                                 {appending:8.2} s");
    println!("commit, durable                        {:8.2} s", committed.seconds);
    println!("ingest                                 {:8.2} M rows/s", rows as f64 / seconds / 1e6);
    println!("peak memory                            {:8} MB", peak_memory());
    println!("stored / raw bytes                     {:8.3}", info.bytes as f64 / (rows as u64 * ROW_BYTES) as f64);
    println!("runs, cubes, height                    {} {} {}", info.runs, info.cubes, info.height);
}

fn scan(at: &str) {
    let snapshot = Table::open(at).expect("a table").snapshot().expect("readable");
    let begin = Instant::now();
    let rows: usize =
        snapshot.query(Query::default()).expect("a query").map(|batch| batch.expect("sound").num_rows()).sum();
    let seconds = begin.elapsed().as_secs_f64();
    let megabytes = rows as f64 * ROW_BYTES as f64 / 1e6;
    println!("full scan                              {:8.2} s   {:.0} MB/s of values", seconds, megabytes / seconds);
    println!("peak memory                            {:8} MB", peak_memory());
}

fn queries(at: &str, boxes: usize) {
    let mut opening = Vec::new();
    for _ in 0..9 {
        let begin = Instant::now();
        Table::open(at).expect("a table");
        opening.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    println!("open, median of 9                      {:8.2} ms", median(opening));
    let table = Table::open(at).expect("a table");
    println!(
        "\n{:38} {:>10} {:>10} {:>8} {:>10} {:>9}",
        "query (medians)", "returned", "read", "ratio", "MB read", "ms"
    );
    let line = |label: &str, runs: Vec<(Stats, f64)>| {
        let of = |pick: &dyn Fn(&(Stats, f64)) -> f64| median(runs.iter().map(pick).collect());
        println!(
            "{label:38} {:10.0} {:10.0} {:8.2} {:10.2} {:9.2}",
            of(&|(stats, _)| stats.rows_returned as f64),
            of(&|(stats, _)| stats.rows_read as f64),
            of(&|(stats, _)| stats.rows_read as f64 / stats.rows_returned.max(1) as f64),
            of(&|(stats, _)| stats.bytes_read as f64 / 1e6),
            of(&|(_, milliseconds)| *milliseconds)
        );
    };
    for sample in [0.0001, 0.001, 0.01, 0.1] {
        let query = Query { sample: Some(sample), ..Query::default() };
        line(&format!("{} % of everything", sample * 100.0), (0..5).map(|_| run(&table, &query)).collect());
    }
    let mut rng = SmallRng::seed_from_u64(5);
    for wanted in [1_000_000u64, 100_000, 10_000, 1_000] {
        let (mut all, mut sampled, mut limited) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..boxes {
            let centre: [f64; 3] = std::array::from_fn(|_| rng.random_range(0.15..0.85));
            let half = half_width(&table, &centre, wanted);
            let query = Query { bounds: cube_box(&centre, half), ..Query::default() };
            all.push(run(&table, &query));
            sampled.push(run(&table, &Query { sample: Some(0.01), ..query.clone() }));
            limited.push(run(&table, &Query { limit: Some(1000), ..query }));
        }
        line(&format!("boxes of {wanted}"), all);
        line("  1 % of them", sampled);
        line("  limit 1000", limited);
    }
    let (centre, half) = ([0.5; 3], half_width(&table, &[0.5; 3], 150_000));
    let query = Query { bounds: cube_box(&centre, half), sample: Some(0.01), ..Query::default() };
    line("1 % of a box of 150000", (0..9).map(|_| run(&table, &query)).collect());
    let query = Query { filter: Some("a > 1.5".into()), ..Query::default() };
    line("where a > 1.5 (not indexed)", (0..3).map(|_| run(&table, &query)).collect());
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let after =
        |flag: &str| arguments.iter().position(|argument| argument == flag).map(|index| arguments[index + 1].clone());
    let rows: usize = after("--rows").map_or(20_000_000, |rows| rows.parse().expect("a number of rows"));
    let at = after("--at").map_or_else(|| std::env::temp_dir().join("kubist-bench"), PathBuf::from);
    let at = at.to_str().expect("a path in UTF-8");
    match after("--step").as_deref() {
        Some("ingest") => ingest(at, rows),
        Some("scan") => scan(at),
        Some("queries") => queries(at, after("--boxes").map_or(50, |boxes| boxes.parse().expect("a number of boxes"))),
        _ => {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            println!("{rows} rows of {ROW_BYTES} bytes, {cores} cores, {at}\n");
            if Path::new(at).exists() {
                std::fs::remove_dir_all(at).expect("an old table to remove");
            }
            for step in ["ingest", "scan", "queries"] {
                let program = std::env::current_exe().expect("this program");
                let status =
                    Command::new(program).args(&arguments[1..]).args(["--step", step]).status().expect("itself");
                assert!(status.success(), "{step} failed");
            }
            std::fs::remove_dir_all(at).expect("the table to remove");
        }
    }
}
