//! Power failures and kills at every system call of commits, rewrites, checkpoints, cleaning and recovery
//! on a simulated disk. Every acknowledged commit is there once, no other is partly visible, and the table
//! is valid.
//!
//! `SEEDS=n` plays n seeds, `SEED=n` that one alone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::common::planted::{Fault, Planted};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Float32Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kubist::store::disk::Disk;
use kubist::store::{LocalStore, Store};
use kubist::{
    CommitOptions, Dimension, Domain, Error, ErrorKind, GridOptions, NewColumn, OptimizeOptions, Query, Result, Table,
    TableOptions, Value, VerifyOptions, WriterOptions,
};
use kubist_simulate::{Liar, Lie, SimDisk};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

const IDS: i64 = 1000;

fn schema() -> SchemaRef {
    let field = |name: &str, data_type| Field::new(name, data_type, false);
    Arc::new(Schema::new(vec![field("id", DataType::Int64), field("x", DataType::Float32)]))
}

fn rows(commit: i64, count: i64) -> RecordBatch {
    let ids = commit * IDS..commit * IDS + count;
    let x = Float32Array::from_iter_values(ids.clone().map(|id| (id * 7919 % 1009) as f32));
    let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from_iter_values(ids)), Arc::new(x)];
    RecordBatch::try_new(schema(), columns).unwrap()
}

/// The rows per commit that the table must or may contain.
#[derive(Default)]
struct Model {
    acknowledged: BTreeMap<i64, i64>,
    /// The unacknowledged commit: number, rows, writer.
    in_flight: Option<(i64, i64, String)>,
    next: i64,
    columns: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug)]
enum Plant {
    Nothing,
    Lie(Lie),
    Fault(Fault),
}

fn open(machine: &SimDisk, plant: Plant) -> Result<Table> {
    open_on(machine.process(), plant)
}

fn open_on(disk: Arc<dyn Disk>, plant: Plant) -> Result<Table> {
    let disk: Arc<dyn Disk> = match plant {
        Plant::Lie(lie) => Arc::new(Liar::new(disk, lie)),
        _ => disk,
    };
    let store = LocalStore::on_disk(disk, Path::new("/data/table"));
    let mut store: Arc<dyn Store> =
        Arc::new(store.map_err(|error| Error::storage(ErrorKind::Unavailable, error.to_string(), error))?);
    if let Plant::Fault(fault) = plant {
        store = Arc::new(Planted { store, fault: Some(fault), leases: true });
    }
    let options = TableOptions {
        dimensions: vec![Dimension { column: "x".into(), domain: Domain::Learned }],
        identity: vec!["id".into()],
        capacity: Some(16),
        exist_ok: true,
        ..Default::default()
    };
    Table::create(store, schema(), &options)
}

impl Model {
    /// Works until a failure; the next round finds failures that did not matter here.
    fn work(&mut self, machine: &SimDisk, plant: Plant, random: &mut StdRng) -> Result<()> {
        let crashes = machine.crashes();
        loop {
            if machine.crashes() > crashes {
                return Ok(());
            }
            let table = open(machine, plant)?;
            table.limit_runs_in_memory(*[0, 20, 1 << 18].choose(random).unwrap());
            match random.random_range(0..10) {
                0 => drop(table.checkpoint()?),
                1 => drop(table.clean(Duration::ZERO)?),
                2 | 3 => {
                    let debt_share = if random.random_bool(0.5) { 0.0 } else { 0.3 };
                    let rows_at_once = random.random_range(20..400);
                    let replication = ["none", "outlook", "full"].choose(random).map(|policy| policy.parse().unwrap());
                    let few_lookups = random.random_range(1..8);
                    let options =
                        OptimizeOptions { debt_share, rows_at_once, replication, few_lookups, ..Default::default() };
                    table.optimize(&options, &mut |_, _| {})?;
                }
                4 if random.random_bool(0.5) => {
                    // After a kill, writers may already use the new grid, and rows may have moved.
                    let process = machine.process();
                    process.kill_after(random.random_range(0..400));
                    let domain = Domain::Linear(Value::Int(0), Value::Int(random.random_range(1..1000)));
                    let x = Dimension { column: "x".into(), domain };
                    let options = GridOptions { dimensions: Some(vec![x]), ..Default::default() };
                    let _ = open_on(process, plant).and_then(|table| table.regrid(&options, &mut |_, _| {}));
                }
                4 => {
                    // After a kill, others may already see the column and commit rows with it.
                    let process = machine.process();
                    process.kill_after(random.random_range(0..60));
                    let name = format!("a{}", random.random_range(0..1_000_000));
                    let (data_type, default) = (DataType::Int16, Value::Int(self.next as i128));
                    let column = NewColumn {
                        name: name.clone(),
                        data_type,
                        nullable: false,
                        default,
                        unit: None,
                        accuracy: None,
                    };
                    if open_on(process, plant).and_then(|table| table.add_column(&column)).is_ok() {
                        self.columns.insert(name);
                    }
                }
                _ => {
                    let (commit, count, writer) = self.in_flight.clone().unwrap_or_else(|| {
                        self.next += 1;
                        (self.next, random.random_range(1..120), format!("w{}", random.random_range(0..3)))
                    });
                    self.in_flight = Some((commit, count, writer.clone()));
                    let mut writer = table.writer(&WriterOptions { name: Some(writer), ..Default::default() })?;
                    writer.append(&rows(commit, count))?;
                    let token = Some(format!("commit {commit}"));
                    writer.commit_as(&CommitOptions { token, step: None })?;
                    self.acknowledged.insert(commit, count);
                    self.in_flight = None;
                }
            }
        }
    }

