//! Many threads refresh a table while its logs are read slowly. A call for the newest state sees all
//! commits acknowledged before it, a call that accepts a known state does not wait, and calls do not
//! disturb each other.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread::JoinHandle;

use crate::common::forward::forward;
use crate::common::gated::{Gated, Hold, Then};
use crate::common::watchdog::within_a_minute;
use crate::common::{commit, commits, name, options, rows, schema};
use kubist::store::{
    Abilities, Capabilities, Latency, LogOwner, LogTail, Logs, MemoryStore, SoundLog, Store, StoreExt,
};
use kubist::{Cancel, CommitOptions, Declared, Error, OptimizeOptions, Result, Snapshot, Table, Writer, WriterOptions};

const READERS: usize = 8;

fn table() -> (Arc<Gated>, Table, Writer) {
    let store = MemoryStore::new("refreshed");
    let other = Table::create(Arc::new(store.clone()), schema(), &options()).unwrap();
    let mut writer = other.writer(&WriterOptions { name: Some(name(0)), ..Default::default() }).unwrap();
    commit(&mut writer, 0, 0).unwrap();
    let gated = Arc::new(Gated::new(store));
    let table = Table::open(gated.clone()).unwrap();
    (gated, table, writer)
}

#[derive(Debug)]
struct Far {
    store: MemoryStore,
    asked: Mutex<Vec<&'static str>>,
}

impl Far {
    fn note(&self, what: &'static str) {
        self.asked.lock().unwrap().push(what);
    }

    fn asked(&self) -> Vec<&'static str> {
        let mut asked = std::mem::take(&mut *self.asked.lock().unwrap());
        asked.sort_unstable();
        asked
    }
}

impl Store for Far {
    forward!(store:
        location put_if_absent delete create_segment read segment_len segments delete_segment own_log read_log
        sizes erase
    );

    fn capabilities(&self) -> Capabilities {
        Capabilities { latency: Latency::Network, ..self.store.capabilities() }
    }
    fn get(&self, name: &str) -> kubist::store::Result<Option<bytes::Bytes>> {
        self.note("get");
        self.store.get(name)
    }
    fn list(&self, prefix: &str) -> kubist::store::Result<Vec<String>> {
        self.note("list");
        self.store.list(prefix)
    }
    fn logs(&self) -> kubist::store::Result<Vec<String>> {
        self.note("logs");
        self.store.logs()
    }
    fn abilities(&self) -> Abilities<'_> {
        Abilities { logs: Some(self), ..self.store.abilities() }
    }
}

impl Logs for Far {
    fn own_free_log(&self, writer: &str) -> kubist::store::Result<Box<dyn LogOwner>> {
        self.store.own_free_log(writer)
    }
    fn read_log_piece(&self, writer: &str, from: u64, bytes: u64) -> kubist::store::Result<LogTail> {
        self.store.read_log_piece(writer, from, bytes)
    }
    fn read_sound_log(&self, writer: &str, from: u64) -> kubist::store::Result<SoundLog> {
        self.store.read_sound_log(writer, from)
    }
    fn read_logs(&self, logs: &[(&str, u64)]) -> kubist::store::Result<Vec<LogTail>> {
        self.note("read_logs");
        self.store.read_logs(logs)
    }
}

#[test]
fn a_far_table_that_has_not_changed_is_asked_once_for_each_thing() {
    let store = MemoryStore::new("far");
    let near = Table::create(Arc::new(store.clone()), schema(), &options()).unwrap();
    let mut writer = near.writer(&WriterOptions { name: Some(name(0)), ..Default::default() }).unwrap();
    commit(&mut writer, 0, 0).unwrap();
    let far = Arc::new(Far { store, asked: Mutex::default() });
    let table = Table::open(far.clone()).unwrap();
    assert_eq!(seen(&table.snapshot().unwrap()), 1);
    far.asked();
    let token = table.snapshot().unwrap().token();
    assert_eq!(far.asked(), ["get", "list", "list", "logs", "read_logs", "read_logs"]);
    commit(&mut writer, 0, 1).unwrap();
    assert_eq!(seen(&table.snapshot().unwrap()), 2);
    let mut other = near.writer(&WriterOptions { name: Some(name(1)), ..Default::default() }).unwrap();
    commit(&mut other, 1, 0).unwrap();
    assert_eq!(commits(&table.snapshot().unwrap()).unwrap().get(&1).copied(), Some(1));
    drop((writer, other));
    near.optimize(&OptimizeOptions::default(), &mut |_, _| {}).unwrap();
    let optimized = table.snapshot().unwrap();
    assert_eq!((optimized.token(), seen(&optimized)), (near.snapshot().unwrap().token(), 2));
    assert_ne!(optimized.token(), token);
    near.declare_writers(&Declared::Names([name(0)].into())).unwrap();
    assert_eq!(table.snapshot().unwrap().token(), near.snapshot().unwrap().token());
}

