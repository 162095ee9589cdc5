//! The held pieces of the source's segments.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

/// Longer ranges are held as several pieces, because a piece is read whole for its checksum.
pub const PIECE_BYTES: u64 = 256 << 10;

/// Where a piece is in the copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its range in the segment of the source.
    pub range: Range<u64>,
    /// The segment of the copy.
    pub held_in: Arc<str>,
    /// Its offset there.
    pub offset: u64,
    pub checksum: u32,
}

/// Pieces by segment and first byte. They do not overlap.
#[derive(Debug, Default)]
pub struct Index {
    segments: HashMap<String, BTreeMap<u64, Piece>>,
    bytes: u64,
}

impl Index {
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a piece that overlaps no other.
    pub fn add(&mut self, segment: &str, piece: Piece) {
        self.bytes += piece.range.end - piece.range.start;
        self.segments.entry(segment.into()).or_default().insert(piece.range.start, piece);
    }

    /// Removes all pieces with a byte of the range.
    pub fn forget(&mut self, segment: &str, range: &Range<u64>) {
        let Some(pieces) = self.segments.get_mut(segment) else { return };
        let gone: Vec<u64> = meeting(pieces, range).map(|piece| piece.range.start).collect();
        for start in gone {
            if let Some(piece) = pieces.remove(&start) {
                self.bytes -= piece.range.end - piece.range.start;
            }
        }
    }

    /// The pieces with bytes of a range, in order, and the parts of the range that no piece has.
    pub fn find(&self, segment: &str, range: &Range<u64>) -> (Vec<Piece>, Vec<Range<u64>>) {
        let (mut found, mut gaps, mut at) = (Vec::new(), Vec::new(), range.start);
        if range.is_empty() {
            return (found, gaps);
        }
        for piece in self.segments.get(segment).into_iter().flat_map(|pieces| meeting(pieces, range)) {
            if at < piece.range.start {
                gaps.push(at..piece.range.start);
            }
            at = piece.range.end;
            found.push(piece.clone());
        }
        if at < range.end {
            gaps.push(at..range.end);
        }
        (found, gaps)
    }
}

fn meeting<'a>(pieces: &'a BTreeMap<u64, Piece>, range: &Range<u64>) -> impl Iterator<Item = &'a Piece> + use<'a> {
    let before = pieces.range(..=range.start).next_back().map_or(range.start, |(start, _)| *start);
    let first = range.start;
    pieces.range(before..range.end.max(before)).map(|(_, piece)| piece).filter(move |piece| piece.range.end > first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(range: Range<u64>) -> Piece {
        Piece { range, held_in: "held-1".into(), offset: 0, checksum: 0 }
    }

    #[test]
    fn gaps_are_exactly_the_bytes_that_no_piece_has() {
        let mut index = Index::default();
        for range in [10..20, 20..30, 50..60] {
            index.add("s", piece(range));
        }
        for first in 0..70 {
            for end in first..=70 {
                let (found, gaps) = index.find("s", &(first..end));
                let is_held = |byte: &u64| (10..30).contains(byte) || (50..60).contains(byte);
                let missing: Vec<u64> = gaps.into_iter().flatten().collect();
                assert_eq!(missing, (first..end).filter(|byte| !is_held(byte)).collect::<Vec<_>>());
                let met = (first..end).filter(is_held);
                let met = met.map(|byte| {
                    if byte < 20 {
                        10
                    } else if byte < 30 {
                        20
                    } else {
                        50
                    }
                });
                let mut met: Vec<u64> = met.collect();
                met.dedup();
                assert_eq!(found.iter().map(|piece| piece.range.start).collect::<Vec<_>>(), met);
            }
        }
        assert_eq!(index.bytes(), 30);
        index.forget("s", &(19..21));
        assert_eq!((index.bytes(), index.find("s", &(0..70)).1), (10, vec![0..50, 60..70]));
        assert_eq!(index.find("t", &(3..4)).1, vec![3..4]);
    }
}
