//! A table on two machines that share its directory and see each other's changes late.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::forward::forward;
use crate::common::{name, options, rows, schema};
use arrow_array::{Int64Array, RecordBatch};
use arrow_schema::DataType;
use kubist::store::disk::{Disk, Open};
use kubist::store::{LocalStore, Result, Segment, Store, StoreExt};
use kubist::{
    Cancel, Dimension, Domain, Error, ErrorKind, GridOptions, Location, NewColumn, OptimizeOptions, Query, Snapshot,
    Table, Value, Writer, WriterOptions,
};
use kubist_catalog::error::store_error;
use kubist_maintain::clean::clean_as_of;
use kubist_simulate::{Mount, Network, Rule, SimDisk};
use kubist_write::publish::{fence, reserve, write_segment};

const HOUR: u64 = 3_600_000;

/// Longer than a simulated machine caches anything.
const LONG: Duration = Duration::from_secs(1);

fn machines(seed: u64, staleness: [Duration; 2]) -> (SimDisk, [Arc<dyn Store>; 2]) {
    let server = SimDisk::new(seed);
    let network = Network::new(&server, &Rule::ALL);
    // The number of a machine determines its cache time.
    (0..seed).for_each(|_| drop(Mount::new(&network)));
    let store = |staleness| -> Arc<dyn Store> {
        let store = LocalStore::on_disk(Mount::new(&network).process(), Path::new("/table")).unwrap();
        Arc::new(store.with_staleness(staleness))
    };
    (server, staleness.map(store))
}

fn tables(seed: u64) -> (SimDisk, [Table; 2]) {
    let (server, stores) = machines(seed, [LONG; 2]);
    (server, stores.map(|store| Table::create(store, schema(), &options()).unwrap()))
}

fn all_rows(snapshot: &Snapshot) -> kubist::Result<u64> {
    snapshot.query(Query::default())?.map(|batch| Ok(batch?.num_rows() as u64)).sum()
}

fn writer(table: &Table) -> Writer {
    table.writer(&WriterOptions { name: Some(name(0)), ..Default::default() }).unwrap()
}

fn made(segment: &str) -> u64 {
    segment.rsplit_once('-').unwrap().1.parse().unwrap()
}

fn look(table: &Table) -> u64 {
    table.snapshot().unwrap().rows().unwrap()
}

#[test]
fn a_column_and_a_grid_of_another_machine_are_never_missing() {
    for seed in 0..30 {
        let (_, [one, other]) = tables(seed);
        let mut log = writer(&one);
        log.append(&rows(0, 0)).unwrap();
        log.commit().unwrap();
        other.core().store.catch_up().unwrap();
        look(&other);
        let age = NewColumn {
            name: "age".into(),
            data_type: DataType::Int64,
            nullable: false,
            default: Value::Int(7),
            unit: None,
            accuracy: None,
        };
        one.add_column(&age).unwrap();
        let batch = rows(0, 1);
        let ages = Int64Array::from(vec![9; batch.num_rows()]);
        let mut columns: Vec<_> =
            batch.schema().fields().iter().map(|field| field.name().clone()).zip(batch.columns().to_vec()).collect();
        columns.push(("age".into(), Arc::new(ages)));
        log.append(&RecordBatch::try_from_iter(columns).unwrap()).unwrap();
        log.commit().unwrap();
        for _ in 0..40 {
            let snapshot = other.snapshot().unwrap();
            let query = Query { filter: Some("id >= 0".into()), ..Query::default() };
            let found: u64 = snapshot.query(&query).unwrap().map(|batch| batch.unwrap().num_rows() as u64).sum();
            assert_eq!(found, snapshot.rows().unwrap(), "SEED={seed}");
        }
        let domain =
            |column: &str| Dimension { column: column.into(), domain: Domain::Linear(Value::Int(0), Value::Int(2)) };
        let grid = GridOptions { dimensions: Some(vec![domain("x"), domain("y")]), ..Default::default() };
        one.regrid(&grid, &mut |_, _| {}).unwrap();
        for _ in 0..40 {
            let snapshot = other.snapshot().unwrap();
            assert_eq!(all_rows(&snapshot).unwrap(), snapshot.rows().unwrap(), "SEED={seed}");
        }
    }
}

