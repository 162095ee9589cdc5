//! Nodes of a real cluster that are killed and come back while four writers, three readers
//! and two optimizers are at work: no commit that was acknowledged is lost, none comes twice,
//! no answer is wrong, and with one node of three down the work goes on. And writers that
//! are killed in the middle of a commit.
//!
//! `KUBIST_TEST_CASSANDRA` names the hosts of a cluster that scripts/cassandra.py started;
//! `ROUNDS=n` is how often a node is killed.

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use common::{Wrong, commits, name, options, schema};
use kubist::{OptimizeOptions, Table, VerifyOptions, Writer, WriterOptions};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const WRITERS: usize = 4;
const READERS: usize = 3;
const NODES: usize = 3;
/// Commits of each writer with a node down, and again once it is back.
const COMMITS: i64 = 15;
/// Between two commits of a writer, and two reads of a reader: nodes, writers and readers
/// share one machine, and a node that comes back needs some of it too.
const PAUSE: Duration = Duration::from_millis(30);

/// Only so that tests end when nothing goes on any more.
const HANGS: Duration = Duration::from_secs(600);
/// One of the tests has the nodes at a time.
static NODES_ARE_TAKEN: Mutex<()> = Mutex::new(());

/// What is known while everybody is at work.
struct Work {
    location: String,
    end: AtomicBool,
    /// Commits of each writer that were acknowledged.
    acknowledged: [AtomicI64; WRITERS],
    /// When a commit was acknowledged, and how long it had taken.
    times: Mutex<Vec<(Instant, Duration)>>,
    reads: AtomicI64,
    /// Calls that failed and were repeated.
    failures: Mutex<Vec<String>>,
}

impl Work {
    fn goes_on(&self) -> bool {
        !self.end.load(Ordering::SeqCst)
    }

    fn failed(&self, what: &str, error: impl std::fmt::Display) {
        self.failures.lock().unwrap().push(format!("{what}: {error}"));
    }

    fn write(&self, writer: usize) {
        let mut log: Option<Writer> = None;
        let mut table: Option<Table> = None;
        // After a failure a commit may be there or not: the work ends when that is known.
        let mut is_known = true;
        while self.goes_on() || !is_known {
            let commit = self.acknowledged[writer].load(Ordering::SeqCst);
            let begin = Instant::now();
            let attempt = || -> kubist::Result<()> {
                if table.is_none() {
                    table = Some(Table::open(&self.location)?);
                }
                if log.is_none() {
                    let name = Some(name(writer as i64));
                    log = Some(table.as_ref().unwrap().writer(&WriterOptions { name, ..Default::default() })?);
                }
                common::commit(log.as_mut().unwrap(), writer as i64, commit).map(drop)
            };
            let attempted = { attempt }();
            is_known = attempted.is_ok();
            match attempted {
                Ok(()) => {
                    self.times.lock().unwrap().push((Instant::now(), begin.elapsed()));
                    self.acknowledged[writer].fetch_add(1, Ordering::SeqCst);
                    std::thread::sleep(PAUSE);
                }
                Err(error @ (kubist::Error::Io(_) | kubist::Error::Busy(_) | kubist::Error::Refused(_))) => {
                    log = None;
                    self.failed("commit", error);
                    std::thread::sleep(PAUSE);
                }
                Err(error) => panic!("a writer found {error}"),
            }
        }
    }

    /// Each snapshot has what was acknowledged before it was taken, and what an earlier one had.
    fn read(&self) {
        let table = Table::open(&self.location).unwrap();
        let mut before = BTreeMap::new();
        while self.goes_on() {
            let least: Vec<i64> = self.acknowledged.iter().map(|count| count.load(Ordering::SeqCst)).collect();
            let found = match table.snapshot().map_err(Wrong::Error).and_then(|snapshot| commits(&snapshot)) {
                Ok(found) => found,
                Err(Wrong::Error(error @ kubist::Error::Io(_))) => {
                    self.failed("query", error);
                    std::thread::sleep(PAUSE);
                    continue;
                }
                Err(wrong) => panic!("a reader found {wrong:?}"),
            };
            for (writer, least) in (0..).zip(least) {
                let count = found.get(&writer).copied().unwrap_or(0);
                assert!(count >= least, "of writer {writer} {least} commits were acknowledged, {count} are there");
                let seen = before.get(&writer).copied().unwrap_or(0);
                assert!(count >= seen, "of writer {writer} {seen} commits were there, now {count}");
            }
            before = found;
            self.reads.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(PAUSE);
        }
    }

