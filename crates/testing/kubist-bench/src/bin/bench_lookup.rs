//! All records of a particle: costs and savings of a secondary index.
//!
//!     cargo run --release -p kubist-bench --bin bench_lookup
//!         [-- --particles 100000 --steps 200 --commits 1 --at DIR --compare]
//!
//! Particles move on smooth paths through a box. Rows of 36 bytes (an int64 id, the time, a position, a velocity) are
//! ingested step by step in bounded memory, in one or several commits. The output has storage and time with the index,
//! and with `--compare` also without it. Pages hold about 3,000 rows; a page counts once.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{ArrayRef, Float32Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kubist::{Query, Stats, Table, TableOptions, WriterOptions};
use kubist_bench::{ROW_BYTES, median, options, peak_memory, run};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const NAMES: [&str; 8] = ["pid", "time", "x", "y", "z", "vx", "vy", "vz"];
const ASKED: usize = 50;

fn schema() -> SchemaRef {
    let field =
        |name: &&str| Field::new(*name, if *name == "pid" { DataType::Int64 } else { DataType::Float32 }, false);
    Arc::new(Schema::new(NAMES.iter().map(field).collect::<Vec<_>>()))
}

/// Start and velocity, in boxes per run.
struct Particles {
    positions: Vec<[f32; 3]>,
    velocities: Vec<[f32; 3]>,
}

impl Particles {
    fn new(count: usize) -> Particles {
        let mut rng = SmallRng::seed_from_u64(5);
        let positions = (0..count).map(|_| std::array::from_fn(|_| rng.random())).collect();
        let velocities = (0..count).map(|_| std::array::from_fn(|_| rng.random::<f32>() * 4.0 - 2.0)).collect();
        Particles { positions, velocities }
    }

    /// `time` is in `[0, 1]`; walls reflect.
    fn at(&self, time: f32) -> RecordBatch {
        let mut columns: [Vec<f32>; 6] = Default::default();
        for (position, velocity) in self.positions.iter().zip(&self.velocities) {
            for d in 0..3 {
                let meander = 0.02 * (40.0 * (time + position[d])).sin();
                let way = (position[d] + velocity[d] * time + meander).rem_euclid(2.0);
                columns[d].push(if way > 1.0 { 2.0 - way } else { way });
                columns[3 + d].push(if way > 1.0 { -velocity[d] } else { velocity[d] });
            }
        }
        let count = self.positions.len();
        let pid = Arc::new(Int64Array::from_iter_values(0..count as i64)) as ArrayRef;
        let time = Arc::new(Float32Array::from_value(time, count)) as ArrayRef;
        let numbers = columns.into_iter().map(|column| Arc::new(Float32Array::from(column)) as ArrayRef);
        RecordBatch::try_new(schema(), [pid, time].into_iter().chain(numbers).collect()).expect("columns fit")
    }
}

fn ingest(at: &str, particles: &Particles, steps: usize, commits: usize, lookup: &[&str]) -> Table {
    let options = TableOptions {
        identity: vec!["pid".into(), "time".into()],
        lookup: lookup.iter().map(|name| name.to_string()).collect(),
        ..options()
    };
    let table = Table::create(at, schema(), &options).expect("an empty directory");
    let mut writer = table.writer(&WriterOptions::default()).expect("a free name");
    let mut seconds = 0.0;
    for step in 0..steps {
        let batch = particles.at(step as f32 / steps as f32);
        let begin = Instant::now();
        writer.append(&batch).expect("rows of the schema");
        if (step + 1) * commits / steps > step * commits / steps {
            writer.commit().expect("a durable commit");
        }
        seconds += begin.elapsed().as_secs_f64();
    }
    let info = table.snapshot().expect("readable").info().expect("readable");
    let (rows, lookups) = (info.about.rows as f64, info.disk.lookups as f64);
    println!("ingest                                 {:8.2} M rows/s", rows / seconds / 1e6);
    println!("peak memory so far                     {:8} MB", peak_memory());
    println!(
        "rows, runs, stored / raw               {} {} {:.3}",
        info.about.rows,
        info.runs,
        info.bytes as f64 / rows / ROW_BYTES as f64
    );
    let without = info.bytes as f64 - lookups;
    println!(
        "stored without, with the lookup        {:8.2} {:.2} bytes a row",
        without / rows,
        info.bytes as f64 / rows
    );
    println!(
        "the lookup's share                     {:8.2} % ({:.2} bytes a row)",
        lookups / without * 100.0,
        lookups / rows
    );
    table
}

