//! With any file of a table damaged or missing, `salvage` saves each intact row once, takes lost rows from replicas and
//! accounts for all others, as the deep check reports before.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int64Type};
use arrow_array::{ArrayRef, Float32Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kubist::{
    CommitOptions, Dimension, Domain, Error, OptimizeOptions, Query, Replication, SalvageReport, Snapshot, Table,
    TableOptions, VerifyOptions, VerifyReport, WriterOptions,
};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const COMMITS: i64 = 6;
const ROWS: i64 = 500;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("x", DataType::Float32, true),
        Field::new("name", DataType::Utf8, true),
    ]))
}

fn x(id: i64) -> Option<f32> {
    (id % 50 != 0).then_some((id * 7919 % 10_007) as f32)
}

fn build(at: &Path) {
    let options = TableOptions {
        dimensions: vec![Dimension { column: "x".into(), domain: Domain::Learned }],
        identity: vec![],
        lookup: vec!["name".into()],
        capacity: Some(32),
        replication: Replication::Full { height: u32::MAX },
        ..Default::default()
    };
    let table = Table::create(at.to_str().unwrap(), schema(), &options).unwrap();
    table.limit_runs_in_memory(0);
    for commit in 0..COMMITS {
        let name = Some(format!("rank-{}", commit % 2));
        let mut writer = table.writer(&WriterOptions { name, ..Default::default() }).unwrap();
        let ids = commit * ROWS..(commit + 1) * ROWS;
        let names = StringArray::from_iter_values(ids.clone().map(|id| format!("droplet {}", id % 13)));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(ids.clone())),
            Arc::new(Float32Array::from_iter(ids.map(x))),
            Arc::new(names),
        ];
        writer.append(&RecordBatch::try_new(schema(), columns).unwrap()).unwrap();
        writer.commit_as(&CommitOptions { step: Some(commit / 2), token: None }).unwrap();
        if commit == 1 || commit == 3 {
            let options = OptimizeOptions { debt_share: 0.0, ..Default::default() };
            assert!(table.optimize(&options, &mut |_, _| {}).unwrap().rows_copied > 0);
        }
    }
}

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

fn ids(snapshot: &Snapshot, query: &Query) -> Vec<i64> {
    let mut found = Vec::new();
    for batch in snapshot.query(query).unwrap() {
        let batch = batch.unwrap();
        let (xs, names) = (batch["x"].as_primitive::<Float32Type>(), batch["name"].as_string::<i32>());
        for (row, id) in batch["id"].as_primitive::<Int64Type>().values().iter().enumerate() {
            assert_eq!(x(*id), xs.iter().nth(row).unwrap(), "row {id}");
            assert_eq!(names.value(row), format!("droplet {}", id % 13));
            found.push(*id);
        }
    }
    found.sort_unstable();
    assert!(found.windows(2).all(|pair| pair[0] < pair[1]), "a row is there twice");
    found
}

fn sample() -> Query {
    Query { sample: Some(0.3), ..Default::default() }
}

fn of_step(step: i64) -> Query {
    Query { steps: Some((Some(step), Some(step))), ..Default::default() }
}

fn salvage(from: &Path, to: &Path) -> kubist::Result<SalvageReport> {
    Table::salvage(from.to_str().unwrap(), to.to_str().unwrap(), &Default::default(), &mut |_, _| {})
}

fn verified(at: &Path) -> kubist::Result<VerifyReport> {
    Table::open(at.to_str().unwrap())?.verify(&VerifyOptions::deep(), &mut |_, _| {})
}

struct Truth {
    ids: Vec<i64>,
    sample: Vec<i64>,
}

fn check(to: &Path, report: &SalvageReport, truth: &Truth, what: &str) {
    let table = Table::open(to.to_str().unwrap()).unwrap();
    let snapshot = table.snapshot().unwrap();
    let found = ids(&snapshot, &Query::default());
    assert_eq!(found.len() as u64, report.rows, "{what}");
    assert!(found.iter().all(|id| truth.ids.binary_search(id).is_ok()), "{what}");
    assert_eq!(snapshot.about().unwrap().lookup, ["name"], "{what}");
    let mut stream =
        snapshot.query(&Query { filter: Some("name = 'droplet 5'".into()), ..Default::default() }).unwrap();
    let looked_up: usize = stream.by_ref().map(|batch| batch.unwrap().num_rows()).sum();
    assert_eq!(looked_up, found.iter().filter(|id| *id % 13 == 5).count(), "{what}");
    assert!(found.is_empty() || stream.stats().runs_looked_up > 0, "{what}");
    let sampled: Vec<i64> = truth.sample.iter().copied().filter(|id| found.binary_search(id).is_ok()).collect();
    assert_eq!(ids(&snapshot, &sample()), sampled, "{what}: other samples");
    for step in 0..COMMITS / 2 {
        let expected: Vec<i64> = found.iter().copied().filter(|id| id / ROWS / 2 == step).collect();
        assert_eq!(ids(&snapshot, &of_step(step)), expected, "{what}: step {step}");
    }
    let all = (COMMITS * ROWS) as u64;
    match report.notes.is_empty() {
        true => assert_eq!(report.rows + report.rows_lost, all, "{what}: {report:?}"),
        false => assert!(report.rows + report.rows_lost <= all, "{what}: {report:?}"),
    }
    assert_eq!(report.rows_lost > 0 || !report.notes.is_empty() || !report.losses.is_empty(), !report.is_whole());
    assert_eq!(verified(to).unwrap().findings, Vec::<String>::new(), "{what}");
}

