//! Rows and measurements that the benchmarks share. Each benchmark prints tables and asserts nothing.

use std::sync::Arc;
use std::time::Instant;

use arrow_array::{ArrayRef, Float32Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kubist::{Bound, Dimension, Domain, EstimateOptions, Query, Stats, Table, TableOptions, Value};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

#[global_allocator]
static ALLOCATOR: kubist_memory::Allocator = kubist_memory::Allocator;

pub const ROW_BYTES: u64 = 36;
pub const BATCH_ROWS: usize = 1 << 18;
pub const COLUMNS: [&str; 8] = ["id", "x", "y", "z", "a", "b", "c", "d"];

pub fn schema() -> SchemaRef {
    let field = |name: &&str| Field::new(*name, if *name == "id" { DataType::Int64 } else { DataType::Float32 }, false);
    Arc::new(Schema::new(COLUMNS.iter().map(field).collect::<Vec<_>>()))
}

/// Rows `first..first + rows`; every second row is in a cluster, of 400 clusters in total.
pub fn batch(first: usize, rows: usize) -> RecordBatch {
    let mut rng = SmallRng::seed_from_u64(first as u64);
    let mut centres = SmallRng::seed_from_u64(77);
    let centres: Vec<[f32; 4]> = (0..400).map(|_| std::array::from_fn(|_| centres.random::<f32>())).collect();
    let mut columns: [Vec<f32>; 7] = std::array::from_fn(|_| Vec::with_capacity(rows));
    for row in first..first + rows {
        let point: [f32; 3] = if row % 2 == 0 {
            std::array::from_fn(|_| rng.random())
        } else {
            let centre = &centres[rng.random_range(0..centres.len())];
            // A sum of uniform numbers approximates a normal deviate.
            let mut normal = || (0..6).map(|_| rng.random::<f32>() - 0.5).sum::<f32>() / 0.707;
            std::array::from_fn(|d| (centre[d] + (0.002 + 0.02 * centre[3]) * normal()).clamp(0.0, 1.0))
        };
        for (column, value) in columns.iter_mut().zip(point) {
            column.push(value);
        }
        for (index, column) in columns[3..].iter_mut().enumerate() {
            column.push(point[index % 3] * 2.0 - 1.0 + rng.random::<f32>());
        }
    }
    let id = Arc::new(Int64Array::from_iter_values(first as i64..(first + rows) as i64)) as ArrayRef;
    let columns = columns.into_iter().map(|column| Arc::new(Float32Array::from(column)) as ArrayRef);
    RecordBatch::try_new(schema(), std::iter::once(id).chain(columns).collect()).expect("columns fit the schema")
}

/// Peak resident memory of this process in MB (10^6 bytes, as in all benchmarks), if the system reports it.
pub fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) * 1024 / 1_000_000
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

pub fn options() -> TableOptions {
    let dimension =
        |name: &str| Dimension { column: name.into(), domain: Domain::Linear(Value::Int(0), Value::Int(1)) };
    TableOptions {
        dimensions: ["x", "y", "z"].map(dimension).to_vec(),
        identity: vec!["id".into()],
        ..Default::default()
    }
}

pub fn run(table: &Table, query: &Query) -> (Stats, f64) {
    let begin = Instant::now();
    let mut stream = table.snapshot().expect("readable").query(query).expect("a query");
    for batch in stream.by_ref() {
        batch.expect("sound");
    }
    (stream.stats(), begin.elapsed().as_secs_f64() * 1e3)
}

pub fn cube_box(centre: &[f64; 3], half: f64) -> Vec<Bound> {
    let range = |(name, middle): (&str, &f64)| Bound {
        column: name.into(),
        low: Some(Value::Float(middle - half)),
        high: Some(Value::Float(middle + half)),
    };
    ["x", "y", "z"].into_iter().zip(centre).map(range).collect()
}

/// Returns the half width of a box around `centre` with about `wanted` rows. It is estimated, because exact counts of
/// large boxes would fill the page cache before the measurement.
pub fn half_width(table: &Table, centre: &[f64; 3], wanted: u64) -> f64 {
    let snapshot = table.snapshot().expect("readable");
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..24 {
        let middle: f64 = 0.5 * (low + high);
        let query = Query { bounds: cube_box(centre, middle), ..Query::default() };
        let aggregates = vec!["count()".to_string()];
        let options = EstimateOptions { aggregates, query, error: Some(0.03), ..EstimateOptions::default() };
        let count = snapshot.estimate(&options, &mut |_| {}).expect("an estimate").figures[0].value.unwrap_or(0.0);
        if (count - wanted as f64).abs() < 0.02 * wanted as f64 {
            return middle;
        }
        if count < wanted as f64 { low = middle } else { high = middle }
    }
    high
}
