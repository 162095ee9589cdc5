//! Losses are reported: missing, truncated or outdated logs; interrupted copies and salvages; rewrites
//! without their segment.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kubist::store::{LocalStore, MemoryStore, Store, open_local};
use kubist::{
    CopyOptions, Dimension, Domain, Error, OptimizeOptions, Query, SalvageReport, Table, TableOptions, VerifyOptions,
    WriterOptions,
};
use kubist_simulate::SimDisk;

const ROWS: i64 = 1000;

fn schema() -> SchemaRef {
    let field = |name: &str, data_type| Field::new(name, data_type, false);
    Arc::new(Schema::new(vec![field("id", DataType::Int64), field("x", DataType::Float64)]))
}

fn options() -> TableOptions {
    TableOptions {
        dimensions: vec![Dimension { column: "x".into(), domain: Domain::Learned }],
        identity: vec!["id".into()],
        capacity: Some(64),
        ..Default::default()
    }
}

fn rows(first: i64, count: i64) -> RecordBatch {
    let x = (first..first + count).map(|id| (id * 7919 % 1009) as f64);
    let columns: Vec<ArrayRef> =
        vec![Arc::new(Int64Array::from_iter_values(first..first + count)), Arc::new(Float64Array::from_iter_values(x))];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn named(name: &str) -> WriterOptions {
    WriterOptions { name: Some(name.into()), ..Default::default() }
}

fn commit(at: &Path, writer: &str, commits: std::ops::Range<i64>) {
    let table = Table::open(at.to_str().unwrap()).unwrap();
    let mut writer = table.writer(&named(writer)).unwrap();
    for commit in commits {
        writer.append(&rows(commit * ROWS, ROWS)).unwrap();
        writer.commit().unwrap();
    }
}

fn optimize(at: &Path) {
    let all = OptimizeOptions { debt_share: 0.0, ..Default::default() };
    let table = Table::open(at.to_str().unwrap()).unwrap();
    assert!(table.optimize(&all, &mut |_, _| {}).unwrap().rewrites > 0);
}

fn checkpoint(at: &Path) {
    assert!(Table::open(at.to_str().unwrap()).unwrap().checkpoint().unwrap());
}

fn ids(table: &Table) -> Vec<i64> {
    let batches = table.snapshot().unwrap().query(Query::default()).unwrap().map(Result::unwrap);
    let mut ids: Vec<i64> =
        batches.flat_map(|batch| batch["id"].as_primitive::<Int64Type>().values().to_vec()).collect();
    ids.sort_unstable();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "a row is there twice");
    ids
}

fn flip(file: PathBuf, from_the_end: usize) {
    let mut bytes = std::fs::read(&file).unwrap();
    let at = bytes.len() - from_the_end;
    bytes[at] ^= 4;
    std::fs::write(&file, bytes).unwrap();
}

struct Case {
    what: &'static str,
    /// "ben" commits once, "ada" the rest.
    prepare: fn(&Path),
    damage: fn(&Path),
    says: &'static [&'static str],
    /// Minimum of saved rows, rows known to exist, and whether there may be more.
    saved: u64,
    known: u64,
    uncounted: bool,
}

fn seven(at: &Path) {
    commit(at, "ben", 0..1);
    commit(at, "ada", 1..7);
}

fn seven_and_a_checkpoint(at: &Path) {
    seven(at);
    checkpoint(at);
}

fn seven_of_which_the_checkpoint_has_three(at: &Path) {
    commit(at, "ben", 0..1);
    commit(at, "ada", 1..3);
    checkpoint(at);
    commit(at, "ada", 3..7);
}

fn seven_rewritten(at: &Path) {
    seven(at);
    optimize(at);
    if at.join("checkpoints").exists() {
        std::fs::remove_dir_all(at.join("checkpoints")).unwrap();
    }
}

fn remove(at: &Path, names: &[&str]) {
    names.iter().for_each(|name| std::fs::remove_file(at.join("logs").join(name)).unwrap());
}

