//! Added columns, units and metadata, as handles, snapshots and writers see them.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use kubist::store::{MemoryStore, Store};
use kubist::{
    CommitOptions, Dimension, Domain, Error, ErrorKind, Metadata, NewColumn, OptimizeOptions, Query, Snapshot, Table,
    TableOptions, Value, Writer, WriterOptions,
};

fn options() -> TableOptions {
    TableOptions {
        dimensions: vec![Dimension { column: "x".into(), domain: Domain::Learned }],
        identity: vec!["id".into()],
        capacity: Some(64),
        units: vec![("x".into(), "m".into())],
        metadata: Metadata::from([("run".into(), "airway-7".into())]),
        ..Default::default()
    }
}

fn schema() -> Arc<Schema> {
    Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false), Field::new("x", DataType::Float64, false)]))
}

fn table() -> (Arc<MemoryStore>, Table) {
    let store = Arc::new(MemoryStore::new("alter"));
    let table = Table::create(store.clone(), schema(), &options()).unwrap();
    (store, table)
}

fn rows(ids: std::ops::Range<i64>, age: Option<f64>, kind: Option<&str>) -> RecordBatch {
    let count = ids.clone().count();
    let x = Float64Array::from_iter_values(ids.clone().map(|id| (id * 7919 % 1000) as f64));
    let mut columns: Vec<(&str, ArrayRef)> =
        vec![("id", Arc::new(Int64Array::from_iter_values(ids))), ("x", Arc::new(x))];
    if let Some(age) = age {
        columns.push(("age", Arc::new(Float64Array::from(vec![age; count]))));
    }
    if let Some(kind) = kind {
        columns.push(("kind", Arc::new(StringArray::from(vec![kind; count]))));
    }
    RecordBatch::try_from_iter(columns).unwrap()
}

fn writer(table: &Table, name: &str) -> Writer {
    table.writer(&WriterOptions { name: Some(name.into()), ..Default::default() }).unwrap()
}

fn column(name: &str, data_type: DataType, default: Value) -> NewColumn {
    NewColumn { name: name.into(), data_type, nullable: true, default, unit: None, accuracy: None }
}

fn age() -> NewColumn {
    NewColumn { nullable: false, unit: Some("s".into()), ..column("age", DataType::Float64, Value::Float(0.5)) }
}

fn names(schema: &Schema) -> Vec<&str> {
    schema.fields().iter().map(|field| field.name().as_str()).collect()
}

fn ages(snapshot: &Snapshot, filter: Option<&str>) -> (usize, f64) {
    let query = Query { columns: Some(vec!["age".into()]), filter: filter.map(String::from), ..Default::default() };
    let batches: Vec<RecordBatch> = snapshot.query(&query).unwrap().map(Result::unwrap).collect();
    let values = batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Float64Type>().values().to_vec());
    let values: Vec<f64> = values.collect();
    (values.len(), values.iter().sum())
}

#[test]
fn every_handle_sees_a_new_column_and_a_snapshot_keeps_its_own() {
    let (store, table) = table();
    let other = Table::open(store.clone()).unwrap();
    let mut old = writer(&other, "old");
    old.append(&rows(0..1000, None, None)).unwrap();
    old.commit().unwrap();
    let before = other.snapshot().unwrap();

    old.append(&rows(1000..1100, None, None)).unwrap();
    table.add_column(&age()).unwrap();
    assert_eq!(names(&other.schema().unwrap()), ["id", "x", "age"]);
    old.append(&rows(1100..1200, Some(2.0), None)).unwrap();
    old.append(&rows(1200..1300, None, None)).unwrap();
    old.commit().unwrap();

    assert_eq!(names(&before.schema()), ["id", "x"]);
    assert_eq!(before.query(Query::default()).unwrap().schema().fields().len(), 2);
    let asked = before.query(&Query { filter: Some("age > 1".into()), ..Default::default() });
    assert!(matches!(asked, Err(Error::Expression(_))));
    assert_eq!(before.rows().unwrap(), 1000);
    let check = |table: &Table| {
        let now = table.snapshot().unwrap();
        assert_eq!(ages(&now, None), (1300, 1200.0 * 0.5 + 100.0 * 2.0));
        assert_eq!(ages(&now, Some("age > 1")), (100, 200.0));
        assert_eq!(ages(&now, Some("age = 0.5 AND id < 10")), (10, 5.0));
        let lowest = Query { limit: Some(7), filter: Some("age BETWEEN 0 AND 1".into()), ..Default::default() };
        assert_eq!(now.query(&lowest).unwrap().map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 7);
        let field = now.query(Query::default()).unwrap().schema().field(2).clone();
        assert_eq!((field.is_nullable(), field.metadata().get("unit").unwrap().as_str()), (false, "s"));
        assert!(table.verify(&kubist::VerifyOptions::deep(), &mut |_, _| {}).unwrap().findings.is_empty());
    };
    check(&table);
    check(&other);
    check(&Table::open(store.clone()).unwrap());
    let all = OptimizeOptions { debt_share: 0.0, ..Default::default() };
    assert!(table.optimize(&all, &mut |_, _| {}).unwrap().rewrites > 0);
    assert!(table.checkpoint().unwrap());
    table.clean(std::time::Duration::ZERO).unwrap();
    check(&other);
    check(&Table::open(store).unwrap());
}

