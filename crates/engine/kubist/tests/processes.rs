//! Writers, readers and an optimizer run as real processes on one table, and are killed or stopped at a
//! chosen system call.
//!
//! A child is this program in a role from its environment. A child that stops itself at a disk call prints
//! that and waits for SIGCONT or SIGKILL.
//!
//! `ROUNDS=n` plays n rounds, `SEED=n` selects them.

use crate::common;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Lines, Read};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::common::stopping::{NEVER, StoppingDisk, say, stop_after};
use crate::common::{Wrong, commits, name, options, schema};
use crate::fresh::{fresh_name, mounts, on_the_other};
use kubist::store::disk::OsDisk;
use kubist::store::{LocalStore, StoreExt};
use kubist::{
    Dimension, Domain, Error, GridOptions, OptimizeOptions, Table, Value, VerifyOptions, Writer, WriterOptions,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"))
}

fn number(name: &str) -> i64 {
    variable(name).parse().unwrap()
}

#[test]
fn in_a_child() {
    let Ok(role) = std::env::var("KUBIST_ROLE") else { return };
    let table = variable("KUBIST_TABLE");
    let at = Path::new(&table);
    let store = LocalStore::open_on(Arc::new(StoppingDisk(OsDisk::beneath(at))), at).unwrap();
    let table = Table::open(Arc::new(store)).unwrap();
    match role.as_str() {
        "writer" => write(&table),
        "reader" => read(&table),
        "optimizer" => optimize(&table),
        _ => panic!("{role} is no role"),
    }
}

fn end_of_input() -> Arc<AtomicBool> {
    let end = Arc::new(AtomicBool::new(false));
    let seen = end.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        seen.store(true, Ordering::SeqCst);
    });
    end
}

fn write(table: &Table) {
    let (writer, first, count) = (number("KUBIST_WRITER"), number("KUBIST_FIRST"), number("KUBIST_COUNT"));
    let (stop_at, calls) = (number("KUBIST_STOP_AT"), number("KUBIST_CALLS"));
    let mut log = own(table, writer);
    for commit in first..first + count {
        if commit == stop_at {
            stop_after(calls);
        }
        say(&format!("begin {commit}"));
        common::commit(&mut log, writer, commit).unwrap();
        stop_after(NEVER);
        say(&format!("done {commit}"));
    }
}

fn own(table: &Table, writer: i64) -> Writer {
    loop {
        match table.writer(&WriterOptions { name: Some(name(writer)), ..Default::default() }) {
            Err(Error::Busy(_)) => std::thread::yield_now(),
            owned => return owned.unwrap(),
        }
    }
}

fn read(table: &Table) {
    let end = end_of_input();
    let (mut looks, mut expired) = (0, 0);
    let mut last = BTreeMap::new();
    loop {
        let ending = end.load(Ordering::SeqCst);
        let snapshot = table.snapshot().unwrap();
        match commits(&snapshot) {
            Ok(now) => {
                let held = |(writer, count): (&i64, &i64)| now.get(writer).is_some_and(|now| now >= count);
                assert!(last.iter().all(held), "{last:?} was seen before {now:?}");
                last = now;
                looks += 1;
            }
            Err(Wrong::Error(Error::SnapshotExpired { .. })) => expired += 1,
            Err(wrong) => panic!("{wrong:?}"),
        }
        if ending {
            break;
        }
    }
    say(&format!("looked {looks} {expired}"));
}

fn optimize(table: &Table) {
    let end = end_of_input();
    let (rounds, grids) = (number("KUBIST_COUNT"), number("KUBIST_GRIDS"));
    let retention = Duration::from_millis(number("KUBIST_RETENTION_MS") as u64);
    stop_after(number("KUBIST_CALLS"));
    say("begin 0");
    let mut rewrites = 0;
    for round in 0.. {
        if round == rounds || (rounds < 0 && end.load(Ordering::SeqCst)) {
            break;
        }
        if grids > 0 {
            regrid(table);
        }
        rewrites += keep(table, retention);
    }
    stop_after(NEVER);
    say("done 0");
    say(&format!("rewrote {rewrites}"));
}