fn report(label: &str, runs: &[(Stats, f64)]) {
    let of = |pick: &dyn Fn(&(Stats, f64)) -> f64| median(runs.iter().map(pick).collect());
    println!(
        "{label:24} {:9.0} {:9.0} {:7.0} {:9.0} {:9.2} {:9.2} {:9.2}",
        of(&|(stats, _)| stats.rows_returned as f64),
        of(&|(stats, _)| stats.rows_read as f64),
        of(&|(stats, _)| stats.pages_read as f64),
        of(&|(stats, _)| stats.runs_looked_up as f64),
        of(&|(stats, _)| stats.bytes_read as f64 / 1e6),
        of(&|(_, milliseconds)| *milliseconds),
        runs.iter().map(|(_, milliseconds)| *milliseconds).fold(0.0, f64::max),
    );
}

fn ask(table: &Table, pid: usize) -> (Stats, f64) {
    run(table, &Query { filter: Some(format!("pid = {pid}")), ..Query::default() })
}

/// Drops the files from the page cache.
fn forget(at: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(at)? {
        let path = entry?.path();
        match path.is_dir() {
            true => forget(&path)?,
            false => rustix::fs::fadvise(std::fs::File::open(&path)?, 0, None, rustix::fs::Advice::DontNeed)?,
        }
    }
    Ok(())
}

fn measure(at: &str, particles: usize, label: &str, asked: usize) {
    let mut rng = SmallRng::seed_from_u64(9);
    let pids: Vec<usize> = (0..asked).map(|_| rng.random_range(0..particles)).collect();
    let cold = pids.iter().take(10).map(|pid| {
        forget(Path::new(at)).expect("files that are there");
        ask(&Table::open(at).expect("a table"), *pid)
    });
    report(&format!("{label}, cold"), &cold.collect::<Vec<_>>());
    let table = Table::open(at).expect("a table");
    report(&format!("{label}, first time"), &pids.iter().map(|pid| ask(&table, *pid)).collect::<Vec<_>>());
    report(&format!("{label}, warm"), &pids.iter().map(|pid| ask(&table, *pid)).collect::<Vec<_>>());
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let after =
        |flag: &str| arguments.iter().position(|argument| argument == flag).and_then(|at| arguments.get(at + 1));
    let number = |flag: &str, default: usize| after(flag).map_or(default, |text| text.parse().expect("a number"));
    let (count, steps, commits) = (number("--particles", 100_000), number("--steps", 200), number("--commits", 1));
    let at = after("--at").map_or_else(|| std::env::temp_dir().join("kubist-bench-lookup"), PathBuf::from);
    let _ = std::fs::remove_dir_all(&at);
    let particles = Particles::new(count);
    let table = |name: &str| at.join(name).to_str().expect("a text path").to_string();
    println!("{count} particles x {steps} steps in {commits} commits");
    ingest(&table("with"), &particles, steps, commits, &["pid"]);
    let compare = arguments.iter().any(|argument| argument == "--compare");
    if compare {
        println!("\nwithout a lookup");
        ingest(&table("without"), &particles, steps, commits, &[]);
    }
    println!(
        "\n{:24} {:>9} {:>9} {:>7} {:>9} {:>9} {:>9} {:>9}",
        "one particle (medians)", "returned", "read", "pages", "runs", "MB read", "ms", "most ms"
    );
    measure(&table("with"), count, "lookup", ASKED);
    if compare {
        measure(&table("without"), count, "scan", 3);
    }
    let _ = std::fs::remove_dir_all(&at);
}
