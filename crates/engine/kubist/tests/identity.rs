//! A handle, snapshot or token returns the state of its own table or an error, even after its location changed.
//!
//! In the random histories each value is appended once, so a result identifies its state; `SEEDS` sets their number.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{ArrayRef, Float64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kubist::store::{MemoryStore, Store, open_local};
use kubist::{
    Dimension, Domain, Error, NewColumn, OptimizeOptions, Query, Result, Snapshot, SnapshotToken, Table, TableOptions,
    Value, VerifyOptions, WriterOptions,
};
use kubist_cache::{Cached, Folder};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::common::forward::forward;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("x", DataType::Float64, true)]))
}

fn options() -> TableOptions {
    let dimensions = vec![Dimension { column: "x".into(), domain: Domain::Linear(Value::Int(0), Value::Int(1)) }];
    TableOptions { dimensions, capacity: Some(16), ..TableOptions::default() }
}

fn create(at: &Path) -> Table {
    Table::create(at.to_str().unwrap(), schema(), &options()).unwrap()
}

fn open(at: &Path) -> Table {
    Table::open(at.to_str().unwrap()).unwrap()
}

fn batch(values: impl IntoIterator<Item = f64>) -> RecordBatch {
    let column: ArrayRef = Arc::new(Float64Array::from_iter_values(values));
    RecordBatch::try_new(schema(), vec![column]).unwrap()
}

/// Waits one millisecond, because names of segments contain the time.
fn append(table: &Table, values: impl IntoIterator<Item = f64>) -> Result<()> {
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
    let begin = now();
    while now() == begin {
        std::hint::spin_loop();
    }
    let mut writer = table.writer(&WriterOptions { name: Some("w".into()), ..WriterOptions::default() })?;
    writer.append(&batch(values))?;
    writer.commit().map(drop)
}

fn values(snapshot: &Snapshot) -> Result<Vec<f64>> {
    let mut found = Vec::new();
    for batch in snapshot.query(Query::default())? {
        found.extend_from_slice(batch?["x"].as_primitive::<Float64Type>().values());
    }
    assert_eq!(snapshot.count(Query::default())?, found.len() as u64);
    found.sort_by(f64::total_cmp);
    Ok(found)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (entry, to) = (entry.unwrap(), |name| to.join(name));
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to(entry.file_name())),
            false => drop(fs::copy(entry.path(), to(entry.file_name())).unwrap()),
        }
    }
}

#[test]
fn a_table_that_is_made_anew_is_another_one() {
    let folder = tempfile::tempdir().unwrap();
    let (at, other) = (folder.path().join("t"), folder.path().join("other"));
    append(&create(&other), [0.7]).unwrap();
    let ways: [&dyn Fn(); 3] = [
        &|| assert!(Table::drop_at(at.to_str().unwrap(), false).unwrap().files > 0),
        &|| fs::remove_dir_all(&at).unwrap(),
        &|| fs::rename(&at, folder.path().join("away")).unwrap(),
    ];
    for (number, remove) in ways.iter().enumerate() {
        let table = create(&at);
        append(&table, [0.5]).unwrap();
        let (handle, snapshot) = (open(&at), open(&at).snapshot().unwrap());
        let (token, mut writer) = (snapshot.token(), handle.writer(&WriterOptions::default()).ok());
        assert_eq!(values(&handle.snapshot().unwrap()).unwrap(), [0.5]);
        writer = writer.filter(|_| number > 0);
        remove();
        match number {
            0 | 1 => append(&create(&at), [0.25]).unwrap(),
            _ => fs::rename(&other, &at).unwrap(),
        }
        let is_told = |error: Error| assert!(matches!(error, Error::Replaced { .. }), "{number}: {error:?}");
        is_told(handle.snapshot().unwrap_err());
        is_told(append(&handle, [0.1]).unwrap_err());
        if let Some(writer) = &mut writer {
            writer.append(&batch([0.1])).unwrap();
            is_told(writer.commit().unwrap_err());
        }
        is_told(handle.verify(&VerifyOptions::default(), &mut |_, _| {}).unwrap_err());
        is_told(open(&at).at(&token).unwrap_err());
        assert_eq!(open(&at).snapshot().unwrap().rows().unwrap(), 1);
        fs::remove_dir_all(&at).unwrap();
    }
}

