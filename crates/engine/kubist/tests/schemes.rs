//! Locations select stores by scheme, and tables work on all stores.

use std::sync::Arc;

use crate::scheme;
use arrow_array::{ArrayRef, Float64Array, RecordBatch};
use kubist::{
    Cancel, CopyOptions, Dimension, Domain, Error, ErrorKind, Query, Table, TableOptions, Value, VerifyOptions,
    WriterOptions,
};

fn rows() -> RecordBatch {
    let x: ArrayRef = Arc::new(Float64Array::from_iter_values((0..1000).map(|row| f64::from(row) / 1000.0)));
    RecordBatch::try_from_iter([("x", x)]).unwrap()
}

fn options() -> TableOptions {
    let domain = Domain::Linear(Value::Int(0), Value::Int(1));
    TableOptions { dimensions: vec![Dimension { column: "x".into(), domain }], ..TableOptions::default() }
}

fn count(table: &Table) -> usize {
    let stream = table.snapshot().unwrap().query(Query::default()).unwrap();
    stream.map(|batch| batch.unwrap().num_rows()).sum()
}

fn live_at(location: &str, beside: &str) {
    assert!(matches!(Table::open(location), Err(Error::Missing { location: at, .. }) if at == location));
    assert!(matches!(Table::drop_at(location, false), Err(Error::Missing { .. })));
    let table = Table::create(location, rows().schema(), &options()).unwrap();
    let mut writer = table.writer(&WriterOptions::default()).unwrap();
    writer.append(&rows()).unwrap();
    writer.commit().unwrap();
    drop(writer);
    assert_eq!(count(&Table::open(location).unwrap()), 1000);
    match Table::create(location, rows().schema(), &options()) {
        Err(Error::Exists { location: at, why }) => {
            assert!(at.as_str() == location && why.contains("a table is there"), "{at}: {why}");
        }
        answer => panic!("{answer:?}"),
    }
    let again = TableOptions { exist_ok: true, ..options() };
    assert_eq!(count(&Table::create(location, rows().schema(), &again).unwrap()), 1000);
    assert!(Table::verify_at(location, &VerifyOptions::deep(), &mut |_, _| {}).unwrap().findings.is_empty());

    let splits = table.snapshot().unwrap().splits(Query::default(), 3).unwrap();
    let part = |split: &kubist::Split| -> usize {
        let rows = Table::open(&split.location).and_then(|table| table.read_split(split)).unwrap();
        rows.map(|batch| batch.unwrap().num_rows()).sum()
    };
    assert_eq!(splits.iter().map(part).sum::<usize>(), 1000);

    table.snapshot().unwrap().copy_to(beside, &CopyOptions::default(), &mut |_, _| {}).unwrap();
    Table::drop_at(location, false).unwrap();
    assert_eq!(Table::open(location).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(count(&Table::open(beside).unwrap()), 1000);
    Table::salvage(beside, location, &Cancel::default(), &mut |_, _| {}).unwrap();
    assert_eq!(count(&Table::open(location).unwrap()), 1000);
}

#[test]
fn directories_need_no_scheme() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    live_at(&at("a"), &at("b"));
    live_at(&format!("file://{}", at("c")), &format!("file://{}", at("d")));
}

#[test]
fn memory_is_a_place_within_a_process() {
    live_at("memory://a", "memory://b");
}

#[test]
fn a_program_adds_its_own() {
    assert!(kubist::store::register(Arc::new(scheme::Buckets::default())));
    live_at("bucket://a", "bucket://b");
    assert!(!kubist::store::register(Arc::new(scheme::Buckets::default())));
    assert_eq!(count(&Table::open("bucket://b").unwrap()), 1000);
}

#[test]
fn what_no_scheme_leads_to_is_refused_without_its_password() {
    for location in ["ftp://ada:secret@h/t", "cassandra://ada:secret@h/k", "memory://ada:secret@h"] {
        let Err(Error::Invalid(why)) = Table::open(location) else { panic!("{location}") };
        assert!(!why.contains("secret"), "{why}");
    }
}
