//! Bytes without a live run are returned to the file system; snapshots return the same results or expire.
//!
//! `SEEDS=n` plays n seeds of the crashes, `SEED=n` that one alone.

use crate::common;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::schema;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Float32Array, Int64Array, RecordBatch};
use kubist::store::disk::Disk;
use kubist::store::{BLOCK_BYTES, LocalStore, Store, StoreExt};
use kubist::{
    Bound, Cancel, Error, OptimizeOptions, Query, Replication, Result, Snapshot, Table, TableOptions, Value,
    VerifyOptions, Writer, WriterOptions,
};
use kubist_index::priority::name_hash;
use kubist_maintain::clean::{Cleaning, clean_as_of};
use kubist_simulate::SimDisk;
use kubist_write::publish::fence;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const DAY: Duration = Duration::from_secs(86_400);

fn options(capacity: u32) -> TableOptions {
    TableOptions { capacity: Some(capacity), replication: Replication::default(), ..common::options() }
}

fn rows(ids: Range<i64>) -> RecordBatch {
    rows_within(ids, 1.0)
}

fn rows_within(ids: Range<i64>, width: f32) -> RecordBatch {
    let position = |id: i64, part: u32| (name_hash(&id.to_string()) >> part & 0xffff) as f32 / 65536.0;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(ids.clone())),
        Arc::new(Float32Array::from_iter_values(ids.clone().map(|id| width * position(id, 0)))),
        Arc::new(Float32Array::from_iter_values(ids.map(|id| position(id, 20)))),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn table(path: &Path) -> Table {
    Table::create(path.to_str().unwrap(), schema(), &options(1000)).unwrap()
}

fn writer(table: &Table) -> Writer {
    table.writer(&WriterOptions { name: Some("ada".into()), ..Default::default() }).unwrap()
}

fn commit(writer: &mut Writer, ids: Range<i64>) {
    writer.append(&rows(ids)).unwrap();
    writer.commit().unwrap();
}

fn optimize(table: &Table, debt_share: f64) {
    table.optimize(&OptimizeOptions { debt_share, ..Default::default() }, &mut |_, _| {}).unwrap();
}

fn ids(snapshot: &Snapshot, query: &Query) -> Result<Vec<i64>> {
    let mut found = Vec::new();
    for batch in snapshot.query(query)? {
        found.extend_from_slice(batch?["id"].as_primitive::<Int64Type>().values());
    }
    found.sort_unstable();
    Ok(found)
}

fn questions() -> Vec<Query> {
    let bound = |column: &str, low: f64, high: f64| Bound {
        column: column.into(),
        low: Some(Value::Float(low)),
        high: Some(Value::Float(high)),
    };
    let condition = |text: &str| Query { filter: Some(text.into()), ..Default::default() };
    vec![
        Query::default(),
        Query { sample: Some(0.05), ..Default::default() },
        Query { bounds: vec![bound("x", 0.3, 0.4), bound("y", 0.1, 0.5)], ..Default::default() },
        condition("id = 4711"),
        condition("x * y > 0.9"),
        Query { limit: Some(100), ..Default::default() },
    ]
}