#[test]
fn what_is_sound_is_saved_and_the_rest_accounted_for() {
    let folder = tempfile::tempdir().unwrap();
    let sound = folder.path().join("sound");
    build(&sound);
    let snapshot = Table::open(sound.to_str().unwrap()).unwrap().snapshot().unwrap();
    let truth = Truth { ids: ids(&snapshot, &Query::default()), sample: ids(&snapshot, &sample()) };
    drop(snapshot);
    assert_eq!(truth.ids.len() as i64, COMMITS * ROWS);
    let whole = folder.path().join("whole");
    let report = salvage(&sound, &whole).unwrap();
    assert!(report.is_whole() && report.rows == truth.ids.len() as u64, "{report:?}");
    check(&whole, &report, &truth, "undamaged");
    assert!(matches!(salvage(&sound, &whole), Err(Error::Exists { .. })));

    let mut random = SmallRng::seed_from_u64(4);
    let (mut cases, mut recovered, mut lost) = (0, 0, 0);
    let mut unsavable = BTreeMap::<String, u64>::new();
    for file in files(&sound) {
        let bytes = std::fs::read(&file).unwrap();
        let name = file.strip_prefix(&sound).unwrap().to_str().unwrap().to_string();
        let mut damages: Vec<Option<Vec<u8>>> = vec![None, Some(bytes[..bytes.len() / 2].to_vec())];
        let flips = if name.ends_with(".seg") { 12 } else { 4 };
        for _ in 0..flips {
            let mut flipped = bytes.clone();
            let byte = random.random_range(0..flipped.len());
            flipped[byte] ^= 1 << random.random_range(0..8);
            damages.push(Some(flipped));
        }
        for damaged in damages {
            match &damaged {
                Some(bytes) => std::fs::write(&file, bytes).unwrap(),
                None => std::fs::remove_file(&file).unwrap(),
            }
            let to = folder.path().join(format!("salvaged-{cases}"));
            let what = format!("{name} {}", if damaged.is_some() { "damaged" } else { "gone" });
            cases += 1;
            match salvage(&sound, &to) {
                Ok(report) => {
                    check(&to, &report, &truth, &what);
                    recovered += report.rows_recovered;
                    lost += report.rows_lost;
                    if name.ends_with(".seg") {
                        let looked = verified(&sound).unwrap();
                        let losses: u64 = report.losses.iter().map(|loss| loss.rows).sum();
                        assert_eq!(
                            (looked.rows_lost, looked.rows_recoverable),
                            (losses, report.rows_recovered),
                            "{what}"
                        );
                        assert_eq!(looked.losses, report.losses, "{what}");
                    }
                    std::fs::remove_dir_all(&to).unwrap();
                }
                Err(error) => {
                    assert!(error.to_string().contains(sound.to_str().unwrap()), "{what}: {error}");
                    *unsavable.entry(name.clone()).or_default() += 1;
                }
            }
            std::fs::write(&file, &bytes).unwrap();
        }
    }
    println!("{cases} cases: {recovered} rows recovered, {lost} lost; not to be saved: {unsavable:?}");
    assert!(unsavable.keys().all(|name| name == "table"), "{unsavable:?}");
    assert!(recovered > 1000 && lost > 0);
}

#[test]
fn older_states_are_taken_where_newer_ones_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let sound = folder.path().join("sound");
    build(&sound);
    let rows = (COMMITS * ROWS) as u64;
    std::fs::remove_dir_all(sound.join("checkpoints")).unwrap();
    let report = salvage(&sound, &folder.path().join("a")).unwrap();
    assert!(report.is_whole() && report.rows == rows, "{report:?}");
    // Without the rewrite, the replaced runs still exist.
    let rewrite = files(&sound.join("rewrites")).remove(0);
    std::fs::remove_file(&rewrite).unwrap();
    assert!(Table::open(sound.to_str().unwrap()).is_err());
    let report = salvage(&sound, &folder.path().join("b")).unwrap();
    assert_eq!(report.rows, rows, "{report:?}");
    assert!(report.notes.iter().any(|note| note.contains("is missing")), "{report:?}");
}
