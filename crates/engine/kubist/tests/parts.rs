//! Splits, trajectories and inclusion probabilities through the Rust API.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, Float64Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use kubist::WriterOptions;
use kubist::{Bound, Dimension, Domain, Error, Query, QueryStream, Split, Table, TableOptions, Value};

fn table(location: &std::path::Path) -> Table {
    let schema = Arc::new(Schema::new(vec![
        Field::new("x", DataType::Float64, false),
        Field::new("pid", DataType::Int64, false),
        Field::new("n", DataType::Int64, false),
    ]));
    let dimension = Dimension { column: "x".into(), domain: Domain::Linear(Value::Float(0.0), Value::Float(1.0)) };
    let options = TableOptions {
        dimensions: vec![dimension],
        identity: vec!["n".into()],
        lookup: vec!["pid".into()],
        capacity: Some(256),
        ..TableOptions::default()
    };
    let table = Table::create(location.to_str().unwrap(), schema.clone(), &options).unwrap();
    let mut writer = table.writer(&WriterOptions::default()).unwrap();
    for commit in 0..4i64 {
        let rows = commit * 5_000..(commit + 1) * 5_000;
        let x = Float64Array::from_iter_values(rows.clone().map(|n| (n * 7919 % 20_000) as f64 / 20_000.0));
        let pid = Int64Array::from_iter_values(rows.clone().map(|n| n % 500));
        let columns: Vec<Arc<dyn Array>> =
            vec![Arc::new(x), Arc::new(pid), Arc::new(Int64Array::from_iter_values(rows))];
        writer.append(&RecordBatch::try_new(schema.clone(), columns).unwrap()).unwrap();
        writer.commit().unwrap();
    }
    table
}

fn numbers(stream: QueryStream, column: &str) -> Vec<i64> {
    let batches = stream.map(|batch| batch.unwrap());
    batches.flat_map(|batch| batch[column].as_primitive::<Int64Type>().values().to_vec()).collect()
}

fn inside(low: f64, high: f64) -> Query {
    let bound = Bound { column: "x".into(), low: Some(Value::Float(low)), high: Some(Value::Float(high)) };
    Query { bounds: vec![bound], ..Query::default() }
}

#[test]
fn parts_travel_as_text_and_are_read_as_one() {
    let directory = tempfile::tempdir().unwrap();
    let snapshot = table(&directory.path().join("t.kubist")).snapshot().unwrap();
    let query = Query { sample: Some(0.5), filter: Some("pid < 400".into()), ..inside(0.2, 0.9) };
    let mut all = numbers(snapshot.query(&query).unwrap(), "n");
    all.sort_unstable();
    for parts in [1, 2, 5, 64] {
        let splits = snapshot.splits(&query, parts).unwrap();
        assert_eq!(splits.len(), parts);
        let mut found = Vec::new();
        for split in splits {
            let sent: Split = serde_json::from_str(&serde_json::to_string(&split).unwrap()).unwrap();
            assert_eq!(sent, split);
            found.extend(numbers(Table::open(&sent.location).and_then(|table| table.read_split(&sent)).unwrap(), "n"));
        }
        found.sort_unstable();
        assert_eq!(found, all);
    }
    let limited = Query { limit: Some(3), ..Query::default() };
    assert!(matches!(snapshot.splits(&limited, 2), Err(Error::Invalid(_))));
    assert!(matches!(snapshot.splits(&query, 0), Err(Error::Invalid(_))));
}

