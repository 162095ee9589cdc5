//! Live tables: steps, tokens, retraction, and concurrent processes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::fresh::{elsewhere, fresh_store};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Float32Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kubist::{
    Bound, CommitOptions, Declared, DeclaredWriters, Dimension, Domain, OptimizeOptions, Query, Snapshot, Table,
    TableOptions, Value, VerifyOptions, Writer, WriterOptions,
};
use kubist_index::priority::name_hash;

fn schema() -> SchemaRef {
    let field = |name: &str, data_type| Field::new(name, data_type, false);
    Arc::new(Schema::new(vec![
        field("id", DataType::Int64),
        field("x", DataType::Float32),
        field("y", DataType::Float32),
    ]))
}

fn options() -> TableOptions {
    let dimension =
        |name: &str| Dimension { column: name.into(), domain: Domain::Linear(Value::Int(0), Value::Int(1)) };
    TableOptions {
        dimensions: vec![dimension("x"), dimension("y")],
        identity: vec!["id".into()],
        capacity: Some(64),
        ..Default::default()
    }
}

fn table() -> Table {
    Table::create(fresh_store("live"), schema(), &options()).unwrap()
}

fn rows(ids: std::ops::Range<i64>) -> RecordBatch {
    let position = |id: i64, part: u32| (name_hash(&id.to_string()) >> part & 0xffff) as f32 / 65536.0;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(ids.clone())),
        Arc::new(Float32Array::from_iter_values(ids.clone().map(|id| position(id, 0)))),
        Arc::new(Float32Array::from_iter_values(ids.map(|id| position(id, 20)))),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn writer(table: &Table, name: &str) -> Writer {
    table.writer(&WriterOptions { name: Some(name.into()), ..Default::default() }).unwrap()
}

fn commit_step(writer: &mut Writer, ids: std::ops::Range<i64>, step: i64) {
    writer.append(&rows(ids)).unwrap();
    writer.commit_as(&CommitOptions { step: Some(step), token: Some(format!("step {step}")) }).unwrap();
}

fn ids(snapshot: &Snapshot, query: &Query) -> Vec<i64> {
    let batches = snapshot.query(query).unwrap().map(Result::unwrap);
    let mut found: Vec<i64> =
        batches.flat_map(|batch| batch["id"].as_primitive::<Int64Type>().values().to_vec()).collect();
    found.sort_unstable();
    found
}

fn all(snapshot: &Snapshot) -> Vec<i64> {
    let found = ids(snapshot, &Query::default());
    assert_eq!(snapshot.rows().unwrap(), found.len() as u64);
    found
}

#[test]
fn a_token_counts_once_also_after_a_restart() {
    let table = table();
    let token = CommitOptions { token: Some("a".into()), step: None };
    let mut first = writer(&table, "ada");
    first.append(&rows(0..10)).unwrap();
    let committed = first.commit_as(&token).unwrap();
    assert!(!committed.repeated);
    drop(first);
    let mut again = writer(&table, "ada");
    again.append(&rows(0..10)).unwrap();
    let repeated = again.commit_as(&token).unwrap();
    assert!(repeated.repeated && repeated.sequence == committed.sequence && repeated.rows == 10);
    assert_eq!(again.pending_rows(), 0);
    let mut other = writer(&table, "ben");
    other.append(&rows(10..20)).unwrap();
    assert!(!other.commit_as(&token).unwrap().repeated);
    assert_eq!(all(&table.snapshot().unwrap()), (0..20).collect::<Vec<_>>());
}