    fn optimize(&self) {
        let table = Table::open(&self.location).unwrap();
        while self.goes_on() {
            if let Err(error) = table.optimize(&OptimizeOptions::default(), &mut |_, _| {}) {
                self.failed("optimize", error);
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Waits until every writer made so many commits more.
    fn wait_for_commits(&self, more: i64) {
        let goal: Vec<i64> = self.acknowledged.iter().map(|count| count.load(Ordering::SeqCst) + more).collect();
        let reached = || self.acknowledged.iter().zip(&goal).all(|(count, goal)| count.load(Ordering::SeqCst) >= *goal);
        let begin = Instant::now();
        while !reached() {
            assert!(self.goes_on(), "somebody has stopped");
            assert!(begin.elapsed() < HANGS, "the work stands still: {:?}", self.failures.lock().unwrap().last());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The longest time since `begin` in which nothing was acknowledged.
    fn longest_silence(&self, begin: Instant) -> Duration {
        let mut moments: Vec<Instant> = self.times.lock().unwrap().iter().map(|(moment, _)| *moment).collect();
        moments.retain(|moment| *moment >= begin);
        moments.insert(0, begin);
        moments.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
    }

    /// The longest that a commit took that was acknowledged since `begin`.
    fn slowest_commit(&self, begin: Instant) -> Duration {
        let times = self.times.lock().unwrap();
        times.iter().filter(|(moment, _)| *moment >= begin).map(|(_, took)| *took).max().unwrap_or_default()
    }
}

fn node(command: &str, number: usize) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/cassandra.py");
    let status = Command::new("python3").arg(script).args([command, &number.to_string()]).status().unwrap();
    assert!(status.success(), "{command} of node {number} failed");
}

/// Ends the work even if a thread of it panics.
struct End<'a>(&'a Work);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.end.store(true, Ordering::SeqCst);
    }
}

fn rounds() -> usize {
    std::env::var("ROUNDS").map_or(2, |rounds| rounds.parse().unwrap())
}

/// A place where nothing is yet.
fn fresh(name: &str) -> String {
    let hosts = std::env::var("KUBIST_TEST_CASSANDRA").expect("KUBIST_TEST_CASSANDRA names no hosts");
    let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
    format!("cassandra://{hosts}/kubist_tests/{name}-{now:x}")
}

/// Nothing, unless this process was started as a child: then it commits until it is killed,
/// and says what was acknowledged.
#[test]
fn in_a_child() {
    let Ok(location) = std::env::var("KUBIST_CHILD_WRITES") else { return };
    let mut commit: i64 = std::env::var("KUBIST_FIRST").unwrap().parse().unwrap();
    let table = Table::open(&location).unwrap();
    let mut writer = table.writer(&WriterOptions { name: Some(name(0)), ..Default::default() }).unwrap();
    loop {
        common::commit(&mut writer, 0, commit).unwrap();
        println!("\ndone {commit}");
        commit += 1;
    }
}

#[test]
#[ignore = "needs a Cassandra cluster: KUBIST_TEST_CASSANDRA"]
fn writers_are_killed_in_the_middle_of_commits() {
    let _nodes = NODES_ARE_TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let location = fresh("killed");
    let table = Table::create(&location, schema(), &options()).unwrap();
    let mut rng = SmallRng::seed_from_u64(7);
    let mut acknowledged = 0;
    for _ in 0..4 * rounds() {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["in_a_child", "--exact", "--nocapture"])
            .env("KUBIST_CHILD_WRITES", &location)
            .env("KUBIST_FIRST", acknowledged.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut left = rng.random_range(1..8);
        for line in lines.map(Result::unwrap) {
            let Some(commit) = line.strip_prefix("done ").map(|commit| commit.parse::<i64>().unwrap()) else {
                continue;
            };
            assert_eq!(commit, acknowledged);
            acknowledged += 1;
            left -= 1;
            if left == 0 {
                std::thread::sleep(Duration::from_millis(rng.random_range(0..40)));
                child.kill().unwrap();
            }
        }
        assert!(left <= 0, "the writer ended by itself");
        child.wait().unwrap();
        let found = commits(&table.snapshot().unwrap()).unwrap()[&0];
        assert!((acknowledged..=acknowledged + 1).contains(&found), "{acknowledged} acknowledged, {found} there");
        // A retry finds its commit by the token, or makes it.
        let mut writer = table.writer(&WriterOptions { name: Some(name(0)), ..Default::default() }).unwrap();
        common::commit(&mut writer, 0, acknowledged).unwrap();
        acknowledged += 1;
        assert_eq!(commits(&table.snapshot().unwrap()).unwrap()[&0], acknowledged);
    }
    assert_eq!(table.verify(&VerifyOptions::deep(), &mut |_, _| {}).unwrap().findings, Vec::<String>::new());
    drop(table);
    Table::drop_at(&location, false).unwrap();
}

#[test]
#[ignore = "needs a Cassandra cluster: KUBIST_TEST_CASSANDRA"]
fn nodes_are_killed_and_come_back() {
    let _nodes = NODES_ARE_TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let (location, rounds) = (fresh("chaos"), rounds());
    let table = Table::create(&location, schema(), &options()).unwrap();
    let work = Arc::new(Work {
        location,
        end: AtomicBool::new(false),
        acknowledged: Default::default(),
        times: Mutex::default(),
        reads: AtomicI64::new(0),
        failures: Mutex::default(),
    });
    let mut down = Duration::ZERO;
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let work = &work;
            scope.spawn(move || {
                let _end = End(work);
                work.write(writer);
            });
        }
        for _ in 0..READERS {
            scope.spawn(|| {
                let _end = End(&work);
                work.read();
            });
        }
        // Two: they race for the same rewrites.
        for _ in 0..2 {
            scope.spawn(|| work.optimize());
        }
        let _end = End(&work);
        work.wait_for_commits(5);
        for round in 0..rounds {
            let number = 1 + round % NODES;
            let killed = Instant::now();
            node("kill", number);
            work.wait_for_commits(COMMITS);
            let (silence, slowest) = (work.longest_silence(killed), work.slowest_commit(killed));
            let begin = Instant::now();
            node("start", number);
            let back = begin.elapsed();
            down += killed.elapsed();
            work.wait_for_commits(COMMITS);
            println!(
                "round {round}: node {number} killed; commits went on after {:.2} s, the slowest took {:.2} s; \
                 the node was back {:.1} s after it was started",
                silence.as_secs_f64(),
                slowest.as_secs_f64(),
                back.as_secs_f64()
            );
        }
    });
    let acknowledged: BTreeMap<i64, i64> =
        (0..).zip(work.acknowledged.iter().map(|count| count.load(Ordering::SeqCst))).collect();
    let found = commits(&table.snapshot().unwrap()).unwrap();
    assert_eq!(found, acknowledged);
    let report = table.verify(&VerifyOptions::deep(), &mut |_, _| {}).unwrap();
    assert_eq!(report.findings, Vec::<String>::new());
    let failures = work.failures.lock().unwrap();
    println!(
        "{} commits, {} reads, {} calls that failed and were repeated; a node was down for {:.0} s",
        acknowledged.values().sum::<i64>(),
        work.reads.load(Ordering::SeqCst),
        failures.len(),
        down.as_secs_f64()
    );
    for failure in failures.iter() {
        println!("{failure}");
    }
    drop(table);
    Table::drop_at(&work.location, false).unwrap();
}