#[test]
fn old_runs_are_pruned_by_the_default() {
    let (_, table) = table();
    let mut w = writer(&table, "w");
    w.append(&rows(0..5000, None, None)).unwrap();
    w.commit().unwrap();
    table.add_column(&age()).unwrap();
    table.add_column(&column("kind", DataType::Utf8, Value::Null)).unwrap();
    w.append(&rows(5000..5010, Some(9.0), Some("oil"))).unwrap();
    w.commit().unwrap();
    let snapshot = table.snapshot().unwrap();
    for filter in ["age > 1", "kind = 'oil'", "kind IS NOT NULL"] {
        let mut found = snapshot.query(&Query { filter: Some(filter.into()), ..Default::default() }).unwrap();
        assert_eq!(found.by_ref().map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 10, "{filter}");
        assert!(found.stats().rows_read <= 10, "{filter}: {:?}", found.stats());
    }
    let old = Query { filter: Some("kind IS NULL AND age < 1".into()), ..Default::default() };
    assert_eq!(snapshot.count(&old).unwrap(), 5000);
}

#[test]
fn steps_and_retraction_beside_added_columns() {
    let (_, table) = table();
    let mut w = writer(&table, "w");
    for step in 0..4 {
        if step == 2 {
            table.add_column(&age()).unwrap();
        }
        w.append(&rows(step * 100..step * 100 + 100, (step == 3).then_some(3.0), None)).unwrap();
        w.commit_as(&CommitOptions { step: Some(step), token: None }).unwrap();
    }
    let of_step = |step| {
        let query =
            Query { steps: Some((Some(step), Some(step))), filter: Some("age > 0".into()), ..Default::default() };
        table.snapshot().unwrap().count(&query).unwrap()
    };
    assert_eq!([0, 1, 2, 3].map(of_step), [100; 4]);
    let all = OptimizeOptions { debt_share: 0.0, ..Default::default() };
    table.optimize(&all, &mut |_, _| {}).unwrap();
    assert_eq!(table.retract(1).unwrap().rows, 200);
    assert_eq!(ages(&table.snapshot().unwrap(), None), (200, 100.0));
    assert!(table.verify(&kubist::VerifyOptions::deep(), &mut |_, _| {}).unwrap().findings.is_empty());
}

#[test]
fn what_cannot_be_added_is_refused_by_name() {
    let (_, table) = table();
    table.add_column(&age()).unwrap();
    let refused = |column: NewColumn, part: &str| {
        let error = table.add_column(&column).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error:?}");
        assert!(error.to_string().contains(part), "{part:?} in {error}");
    };
    refused(column("x", DataType::Float64, Value::Null), "\"x\" is in the table already");
    refused(age(), "\"age\" is in the table already");
    refused(column("_kubist_step", DataType::Int64, Value::Null), "reserved");
    refused(column("list", DataType::new_list(DataType::Int8, true), Value::Null), "not supported");
    refused(column("small", DataType::UInt8, Value::Int(256)), "\"small\" cannot have the default 256");
    refused(column("small", DataType::UInt8, Value::Text("a".into())), "not a value of the type");
    refused(NewColumn { nullable: false, ..column("must", DataType::Int8, Value::Null) }, "must not be null");
    refused(column("long", DataType::Utf8, Value::Text("a".repeat(2 << 20))), "may have up to");
    refused(column("", DataType::Int8, Value::Null), "needs a name");
    assert_eq!(names(&table.schema().unwrap()), ["id", "x", "age"]);
    let mut w = writer(&table, "w");
    let missing = rows(0..1, None, None).project(&[0]).unwrap();
    assert!(w.append(&missing).unwrap_err().to_string().contains("\"x\" of the table is missing"));
    assert!(w.append(&rows(0..1, None, Some("new"))).unwrap_err().to_string().contains("\"kind\""));
}

