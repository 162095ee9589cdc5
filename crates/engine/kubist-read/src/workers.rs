//! A pool of threads. Starting threads takes longer than a query of a few hundred rows, so an idle thread waits for new
//! work before it ends. Work never waits for other work: if no thread is idle, a new one starts.
//!
//! A forked process inherits no threads, but perhaps a held lock. It therefore never waits for the lock, and forgets
//! the threads of the other process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SendError, Sender, channel};
use std::thread::{self, ThreadId};
use std::time::Duration;

type Job = Box<dyn FnOnce() + Send>;

const KEPT: Duration = Duration::from_secs(2);
const MOST_IDLE: usize = 32;

struct Idle {
    process: u32,
    workers: Vec<(ThreadId, Sender<Job>)>,
}

static IDLE: Mutex<Idle> = Mutex::new(Idle { process: 0, workers: Vec::new() });

/// Changes the list of idle threads; `None` if the lock is held.
fn with_idle<T>(act: impl FnOnce(&mut Vec<(ThreadId, Sender<Job>)>) -> T) -> Option<T> {
    let mut idle = IDLE.try_lock().ok()?;
    let process = std::process::id();
    if idle.process != process {
        std::mem::forget(std::mem::take(&mut idle.workers));
        idle.process = process;
    }
    Some(act(&mut idle.workers))
}

/// A panic ends only this job.
pub fn spawn(job: impl FnOnce() + Send + 'static) {
    let mut job: Job = Box::new(job);
    while let Some(Some((_, worker))) = with_idle(|idle| idle.pop()) {
        match worker.send(job) {
            Ok(()) => return,
            Err(SendError(refused)) => job = refused,
        }
    }
    thread::spawn(move || work(job));
}

fn work(mut job: Job) {
    let (sender, receiver) = channel();
    let me = thread::current().id();
    loop {
        let _ = catch_unwind(AssertUnwindSafe(job));
        let offered = with_idle(|idle| {
            let room = idle.len() < MOST_IDLE;
            if room {
                idle.push((me, sender.clone()));
            }
            room
        });
        match offered {
            Some(true) => match next(me, &receiver) {
                Some(more) => job = more,
                None => return,
            },
            _ => return,
        }
    }
}

/// Waits for a job; `None` after the waiting time.
fn next(me: ThreadId, receiver: &Receiver<Job>) -> Option<Job> {
    loop {
        if let Ok(job) = receiver.recv_timeout(KEPT) {
            return Some(job);
        }
        // Another thread took this one from the list and will send a job.
        let withdrawn = with_idle(|idle| {
            let place = idle.iter().position(|(id, _)| *id == me);
            place.map(|place| idle.remove(place)).is_some()
        });
        if withdrawn == Some(true) {
            return None;
        }
    }
}

/// Calls `meanwhile` on this thread each `patience`.
///
/// # Errors
///
/// The panic of `work`.
pub fn beside<T: Send>(
    patience: Duration,
    work: impl FnOnce() -> T + Send,
    mut meanwhile: impl FnMut(),
) -> thread::Result<T> {
    let mut answer = None;
    let slot = &mut answer;
    let job: Box<dyn FnOnce() + Send + '_> = Box::new(move || *slot = Some(catch_unwind(AssertUnwindSafe(work))));
    // SAFETY: the job borrows data of the caller. It is run and dropped, or dropped without running, before
    // the sender `done` is dropped. This function waits for that drop before it returns or unwinds, so the
    // job never outlives the borrowed data.
    let job: Job = unsafe { std::mem::transmute(job) };
    let (done, waiting) = channel::<()>();
    let ended = UntilGone(waiting);
    spawn(move || {
        job();
        drop(done);
    });
    while let Err(RecvTimeoutError::Timeout) = ended.0.recv_timeout(patience) {
        meanwhile();
    }
    drop(ended);
    answer.unwrap_or_else(|| Err(Box::new("the work was never begun")))
}

/// Waits on drop until the sender is dropped.
struct UntilGone(Receiver<()>);

impl Drop for UntilGone {
    fn drop(&mut self) {
        while self.0.recv().is_ok() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn all_jobs_run_though_some_panic_and_many_wait() {
        let (sender, receiver) = channel();
        for round in 0..20 {
            let (open, gate) = channel::<()>();
            let gate = std::sync::Arc::new(Mutex::new(gate));
            for job in 0..50 {
                let (sender, gate) = (sender.clone(), gate.clone());
                spawn(move || {
                    if job % 10 == 3 {
                        sender.send(1).unwrap();
                        panic!("as it should");
                    }
                    // Some jobs block until all are started, so no job may wait for another.
                    if job % 10 == 5 {
                        let _ = gate.lock().unwrap().recv();
                    }
                    sender.send(1).unwrap();
                });
            }
            drop(open);
            assert_eq!(receiver.iter().take(50).sum::<usize>(), 50, "round {round}");
        }
    }

    #[test]
    fn work_beside_may_borrow_and_panic() {
        let (words, looked) = (vec![1, 2, 3], AtomicUsize::new(0));
        let sum = beside(
            Duration::from_millis(1),
            || {
                while looked.load(Ordering::SeqCst) < 3 {
                    thread::yield_now();
                }
                words.iter().sum::<i32>()
            },
            || {
                looked.fetch_add(1, Ordering::SeqCst);
            },
        );
        assert_eq!(sum.unwrap(), 6);
        assert!(beside(Duration::from_secs(1), || panic!("as it should"), || ()).is_err());
    }
}
