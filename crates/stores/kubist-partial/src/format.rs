//! The bytes of a partial copy.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::index::Piece;
use crate::manifest::{LogEnd, Manifest};

pub const VERSION: u32 = 1;

/// The object that marks a partial copy.
pub const HEAD: &str = "partial";
/// The log of the held pieces.
pub const HELD: &str = "held";
pub const MANIFESTS: &str = "manifests/";
pub const HELD_SEGMENT: &str = "held-";

/// The object `partial`, as JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Head {
    pub format_version: u32,
    /// The location of the source.
    pub source: String,
}

/// Why stored bytes cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub enum Wrong {
    Damaged,
    /// A newer version wrote it.
    Newer(u32),
}

/// An entry of the log `held`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// The manifest with this number counts from now on.
    Manifest(u64),
    /// A query that the copy is made for. `is_held` says that all its bytes have arrived.
    Wanted {
        is_held: bool,
        query: Vec<u8>,
    },
    /// Pieces of the source's segments, each in order.
    Held(Vec<(String, Piece)>),
    Forgotten {
        segment: String,
        range: Range<u64>,
    },
}

#[derive(Default)]
struct Output(Vec<u8>);

impl Output {
    fn u32(&mut self, number: u32) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn u64(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.u64(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, count: u64) -> Result<&'a [u8], Wrong> {
        let count = usize::try_from(count).map_err(|_| Wrong::Damaged)?;
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Wrong::Damaged)?;
        self.0 = rest;
        Ok(taken)
    }

    fn u32(&mut self) -> Result<u32, Wrong> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into().expect("four bytes")))
    }

    fn u64(&mut self) -> Result<u64, Wrong> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().expect("eight bytes")))
    }

    fn bytes(&mut self) -> Result<&'a [u8], Wrong> {
        let length = self.u64()?;
        self.take(length)
    }

    fn text(&mut self) -> Result<String, Wrong> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| Wrong::Damaged)
    }

    fn range(&mut self) -> Result<Range<u64>, Wrong> {
        let (start, end) = (self.u64()?, self.u64()?);
        if start <= end { Ok(start..end) } else { Err(Wrong::Damaged) }
    }

    fn end<T>(self, found: T) -> Result<T, Wrong> {
        if self.0.is_empty() { Ok(found) } else { Err(Wrong::Damaged) }
    }
}

impl Entry {
    pub fn encode(&self) -> Vec<u8> {
        let mut output = Output::default();
        match self {
            Entry::Manifest(number) => {
                output.u32(1);
                output.u64(*number);
            }
            Entry::Wanted { is_held, query } => {
                output.u32(if *is_held { 3 } else { 2 });
                output.bytes(query);
            }
            Entry::Held(pieces) => {
                output.u32(4);
                for of_place in pieces.chunk_by(|(a, one), (b, next)| a == b && one.held_in == next.held_in) {
                    let (segment, first) = &of_place[0];
                    output.bytes(segment.as_bytes());
                    output.bytes(first.held_in.as_bytes());
                    output.u32(of_place.len() as u32);
                    for (_, piece) in of_place {
                        output.u64(piece.range.start);
                        output.u64(piece.range.end);
                        output.u64(piece.offset);
                        output.u32(piece.checksum);
                    }
                }
            }
            Entry::Forgotten { segment, range } => {
                output.u32(5);
                output.bytes(segment.as_bytes());
                output.u64(range.start);
                output.u64(range.end);
            }
        }
        output.0
    }

    pub fn decode(bytes: &[u8]) -> Result<Entry, Wrong> {
        let mut input = Input(bytes);
        let entry = match input.u32()? {
            1 => Entry::Manifest(input.u64()?),
            kind @ (2 | 3) => Entry::Wanted { is_held: kind == 3, query: input.bytes()?.to_vec() },
            4 => {
                let mut pieces = Vec::new();
                while !input.0.is_empty() {
                    let (segment, held_in) = (input.text()?, input.text()?.into());
                    for _ in 0..input.u32()? {
                        let (range, offset, checksum) = (input.range()?, input.u64()?, input.u32()?);
                        let piece = Piece { range, held_in: std::sync::Arc::clone(&held_in), offset, checksum };
                        pieces.push((segment.clone(), piece));
                    }
                }
                Entry::Held(pieces)
            }
            5 => Entry::Forgotten { segment: input.text()?, range: input.range()? },
            newer => return Err(Wrong::Newer(newer)),
        };
        input.end(entry)
    }
}

