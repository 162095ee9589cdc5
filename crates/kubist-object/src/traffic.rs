//! How often the service was asked, and how many bytes went either way.

use std::sync::atomic::{AtomicU64, Ordering};

/// Requests and bytes since a store was opened. What the client repeats of itself counts once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads of objects, or of parts of them, and looks at them.
    pub gets: u64,
    /// Puts, and parts of long ones.
    pub puts: u64,
    /// Listings, a thousand keys each.
    pub lists: u64,
    /// Deletions.
    pub deletes: u64,
    /// Bytes that came.
    pub bytes_read: u64,
    /// Bytes that went.
    pub bytes_written: u64,
}

/// The same, while they grow.
#[derive(Debug, Default)]
pub struct Traffic {
    gets: AtomicU64,
    puts: AtomicU64,
    lists: AtomicU64,
    deletes: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
}

impl Traffic {
    pub fn got(&self, bytes: u64) {
        self.gets.fetch_add(1, Ordering::Relaxed);
        self.bytes_read.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn put(&self, bytes: u64) {
        self.puts.fetch_add(1, Ordering::Relaxed);
        self.bytes_written.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn listed(&self, keys: u64) {
        self.lists.fetch_add(1 + keys / 1000, Ordering::Relaxed);
    }

    pub fn deleted(&self) {
        self.deletes.fetch_add(1, Ordering::Relaxed);
    }

    pub fn counts(&self) -> Counts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts {
            gets: of(&self.gets),
            puts: of(&self.puts),
            lists: of(&self.lists),
            deletes: of(&self.deletes),
            bytes_read: of(&self.bytes_read),
            bytes_written: of(&self.bytes_written),
        }
    }
}
