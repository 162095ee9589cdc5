//! The optimizer in the background: it follows a writer's commits, or the queries of this process.
//!
//! Commits wait while the debt exceeds its bound, so writers slow down before readers do. A writer without an optimizer
//! only adds a new grid when the data outgrows the newest one.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::optimize::{Pace, optimize, optimize_at};
use crate::policy::OptimizeOptions;
use crate::regrid::{When, follow_data};
use kubist_catalog::core::Core;
use kubist_catalog::snapshot::Snapshot;
use kubist_types::cancel::Cancel;
use kubist_types::error::{Error, Result};
use kubist_write::writer::Behind;

/// Commits wait if more than this fraction of a table's rows is debt. The optimizer leaves up to half.
const MOST_DEBT: f64 = 0.75;
/// Commits never wait for a debt of fewer rows than this.
const SMALL_DEBT: u64 = 1 << 20;
/// Commits wait if a cube has more runs than this.
const MOST_RUNS: u64 = 256;
/// Longest wait of a commit. Rows that cannot be moved now must not stop a simulation.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);

/// The optimizer that follows a writer's commits. Dropping it stops the work.
pub struct CommitOptimizer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    cancel: Cancel,
    load: Mutex<Load>,
    changed: Condvar,
}

#[derive(Default)]
struct Load {
    rows: u64,
    debt: u64,
    runs: u64,
    woken: bool,
    working: bool,
}

impl Load {
    fn share(&self) -> f64 {
        let debt = self.debt as f64 / (self.rows as f64 * MOST_DEBT).max(SMALL_DEBT as f64);
        debt.max(self.runs as f64 / MOST_RUNS as f64)
    }
}

impl Shared {
    fn load(&self) -> MutexGuard<'_, Load> {
        self.load.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn wait<'a>(&self, load: MutexGuard<'a, Load>) -> MutexGuard<'a, Load> {
        self.changed.wait_timeout(load, LOOK).map_or_else(|poisoned| poisoned.into_inner().0, |(load, _)| load)
    }

    fn work(&self, core: &Arc<Core>) {
        let options = OptimizeOptions { cancel: self.cancel.clone(), ..OptimizeOptions::background() };
        loop {
            let mut load = self.load();
            while !load.woken && !self.cancel.is_set() {
                load = self.wait(load);
            }
            if self.cancel.is_set() {
                return;
            }
            (load.woken, load.working) = (false, true);
            drop(load);
            let mut pace = Pace {
                core_share: &|| options.core_share + (1.0 - options.core_share) * self.load().share().clamp(0.0, 1.0),
                planned: &|debt| {
                    let mut load = self.load();
                    (load.rows, load.debt, load.runs) = (debt.rows, debt.pressing, debt.most_runs);
                    self.changed.notify_all();
                },
                rewrote: &mut |_, repaid| {
                    let mut load = self.load();
                    load.debt = load.debt.saturating_sub(repaid);
                    self.changed.notify_all();
                },
            };
            // A later commit or call repeats or reports the failure.
            let report = std::panic::catch_unwind(AssertUnwindSafe(|| optimize_at(core, &options, &mut pace)));
            let mut load = self.load();
            load.working = false;
            let Ok(report) = report else { return };
            load.woken |= report.is_ok_and(|report| report.rewrites > 0);
            drop(load);
            self.changed.notify_all();
        }
    }
}

impl CommitOptimizer {
    pub fn start(core: Arc<Core>) -> CommitOptimizer {
        let shared = Arc::new(Shared { cancel: Cancel::default(), load: Mutex::default(), changed: Condvar::new() });
        let thread = std::thread::spawn({
            let shared = shared.clone();
            move || shared.work(&core)
        });
        CommitOptimizer { shared, thread: Some(thread) }
    }
}

impl Behind for CommitOptimizer {
    fn admit(&self, cancel: &Cancel) -> Result<()> {
        let begin = Instant::now();
        let mut load = self.shared.load();
        while load.share() > 1.0 && (load.woken || load.working) && begin.elapsed() < PATIENCE {
            cancel.check()?;
            load = self.shared.wait(load);
        }
        Ok(())
    }