fn regrid(table: &Table) {
    let before = table.snapshot().unwrap().about().unwrap().grid;
    let names: &[&str] = [&["y"][..], &["y", "x"], &["x"], &["x", "y"]][before as usize % 4];
    let domain = |name: &&str| Dimension {
        column: name.to_string(),
        domain: Domain::Linear(Value::Int(0), Value::Int(1 + before as i128 % 5)),
    };
    let options = GridOptions { dimensions: Some(names.iter().map(domain).collect()), ..GridOptions::default() };
    match table.regrid(&options, &mut |_, _| {}) {
        Ok(_) | Err(Error::Busy(_) | Error::SnapshotExpired { .. }) => {}
        Err(error) => panic!("{error:?}"),
    }
}

/// All maintenance, which a stopped process may block, and its input may be rewritten and cleaned before it continues.
fn keep(table: &Table, retention: Duration) -> u64 {
    let thorough = OptimizeOptions { debt_share: 0.1, rows_at_once: 20_000, ..Default::default() };
    let rewrites = match table.optimize(&thorough, &mut |_, _| {}) {
        Ok(report) => report.rewrites,
        Err(Error::Busy(_)) => 0,
        Err(error) => panic!("{error:?}"),
    };
    table.checkpoint().unwrap();
    table.clean(retention).unwrap();
    rewrites
}

struct Child {
    process: std::process::Child,
    output: Lines<BufReader<ChildStdout>>,
}

impl Child {
    fn start(table: &str, role: &str, settings: &[(&str, i64)]) -> Child {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let table = match mounts() {
            Some(_) if STARTED.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) => {
                drop(open(table));
                on_the_other(Path::new(table))
            }
            _ => table.into(),
        };
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "processes::in_a_child", "--nocapture", "--test-threads=1"]);
        command.env("KUBIST_ROLE", role).env("KUBIST_TABLE", table);
        for (name, value) in settings {
            command.env(format!("KUBIST_{name}"), value.to_string());
        }
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap()).lines();
        Child { process, output }
    }

    fn writer(table: &str, writer: i64, first: i64, count: i64, stop_at: i64, calls: i64) -> Child {
        let settings = [("WRITER", writer), ("FIRST", first), ("COUNT", count), ("STOP_AT", stop_at), ("CALLS", calls)];
        Child::start(table, "writer", &settings)
    }

    fn optimizer(table: &str, count: i64, retention_ms: i64, calls: i64, grids: bool) -> Child {
        let settings =
            [("COUNT", count), ("RETENTION_MS", retention_ms), ("CALLS", calls), ("GRIDS", i64::from(grids))];
        Child::start(table, "optimizer", &settings)
    }

    fn hear(&mut self) -> Option<String> {
        self.output.by_ref().find_map(|line| line.unwrap().strip_prefix('@').map(String::from))
    }

    /// A signal before the child reported its stop would be lost.
    fn wake(&self) {
        let pid = Pid::from_child(&self.process);
        waitpid(Some(pid), WaitOptions::UNTRACED).unwrap();
        kill_process(pid, Signal::CONT).unwrap();
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    fn finish(mut self) -> Vec<String> {
        drop(self.process.stdin.take());
        let output = std::iter::from_fn(|| self.hear()).collect();
        assert!(self.process.wait().unwrap().success(), "{output:?}");
        output
    }
}

fn place() -> (Option<tempfile::TempDir>, PathBuf) {
    match mounts() {
        Some([one, _]) => (None, one.join(fresh_name("table"))),
        None => {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("table");
            (Some(folder), path)
        }
    }
}

fn open(location: &str) -> Table {
    let table = Table::open(location).unwrap();
    table.core().store.catch_up().unwrap();
    table
}

fn sound(table: &Table) {
    let report = table.verify(&VerifyOptions::deep(), &mut |_, _| {}).unwrap();
    assert_eq!(report.findings, Vec::<String>::new());
}

