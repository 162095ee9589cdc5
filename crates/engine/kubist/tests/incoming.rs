//! Batches with shared values take no more memory.

use std::sync::Arc;

use arrow_array::builder::StringViewBuilder;
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Float64Array, Int32Array, RecordBatch, StringArray};
use kubist::{Dimension, Domain, Query, Table, TableOptions, WriterOptions};

/// 600 rows share a value of 1 MiB, the largest allowed.
const ROWS: usize = 600;
const VALUE_BYTES: usize = 1 << 20;

fn batch(kind: ArrayRef) -> RecordBatch {
    let x: ArrayRef = Arc::new(Float64Array::from_iter_values((0..ROWS).map(|row| row as f64)));
    RecordBatch::try_from_iter([("x", x), ("kind", kind)]).unwrap()
}

#[test]
fn a_long_value_named_often_is_written_in_bounded_memory() {
    let folder = tempfile::tempdir().unwrap();
    let long = "x".repeat(VALUE_BYTES);
    let values: ArrayRef = Arc::new(StringArray::from(vec![long.as_str()]));
    let dictionary = DictionaryArray::<Int32Type>::new(Int32Array::from(vec![0; ROWS]), values);
    let mut views = StringViewBuilder::new().with_deduplicate_strings();
    (0..ROWS).for_each(|_| views.append_value(&long));
    let views = views.finish();
    rayon::ThreadPoolBuilder::new().num_threads(2).build_global().unwrap();
    for (name, kind) in [("dictionary", Arc::new(dictionary) as ArrayRef), ("views", Arc::new(views))] {
        let batch = batch(kind);
        let options = TableOptions {
            dimensions: vec![Dimension { column: "x".into(), domain: Domain::Learned }],
            ..TableOptions::default()
        };
        let location = folder.path().join(name);
        let table = Table::create(location.to_str().unwrap(), batch.schema(), &options).unwrap();
        let memory_bytes = Some(16 << 20);
        let mut writer = table.writer(&WriterOptions { memory_bytes, ..WriterOptions::default() }).unwrap();
        let before = peak_bytes();
        writer.append(&batch).unwrap();
        let taken = peak_bytes().saturating_sub(before);
        // Copied for each row, the values would take 600 MiB, and as much again in the writer.
        assert!(taken < 512 << 20, "{name}: {taken} bytes");
        assert_eq!(writer.pending_rows(), ROWS as u64);
        writer.discard();
        drop(writer);
        assert_eq!(table.snapshot().unwrap().count(Query::default()).unwrap(), 0);
    }
}

fn peak_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0 kB");
    line.trim().trim_end_matches(" kB").trim().parse::<usize>().unwrap_or(0) * 1024
}