    /// Counts a commit: until the next plan, all its rows are debt, in one more run of the same cube.
    fn committed(&self, rows: u64) {
        let mut load = self.shared.load();
        load.rows += rows;
        load.debt += rows;
        load.runs += 1;
        load.woken = self.thread.as_ref().is_none_or(|thread| !thread.is_finished());
        self.shared.changed.notify_all();
    }
}

impl Drop for CommitOptimizer {
    fn drop(&mut self) {
        self.shared.cancel.set();
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Adds a new grid when the data of a writer without an optimizer outgrows the newest one. Only later rows use it.
pub struct GridFollower {
    core: Arc<Core>,
}

impl GridFollower {
    pub fn new(core: Arc<Core>) -> GridFollower {
        GridFollower { core }
    }
}

impl Behind for GridFollower {
    /// A failure only makes queries slower, so it does not refuse a commit.
    fn admit(&self, cancel: &Cancel) -> Result<()> {
        let Some(view) = self.core.last_view() else { return Ok(()) };
        match follow_data(&self.core, &Snapshot::new(self.core.clone(), view), When::Grown, cancel) {
            Err(Error::Cancelled) => Err(Error::Cancelled),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    fn committed(&self, _rows: u64) {}
}

/// Number of wasted rows in queries after which the optimizer plans again.
const WASTED_ROWS: u64 = 1 << 16;

/// Rewrites a subtree when queries of this process have examined as many rows there without returning them as the
/// rewrite costs.
pub struct ReadOptimizer {
    cancel: Cancel,
    thread: Option<JoinHandle<()>>,
}

pub fn optimize_reads(core: &Arc<Core>) -> ReadOptimizer {
    let cancel = Cancel::default();
    let (core, switch) = (core.clone(), cancel.clone());
    let options =
        OptimizeOptions { debt_share: f64::INFINITY, cancel: cancel.clone(), ..OptimizeOptions::background() };
    let thread = std::thread::spawn(move || {
        let mut looked_at = 0;
        while !switch.is_set() {
            let wasted = core.read_amplification.total();
            looked_at = wasted.min(looked_at);
            if wasted >= looked_at + WASTED_ROWS {
                let _ = optimize(&core, &options, &mut |_, _| {});
                looked_at = core.read_amplification.total();
            }
            std::thread::park_timeout(LOOK * 5);
        }
    });
    ReadOptimizer { cancel, thread: Some(thread) }
}

impl Drop for ReadOptimizer {
    fn drop(&mut self) {
        self.cancel.set();
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn optimizer(load: Load) -> CommitOptimizer {
        let shared = Shared { cancel: Cancel::default(), load: Mutex::new(load), changed: Condvar::new() };
        CommitOptimizer { shared: Arc::new(shared), thread: None }
    }

    #[test]
    fn commits_wait_for_too_much_debt_only_while_somebody_works_on_it() {
        let too_much = || Load { rows: 10_000_000, debt: 8_000_000, runs: 10, woken: false, working: true };
        let at_work = optimizer(too_much());
        let cancel = Cancel::default();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| at_work.admit(&cancel));
            at_work.shared.load().debt = 1_000_000;
            at_work.shared.changed.notify_all();
            waiting.join().unwrap().unwrap();
        });
        cancel.set();
        for load in [too_much(), Load { debt: 0, runs: 300, ..too_much() }] {
            assert!(optimizer(load).admit(&cancel).is_err());
        }
        let calm = Cancel::default();
        for load in [
            Load { working: false, ..too_much() },
            Load { debt: 7_000_000, ..too_much() },
            Load { rows: 1_000_000, debt: 1_000_000, ..too_much() },
        ] {
            optimizer(load).admit(&calm).unwrap();
        }
    }

    #[test]
    fn uncounted_commits_are_debt() {
        let optimizer = optimizer(Load::default());
        optimizer.committed(3_000_000);
        let load = optimizer.shared.load();
        assert!(load.woken && load.share() > 1.0);
    }
}