#[test]
fn two_at_once_take_their_turns() {
    let (store, _) = table();
    let add = |name: String| {
        let table = Table::open(store.clone()).unwrap();
        table.add_column(&column(&name, DataType::Int32, Value::Int(1)))
    };
    for round in 0..20 {
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let names = [format!("same{round}"), format!("same{round}"), format!("other{round}")];
            let threads: Vec<_> = names.into_iter().map(|name| scope.spawn(move || add(name))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(outcomes[..2].iter().filter(|outcome| outcome.is_ok()).count(), 1, "{outcomes:?}");
        assert!(outcomes[2].is_ok());
    }
    assert_eq!(Table::open(store).unwrap().schema().unwrap().fields().len(), 42);
}

#[test]
fn units_and_metadata_follow_and_go() {
    let (store, table) = table();
    let other = Table::open(store.clone()).unwrap();
    let unit = |table: &Table| table.schema().unwrap().field(1).metadata().get("unit").cloned();
    assert_eq!(unit(&other).as_deref(), Some("m"));
    table.set_unit("x", Some("mm")).unwrap();
    let pinned = other.snapshot().unwrap();
    assert_eq!(unit(&other).as_deref(), Some("mm"));
    let about = |text: &str| serde_json::from_str::<Metadata>(text).unwrap();
    table.set_metadata(None, &about(r#"{"solver": {"name": "alya", "dt": 1e-4}, "run": null}"#)).unwrap();
    table.set_metadata(Some("x"), &about(r#"{"axis": "streamwise", "order": 2}"#)).unwrap();
    let info = other.snapshot().unwrap().info().unwrap();
    assert_eq!(info.about.metadata, about(r#"{"solver": {"name": "alya", "dt": 1e-4}}"#));
    assert_eq!(info.about.columns[1].unit.as_deref(), Some("mm"));
    assert_eq!(info.about.columns[1].metadata, about(r#"{"axis": "streamwise", "order": 2}"#));
    assert_eq!(other.schema().unwrap().field(1).metadata().get("order").map(String::as_str), Some("2"));
    assert_eq!(pinned.about().unwrap().metadata, about(r#"{"run": "airway-7"}"#));
    table.set_unit("x", None).unwrap();
    assert_eq!(unit(&Table::open(store.clone()).unwrap()), None);
    for error in [
        table.set_unit("y", Some("m")).unwrap_err(),
        table.set_unit("x", Some("")).unwrap_err(),
        table.set_metadata(None, &about(r#"{"": 1}"#)).unwrap_err(),
        table.set_metadata(Some("x"), &about(r#"{"unit": 3}"#)).unwrap_err(),
        table.set_metadata(Some("x"), &about(r#"{"ARROW:extension:name": "a"}"#)).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error:?}");
    }
    table.add_column(&age()).unwrap();
    let again = TableOptions { exist_ok: true, ..options() };
    Table::create(store.clone(), schema(), &again).unwrap();
    let with_age =
        Schema::new([schema().fields().to_vec(), vec![Arc::new(Field::new("age", DataType::Float64, false))]].concat());
    Table::create(store.clone(), Arc::new(with_age), &again).unwrap();
    let without_x = Arc::new(Schema::new(vec![Field::new("x", DataType::Float64, false)]));
    let differs = TableOptions { identity: vec![], units: vec![], ..again };
    assert!(matches!(Table::create(store, without_x, &differs), Err(Error::Exists { .. })));
}

#[test]
fn alterations_that_make_no_sense_are_named() {
    for (object, newer) in [
        (r#"{"previous": "00000000000000000000000000000000", "kind": "rename", "column": "x"}"#, true),
        (r#"{"kind": "set", "column": "nobody", "values": {}}"#, false),
        (r#"{"kind": "add_column"}"#, false),
        ("nonsense", false),
    ] {
        let (store, table) = table();
        let bytes = [&(object.len() as u32).to_le_bytes()[..], object.as_bytes()].concat();
        store.put_if_absent("alterations/00000000000000000001", &bytes).unwrap();
        let error = table.snapshot().unwrap_err();
        assert_eq!(matches!(error, Error::Newer(_)), newer, "{error}");
        assert_eq!(matches!(error, Error::Damaged { .. }), !newer, "{error}");
        assert!(error.to_string().contains("alterations/00000000000000000001"), "{error}");
    }
}

#[test]
fn a_table_without_identity_keeps_its_samples() {
    let store = Arc::new(MemoryStore::new("alone"));
    let options = TableOptions { identity: vec![], units: vec![], ..options() };
    let table = Table::create(store, schema(), &options).unwrap();
    let mut w = writer(&table, "w");
    w.append(&rows(0..3000, None, None)).unwrap();
    w.commit().unwrap();
    let sample = |table: &Table| -> Vec<i64> {
        let query = Query { limit: Some(50), columns: Some(vec!["id".into()]), ..Default::default() };
        let batches = table.snapshot().unwrap().query(&query).unwrap().map(Result::unwrap);
        batches.flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
    };
    let before = sample(&table);
    table.add_column(&age()).unwrap();
    assert_eq!(sample(&table), before);
    w.append(&rows(3000..3001, Some(1.0), None)).unwrap();
    w.commit().unwrap();
    assert_eq!(ages(&table.snapshot().unwrap(), None), (3001, 1501.0));
    assert!(sample(&table).iter().filter(|id| before.contains(id)).count() >= 49);
}
