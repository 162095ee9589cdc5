//! The server reads the table that is at its location now, or returns an error.
//!
//! Random histories of two served locations are compared with a model. Every value is appended once, so a
//! result identifies its snapshot. `SEEDS` is the number of histories, `SEED` the first one.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arrow_array::{ArrayRef, Float64Array, RecordBatch};
use kubist::{Dimension, Domain, OptimizeOptions, Table, TableOptions, Value, WriterOptions};
use kubist_server::{Options, Server};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::json;

use crate::common::{Reply, limits, send};

const PLACES: usize = 2;

fn batch(values: impl IntoIterator<Item = f64>) -> RecordBatch {
    let column: ArrayRef = Arc::new(Float64Array::from_iter_values(values));
    RecordBatch::try_from_iter([("x", column)]).unwrap()
}

fn create(path: &Path) {
    let dimensions = vec![Dimension { column: "x".into(), domain: Domain::Linear(Value::Int(0), Value::Int(1)) }];
    let options = TableOptions { dimensions, capacity: Some(16), ..TableOptions::default() };
    Table::create(path.to_str().unwrap(), batch([]).schema(), &options).unwrap();
}

fn open(path: &Path) -> Table {
    Table::open(path.to_str().unwrap()).unwrap()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

struct World {
    folder: tempfile::TempDir,
    rng: SmallRng,
    /// The sorted values at each location; `None` without a table.
    places: [Option<Vec<f64>>; PLACES],
    backups: Vec<Vec<f64>>,
    versions: Vec<(usize, String, Vec<f64>)>,
    rows: u64,
    server: Server,
    answers: u64,
    errors: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let folder = tempfile::tempdir().unwrap();
        let path = |place: usize| folder.path().join(format!("place-{place}"));
        (0..PLACES).for_each(|place| create(&path(place)));
        let tables = (0..PLACES).map(|place| path(place).to_str().unwrap().to_string()).collect();
        let server = Server::start(&Options { tables, limits: limits(), ..Options::default() }).unwrap();
        World {
            rng: SmallRng::seed_from_u64(seed),
            folder,
            places: [const { Some(Vec::new()) }; PLACES],
            backups: Vec::new(),
            versions: Vec::new(),
            rows: 0,
            server,
            answers: 0,
            errors: 0,
        }
    }

    fn path(&self, place: usize) -> PathBuf {
        self.folder.path().join(format!("place-{place}"))
    }

    fn backup(&self, number: usize) -> PathBuf {
        self.folder.path().join(format!("backup-{number}"))
    }

    fn change(&mut self) {
        let place = self.rng.random_range(0..PLACES);
        let (path, other) = (self.path(place), 1 - place);
        let Some(values) = self.places[place].clone() else {
            match self.rng.random_range(0..3) {
                0 => {
                    create(&path);
                    self.places[place] = Some(Vec::new());
                }
                1 if self.places[other].is_some() => {
                    fs::rename(self.path(other), &path).unwrap();
                    self.places[place] = self.places[other].take();
                }
                _ if !self.backups.is_empty() => self.restore(place),
                _ => {}
            }
            return;
        };
        match self.rng.random_range(0..10) {
            0 => {
                Table::drop_at(path.to_str().unwrap(), true).unwrap();
                self.places[place] = None;
            }
            1 => {
                fs::remove_dir_all(&path).unwrap();
                self.places[place] = None;
            }
            2 if self.places[other].is_none() => {
                copy(&path, &self.path(other));
                self.places[other] = Some(values);
            }
            3 => {
                copy(&path, &self.backup(self.backups.len()));
                self.backups.push(values);
            }
            4 if !self.backups.is_empty() => {
                fs::remove_dir_all(&path).unwrap();
                self.restore(place);
            }
            5 => {
                let options = OptimizeOptions { debt_share: 0.0, ..OptimizeOptions::default() };
                open(&path).optimize(&options, &mut |_, _| {}).unwrap();
            }
            6 => drop(open(&path).clean(Duration::ZERO).unwrap()),
            _ => self.append(place),
        }
    }

    fn restore(&mut self, place: usize) {
        let number = self.rng.random_range(0..self.backups.len());
        copy(&self.backup(number), &self.path(place));
        self.places[place] = Some(self.backups[number].clone());
    }

    fn append(&mut self, place: usize) {
        // Names of segments contain the time in milliseconds.
        let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
        let begin = now();
        while now() == begin {
            std::hint::spin_loop();
        }
        let count = self.rng.random_range(1..3);
        let new: Vec<f64> = (self.rows..self.rows + count).map(|row| row as f64 / 4096.0).collect();
        self.rows += count;
        let table = open(&self.path(place));
        let mut writer = table.writer(&WriterOptions { name: Some("w".into()), ..WriterOptions::default() }).unwrap();
        writer.append(&batch(new.clone())).unwrap();
        writer.commit().unwrap();
        self.places[place].as_mut().unwrap().extend(new);
    }

    fn query(&self, place: usize, version: Option<&str>) -> Reply {
        let body = json!({"format": "csv", "version": version}).to_string();
        send(
            self.server.address(),
            format!(
                "POST /v1/tables/place-{place}/query HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                 content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
            .as_bytes(),
        )
    }

    fn ask(&mut self) {
        for place in 0..PLACES {
            let reply = self.query(place, None);
            match (&self.places[place], reply.status) {
                (Some(expected), 200) => {
                    assert_eq!(values(&reply), *expected, "place {place}");
                    self.answers += 1;
                    if self.rng.random_bool(0.3) {
                        let version = reply.header("kubist-version").unwrap().to_string();
                        self.versions.push((place, version, expected.clone()));
                    }
                }
                (None, 400..) => self.errors += 1,
                (expected, _) => panic!("place {place}: {reply:?} instead of {expected:?}"),
            }
        }
        for (place, version, expected) in &self.versions {
            let reply = self.query(*place, Some(version));
            match reply.status {
                200 => assert_eq!(values(&reply), *expected, "{version}"),
                400..500 => self.errors += 1,
                _ => panic!("{version}: {reply:?}"),
            }
        }
    }
}

fn values(reply: &Reply) -> Vec<f64> {
    assert!(reply.whole);
    let text = std::str::from_utf8(&reply.body).unwrap();
    let mut values: Vec<f64> = text.lines().skip(1).map(|line| line.parse().unwrap()).collect();
    values.sort_by(f64::total_cmp);
    values
}

#[test]
fn an_answer_is_of_the_table_that_is_there_or_an_error() {
    let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (seeds, first) = (number("SEEDS", 8), number("SEED", 0));
    let (mut answers, mut errors) = (0, 0);
    for seed in first..first + seeds {
        eprintln!("SEED={seed}");
        let mut world = World::new(seed);
        for _ in 0..20 {
            world.change();
            world.ask();
        }
        answers += world.answers;
        errors += world.errors;
    }
    eprintln!("{seeds} histories: {answers} answers, {errors} errors");
    assert!(answers > seeds && errors > seeds);
}
