//! Costs of reads and queries.

use std::ops::AddAssign;

#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Bytes read, with gaps between requested ranges.
    pub bytes: u64,
    /// The part of `bytes` from local copies or decoded pages.
    pub bytes_cached: u64,
    pub round_trips: u64,
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Cost) {
        self.bytes += other.bytes;
        self.bytes_cached += other.bytes_cached;
        self.round_trips += other.round_trips;
    }
}

/// The cost of a query, which grows while the caller takes batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Stats {
    pub rows_returned: u64,
    /// Rows of zones with at least one decoded column.
    pub rows_read: u64,
    pub bytes_read: u64,
    /// Bytes from the local cache or decoded pages, included in `bytes_read`.
    pub bytes_cached: u64,
    pub pages_read: u64,
    pub cubes_visited: u64,
    /// Runs whose zones a secondary index selected; the others used their zone maps.
    pub runs_looked_up: u64,
    /// Requests to the store. One request reads all ranges needed from one file, and tasks send requests
    /// concurrently.
    pub round_trips: u64,
    /// Seconds from the start of the query to its last batch, or until now.
    pub seconds: f64,
}

impl Stats {
    pub fn spend(&mut self, cost: Cost) {
        self.bytes_read += cost.bytes;
        self.bytes_cached += cost.bytes_cached;
        self.round_trips += cost.round_trips;
    }

    /// Adds the counts of a part of the query, without its time and the rows returned.
    pub fn add(&mut self, part: &Stats) {
        self.rows_read += part.rows_read;
        self.bytes_read += part.bytes_read;
        self.bytes_cached += part.bytes_cached;
        self.pages_read += part.pages_read;
        self.cubes_visited += part.cubes_visited;
        self.runs_looked_up += part.runs_looked_up;
        self.round_trips += part.round_trips;
    }
}
