//! A bounded queue of steps, and the low-priority thread that commits them.
//!
//! After an error nothing more is committed, because readers would see later steps without the failed one.
//! Every later call returns the error.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use arrow_array::RecordBatch;
use kubist::{Cancel, CommitOptions, ErrorKind, Thinned, Writer};

use crate::failure::{Failure, Result};
use crate::patience::Patience;
use crate::presence::Home;
use crate::step::{Level, Report, StepOptions};

const NICE: i32 = 10;
const LOOK: Duration = Duration::from_millis(50);
const EVENTS: usize = 1000;

pub struct Ready {
    pub step: i64,
    /// Repeated attempts with a token write or abandon the step once.
    pub token: Option<String>,
    /// `None` abandons the step.
    pub batches: Option<Vec<RecordBatch>>,
    /// Totals of all records, if the batches hold only a sample.
    pub thinned: Option<Thinned>,
}

/// # Errors
///
/// As `Writer::append` and `Writer::commit_as`; the table then has nothing of the step.
pub fn commit(writer: &mut Writer, ready: Ready) -> Result<Report> {
    let Ready { step, token, batches, thinned } = ready;
    let committed = match &batches {
        None if token.is_some() && writer.last_step()?.is_some_and(|last| last >= step) => {
            return Ok(Report { step, durable: true, repeated: true, abandoned: true, ..Report::default() });
        }
        None => writer.abandon(step)?,
        Some(batches) => {
            if let Err(error) = batches.iter().try_for_each(|batch| writer.append(batch)) {
                writer.discard();
                return Err(error.into());
            }
            let options = CommitOptions { step: Some(step), token };
            match thinned {
                Some(thinned) => writer.commit_thinned(&options, thinned)?,
                None => writer.commit_as(&options)?,
            }
        }
    };
    Ok(Report {
        step,
        rows: committed.rows,
        bytes: committed.bytes_written,
        seconds: committed.seconds,
        durable: true,
        repeated: committed.repeated,
        abandoned: batches.is_none(),
    })
}

pub struct Queue {
    shared: Arc<Shared>,
    cancel: Cancel,
    room: usize,
    thread: Option<JoinHandle<()>>,
    /// A drop does not wait for a running commit.
    let_go: AtomicBool,
    home: Home,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Ready>,
    working: Option<i64>,
    durable: Option<i64>,
    failed: Option<(i64, Failure)>,
    closing: bool,
    events: VecDeque<(Level, String)>,
}

impl State {
    fn tell(&mut self, level: Level, event: String) {
        if self.events.len() == EVENTS {
            self.events.pop_front();
        }
        self.events.push_back((level, event));
    }

    fn check(&self) -> Result<()> {
        self.check_up_to(i64::MAX)
    }

    fn check_up_to(&self, step: i64) -> Result<()> {
        self.failed.as_ref().filter(|(at, _)| *at <= step).map_or(Ok(()), |(_, failure)| Err(failure.clone()))
    }

    fn is_behind(&self, step: i64) -> bool {
        let waiting = self.waiting.iter().map(|ready| ready.step);
        waiting.chain(self.working).any(|of_job| of_job <= step)
    }
}

pub fn step_back(options: &StepOptions) {
    if !options.dedicated {
        let _ = rustix::process::nice(NICE);
    }
}

impl Queue {
    /// Also starts a pool of `options.threads` threads for sorting and encoding.
    ///
    /// # Errors
    ///
    /// `Unavailable` without threads.
    pub fn start(writer: Writer, options: &StepOptions) -> Result<Queue> {
        let refused = |error: String| Failure::new(ErrorKind::Unavailable, format!("no thread for commits: {error}"));
        let shared = Arc::new(Shared::default());
        let (of_pool, own) = (options.clone(), options.clone());
        let pool = rayon::ThreadPoolBuilder::new().num_threads(options.threads.max(1));
        let pool =
            pool.start_handler(move |_| step_back(&of_pool)).build().map_err(|error| refused(error.to_string()))?;
        let of_thread = shared.clone();
        let work = move || {
            step_back(&own);
            of_thread.work(writer, &pool);
        };
        let thread = std::thread::Builder::new().name("kubist-commits".into()).spawn(work);
        let thread = thread.map_err(|error| refused(error.to_string()))?;
        let (let_go, home) = (AtomicBool::new(false), Home::here());
        let (cancel, room) = (options.cancel.clone(), options.queue.unwrap_or(1).max(1));
        Ok(Queue { shared, cancel, room, thread: Some(thread), let_go, home })
    }

    /// Waits until a step can be pushed; `thinned` extra slots are for subsampled steps.
    ///
    /// # Errors
    ///
    /// An earlier step's error; `Busy` if the queue stays full; `Cancelled`.
    pub fn wait_for_room(&self, step: i64, thinned: usize, patience: &Patience) -> Result<()> {
        self.home.check()?;
        let room = self.room + thinned;
        let mut state = self.shared.state();
        if state.waiting.len() >= room {
            state.tell(Level::Warning, format!("step {step} waits: {room} steps are queued already"));
        }
        loop {
            state.check()?;
            if state.waiting.len() < room {
                return Ok(());
            }
            patience.check(&|| format!("room for step {step} behind {room} queued steps"))?;
            state = self.shared.wait(state, patience);
        }
    }