#[test]
fn steps_are_seen_once_every_declared_writer_has_spoken() {
    let table = table();
    let names = Declared::Names(["ada", "ben"].map(String::from).into());
    table.declare_writers(&names).unwrap();
    table.declare_writers(&names).unwrap();
    assert!(table.declare_writers(&Declared::Count(3)).is_err());
    let (mut ada, mut ben) = (writer(&table, "ada"), writer(&table, "ben"));
    commit_step(&mut ada, 0..100, 1);
    commit_step(&mut ben, 100..200, 1);
    commit_step(&mut ada, 200..300, 2);
    let steps = |low, high| Query { steps: Some((low, high)), ..Default::default() };
    let snapshot = table.snapshot().unwrap();
    assert_eq!(snapshot.complete_steps(), [1]);
    assert_eq!(ids(&snapshot, &steps(None, None)), (0..200).collect::<Vec<_>>());
    assert_eq!(ids(&snapshot, &steps(Some(2), None)), Vec::<i64>::new());
    assert_eq!(all(&snapshot), (0..300).collect::<Vec<_>>());
    assert_eq!(all(&snapshot.at_step(1).unwrap()), (0..200).collect::<Vec<_>>());
    let waiting = snapshot.at_step(2).unwrap_err().to_string();
    assert!(waiting.contains("step 2") && waiting.contains("ben"), "{waiting}");
    // Runs of incomplete steps are not merged.
    table.optimize(&OptimizeOptions { debt_share: 0.0, ..Default::default() }, &mut |_, _| {}).unwrap();
    assert_eq!(ids(&table.snapshot().unwrap(), &steps(None, None)), (0..200).collect::<Vec<_>>());
    ben.abandon(2).unwrap();
    let snapshot = table.snapshot().unwrap();
    assert_eq!(ids(&snapshot, &steps(Some(2), Some(2))), (200..300).collect::<Vec<_>>());
    assert_eq!(all(&snapshot.at_step(2).unwrap()), (0..300).collect::<Vec<_>>());
    let back = ada.commit_as(&CommitOptions { step: Some(2), token: None }).unwrap_err().to_string();
    assert!(back.contains("step 2"), "{back}");
}

#[test]
fn a_simulation_goes_on_with_other_writers() {
    let store = fresh_store("live");
    let table = Table::create(store.clone(), schema(), &options()).unwrap();
    table.declare_writers(&Declared::Count(3)).unwrap();
    let mut writers = ["ada", "ben", "cem"].map(|name| writer(&table, name));
    for step in 1..=4 {
        for (number, w) in writers.iter_mut().enumerate().take(if step == 4 { 2 } else { 3 }) {
            let first = 1000 * step + 100 * number as i64;
            commit_step(w, first..first + 100, step);
        }
    }
    let steps = || {
        let anew = Table::open(elsewhere(&store)).unwrap().snapshot().unwrap().complete_steps();
        assert_eq!(table.snapshot().unwrap().complete_steps(), anew);
        anew
    };
    assert_eq!(steps(), [1, 2, 3]);
    let early = table.snapshot().unwrap();
    // Otherwise step 4 would look complete.
    let there = table.declare_writers_after(2, &Declared::Count(2)).unwrap_err().to_string();
    assert!(there.contains("step 3 is there"), "{there}");
    table.retract(2).unwrap();
    for _ in 0..2 {
        table.declare_writers_after(2, &Declared::Count(2)).unwrap();
    }
    assert_eq!(steps(), [1, 2]);
    commit_step(&mut writers[0], 5000..5100, 3);
    assert_eq!(steps(), [1, 2]);
    let waiting = table.snapshot().unwrap().at_step(3).unwrap_err().to_string();
    assert!(waiting.contains("1 of 2"), "{waiting}");
    commit_step(&mut writers[1], 5100..5200, 3);
    assert_eq!(steps(), [1, 2, 3]);
    table.declare_writers(&Declared::Count(2)).unwrap();
    assert!(table.declare_writers(&Declared::Count(3)).unwrap_err().to_string().contains("of 2 writers, not of 3"));
    assert_eq!(early.complete_steps(), [1, 2, 3]);
    assert_eq!(table.at(&early.token()).unwrap().complete_steps(), [1, 2, 3]);
    table.retract(1).unwrap();
    table.declare_writers_after(1, &Declared::Count(3)).unwrap();
    let declared = table.snapshot().unwrap().about().unwrap().declared;
    assert_eq!(declared, [DeclaredWriters { after: None, writers: Declared::Count(3) }]);
    table.checkpoint().unwrap();
    assert_eq!(steps(), [1]);
}

