//! The location of a run's bytes, and further data of its entry.

use std::sync::Arc;

use kubist_index::cube::MAX_DIMENSIONS;

use crate::lookup::Lookup;
use crate::ranges::RunRanges;

#[derive(Clone, Debug, PartialEq)]
pub struct Location {
    pub segment: Arc<str>,
    pub data_offset: u64,
    pub data_length: u64,
    pub map_offset: u64,
    pub map_length: u32,
    /// Smallest and largest row coordinate by dimension.
    pub low: [u32; MAX_DIMENSIONS],
    pub high: [u32; MAX_DIMENSIONS],
    /// The commit that wrote it, not stored with the run; `None` for runs of a rewrite.
    pub origin: Option<Arc<Origin>>,
    /// The secondary index over the run; not stored with the run.
    pub lookup: Option<Arc<Lookup>>,
    /// Ranges of columns that are not dimensions; not stored with the run.
    pub ranges: Option<RunRanges>,
}

/// Identifies a run's bytes: the segment, and the position of the zone map, which is never empty.
pub type Site = (Arc<str>, u64);

impl Location {
    pub fn site(&self) -> Site {
        (self.segment.clone(), self.map_offset)
    }

    /// Its own segment, and the segment of its secondary index.
    pub fn segments(&self) -> impl Iterator<Item = &Arc<str>> {
        std::iter::once(&self.segment).chain(self.lookup.as_ref().map(|lookup| &lookup.segment))
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Origin {
    pub writer: Arc<str>,
    /// The position after the commit's entry in the writer's log.
    pub position: u64,
    pub step: Option<i64>,
}
