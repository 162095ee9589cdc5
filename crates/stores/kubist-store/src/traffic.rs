//! Counters of requests to the service or device that stores the bytes.

use std::time::Instant;

/// A completed request.
#[derive(Debug, Clone)]
pub struct Request {
    /// The time when the need for the request became known.
    pub asked: Instant,
    /// The time when the request limiter admitted it.
    pub sent: Instant,
    /// The time when the response was complete.
    pub answered: Instant,
    /// Size of the response, in bytes.
    pub bytes: u64,
    /// The host that responded; `None` for this machine.
    pub host: Option<String>,
    /// True if a local copy was read instead of the store.
    pub cached: bool,
}

/// Counts of the requests to a service, where retries inside a client count once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Reads of objects or ranges, and head requests.
    pub gets: u64,
    /// Puts, and parts of multipart uploads.
    pub puts: u64,
    /// Listings, with up to a thousand keys each.
    pub lists: u64,
    /// Deletions.
    pub deletes: u64,
    /// Received bytes.
    pub bytes_read: u64,
    /// Sent bytes.
    pub bytes_written: u64,
    /// Longest chain of requests in which each was sent after the response to the previous one.
    pub round_trips: u64,
    /// Use of the local cache, if there is one.
    pub cache: Option<CacheUse>,
}

impl Traffic {
    /// All requests.
    pub fn requests(&self) -> u64 {
        self.gets + self.puts + self.lists + self.deletes
    }
}

/// Reads that a cache served.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheUse {
    /// Blocks and objects found in the cache.
    pub hits: u64,
    /// Blocks and objects read from the store.
    pub misses: u64,
    /// Bytes of the hits.
    pub bytes: u64,
}

/// Counts the round trips of [`Traffic`], because always continuing with the earliest response gives the longest chain.
#[derive(Debug, Clone, Copy, Default)]
pub struct Chain {
    answered: Option<Instant>,
    /// The length of the chain.
    pub round_trips: u64,
}

impl Chain {
    /// Adds a request, in the order of responses.
    pub fn push(&mut self, sent: Instant, answered: Instant) {
        if self.answered.is_none_or(|before| sent >= before) {
            self.answered = Some(answered);
            self.round_trips += 1;
        }
    }
}

/// Receives completed requests, from any thread.
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
        for (sent, answered) in [(0, 30), (1, 31), (0, 40), (30, 60), (61, 90), (60, 95)] {
            chain.push(at(sent), at(answered));
        }
        assert_eq!(chain.round_trips, 3);
    }
}
