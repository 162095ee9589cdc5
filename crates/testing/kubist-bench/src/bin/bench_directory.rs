//! A table of very many runs: the memory of writers, readers and the optimizer, and the number of store
//! requests of a small query.
//!
//!     cargo run --release -p kubist-bench --bin bench_directory [-- --runs 10000000 --at LOCATION --settle]
//!
//! Each commit fills a slab of space, as a rank of a simulation does, with cubes of a few rows. Readers run in their
//! own processes, and so do `info` and the optimizer if requested.

use std::process::Command;
use std::time::Instant;

use arrow_array::{ArrayRef, Float32Array, RecordBatch};
use kubist::{OptimizeOptions, Query, Table, TableOptions, WriterOptions};
use kubist_bench::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;

const CAPACITY: u32 = 16;
const COMMIT_ROWS: usize = 400_000;
/// Rows per rewrite, so few that the memory of runs dominates.
const ROWS_AT_ONCE: u64 = 100_000;

fn argument(name: &str) -> Option<String> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.nth(1)
}

fn slab(slab: usize, slabs: usize) -> RecordBatch {
    let made = batch(slab * COMMIT_ROWS, COMMIT_ROWS);
    let x = made.column(1).as_any().downcast_ref::<Float32Array>().expect("x is a float");
    let inside = |x: &f32| (slab as f32 + x.min(0.999)) / slabs as f32;
    let x: ArrayRef = Arc::new(Float32Array::from_iter_values(x.values().iter().map(inside)));
    let mut columns = made.columns().to_vec();
    columns[1] = x;
    RecordBatch::try_new(made.schema(), columns).expect("columns fit the schema")
}

fn cost(label: &str, table: &Table, query: &Query) {
    let (stats, ms) = run(table, query);
    println!(
        "{label:34} {:9} {:12} {:9.2} {ms:9.1}",
        stats.rows_returned,
        stats.round_trips,
        stats.bytes_read as f64 / 1e6
    );
}

fn read(at: &str) {
    let begin = Instant::now();
    let table = Table::open(at).expect("a table");
    println!("open                               {:41.1} ms", begin.elapsed().as_secs_f64() * 1e3);
    println!("{:34} {:>9} {:>12} {:>9} {:>9}", "", "returned", "round trips", "MB read", "ms");
    let mut rng = SmallRng::seed_from_u64(3);
    for label in ["small box, the first", "small box, another", "small box, another"] {
        let centre: [f64; 3] = std::array::from_fn(|_| rng.random_range(0.1..0.9));
        cost(label, &table, &Query { bounds: cube_box(&centre, 0.004), ..Query::default() });
    }
    cost("0.001 % of everything", &table, &Query { sample: Some(1e-5), ..Query::default() });
    cost("the 1,000 of lowest priority", &table, &Query { limit: Some(1000), ..Query::default() });
    println!("peak memory of the reader          {:41} MB", peak_memory());
}

fn info(at: &str) {
    let table = Table::open(at).expect("a table");
    let begin = Instant::now();
    let info = table.snapshot().expect("readable").info().expect("known");
    println!("info, {:9} runs, debt {:9} {:33.1} s", info.runs, info.debt, begin.elapsed().as_secs_f64());
    println!("peak memory of info                {:41} MB", peak_memory());
}

fn optimize(at: &str) {
    let table = Table::open(at).expect("a table");
    let begin = Instant::now();
    let options = OptimizeOptions { rows_at_once: ROWS_AT_ONCE, follow_data: false, ..OptimizeOptions::default() };
    let report = table.optimize(&options, &mut |_, _| {}).expect("optimized");
    let (rows, rewrites) = (report.rows_rewritten + report.rows_copied, report.rewrites);
    println!("optimize, {rewrites:5} rewrites, {rows:9} rows {:31.1} s", begin.elapsed().as_secs_f64());
    println!("peak memory of the optimizer       {:41} MB", peak_memory());
}

fn main() {
    let runs: u64 = argument("--runs").map_or(10_000_000, |runs| runs.parse().expect("a number of runs"));
    let own = tempfile::tempdir().expect("a directory");
    let at = argument("--at").unwrap_or_else(|| own.path().join("t").display().to_string());
    let asked = |name: &str| std::env::args().any(|argument| argument == name);
    for (name, what) in [("--read", read as fn(&str)), ("--info", info), ("--optimize", optimize)] {
        if asked(name) {
            return what(&at);
        }
    }
    let table =
        Table::create(&at, schema(), &TableOptions { capacity: Some(CAPACITY), ..options() }).expect("an empty folder");
    let mut writer = table.writer(&WriterOptions::default()).expect("a free name");
    let (begin, mut made, mut commits) = (Instant::now(), 0, 0);
    let mut slabs = 64;
    while made < runs {
        writer.append(&slab(commits, slabs)).expect("rows of the schema");
        writer.commit().expect("a durable commit");
        commits += 1;
        if commits == 1 {
            made = table.snapshot().expect("readable").info().expect("known").runs;
            slabs = (runs.div_ceil(made.max(1)) as usize).max(1);
        } else {
            made += made / (commits as u64 - 1);
        }
    }
    println!(
        "{} commits of {COMMIT_ROWS} rows, about {made} runs         {:9.1} s",
        commits,
        begin.elapsed().as_secs_f64()
    );
    println!("peak memory of the writer          {:41} MB", peak_memory());
    drop((writer, table));
    let program = std::env::current_exe().expect("this program");
    let steps: &[&str] = if asked("--settle") { &["--read", "--info", "--optimize", "--info"] } else { &["--read"] };
    for step in steps {
        let status = Command::new(&program).args(["--at", &at, step]).status().expect("a process");
        assert!(status.success(), "{step} failed");
    }
}