#[test]
fn everybody_at_once() {
    const WRITERS: i64 = 4;
    const COMMITS: i64 = 250;
    let (_folder, path) = place();
    let location = path.to_str().unwrap();
    Table::create(location, schema(), &options()).unwrap();
    let readers: Vec<Child> = (0..3).map(|_| Child::start(location, "reader", &[])).collect();
    let optimizers = [false, true].map(|grids| Child::optimizer(location, -1, 1000, -1, grids));
    let writers: Vec<Child> = (0..WRITERS).map(|writer| Child::writer(location, writer, 0, COMMITS, -1, -1)).collect();
    for writer in writers {
        let done = writer.finish().iter().filter(|output| output.starts_with("done")).count();
        assert_eq!(done as i64, COMMITS);
    }
    for reader in readers {
        let output = reader.finish();
        let looked: Vec<u64> = output[0].split(' ').skip(1).map(|number| number.parse().unwrap()).collect();
        assert!(looked[0] > 1, "{output:?}");
        println!("a reader saw {} snapshots; {} more had expired", looked[0], looked[1]);
    }
    for optimizer in optimizers {
        println!("an optimizer {:?}", optimizer.finish());
    }
    let table = open(location);
    println!("{} grids", table.snapshot().unwrap().about().unwrap().grid + 1);
    let expected = (0..WRITERS).map(|writer| (writer, COMMITS)).collect();
    assert_eq!(commits(&table.snapshot().unwrap()).unwrap(), expected);
    sound(&table);
}

/// A rewriter stops before each disk call, for an hour by the cleaner's clock. Then it publishes its
/// segment only if that still exists.
#[test]
fn a_rewriter_that_was_stalled_publishes_no_segment_that_is_gone() {
    let mut deleted = 0;
    for calls in 0.. {
        let (_folder, path) = place();
        let location = path.to_str().unwrap();
        let table = Table::create(location, schema(), &options()).unwrap();
        let mut writer = own(&table, 0);
        (0..6).for_each(|number| drop(common::commit(&mut writer, 0, number).unwrap()));
        drop(writer);
        let mut child = Child::optimizer(location, 1, 3_600_000, calls, false);
        let stopped = std::iter::from_fn(|| child.hear()).find(|output| !output.starts_with("begin"));
        if stopped.is_some_and(|output| output.starts_with("stopped")) {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
            for hours in 1..3 {
                let cleaned = kubist_maintain::clean::clean_as_of(
                    table.core(),
                    Duration::ZERO,
                    now + hours * 3_600_000,
                    &kubist::Cancel::default(),
                )
                .unwrap();
                deleted += cleaned.segments_deleted;
            }
            child.wake();
            child.finish();
        } else {
            child.finish();
            assert!(calls > 10 && deleted > 0, "{calls} calls, {deleted} segments deleted");
            return;
        }
        let table = open(location);
        assert_eq!(commits(&table.snapshot().unwrap()).unwrap(), BTreeMap::from([(0, 6)]), "stopped at call {calls}");
        sound(&table);
    }
}

#[derive(Clone, Copy, Debug)]
enum Fate {
    Killed,
    KilledAnywhere,
    Woken,
}

struct Campaign {
    random: StdRng,
    location: String,
    acknowledged: [i64; 3],
    killed: u64,
    killed_in_flight: u64,
    woken: u64,
    /// Maintenance that waited for a stopped writer, which takes seconds each time, so their number is limited.
    waited: u64,
}

impl Campaign {
    fn round(&mut self) {
        let fate = match self.random.random_range(0..10) {
            0..6 => Fate::Killed,
            6..8 => Fate::KilledAnywhere,
            _ => Fate::Woken,
        };
        let (writer, other) = match self.random.random_range(0..3) {
            writer @ 0..2 => (writer, writer + 1),
            writer => (writer, 0),
        };
        let begin = self.acknowledged[other];
        let bystander = Child::writer(&self.location, other as i64, begin, 2, -1, -1);
        match self.random.random_bool(0.7) {
            true => self.play_writer(writer, fate),
            false => self.play_optimizer(fate),
        }
        self.acknowledge(other, &bystander.finish());
    }

    fn acknowledge(&mut self, writer: usize, output: &[String]) {
        for output in output {
            if let Some(commit) = output.strip_prefix("done ") {
                assert_eq!(commit.parse(), Ok(self.acknowledged[writer]));
                self.acknowledged[writer] += 1;
            }
        }
    }

    fn play_writer(&mut self, writer: usize, fate: Fate) {
        let first = self.acknowledged[writer];
        let victim = first + self.random.random_range(0..3);
        // The first commit creates a segment, which takes more calls.
        let most = if victim == first { 9 } else { 6 };
        let calls = if let Fate::KilledAnywhere = fate { -1 } else { self.random.random_range(0..most) };
        let child = Child::writer(&self.location, writer as i64, first, 4, victim, calls);
        let output = self.play(child, fate, victim);
        self.acknowledge(writer, &output);
    }

