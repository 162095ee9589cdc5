//! Rows, bytes, pages and round trips that a read took.

use std::ops::AddAssign;

/// What reading cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Gaps between pieces included.
    pub bytes: u64,
    /// Of these, those of copies on this machine, or of pages that are kept decoded.
    pub bytes_cached: u64,
    /// How often the store was asked.
    pub round_trips: u64,
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Cost) {
        self.bytes += other.bytes;
        self.bytes_cached += other.bytes_cached;
        self.round_trips += other.round_trips;
    }
}

/// What a query cost. Counts grow while its batches are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Stats {
    pub rows_returned: u64,
    /// Every row of every zone that was decoded in at least one column.
    pub rows_read: u64,
    pub bytes_read: u64,
    /// Of these, those that the local cache had, or of pages that are kept decoded.
    pub bytes_cached: u64,
    pub pages_read: u64,
    pub cubes_visited: u64,
    /// Runs of which a lookup told which zones hold the values asked for, if any do; the
    /// others were read by their zone maps.
    pub runs_looked_up: u64,
    /// How often the store was asked for bytes, each time for all that was known to be
    /// needed of one file; tasks ask side by side.
    pub round_trips: u64,
    /// Since the query began, until its last batch (or now).
    pub seconds: f64,
}

impl Stats {
    /// Adds what reading cost.
    pub fn spend(&mut self, cost: Cost) {
        self.bytes_read += cost.bytes;
        self.bytes_cached += cost.bytes_cached;
        self.round_trips += cost.round_trips;
    }

    /// Adds the counts of a part; time and rows returned are the caller's.
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