/// The machine has cached that the segments' folder does not exist.
#[test]
fn the_first_rows_of_another_machine_are_never_missing() {
    for seed in 0..30 {
        let (server, [one, other]) = machines(seed, [LONG; 2]);
        let one = Table::create(one, schema(), &options()).unwrap();
        let mut log = writer(&one);
        other.catch_up().unwrap();
        let other = Table::open(other).unwrap();
        log.append(&rows(0, 0)).unwrap();
        log.commit().unwrap();
        let mut seen = 0;
        for _ in 0..100 {
            server.process().pause(Duration::from_millis(5));
            let snapshot = other.snapshot().unwrap();
            seen = all_rows(&snapshot).unwrap_or_else(|error| panic!("SEED={seed}: {error}"));
            assert_eq!(seen, snapshot.rows().unwrap(), "SEED={seed}");
        }
        assert!(seen > 0, "SEED={seed}");
    }
}

/// A machine that expects too short delays cleans, so that others get `SnapshotExpired`, never `Damaged`.
#[test]
fn what_was_cleaned_away_too_early_has_expired() {
    for seed in 0..30 {
        let (_, stores) = machines(seed, [Duration::from_millis(1), LONG]);
        let [one, other] = stores.map(|store| Table::create(store, schema(), &options()).unwrap());
        let mut log = writer(&one);
        for commit in 0..6 {
            log.append(&rows(0, commit)).unwrap();
            log.commit().unwrap();
        }
        drop(log);
        other.core().store.catch_up().unwrap();
        let seen = Arc::new(Mutex::new(None));
        let (see, others) = (seen.clone(), other.clone());
        let meanwhile = move || *see.lock().unwrap() = Some(others.snapshot().unwrap());
        let stalled = Stalled { store: one.core().store.clone(), meanwhile: Mutex::new(Some(Box::new(meanwhile))) };
        let one = Table::open(Arc::new(stalled)).unwrap();
        let thorough = OptimizeOptions { debt_share: 0.0, ..Default::default() };
        assert!(one.optimize(&thorough, &mut |_, _| {}).unwrap().rewrites > 0);
        assert!(one.clean(Duration::ZERO).unwrap().segments_deleted > 0);
        let answer = all_rows(&seen.lock().unwrap().take().unwrap());
        assert!(matches!(answer, Err(Error::SnapshotExpired { .. })), "SEED={seed}: {answer:?}");
        let now = other.snapshot().unwrap();
        assert_eq!(all_rows(&now).unwrap(), now.rows().unwrap(), "SEED={seed}");
    }
}

#[test]
fn a_fresh_token_leads_to_its_snapshot_on_another_machine() {
    for seed in 0..30 {
        let (_, [one, other]) = tables(seed);
        let mut log = writer(&one);
        look(&other);
        let mut expected = 0;
        for commit in 0..4 {
            log.append(&rows(0, commit)).unwrap();
            log.commit().unwrap();
            look(&other);
            if commit == 1 {
                one.set_unit("x", Some("m")).unwrap();
            }
            if commit == 2 {
                fence(one.core()).unwrap();
            }
            let snapshot = one.snapshot().unwrap();
            expected = snapshot.rows().unwrap().max(expected);
            let there = other.at(&snapshot.token()).unwrap_or_else(|error| panic!("SEED={seed}: {error}"));
            assert_eq!(there.rows().unwrap(), expected, "SEED={seed}");
        }
    }
}

#[test]
fn a_token_that_leads_nowhere_is_refused_after_a_while() {
    let (_, [one, other]) = tables(1);
    writer(&one);
    let mut token = one.snapshot().unwrap().token();
    token.rewrites = 99;
    assert!(matches!(other.at(&token), Err(Error::Replaced { .. })));
}

#[test]
fn a_token_that_leads_nowhere_makes_nobody_else_wait() {
    let (_, [one, other]) = tables(1);
    writer(&one);
    let mut token = one.snapshot().unwrap().token();
    token.rewrites = 99;
    let store = &other.core().store;
    store.catch_up().unwrap();
    look(&other);
    store.catch_up().unwrap();
    assert!(!store.look_again(1).unwrap());
    let asked = AtomicUsize::new(0);
    let cancel = Cancel::asking(move || asked.fetch_add(1, Ordering::Relaxed) > 20);
    assert!(matches!(other.cancelled_by(&cancel).at(&token), Err(Error::Cancelled)));
    assert!(!store.look_again(1).unwrap(), "what was made up is waited for by all");
}