    /// Pushes a step even if the queue is full.
    ///
    /// # Errors
    ///
    /// An earlier step's error; this one is dropped.
    pub fn push(&self, ready: Ready) -> Result<()> {
        self.home.check()?;
        let mut state = self.shared.state();
        state.check()?;
        state.waiting.push_back(ready);
        drop(state);
        self.shared.changed.notify_all();
        Ok(())
    }

    /// # Errors
    ///
    /// The error of a step up to this one; `Busy` at the deadline; `Cancelled`.
    pub fn wait(&self, step: i64, patience: &Patience) -> Result<()> {
        self.home.check()?;
        let mut state = self.shared.state();
        loop {
            state.check_up_to(step)?;
            if !state.is_behind(step) {
                return Ok(());
            }
            patience.check(&|| "the commit of the queued steps".into())?;
            state = self.shared.wait(state, patience);
        }
    }

    /// Ends the thread once everything is durable.
    ///
    /// # Errors
    ///
    /// As [`Queue::wait`]; after `Busy` and `Cancelled` the thread continues.
    pub fn close(&mut self, patience: &Patience) -> Result<()> {
        let waited = self.wait(i64::MAX, patience);
        match &waited {
            Err(failure) if matches!(failure.kind, ErrorKind::Busy | ErrorKind::Cancelled) => {
                self.let_go();
                return waited;
            }
            Err(failure) if failure.kind == ErrorKind::Expired => return waited,
            _ => {}
        }
        self.join();
        waited
    }

    /// Lets a drop after a timeout return without waiting for a running commit.
    pub fn let_go(&self) {
        self.let_go.store(true, Ordering::Relaxed);
    }

    pub fn durable(&self) -> Option<i64> {
        self.shared.state().durable
    }

    /// # Errors
    ///
    /// The error of a step.
    pub fn has_room(&self) -> Result<bool> {
        self.home.check()?;
        let state = self.shared.state();
        state.check().map(|()| state.waiting.len() < self.room)
    }

    pub fn room(&self) -> usize {
        self.room
    }

    pub fn take_events(&self) -> Vec<(Level, String)> {
        match self.home.is_here() {
            true => self.shared.state().events.drain(..).collect(),
            // In a fork, another process may hold the lock.
            false => vec![],
        }
    }

    fn join(&mut self) {
        self.shared.state().closing = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // The thread catches panics itself.
            let _ = thread.join();
        }
    }
}

impl Drop for Queue {
    /// Queued steps are dropped, and a running commit is cancelled.
    fn drop(&mut self) {
        if !self.home.is_here() {
            // A fork does not have the thread.
            std::mem::forget(self.thread.take());
            return;
        }
        if self.thread.is_some() {
            self.cancel.set();
            let mut state = self.shared.state();
            state.waiting.clear();
            state.closing = true;
            drop(state);
            self.shared.changed.notify_all();
            match self.let_go.load(Ordering::Relaxed) {
                true => drop(self.thread.take()),
                false => self.join(),
            }
        }
    }
}

impl Shared {
    /// A panic in another thread leaves the state consistent, so a poisoned lock is usable.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, patience: &Patience) -> MutexGuard<'a, State> {
        let waited = self.changed.wait_timeout(state, LOOK.min(patience.left()));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn work(&self, mut writer: Writer, pool: &rayon::ThreadPool) {
        while let Some(ready) = self.next() {
            let step = ready.step;
            let done = catch_unwind(AssertUnwindSafe(|| pool.install(|| commit(&mut writer, ready))));
            let mut state = self.state();
            state.working = None;
            let panicked = |_| Err(Failure::new(ErrorKind::Internal, "a bug in Kubist stopped a commit"));
            match done.unwrap_or_else(panicked) {
                Ok(report) => {
                    state.durable = Some(step);
                    state.tell(Level::Info, report.to_string());
                }
                Err(failure) => {
                    let dropped = std::mem::take(&mut state.waiting).len();
                    let message =
                        format!("step {step} was not written, nor were {dropped} queued after it: {}", failure.message);
                    state.tell(Level::Error, message.clone());
                    state.failed = Some((step, Failure { message, ..failure }.lasting()));
                }
            }
            let failed = state.failed.is_some();
            drop(state);
            self.changed.notify_all();
            if failed {
                break;
            }
        }
    }

    fn next(&self) -> Option<Ready> {
        let mut state = self.state();
        loop {
            if let Some(ready) = state.waiting.pop_front() {
                state.working = Some(ready.step);
                self.changed.notify_all();
                return Some(ready);
            }
            if state.closing {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
