//! Where a run's bytes lie, and what its entry says of it beside.

use std::sync::Arc;

use kubist_index::cube::MAX_DIMENSIONS;

use crate::lookup::Lookup;
use crate::ranges::RunRanges;

/// Where a run's bytes lie, and the box around its points.
#[derive(Clone, Debug, PartialEq)]
pub struct Location {
    pub segment: Arc<str>,
    pub data_offset: u64,
    pub data_length: u64,
    pub map_offset: u64,
    pub map_length: u32,
    /// Smallest and largest coordinate of its rows in each dimension.
    pub low: [u32; MAX_DIMENSIONS],
    pub high: [u32; MAX_DIMENSIONS],
    /// The commit that wrote it; not stored with the run, and none for a rewrite's.
    pub origin: Option<Arc<Origin>>,
    /// Which zones hold a value; not stored with the run, and none if no lookup covers it.
    pub lookup: Option<Arc<Lookup>>,
    /// What it holds of columns that are no dimensions, as far as that is known; not stored with
    /// the run.
    pub ranges: Option<RunRanges>,
}

/// Tells the bytes of a run from all others: their segment, and where the zone map begins, which is never empty.
pub type Site = (Arc<str>, u64);

impl Location {
    /// Where its bytes are, by whatever name a run goes.
    pub fn site(&self) -> Site {
        (self.segment.clone(), self.map_offset)
    }

    /// The segments that it needs: its own, and that of the lookup which covers it.
    pub fn segments(&self) -> impl Iterator<Item = &Arc<str>> {
        std::iter::once(&self.segment).chain(self.lookup.as_ref().map(|lookup| &lookup.segment))
    }
}

/// Where a run was committed.
#[derive(Clone, Debug, PartialEq)]
pub struct Origin {
    pub writer: Arc<str>,
    /// Behind the commit's entry in the writer's log.
    pub position: u64,
    pub step: Option<i64>,
}
