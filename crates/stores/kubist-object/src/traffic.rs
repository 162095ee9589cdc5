//! Counters of requests, bytes and round trips.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use kubist_store::{Chain, Traffic};

#[derive(Debug, Default)]
pub struct Counts {
    gets: AtomicU64,
    puts: AtomicU64,
    lists: AtomicU64,
    deletes: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    chain: Mutex<Chain>,
}

/// A running request, which is dropped when the response arrives.
pub struct OnItsWay<'a> {
    counts: &'a Counts,
    sent: Instant,
}

impl Drop for OnItsWay<'_> {
    fn drop(&mut self) {
        let mut chain = self.counts.chain.lock().unwrap_or_else(PoisonError::into_inner);
        chain.push(self.sent, Instant::now());
    }
}

impl Counts {
    pub fn send(&self) -> OnItsWay<'_> {
        OnItsWay { counts: self, sent: Instant::now() }
    }

    pub fn got(&self, bytes: u64) {
        self.gets.fetch_add(1, Ordering::Relaxed);
        self.bytes_read.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn put(&self, bytes: u64) {
        self.puts.fetch_add(1, Ordering::Relaxed);
        self.bytes_written.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a listing, whose pages of a thousand keys are requested in sequence.
    pub fn listed(&self, keys: u64) {
        self.lists.fetch_add(1 + keys / 1000, Ordering::Relaxed);
        let mut chain = self.chain.lock().unwrap_or_else(PoisonError::into_inner);
        chain.round_trips += keys / 1000;
    }

    pub fn deleted(&self) {
        self.deletes.fetch_add(1, Ordering::Relaxed);
    }

    pub fn so_far(&self) -> Traffic {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Traffic {
            gets: of(&self.gets),
            puts: of(&self.puts),
            lists: of(&self.lists),
            deletes: of(&self.deletes),
            bytes_read: of(&self.bytes_read),
            bytes_written: of(&self.bytes_written),
            round_trips: self.chain.lock().unwrap_or_else(PoisonError::into_inner).round_trips,
            cache: None,
        }
    }
}
