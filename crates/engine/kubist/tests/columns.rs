//! Damaged or missing alterations: readers report them, and a salvage saves the rows. Alterations of a
//! newer Kubist are no loss.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use kubist::store::{MemoryStore, Store, open_local};
use kubist::{
    Dimension, Domain, Error, NewColumn, Query, SalvageReport, Table, TableOptions, Value, VerifyOptions, WriterOptions,
};

const ROWS: i64 = 300;
const COLUMNS: [&str; 4] = ["id", "x", "heat", "mass"];

fn column(name: &str, default: f64) -> NewColumn {
    NewColumn {
        name: name.into(),
        data_type: DataType::Float64,
        nullable: false,
        default: Value::Float(default),
        unit: None,
        accuracy: None,
    }
}

fn rows(first: i64, columns: usize) -> RecordBatch {
    let ids = || first..first + ROWS;
    let of = |factor: f64| Arc::new(Float64Array::from_iter_values(ids().map(|id| id as f64 * factor))) as ArrayRef;
    let arrays = [Arc::new(Int64Array::from_iter_values(ids())) as ArrayRef, of(1.0), of(2.0), of(3.0)];
    let types = [DataType::Int64, DataType::Float64, DataType::Float64, DataType::Float64];
    let fields: Vec<Field> =
        COLUMNS.iter().zip(types).take(columns).map(|(name, of)| Field::new(*name, of, false)).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays[..columns].to_vec()).unwrap()
}

fn commit(table: &Table, writer: &str, rows: &RecordBatch) {
    let mut writer = table.writer(&WriterOptions { name: Some(writer.into()), ..Default::default() }).unwrap();
    writer.append(rows).unwrap();
    writer.commit().unwrap();
}

fn build(at: &Path) {
    let options = TableOptions {
        dimensions: vec![Dimension { column: "x".into(), domain: Domain::Learned }],
        identity: vec!["id".into()],
        capacity: Some(64),
        ..Default::default()
    };
    let table = Table::create(at.to_str().unwrap(), rows(0, 2).schema(), &options).unwrap();
    commit(&table, "early", &rows(0, 2));
    table.add_column(&column("heat", 293.15)).unwrap();
    table.set_unit("heat", Some("K")).unwrap();
    table.add_column(&column("mass", 1.0)).unwrap();
    commit(&table, "late", &rows(ROWS, 4));
}

fn alteration(at: &Path, number: u64) -> PathBuf {
    at.join(format!("alterations/{number:020}"))
}

fn flip(file: &Path) {
    let mut bytes = std::fs::read(file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(file, bytes).unwrap();
}

fn read(at: &Path, columns: usize) -> kubist::Result<Vec<String>> {
    let snapshot = Table::open(at.to_str().unwrap())?.snapshot()?;
    let columns = COLUMNS[..columns].iter().map(|name| name.to_string()).collect();
    let mut found = Vec::new();
    for batch in snapshot.query(&Query { columns: Some(columns), ..Query::default() })? {
        let batch = batch?;
        found.extend((0..batch.num_rows()).map(|row| format!("{:?}", batch.slice(row, 1).columns())));
    }
    found.sort_unstable();
    Ok(found)
}

fn salvage(from: &Path, to: &Path) -> kubist::Result<SalvageReport> {
    Table::salvage(from.to_str().unwrap(), to.to_str().unwrap(), &Default::default(), &mut |_, _| {})
}

#[test]
fn columns_of_alterations_that_cannot_be_read_are_a_told_loss() {
    type Damage = fn(&Path);
    let remove: Damage = |file| std::fs::remove_file(file).unwrap();
    let cases = [(1, 2, 3), (2, 3, 2), (3, 3, 1)];
    let ways = [(flip as Damage, "damaged"), (remove, "missing")];
    for ((number, columns, lost), (damage, what)) in cases.into_iter().flat_map(|case| ways.map(|way| (case, way))) {
        let folder = tempfile::tempdir().unwrap();
        let (at, saved) = (folder.path().join("t"), folder.path().join("saved"));
        build(&at);
        let truth = read(&at, columns).unwrap();
        damage(&alteration(&at, number));
        let what = format!("alteration {number} is {what}");
        let error = read(&at, 1).expect_err(&what);
        assert!(matches!(error, Error::Damaged { .. }), "{what}: {error}");
        for deep in [false, true] {
            let options = VerifyOptions { deep, ..Default::default() };
            let seen = Table::verify_at(at.to_str().unwrap(), &options, &mut |_, _| {}).unwrap();
            let is_named = |finding: &String| finding.contains("alteration");
            assert!(seen.findings.iter().any(is_named) && seen.rows_lost == 0, "{what}: {seen:?}");
        }
        let report = salvage(&at, &saved).unwrap();
        let is_last = number == 3 && !alteration(&at, 3).exists();
        assert_eq!(report.alterations_lost, if is_last { 1 } else { lost }, "{what}: {report:?}");
        assert_eq!((report.rows, report.rows_lost, report.is_whole()), (2 * ROWS as u64, 0, false), "{what}");
        assert_eq!(read(&saved, columns).unwrap(), truth, "{what}");
        let left = Table::open(saved.to_str().unwrap()).unwrap().snapshot().unwrap().schema();
        assert_eq!(left.fields().len(), columns, "{what}");
    }
}

#[test]
fn what_a_newer_kubist_wrote_is_no_loss_and_ends_a_salvage() {
    let alteration = br#"{"previous": "00000000000000000000000000000000", "kind": "rename", "column": "x"}"#;
    let alteration = [&(alteration.len() as u32).to_le_bytes()[..], alteration].concat();
    let newer: [(&str, &dyn Fn(&dyn Store)); 3] = [
        ("an alteration", &|store| {
            assert!(store.put_if_absent("alterations/00000000000000000004", &alteration).unwrap());
        }),
        ("a rewrite", &|store| assert!(store.put_if_absent("rewrites/00000000000000000001", &[99]).unwrap())),
        ("an entry", &|store| assert!(store.own_log("late").unwrap().append(&[99]).unwrap() > 0)),
    ];
    for (what, write) in newer {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("t");
        build(&at);
        let store = Arc::new(open_local(&at).unwrap());
        write(store.as_ref());
        assert!(matches!(read(&at, 1), Err(Error::Newer(_))), "{what}");
        let to = Arc::new(MemoryStore::new("saved"));
        let error = Table::salvage(store, to.clone(), &Default::default(), &mut |_, _| {}).expect_err(what);
        assert!(matches!(error, Error::Newer(_)), "{what}: {error}");
        assert!(to.get("table").unwrap().is_none(), "{what}");
    }
}