fn cut_to_header(at: &Path) {
    let log = at.join("logs/ada.log");
    let bytes = std::fs::read(&log).unwrap();
    std::fs::write(log, &bytes[..16]).unwrap();
    remove(at, &["ada.ack"]);
}

const CASES: &[Case] = &[
    Case {
        what: "no logs, and a checkpoint",
        prepare: seven_and_a_checkpoint,
        damage: |at| std::fs::remove_dir_all(at.join("logs")).unwrap(),
        says: &["log of ada", "missing", "checkpoint", "6 commits of 6000 rows"],
        saved: 7000,
        known: 7000,
        uncounted: true,
    },
    Case {
        what: "no logs, and nothing else that knows them",
        prepare: seven,
        damage: |at| std::fs::remove_dir_all(at.join("logs")).unwrap(),
        says: &["log of ada", "missing", "segment ada-"],
        saved: 0,
        known: 0,
        uncounted: true,
    },
    Case {
        what: "one log missing",
        prepare: seven,
        damage: |at| remove(at, &["ben.log", "ben.ack"]),
        says: &["log of ben", "missing", "segment ben-"],
        saved: 6000,
        known: 6000,
        uncounted: true,
    },
    Case {
        what: "one log missing of which a checkpoint holds the beginning",
        prepare: seven_of_which_the_checkpoint_has_three,
        damage: |at| remove(at, &["ada.log", "ada.ack"]),
        says: &["log of ada", "missing", "2 commits of 2000 rows"],
        saved: 3000,
        known: 3000,
        uncounted: true,
    },
    Case {
        what: "the last entry and the acknowledgement damaged",
        prepare: seven,
        damage: |at| {
            flip(at.join("logs/ada.log"), 40);
            flip(at.join("logs/ada.ack"), 9);
        },
        says: &["logs/ada.log", "is incomplete", "acknowledgement"],
        saved: 6000,
        known: 7000,
        uncounted: false,
    },
    Case {
        what: "an entry in the middle damaged",
        prepare: seven,
        damage: |at| {
            let length = std::fs::metadata(at.join("logs/ada.log")).unwrap().len();
            flip(at.join("logs/ada.log"), length as usize / 2);
        },
        says: &["logs/ada.log", "more entries follow"],
        saved: 6000,
        known: 7000,
        uncounted: false,
    },
    Case {
        what: "a log cut to its header without its acknowledgement",
        prepare: seven,
        damage: cut_to_header,
        says: &["log of ada", "acknowledgement is missing", "segment ada-"],
        saved: 1000,
        known: 1000,
        uncounted: true,
    },
    Case {
        what: "the same, where a checkpoint knows better",
        prepare: seven_and_a_checkpoint,
        damage: cut_to_header,
        says: &["log of ada", "ends there", "6 commits of 6000 rows"],
        saved: 7000,
        known: 7000,
        uncounted: true,
    },
    Case {
        what: "the same, where a rewrite has read it",
        prepare: seven_rewritten,
        damage: |at| {
            cut_to_header(at);
            std::fs::write(at.join("logs/ada.ack"), b"").unwrap();
        },
        says: &["log of ada", "rewrite 1"],
        saved: 7000,
        known: 7000,
        uncounted: true,
    },
];

fn salvage(from: &Path, to: &Path) -> SalvageReport {
    Table::salvage(from.to_str().unwrap(), to.to_str().unwrap(), &Default::default(), &mut |_, _| {}).unwrap()
}

#[test]
fn a_log_that_others_know_more_of_is_damaged() {
    for case in CASES {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("t");
        let name = at.to_str().unwrap();
        Table::create(name, schema(), &options()).unwrap();
        (case.prepare)(&at);
        (case.damage)(&at);
        let what = case.what;
        let error = Table::open(name).err().unwrap_or_else(|| panic!("{what} went unnoticed"));
        assert!(matches!(error, Error::Damaged { .. }), "{what}: {error:?}");
        let message = error.to_string();
        assert!(message.contains(name) && case.says.iter().all(|part| message.contains(part)), "{what}: {message}");
        let report = Table::verify_at(name, &VerifyOptions::default(), &mut |_, _| {}).unwrap();
        assert!(
            report.findings.iter().any(|finding| case.says.iter().all(|part| finding.contains(part))),
            "{what}: {:?}",
            report.findings
        );
        let to = folder.path().join("saved");
        let saved = salvage(&at, &to);
        assert_eq!(
            (saved.rows + saved.rows_lost, saved.uncounted, saved.is_whole()),
            (case.known, case.uncounted, false),
            "{what}: {saved:?}"
        );
        assert!(saved.rows >= case.saved, "{what}: {saved:?}");
        assert_eq!(ids(&Table::open(to.to_str().unwrap()).unwrap()).len() as u64, saved.rows, "{what}");
    }
}