#[test]
fn a_part_says_the_query_as_it_was_asked() {
    let directory = tempfile::tempdir().unwrap();
    let snapshot = table(&directory.path().join("t.kubist")).snapshot().unwrap();
    // A bound without an SQL literal, and a column with two bounds.
    let query = inside(0.1, f64::INFINITY)
        .between("x", Value::Float(f64::NEG_INFINITY), Value::Float(1.0 / 3.0))
        .between("n", Value::Int(0), Value::Int(i128::MAX));
    let splits = snapshot.splits(&query, 3).unwrap();
    let text = serde_json::to_string(&splits).unwrap();
    let sent: Vec<Split> = serde_json::from_str(&text).unwrap();
    assert!(sent.iter().all(|split| split.query == query), "{text}");
    let read = sent.iter().flat_map(|split| {
        numbers(Table::open(&split.location).and_then(|table| table.read_split(split)).unwrap(), "n")
    });
    let (mut read, mut asked): (Vec<i64>, _) = (read.collect(), numbers(snapshot.query(&query).unwrap(), "n"));
    read.sort_unstable();
    asked.sort_unstable();
    assert!(!asked.is_empty() && read == asked);
    let later = serde_json::to_string(&splits[0]).unwrap().replace("{\"version\":2", "{\"version\":3");
    let refused = serde_json::from_str::<Split>(&later).unwrap_err().to_string();
    assert!(refused.contains("form 2 of a split, not 3"), "{refused}");
}

#[test]
fn a_token_leads_back_to_its_snapshot() {
    let directory = tempfile::tempdir().unwrap();
    let location = directory.path().join("t.kubist");
    let table = table(&location);
    let before = table.snapshot().unwrap();
    let token = serde_json::to_string(&before.token()).unwrap();
    let mut writer = table.writer(&WriterOptions::default()).unwrap();
    let batch = before.query(&Query { limit: Some(10), ..Query::default() }).unwrap().next().unwrap().unwrap();
    writer.append(&batch).unwrap();
    writer.commit().unwrap();
    let other = Table::open(location.to_str().unwrap()).unwrap();
    assert_eq!(other.snapshot().unwrap().rows().unwrap(), 20_010);
    let again = other.at(&serde_json::from_str(&token).unwrap()).unwrap();
    assert_eq!(again.rows().unwrap(), 20_000);
    assert_eq!(again.token(), before.token());
}

#[test]
fn trajectories_are_all_records_of_what_passed() {
    let directory = tempfile::tempdir().unwrap();
    let snapshot = table(&directory.path().join("t.kubist")).snapshot().unwrap();
    let through = inside(0.5, 0.501);
    let passed: BTreeSet<i64> = numbers(snapshot.query(&through).unwrap(), "pid").into_iter().collect();
    let stream = snapshot.trajectories(&through, "pid", Query::default()).unwrap();
    let found = numbers(stream, "pid");
    assert_eq!(found.iter().copied().collect::<BTreeSet<_>>(), passed);
    assert_eq!(found.len(), passed.len() * 40);
    assert!(!passed.is_empty() && passed.len() < 500);
}

#[test]
fn probabilities_are_those_of_the_draw() {
    let directory = tempfile::tempdir().unwrap();
    let snapshot = table(&directory.path().join("t.kubist")).snapshot().unwrap();
    let of = |query: Query| -> Vec<f64> {
        let query = Query { inclusion: Some("p".into()), columns: Some(vec![]), ..query };
        let batches = snapshot.query(&query).unwrap().map(|batch| batch.unwrap());
        batches.flat_map(|batch| batch["p"].as_primitive::<Float64Type>().values().to_vec()).collect()
    };
    assert!(of(Query { sample: Some(0.25), ..inside(0.1, 0.6) }).iter().all(|p| *p == 0.25));
    assert!(of(Query { window: Some((0.5, 0.75)), ..Query::default() }).iter().all(|p| *p == 0.25));
    let limited = of(Query { limit: Some(2_000), ..Query::default() });
    assert_eq!(limited.len(), 2_000);
    assert!(limited.iter().all(|p| (0.08..0.12).contains(p) && *p == limited[0]));
    let taken = Query { inclusion: Some("x".into()), ..Query::default() };
    assert!(matches!(snapshot.query(&taken), Err(Error::Invalid(_))));
}