/// The call waits for a damaged entry or an unseen token until cancellation.
#[test]
fn who_waits_for_another_machine_can_be_cancelled() {
    let server = SimDisk::new(1);
    let network = Network::new(&server, &Rule::ALL);
    let open = || -> Arc<dyn Store> {
        let store = LocalStore::on_disk(Mount::new(&network).process(), Path::new("/table")).unwrap();
        Arc::new(store.with_staleness(Duration::from_secs(1000)))
    };
    let [one, other] = [open(), open()].map(|store| Table::create(store, schema(), &options()).unwrap());
    let mut log = writer(&one);
    for commit in 0..3 {
        log.append(&rows(0, commit)).unwrap();
        log.commit().unwrap();
    }
    let mut token = one.snapshot().unwrap().token();
    let in_time = |what: &str, call: &dyn Fn(&Cancel) -> Result<(), Error>| {
        let asked = Arc::new(AtomicUsize::new(0));
        let cancel = Cancel::asking(move || asked.fetch_add(1, Ordering::Relaxed) > 100);
        let begin = server.clock();
        let ended = call(&cancel);
        assert!(matches!(ended, Err(Error::Cancelled)), "{what}: {ended:?}");
        // The switch is set after 100 checks, at most 0.2 s apart.
        assert!(server.clock() - begin < Duration::from_secs(60), "{what} goes on");
    };
    token.rewrites = 99;
    in_time("a token", &|cancel| other.cancelled_by(cancel).at(&token).map(drop));
    let entry = Path::new("/table/logs").join(format!("{}.entries/{:020}", name(0), 1));
    server.process().open(&entry, Open::ReadWrite).unwrap().write_at(&[0xff; 8], 40).unwrap();
    in_time("a view", &|cancel| Table::open(Location::from(open()).cancelled_by(cancel)).map(drop));
}

struct Stalled {
    store: Arc<dyn Store>,
    meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl std::fmt::Debug for Stalled {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Stalled({:?})", self.store)
    }
}

impl Store for Stalled {
    forward!(store:
        capabilities abilities location get list delete create_segment read segment_len segments
        delete_segment own_log logs read_log sizes erase
    );

    fn put_if_absent(&self, name: &str, value: &[u8]) -> Result<bool> {
        if name.starts_with("rewrites/")
            && let Some(meanwhile) = self.meanwhile.lock().unwrap().take()
        {
            meanwhile();
        }
        self.store.put_if_absent(name, value)
    }
}

#[test]
fn the_first_rewrite_of_all_is_not_made_twice() {
    let store: Arc<dyn Store> = Arc::new(kubist::store::MemoryStore::new("first"));
    let table = Table::create(store.clone(), schema(), &options()).unwrap();
    let mut log = writer(&table);
    log.append(&rows(0, 0)).unwrap();
    log.commit().unwrap();
    let others = Table::open(store.clone()).unwrap();
    let meanwhile = move || {
        (0..70).for_each(|_| fence(others.core()).unwrap());
        others.checkpoint().unwrap();
        others.clean(Duration::ZERO).unwrap();
        assert_eq!(others.core().store.get(&format!("rewrites/{:020}", 1)).unwrap(), None, "it was not cleaned away");
    };
    let stalled = Stalled { store: store.clone(), meanwhile: Mutex::new(Some(Box::new(meanwhile))) };
    let stalled = Table::open(Arc::new(stalled)).unwrap();
    let answer = fence(stalled.core());
    assert!(matches!(answer, Err(Error::SnapshotExpired { .. })), "{answer:?}");
    assert_eq!(store.get(&format!("rewrites/{:020}", 1)).unwrap(), None, "it was left there");
    assert_eq!(Table::open(store).unwrap().snapshot().unwrap().rows().unwrap(), look(&table));
}

#[test]
fn a_rewrite_that_takes_long_keeps_its_segment() {
    let (_, [one, other]) = tables(1);
    let mut log = writer(&one);
    log.append(&rows(0, 0)).unwrap();
    log.commit().unwrap();
    let view = one.core().view(&Cancel::default()).unwrap();
    let segment = || write_segment(one.core(), &view, |segment| Ok(segment.append(&[b"runs"]).unwrap())).unwrap().0;
    let clean = |table: &Table, now: u64| {
        table.core().store.catch_up().unwrap();
        clean_as_of(table.core(), Duration::ZERO, now, &Cancel::default()).unwrap();
    };
    let is_there = |segment: &str| {
        one.core().store.catch_up().unwrap();
        one.core().store.segment_len(segment).unwrap().is_some()
    };
    let reserved = segment();
    let now = made(&reserved);
    assert!(reserve(one.core(), &reserved, now + HOUR / 2).unwrap());
    for _ in 0..2 {
        clean(&other, now + HOUR + HOUR / 3);
        assert!(is_there(&reserved));
    }
    for hours in 2..4 {
        clean(&other, now + hours * HOUR);
    }
    assert!(!is_there(&reserved));
    // Recorded as garbage before, so the rewriter is too late.
    let noted = segment();
    let note = format!("garbage/{noted}");
    assert!(other.core().store.put_if_absent(&note, &(made(&noted) + HOUR).to_le_bytes()).unwrap());
    assert!(!reserve(one.core(), &noted, made(&noted) + HOUR).unwrap());
}

