//! Merged secondary indexes after many small commits and rewrites: fewer reads and equal results.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Float32Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use kubist::{Dimension, Domain, OptimizeOptions, OptimizeReport, Query, Snapshot, Table};
use kubist::{TableOptions, Value, VerifyOptions, WriterOptions};
use kubist_format::lookup::Lookup;
use kubist_format::lookups::covering;

const COMMITS: i64 = 60;
const ROWS: i64 = 300;
const TIMES: i64 = 6;

fn schema() -> Arc<Schema> {
    let whole = |name: &str, nullable| Field::new(name, DataType::Int64, nullable);
    let fields = vec![whole("id", false), whole("particle", true), Field::new("x", DataType::Float32, false)];
    Arc::new(Schema::new(fields))
}

fn particle(id: i64) -> Option<i64> {
    (id % 11 != 0).then_some(id % (COMMITS * ROWS / TIMES))
}

fn rows(ids: std::ops::Range<i64>) -> RecordBatch {
    // Consecutive commits in x that overlap at the ends.
    let x = |id: i64| (id / ROWS) as f32 + 1.3 * ((id * 7919) % 997) as f32 / 997.0;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(ids.clone())),
        Arc::new(Int64Array::from_iter(ids.clone().map(particle))),
        Arc::new(Float32Array::from_iter_values(ids.map(x))),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn commit(table: &Table, commits: std::ops::Range<i64>) {
    let mut writer = table.writer(&WriterOptions::default()).unwrap();
    for commit in commits {
        writer.append(&rows(commit * ROWS..(commit + 1) * ROWS)).unwrap();
        writer.commit().unwrap();
    }
}

fn table(at: &Path) -> Table {
    let domain = Domain::Linear(Value::Int(0), Value::Int(COMMITS as i128 + 2));
    let options = TableOptions {
        dimensions: vec![Dimension { column: "x".into(), domain }],
        identity: vec!["id".into()],
        lookup: vec!["particle".into(), "id".into()],
        capacity: Some(64),
        ..TableOptions::default()
    };
    Table::create(at.to_str().unwrap(), schema(), &options).unwrap()
}

fn optimize(table: &Table, replication: &str, few_lookups: usize) -> OptimizeReport {
    let options = OptimizeOptions {
        debt_share: 0.2,
        rows_at_once: 1000,
        replication: replication.parse().ok(),
        few_lookups,
        ..OptimizeOptions::default()
    };
    table.optimize(&options, &mut |_, _| {}).unwrap()
}

fn lookups(table: &Table) -> Vec<Arc<Lookup>> {
    let snapshot = table.snapshot().unwrap();
    let directory = snapshot.pinned().directory().unwrap();
    covering(directory.runs().map(|run| run.as_ref())).into_values().cloned().collect()
}

fn ids(snapshot: &Snapshot, filter: String) -> (BTreeSet<i64>, u64) {
    let mut stream = snapshot.query(&Query { filter: Some(filter), ..Query::default() }).unwrap();
    let mut found = BTreeSet::new();
    for batch in stream.by_ref() {
        for id in batch.unwrap()["id"].as_primitive::<Int64Type>().values() {
            assert!(found.insert(*id), "{id} is there twice");
        }
    }
    (found, stream.stats().rows_read)
}

fn asked(snapshot: &Snapshot) -> u64 {
    let mut read = 0;
    for wanted in [0, 1, 17, 1234, COMMITS * ROWS / TIMES - 1] {
        let expected = (0..COMMITS * ROWS).filter(|id| particle(*id) == Some(wanted)).collect();
        let (found, rows) = ids(snapshot, format!("particle = {wanted}"));
        assert_eq!(found, expected, "particle {wanted}");
        let (found, of_id) = ids(snapshot, format!("id = {}", wanted + 3));
        assert_eq!(found, [wanted + 3].into());
        read += rows + of_id;
    }
    read
}

fn assert_sound(table: &Table) {
    let report = table.verify(&VerifyOptions::deep(), &mut |_, _| {}).unwrap();
    assert_eq!((report.rows, report.findings), ((COMMITS * ROWS) as u64, vec![]));
}

fn damage(at: &Path, segment: &str, bytes: std::ops::Range<u64>) {
    let file = at.join(format!("segments/{segment}.seg"));
    let mut all = std::fs::read(&file).unwrap();
    all[bytes.start as usize..bytes.end as usize].iter_mut().for_each(|byte| *byte ^= 0x5a);
    std::fs::write(&file, all).unwrap();
}

