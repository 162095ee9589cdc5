//! Reads that fail during `verify` and `salvage`. No result is wrong, no loss is false or missing, and no
//! row occurs twice: the call reports unknown parts or fails.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::common::forward::forward;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Float32Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;
use kubist::store::{
    Abilities, Error as StoreError, LocalStore, LogOwner, LogTail, Logs, MemoryStore, Result, SoundLog, Store, StoreExt,
};
use kubist::{
    Cancel, CommitOptions, Dimension, Domain, Error, ErrorKind, OptimizeOptions, Query, Replication, SalvageReport,
    Table, TableOptions, VerifyOptions, VerifyReport, WriterOptions,
};
use kubist_index::priority::name_hash;
use serde_json::Value;

const COMMITS: i64 = 4;
const ROWS: i64 = 400;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("x", DataType::Float32, false),
        Field::new("name", DataType::Utf8, false),
    ]))
}

fn build(at: &Path) {
    let options = TableOptions {
        dimensions: vec![Dimension { column: "x".into(), domain: Domain::Learned }],
        lookup: vec!["name".into()],
        capacity: Some(32),
        replication: Replication::Full { height: u32::MAX },
        ..Default::default()
    };
    let table = Table::create(at.to_str().unwrap(), schema(), &options).unwrap();
    for commit in 0..COMMITS {
        let name = Some(format!("rank-{}", commit % 2));
        let mut writer = table.writer(&WriterOptions { name, ..Default::default() }).unwrap();
        let ids = commit * ROWS..(commit + 1) * ROWS;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(ids.clone())),
            Arc::new(Float32Array::from_iter_values(ids.clone().map(|id| (id * 7919 % 10_007) as f32))),
            Arc::new(StringArray::from_iter_values(ids.map(|id| format!("droplet {}", id % 13)))),
        ];
        writer.append(&RecordBatch::try_new(schema(), columns).unwrap()).unwrap();
        writer.commit_as(&CommitOptions { step: Some(commit / 2), token: None }).unwrap();
        if commit == 1 || commit == 3 {
            let options = OptimizeOptions { debt_share: 0.0, ..Default::default() };
            assert!(table.optimize(&options, &mut |_, _| {}).unwrap().rows_copied > 0);
        }
    }
    table.limit_runs_in_memory(0);
    table.checkpoint().unwrap();
}

fn segments(at: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(at.join("segments")).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|end| end == "seg")).collect();
    files.sort_by_key(|path| (std::cmp::Reverse(std::fs::metadata(path).unwrap().len()), path.clone()));
    files
}

fn damage(at: &Path) {
    for file in segments(at).iter().take(2) {
        let mut bytes = std::fs::read(file).unwrap();
        for part in 1..8 {
            let byte = bytes.len() * part / 8;
            bytes[byte] ^= 0x10;
        }
        std::fs::write(file, bytes).unwrap();
    }
}

#[derive(Clone, Debug)]
enum Fault {
    None,
    Every(u64),
    /// Reads of this byte, after some successful ones.
    Byte {
        segment: String,
        byte: u64,
        after: u64,
    },
    /// All reads from the n-th on, as if the only node failed.
    Away(u64),
    /// From the n-th on, reads of a third of the segments, as if one of three nodes failed.
    ThirdAway(u64),
}

#[derive(Debug)]
struct Faulty {
    store: Arc<dyn Store>,
    fault: Fault,
    armed: AtomicBool,
    reads: AtomicU64,
    of_byte: AtomicU64,
}

impl Faulty {
    fn new(at: &Path, fault: Fault, armed: bool) -> Arc<Faulty> {
        let store = Arc::new(LocalStore::create(at).unwrap());
        let (reads, of_byte) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Faulty { store, fault, armed: AtomicBool::new(armed), reads, of_byte })
    }

    fn reads(&self) -> u64 {
        self.reads.load(Ordering::SeqCst)
    }

    fn pass(&self, name: &str, ranges: &[Range<u64>]) -> Result<()> {
        if !self.armed.load(Ordering::SeqCst) {
            return Ok(());
        }
        let read = self.reads.fetch_add(1, Ordering::SeqCst) + 1;
        let failed = Err(StoreError::Io {
            operation: "read",
            file: format!("{}/{name}", self.store.location()),
            source: io::Error::from_raw_os_error(5),
        });
        let unreachable =
            || Err(StoreError::Unreachable { location: self.store.location().into(), why: "no node answers".into() });
        match &self.fault {
            Fault::Every(n) if read.is_multiple_of(*n) => failed,
            Fault::Byte { segment, byte, after } if segment == name => {
                match ranges.iter().any(|range| range.contains(byte)) {
                    true if self.of_byte.fetch_add(1, Ordering::SeqCst) >= *after => failed,
                    _ => Ok(()),
                }
            }
            Fault::Away(n) if read >= *n => unreachable(),
            Fault::ThirdAway(n) if read >= *n && !ranges.is_empty() && name_hash(name).is_multiple_of(3) => {
                unreachable()
            }
            _ => Ok(()),
        }
    }
}