/// A rewriter stops in its segment, or before syncing it, until another machine has cleaned it.
#[test]
fn a_rewriter_whose_segment_was_cleaned_away_gives_up() {
    for stands_still_at in 1..3 {
        let (_, [one, other]) = tables(1);
        let mut log = writer(&one);
        log.append(&rows(0, 0)).unwrap();
        log.commit().unwrap();
        let view = one.core().view(&Cancel::default()).unwrap();
        let answer = write_segment(one.core(), &view, |segment| {
            for part in 1..3 {
                segment.append(&[&[part; 1 << 20]]).map_err(store_error)?;
                for hours in (1..3).filter(|_| part == stands_still_at) {
                    other.core().store.catch_up().unwrap();
                    let now = made(segment.name()) + hours * HOUR;
                    clean_as_of(other.core(), Duration::ZERO, now, &Cancel::default()).unwrap();
                }
            }
            Ok(())
        });
        assert!(matches!(answer, Err(Error::SnapshotExpired { .. })), "{stands_still_at}: {answer:?}");
    }
}

#[derive(Debug)]
struct Deleting {
    store: Arc<dyn Store>,
    deleted: AtomicUsize,
}

impl Store for Deleting {
    forward!(store:
        capabilities abilities location put_if_absent get list delete read segment_len segments
        delete_segment own_log logs read_log sizes erase
    );

    fn create_segment(&self, name: &str) -> Result<Box<dyn Segment>> {
        let segment = self.store.create_segment(name)?;
        if self.deleted.fetch_add(1, Ordering::Relaxed) > 0 {
            return Ok(segment);
        }
        self.store.delete_segment(name)?;
        let source = std::io::ErrorKind::StaleNetworkFileHandle.into();
        Err(kubist::store::Error::Io { operation: "create", file: name.into(), source })
    }
}

#[test]
fn a_segment_that_is_cleaned_away_at_once_is_made_again() {
    let store: Arc<dyn Store> = Arc::new(kubist::store::MemoryStore::new("deleting"));
    let table = Table::create(store.clone(), schema(), &options()).unwrap();
    let deleting = Table::open(Arc::new(Deleting { store, deleted: AtomicUsize::new(0) })).unwrap();
    let view = deleting.core().view(&Cancel::default()).unwrap();
    let (name, _) = write_segment(deleting.core(), &view, |segment| Ok(segment.append(&[b"runs"]).unwrap())).unwrap();
    assert_eq!(table.core().store.segments().unwrap(), [name]);
}

#[test]
fn a_writer_without_a_name_waits_for_nobody() {
    let (server, [one, other]) = tables(1);
    let unnamed = |table: &Table| table.writer(&WriterOptions::default()).unwrap();
    let begin = server.clock();
    let writers: Vec<Writer> = (0..5).flat_map(|_| [unnamed(&one), unnamed(&other)]).collect();
    assert!(server.clock() - begin < Duration::from_secs(10), "{:?}", server.clock() - begin);
    let mut names: Vec<String> = writers.iter().map(|writer| writer.name().to_string()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 10);
}

#[test]
fn a_table_of_one_machine_is_not_maintained_through_a_network() {
    let server = SimDisk::new(1);
    let store = LocalStore::on_disk(server.process(), Path::new("/table")).unwrap();
    let table = Table::create(Arc::new(store), schema(), &options()).unwrap();
    let mut log = writer(&table);
    for commit in 0..8 {
        log.append(&rows(0, commit)).unwrap();
        log.commit().unwrap();
    }
    drop(log);
    let expected = look(&table);
    let mount = Mount::new(&Network::new(&server, &Rule::ALL)).process();
    let there = Table::open(Arc::new(LocalStore::on_disk(mount, Path::new("/table")).unwrap())).unwrap();
    assert_eq!(look(&there), expected);
    let refused = |answer: kubist::Result<()>| {
        let error = answer.unwrap_err();
        assert!(error.to_string().contains("kubist alter --shared"), "{error}");
        assert_ne!(error.kind(), ErrorKind::Corrupt);
    };
    let options = OptimizeOptions { debt_share: 0.0, ..Default::default() };
    refused(there.optimize(&options, &mut |_, _| {}).map(drop));
    refused(there.retract(0).map(drop));
    refused(there.clean(Duration::ZERO).map(drop));
    refused(there.checkpoint().map(drop));
    assert_eq!(look(&table), expected);
}
