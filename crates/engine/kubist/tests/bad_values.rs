//! An invalid value with a valid checksum loses only its own row.

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use kubist::store::{MemoryStore, Store};
use kubist::{Cancel, Dimension, Domain, Query, Table, TableOptions, VerifyOptions, WriterOptions};
use kubist_format::header::encode_header;
use kubist_format::names::TABLE;

/// Bytes that are no UTF-8 in a text column.
#[test]
fn a_value_that_is_none_costs_its_row() {
    let schema = |name: DataType| {
        Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false), Field::new("name", name, true)]))
    };
    let options = TableOptions {
        dimensions: vec![Dimension { column: "id".into(), domain: Domain::Learned }],
        identity: vec!["id".into()],
        ..TableOptions::default()
    };
    let store = Arc::new(MemoryStore::new("bytes"));
    let table = Table::create(store.clone(), schema(DataType::Binary), &options).unwrap();
    let mut writer = table.writer(&WriterOptions::default()).unwrap();
    let names = (0..2100i64).map(|id| if [7, 1500].contains(&id) { b"\xff\xfe".to_vec() } else { b"fine".to_vec() });
    let columns: Vec<ArrayRef> =
        vec![Arc::new(Int64Array::from_iter_values(0..2100)), Arc::new(BinaryArray::from_iter_values(names))];
    writer.append(&RecordBatch::try_new(schema(DataType::Binary), columns).unwrap()).unwrap();
    writer.commit().unwrap();
    drop(writer);
    let header = encode_header(&table.core().header, &schema(DataType::Utf8)).unwrap();
    store.delete(TABLE).unwrap();
    store.put_if_absent(TABLE, &header).unwrap();

    let damaged = Table::open(store.clone()).unwrap();
    let looked = damaged.verify(&VerifyOptions::deep(), &mut |_, _| {}).unwrap();
    assert_eq!((looked.rows, looked.rows_lost, looked.losses.len()), (2098, 2, 2), "{:?}", looked.findings);
    let to = Arc::new(MemoryStore::new("saved"));
    let report = Table::salvage(store, to.clone(), &Cancel::default(), &mut |_, _| {}).unwrap();
    assert_eq!((report.rows, report.rows_lost, report.losses.len()), (2098, 2, 2), "{report:?}");
    assert!(report.losses.iter().all(|loss| loss.what.contains("\"name\"")), "{report:?}");
    let saved = Table::open(to).unwrap().snapshot().unwrap();
    assert_eq!(saved.count(Query::default()).unwrap(), 2098);
    assert_eq!(saved.count(&Query { filter: Some("name = 'fine'".into()), ..Query::default() }).unwrap(), 2098);
}
