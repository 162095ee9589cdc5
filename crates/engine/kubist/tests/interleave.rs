//! Races, replayed from seeds. Processes on one simulated machine, or on two that share a directory, take
//! turns at every system call. They commit, retract, rewrite, regrid, write checkpoints, clean and check,
//! and some are killed.
//!
//! `SEEDS=n` plays n seeds, `SEED=n` that one alone. Only the clock does not follow from the seed: it names
//! segments and ends a wait.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use crate::common::planted::{Fault, Planted};
use crate::common::{Wrong, name, options, rows, schema, whole_commits};
use kubist::store::disk::Disk;
use kubist::store::{LocalStore, StoreExt};
use kubist::{
    CommitOptions, Dimension, Domain, Error, ErrorKind, GridOptions, OptimizeOptions, Snapshot, Table, Value,
    VerifyOptions, WriterOptions,
};
use kubist_simulate::{Mount, Network, Rule, SimDisk, SimProcess, Task};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const WRITERS: i64 = 3;
const COMMITS: i64 = 6;
/// This writer commits steps; steps after `KEPT` are retracted.
const SOLVER: i64 = 2;
const KEPT: i64 = 1;

type Outcome = std::result::Result<(), String>;

fn open(disk: Arc<dyn Disk>, fault: Option<Fault>) -> kubist::Result<Table> {
    let store = LocalStore::on_disk(disk, Path::new("/table"))
        .map_err(|error| Error::storage(ErrorKind::Unavailable, error.to_string(), error))?;
    let store = store.with_staleness(Duration::from_secs(1));
    // Without leases the optimizers conflict more often.
    let store = Planted { store: Arc::new(store), fault, leases: false };
    Table::create(Arc::new(store), schema(), &options())
}

#[derive(Default)]
struct Known {
    acknowledged: Mutex<BTreeMap<i64, i64>>,
    writing: AtomicI64,
}

impl Known {
    fn acknowledged(&self) -> BTreeMap<i64, i64> {
        self.acknowledged.lock().unwrap().clone()
    }

    /// Continues while a writer runs, and twice more.
    fn rounds(&self) -> impl Iterator<Item = ()> {
        let mut after = 2;
        std::iter::from_fn(move || {
            after -= (self.writing.load(Ordering::SeqCst) == 0) as i32;
            (after >= 0).then_some(())
        })
    }
}

/// Checks a snapshot that is newer than `acknowledged`: each writer's commits are a prefix with all
/// acknowledged ones. Later steps of the solver may have been retracted and committed again.
fn check(snapshot: &Snapshot, acknowledged: &BTreeMap<i64, i64>) -> std::result::Result<BTreeMap<i64, i64>, Wrong> {
    let found = whole_commits(snapshot)?;
    let mut counts = BTreeMap::new();
    for writer in 0..WRITERS {
        let seen = found.get(&writer).cloned().unwrap_or_default();
        let known = acknowledged.get(&writer).copied().unwrap_or(0);
        let (kept, later): (Vec<i64>, Vec<i64>) = seen.iter().partition(|commit| writer != SOLVER || **commit < KEPT);
        let prefix = kept.iter().copied().eq(0..kept.len() as i64);
        let expected = if writer == SOLVER { known.min(KEPT) } else { known };
        if !prefix || (kept.len() as i64) < expected || later.windows(2).any(|pair| pair[0] + 1 != pair[1]) {
            return Err(Wrong::Rows(format!("of {known} commits of writer {writer} there are {seen:?}")));
        }
        counts.insert(writer, kept.len() as i64);
    }
    Ok(counts)
}

