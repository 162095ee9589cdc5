//! Many small pieces of segments in few reads.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::Arc;

use bytes::Bytes;

use crate::checkpoint::{self, PAGES_SEGMENT};
use crate::error::{Error, Result, store_error};
use crate::table::Core;
use crate::trace;

/// Pieces closer than this are read in one go (block-index paper, threshold alpha * beta
/// / B): what a system call costs, from memory; the system itself reads ahead on a disk.
const MERGE_GAP: u64 = 4 << 10;
/// Pieces are merged up to this length, so that buffers stay small.
const MERGE_LIMIT: u64 = 4 << 20;

/// A stretch of a segment.
#[derive(Clone, Debug)]
pub struct Piece {
    pub segment: Arc<str>,
    pub offset: u64,
    pub length: u64,
}

pub struct Fetched {
    /// One for each piece, in their order.
    pub pieces: Vec<Bytes>,
    pub cost: Cost,
}

/// What reading cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Gaps between pieces included.
    pub bytes: u64,
    /// How often the store was asked.
    pub round_trips: u64,
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Cost) {
        self.bytes += other.bytes;
        self.round_trips += other.round_trips;
    }
}

pub fn fetch(core: &Core, pieces: &[Piece]) -> Result<Fetched> {
    let mut found = vec![Bytes::new(); pieces.len()];
    let mut cost = Cost::default();
    let mut segments: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (place, piece) in pieces.iter().enumerate() {
        segments.entry(&piece.segment).or_default().push(place);
    }
    for (segment, mut places) in segments {
        places.sort_unstable_by_key(|place| pieces[*place].offset);
        let mut ranges: Vec<std::ops::Range<u64>> = Vec::new();
        let mut range_of = Vec::with_capacity(places.len());
        for place in &places {
            let piece = &pieces[*place];
            let end = piece.offset + piece.length;
            match ranges.last_mut() {
                Some(range)
                    if piece.offset <= range.end + MERGE_GAP && end.max(range.end) - range.start <= MERGE_LIMIT =>
                {
                    range.end = range.end.max(end);
                }
                _ => ranges.push(piece.offset..end),
            }
            range_of.push(ranges.len() - 1);
        }
        let bytes = ranges.iter().map(|range| range.end - range.start).sum();
        cost += Cost { bytes, round_trips: 1 };
        let buffers =
            trace::read(core.store.as_ref(), segment, &ranges).map_err(|error| explain(core, segment, error))?;
        for (place, range) in places.into_iter().zip(range_of) {
            let start = (pieces[place].offset - ranges[range].start) as usize;
            found[place] = buffers[range].slice(start..start + pieces[place].length as usize);
        }
    }
    Ok(Fetched { pieces: found, cost })
}

/// A segment that is gone was cleaned away, or is damage if the table as it is
/// now still needs it.
fn explain(core: &Core, segment: &str, error: kubist_store::Error) -> Error {
    if let kubist_store::Error::Missing { file } = &error {
        if core.store.get(crate::table::TABLE).is_ok_and(|header| header.is_none()) {
            let why = "it was dropped after it was opened".into();
            return Error::NotATable { location: core.store.location().into(), why };
        }
        if is_needed(core, segment).is_ok_and(|needed| !needed) {
            let why = format!("{file} was cleaned away; take a fresh snapshot");
            return Error::SnapshotExpired { location: core.store.location().into(), why };
        }
    }
    store_error(error)
}

/// Is it a segment of the table as it is now?
fn is_needed(core: &Core, segment: &str) -> Result<bool> {
    if segment.starts_with(PAGES_SEGMENT) {
        return Ok(checkpoint::segments(core)?.iter().any(|named| &**named == segment));
    }
    let mut needed = false;
    core.view()?.runs.each(core, |run| needed |= &*run.payload.segment == segment)?;
    Ok(needed)
}
