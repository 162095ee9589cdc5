//! Runs tasks on several threads and returns their results in order, with a bounded number ahead.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use kubist_types::cancel::Cancel;
use kubist_types::error::{Error, Result};

type Work<T> = dyn Fn(usize) -> Result<T> + Send + Sync;

/// The results of `work(0)`, `work(1)`, … in this order.
pub struct Pipeline<T> {
    shared: Arc<Shared<T>>,
}

pub struct Pool {
    first: usize,
    most: usize,
    /// Called after each task; true if tasks wait for I/O, so that one more thread helps.
    waits: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Pool {
    pub fn of(size: usize) -> Pool {
        Pool { first: size, most: size, waits: Box::new(|| false) }
    }

    /// A pool that grows from `first` to `most` threads while tasks wait.
    pub fn growing(first: usize, most: usize, waits: impl Fn() -> bool + Send + Sync + 'static) -> Pool {
        Pool { first, most, waits: Box::new(waits) }
    }
}

struct Shared<T> {
    work: Box<Work<T>>,
    tasks: usize,
    pool: Pool,
    cancel: Cancel,
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    workers: usize,
    next_task: usize,
    taken: usize,
    ready: BTreeMap<usize, Result<T>>,
    stopped: bool,
}

impl<T> Shared<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn run(&self, task: usize) -> Result<T> {
        self.cancel.check()?;
        catch_unwind(AssertUnwindSafe(|| (self.work)(task)))
            .unwrap_or_else(|_| Err(Error::internal("a query thread failed unexpectedly; please report this")))
    }

    /// Returns the next task, or `None` at the end; blocks while too many are ahead.
    fn claim(&self) -> Option<usize> {
        let mut state = self.state();
        loop {
            if state.stopped || state.next_task >= self.tasks {
                return None;
            }
            // At most two tasks per thread ahead of the last result taken.
            if state.next_task < state.taken + 2 * state.workers {
                state.next_task += 1;
                return Some(state.next_task - 1);
            }
            state = self.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }
}

impl<T: Send + 'static> Shared<T> {
    fn add_worker(self: &Arc<Self>) {
        let shared = self.clone();
        crate::workers::spawn(move || {
            while let Some(task) = shared.claim() {
                let result = shared.run(task);
                let mut state = shared.state();
                state.ready.insert(task, result);
                let busy = state.next_task < shared.tasks && !state.stopped;
                let more = busy && state.workers < shared.pool.most && (shared.pool.waits)();
                state.workers += usize::from(more);
                drop(state);
                shared.changed.notify_all();
                if more {
                    shared.add_worker();
                }
            }
        });
    }
}

/// The number of threads of a query, cached because the system call is slow.
pub fn threads() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from).min(16))
}

impl<T: Send + 'static> Pipeline<T> {
    pub fn start(
        tasks: usize,
        pool: Pool,
        cancel: Cancel,
        work: impl Fn(usize) -> Result<T> + Send + Sync + 'static,
    ) -> Pipeline<T> {
        let workers = pool.first.min(tasks);
        let state = State { workers, next_task: 0, taken: 0, ready: BTreeMap::new(), stopped: false };
        let shared = Arc::new(Shared {
            work: Box::new(work),
            tasks,
            pool,
            cancel,
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        // A single task runs on the calling thread.
        if tasks > 1 {
            (0..workers).for_each(|_| shared.add_worker());
        }
        Pipeline { shared }
    }

    /// Returns the next result as `Some(Some(result))`, `Some(None)` at the end, or `None` if there is no result within
    /// `patience`. A single task runs on this thread, however long it takes.
    pub fn next_within(&mut self, patience: Duration) -> Option<Option<Result<T>>> {
        let shared = &self.shared;
        if shared.tasks == 1 {
            return match shared.claim() {
                Some(task) => Some(Some(shared.run(task))),
                None => Some(None),
            };
        }
        let deadline = Instant::now().checked_add(patience);
        let mut state = shared.state();
        loop {
            let taken = state.taken;
            if taken >= shared.tasks || state.stopped {
                return Some(None);
            }
            if let Some(result) = state.ready.remove(&taken) {
                state.taken += 1;
                state.stopped |= result.is_err();
                shared.changed.notify_all();
                return Some(Some(result));
            }
            let left = deadline.map_or(patience, |deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return None;
            }
            state = shared.changed.wait_timeout(state, left).unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
    }
}

impl<T> Drop for Pipeline<T> {
    fn drop(&mut self) {
        self.shared.state().stopped = true;
        self.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    impl<T: Send + 'static> Iterator for Pipeline<T> {
        type Item = Result<T>;

        fn next(&mut self) -> Option<Result<T>> {
            self.next_within(Duration::MAX).expect("it is waited for")
        }
    }

    #[test]
    fn results_come_in_order_and_not_too_many_ahead() {
        let begun = Arc::new(AtomicUsize::new(0));
        let seen = begun.clone();
        let mut pipeline = Pipeline::start(200, Pool::of(threads()), Cancel::default(), move |task| {
            seen.fetch_add(1, Ordering::SeqCst);
            Ok(task)
        });
        for expected in 0..200 {
            assert_eq!(pipeline.next().unwrap().unwrap(), expected);
            assert!(begun.load(Ordering::SeqCst) <= expected + 1 + 2 * threads());
        }
        assert!(pipeline.next().is_none());
    }

    #[test]
    fn a_pool_grows_while_tasks_wait_and_no_further() {
        for (waits, most) in [(true, 6), (false, 2)] {
            let (now, peak) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let (busy, seen) = (now, peak.clone());
            let work = move |task| {
                seen.fetch_max(busy.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(2));
                busy.fetch_sub(1, Ordering::SeqCst);
                Ok(task)
            };
            let pipeline = Pipeline::start(300, Pool::growing(2, 6, move || waits), Cancel::default(), work);
            assert_eq!(pipeline.map(Result::unwrap).collect::<Vec<_>>(), (0..300).collect::<Vec<_>>());
            let peak = peak.load(Ordering::SeqCst);
            assert!(peak <= most && (peak > 2) == waits, "{peak} side by side");
        }
    }

    #[test]
    fn an_error_or_a_panic_ends_it() {
        for bad in [3, 0] {
            let work = move |task| if task == bad { Err(Error::Cancelled) } else { Ok(task) };
            let mut pipeline = Pipeline::start(50, Pool::of(threads()), Cancel::default(), work);
            assert_eq!(pipeline.by_ref().take_while(Result::is_ok).count(), bad);
            assert!(pipeline.next().is_none());
        }
        let cancel = Cancel::default();
        cancel.set();
        assert!(matches!(Pipeline::start(5, Pool::of(threads()), cancel, Ok).next(), Some(Err(Error::Cancelled))));
    }
}