impl Store for Faulty {
    forward!(store:
        capabilities location put_if_absent delete create_segment delete_segment own_log sizes erase
    );

    fn get(&self, name: &str) -> Result<Option<Bytes>> {
        self.pass(name, &[])?;
        self.store.get(name)
    }
    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.pass(prefix, &[])?;
        self.store.list(prefix)
    }
    fn read(&self, segment: &str, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.pass(segment, ranges)?;
        self.store.read(segment, ranges)
    }
    fn segment_len(&self, segment: &str) -> Result<Option<u64>> {
        self.pass(segment, &[])?;
        self.store.segment_len(segment)
    }
    fn segments(&self) -> Result<Vec<String>> {
        self.pass("segments", &[])?;
        self.store.segments()
    }
    fn logs(&self) -> Result<Vec<String>> {
        self.pass("logs", &[])?;
        self.store.logs()
    }
    fn read_log(&self, writer: &str, from: u64) -> Result<LogTail> {
        self.pass(writer, &[])?;
        self.store.read_log(writer, from)
    }
    fn abilities(&self) -> Abilities<'_> {
        Abilities { logs: Some(self), ..Abilities::default() }
    }
}

impl Logs for Faulty {
    fn own_free_log(&self, writer: &str) -> Result<Box<dyn LogOwner>> {
        self.own_log(writer)
    }
    fn read_logs(&self, logs: &[(&str, u64)]) -> Result<Vec<LogTail>> {
        logs.iter().map(|(writer, from)| self.read_log(writer, *from)).collect()
    }
    fn read_log_piece(&self, writer: &str, from: u64, _bytes: u64) -> Result<LogTail> {
        self.read_log(writer, from)
    }
    fn read_sound_log(&self, writer: &str, from: u64) -> Result<SoundLog> {
        self.pass(writer, &[])?;
        self.store.read_sound_log(writer, from)
    }
}

fn ids(store: Arc<dyn Store>) -> Vec<i64> {
    let snapshot = Table::open(store).unwrap().snapshot().unwrap();
    let mut found = Vec::new();
    for batch in snapshot.query(Query::default()).unwrap() {
        found.extend_from_slice(batch.unwrap()["id"].as_primitive::<Int64Type>().values());
    }
    found.sort_unstable();
    assert!(found.windows(2).all(|pair| pair[0] < pair[1]), "a row is there twice");
    found
}

struct Truth {
    at: PathBuf,
    looked: [VerifyReport; 2],
    saved: SalvageReport,
    ids: Vec<i64>,
    reads_of_verify: [u64; 2],
    reads_of_salvage: u64,
}

fn json(report: &impl serde::Serialize) -> Value {
    serde_json::to_value(report).unwrap()
}

fn verify(at: &Path, fault: &Fault, deep: bool) -> (kubist::Result<VerifyReport>, Arc<Faulty>) {
    let store = Faulty::new(at, fault.clone(), false);
    let table = Table::open(store.clone()).unwrap();
    table.limit_runs_in_memory(0);
    store.armed.store(true, Ordering::SeqCst);
    let options = VerifyOptions { deep, ..Default::default() };
    (table.verify(&options, &mut |_, _| {}), store)
}

fn salvage(at: &Path, fault: &Fault) -> (kubist::Result<SalvageReport>, Arc<Faulty>, Arc<MemoryStore>) {
    let (store, to) = (Faulty::new(at, fault.clone(), true), Arc::new(MemoryStore::new("saved")));
    (Table::salvage(store.clone(), to.clone(), &Cancel::default(), &mut |_, _| {}), store, to)
}

impl Truth {
    fn of(at: PathBuf) -> Truth {
        let (quick, of_quick) = verify(&at, &Fault::None, false);
        let (deep, of_deep) = verify(&at, &Fault::None, true);
        let (saved, store, to) = salvage(&at, &Fault::None);
        let (looked, saved) = ([quick.unwrap(), deep.unwrap()], saved.unwrap());
        assert!(looked.iter().all(|report| report.unread.is_empty()));
        let ids = ids(to);
        assert_eq!(ids.len() as u64, saved.rows);
        let reads_of_verify = [of_quick.reads(), of_deep.reads()];
        Truth { at, looked, saved, ids, reads_of_verify, reads_of_salvage: store.reads() }
    }