#[test]
fn handles_that_are_open_notice_it_and_nothing_more_is_acknowledged() {
    for replaced in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("t");
        let name = at.to_str().unwrap();
        let table = Table::create(name, schema(), &options()).unwrap();
        let mut writer = table.writer(&named("ada")).unwrap();
        for commit in 0..3 {
            writer.append(&rows(commit * ROWS, ROWS)).unwrap();
            writer.commit().unwrap();
        }
        let reader = Table::open(name).unwrap();
        assert_eq!(ids(&reader).len(), 3000);
        let log = at.join("logs/ada.log");
        let bytes = std::fs::read(&log).unwrap();
        remove(&at, &["ada.log", "ada.ack"]);
        if replaced {
            std::fs::write(&log, &bytes[..16]).unwrap();
        }
        let error = reader.snapshot().unwrap_err();
        assert!(error.to_string().contains("3 commits of 3000 rows"), "{error}");
        writer.append(&rows(9000, 10)).unwrap();
        assert!(writer.commit().is_err(), "a commit that nobody sees was acknowledged");
        drop(writer);
        for options in [named("ada"), named("eve"), WriterOptions::default()] {
            let error = reader.writer(&options).unwrap_err();
            assert!(matches!(error, Error::Damaged { .. }), "{error:?}");
            let error = Table::open(name).and_then(|table| table.writer(&options).map(drop)).unwrap_err();
            assert!(matches!(error, Error::Damaged { .. }), "{error:?}");
        }
        assert!(replaced || !log.exists(), "a log was begun anew");
        let segments = std::fs::read_dir(at.join("segments")).unwrap().count();
        assert!(reader.clean(Duration::ZERO).is_err());
        assert_eq!(std::fs::read_dir(at.join("segments")).unwrap().count(), segments);
    }
}

fn cut_off(make: impl Fn(Arc<dyn Store>) -> kubist::Result<()>, count: usize) {
    let at = Path::new("/data/new");
    let mut outcomes = [0; 2];
    for calls in 0.. {
        for crash in [false, true] {
            let machine = SimDisk::new(calls);
            let fresh = || Arc::new(LocalStore::on_disk(machine.process(), at).unwrap()) as Arc<dyn Store>;
            let process = machine.process();
            let killed = LocalStore::on_disk(process.clone(), at).map(|store| {
                process.kill_after(calls);
                make(Arc::new(store))
            });
            let done = killed.is_ok_and(|made| made.is_ok());
            if crash {
                machine.crash();
            }
            match Table::open(fresh()) {
                Ok(table) => {
                    outcomes[0] += 1;
                    assert_eq!(ids(&table).len(), count, "killed at call {calls}");
                    continue;
                }
                Err(Error::NotATable { .. }) => outcomes[1] += 1,
                Err(error) => panic!("killed at call {calls}: {error}"),
            }
            assert!(!done, "made, and not there (call {calls})");
            // The next attempt removes the remains, and is killed too.
            let process = machine.process();
            let left = LocalStore::on_disk(process.clone(), at).unwrap();
            process.kill_after(calls / 2);
            let _ = Table::drop_at(Arc::new(left), false);
            match Table::drop_at(fresh(), false) {
                Ok(_) | Err(Error::NotATable { .. }) => {}
                Err(error) => panic!("killed at call {calls}: {error}"),
            }
            make(fresh()).unwrap_or_else(|error| panic!("killed at call {calls}, then repeated: {error}"));
            assert_eq!(ids(&Table::open(fresh()).unwrap()).len(), count);
        }
        if outcomes[0] > 10 {
            break;
        }
    }
    assert!(outcomes.iter().all(|count| *count > 10), "{outcomes:?}");
}

