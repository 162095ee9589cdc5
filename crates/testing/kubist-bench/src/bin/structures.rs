//! Compares the papers' structures: numbers of nodes and stored rows on the same points, and the cost of
//! replicas on uniform data.
//!
//!     cargo run --release -p kubist-bench --bin structures
//!
//! Points are two-dimensional, half uniform and half Zipf-distributed, as in figure 4.6 of the thesis. Its
//! printed counts cannot be right (10,000 points at capacity 100 need at least 100 leaves), so these are
//! our own.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kubist::store::MemoryStore;
use kubist::{Dimension, Domain, OptimizeOptions, Replication, Table, TableOptions, Value, WriterOptions};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const NAMES: [&str; 4] = ["x", "y", "z", "w"];

fn schema(dimensions: usize) -> SchemaRef {
    let id = Field::new("id", DataType::Int64, false);
    let coordinates = NAMES[..dimensions].iter().map(|name| Field::new(*name, DataType::Float64, false));
    Arc::new(Schema::new(std::iter::once(id).chain(coordinates).collect::<Vec<_>>()))
}

fn table(points: &[Vec<f64>], capacity: u32, replication: Replication) -> Table {
    let schema = schema(points.len());
    let dimension =
        |name: &&str| Dimension { column: name.to_string(), domain: Domain::Linear(Value::Int(0), Value::Int(1)) };
    let options = TableOptions {
        dimensions: NAMES[..points.len()].iter().map(dimension).collect(),
        identity: vec!["id".into()],
        capacity: Some(capacity),
        replication,
        ..TableOptions::default()
    };
    let table = Table::create(Arc::new(MemoryStore::new("structures")), schema.clone(), &options).expect("options");
    let mut writer = table.writer(&WriterOptions::default()).expect("a free name");
    let id = Arc::new(Int64Array::from_iter_values(0..points[0].len() as i64)) as ArrayRef;
    let coordinates = points.iter().map(|column| Arc::new(Float64Array::from(column.clone())) as ArrayRef);
    let batch =
        RecordBatch::try_new(schema, std::iter::once(id).chain(coordinates).collect()).expect("columns that fit");
    writer.append(&batch).expect("rows of the schema");
    writer.commit().expect("a commit");
    drop(writer);
    table.optimize(&OptimizeOptions::default(), &mut |_, _| {}).expect("an optimized table");
    table
}

/// The tree keeps points only in its leaves and divides nodes with more than `capacity` points into four.
fn quadtree(points: Vec<[f64; 2]>, capacity: usize, low: [f64; 2], side: f64) -> u64 {
    if points.len() <= capacity || side < 1e-9 {
        return 1;
    }
    let half = side / 2.0;
    let mut quarters: [Vec<[f64; 2]>; 4] = Default::default();
    for point in points {
        let right = (0..2).map(|d| ((point[d] >= low[d] + half) as usize) << d).sum::<usize>();
        quarters[right].push(point);
    }
    let below = quarters.into_iter().enumerate().map(|(child, points)| {
        let corner = std::array::from_fn(|d| low[d] + half * (child >> d & 1) as f64);
        quadtree(points, capacity, corner, half)
    });
    1 + below.sum::<u64>()
}

/// Ranks with a probability proportional to `1 / rank`, spread over [0, 1).
fn zipf(rng: &mut SmallRng) -> f64 {
    let most = 7.0f64;
    ((rng.random::<f64>() * most).exp() - 1.0) / (most.exp() - 1.0)
}

fn main() {
    println!("half uniform, half Zipf, two dimensions\n");
    println!(
        "{:>9} {:>8}  {:12} {:>9} {:>12} {:>8}",
        "points", "capacity", "structure", "nodes", "stored rows", "ratio"
    );
    for rows in [10_000usize, 1_000_000] {
        let mut rng = SmallRng::seed_from_u64(46);
        let points: Vec<[f64; 2]> = (0..rows)
            .map(|row| match row % 2 {
                0 => [rng.random(), rng.random()],
                _ => [zipf(&mut rng), zipf(&mut rng)],
            })
            .collect();
        let columns: Vec<Vec<f64>> = (0..2).map(|d| points.iter().map(|point| point[d]).collect()).collect();
        for capacity in [100u32, 2000] {
            for policy in ["none", "outlook(0)", "outlook(1)", "full"] {
                let table = table(&columns, capacity, policy.parse().expect("a policy"));
                let info = table.snapshot().and_then(|snapshot| snapshot.info()).expect("readable");
                let stored = info.about.rows + info.replica_rows;
                let ratio = stored as f64 / rows as f64;
                println!("{rows:9} {capacity:8}  {policy:12} {:9} {stored:12} {ratio:8.3}", info.cubes);
            }
            let nodes = quadtree(points.clone(), capacity as usize, [0.0; 2], 1.0);
            println!("{rows:9} {capacity:8}  {:12} {nodes:9} {rows:12} {:8.3}", "quadtree", 1.0);
        }
    }

    println!("\nuniform points that fill every level of the tree, all copied downwards (full)\n");
    println!(
        "{:>2} {:>9}  {:>16} {:>8}  {:>18} {:>10}",
        "k", "points", "copies / stored", "1 / 2^k", "copies / distinct", "1/(2^k-1)"
    );
    for (dimensions, levels) in [(1usize, 9u32), (2, 5), (3, 3), (4, 2)] {
        let children = 1usize << dimensions;
        let capacity = 1000usize;
        let cubes: usize = (0..=levels).map(|level| children.pow(level)).sum();
        let rows = capacity * cubes;
        let mut rng = SmallRng::seed_from_u64(7);
        let columns: Vec<Vec<f64>> = (0..dimensions).map(|_| (0..rows).map(|_| rng.random()).collect()).collect();
        let info = table(&columns, capacity as u32, Replication::Full { height: levels });
        let info = info.snapshot().and_then(|snapshot| snapshot.info()).expect("readable");
        let copies = info.replica_rows as f64;
        println!(
            "{dimensions:2} {rows:9}  {:16.4} {:8.4}  {:18.4} {:10.4}",
            copies / (copies + rows as f64),
            1.0 / children as f64,
            copies / rows as f64,
            1.0 / (children - 1) as f64
        );
    }
}