    fn verified(&self, fault: &Fault, deep: bool) -> bool {
        let truth = &self.looked[deep as usize];
        let report = match verify(&self.at, fault, deep).0 {
            Ok(report) => report,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{fault:?}: {error:?}");
                return false;
            }
        };
        assert!(report.findings.iter().all(|found| truth.findings.contains(found)), "{fault:?}: {report:#?}");
        assert!(report.losses.iter().all(|lost| truth.losses.contains(lost)), "{fault:?}: {report:#?}");
        assert!(report.rows <= truth.rows && report.rows_lost <= truth.rows_lost, "{fault:?}: {report:#?}");
        assert!(report.rows_recoverable <= truth.rows_recoverable, "{fault:?}: {report:#?}");
        match report.unread.is_empty() {
            true => assert_eq!(json(&report), json(truth), "{fault:?}"),
            false => assert!(!report.is_sound()),
        }
        report.unread.is_empty()
    }

    fn salvaged(&self, fault: &Fault) -> bool {
        let (saved, _, to) = salvage(&self.at, fault);
        match saved {
            Ok(report) => {
                assert_eq!(json(&report), json(&self.saved), "{fault:?}");
                assert_eq!(ids(to), self.ids, "{fault:?}");
                true
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{fault:?}: {error:?}");
                assert!(error.to_string().contains(self.at.to_str().unwrap()), "{fault:?}: {error}");
                let none = Table::open(to);
                assert!(matches!(none, Err(Error::NotATable { .. })), "{fault:?}: {none:?}");
                false
            }
        }
    }
}

fn tables(folder: &Path) -> [Truth; 2] {
    let (sound, damaged) = (folder.join("sound"), folder.join("damaged"));
    build(&sound);
    build(&damaged);
    damage(&damaged);
    let truths = [sound, damaged].map(Truth::of);
    assert!(truths[0].saved.is_whole() && truths[0].looked.iter().all(VerifyReport::is_sound));
    assert_eq!(truths[0].ids.len() as i64, COMMITS * ROWS);
    let (looked, saved) = (&truths[1].looked[1], &truths[1].saved);
    assert!(looked.rows_lost > 0 && looked.rows_recoverable > 0 && saved.rows_recovered > 0, "{saved:#?}");
    truths
}

#[test]
fn a_read_that_fails_once_changes_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    for table in tables(folder.path()) {
        for n in [2, 3, 7, 61] {
            let fault = Fault::Every(n);
            assert!(table.verified(&fault, false) && table.verified(&fault, true) && table.salvaged(&fault), "{n}");
        }
    }
}

#[test]
fn of_what_can_never_be_read_nothing_is_said() {
    let folder = tempfile::tempdir().unwrap();
    for table in tables(folder.path()) {
        let (mut unread, mut unsaved) = (0, 0);
        for file in segments(&table.at).into_iter().take(3) {
            let segment = file.file_stem().unwrap().to_str().unwrap().to_string();
            let length = std::fs::metadata(&file).unwrap().len();
            for (part, after) in [(1, 0), (6, 0), (4, 1), (9, 2)] {
                // It was read before, so a later failure makes it unknown, not lost.
                let fault = Fault::Byte { segment: segment.clone(), byte: length * part / 10, after };
                unread += u64::from(!table.verified(&fault, true));
                unsaved += u64::from(!table.salvaged(&fault));
            }
        }
        assert!(unread > 0 && unsaved > 0, "{unread} {unsaved}");
        let all = Fault::Every(1);
        assert!(!table.verified(&all, false) && !table.verified(&all, true) && !table.salvaged(&all));
    }
}

#[test]
fn a_node_that_goes_away_is_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    for table in tables(folder.path()) {
        for part in [1, 5, 9] {
            for deep in [false, true] {
                let read = table.reads_of_verify[deep as usize] * part / 10;
                assert!(!table.verified(&Fault::Away(read.max(1)), deep));
                table.verified(&Fault::ThirdAway(read), deep);
            }
            let read = table.reads_of_salvage * part / 10;
            assert!(!table.salvaged(&Fault::Away(read.max(1))));
            table.salvaged(&Fault::ThirdAway(read));
        }
    }
}