    fn check(&self, table: &Table) -> std::result::Result<(), String> {
        let mut found: BTreeMap<i64, i64> = BTreeMap::new();
        let mut ids = Vec::new();
        let snapshot = table.snapshot().map_err(|error| error.to_string())?;
        for batch in snapshot.query(Query::default()).map_err(|error| error.to_string())? {
            let batch = batch.map_err(|error| error.to_string())?;
            ids.extend_from_slice(batch["id"].as_primitive::<Int64Type>().values());
        }
        ids.sort_unstable();
        if ids.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err("a record is there twice".into());
        }
        ids.iter().for_each(|id| *found.entry(id / IDS).or_default() += 1);
        let mut expected = self.acknowledged.clone();
        if let Some((commit, count, _)) = &self.in_flight
            && found.contains_key(commit)
        {
            expected.insert(*commit, *count);
        }
        if found != expected {
            return Err(format!("expected rows of commits {expected:?}, found {found:?}"));
        }
        let schema = snapshot.schema();
        if let Some(lost) = self.columns.iter().find(|name| schema.index_of(name).is_err()) {
            return Err(format!("the column {lost} was added and is gone"));
        }
        let report = table.verify(&VerifyOptions::deep(), &mut |_, _| {}).map_err(|error| error.to_string())?;
        match report.findings.is_empty() {
            true => Ok(()),
            false => Err(report.findings.join("; ")),
        }
    }
}

fn play(seed: u64, plant: Plant) -> std::result::Result<(), String> {
    let mut random = StdRng::seed_from_u64(seed);
    let machine = SimDisk::new(seed);
    let mut model = Model::default();
    for _ in 0..random.random_range(1..6) {
        machine.crash_after(random.random_range(0..600));
        let crashes = machine.crashes();
        if let Err(error) = model.work(&machine, plant, &mut random)
            && machine.crashes() == crashes
        {
            return Err(format!("an error without a crash: {error}"));
        }
        machine.crash();
        let table = open(&machine, plant).map_err(|error| format!("cannot be opened: {error}"))?;
        model.check(&table)?;
    }
    Ok(())
}

#[test]
fn acknowledged_commits_survive_every_crash() {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SEEDS").unwrap_or(400),
    };
    for seed in seeds {
        if let Err(what) = play(seed, Plant::Nothing) {
            panic!("SEED={seed}: {what}");
        }
    }
}

#[test]
fn planted_bugs_are_found_out() {
    for plant in [
        Plant::Lie(Lie::Bytes(".seg")),
        Plant::Lie(Lie::Bytes(".log")),
        // Objects: header, grid, rewrites, checkpoints.
        Plant::Lie(Lie::Bytes("/tmp/")),
        Plant::Lie(Lie::Bytes("")),
        Plant::Lie(Lie::Names),
        Plant::Fault(Fault::PublishedTwice),
    ] {
        let found = (0..1000).find_map(|seed| Some((seed, play(seed, plant).err()?)));
        println!("{plant:?}: {found:?}");
        assert!(found.is_some(), "a thousand seeds did not notice {plant:?}");
    }
}
