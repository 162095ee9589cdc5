//! Predicted and actual reads of an estimate on clustered records, where volume says little about the
//! number of records.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use kubist::store::MemoryStore;
use kubist::{Bound, Dimension, Domain, EstimateOptions, Query, Table, TableOptions, Value, WriterOptions};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const ROWS: i64 = 1_200_000;

fn table() -> Table {
    let floats = ["x", "y"].map(|name| Field::new(name, DataType::Float32, false));
    let wholes = ["id", "kind"].map(|name| Field::new(name, DataType::Int64, false));
    let schema = Arc::new(Schema::new([wholes, floats].concat()));
    let dimension =
        |name: &str| Dimension { column: name.into(), domain: Domain::Linear(Value::Int(0), Value::Int(1)) };
    let options = TableOptions {
        dimensions: vec![dimension("x"), dimension("y")],
        identity: vec!["id".into()],
        ..Default::default()
    };
    let table = Table::create(Arc::new(MemoryStore::new("heaps")), schema.clone(), &options).unwrap();
    let mut rng = SmallRng::seed_from_u64(4);
    let heaps: Vec<[f32; 2]> = (0..300).map(|_| [rng.random(), rng.random()]).collect();
    let near: Vec<[f32; 2]> = (0..ROWS)
        .map(|_| heaps[rng.random_range(0..heaps.len())].map(|centre| centre + rng.random_range(-3e-4..3e-4f32)))
        .collect();
    let side = |d: usize| Arc::new(Float32Array::from_iter_values(near.iter().map(|point| point[d]))) as ArrayRef;
    let ids = Arc::new(Int64Array::from_iter_values(0..ROWS)) as ArrayRef;
    let kinds = Arc::new(Int64Array::from_iter_values((0..ROWS).map(|id| id % 5))) as ArrayRef;
    let mut writer = table.writer(&WriterOptions::default()).unwrap();
    writer.append(&RecordBatch::try_new(schema, vec![ids, kinds, side(0), side(1)]).unwrap()).unwrap();
    writer.commit().unwrap();
    table
}

fn bound(name: &str, low: f64, high: f64) -> Bound {
    Bound { column: name.into(), low: Some(Value::Float(low)), high: Some(Value::Float(high)) }
}

#[test]
fn few_records_are_few_and_the_outlook_is_right() {
    let snapshot = table().snapshot().unwrap();
    let mut rng = SmallRng::seed_from_u64(9);
    let (mut bounded, mut told) = (0, 0);
    for turn in 0..60 {
        let half = if turn % 2 == 0 { rng.random_range(0.01..0.1) } else { rng.random_range(0.3..0.45) };
        let [x, y] = [(); 2].map(|()| rng.random_range(half..1.0 - half));
        let query =
            Query { bounds: vec![bound("x", x - half, x + half), bound("y", y - half, y + half)], ..Query::default() };
        let truth = snapshot.count(&query).unwrap();
        let options = EstimateOptions { aggregates: vec!["mean(x)".into()], query, ..EstimateOptions::default() };
        let few = EstimateOptions { max_rows: Some(60), error: Some(1e-6), ..options.clone() };
        let found = snapshot.estimate(&few, &mut |_| {}).unwrap();
        let figure = &found.figures[0];
        assert!(figure.rows < 150 || figure.exact, "{} of {truth} records in {:?}", figure.rows, few.query.bounds);
        bounded += u32::from(!figure.exact);
        let groups = EstimateOptions { group_by: vec!["kind".into()], max_rows: Some(250), ..few.clone() };
        let missed = snapshot.estimate(&groups, &mut |_| {}).unwrap().missed_group.unwrap();
        assert!(missed as f64 <= 1.3 * truth as f64, "{missed} of {truth} in {:?}", few.query.bounds);
        let mut outlooks = Vec::new();
        let precise = EstimateOptions { error: Some(1e-7), ..options };
        snapshot.estimate(&precise, &mut |estimate| outlooks.extend(estimate.outlook.clone())).unwrap();
        for outlook in &outlooks {
            let share = outlook.of as f64 / truth as f64;
            assert!((0.8..1.25).contains(&share), "{} of {truth} records in {:?}", outlook.of, precise.query.bounds);
        }
        told += outlooks.len();
    }
    assert!(bounded > 30 && told > 10, "{bounded} and {told}");
}