fn sound(table: &Table) {
    let report = table.verify(&VerifyOptions::deep(), &mut |_, _| {}).unwrap();
    assert_eq!(report.findings, Vec::<String>::new());
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn on_disk(path: &Path) -> u64 {
    files(&path.join("segments")).iter().map(|file| file.metadata().unwrap().blocks() * 512).sum()
}

fn live(table: &Table) -> u64 {
    let disk = table.snapshot().unwrap().info().unwrap().disk;
    disk.primary + disk.replicas + disk.zone_maps + disk.lookups
}

fn has_holes(folder: &Path) -> bool {
    let store = LocalStore::create(&folder.join("probe")).unwrap();
    let mut segment = store.create_segment("s").unwrap();
    segment.append(&[&[1; 64 << 10]]).unwrap();
    segment.sync().unwrap();
    store.punch("s", &[0..64 << 10]).unwrap();
    store.segment_bytes("s").unwrap() < store.segment_len("s").unwrap()
}

#[test]
fn a_table_in_small_commits_takes_little_more_than_what_lives() {
    let folder = tempfile::tempdir().unwrap();
    if !has_holes(folder.path()) {
        return;
    }
    let path = folder.path().join("table");
    let table = table(&path);
    let (mut released, commits, each) = (0, 300, 5000);
    let mut ada = writer(&table);
    for number in 0..commits {
        commit(&mut ada, number * each..number * each + each);
        if number % 30 == 29 {
            drop(ada);
            optimize(&table, 0.3);
            let cleaned = table.clean(Duration::ZERO).unwrap();
            released += cleaned.bytes_released;
            let (disk, live) = (on_disk(&path), live(&table));
            println!("{} rows: {live} bytes live, {disk} on disk, {cleaned:?}", (number + 1) * each);
            assert!(disk as f64 <= 1.3 * live as f64, "{disk} bytes on disk, {live} live");
            ada = writer(&table);
        }
    }
    assert!(released > live(&table) / 10, "{released}");
    drop(ada);
    let again = Table::open(path.to_str().unwrap()).unwrap();
    for query in questions() {
        assert!(!ids(&again.snapshot().unwrap(), &query).unwrap().is_empty());
    }
    assert_eq!(ids(&again.snapshot().unwrap(), &Query::default()).unwrap(), (0..commits * each).collect::<Vec<_>>());
    let dead = again.snapshot().unwrap().info().unwrap().disk.dead;
    assert!(dead as f64 <= 0.3 * live(&again) as f64, "info says that {dead} bytes are dead");
    sound(&again);
}

struct Replaced {
    table: Table,
    path: PathBuf,
    before: Vec<(Snapshot, Vec<Vec<i64>>)>,
}

fn replaced(folder: &Path) -> Replaced {
    let path = folder.join("table");
    let table = table(&path);
    let mut ada = writer(&table);
    commit(&mut ada, 0..200_000);
    let mut before = Vec::new();
    for number in 0..4 {
        for small in 0..10 {
            let first = 200_000 + (number * 10 + small) * 2000;
            ada.append(&rows_within(first..first + 2000, 0.2)).unwrap();
            ada.commit().unwrap();
        }
        for table in [&table, &Table::open(path.to_str().unwrap()).unwrap()] {
            let snapshot = table.snapshot().unwrap();
            let answers: Vec<Vec<i64>> = questions().iter().map(|query| ids(&snapshot, query).unwrap()).collect();
            before.push((snapshot, answers));
        }
        let fresh = Table::open(path.to_str().unwrap()).unwrap().snapshot().unwrap();
        before.push((fresh, before[before.len() - 1].1.clone()));
        let options = OptimizeOptions { debt_share: 0.1, rows_at_once: 20_000, few_lookups: 1, ..Default::default() };
        table.optimize(&options, &mut |_, _| {}).unwrap();
    }
    Replaced { table, path, before }
}

fn same_or_expired(before: &[(Snapshot, Vec<Vec<i64>>)]) -> (usize, usize) {
    let (mut same, mut expired) = (0, 0);
    for (snapshot, answers) in before {
        for (query, expected) in questions().iter().zip(answers) {
            match ids(snapshot, query) {
                Ok(found) => {
                    assert!(found == *expected, "{query:?} has another answer");
                    same += 1;
                }
                Err(Error::SnapshotExpired { .. }) => expired += 1,
                Err(other) => panic!("{query:?}: {other}"),
            }
        }
    }
    (same, expired)
}

#[test]
fn snapshots_of_before_answer_until_the_retention_is_over_and_never_wrongly() {
    let folder = tempfile::tempdir().unwrap();
    if !has_holes(folder.path()) {
        return;
    }
    let Replaced { table, path, before } = replaced(folder.path());
    let all = before.len() * questions().len();
    let taken = on_disk(&path);
    let now = kubist_catalog::segment::unix_ms();
    let clean = |hours: u64| -> Cleaning {
        clean_as_of(table.core(), DAY, now + hours * 3_600_000, &Cancel::default()).unwrap()
    };
    for hours in [0, 1, 7, 20] {
        let waiting = clean(hours);
        assert!(waiting.bytes_waiting > 0 && waiting.bytes_released == 0, "{waiting:?}");
    }
    assert_eq!(files(&path.join("holes")).len(), 3, "one for each quarter of the retention");
    assert_eq!(same_or_expired(&before), (all, 0));
    let given_back = clean(25);
    assert!(given_back.bytes_released > 0, "{given_back:?}");
    clean(50);
    assert!(files(&path.join("holes")).is_empty());
    assert!(on_disk(&path) < taken && on_disk(&path) as f64 <= 1.3 * live(&table) as f64, "{}", on_disk(&path));
    let (same, expired) = same_or_expired(&before);
    assert!(expired > 0, "{same} answers were as before");
    println!("{same} answers as before, {expired} snapshots expired");
    sound(&Table::open(path.to_str().unwrap()).unwrap());
    let again = table.clean(Duration::ZERO).unwrap();
    assert_eq!((again.bytes_released, again.bytes_waiting), (0, 0));
}

#[test]
fn at_once_means_now_and_what_lives_is_damage_if_it_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    if !has_holes(folder.path()) {
        return;
    }
    let Replaced { table, path, before } = replaced(folder.path());
    let last = table.snapshot().unwrap();
    assert!(table.clean(Duration::ZERO).unwrap().bytes_released > 0);
    assert!(same_or_expired(&before).1 > 0);
    assert_eq!(ids(&last, &Query::default()).unwrap(), (0..280_000).collect::<Vec<_>>());
    // After a rewrite, the same bytes would be wrong.
    fence(table.core()).unwrap();
    for file in files(&path.join("segments")) {
        let mut bytes = std::fs::read(&file).unwrap();
        bytes.iter_mut().skip(16).for_each(|byte| *byte ^= 1);
        std::fs::write(&file, bytes).unwrap();
    }
    let error = ids(&last, &Query::default()).unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
}