#[test]
fn a_backup_that_grows_to_the_same_length_is_another_history() {
    let folder = tempfile::tempdir().unwrap();
    let (at, backup) = (folder.path().join("t"), folder.path().join("backup"));
    append(&create(&at), [0.5; 100]).unwrap();
    copy(&at, &backup);
    append(&open(&at), [0.25; 10]).unwrap();
    let (handle, snapshot) = (open(&at), open(&at).snapshot().unwrap());
    assert_eq!(handle.snapshot().unwrap().rows().unwrap(), 110);
    let restore = || {
        fs::remove_dir_all(&at).unwrap();
        copy(&backup, &at);
    };
    restore();
    assert!(matches!(handle.snapshot(), Err(Error::Replaced { .. })));
    append(&open(&at), [0.75; 10]).unwrap();
    assert!(matches!(handle.snapshot(), Err(Error::Replaced { .. })));
    assert!(matches!(open(&at).at(&snapshot.token()), Err(Error::Replaced { .. })));
    let now = open(&at).snapshot().unwrap();
    assert_eq!(values(&now).unwrap(), [[0.5; 100].as_slice(), &[0.75; 10]].concat());
    // The log is equal; only the rewrites differ.
    fs::remove_dir_all(&backup).unwrap();
    copy(&at, &backup);
    let optimize =
        |table: &Table| table.optimize(&OptimizeOptions { debt_share: 0.0, ..Default::default() }, &mut |_, _| {});
    assert!(optimize(&open(&at)).unwrap().rewrites > 0);
    let handle = open(&at);
    handle.snapshot().unwrap();
    restore();
    assert!(optimize(&open(&at)).unwrap().rewrites > 0);
    match handle.snapshot() {
        Ok(snapshot) => assert_eq!(values(&snapshot).unwrap(), values(&now).unwrap()),
        Err(error) => assert!(matches!(error, Error::Replaced { .. }), "{error:?}"),
    }
}

#[test]
fn a_token_is_of_one_of_two_copies() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (folder.path().join("one"), folder.path().join("other"));
    append(&create(&one), [0.5]).unwrap();
    let common = open(&one).snapshot().unwrap().token();
    copy(&one, &other);
    append(&open(&one), [0.25]).unwrap();
    append(&open(&other), [0.75]).unwrap();
    let token = open(&one).snapshot().unwrap().token();
    assert_eq!(token.positions, open(&other).snapshot().unwrap().token().positions, "equal lengths");
    assert!(matches!(open(&other).at(&token), Err(Error::Replaced { .. })));
    assert_eq!(values(&open(&one).at(&token).unwrap()).unwrap(), [0.25, 0.5]);
    assert_eq!(values(&open(&other).at(&common).unwrap()).unwrap(), [0.5]);
}

#[test]
fn an_alteration_that_is_missing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("t");
    let column = |name: &str| NewColumn {
        name: name.into(),
        data_type: DataType::Int64,
        nullable: true,
        default: Value::Null,
        unit: None,
        accuracy: None,
    };
    for deleted in [1, 2] {
        let table = create(&at);
        append(&table, [0.5]).unwrap();
        let late = open(&at);
        ["a", "b"].iter().for_each(|name| table.add_column(&column(name)).unwrap());
        append(&table, [0.25]).unwrap();
        let missing = format!("alterations/{deleted:020}");
        fs::remove_file(at.join(&missing)).unwrap();
        for answer in
            [Table::open(at.to_str().unwrap()).map(drop), late.snapshot().map(drop), table.snapshot().map(drop)]
        {
            match answer {
                Err(Error::Damaged { file, .. }) => assert!(file.ends_with(&missing), "{file}"),
                Ok(()) => assert_eq!(deleted, 1),
                other => panic!("{deleted}: {other:?}"),
            }
        }
        assert!(Table::open(at.to_str().unwrap()).is_err() && late.snapshot().is_err());
        fs::remove_dir_all(&at).unwrap();
    }
}

#[derive(Debug)]
struct Plain(Box<dyn Store>);

impl Store for Plain {
    forward!(0:
        capabilities location put_if_absent get list delete create_segment read segment_len segments delete_segment
        own_log logs read_log sizes erase
    );
}

#[derive(Clone)]
struct State {
    values: Vec<f64>,
    /// Changes when another directory comes to the location.
    arrival: u64,
}

struct Handle {
    table: Table,
    place: usize,
    arrival: u64,
    snapshots: Vec<(Snapshot, Vec<f64>)>,
}

struct World {
    folder: tempfile::TempDir,
    memory: Arc<MemoryStore>,
    rng: SmallRng,
    places: Vec<Option<State>>,
    backups: Vec<(PathBuf, Vec<f64>)>,
    handles: Vec<Handle>,
    tokens: Vec<(SnapshotToken, Vec<f64>)>,
    arrivals: u64,
    next: u64,
    outcomes: [u64; 2],
}