#[test]
fn a_solver_goes_back_to_a_checkpoint() {
    let table = table();
    for merge in [false, true] {
        let mut ada = writer(&table, if merge { "ada" } else { "ben" });
        let base = if merge { 1_000 } else { 0 };
        for step in 1..=5 {
            commit_step(&mut ada, base + 100 * step..base + 100 * step + 100, step);
        }
        if merge {
            table.optimize(&OptimizeOptions { debt_share: 0.0, ..Default::default() }, &mut |_, _| {}).unwrap();
        }
        let before = table.snapshot().unwrap();
        let held = all(&before);
        let report = table.retract(3).unwrap();
        assert_eq!(report.rows, if merge { 200 + 200 } else { 200 }, "the steps done again below are retracted too");
        assert_eq!(all(&before), held, "a pinned snapshot does not change");
        let left = all(&table.snapshot().unwrap());
        assert!(left.iter().all(|id| (id % 1_000) < 400), "{left:?}");
        for step in 4..=5 {
            commit_step(&mut ada, base + 100 * step..base + 100 * step + 100, step);
        }
        let report = table.verify(&VerifyOptions::deep(), &mut |_, _| {}).unwrap();
        assert_eq!(report.findings, Vec::<String>::new());
    }
    assert_eq!(table.retract(9).unwrap().rows, 0);
}

#[test]
fn everybody_at_once() {
    const WRITERS: i64 = 4;
    const COMMITS: i64 = 60;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    let location = path.to_str().unwrap();
    Table::create(location, schema(), &options()).unwrap();
    let done = AtomicBool::new(false);
    let size = |commit: i64| 1 + name_hash(&commit.to_string()) as i64 % 400;
    let size = |commit: i64| size(commit).abs().max(1);
    let commit_ids = |writer: i64, commit: i64| {
        let first = (writer * COMMITS + commit) * 1000;
        first..first + size(writer * COMMITS + commit)
    };
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|number| {
                scope.spawn(move || {
                    let table = Table::open(location).unwrap();
                    let mut writer = writer(&table, &format!("rank-{number}"));
                    for commit in 0..COMMITS {
                        writer.append(&rows(commit_ids(number, commit))).unwrap();
                        writer.commit().unwrap();
                    }
                })
            })
            .collect();
        let done = &done;
        for (share, policy) in [(0.1, "full"), (0.5, "none")] {
            scope.spawn(move || {
                let table = Table::open(location).unwrap();
                let replication = Some(policy.parse().unwrap());
                let options =
                    OptimizeOptions { debt_share: share, rows_at_once: 20_000, replication, ..Default::default() };
                while !done.load(Ordering::Relaxed) {
                    table.optimize(&options, &mut |_, _| {}).unwrap();
                }
            });
        }
        for reader in 0..3 {
            scope.spawn(move || {
                let table = Table::open(location).unwrap();
                let mut last = 0;
                while !done.load(Ordering::Relaxed) {
                    let snapshot = table.snapshot().unwrap();
                    let found = all(&snapshot);
                    let distinct: BTreeSet<i64> = found.iter().copied().collect();
                    assert_eq!(distinct.len(), found.len(), "a record came twice");
                    let mut by_commit: BTreeMap<i64, i64> = BTreeMap::new();
                    found.iter().for_each(|id| *by_commit.entry(id / 1000).or_default() += 1);
                    for (commit, count) in &by_commit {
                        assert_eq!(*count, size(*commit), "commit {commit} was seen in part");
                    }
                    for writer in 0..WRITERS {
                        let of_writer = by_commit.range(writer * COMMITS..(writer + 1) * COMMITS);
                        assert!(
                            of_writer.map(|(commit, _)| commit % COMMITS).eq(0..of_writer_count(&by_commit, writer))
                        );
                    }
                    assert!(found.len() >= last, "a later snapshot holds less");
                    last = found.len();
                    let half = Query {
                        bounds: vec![Bound { column: "x".into(), low: None, high: Some(Value::Float(0.5)) }],
                        sample: Some(0.3),
                        ..Default::default()
                    };
                    let sample = ids(&snapshot, &half);
                    assert!(sample.iter().all(|id| distinct.contains(id)), "reader {reader}");
                    assert_eq!(sample.len() as u64, snapshot.count(&half).unwrap());
                }
            });
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Relaxed);
    });
    let table = Table::open(location).unwrap();
    let expected: Vec<i64> =
        (0..WRITERS).flat_map(|writer| (0..COMMITS).flat_map(move |commit| commit_ids(writer, commit))).collect();
    assert_eq!(all(&table.snapshot().unwrap()), expected);
    let report = table.verify(&VerifyOptions::deep(), &mut |_, _| {}).unwrap();
    assert_eq!(report.findings, Vec::<String>::new());

    fn of_writer_count(by_commit: &BTreeMap<i64, i64>, writer: i64) -> i64 {
        by_commit.range(writer * COMMITS..(writer + 1) * COMMITS).count() as i64
    }
}

