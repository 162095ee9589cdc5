//! Meaningless numbers are refused, and large ones cost no more than their results.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kubist::store::MemoryStore;
use kubist::{
    Dimension, Domain, ErrorKind, EstimateOptions, PerCell, Query, Result, Snapshot, Table, TableOptions, Value,
    WriterOptions,
};

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false), Field::new("x", DataType::Float64, true)]))
}

/// `copies` rows share an identity.
fn snapshot(values: Vec<Option<f64>>, copies: i64) -> Snapshot {
    let domain = Domain::Linear(Value::Int(0), Value::Int(1));
    let options = TableOptions {
        dimensions: vec![Dimension { column: "x".into(), domain }],
        identity: vec!["id".into()],
        ..TableOptions::default()
    };
    let table = Table::create(Arc::new(MemoryStore::new("absurd")), schema(), &options).unwrap();
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values((0..values.len() as i64).map(|row| row / copies)));
    let mut writer = table.writer(&WriterOptions::default()).unwrap();
    writer.append(&RecordBatch::try_new(schema(), vec![ids, Arc::new(Float64Array::from(values))]).unwrap()).unwrap();
    writer.commit().unwrap();
    table.snapshot().unwrap()
}

fn per_cell(rows: u64, width: f64) -> Query {
    Query { per_cell: Some(PerCell { rows, widths: vec![("x".into(), width.into())] }), ..Query::default() }
}

fn rows(snapshot: &Snapshot, query: &Query) -> Result<usize> {
    snapshot.query(query)?.map(|batch| Ok(batch?.num_rows())).sum()
}

fn refused<T>(result: Result<T>, word: &str) {
    match result {
        Err(error) if error.kind() == ErrorKind::InvalidInput => assert!(error.to_string().contains(word), "{error}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was taken: {word}"),
    }
}

fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = channel();
    let thread = std::thread::spawn(move || drop(sender.send(work())));
    match receiver.recv_timeout(Duration::from_secs(120)) {
        Ok(done) => done,
        Err(RecvTimeoutError::Timeout) => panic!("it did not end"),
        Err(RecvTimeoutError::Disconnected) => std::panic::resume_unwind(thread.join().unwrap_err()),
    }
}

#[test]
fn cells_that_cannot_be_told_apart_are_refused() {
    let values = [0.0, 0.25, 0.5, 0.75, 1.0].map(Some);
    let found = snapshot(values.to_vec(), 1);
    for width in [1e-20, 1e-300, 5e-324] {
        refused(found.query(per_cell(1, width)), "wider cells");
        refused(found.count(per_cell(1, width)), "\"x\"");
    }
    for width in [0.0, -0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        refused(rows(&found, &per_cell(1, width)), "width");
    }
    for (width, expected) in [(2f64.powi(-53), 5), (2f64.powi(-52), 5), (0.5, 3), (1.5, 1), (1e300, 1), (f64::MAX, 1)] {
        assert_eq!(rows(&found, &per_cell(1, width)).unwrap(), expected, "{width}");
    }
    let far = snapshot([values.to_vec(), vec![Some(1e10)]].concat(), 1);
    let narrow = per_cell(1, 2f64.powi(-40));
    refused(rows(&far, &narrow), "1e10");
    assert_eq!(rows(&far, &Query { filter: Some("x < 2".into()), ..narrow }).unwrap(), 5);
}

#[test]
fn what_is_no_number_has_cells_of_its_own() {
    let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, -f64::MAX, 0.5];
    let mut values: Vec<Option<f64>> = odd.map(Some).to_vec();
    values.push(None);
    let doubled = [values.clone(), values].concat();
    let found = snapshot(doubled, 1);
    assert_eq!(rows(&found, &per_cell(1, f64::MAX)).unwrap(), 7, "each kind of value has its cell");
    refused(rows(&found, &per_cell(1, 1.0)), "wider cells");
}

#[test]
fn many_rows_a_cell_cost_what_choosing_them_costs() {
    const ROWS: usize = 300_000;
    let values = (0..ROWS).map(|row| Some(row as f64 / ROWS as f64)).collect();
    let found = snapshot(values, 1);
    for rows_a_cell in [20_000, 100_000, u64::MAX] {
        let (asked, expected) = (found.clone(), ROWS.min(rows_a_cell as usize));
        in_time(move || {
            let ids = |query: Query| -> Vec<i64> {
                let batches = asked.query(&query).unwrap().map(|batch| batch.unwrap());
                batches.flat_map(|batch| batch["id"].as_primitive::<Int64Type>().values().to_vec()).collect()
            };
            let of_cell = ids(per_cell(rows_a_cell, 10.0));
            assert_eq!(of_cell.len(), expected);
            assert!(of_cell == ids(Query { limit: Some(rows_a_cell), ..Query::default() }));
        });
    }
}