fn live(
    process: &SimProcess,
    disk: Arc<dyn Disk>,
    seed: u64,
    number: u64,
    fault: Option<Fault>,
    known: &Known,
) -> Outcome {
    let mut random = StdRng::seed_from_u64(seed * 100 + number);
    if random.random_bool(0.3) {
        process.kill_after(random.random_range(0..600));
    }
    let held = if random.random_bool(0.5) { 1 << 18 } else { random.random_range(0..40) };
    let worked = (|| {
        let table = open(disk, fault)?;
        table.limit_runs_in_memory(held);
        match number {
            0..3 => write(&table, number as i64, known),
            3 | 4 => optimize(&table, &mut random, known),
            5 => keep(&table, &mut random, known),
            6 => retract(&table, &mut random, known),
            _ => read(&table, known),
        }
    })();
    known.writing.fetch_sub((number < WRITERS as u64) as i64, Ordering::SeqCst);
    match worked {
        Err(Wrong::Error(error)) if error.to_string().contains("is dead") => Ok(()),
        // A killed process may have left a lock, so others find the table busy.
        Ok(()) | Err(Wrong::Error(Error::Busy(_))) => Ok(()),
        Err(wrong) => Err(format!("process {number}: {wrong:?}")),
    }
}

fn write(table: &Table, writer: i64, known: &Known) -> std::result::Result<(), Wrong> {
    let take = || table.writer(&WriterOptions { name: Some(name(writer)), ..Default::default() });
    let mut log = take()?;
    for commit in 0..COMMITS {
        let step = (writer == SOLVER).then_some(commit);
        let token = table.is_shared().then(|| format!("commit {commit}"));
        loop {
            log.append(&rows(writer, commit))?;
            match log.commit_as(&CommitOptions { step, token: token.clone() }) {
                Err(Error::Refused(_)) if table.is_shared() => log = take()?,
                done => break drop(done?),
            }
        }
        known.acknowledged.lock().unwrap().insert(writer, commit + 1);
    }
    Ok(())
}

fn optimize(table: &Table, random: &mut StdRng, known: &Known) -> std::result::Result<(), Wrong> {
    for () in known.rounds() {
        let rows_at_once = random.random_range(20..400);
        if random.random_bool(0.15) {
            match regrid(table, random) {
                Err(Error::Busy(_) | Error::SnapshotExpired { .. }) => {}
                done => done?,
            }
        }
        let few_lookups = random.random_range(1..8);
        let options = OptimizeOptions { debt_share: 0.0, rows_at_once, few_lookups, ..Default::default() };
        match table.optimize(&options, &mut |_, _| {}) {
            Err(Error::Busy(_)) => {}
            done => drop(done?),
        }
    }
    Ok(())
}

fn regrid(table: &Table, random: &mut StdRng) -> kubist::Result<()> {
    let names = [vec!["x"], vec!["y", "x"], vec!["id"]][random.random_range(0..3)].clone();
    let domain = |name: &&str| Dimension {
        column: name.to_string(),
        domain: Domain::Linear(Value::Int(0), Value::Int(random.random_range(1..100))),
    };
    let dimensions = Some(names.iter().map(domain).collect());
    table.regrid(&GridOptions { dimensions, ..Default::default() }, &mut |_, _| {}).map(drop)
}

fn keep(table: &Table, random: &mut StdRng, known: &Known) -> std::result::Result<(), Wrong> {
    for () in known.rounds() {
        match random.random_bool(0.5) {
            true => drop(table.checkpoint()?),
            false => drop(table.clean(Duration::ZERO)?),
        }
    }
    Ok(())
}

fn retract(table: &Table, random: &mut StdRng, known: &Known) -> std::result::Result<(), Wrong> {
    for () in known.rounds() {
        if random.random_bool(0.7) {
            table.snapshot()?;
            continue;
        }
        match table.retract(KEPT - 1) {
            Err(Error::SnapshotExpired { .. } | Error::Busy(_)) => {}
            done => drop(done?),
        }
    }
    Ok(())
}

fn read(table: &Table, known: &Known) -> std::result::Result<(), Wrong> {
    let mut last = BTreeMap::new();
    for () in known.rounds() {
        let acknowledged = known.acknowledged();
        table.core().store.catch_up().unwrap();
        let snapshot = table.snapshot()?;
        let now = match check(&snapshot, &acknowledged) {
            Err(Wrong::Error(Error::SnapshotExpired { .. })) => continue,
            now => now?,
        };
        if last.iter().any(|(writer, count)| now[writer] < *count) {
            return Err(Wrong::Rows(format!("{last:?} was seen before {now:?}")));
        }
        last = now;
    }
    Ok(())
}