#[test]
fn a_checkpoint_knows_steps_and_a_restarted_solver_can_go_back() {
    let store = fresh_store("restart");
    let table = Table::create(store.clone(), schema(), &options()).unwrap();
    let mut ada = writer(&table, "ada");
    for step in 1..=5 {
        commit_step(&mut ada, 100 * step..100 * step + 100, step);
    }
    drop(ada);
    assert!(table.checkpoint().unwrap());
    let table = Table::open(elsewhere(&store)).unwrap();
    table.optimize(&OptimizeOptions { debt_share: 0.0, ..Default::default() }, &mut |_, _| {}).unwrap();
    assert_eq!(table.retract(2).unwrap().rows, 300);
    assert_eq!(all(&table.snapshot().unwrap()), (100..300).collect::<Vec<_>>());
    let mut ada = writer(&table, "ada");
    commit_step(&mut ada, 300..400, 3);
    assert_eq!(all(&table.snapshot().unwrap()), (100..400).collect::<Vec<_>>());
}

#[test]
fn a_failed_commit_leaves_nothing_pending() {
    let table = table();
    let mut ada = writer(&table, "ada");
    commit_step(&mut ada, 0..10, 5);
    ada.append(&rows(10..20)).unwrap();
    assert!(ada.commit_as(&CommitOptions { step: Some(4), token: None }).is_err());
    assert_eq!(ada.pending_rows(), 0);
    commit_step(&mut ada, 10..20, 6);
    assert_eq!(all(&table.snapshot().unwrap()), (0..20).collect::<Vec<_>>());
}

/// Another process keeps files open, so a name must not be used twice.
#[test]
fn segment_names_are_never_used_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    let table = Table::create(path.to_str().unwrap(), schema(), &options()).unwrap();
    let other = Table::open(path.to_str().unwrap()).unwrap();
    for round in 0..5 {
        let mut ada = writer(&table, "ada");
        for commit in 0..4 {
            let first = round * 1000 + commit * 100;
            ada.append(&rows(first..first + 100)).unwrap();
            ada.commit().unwrap();
        }
        drop(ada);
        assert_eq!(all(&other.snapshot().unwrap()).len() as i64, (round + 1) * 400);
        table.optimize(&OptimizeOptions { debt_share: 0.0, ..Default::default() }, &mut |_, _| {}).unwrap();
        assert!(table.clean(std::time::Duration::ZERO).unwrap().segments_deleted > 0);
        assert_eq!(all(&other.snapshot().unwrap()).len() as i64, (round + 1) * 400);
    }
}