const DIRECTORIES: usize = 3;
const PLACES: usize = DIRECTORIES + 1;

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

impl World {
    fn new(seed: u64) -> World {
        let folder = tempfile::tempdir().unwrap();
        World {
            rng: SmallRng::seed_from_u64(seed),
            folder,
            memory: Arc::new(MemoryStore::new("identity")),
            places: vec![None; PLACES],
            backups: Vec::new(),
            handles: Vec::new(),
            tokens: Vec::new(),
            arrivals: 0,
            next: 0,
            outcomes: [0; 2],
        }
    }

    fn path(&self, place: usize) -> PathBuf {
        self.folder.path().join(format!("place-{place}"))
    }

    fn open(&mut self, place: usize) -> Table {
        if place == DIRECTORIES {
            return Table::open(self.memory.clone()).unwrap();
        }
        let path = self.path(place);
        let local = || Box::new(open_local(&path).unwrap());
        match self.rng.random_range(0..3) {
            0 => open(&path),
            1 => {
                let cache = Folder::open(self.folder.path().join("cache"), 64 << 20).unwrap();
                Table::open(Arc::new(Cached::new(Arc::new(*local()), 1, cache))).unwrap()
            }
            _ => Table::open(Arc::new(Plain(local()))).unwrap(),
        }
    }

    fn some_place(&mut self, is_taken: bool) -> Option<usize> {
        self.some_of(PLACES, is_taken)
    }

    fn some_directory(&mut self, is_taken: bool) -> Option<usize> {
        self.some_of(DIRECTORIES, is_taken)
    }

    fn some_of(&mut self, places: usize, is_taken: bool) -> Option<usize> {
        let places: Vec<usize> = (0..places).filter(|place| self.places[*place].is_some() == is_taken).collect();
        (!places.is_empty()).then(|| places[self.rng.random_range(0..places.len())])
    }

    fn arrive(&mut self, place: usize, values: Vec<f64>) {
        self.arrivals += 1;
        self.places[place] = Some(State { values, arrival: self.arrivals });
    }

    fn new_values(&mut self) -> Vec<f64> {
        let rows = self.rng.random_range(1..3);
        self.next += rows;
        (self.next - rows..self.next).map(|value| value as f64 / 4096.0).collect()
    }

    fn is_at_home(&self, handle: &Handle) -> bool {
        self.places[handle.place].as_ref().is_some_and(|state| state.arrival == handle.arrival)
    }

    fn change(&mut self) {
        match self.rng.random_range(0..14) {
            0 | 1 => {
                let Some(place) = self.some_place(false) else { return };
                match place {
                    DIRECTORIES => drop(Table::create(self.memory.clone(), schema(), &options()).unwrap()),
                    _ => drop(create(&self.path(place))),
                }
                self.arrive(place, Vec::new());
            }
            2 => {
                let Some(place) = self.some_place(true) else { return };
                match place {
                    DIRECTORIES => Table::drop_at(self.memory.clone(), false).unwrap(),
                    _ => Table::drop_at(self.path(place).to_str().unwrap(), false).unwrap(),
                };
                self.places[place] = None;
            }
            3 => {
                let (Some(from), Some(to)) = (self.some_directory(true), self.some_directory(false)) else { return };
                fs::rename(self.path(from), self.path(to)).unwrap();
                let State { values, .. } = self.places[from].take().unwrap();
                self.arrive(to, values);
            }
            4 => {
                let (Some(from), Some(to)) = (self.some_directory(true), self.some_directory(false)) else { return };
                copy(&self.path(from), &self.path(to));
                let values = self.places[from].as_ref().unwrap().values.clone();
                self.arrive(to, values);
            }
            5 => {
                let Some(place) = self.some_directory(true) else { return };
                let backup = self.folder.path().join(format!("backup-{}", self.backups.len()));
                copy(&self.path(place), &backup);
                self.backups.push((backup, self.places[place].as_ref().unwrap().values.clone()));
            }
            6 | 7 => {
                let Some(backup) = self.backups.len().checked_sub(1) else { return };
                let (backup, values) = self.backups[self.rng.random_range(0..=backup)].clone();
                let place = self.rng.random_range(0..DIRECTORIES);
                if self.places[place].is_some() {
                    fs::remove_dir_all(self.path(place)).unwrap();
                }
                copy(&backup, &self.path(place));
                self.arrive(place, values);
            }
            8 => {
                let Some(place) = self.some_place(true) else { return };
                let table = self.open(place);
                let options = OptimizeOptions { debt_share: 0.0, ..OptimizeOptions::default() };
                table.optimize(&options, &mut |_, _| {}).unwrap();
            }
            9 => {
                let Some(place) = self.some_place(true) else { return };
                let retention = if self.rng.random_bool(0.5) { Duration::ZERO } else { Duration::from_secs(3600) };
                self.open(place).clean(retention).unwrap();
            }
            10 if !self.handles.is_empty() => {
                let number = self.rng.random_range(0..self.handles.len());
                let (new, handle) = (self.new_values(), &self.handles[number]);
                let (is_at_home, place) = (self.is_at_home(handle), handle.place);
                match append(&handle.table, new.clone()) {
                    Ok(()) => self.places[place].as_mut().expect("a table where rows went").values.extend(new),
                    Err(error) => assert!(!is_at_home, "{error:?}"),
                }
            }
            _ => {
                let Some(place) = self.some_place(true) else { return };
                let new = self.new_values();
                append(&self.open(place), new.clone()).unwrap();
                self.places[place].as_mut().unwrap().values.extend(new);
            }
        }
    }

