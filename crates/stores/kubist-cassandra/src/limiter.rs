//! Limits the concurrent requests of a store, so that neither the cluster nor this client is overloaded.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::request_limit::RequestLimit;

/// The fixed cost of a request, expressed in bytes.
const BYTES_OF_A_REQUEST: f64 = 32_768.0;

#[derive(Debug)]
pub struct Limiter {
    permits: Semaphore,
    state: Mutex<State>,
    most: usize,
}

#[derive(Debug)]
struct State {
    limit: RequestLimit,
    surplus: usize,
}

/// A permit for a request, which a drop returns.
pub struct Permit<'a> {
    limiter: &'a Limiter,
    permit: SemaphorePermit<'a>,
    begin: Instant,
    full: bool,
}

impl Limiter {
    pub fn new(begin: usize, least: usize, most: usize) -> Limiter {
        let limit = RequestLimit::new(begin, least, most);
        Limiter { permits: Semaphore::new(limit.now()), state: Mutex::new(State { limit, surplus: 0 }), most }
    }

    pub fn most(&self) -> usize {
        self.most
    }

    pub async fn permit(&self) -> Permit<'_> {
        let permit = self.permits.acquire().await.expect("it is never closed");
        let full = self.permits.available_permits() == 0;
        Permit { limiter: self, permit, begin: Instant::now(), full }
    }

    pub fn failed(&self) {
        self.adapt(self.state(), RequestLimit::failed);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn adapt(&self, mut state: MutexGuard<'_, State>, learn: impl FnOnce(&mut RequestLimit)) {
        let before = state.limit.now();
        learn(&mut state.limit);
        let after = state.limit.now();
        if after < before {
            let gone = self.permits.forget_permits(before - after);
            state.surplus += before - after - gone;
        } else {
            let kept = state.surplus.min(after - before);
            state.surplus -= kept;
            self.permits.add_permits(after - before - kept);
        }
    }
}

impl Permit<'_> {
    pub fn end(self, bytes: usize) {
        let Permit { limiter, permit, begin, full } = self;
        let mut state = limiter.state();
        if state.surplus > 0 {
            state.surplus -= 1;
            permit.forget();
        }
        if full {
            let work = 1.0 + bytes as f64 / BYTES_OF_A_REQUEST;
            limiter.adapt(state, |limit| limit.answered(work, begin.elapsed().as_secs_f64()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn permits_follow_the_limit() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let limiter = Limiter::new(8, 2, 64);
            let mut inside = Vec::new();
            for _ in 0..8 {
                inside.push(limiter.permit().await);
            }
            assert!(inside.pop().unwrap().full);
            limiter.failed();
            // Four remain, because seven are in use and the free one is withdrawn.
            assert_eq!(limiter.permits.available_permits(), 0);
            for permit in inside.drain(..3) {
                permit.end(0);
            }
            assert_eq!(limiter.permits.available_permits(), 0);
            inside.pop().unwrap().end(0);
            assert_eq!(limiter.permits.available_permits(), 1);
            inside.clear();
            assert_eq!(limiter.permits.available_permits(), 4);
            let all = async {
                [limiter.permit().await, limiter.permit().await, limiter.permit().await, limiter.permit().await].len()
            };
            let more = async {
                let _all =
                    [limiter.permit().await, limiter.permit().await, limiter.permit().await, limiter.permit().await];
                tokio::time::timeout(Duration::ZERO, limiter.permit()).await.is_err()
            };
            assert!(more.await);
            assert_eq!(all.await, 4);
        });
    }
}