#[test]
fn copies_by_hard_links_keep_all_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let Replaced { table, path, .. } = replaced(folder.path());
    // As after `cp -al`, with copied logs, because logs grow.
    let copy = folder.path().join("copy");
    fn copy_folder(from: &Path, to: &Path) {
        std::fs::create_dir(to).unwrap();
        for file in files(from) {
            let into = to.join(file.file_name().unwrap());
            match (file.is_dir(), from.ends_with("segments")) {
                (true, _) => copy_folder(&file, &into),
                (false, true) => std::fs::hard_link(&file, &into).unwrap(),
                (false, false) => drop(std::fs::copy(&file, &into).unwrap()),
            }
        }
    }
    copy_folder(&path, &copy);
    let expected: Vec<Vec<i64>> =
        questions().iter().map(|query| ids(&table.snapshot().unwrap(), query).unwrap()).collect();
    let mut ada = writer(&table);
    commit(&mut ada, 280_000..300_000);
    drop(ada);
    optimize(&table, 0.0);
    table.clean(Duration::ZERO).unwrap();
    let copied = Table::open(copy.to_str().unwrap()).unwrap();
    for (query, expected) in questions().iter().zip(expected) {
        assert_eq!(ids(&copied.snapshot().unwrap(), query).unwrap(), expected);
    }
    sound(&copied);
    sound(&table);
}

#[test]
fn who_verifies_meanwhile_finds_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    let table = table(&path);
    let mut ada = writer(&table);
    commit(&mut ada, 0..100_000);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let (mut sound, mut expired) = (0, 0);
            while !done.load(Ordering::Relaxed) {
                let own = Table::open(path.to_str().unwrap()).unwrap();
                match own.verify(&VerifyOptions::deep(), &mut |_, _| {}) {
                    Ok(report) => {
                        assert!(report.is_sound(), "{:?} {:?}", report.findings, report.unread);
                        sound += 1;
                    }
                    Err(Error::SnapshotExpired { .. }) => expired += 1,
                    Err(other) => panic!("{other}"),
                }
            }
            println!("{sound} times sound, {expired} times too late");
        });
        for number in 0..60 {
            commit(&mut ada, 100_000 + number * 1000..101_000 + number * 1000);
            if number % 3 == 2 {
                optimize(&table, 0.1);
                table.clean(Duration::ZERO).unwrap();
            }
        }
        done.store(true, Ordering::Relaxed);
        looking.join().unwrap();
    });
    sound(&table);
}

fn open(disk: Arc<dyn Disk>) -> Result<Table> {
    let store = LocalStore::on_disk(disk, Path::new("/data/table"))
        .map_err(|error| Error::storage(kubist::ErrorKind::Unavailable, error.to_string(), error))?;
    Table::create(Arc::new(store), schema(), &options(200))
}

/// Commits, optimizes and cleans until a power failure or kill, where `done` counts acknowledged rows.
fn work(disk: Arc<dyn Disk>, done: &mut i64, released: &mut u64, random: &mut StdRng) -> Result<()> {
    loop {
        let table = open(disk.clone())?;
        match random.random_range(0..5) {
            0 => {
                let few_lookups = random.random_range(1..8);
                let options =
                    OptimizeOptions { debt_share: 0.1, rows_at_once: 3000, few_lookups, ..Default::default() };
                table.optimize(&options, &mut |_, _| {})?;
            }
            1 => {
                let now = kubist_catalog::segment::unix_ms() + random.random_range(0..48) * 3_600_000;
                let retention = if random.random_bool(0.5) { Duration::ZERO } else { DAY };
                *released += clean_as_of(table.core(), retention, now, &Cancel::default())?.bytes_released;
            }
            _ => {
                let mut writer = table.writer(&WriterOptions { name: Some("ada".into()), ..Default::default() })?;
                for _ in 0..random.random_range(1..5) {
                    writer.append(&rows(*done..*done + 1500))?;
                    writer.commit_as(&kubist::CommitOptions { token: Some(format!("{done}")), step: None })?;
                    *done += 1500;
                }
            }
        }
    }
}

#[test]
fn no_crash_costs_a_row() {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SEEDS").unwrap_or(40),
    };
    let mut released = 0;
    for seed in seeds {
        let (mut random, machine, mut done) = (StdRng::seed_from_u64(seed), SimDisk::new(seed), 0);
        for _ in 0..4 {
            let process = machine.process();
            match random.random_bool(0.5) {
                true => machine.crash_after(random.random_range(100..6000)),
                false => process.kill_after(random.random_range(100..6000)),
            }
            work(process, &mut done, &mut released, &mut random).unwrap_err();
            machine.calm();
            let table = open(machine.process()).unwrap();
            let mut found = ids(&table.snapshot().unwrap(), &Query::default()).unwrap();
            done = done.max(found.len() as i64);
            found.dedup();
            assert_eq!(found, (0..done).collect::<Vec<_>>(), "SEED={seed}");
            let report = table.verify(&VerifyOptions::deep(), &mut |_, _| {}).unwrap();
            assert_eq!(report.findings, Vec::<String>::new(), "SEED={seed}");
        }
    }
    assert!(released > 100 * BLOCK_BYTES, "{released}");
}
