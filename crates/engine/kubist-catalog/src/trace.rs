//! Trace of a query's time by request: the four stages of the scalability paper (section V B), as a client sees them.
//!
//! A traced query sets a thread-local variable while a thread reads; other reads only check that variable.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kubist_store::{Answers, Request, Store, StoreExt};

#[derive(Clone, Debug, Default)]
pub struct Trace(Arc<Mutex<Traced>>);

#[derive(Debug, Default)]
pub struct Traced {
    /// Each request, with the time when its rows were decoded.
    pub requests: Vec<(Request, Instant)>,
    pub planned: Option<Instant>,
    /// Sum over all threads, without the waits for the store.
    pub decoding: Duration,
}

struct Task {
    requests: Vec<Request>,
    waited: Duration,
}

thread_local! {
    static TASK: RefCell<Option<Task>> = const { RefCell::new(None) };
}

impl Trace {
    pub fn traced(&self) -> MutexGuard<'_, Traced> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub fn of_rows<T>(trace: Option<&Trace>, work: impl FnOnce() -> T) -> T {
    let Some(trace) = trace else { return work() };
    trace.traced().planned.get_or_insert_with(Instant::now);
    record(trace, work)
}

pub fn of_plan<T>(trace: Option<&Trace>, work: impl FnOnce() -> T) -> T {
    match trace {
        Some(trace) => record(trace, work),
        None => work(),
    }
}

fn record<T>(trace: &Trace, work: impl FnOnce() -> T) -> T {
    let begin = Instant::now();
    let outer = TASK.replace(Some(Task { requests: Vec::new(), waited: Duration::ZERO }));
    let done = work();
    let end = Instant::now();
    if let Some(task) = TASK.replace(outer) {
        let mut traced = trace.traced();
        traced.decoding += (end - begin).saturating_sub(task.waited);
        traced.requests.extend(task.requests.into_iter().map(|request| (request, end)));
    }
    done
}

pub struct Read {
    pub answers: Answers,
    pub bytes_cached: u64,
    /// True if a request went to the store, not only to local copies.
    pub asked: bool,
}

/// Records the requests in the trace of this thread's query.
///
/// # Errors
///
/// The errors of [`StoreExt::read_segments`].
pub fn read(store: &dyn Store, wanted: &[(&str, &[Range<u64>])]) -> kubist_store::Result<Read> {
    let begin = Instant::now();
    let seen = Mutex::new(Vec::new());
    let see = |request| seen.lock().unwrap_or_else(PoisonError::into_inner).push(request);
    let found = store.read_segments(wanted, &see);
    let seen = seen.into_inner().unwrap_or_else(PoisonError::into_inner);
    let bytes_cached = seen.iter().filter(|request| request.cached).map(|request| request.bytes).sum();
    let asked = bytes_cached == 0 || seen.iter().any(|request| !request.cached);
    TASK.with_borrow_mut(|task| {
        if let Some(task) = task {
            task.waited += begin.elapsed();
            task.requests.extend(seen);
        }
    });
    Ok(Read { answers: found?, bytes_cached, asked })
}