fn play(seed: u64, fault: Option<Fault>) -> (Outcome, u64) {
    play_with(seed, fault, &|_, _, process| process)
}

fn play_shared(seed: u64) -> Outcome {
    let mounts: OnceLock<[Arc<Mount>; 2]> = OnceLock::new();
    let mount = |number: u64, machine: &SimDisk| {
        let mounts = mounts.get_or_init(|| {
            let network = Network::new(machine, &Rule::ALL);
            [Mount::new(&network), Mount::new(&network)]
        });
        mounts[number as usize % 2].clone()
    };
    play_with(seed, None, &|number, machine, process| mount(number, machine).of(process)).0
}

type DiskOf<'a> = &'a (dyn Fn(u64, &SimDisk, Arc<SimProcess>) -> Arc<dyn Disk> + Sync);

fn play_with(seed: u64, fault: Option<Fault>, disk: DiskOf<'_>) -> (Outcome, u64) {
    let machine = SimDisk::new(seed);
    let known = Known { writing: AtomicI64::new(WRITERS), ..Known::default() };
    drop(open(disk(0, &machine, machine.process()), fault).unwrap());
    let tasks: Vec<Task<'_, Outcome>> = (0..9)
        .map(|number| -> Task<'_, Outcome> {
            let (known, machine) = (&known, &machine);
            // With more threads per process, turns would not follow from the seed.
            Box::new(move |process| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
                let disk = disk(number, machine, process.clone());
                pool.install(|| live(&process, disk, seed, number, fault, known))
            })
        })
        .collect();
    let outcomes = machine.interleave(tasks);
    let calls = machine.calls();
    if seed.is_multiple_of(2) {
        machine.crash();
    }
    (outcomes.into_iter().collect::<Outcome>().and_then(|()| check_final_state(&machine, &known, fault)), calls)
}

fn check_final_state(machine: &SimDisk, known: &Known, fault: Option<Fault>) -> Outcome {
    let wrong = |wrong: &dyn std::fmt::Debug| format!("in the end: {wrong:?}");
    let table = open(machine.process(), fault).map_err(|error| wrong(&error))?;
    let known = known.acknowledged();
    let found = table.snapshot().map_err(Wrong::from).and_then(|snapshot| check(&snapshot, &known));
    for (writer, count) in found.map_err(|error| wrong(&error))? {
        if count > known.get(&writer).copied().unwrap_or(0) + 1 {
            return Err(format!("{count} commits of writer {writer} are there, more than it began"));
        }
    }
    let report = table.verify(&VerifyOptions::deep(), &mut |_, _| {}).map_err(|error| wrong(&error))?;
    if report.findings.is_empty() { Ok(()) } else { Err(report.findings.join("; ")) }
}

#[test]
fn every_interleaving_keeps_the_promises() {
    let asked = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let seeds = match asked("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..asked("SEEDS").unwrap_or(100),
    };
    // Seeds that once found a bug.
    let found = [276].into_iter().filter(|_| asked("SEED").is_none());
    for seed in seeds.chain(found) {
        if let (Err(what), _) = play(seed, None) {
            panic!("SEED={seed}: {what}");
        }
    }
}

#[test]
fn every_interleaving_on_two_machines_keeps_the_promises() {
    let asked = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let seeds = match asked("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..asked("SEEDS").unwrap_or(40),
    };
    for seed in seeds {
        if let Err(what) = play_shared(seed) {
            panic!("SEED={seed}: {what}");
        }
    }
}

#[test]
fn a_rewrite_that_is_not_checked_again_is_found_out() {
    let found = (0..1000).find(|seed| play(*seed, Some(Fault::LoserGoesOn)).0.is_err());
    println!("found with seed {found:?}");
    assert!(found.is_some(), "a thousand seeds did not notice that the loser of a race goes on");
}
