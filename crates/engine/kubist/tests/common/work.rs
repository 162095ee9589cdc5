//! Concurrent writers, readers and optimizers under faults: no acknowledged commit is lost or doubled, and
//! every result is right. Transient errors are repeated and counted; all others panic.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use kubist::{Error, OptimizeOptions, Table, VerifyOptions, Writer, WriterOptions};

use super::{Wrong, commit, commits, name};

const PAUSE: Duration = Duration::from_millis(30);
const REST: Duration = Duration::from_millis(200);
const HANGS: Duration = Duration::from_secs(600);

pub struct Work {
    locations: Vec<String>,
    end: AtomicBool,
    acknowledged: Vec<AtomicI64>,
    times: Mutex<Vec<(Instant, Duration)>>,
    pub reads: AtomicI64,
    pub rewrites: AtomicI64,
    pub failures: Mutex<Vec<String>>,
}

struct End<'a>(&'a Work);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.end.store(true, Ordering::SeqCst);
    }
}

fn passes(error: &Error) -> bool {
    matches!(error, Error::Unavailable(_) | Error::NoSpace(_) | Error::Busy(_) | Error::Refused(_))
}

impl Work {
    pub fn new(locations: Vec<String>, writers: usize) -> Work {
        Work {
            locations,
            end: AtomicBool::new(false),
            acknowledged: (0..writers).map(|_| AtomicI64::new(0)).collect(),
            times: Mutex::default(),
            reads: AtomicI64::new(0),
            rewrites: AtomicI64::new(0),
            failures: Mutex::default(),
        }
    }

    pub fn goes_on_during(&self, readers: usize, optimizers: usize, meanwhile: impl FnOnce()) {
        std::thread::scope(|scope| {
            let mut ways = self.locations.iter().cycle();
            let mut next = || ways.next().unwrap();
            for writer in 0..self.acknowledged.len() {
                let way = next();
                scope.spawn(move || self.write(way, writer));
            }
            for _ in 0..readers {
                let way = next();
                scope.spawn(move || self.read(way));
            }
            for _ in 0..optimizers {
                let way = next();
                scope.spawn(move || self.optimize(way));
            }
            let _end = End(self);
            meanwhile();
        });
    }

    fn goes_on(&self) -> bool {
        !self.end.load(Ordering::SeqCst)
    }

    fn failed(&self, what: &str, error: impl Display) {
        self.failures.lock().unwrap().push(format!("{what}: {error}"));
        std::thread::sleep(PAUSE);
    }

    fn open(&self, way: &str) -> Option<Table> {
        while self.goes_on() {
            match Table::open(way) {
                Ok(table) => return Some(table),
                Err(error) if passes(&error) => self.failed("open", error),
                Err(error) => panic!("opening found {error}"),
            }
        }
        None
    }

    fn write(&self, way: &str, writer: usize) {
        let _end = End(self);
        let mut log: Option<Writer> = None;
        let mut table: Option<Table> = None;
        let mut is_known = true;
        let mut last = Instant::now();
        while self.goes_on() || !is_known {
            let number = self.acknowledged[writer].load(Ordering::SeqCst);
            let begin = Instant::now();
            let attempt = || -> kubist::Result<()> {
                if table.is_none() {
                    table = Some(Table::open(way)?);
                }
                if log.is_none() {
                    let name = Some(name(writer as i64));
                    log = Some(table.as_ref().unwrap().writer(&WriterOptions { name, ..Default::default() })?);
                }
                commit(log.as_mut().unwrap(), writer as i64, number).map(drop)
            };
            let attempted = { attempt }();
            is_known = attempted.is_ok();
            match attempted {
                Ok(()) => {
                    self.times.lock().unwrap().push((Instant::now(), begin.elapsed()));
                    self.acknowledged[writer].fetch_add(1, Ordering::SeqCst);
                    last = Instant::now();
                    std::thread::sleep(PAUSE);
                }
                Err(error) if passes(&error) && last.elapsed() < HANGS => {
                    log = None;
                    self.failed("commit", error);
                }
                Err(error) => panic!("writer {writer} found {error}"),
            }
        }
    }

    /// Each snapshot has all commits that were acknowledged before it or seen in earlier ones.
    fn read(&self, way: &str) {
        let _end = End(self);
        let Some(table) = self.open(way) else { return };
        let mut before = BTreeMap::new();
        while self.goes_on() {
            let least: Vec<i64> = self.acknowledged.iter().map(|count| count.load(Ordering::SeqCst)).collect();
            let found = match table.snapshot().map_err(Wrong::Error).and_then(|snapshot| commits(&snapshot)) {
                Ok(found) => found,
                Err(Wrong::Error(error @ (Error::Unavailable(_) | Error::NoSpace(_)))) => {
                    self.failed("query", error);
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

    fn optimize(&self, way: &str) {
        let _end = End(self);
        let Some(table) = self.open(way) else { return };
        while self.goes_on() {
            match table.optimize(&OptimizeOptions::default(), &mut |_, _| {}) {
                Ok(report) => drop(self.rewrites.fetch_add(report.rewrites as i64, Ordering::SeqCst)),
                Err(error) if passes(&error) => self.failed("optimize", error),
                Err(error) => panic!("an optimizer found {error}"),
            }
            std::thread::sleep(REST);
        }
    }

    pub fn wait_for_commits(&self, more: i64) {
        let goal: Vec<i64> = self.acknowledged.iter().map(|count| count.load(Ordering::SeqCst) + more).collect();
        let reached = || self.acknowledged.iter().zip(&goal).all(|(count, goal)| count.load(Ordering::SeqCst) >= *goal);
        let begin = Instant::now();
        while !reached() {
            assert!(self.goes_on(), "somebody has stopped");
            assert!(begin.elapsed() < HANGS, "the work stands still: {:?}", self.failures.lock().unwrap().last());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn longest_silence(&self, begin: Instant) -> Duration {
        let mut moments: Vec<Instant> = self.times.lock().unwrap().iter().map(|(moment, _)| *moment).collect();
        moments.retain(|moment| *moment >= begin);
        moments.insert(0, begin);
        moments.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
    }

    pub fn slowest_commit(&self, begin: Instant) -> Duration {
        let times = self.times.lock().unwrap();
        times.iter().filter(|(moment, _)| *moment >= begin).map(|(_, took)| *took).max().unwrap_or_default()
    }

    pub fn check(&self, table: &Table) -> String {
        let acknowledged: BTreeMap<i64, i64> =
            (0..).zip(self.acknowledged.iter().map(|count| count.load(Ordering::SeqCst))).collect();
        assert_eq!(commits(&table.snapshot().unwrap()).unwrap(), acknowledged);
        let report = table.verify(&VerifyOptions::deep(), &mut |_, _| {}).unwrap();
        assert_eq!(report.findings, Vec::<String>::new());
        let failures = self.failures.lock().unwrap();
        for failure in failures.iter() {
            println!("{failure}");
        }
        format!(
            "{} commits, {} reads, {} rewrites, {} calls that failed and were repeated",
            acknowledged.values().sum::<i64>(),
            self.reads.load(Ordering::SeqCst),
            self.rewrites.load(Ordering::SeqCst),
            failures.len()
        )
    }
}