#[test]
fn merged_lookups_answer_as_the_small_ones_did() {
    for (replication, held) in [("none", 1 << 18), ("none", 0), ("full", 1 << 18), ("outlook", 0)] {
        let folder = tempfile::tempdir().unwrap();
        let table = table(&folder.path().join("t"));
        table.limit_runs_in_memory(held);
        commit(&table, 0..COMMITS);
        optimize(&table, replication, usize::MAX);
        let (small, before) = (lookups(&table), table.snapshot().unwrap());
        assert!(small.len() > 20, "{}", small.len());
        let read = asked(&before);
        let report = optimize(&table, replication, 20);
        assert_eq!(report.rows_rewritten, 0);
        assert!(report.lookups_merged > 20, "{report:?}");
        assert!(report.rewrites == 1 || replication != "none", "{report:?}");
        let merged = lookups(&table);
        assert!(merged.len() as u64 <= small.len() as u64 - report.lookups_merged + 1, "{}", merged.len());
        assert_eq!((asked(&table.snapshot().unwrap()), asked(&before)), (read, read));
        assert!(table.checkpoint().unwrap());
        let again = Table::open(folder.path().join("t").to_str().unwrap()).unwrap();
        again.limit_runs_in_memory(held);
        assert_eq!(asked(&again.snapshot().unwrap()), read);
        assert_sound(&again);
        let report = optimize(&again, replication, 20);
        assert_eq!((report.rewrites, report.lookups_merged), (0, 0), "{report:?}");
        let taken = again.snapshot().unwrap().info().unwrap().disk;
        for _ in 0..2 {
            again.clean(Duration::ZERO).unwrap();
        }
        let now = again.snapshot().unwrap().info().unwrap().disk;
        assert_eq!((now.lookups, now.primary), (taken.lookups, taken.primary));
        assert!(now.dead <= taken.dead);
        assert_eq!(asked(&again.snapshot().unwrap()), read);
        assert!(asked(&before) >= read);
        assert_sound(&Table::open(folder.path().join("t").to_str().unwrap()).unwrap());
    }
}

#[test]
fn a_merge_goes_on_with_what_came_since() {
    let folder = tempfile::tempdir().unwrap();
    let table = table(&folder.path().join("t"));
    let (mut merged, mut most) = (0, 0);
    for commits in 0..COMMITS / 10 {
        commit(&table, commits * 10..(commits + 1) * 10);
        merged += optimize(&table, "none", 5).lookups_merged;
        most = most.max(lookups(&table).len());
    }
    // Each is merged about once when its content doubles.
    assert!(merged > 30 && most <= 12, "{merged} merged, {most} at most");
    asked(&table.snapshot().unwrap());
    assert_sound(&table);
}

#[test]
fn a_lookup_that_cannot_be_read_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("t");
    let damaged = {
        let table = table(&at);
        commit(&table, 0..COMMITS);
        optimize(&table, "none", usize::MAX);
        lookups(&table)[5].clone()
    };
    damage(&at, &damaged.segment, damaged.columns[1].offset + 5..damaged.columns[1].offset + 6);
    let table = Table::open(at.to_str().unwrap()).unwrap();
    assert!(optimize(&table, "none", 20).lookups_merged > 20);
    assert!(lookups(&table).contains(&damaged));
    asked(&table.snapshot().unwrap());
    let report = table.verify(&VerifyOptions::deep(), &mut |_, _| {}).unwrap();
    assert_eq!(report.findings.len(), 1, "{:?}", report.findings);
}

#[test]
fn one_lookup_that_can_be_read_is_not_merged_with_itself() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("t");
    let small = {
        let table = table(&at);
        commit(&table, 0..COMMITS);
        optimize(&table, "none", usize::MAX);
        lookups(&table)
    };
    for lookup in &small[1..] {
        damage(&at, &lookup.segment, lookup.columns[0].offset + 5..lookup.columns[0].offset + 6);
    }
    let segments = || std::fs::read_dir(at.join("segments")).unwrap().count();
    let (table, before) = (Table::open(at.to_str().unwrap()).unwrap(), segments());
    let report = optimize(&table, "none", 20);
    assert_eq!((report.rewrites, report.lookups_merged), (0, 0), "{report:?}");
    assert_eq!((segments(), lookups(&table)), (before, small));
    asked(&table.snapshot().unwrap());
}

#[test]
fn rows_lost_after_a_merge_are_found_in_what_was_replaced_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("t");
    let run = {
        let table = table(&at);
        commit(&table, 0..COMMITS);
        optimize(&table, "none", usize::MAX);
        assert!(optimize(&table, "none", 20).lookups_merged > 20);
        let snapshot = table.snapshot().unwrap();
        let directory = snapshot.pinned().directory().unwrap();
        let of_rewrites = directory.runs().filter(|run| run.payload.segment.starts_with("rewrite"));
        of_rewrites.max_by_key(|run| run.rows).unwrap().clone()
    };
    let data = run.payload.data_offset..run.payload.data_offset + run.payload.data_length;
    damage(&at, &run.payload.segment, data);
    let to = folder.path().join("saved");
    let (from, to) = (at.to_str().unwrap(), to.to_str().unwrap());
    let report = Table::salvage(from, to, &Default::default(), &mut |_, _| {}).unwrap();
    assert_eq!((report.rows, report.rows_recovered), ((COMMITS * ROWS) as u64, run.rows), "{report:?}");
}
