//! Requests to whatever keeps the bytes, counted.

use std::time::Instant;

/// A request to whatever keeps the bytes, when it is over.
#[derive(Debug, Clone)]
pub struct Request {
    /// It was known to be needed.
    pub asked: Instant,
    /// The limiter of requests let it go.
    pub sent: Instant,
    /// The answer was there.
    pub answered: Instant,
    /// How many bytes it had.
    pub bytes: u64,
    /// Who answered; `None`: this machine.
    pub host: Option<String>,
    /// A copy on this machine was read, and the store not asked.
    pub cached: bool,
}

/// What was asked of a service. What a client repeats of itself counts once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
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
    /// The longest chain of requests of which each was sent after the one before was answered.
    pub round_trips: u64,
    /// What copies on this machine answered, if any are kept.
    pub cache: Option<CacheUse>,
}

impl Traffic {
    /// All requests.
    pub fn requests(&self) -> u64 {
        self.gets + self.puts + self.lists + self.deletes
    }
}

/// What a cache answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheUse {
    /// Blocks and objects that were in it.
    pub hits: u64,
    /// Those that were not, and were read from the store.
    pub misses: u64,
    /// Bytes of the hits.
    pub bytes: u64,
}

/// Counts round trips: the longest chain of requests of which each was sent after the one before
/// was answered. Greedy by the earliest answer, which gives the most.
#[derive(Debug, Clone, Copy, Default)]
pub struct Chain {
    answered: Option<Instant>,
    /// How long it is.
    pub round_trips: u64,
}

impl Chain {
    /// Takes a request. They come in the order of their answers.
    pub fn push(&mut self, sent: Instant, answered: Instant) {
        if self.answered.is_none_or(|before| sent >= before) {
            self.answered = Some(answered);
            self.round_trips += 1;
        }
    }
}

/// Takes requests, from any thread.
pub type Watch<'a> = &'a (dyn Fn(Request) + Sync);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_chain_counts_what_waits_for_each_other() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let mut chain = Chain::default();
        // Three side by side, one behind the first of them, two behind that one.
        for (sent, answered) in [(0, 30), (1, 31), (0, 40), (30, 60), (61, 90), (60, 95)] {
            chain.push(at(sent), at(answered));
        }
        assert_eq!(chain.round_trips, 3);
    }
}
