//! Room for the requests of a store that are on their way at once: whoever finds none waits,
//! so no cluster gets more than it can bear, and no client holds more than it can take.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::pace::Pace;

/// What a request costs besides its bytes is what so many of them do.
const BYTES_OF_A_REQUEST: f64 = 32_768.0;

#[derive(Debug)]
pub struct Room {
    places: Semaphore,
    state: Mutex<State>,
    /// There are never more places.
    most: usize,
}

#[derive(Debug)]
struct State {
    pace: Pace,
    /// Places that go when they are free.
    surplus: usize,
}

/// A request on its way.
pub struct Stay<'a> {
    room: &'a Room,
    place: SemaphorePermit<'a>,
    begin: Instant,
    /// There was no more room behind it.
    full: bool,
}

impl Room {
    pub fn new(begin: usize, least: usize, most: usize) -> Room {
        let pace = Pace::new(begin, least, most);
        Room { places: Semaphore::new(pace.limit()), state: Mutex::new(State { pace, surplus: 0 }), most }
    }

    /// More requests at once never find room.
    pub fn most(&self) -> usize {
        self.most
    }

    pub async fn enter(&self) -> Stay<'_> {
        let place = self.places.acquire().await.expect("it is never closed");
        let full = self.places.available_permits() == 0;
        Stay { room: self, place, begin: Instant::now(), full }
    }

    /// A request could not be served.
    pub fn failed(&self) {
        self.adapt(self.state(), Pace::failed);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn adapt(&self, mut state: MutexGuard<'_, State>, learn: impl FnOnce(&mut Pace)) {
        let before = state.pace.limit();
        learn(&mut state.pace);
        let after = state.pace.limit();
        if after < before {
            let gone = self.places.forget_permits(before - after);
            state.surplus += before - after - gone;
        } else {
            let kept = state.surplus.min(after - before);
            state.surplus -= kept;
            self.places.add_permits(after - before - kept);
        }
    }
}

impl Stay<'_> {
    /// It was answered, and asked for so many bytes or brought them.
    pub fn end(self, bytes: usize) {
        let Stay { room, place, begin, full } = self;
        let mut state = room.state();
        if state.surplus > 0 {
            state.surplus -= 1;
            place.forget();
        }
        if full {
            let work = 1.0 + bytes as f64 / BYTES_OF_A_REQUEST;
            room.adapt(state, |pace| pace.answered(work, begin.elapsed().as_secs_f64()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn places_follow_the_pace() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let room = Room::new(8, 2, 64);
            let mut inside = Vec::new();
            for _ in 0..8 {
                inside.push(room.enter().await);
            }
            assert!(inside.pop().unwrap().full);
            room.failed();
            // Four remain; seven are inside, and one that is free goes at once.
            assert_eq!(room.places.available_permits(), 0);
            for stay in inside.drain(..3) {
                stay.end(0);
            }
            assert_eq!(room.places.available_permits(), 0);
            inside.pop().unwrap().end(0);
            assert_eq!(room.places.available_permits(), 1);
            // Who is cancelled gives its place back.
            inside.clear();
            assert_eq!(room.places.available_permits(), 4);
            let all = async { [room.enter().await, room.enter().await, room.enter().await, room.enter().await].len() };
            let more = async {
                let _all = [room.enter().await, room.enter().await, room.enter().await, room.enter().await];
                tokio::time::timeout(Duration::ZERO, room.enter()).await.is_err()
            };
            assert!(more.await);
            assert_eq!(all.await, 4);
        });
    }
}
