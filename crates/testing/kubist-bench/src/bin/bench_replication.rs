//! Costs and savings per replication policy: one table per policy with the same rows, its storage, and the
//! reads of boxes and samples.
//!
//!     cargo run --release -p kubist-bench --bin bench_replication [-- --rows 20000000 --at DIR]

use std::path::{Path, PathBuf};

use kubist::{OptimizeOptions, Query, Replication, Table, TableOptions, WriterOptions};
use kubist_bench::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const POLICIES: [&str; 5] = ["none", "outlook(-1)", "outlook(0)", "outlook(1)", "full"];

/// Medians over `boxes` boxes of about `wanted` rows: pages, bytes and rows examined per returned row, and
/// milliseconds.
fn boxes(table: &Table, bulk: &Table, wanted: u64, sample: Option<f64>, boxes: usize) -> [f64; 4] {
    let mut rng = SmallRng::seed_from_u64(wanted);
    let mut found: [Vec<f64>; 4] = Default::default();
    for _ in 0..boxes {
        let centre: [f64; 3] = std::array::from_fn(|_| rng.random_range(0.05..0.95));
        let half = half_width(bulk, &centre, wanted);
        let query = Query { bounds: cube_box(&centre, half), sample, ..Query::default() };
        run(table, &query);
        let (stats, ms) = run(table, &query);
        let values = [
            stats.pages_read as f64,
            stats.bytes_read as f64 / 1024.0,
            stats.rows_read as f64 / stats.rows_returned.max(1) as f64,
            ms,
        ];
        found.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
    }
    found.map(median)
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let after =
        |flag: &str| arguments.iter().position(|argument| argument == flag).map(|index| arguments[index + 1].clone());
    let rows: usize = after("--rows").map_or(20_000_000, |text| text.parse().expect("a number"));
    let at = after("--at").map_or_else(|| std::env::temp_dir().join("kubist-bench-replication"), PathBuf::from);
    if Path::new(&at).exists() {
        std::fs::remove_dir_all(&at).expect("old tables to remove");
    }
    println!(
        "{rows} rows of {ROW_BYTES} bytes, medians of 25 boxes: pages, KiB, records read per record returned, ms\n"
    );
    println!(
        "{:12} {:>7} {:>8} {:>7}   {:26} {:26} {:26} 1 % of 100 k",
        "policy", "stored", "copies", "seconds", "box of 1 k", "10 k", "100 k"
    );
    let mut bulk: Option<Table> = None;
    for policy in POLICIES {
        let replication: Replication = policy.parse().expect("a policy");
        let path = at.join(policy);
        let options = TableOptions { replication, ..options() };
        let table =
            Table::create(path.to_str().expect("a path in UTF-8"), schema(), &options).expect("an empty folder");
        let mut writer = table.writer(&WriterOptions::default()).expect("a free name");
        for first in (0..rows).step_by(BATCH_ROWS) {
            writer.append(&batch(first, BATCH_ROWS.min(rows - first))).expect("rows of the schema");
        }
        writer.commit().expect("a durable commit");
        drop(writer);
        let begin = std::time::Instant::now();
        let report = table.optimize(&OptimizeOptions::default(), &mut |_, _| {}).expect("an optimized table");
        let seconds = begin.elapsed().as_secs_f64();
        let bulk = bulk.get_or_insert_with(|| table.clone());
        let info = table.snapshot().expect("readable").info().expect("readable");
        print!(
            "{policy:12} {:6.3}x {:7.1}% {seconds:7.2}  ",
            info.bytes as f64 / (rows as u64 * ROW_BYTES) as f64,
            100.0 * report.rows_copied as f64 / rows as f64
        );
        for (wanted, sample) in [(1000, None), (10_000, None), (100_000, None), (100_000, Some(0.01))] {
            let [pages, kib, ratio, ms] = boxes(&table, bulk, wanted, sample, 25);
            print!(" {pages:6.0} {kib:8.0} {ratio:5.2} {ms:4.1}");
        }
        println!();
    }
    std::fs::remove_dir_all(&at).expect("the tables to remove");
}
