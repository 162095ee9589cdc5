//! Truncates every file of a small table at every tenth byte, and flips bits. A query returns the same
//! result or reports the damage; it never panics.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use kubist::{
    Dimension, Domain, Error, NewColumn, OptimizeOptions, Query, Result, Table, TableOptions, Value, VerifyOptions,
    WriterOptions,
};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const ROWS: i64 = 600;
const COMMITS: i64 = 3;

fn files(at: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(at).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found.sort();
    found
}

fn build(at: &Path) {
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("x", DataType::Float32, true),
        Field::new("name", DataType::Utf8, true),
    ]));
    let options = TableOptions {
        dimensions: vec![Dimension { column: "x".into(), domain: Domain::Learned }],
        identity: vec!["id".into()],
        lookup: vec!["name".into(), "id".into()],
        capacity: Some(32),
        ..Default::default()
    };
    let table = Table::create(at.to_str().unwrap(), schema.clone(), &options).unwrap();
    table.limit_runs_in_memory(0);
    let mut writer = table.writer(&WriterOptions::default()).unwrap();
    for commit in 0..COMMITS {
        let ids = commit * ROWS..(commit + 1) * ROWS;
        let x = Float32Array::from_iter(ids.clone().map(|id| (id % 50 != 0).then_some((id * 7919 % 1000) as f32)));
        let names = StringArray::from_iter_values(ids.clone().map(|id| format!("droplet {}", id % 13)));
        let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from_iter_values(ids)), Arc::new(x), Arc::new(names)];
        writer.append(&RecordBatch::try_new(schema.clone(), columns).unwrap()).unwrap();
        writer.commit().unwrap();
        if commit == 1 {
            let data_type = DataType::Float64;
            let (name, default, unit) = ("age".into(), Value::Float(0.5), Some("s".into()));
            table.add_column(&NewColumn { name, data_type, nullable: true, default, unit, accuracy: None }).unwrap();
            let options = OptimizeOptions { debt_share: 0.0, ..Default::default() };
            assert!(table.optimize(&options, &mut |_, _| {}).unwrap().rewrites > 0);
        }
    }
}

fn rows(at: &Path, filter: Option<&str>) -> Result<Vec<String>> {
    let table = Table::open(at.to_str().unwrap())?;
    let mut rows = Vec::new();
    let query = Query { filter: filter.map(str::to_string), ..Query::default() };
    for batch in table.snapshot()?.query(&query)? {
        let batch = batch?;
        let of =
            |row: usize| batch.columns().iter().map(|column| format!("{:?}", column.slice(row, 1))).collect::<String>();
        rows.extend((0..batch.num_rows()).map(of));
    }
    rows.sort();
    Ok(rows)
}

fn read(at: &Path) -> Result<Vec<String>> {
    let filters = [None, Some("name = 'droplet 3'"), Some("id IN (7, 811, 1500) AND x >= 0")];
    let found = filters.into_iter().map(|filter| rows(at, filter)).collect::<Result<Vec<_>>>()?;
    Ok(found.concat())
}

#[test]
fn damage_is_noticed_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let sound = folder.path().join("sound");
    build(&sound);
    let whole = read(&sound).unwrap();
    assert_eq!(whole.len() as i64, ROWS * COMMITS + (0..ROWS * COMMITS).filter(|id| id % 13 == 3).count() as i64 + 2);
    let mut rng = SmallRng::seed_from_u64(9);
    let mut noticed = 0;
    for file in files(&sound) {
        let bytes = std::fs::read(&file).unwrap();
        let name = file.strip_prefix(&sound).unwrap().to_str().unwrap().to_string();
        let mut damages: Vec<Vec<u8>> =
            (0..bytes.len()).step_by(bytes.len().div_ceil(10).max(1)).map(|end| bytes[..end].to_vec()).collect();
        for _ in 0..60 {
            let mut flipped = bytes.clone();
            let Some(byte) = (!flipped.is_empty()).then(|| rng.random_range(0..flipped.len())) else { continue };
            flipped[byte] ^= 1 << rng.random_range(0..8);
            damages.push(flipped);
        }
        for damaged in damages {
            std::fs::write(&file, &damaged).unwrap();
            let leads_to_rows = ["table", "grid", "logs/", "rewrites/", "checkpoints/", "segments/pages-"]
                .iter()
                .any(|part| name.starts_with(part));
            if leads_to_rows && !name.ends_with(".ack") {
                let quick = |table: Table| table.verify(&VerifyOptions::default(), &mut |_, _| {}).unwrap();
                let unsound =
                    Table::open(sound.to_str().unwrap()).map_or(true, |table| !quick(table).findings.is_empty());
                assert!(unsound, "{name}: damage went unnoticed");
            }
            match read(&sound) {
                Ok(rows) => assert_eq!(rows, whole, "{name} was damaged and another answer came"),
                Err(error @ (Error::Damaged { .. } | Error::Newer(_) | Error::NotATable { .. })) => {
                    noticed += 1;
                    let path = sound.to_str().unwrap();
                    assert!(error.to_string().contains(path), "{name}: {error}");
                    if let Ok(table) = Table::open(path) {
                        table.limit_runs_in_memory(0);
                        let report = table.verify(&VerifyOptions::deep(), &mut |_, _| {}).unwrap();
                        assert!(!report.findings.is_empty(), "{name}: {error}");
                    }
                }
                Err(other) => panic!("{name}: {other:?}"),
            }
        }
        std::fs::write(&file, &bytes).unwrap();
    }
    assert_eq!(read(&sound).unwrap(), whole);
    assert!(noticed > 200, "only {noticed} damages were noticed");
}