#[test]
fn ties_beyond_what_a_cell_takes_are_told_apart() {
    const COPIES: i64 = 1_000;
    let values = (0..200_000).map(|row| Some((row % 977) as f64 / 977.0)).collect();
    let found = snapshot(values, COPIES);
    for asked in [1, 1_500, 20_000] {
        let (in_cell, of_all) = (found.clone(), found.clone());
        let of_cell = in_time(move || rows(&in_cell, &per_cell(asked, 10.0)).unwrap());
        let limited = in_time(move || rows(&of_all, &Query { limit: Some(asked), ..Query::default() }).unwrap());
        assert_eq!((of_cell, limited), (asked as usize, asked as usize));
    }
}

#[test]
fn a_refinement_ends_or_is_refused() {
    let found = snapshot((0..100).map(|row| Some(row as f64 / 100.0)).collect(), 1);
    let steps = |query: Query, start: f64, factor: f64| {
        let found = found.clone();
        in_time(move || {
            let mut all = (0, 0);
            for step in found.refine(&query, start, factor)? {
                let in_step: usize = step?.map(|batch| batch.unwrap().num_rows()).sum();
                all = (all.0 + 1, all.1 + in_step);
            }
            Ok(all)
        })
    };
    let all = Query::default;
    refused(steps(all(), 0.001, 1.000_000_000_1), "factor");
    refused(steps(all(), 0.001, 1.0 + f64::EPSILON), "steps");
    for factor in [1.0, 0.5, -2.0, f64::NAN, f64::INFINITY] {
        refused(steps(all(), 0.001, factor), "factor");
    }
    for start in [1e-300, 5e-324, 0.0, -1.0, 1.5, f64::NAN, f64::INFINITY] {
        refused(steps(all(), start, 2.0), "start");
    }
    // In the upper half of the priorities, adjacent ones round to the same double.
    let upper = Query { window: Some((0.5, 1.0)), ..Query::default() };
    refused(steps(upper.clone(), 1e-18, 2.0), "start");
    assert_eq!(steps(all(), 0.5, 1e300).unwrap(), (2, 100));
    assert_eq!(steps(all(), 2f64.powi(-64), 2.0).unwrap(), (65, 100));
    assert_eq!(steps(all(), 1.0, 1.000_000_000_1).unwrap(), (1, 100));
    assert_eq!(steps(all(), 0.1, 1.001).unwrap().1, 100);
    assert!(steps(upper, 0.01, 2.0).unwrap().1 < 100);
}

#[test]
fn other_absurd_numbers_are_refused_or_harmless() {
    let found = snapshot((0..100).map(|row| Some(row as f64 / 100.0)).collect(), 1);
    for parts in [0, (1 << 16) + 1, 1_000_000_000, usize::MAX] {
        refused(found.splits(Query::default(), parts), "parts");
    }
    assert_eq!(found.splits(Query::default(), 1 << 16).unwrap().len(), 1 << 16);
    assert_eq!(rows(&found, &Query { limit: Some(u64::MAX), ..Query::default() }).unwrap(), 100);
    assert_eq!(rows(&found, &Query { limit: Some(0), ..Query::default() }).unwrap(), 0);
    assert_eq!(rows(&found, &per_cell(u64::MAX, 0.5)).unwrap(), 100);
    let tiny = Query { window: Some((0.5, 0.5f64.next_up())), limit: Some(u64::MAX), ..Query::default() };
    assert_eq!(rows(&found, &tiny).unwrap(), 0);
    assert_eq!(rows(&found, &Query { sample: Some(5e-324), ..Query::default() }).unwrap(), 0);
    refused(rows(&found, &Query { steps: Some((Some(i64::MAX), Some(i64::MIN))), ..Query::default() }), "steps");
    let of = |aggregate: &str, error: Option<f64>| {
        let aggregates = vec![aggregate.to_string()];
        found.estimate(&EstimateOptions { aggregates, error, ..EstimateOptions::default() }, &mut |_| {})
    };
    for bins in ["0", "-1", "1e18", "1e308", "0.5"] {
        assert!(of(&format!("histogram(x, {bins})"), None).is_err(), "{bins}");
    }
    for error in [0.0, -0.1, f64::NAN, f64::INFINITY] {
        refused(of("mean(x)", Some(error)), "error");
    }
    assert!(of("mean(x)", Some(5e-324)).unwrap().figures[0].exact, "it reads all, and no further");
}
