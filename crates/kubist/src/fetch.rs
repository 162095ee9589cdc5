//! Many small pieces of segments in few reads.

use std::collections::BTreeMap;
use std::ops::{AddAssign, Range};
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

/// Ranges of a segment, and the pieces that lie in them.
#[derive(Default)]
struct Merged {
    ranges: Vec<Range<u64>>,
    /// Each piece's place, and that of its range.
    pieces: Vec<(usize, usize)>,
}

impl Merged {
    /// Takes a piece that begins behind those before.
    fn push(&mut self, place: usize, piece: &Piece) {
        let end = piece.offset + piece.length;
        match self.ranges.last_mut() {
            Some(range) if piece.offset <= range.end + MERGE_GAP && end.max(range.end) - range.start <= MERGE_LIMIT => {
                range.end = range.end.max(end);
            }
            _ => self.ranges.push(piece.offset..end),
        }
        self.pieces.push((place, self.ranges.len() - 1));
    }
}

/// Asks the store once for all pieces.
pub fn fetch(core: &Core, pieces: &[Piece]) -> Result<Fetched> {
    let mut found = vec![Bytes::new(); pieces.len()];
    let mut places: Vec<usize> = (0..pieces.len()).collect();
    places.sort_unstable_by_key(|place| pieces[*place].offset);
    let mut segments: BTreeMap<&str, Merged> = BTreeMap::new();
    for place in places {
        segments.entry(&pieces[place].segment).or_default().push(place, &pieces[place]);
    }
    let wanted: Vec<_> = segments.iter().map(|(segment, merged)| (*segment, &merged.ranges[..])).collect();
    let ranges = wanted.iter().flat_map(|(_, ranges)| *ranges);
    let bytes = ranges.map(|range| range.end - range.start).sum();
    let cost = Cost { bytes, round_trips: u64::from(!wanted.is_empty()) };
    let buffers = trace::read(core.store.as_ref(), &wanted).map_err(store_error)?;
    for ((segment, merged), buffers) in segments.iter().zip(buffers) {
        let buffers = buffers.map_err(|error| explain(core, segment, error))?;
        for (place, range) in &merged.pieces {
            let start = (pieces[*place].offset - merged.ranges[*range].start) as usize;
            found[*place] = buffers[*range].slice(start..start + pieces[*place].length as usize);
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