    fn ask(&mut self) {
        if let Some(place) = self.some_place(true) {
            if self.handles.len() < 6 && self.rng.random_bool(0.5) {
                let table = self.open(place);
                let arrival = self.places[place].as_ref().unwrap().arrival;
                self.handles.push(Handle { table, place, arrival, snapshots: Vec::new() });
            }
            let table = self.open(place);
            let expected = sorted(self.places[place].as_ref().unwrap().values.clone());
            let snapshot = table.snapshot().unwrap();
            assert_eq!(values(&snapshot).unwrap(), expected);
            if self.rng.random_bool(0.3) {
                self.tokens.push((snapshot.token(), expected));
            }
            for number in 0..self.tokens.len() {
                let (token, expected) = &self.tokens[number];
                match table.at(token).and_then(|snapshot| values(&snapshot)) {
                    Ok(found) => assert_eq!(found, *expected, "a token"),
                    Err(error) => self.note(&error),
                }
            }
        }
        for number in 0..self.handles.len() {
            let handle = &self.handles[number];
            let expected = self.places[handle.place].as_ref().map(|state| sorted(state.values.clone()));
            let answer = handle.table.snapshot().and_then(|snapshot| Ok((values(&snapshot)?, snapshot)));
            match (answer, expected) {
                (Ok((found, snapshot)), Some(expected)) => {
                    assert_eq!(found, expected, "a handle");
                    self.outcomes[0] += 1;
                    if self.rng.random_bool(0.2) {
                        self.handles[number].snapshots.push((snapshot, expected));
                    }
                }
                (Ok((found, _)), None) => panic!("a handle has rows of a table that is gone: {found:?}"),
                (Err(error), _) => {
                    assert!(!self.is_at_home(handle), "{error:?}");
                    self.note(&error);
                }
            }
            for (snapshot, expected) in &self.handles[number].snapshots {
                match values(snapshot) {
                    Ok(found) => assert_eq!(found, *expected, "a snapshot"),
                    Err(error) => assert!(!matches!(error, Error::Internal(_)), "{error:?}"),
                }
            }
        }
        if self.handles.len() > 4 && self.rng.random_bool(0.3) {
            let number = self.rng.random_range(0..self.handles.len());
            self.handles.remove(number);
        }
    }

    fn note(&mut self, error: &Error) {
        assert!(!matches!(error, Error::Internal(_) | Error::Damaged { .. }), "{error:?}");
        self.outcomes[1] += 1;
    }
}

#[test]
fn an_answer_is_of_the_right_state_or_an_error() {
    let seeds = std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(12u64);
    let first = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0u64);
    let mut outcomes = [0; 2];
    let mut ends = BTreeSet::new();
    for seed in first..first + seeds {
        let seen = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            for _ in 0..24 {
                world.change();
                world.ask();
            }
            (world.outcomes, world.next)
        });
        match seen {
            Ok((seen, end)) => {
                outcomes.iter_mut().zip(seen).for_each(|(all, seen)| *all += seen);
                ends.insert(end);
            }
            Err(panic) => {
                eprintln!("SEED={seed}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    eprintln!("{seeds} histories: {} answers, {} errors", outcomes[0], outcomes[1]);
    assert!(outcomes.iter().all(|count| *count > seeds), "{outcomes:?}");
    assert!(seeds < 4 || ends.len() > 1);
}
