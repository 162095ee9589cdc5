//! Reads many small byte ranges of segments with few requests.

use kubist_store::StoreExt;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use kubist_format::names::TABLE;
use kubist_types::{Cost, Error, Result};

use crate::error::{is_unread, store_error};
use crate::files::{GONE, TableFiles};
use crate::trace;

/// Ranges with smaller gaps, in bytes, are read together: alpha * beta / B of the block-index paper for data in memory,
/// where a read costs one system call.
const MERGE_GAP: u64 = 4 << 10;
const MERGE_LIMIT: u64 = 4 << 20;

#[derive(Clone, Debug)]
pub struct Piece {
    pub segment: Arc<str>,
    pub offset: u64,
    pub length: u64,
}

pub struct Fetched {
    pub pieces: Vec<Bytes>,
    pub cost: Cost,
}

#[derive(Default)]
struct Merged {
    ranges: Vec<Range<u64>>,
    pieces: Vec<(usize, usize)>,
}

impl Merged {
    /// Pieces must come in the order of their offsets.
    fn push(&mut self, index: usize, piece: &Piece, gap: u64) {
        let end = piece.offset + piece.length;
        match self.ranges.last_mut() {
            Some(range) if piece.offset <= range.end + gap && end.max(range.end) - range.start <= MERGE_LIMIT => {
                range.end = range.end.max(end);
            }
            _ => self.ranges.push(piece.offset..end),
        }
        self.pieces.push((index, self.ranges.len() - 1));
    }
}

enum Unread {
    Missing { segment: String, file: String },
    Failed(Error),
}

/// A missing segment was cleaned, or is damage if `is_needed`. On a store with delayed visibility, both are checked
/// again before damage is reported.
///
/// # Errors
///
/// `SnapshotExpired` if a segment was cleaned; `NotATable` if the table was dropped; `Replaced`; `Damaged`;
/// `Cancelled`; a storage error.
pub fn fetch(files: &TableFiles, pieces: &[Piece], is_needed: impl Fn(&str) -> Result<bool>) -> Result<Fetched> {
    let location = || files.store.location().to_string();
    let mut attempt = 0;
    loop {
        let (segment, file) = match fetch_once(files, pieces) {
            Ok(fetched) => return Ok(fetched),
            Err(Unread::Failed(error)) => return Err(error),
            Err(Unread::Missing { segment, file }) => (segment, file),
        };
        if files.store.get(TABLE).is_ok_and(|header| header.is_none()) {
            return Err(Error::NotATable { location: location(), why: GONE.into() });
        }
        match is_needed(&segment) {
            Ok(false) => {
                let why = format!("{file} was cleaned away; take a fresh snapshot");
                return Err(Error::SnapshotExpired { location: location(), why });
            }
            Err(error) if is_unread(&error) || matches!(error, Error::Cancelled | Error::Replaced { .. }) => {
                return Err(error);
            }
            _ => {}
        }
        if !files.store.look_again(attempt).map_err(store_error)? {
            return Err(store_error(kubist_store::Error::Missing { file }));
        }
        attempt += 1;
    }
}

fn fetch_once(files: &TableFiles, pieces: &[Piece]) -> std::result::Result<Fetched, Unread> {
    let mut found = vec![Bytes::new(); pieces.len()];
    let mut order: Vec<usize> = (0..pieces.len()).collect();
    order.sort_unstable_by_key(|index| pieces[*index].offset);
    // A partial copy may not hold the bytes between two pieces.
    let gap = if files.store.partial().is_some() { 0 } else { MERGE_GAP };
    let mut segments: BTreeMap<&str, Merged> = BTreeMap::new();
    for index in order {
        segments.entry(&pieces[index].segment).or_default().push(index, &pieces[index], gap);
    }
    let wanted: Vec<_> = segments.iter().map(|(segment, merged)| (*segment, &merged.ranges[..])).collect();
    let ranges = wanted.iter().flat_map(|(_, ranges)| *ranges);
    let bytes = ranges.map(|range| range.end - range.start).sum();
    let read = trace::read(files.store.as_ref(), &wanted).map_err(|error| Unread::Failed(store_error(error)))?;
    let round_trips = u64::from(!wanted.is_empty() && read.asked);
    let cost = Cost { bytes, bytes_cached: read.bytes_cached, round_trips };
    for ((segment, merged), buffers) in segments.iter().zip(read.answers) {
        let buffers = buffers.map_err(|error| match error {
            kubist_store::Error::Missing { file } => Unread::Missing { segment: segment.to_string(), file },
            error => Unread::Failed(store_error(error)),
        })?;
        for (index, range) in &merged.pieces {
            let start = (pieces[*index].offset - merged.ranges[*range].start) as usize;
            found[*index] = buffers[*range].slice(start..start + pieces[*index].length as usize);
        }
    }
    Ok(Fetched { pieces: found, cost })
}