impl Manifest {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut output = Output::default();
        output.u32(VERSION);
        output.u32(self.objects.len() as u32);
        for (name, value) in &self.objects {
            output.bytes(name.as_bytes());
            output.bytes(value);
        }
        output.u32(self.logs.len() as u32);
        for (writer, log) in &self.logs {
            output.bytes(writer.as_bytes());
            [log.from, log.next, log.durable].into_iter().for_each(|position| output.u64(position));
            output.u32(log.entries.len() as u32);
            for (position, entry) in &log.entries {
                output.u64(*position);
                output.bytes(entry);
            }
        }
        output.u32(self.segments.len() as u32);
        for (name, length) in &self.segments {
            output.bytes(name.as_bytes());
            output.u64(*length);
        }
        output.u64(self.source_bytes);
        output.0
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Manifest, Wrong> {
        let mut input = Input(bytes);
        match input.u32()? {
            VERSION => {}
            newer => return Err(Wrong::Newer(newer)),
        }
        let mut manifest = Manifest::default();
        for _ in 0..input.u32()? {
            let (name, value) = (input.text()?, input.bytes()?.to_vec().into());
            manifest.objects.insert(name, value);
        }
        for _ in 0..input.u32()? {
            let writer = input.text()?;
            let (from, next, durable) = (input.u64()?, input.u64()?, input.u64()?);
            let mut log = LogEnd { from, next, durable, ..LogEnd::default() };
            for _ in 0..input.u32()? {
                let (position, entry) = (input.u64()?, input.bytes()?.to_vec().into());
                log.entries.insert(position, entry);
            }
            manifest.logs.insert(writer, log);
        }
        for _ in 0..input.u32()? {
            let (name, length) = (input.text()?, input.u64()?);
            manifest.segments.insert(name, length);
        }
        manifest.source_bytes = input.u64()?;
        input.end(manifest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_and_manifests_come_back_and_cut_ones_are_refused() {
        let piece = |start: u64, held_in: &str| Piece {
            range: start..start + 7,
            held_in: held_in.into(),
            offset: 16 + start,
            checksum: 5,
        };
        let pieces = [("a", 1, "held-1"), ("a", 9, "held-1"), ("a", 20, "held-2"), ("b", 1, "held-2")];
        let entries = [
            Entry::Manifest(3),
            Entry::Wanted { is_held: false, query: b"{}".to_vec() },
            Entry::Wanted { is_held: true, query: vec![] },
            Entry::Held(pieces.map(|(name, start, held_in)| (name.to_string(), piece(start, held_in))).to_vec()),
            Entry::Forgotten { segment: "a".into(), range: 3..9 },
        ];
        for entry in entries {
            let bytes = entry.encode();
            assert_eq!(Entry::decode(&bytes).as_ref(), Ok(&entry));
            // A list of pieces may end after each segment.
            let cut = (4..bytes.len()).filter(|end| Entry::decode(&bytes[..*end]).is_ok()).count();
            assert!(cut <= 3, "{entry:?}");
        }
        assert_eq!(Entry::decode(&9u32.to_le_bytes()), Err(Wrong::Newer(9)));
        let log = LogEnd { from: 16, next: 40, durable: 40, entries: [(16, vec![1, 2].into())].into() };
        let manifest = Manifest {
            objects: [("table".to_string(), vec![7; 9].into())].into(),
            logs: [("w".to_string(), log)].into(),
            segments: [("w-1".to_string(), 99)].into(),
            source_bytes: 1234,
        };
        let bytes = manifest.encode();
        assert_eq!(Manifest::decode(&bytes), Ok(manifest));
        assert!((0..bytes.len()).all(|end| Manifest::decode(&bytes[..end]).is_err()));
    }
}