#[test]
fn a_commit_looks_at_the_table_once() {
    let far = Arc::new(Far { store: MemoryStore::new("far"), asked: Mutex::default() });
    let table = Table::create(far.clone(), schema(), &options()).unwrap();
    let mut writer = table.writer(&WriterOptions { name: Some(name(0)), ..Default::default() }).unwrap();
    commit(&mut writer, 0, 0).unwrap();
    // A refresh lists rewrites, alterations and writers, and reads logs; without stamps, also the last
    // known entries.
    let looks = || {
        let asked = far.asked();
        ["list", "logs"].map(|what| asked.iter().filter(|asked| **asked == what).count())
    };
    for step in [1, 2] {
        looks();
        writer.append(&rows(0, step)).unwrap();
        let options = CommitOptions { step: Some(step), token: Some(format!("step {step}")) };
        assert!(!writer.commit_as(&options).unwrap().repeated);
        assert_eq!(looks(), [2, 1], "rows, a step and a token");
        assert!(writer.commit_as(&options).unwrap().repeated);
        assert_eq!(looks(), [2, 1], "a token that is known");
    }
    writer.commit().unwrap();
    assert_eq!(looks(), [0, 0], "nothing");
}

fn seen(snapshot: &Snapshot) -> i64 {
    commits(snapshot).unwrap().get(&0).copied().unwrap_or(0)
}

fn held(gated: &Gated, table: &Table, hold: Hold, cancel: &Cancel) -> JoinHandle<Result<Snapshot>> {
    let (table, cancel) = (table.clone(), cancel.clone());
    gated.close(hold);
    let call = std::thread::spawn(move || table.cancelled_by(&cancel).snapshot());
    gated.wait_until_held();
    call
}

/// Only waiting calls check their switch.
fn waiting(table: &Table) -> Vec<JoinHandle<Result<Snapshot>>> {
    let looked: Vec<Arc<Barrier>> = (0..READERS).map(|_| Arc::new(Barrier::new(2))).collect();
    let calls = looked.iter().map(|looked| {
        let (table, looked, looks) = (table.clone(), looked.clone(), AtomicU64::new(0));
        let cancel = Cancel::asking(move || {
            if looks.fetch_add(1, Ordering::SeqCst) == 0 {
                looked.wait();
            }
            false
        });
        std::thread::spawn(move || table.cancelled_by(&cancel).snapshot())
    });
    let calls = calls.collect();
    looked.iter().for_each(|looked| drop(looked.wait()));
    calls
}

#[test]
fn a_pinned_snapshot_and_the_last_view_do_not_wait() {
    within_a_minute("reading what is known", || {
        for hold in [Hold::Looking, Hold::Read] {
            let (gated, table, mut writer) = table();
            let pinned = table.snapshot().unwrap();
            commit(&mut writer, 0, 1).unwrap();
            let call = held(&gated, &table, hold, &Cancel::default());
            assert_eq!(seen(&pinned), 1);
            assert_eq!(seen(&table.at(&pinned.token()).unwrap()), 1);
            assert_eq!(table.core().last_view().unwrap().positions, pinned.token().positions);
            assert_eq!(table.core().since_checkpoint().0, 1);
            let cancel = Cancel::default();
            cancel.set();
            assert!(matches!(table.cancelled_by(&cancel).snapshot(), Err(Error::Cancelled)));
            gated.open(Then::Succeed);
            assert_eq!(seen(&call.join().unwrap().unwrap()), 2);
            assert_eq!(
                table.core().last_view().unwrap().history.live_rows(),
                table.snapshot().unwrap().rows().unwrap()
            );
        }
    });
}

#[test]
fn a_call_never_answers_with_what_was_read_before_it_began() {
    within_a_minute("calls at once", || {
        let (gated, table, mut writer) = table();
        let first = held(&gated, &table, Hold::Read, &Cancel::default());
        commit(&mut writer, 0, 1).unwrap();
        let reads = gated.reads.load(Ordering::SeqCst);
        let others = waiting(&table);
        gated.open(Then::Succeed);
        assert_eq!(seen(&first.join().unwrap().unwrap()), 1);
        for other in others {
            assert_eq!(seen(&other.join().unwrap().unwrap()), 2);
        }
        assert_eq!(gated.reads.load(Ordering::SeqCst), reads + 1, "they share one reading of the logs");
    });
}

