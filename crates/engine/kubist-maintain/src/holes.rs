//! Positions of live runs in segments, and the holes between them.
//!
//! Positions are rounded outwards to the store's blocks. Memory holds the live ranges per segment, which are few if
//! most of the segment is live or most is dead.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use kubist_format::location::Location;
use kubist_format::lookup::Key;
use kubist_index::state::Run;
use kubist_store::BLOCK_BYTES;

/// The shortest hole, in blocks: making a shorter one takes as long as writing it.
const LEAST_BLOCKS: u64 = 4;

#[derive(Default)]
pub struct LiveParts {
    segments: HashMap<Arc<str>, BTreeMap<u64, u64>>,
    lookups: HashSet<Key>,
}

impl LiveParts {
    pub fn add(&mut self, run: &Run<Location>) {
        let place = &run.payload;
        self.mark(&place.segment, place.data_offset, place.data_length);
        self.mark(&place.segment, place.map_offset, place.map_length.into());
        if let Some(lookup) = place.lookup.as_ref().filter(|lookup| !self.lookups.contains(&lookup.key())) {
            self.lookups.insert(lookup.key());
            for of_column in &lookup.columns {
                self.mark(&lookup.segment, of_column.offset, of_column.length());
            }
        }
    }

    fn mark(&mut self, segment: &Arc<str>, offset: u64, length: u64) {
        let parts = match self.segments.get_mut(segment) {
            Some(parts) => parts,
            None => self.segments.entry(segment.clone()).or_default(),
        };
        let (mut first, mut end) = (offset / BLOCK_BYTES, offset.saturating_add(length).div_ceil(BLOCK_BYTES));
        if let Some((before, until)) = parts.range(..=first).next_back().filter(|(_, until)| **until >= first) {
            (first, end) = (*before, end.max(*until));
        }
        while let Some((joined, until)) = parts.range(first..=end).next().map(|(joined, until)| (*joined, *until)) {
            parts.remove(&joined);
            end = end.max(until);
        }
        parts.insert(first, end);
    }

    pub fn contains(&self, segment: &str) -> bool {
        self.segments.contains_key(segment)
    }

    pub fn end(&self, segment: &str) -> u64 {
        let last = self.segments.get(segment).and_then(BTreeMap::last_key_value);
        last.map_or(0, |(_, end)| end.saturating_mul(BLOCK_BYTES))
    }

    /// Whole blocks in the first `length` bytes, without the first, where an engine may store its own data.
    pub fn holes(&self, segment: &str, length: u64) -> Vec<Range<u64>> {
        let (mut at, end, mut holes) = (1, length / BLOCK_BYTES, Vec::new());
        let parts = self.segments.get(segment).into_iter().flatten();
        for (first, until) in parts.map(|(first, until)| (*first, *until)).chain([(end, end)]) {
            let hole = at..first.min(end);
            if hole.end >= hole.start + LEAST_BLOCKS {
                holes.push(hole.start * BLOCK_BYTES..hole.end * BLOCK_BYTES);
            }
            at = at.max(until);
        }
        holes
    }

    pub fn holes_in(&self, segment: &str, ranges: &[Range<u64>]) -> Vec<Range<u64>> {
        let holes = self.holes(segment, ranges.iter().map(|range| range.end).max().unwrap_or(0));
        let (mut holes, mut ranges, mut both) = (&holes[..], ranges, Vec::new());
        while let ([hole, more_holes @ ..], [range, more_ranges @ ..]) = (holes, ranges) {
            let common = hole.start.max(range.start)..hole.end.min(range.end);
            both.extend(Some(common).filter(|common| !common.is_empty()));
            match hole.end < range.end {
                true => holes = more_holes,
                false => ranges = more_ranges,
            }
        }
        both
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const B: u64 = BLOCK_BYTES;

    #[test]
    fn holes_are_what_no_live_byte_is_in() {
        let segment: Arc<str> = "s".into();
        // Compares with a bitmap of all blocks, marked in random order.
        for seed in 0..300u64 {
            let mut state = seed;
            let mut below = |end: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) % end
            };
            let (mut live, length) = (LiveParts::default(), 100 * B + below(B));
            let mut map = [false; 101];
            map[0] = true;
            for _ in 0..below(12) {
                let (offset, bytes) = (below(length), below(6 * B));
                live.mark(&segment, offset, bytes);
                let blocks = offset / B..(offset + bytes).div_ceil(B);
                map.iter_mut().zip(0..).filter(|(_, block)| blocks.contains(block)).for_each(|(live, _)| *live = true);
            }
            let mut expected: Vec<Range<u64>> = Vec::new();
            for block in (0..length / B).filter(|block| !map[*block as usize]) {
                match expected.last_mut().filter(|last| last.end == block * B) {
                    Some(last) => last.end += B,
                    None => expected.push(block * B..block * B + B),
                }
            }
            expected.retain(|hole| hole.end - hole.start >= LEAST_BLOCKS * B);
            let found = live.holes("s", length);
            assert_eq!(found, expected, "SEED={seed}");
            let some = [below(40) * B..50 * B, 60 * B..(61 + below(40)) * B];
            for part in live.holes_in("s", &some) {
                let lies_in = |of: &[Range<u64>]| of.iter().any(|one| one.start <= part.start && part.end <= one.end);
                assert!(lies_in(&found) && lies_in(&some), "SEED={seed}: {part:?}");
            }
            assert_eq!(live.holes_in("s", &[0..length]), found);
        }
        assert_eq!(LiveParts::default().end("s"), 0);
    }

    #[test]
    fn places_beyond_all_bytes_are_taken_as_they_are() {
        let (segment, mut live): (Arc<str>, _) = ("s".into(), LiveParts::default());
        live.mark(&segment, u64::MAX - 5, u64::MAX);
        live.mark(&segment, 0, 0);
        assert_eq!(live.holes("s", 20 * B), [B..20 * B]);
        assert!(live.end("s") >= u64::MAX - B);
    }
}