    fn play_optimizer(&mut self, fate: Fate) {
        let calls = if let Fate::KilledAnywhere = fate { -1 } else { self.random.random_range(0..40) };
        let grids = self.random.random_bool(0.3);
        let child = Child::optimizer(&self.location, 1, 0, calls, grids);
        self.play(child, fate, 0);
    }

    fn play(&mut self, mut child: Child, fate: Fate, victim: i64) -> Vec<String> {
        let mut output = Vec::new();
        let begins = format!("begin {victim}");
        while let Some(now) = child.hear() {
            output.push(now.clone());
            match fate {
                Fate::KilledAnywhere if now == begins => {
                    let moments = self.random.random_range(0..1_000_000);
                    (0..moments).map(std::hint::black_box).for_each(|_| {});
                    child.send(Signal::KILL);
                }
                Fate::Killed if now.starts_with("stopped") => child.send(Signal::KILL),
                Fate::Woken if now.starts_with("stopped") => {
                    self.work_meanwhile(&now);
                    child.wake();
                    self.woken += 1;
                }
                _ => {}
            }
        }
        let ended = child.process.wait().unwrap();
        if !ended.success() {
            use std::os::unix::process::ExitStatusExt;
            assert_eq!(ended.signal(), Some(Signal::KILL.as_raw()), "{output:?}");
            self.killed += 1;
            // Leases of a dead optimizer would delay the others.
            let _ = std::fs::remove_dir_all(Path::new(&self.location).join("leases"));
            let last = output.iter().rfind(|output| !output.starts_with("stopped")).unwrap();
            self.killed_in_flight += last.starts_with("begin") as u64;
        }
        output
    }

    fn work_meanwhile(&mut self, stopped: &str) {
        let table = open(&self.location);
        if stopped.contains("/logs/") {
            self.waited += 1;
            if self.waited > 2 {
                table.checkpoint().unwrap();
                table.clean(Duration::ZERO).unwrap();
                return;
            }
        }
        keep(&table, Duration::ZERO);
    }

    /// Every acknowledged commit is there, and at most one unacknowledged commit.
    fn check(&self) {
        let table = open(&self.location);
        let found = commits(&table.snapshot().unwrap()).unwrap();
        for (writer, acknowledged) in self.acknowledged.iter().enumerate() {
            let found = found.get(&(writer as i64)).copied().unwrap_or(0);
            let expected = *acknowledged..=acknowledged + 1;
            assert!(expected.contains(&found), "{found} commits of {}, {expected:?} expected", name(writer as i64));
        }
    }
}

#[test]
fn killed_and_stopped_processes_lose_nothing() {
    let asked = |name| std::env::var(name).ok().map(|number| number.parse().unwrap());
    let (rounds, seed) = (asked("ROUNDS").unwrap_or(200), asked("SEED").unwrap_or(9));
    let (_folder, path) = place();
    let location = path.to_str().unwrap().to_string();
    Table::create(&location, schema(), &options()).unwrap();
    let mut campaign = Campaign {
        random: StdRng::seed_from_u64(seed),
        location: location.clone(),
        acknowledged: [0; 3],
        killed: 0,
        killed_in_flight: 0,
        woken: 0,
        waited: 0,
    };
    for round in 0..rounds {
        campaign.round();
        if round % 5 == 4 {
            campaign.check();
        }
        if round % 50 == 49 {
            sound(&open(&location));
        }
    }
    campaign.check();
    let table = open(&location);
    sound(&table);
    // Retries of unacknowledged commits count once.
    for writer in 0..3 {
        let output = Child::writer(&location, writer, campaign.acknowledged[writer as usize], 1, -1, -1).finish();
        campaign.acknowledge(writer as usize, &output);
    }
    let table = open(&location);
    let expected = (0..3).map(|writer| (writer, campaign.acknowledged[writer as usize])).collect();
    assert_eq!(commits(&table.snapshot().unwrap()).unwrap(), expected);
    sound(&table);
    let Campaign { killed, killed_in_flight, woken, .. } = campaign;
    println!("{rounds} rounds: {killed} killed, {killed_in_flight} of them in flight, {woken} stopped and woken");
    assert!(killed_in_flight * 10 >= killed * 7, "most kills were to hit something in flight");
    assert!(killed * 2 > rounds && woken * 20 > rounds);
}