#[test]
fn every_call_sees_what_was_acknowledged_before_it() {
    const ROUNDS: i64 = 60;
    within_a_minute("rounds of calls", || {
        let (_, table, mut writer) = table();
        let (begin, end) = (Arc::new(Barrier::new(READERS + 1)), Arc::new(Barrier::new(READERS + 1)));
        let readers: Vec<_> = (0..READERS)
            .map(|_| {
                let (table, begin, end) = (table.clone(), begin.clone(), end.clone());
                std::thread::spawn(move || {
                    let mut late = Vec::new();
                    for round in 1..=ROUNDS {
                        begin.wait();
                        let found = table.snapshot().map(|snapshot| seen(&snapshot));
                        if !matches!(found, Ok(found) if found == round || found == round + 1) {
                            late.push((round, found));
                        }
                        end.wait();
                    }
                    late
                })
            })
            .collect();
        for round in 1..=ROUNDS {
            begin.wait();
            commit(&mut writer, 0, round).unwrap();
            end.wait();
        }
        for reader in readers {
            let late = reader.join().unwrap();
            assert!(late.is_empty(), "{late:?}");
        }
    });
}

#[test]
fn whatever_becomes_of_one_call_the_others_go_on() {
    within_a_minute("calls behind one that ends badly", || {
        for hold in [Hold::Looking, Hold::Read] {
            for (then, cancelled) in [(Then::Fail, false), (Then::Panic, false), (Then::Succeed, true)] {
                let (gated, table, mut writer) = table();
                commit(&mut writer, 0, 1).unwrap();
                let cancel = Cancel::default();
                let first = held(&gated, &table, hold, &cancel);
                let others = waiting(&table);
                if cancelled {
                    cancel.set();
                }
                gated.open(then);
                match (first.join(), then) {
                    (Err(_), Then::Panic) => {}
                    (Ok(Err(Error::Cancelled)), Then::Succeed) => {}
                    (Ok(Err(_)), Then::Fail) => {}
                    (found, then) => panic!("{hold:?}, {then:?}: {found:?}"),
                }
                for other in others {
                    assert_eq!(seen(&other.join().unwrap().unwrap()), 2, "{hold:?}, {then:?}");
                }
                commit(&mut writer, 0, 2).unwrap();
                assert_eq!(seen(&table.snapshot().unwrap()), 3, "{hold:?}, {then:?}");
            }
        }
    });
}

#[test]
fn new_rewrites_are_read_once_and_old_ones_not_listed() {
    let (gated, table, mut writer) = table();
    let other = Table::open(Arc::new(gated.store.clone())).unwrap();
    let rewrites = || gated.store.list("rewrites/").unwrap().len() as u64;
    let (mut known, mut committed) = (0, 1);
    for _ in 0..3 {
        for number in committed..committed + 40 {
            commit(&mut writer, 0, number).unwrap();
        }
        committed += 40;
        other.optimize(&OptimizeOptions::default(), &mut |_, _| {}).unwrap();
        assert!(rewrites() > known);
        for (new, is_first) in [(rewrites() - known, known == 0), (0, false)] {
            let counts = || [&gated.rewrites, &gated.listed].map(|count| count.load(Ordering::SeqCst));
            let [read, listed] = counts();
            assert_eq!(seen(&table.snapshot().unwrap()), committed);
            let [read_now, listed_now] = counts();
            let compared = u64::from(!is_first);
            assert_eq!((read_now - read, (listed_now - listed).saturating_sub(new)), (new + compared, 0));
        }
        known = rewrites();
    }
}

#[test]
fn rewrites_that_were_cleaned_away_after_a_call_that_failed_are_noticed() {
    within_a_minute("a gap in the rewrites", || {
        let (gated, table, mut writer) = table();
        let other = Table::open(Arc::new(gated.store.clone())).unwrap();
        assert_eq!(seen(&table.snapshot().unwrap()), 1);
        for round in 0..3 {
            for number in 0..40 {
                commit(&mut writer, 0, 1 + 40 * round + number).unwrap();
            }
            other.optimize(&OptimizeOptions::default(), &mut |_, _| {}).unwrap();
        }
        let _ = other.checkpoint().unwrap();
        // The call has listed the rewrites and joins no other call.
        let call = held(&gated, &table, Hold::Read, &Cancel::default());
        gated.open(Then::Fail);
        assert!(call.join().unwrap().is_err());
        let rewrites = gated.store.list("rewrites/").unwrap();
        assert!(rewrites.len() > 1);
        rewrites[..rewrites.len() - 1].iter().for_each(|name| gated.store.delete(name).unwrap());
        let found = table.snapshot().unwrap();
        assert_eq!((found.token(), seen(&found)), (other.snapshot().unwrap().token(), 121));
    });
}