fn source() -> Arc<MemoryStore> {
    let store = Arc::new(MemoryStore::new("source"));
    let table = Table::create(store.clone(), schema(), &options()).unwrap();
    let mut writer = table.writer(&named("ada")).unwrap();
    for commit in 0..2 {
        writer.append(&rows(commit * 100, 100)).unwrap();
        writer.commit().unwrap();
    }
    store
}

#[test]
fn a_copy_killed_at_any_call_is_whole_or_no_table() {
    let snapshot = Table::open(source()).unwrap().snapshot().unwrap();
    let copy = |store| snapshot.copy_to(store, &CopyOptions::default(), &mut |_, _| {}).map(drop);
    cut_off(copy, 200);
}

#[test]
fn a_salvage_killed_at_any_call_is_whole_or_no_table() {
    let from = source();
    let salvage = |store| Table::salvage(from.clone(), store, &Default::default(), &mut |_, _| {}).map(drop);
    cut_off(salvage, 200);
}

#[test]
fn an_unfinished_copy_is_no_table_and_is_begun_anew() {
    let folder = tempfile::tempdir().unwrap();
    let (at, other) = (folder.path().join("copy"), folder.path().join("other"));
    let (name, other) = (at.to_str().unwrap(), other.to_str().unwrap());
    let snapshot = Table::open(source()).unwrap().snapshot().unwrap();
    let copy = |to: &str| snapshot.copy_to(to, &CopyOptions::default(), &mut |_, _| {});
    copy(name).unwrap();
    std::fs::remove_file(at.join("table")).unwrap();
    open_local(&at).unwrap().put_if_absent("unfinished", b"some id").unwrap();
    let error = Table::open(name).unwrap_err();
    assert!(matches!(&error, Error::NotATable { why, .. } if why.contains("not finished")), "{error}");
    let error = Table::create(name, schema(), &options()).unwrap_err();
    assert!(error.to_string().contains("repeat it, or drop"), "{error}");
    let owner = open_local(&at).unwrap().own_log("copy").unwrap();
    let error = copy(name).unwrap_err();
    assert!(matches!(error, Error::Busy(_)), "{error}");
    drop(owner);
    copy(name).unwrap();
    assert_eq!(ids(&Table::open(name).unwrap()).len(), 200);
    drop(LocalStore::create(Path::new(other)).unwrap().own_log("copy").unwrap());
    copy(other).unwrap();
    assert_eq!(ids(&Table::open(other).unwrap()).len(), 200);
    assert!(matches!(copy(other), Err(Error::Exists { .. })));
}

/// The segment of a rewrite is lost, but the replaced runs still exist.
#[test]
fn salvage_falls_back_to_what_a_rewrite_replaced() {
    for damaged in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("t");
        Table::create(at.to_str().unwrap(), schema(), &options()).unwrap();
        seven(&at);
        optimize(&at);
        commit(&at, "ada", 7..8);
        for entry in std::fs::read_dir(at.join("segments")).unwrap() {
            let path = entry.unwrap().path();
            if !path.file_name().unwrap().to_str().unwrap().starts_with("rewrite-") {
                continue;
            }
            match damaged {
                false => std::fs::remove_file(path).unwrap(),
                true => flip(path.clone(), std::fs::metadata(&path).unwrap().len() as usize / 2),
            }
        }
        let saved = salvage(&at, &folder.path().join("saved"));
        assert_eq!((saved.rows, saved.rows_lost), (8000, 0), "{saved:?}");
        assert!(saved.rows_recovered > 0 && !saved.losses.is_empty(), "{saved:?}");
        let saved = Table::open(folder.path().join("saved").to_str().unwrap()).unwrap();
        assert_eq!(ids(&saved), (0..8000).collect::<Vec<_>>());
    }
}
