//! Sites through the public interface: thousands of random histories against a model, and each refusal.

mod histories;
mod refusals;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use kubist::{CommitOptions, Dimension, Query, Result, Table, TableOptions, WriterOptions};
use kubist_sync::{SyncOptions, Synced, sync};

pub fn place(name: &str) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("memory://{name}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The positions depend on the ids.
pub fn rows(ids: &[i64]) -> RecordBatch {
    let x: ArrayRef = Arc::new(Float64Array::from_iter_values(ids.iter().map(|id| (*id as f64 * 0.618).fract())));
    let id: ArrayRef = Arc::new(Int64Array::from(ids.to_vec()));
    RecordBatch::try_from_iter([("x", x), ("id", id)]).unwrap()
}

pub fn create(location: &str, has_identity: bool) -> Table {
    let options = TableOptions {
        dimensions: vec![Dimension::learned("x")],
        identity: if has_identity { vec!["id".into()] } else { vec![] },
        capacity: Some(16),
        ..TableOptions::default()
    };
    Table::create(location, rows(&[]).schema(), &options).unwrap()
}

pub fn append(location: &str, writer: &str, ids: &[i64], step: Option<i64>) {
    let table = Table::open(location).unwrap();
    let mut writer = table.writer(&WriterOptions { name: Some(writer.into()), ..Default::default() }).unwrap();
    writer.append(&rows(ids)).unwrap();
    writer.commit_as(&CommitOptions { step, token: None }).unwrap();
}

pub fn ids(location: &str) -> Vec<i64> {
    let snapshot = Table::open(location).unwrap().snapshot().unwrap();
    let mut ids = Vec::new();
    for batch in snapshot.query(&Query::new().columns(["id"])).unwrap() {
        ids.extend(batch.unwrap().column(0).as_primitive::<Int64Type>().values());
    }
    ids.sort_unstable();
    ids
}

pub fn both(a: &str, b: &str) -> Result<Synced> {
    sync(a, b, &SyncOptions::default(), &mut |_, _| {})
}
