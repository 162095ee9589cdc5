//! Threads that are kept for a moment, for whatever comes next.
//!
//! A query of a few hundred rows takes less time than starting the threads it is read
//! with. So a thread that has nothing to do waits for a while before it ends, and new work
//! goes to one that waits. Work never waits for work: with no thread idle a new one starts.
//!
//! A forked process has none of these threads, and a lock of theirs may be held for ever:
//! so locks are only tried, and what another process left is let be.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SendError, Sender, channel};
use std::thread::{self, ThreadId};
use std::time::Duration;

type Job = Box<dyn FnOnce() + Send>;

/// How long a thread waits for more to do.
const KEPT: Duration = Duration::from_secs(2);
/// No more threads wait than these.
const MOST_IDLE: usize = 32;

struct Idle {
    process: u32,
    workers: Vec<(ThreadId, Sender<Job>)>,
}

static IDLE: Mutex<Idle> = Mutex::new(Idle { process: 0, workers: Vec::new() });

/// Does something with the idle threads of this process; `None` if others do just now.
fn with_idle<T>(act: impl FnOnce(&mut Vec<(ThreadId, Sender<Job>)>) -> T) -> Option<T> {
    let mut idle = IDLE.try_lock().ok()?;
    let process = std::process::id();
    if idle.process != process {
        std::mem::forget(std::mem::take(&mut idle.workers));
        idle.process = process;
    }
    Some(act(&mut idle.workers))
}

/// Runs `job` on another thread. A panic ends the job alone.
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

/// What an idle thread is given to do; `None` if nothing for long.
fn next(me: ThreadId, receiver: &Receiver<Job>) -> Option<Job> {
    loop {
        if let Ok(job) = receiver.recv_timeout(KEPT) {
            return Some(job);
        }
        // Whoever took this thread from the list has a job for it.
        let withdrawn = with_idle(|idle| {
            let place = idle.iter().position(|(id, _)| *id == me);
            place.map(|place| idle.remove(place)).is_some()
        });
        if withdrawn == Some(true) {
            return None;
        }
    }
}

/// Runs `work` on another thread and waits for it, calling `meanwhile` on this one every
/// so often. A panic of the work is returned.
///
/// # Errors
///
/// What the work panicked with.
pub fn beside<T: Send>(
    patience: Duration,
    work: impl FnOnce() -> T + Send,
    mut meanwhile: impl FnMut(),
) -> thread::Result<T> {
    let mut answer = None;
    let slot = &mut answer;
    let job: Box<dyn FnOnce() + Send + '_> = Box::new(move || *slot = Some(catch_unwind(AssertUnwindSafe(work))));
    // SAFETY: the job is run and gone, or dropped, before its sender below is; that one is
    // waited for before this function returns or unwinds.
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

/// Waits, when dropped, until the sender is.
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
                    // Some wait until all have been given out: none may wait for another.
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
