//! Five small workloads whose instructions `make instructions` counts.
//!
//!     cargo run --release -p kubist-bench --bin micro -- WORK TIMES
//!
//! Runs `commit`, `scan`, `box`, `sample` or `where` a number of times on a new table of 200,000 clustered rows.

use kubist::{Query, Table, WriterOptions};
use kubist_bench::*;

const ROWS: usize = 200_000;
const COMMITTED_ROWS: usize = 50_000;

/// Uses a new handle, because a handle caches decoded pages.
fn count(at: &str, query: &Query) -> usize {
    let snapshot = Table::open(at).expect("a table").snapshot().expect("readable");
    snapshot.query(query).expect("a query").map(|batch| batch.expect("sound").num_rows()).sum()
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, work, times] = &arguments[..] else { panic!("say which work, and how often") };
    let times: usize = times.parse().expect("a number");
    let at = std::env::temp_dir().join(format!("kubist-micro-{}", std::process::id()));
    let at = at.to_str().expect("a path in UTF-8");
    let table = Table::create(at, schema(), &options()).expect("an empty directory");
    let mut writer = table.writer(&WriterOptions::default()).expect("a free name");
    writer.append(&batch(0, ROWS)).expect("rows of the schema");
    writer.commit().expect("a durable commit");
    let query = match work.as_str() {
        "box" => Query { bounds: cube_box(&[0.5; 3], 0.2), ..Query::default() },
        "sample" => Query { sample: Some(0.05), ..Query::default() },
        "where" => Query { filter: Some("a > 1.5".into()), ..Query::default() },
        _ => Query::default(),
    };
    let more = batch(ROWS, COMMITTED_ROWS);
    for _ in 0..times {
        match work.as_str() {
            "commit" => {
                writer.append(&more).expect("rows of the schema");
                writer.commit().expect("a durable commit");
            }
            "box" | "sample" | "scan" | "where" => {
                std::hint::black_box(count(at, &query));
            }
            other => panic!("{other} is none of commit, scan, box, sample, where"),
        }
    }
    drop(writer);
    std::fs::remove_dir_all(at).expect("the table to remove");
}
