//! Distributes tasks over threads by the paper's adaptive schedule (section 4.2). A fraction of the tasks is assigned
//! evenly in advance, so neighbours stay together. The other tasks are assigned in runs of
//! `ceil(left / (2 (workers - 1)))` tasks, which become shorter, so that no thread waits long for a slow one.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use kubist_types::{Cancel, Error, Result};
use serde::Serialize;

const LAMBDA: usize = 2;
/// The fraction assigned in advance; 1/2 and 3/4 are the fastest in `bench.means`.
pub const THETA: f64 = 0.5;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Policy {
    Static,
    Dynamic,
    Adaptive { theta: f64 },
}

impl Default for Policy {
    fn default() -> Policy {
        Policy::Adaptive { theta: THETA }
    }
}

pub struct Schedule {
    dealt: Vec<Range<usize>>,
    left: Mutex<Range<usize>>,
    policy: Policy,
}

impl Schedule {
    pub fn new(tasks: usize, workers: usize, policy: Policy) -> Schedule {
        let workers = workers.max(1);
        let beforehand = match policy {
            Policy::Static => tasks,
            Policy::Dynamic => 0,
            Policy::Adaptive { theta } => ((tasks as f64 * theta.clamp(0.0, 1.0)) as usize).min(tasks),
        };
        let part = |worker: usize| beforehand * worker / workers;
        let dealt = (0..workers).map(|worker| part(worker)..part(worker + 1)).collect();
        Schedule { dealt, left: Mutex::new(beforehand..tasks), policy }
    }

    pub fn dealt(&self, worker: usize) -> Range<usize> {
        self.dealt.get(worker).cloned().unwrap_or(0..0)
    }

    /// The next run of tasks; empty at the end.
    pub fn next(&self) -> Range<usize> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let run = match self.policy {
            Policy::Adaptive { .. } => left.len().div_ceil(LAMBDA * (self.dealt.len() - 1).max(1)),
            _ => 1,
        };
        let run = left.start..(left.start + run.max(1)).min(left.end);
        left.start = run.end;
        run
    }
}

/// The busy seconds of the slowest and the fastest worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Balance {
    pub slowest: f64,
    pub fastest: f64,
}

/// Results by task, and the worker's seconds.
type Done<T> = (Vec<(usize, T)>, f64);

/// Runs tasks and returns their results in order; the first error stops the other tasks.
///
/// # Errors
///
/// `Cancelled`, or the error of a task; `Internal` if one panics.
pub fn run<T: Send>(
    tasks: usize,
    workers: usize,
    policy: Policy,
    cancel: &Cancel,
    task: &(dyn Fn(usize) -> Result<T> + Sync),
) -> Result<(Vec<T>, Balance)> {
    let workers = workers.clamp(1, tasks.max(1));
    let schedule = Schedule::new(tasks, workers, policy);
    let failed = AtomicBool::new(false);
    let work = |worker: usize| -> Result<Done<T>> {
        let begin = Instant::now();
        let mut done = Vec::new();
        let mut run = schedule.dealt(worker);
        loop {
            for index in run {
                if failed.load(Ordering::Relaxed) {
                    return Ok((done, 0.0));
                }
                let outcome = cancel.check().and_then(|()| task(index));
                match outcome {
                    Ok(value) => done.push((index, value)),
                    Err(error) => {
                        failed.store(true, Ordering::Relaxed);
                        return Err(error);
                    }
                }
            }
            run = schedule.next();
            if run.is_empty() {
                return Ok((done, begin.elapsed().as_secs_f64()));
            }
        }
    };
    let outcomes: Vec<Result<Done<T>>> = if workers == 1 {
        vec![work(0)]
    } else {
        std::thread::scope(|scope| {
            let work = &work;
            let threads: Vec<_> = (0..workers).map(|worker| scope.spawn(move || work(worker))).collect();
            let panicked = |_| Err(Error::internal("a thread that reads blocks panicked"));
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
        })
    };
    let mut all = Vec::with_capacity(tasks);
    let mut balance = Balance { slowest: 0.0, fastest: f64::INFINITY };
    for outcome in outcomes {
        let (done, seconds) = outcome?;
        all.extend(done);
        balance.slowest = balance.slowest.max(seconds);
        balance.fastest = balance.fastest.min(seconds);
    }
    all.sort_by_key(|(index, _)| *index);
    Ok((all.into_iter().map(|(_, value)| value).collect(), balance))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_task_is_done_once_in_order() {
        for policy in [Policy::Static, Policy::Dynamic, Policy::default(), Policy::Adaptive { theta: 0.9 }] {
            for (tasks, workers) in [(0, 3), (1, 4), (7, 3), (100, 1), (1000, 16)] {
                let (done, _) = run(tasks, workers, policy, &Cancel::default(), &Ok).unwrap();
                assert_eq!(done, (0..tasks).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn runs_shrink() {
        let schedule = Schedule::new(100, 3, Policy::Adaptive { theta: 0.4 });
        assert_eq!((0..3).map(|worker| schedule.dealt(worker).len()).sum::<usize>(), 40);
        let lengths: Vec<usize> =
            std::iter::from_fn(|| Some(schedule.next().len()).filter(|length| *length > 0)).collect();
        assert_eq!(lengths[..4], [15, 12, 9, 6]);
        assert_eq!(lengths.iter().sum::<usize>(), 60);
    }

    #[test]
    fn an_error_stops_and_is_told() {
        let fails = |index: usize| if index == 5 { Err(Error::invalid("five")) } else { Ok(()) };
        let error = run(100, 4, Policy::default(), &Cancel::default(), &fails).unwrap_err();
        assert_eq!(error.to_string(), "five");
        let cancel = Cancel::default();
        cancel.set();
        assert!(matches!(run(10, 2, Policy::default(), &cancel, &Ok), Err(Error::Cancelled)));
    }
}