/// Rows with the same `pid` share a priority. A tie at the end of a cell must not add a row before a lower priority.
#[test]
fn cells_hold_no_more_than_was_asked_for() {
    use kubist::PerCell;
    for seed in 0..30 {
        let options = TableOptions { identity: vec!["id".into()], seed, ..options() };
        let table = Table::create(fresh_store("cells"), schema(), &options).unwrap();
        let mut ada = writer(&table, "ada");
        let ids = [1, 1, 2, 3, 3, 3];
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(ids)),
            Arc::new(Float32Array::from_iter_values((0..6).map(|row| row as f32 / 100.0))),
            Arc::new(Float32Array::from_iter_values((0..6).map(|_| 0.5))),
        ];
        ada.append(&RecordBatch::try_new(schema(), columns).unwrap()).unwrap();
        ada.commit().unwrap();
        for rows in 1..=6 {
            let per_cell = Some(PerCell { rows, widths: vec![("x".into(), 1.0.into())] });
            let query = Query { per_cell, ..Default::default() };
            assert_eq!(table.snapshot().unwrap().count(&query).unwrap(), rows, "seed {seed}");
        }
    }
}

#[test]
fn what_would_hold_too_much_is_refused() {
    let table = table();
    let mut ada = writer(&table, "ada");
    ada.append(&rows(0..2_000)).unwrap();
    ada.commit().unwrap();
    let snapshot = table.snapshot().unwrap();
    let cells = |rows, most_held| {
        let per_cell = Some(kubist::PerCell { rows, widths: vec![("x".into(), 1e-3.into())] });
        let run = kubist::RunOptions { most_held, ..Default::default() };
        snapshot.count(run.of(Query { per_cell, ..Query::default() }))
    };
    let chosen = cells(1, None).unwrap();
    assert!(chosen > 50);
    assert_eq!(cells(1, Some(chosen)).unwrap(), chosen);
    let refused = cells(1, Some(chosen / 2)).unwrap_err();
    assert!(matches!(&refused, kubist::Error::Invalid(why) if why.contains("per_cell")), "{refused}");
    let paths = |most_held| {
        let through = kubist::RunOptions { most_held, ..Default::default() }.of(Query::default());
        snapshot.trajectories(through, "id", Query::default()).map(|stream| stream.map(|part| part.unwrap().num_rows()))
    };
    assert_eq!(paths(Some(2_000)).unwrap().sum::<usize>(), 2_000);
    assert!(matches!(paths(Some(1_000)).err(), Some(kubist::Error::Invalid(_))));
}

#[test]
fn a_writer_restores_the_layout_behind_its_back() {
    let table = table();
    let options = WriterOptions { optimize: true, ..Default::default() };
    let mut writer = table.writer(&options).unwrap();
    let mut commits = 0;
    while table.snapshot().unwrap().info().unwrap().runs >= commits {
        assert!(commits < 100_000, "the layout never got better");
        writer.append(&rows(commits as i64 * 20..commits as i64 * 20 + 20)).unwrap();
        writer.commit().unwrap();
        commits += 1;
    }
    drop(writer);
    assert_eq!(all(&table.snapshot().unwrap()), (0..commits as i64 * 20).collect::<Vec<_>>());
}

