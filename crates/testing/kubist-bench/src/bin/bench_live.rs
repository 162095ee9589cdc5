//! A table that grows by many small commits: rows examined before and after the optimizer, bytes that it
//! writes, time to open, and latency of a watcher.
//!
//!     cargo run --release -p kubist-bench --bin bench_live [-- --commits 2000 --rows 10000 --at DIR]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kubist::{Cancel, OptimizeOptions, Query, Replication, Table, TableOptions, WriterOptions};
use kubist_bench::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

fn make(at: &str, name: &str, replication: Replication) -> (String, Table) {
    let path = format!("{at}/{name}");
    let options = TableOptions { replication, ..options() };
    let table = Table::create(&path, schema(), &options).expect("an empty directory");
    (path, table)
}

fn ratios(table: &Table, bulk: &Table, boxes: usize) -> Vec<f64> {
    let ratio = |query: &Query| {
        let (stats, _) = run(table, query);
        stats.rows_read as f64 / stats.rows_returned.max(1) as f64
    };
    let mut found = Vec::new();
    for sample in [0.001, 0.01, 0.1] {
        found.push(ratio(&Query { sample: Some(sample), ..Query::default() }));
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

/// `rate` is in rows per second; the result is the actual rate, without the time of `after`.
fn commit_all(
    table: &Table,
    options: &WriterOptions,
    size: &Size,
    rows_a_second: f64,
    after: &mut dyn FnMut(usize),
) -> f64 {
    let mut writer = table.writer(options).expect("a free name");
    let mut seconds = 0.0;
    for commit in 0..size.commits {
        let made = batch(commit * size.rows, size.rows);
        let begin = Instant::now();
        writer.append(&made).expect("rows of the schema");
        writer.commit().expect("a durable commit");
        let due = Duration::from_secs_f64(size.rows as f64 / rows_a_second);
        std::thread::sleep(due.saturating_sub(begin.elapsed()));
        seconds += begin.elapsed().as_secs_f64();
        after(commit);
    }
    size.all() as f64 / seconds
}

fn shape(table: &Table) {
    let info = table.snapshot().expect("readable").info().expect("readable");
    let (runs, cubes) = (info.runs, info.cubes);
    let mean = runs as f64 / cubes as f64;
    println!("{:24} {runs} runs in {cubes} cubes, {mean:.2} runs a cube, {} at most", "", info.most_runs);
}

struct Size {
    commits: usize,
    rows: usize,
}

impl Size {
    fn all(&self) -> usize {
        self.commits * self.rows
    }

    fn bytes(&self) -> f64 {
        self.all() as f64 * ROW_BYTES as f64
    }
}

/// Compares small commits with a bulk build, before and after the optimizer. Returns the commit rate in
/// rows per second.
fn layout(at: &str, size: &Size) -> f64 {
    let (_, bulk) = make(at, "bulk", Replication::None);
    let mut writer = bulk.writer(&WriterOptions::default()).expect("a free name");
    for first in (0..size.all()).step_by(BATCH_ROWS) {
        writer.append(&batch(first, BATCH_ROWS.min(size.all() - first))).expect("rows of the schema");
    }
    writer.commit().expect("a durable commit");
    drop(writer);
    let (path, table) = make(at, "small", Replication::None);
    let alone = commit_all(&table, &WriterOptions::default(), size, f64::INFINITY, &mut |_| {});
    println!("commits alone            {:8.0} rows/s, {:.0} commits/s", alone, alone / size.rows as f64);

    println!("\nrecords read per record returned (times those of the bulk build)");
    println!(
        "{:24} 0.1 % all        1 %             10 %            1 M rows        100 k           10 k            1 k",
        ""
    );
    let of_bulk = ratios(&bulk, &bulk, 9);
    show("bulk build", &of_bulk, &of_bulk);
    show("small commits", &ratios(&table, &bulk, 9), &of_bulk);
    shape(&table);
    reading_beside(&path);
    let begin = Instant::now();
    let report = table.optimize(&OptimizeOptions::default(), &mut |_, _| {}).expect("an optimized table");
    let seconds = begin.elapsed().as_secs_f64();
    show("optimized", &ratios(&table, &bulk, 9), &of_bulk);
    shape(&table);
    println!(
        "\nthe optimizer            {:8.2} s, {:.0} rows/s, {} rewrites; {:.2} bytes written a byte ingested",
        seconds,
        report.rows_rewritten as f64 / seconds,
        report.rewrites,
        report.bytes_written as f64 / size.bytes()
    );
    alone
}

fn reading_beside(path: &str) {
    let table = Table::open(path).expect("a table");
    let snapshot = table.snapshot().expect("readable");
    let boxes_a_second = |most: Duration| {
        let (mut rng, begin, mut count) = (SmallRng::seed_from_u64(9), Instant::now(), 0);
        while begin.elapsed() < most {
            let centre: [f64; 3] = std::array::from_fn(|_| rng.random_range(0.15..0.85));
            let query = Query { bounds: cube_box(&centre, 0.05), ..Query::default() };
            for batch in snapshot.query(&query).expect("a query") {
                batch.expect("sound");
            }
            count += 1;
        }
        count as f64 / begin.elapsed().as_secs_f64()
    };
    boxes_a_second(Duration::from_secs(1));
    let alone = boxes_a_second(Duration::from_secs(3));
    let cancel = Cancel::default();
    let beside = std::thread::scope(|scope| {
        scope.spawn(|| {
            let options = OptimizeOptions { cancel: cancel.clone(), ..OptimizeOptions::background() };
            let _ = Table::open(path).expect("a table").optimize(&options, &mut |_, _| {});
        });
        let beside = boxes_a_second(Duration::from_secs(3));
        cancel.set();
        beside
    });
    println!("boxes beside it          {beside:8.1} a second, {:.2} of those alone", beside / alone);
}

fn writing_beside(at: &str, size: &Size, alone: f64) {
    println!("\ncommits beside the background optimizer, by replication policy");
    for policy in ["none", "outlook(-1)", "outlook(0)", "full"] {
        let (path, table) = make(at, policy, policy.parse().expect("a policy"));
        let (done, cancel) = (AtomicBool::new(false), Cancel::default());
        let beside = std::thread::scope(|scope| {
            scope.spawn(|| {
                let table = Table::open(&path).expect("a table");
                let options = OptimizeOptions { cancel: cancel.clone(), ..OptimizeOptions::background() };
                while !done.load(Ordering::Relaxed) {
                    let _ = table.optimize(&options, &mut |_, _| {});
                }
            });
            let beside = commit_all(&table, &WriterOptions::default(), size, f64::INFINITY, &mut |_| {});
            done.store(true, Ordering::Relaxed);
            cancel.set();
            beside
        });
        let segments = std::fs::read_dir(format!("{path}/segments")).expect("a table");
        let written: u64 =
            segments.map(|file| file.and_then(|file| file.metadata()).map_or(0, |data| data.len())).sum();
        println!(
            "{policy:24} {beside:8.0} rows/s, {:.2} of those alone; {:.2} bytes written a byte ingested",
            beside / alone,
            written as f64 / size.bytes()
        );
        std::fs::remove_dir_all(&path).expect("the table to remove");
    }
}

fn keeping_up(at: &str, size: &Size, alone: f64) {
    println!("\na writer with optimize=True: debt as a share of the rows, sampled twenty times");
    for share in [0.5, 1.0] {
        let (path, table) = make(at, &format!("paced-{share}"), Replication::None);
        let mut debts = Vec::new();
        let options = WriterOptions { optimize: true, ..WriterOptions::default() };
        let pace = if share < 1.0 { share * alone } else { f64::INFINITY };
        let rate = commit_all(&table, &options, size, pace, &mut |commit| {
            if commit % (size.commits / 20).max(1) == 0 {
                let info = table.snapshot().expect("readable").info().expect("readable");
                debts.push(info.debt as f64 / info.about.rows.max(1) as f64);
            }
        });
        let info = table.snapshot().expect("readable").info().expect("readable");
        let text: Vec<String> = debts.iter().map(|debt| format!("{debt:.2}")).collect();
        let label = if share < 1.0 { "at half of the full rate" } else { "as fast as it goes" };
        println!("{label:24} {rate:8.0} rows/s  {}", text.join(" "));
        let (mean, most) = (info.runs as f64 / info.cubes as f64, info.most_runs);
        println!("{:24} {mean:.2} runs a cube, {most} at most", "");
        std::fs::remove_dir_all(&path).expect("the table to remove");
    }
}

fn following(at: &str) {
    let path = format!("{at}/long");
    let few = TableOptions { capacity: Some(16), replication: Replication::None, ..options() };
    let table = Table::create(&path, schema(), &few).expect("an empty directory");
    let mut writer = table.writer(&WriterOptions::default()).expect("a free name");
    let mut next = 0;
    let mut commit = |rows: usize| {
        writer.append(&batch(next, rows)).expect("rows of the schema");
        writer.commit().expect("a durable commit");
        next += rows;
    };
    commit(1_000_000);
    let copied = OptimizeOptions { replication: Some(Replication::default()), ..OptimizeOptions::default() };
    let optimize = || table.optimize(&copied, &mut |_, _| {}).expect("optimized");
    optimize();
    let reader = Table::open(&path).expect("a table");
    let small = Query { bounds: cube_box(&[0.5; 3], 0.01), ..Query::default() };
    run(&reader, &Query::default());
    let runs = table.snapshot().expect("readable").info().expect("readable").runs;
    println!("\na box of a table of {runs} runs: ms of the first time after a change, and again");
    let asked = |what: &str, times: usize, change: &mut dyn FnMut()| {
        let (first, again): (Vec<f64>, Vec<f64>) = (0..times)
            .map(|_| {
                change();
                (run(&reader, &small).1, run(&reader, &small).1)
            })
            .unzip();
        println!("{what:24} {:8.2} {:8.2}", median(first), median(again));
    };
    for rows in [10, 400] {
        asked(&format!("a commit of {rows} records"), 30, &mut || commit(rows));
    }
    asked("400, and the optimizer", 5, &mut || {
        commit(400);
        optimize();
    });
}

fn opening(at: &str) {
    let (short, table) = make(at, "short", Replication::None);
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
        let once = || {
            let begin = Instant::now();
            Table::open(path).expect("a table");
            begin.elapsed().as_secs_f64() * 1e3
        };
        median((0..9).map(|_| once()).collect())
    };
    println!("\nopening, median of 9     {:8.2} ms after 10,000 commits by 200 short-lived writers", opening(&short));
    println!("                         {:8.2} ms for the table of small commits", opening(&format!("{at}/small")));
}

fn watching(path: &str) {
    let table = Table::open(path).expect("a table");
    let mut writer = table.writer(&WriterOptions::default()).expect("a free name");
    let latencies = (0..50).map(|number| {
        let seen = Table::open(path).and_then(|table| Ok((table.snapshot()?, table))).expect("readable");
        std::thread::scope(|scope| {
            let watcher = scope.spawn(move || {
                let (seen, table) = seen;
                let found = table.wait(&seen, Duration::ZERO, Duration::from_secs(10)).expect("readable");
                found.map(|_| Instant::now()).expect("a commit")
            });
            writer.append(&batch(number * 100, 100)).expect("rows of the schema");
            writer.commit().expect("a durable commit");
            let committed = Instant::now();
            watcher.join().expect("a watcher").saturating_duration_since(committed).as_secs_f64() * 1e3
        })
    });
    println!("a watcher sees a commit  {:8.2} ms after it returned, median of 50", median(latencies.collect()));
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let after =
        |flag: &str| arguments.iter().position(|argument| argument == flag).map(|index| arguments[index + 1].clone());
    let number = |flag: &str, usual: usize| after(flag).map_or(usual, |text| text.parse().expect("a number"));
    let size = Size { commits: number("--commits", 2000), rows: number("--rows", 10_000) };
    let at = after("--at").map_or_else(|| std::env::temp_dir().join("kubist-bench-live"), PathBuf::from);
    let at = at.to_str().expect("a path in UTF-8");
    if Path::new(at).exists() {
        std::fs::remove_dir_all(at).expect("an old table to remove");
    }
    println!("{} commits of {} rows of {ROW_BYTES} bytes\n", size.commits, size.rows);
    let alone = layout(at, &size);
    writing_beside(at, &size, alone);
    keeping_up(at, &size, alone);
    following(at);
    opening(at);
    watching(&format!("{at}/small"));
    std::fs::remove_dir_all(at).expect("the tables to remove");
}