#[test]
fn many_short_lived_writers_leave_a_checkpoint() {
    let store = fresh_store("short");
    let table = Table::create(store.clone(), schema(), &options()).unwrap();
    for commit in 0..450 {
        let mut writer = writer(&Table::open(elsewhere(&store)).unwrap(), &format!("writer-{}", commit % 40));
        writer.append(&rows(commit * 10..commit * 10 + 10)).unwrap();
        let token = Some(format!("commit {commit}"));
        writer.commit_as(&CommitOptions { token, step: Some(commit) }).unwrap();
    }
    assert!(!store.list("checkpoints/").unwrap().is_empty() || table.checkpoint().unwrap());
    let fresh = Table::open(elsewhere(&store)).unwrap();
    assert_eq!(all(&fresh.snapshot().unwrap()), (0..4500).collect::<Vec<_>>());
    assert_eq!(fresh.snapshot().unwrap().complete_steps().len(), 450);
    let mut again = writer(&fresh, "writer-3");
    again.append(&rows(30..40)).unwrap();
    assert!(again.commit_as(&CommitOptions { token: Some("commit 3".into()), step: None }).unwrap().repeated);
}

#[test]
fn cleaned_files_expire_old_snapshots_and_spare_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    let table = Table::create(path.to_str().unwrap(), schema(), &options()).unwrap();
    let mut ada = writer(&table, "ada");
    for commit in 0..20 {
        ada.append(&rows(commit * 100..commit * 100 + 100)).unwrap();
        ada.commit().unwrap();
    }
    drop(ada);
    let old = table.snapshot().unwrap();
    table.optimize(&OptimizeOptions { debt_share: 0.0, ..Default::default() }, &mut |_, _| {}).unwrap();
    let day = std::time::Duration::from_secs(86_400);
    let waiting = table.clean(day).unwrap();
    assert!(waiting.segments_deleted == 0 && waiting.segments_waiting > 0, "{waiting:?}");
    assert_eq!(all(&old), (0..2000).collect::<Vec<_>>());
    let mut ada = writer(&table, "ada");
    ada.append(&rows(2000..2010)).unwrap();
    ada.commit().unwrap();
    let cleaned = table.clean(std::time::Duration::ZERO).unwrap();
    assert!(cleaned.segments_deleted > 0 && cleaned.bytes_deleted > 0, "{cleaned:?}");
    let fresh = Table::open(path.to_str().unwrap()).unwrap();
    assert_eq!(all(&fresh.snapshot().unwrap()), (0..2010).collect::<Vec<_>>());
    ada.append(&rows(2010..2020)).unwrap();
    ada.commit().unwrap();
    assert_eq!(all(&fresh.snapshot().unwrap()), (0..2020).collect::<Vec<_>>());
    assert!(fresh.verify(&VerifyOptions::deep(), &mut |_, _| {}).unwrap().findings.is_empty());
}

#[test]
fn the_optimizer_restores_what_a_bulk_build_gives() {
    let (many, bulk) = (table(), table());
    let mut small = writer(&many, "ada");
    for commit in 0..200 {
        small.append(&rows(commit * 100..commit * 100 + 100)).unwrap();
        small.commit().unwrap();
    }
    let mut large = writer(&bulk, "ada");
    large.append(&rows(0..20_000)).unwrap();
    large.commit().unwrap();
    let examined = |table: &Table| {
        let mut stream = table.snapshot().unwrap().query(&Query { sample: Some(0.02), ..Default::default() }).unwrap();
        stream.by_ref().for_each(|batch| drop(batch.unwrap()));
        stream.stats().rows_read as f64
    };
    let before = examined(&many);
    let report = many.optimize(&OptimizeOptions::default(), &mut |_, _| {}).unwrap();
    assert!(report.debt_after < report.debt_before / 4, "{report:?}");
    assert!(report.rows_rewritten <= 3 * 20_000, "{report:?}");
    assert!(examined(&many) <= 1.2 * examined(&bulk), "{before} {} {}", examined(&many), examined(&bulk));
    let runs = many.snapshot().unwrap().info().unwrap().runs;
    assert!(runs as f64 <= 1.5 * bulk.snapshot().unwrap().info().unwrap().runs as f64, "{runs}");
    assert_eq!(all(&many.snapshot().unwrap()), all(&bulk.snapshot().unwrap()));
}
