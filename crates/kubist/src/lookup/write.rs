//! Postings on their way to a segment: gathered run by run, written once there are
//! enough of them, so that memory stays bounded and few keys are said twice.

use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use arrow_buffer::NullBuffer;
use kubist_index::state::Run;
use kubist_store::Segment;
use rayon::prelude::*;

use super::postings::{self, Encoded};
use super::{Lookup, OfColumn, keys};
use crate::entry::Location;
use crate::error::{Result, store_error};
use crate::table::Core;

/// Bytes of one row's posting in memory.
const PAIR_BYTES: usize = 8;
/// Fewer rows are not worth postings of their own, however little memory there is.
const FEWEST_ROWS: usize = 1 << 10;
/// Parts of a column's postings; a power of two.
const PARTS: usize = 256;
/// Fewer are joined with the next part, so that blocks are full.
const PART_ROWS: usize = 1 << 14;
/// Rows whose keys are computed at once.
const KEYED_ROWS: usize = 1 << 16;

/// The postings of runs that have none yet.
pub struct Gathered {
    seed: u64,
    columns: Vec<Pairs>,
    /// Of each run the number of its zones.
    zones: Vec<u32>,
    next_zone: u32,
    /// Postings of so many rows are written.
    enough: usize,
}

/// `key << 32 | zone` for every row, in parts by the highest bits of the key, so that
/// each is small enough to be sorted in a cache.
struct Pairs {
    /// The stored column.
    column: usize,
    parts: Vec<Vec<u64>>,
    count: usize,
}

/// The keys of a batch's rows, by lookup column.
pub struct Keys(Vec<(Vec<u32>, Option<NullBuffer>)>);

impl Gathered {
    /// Holds about so many bytes for each column, and those of one more part.
    pub fn new(core: &Core, bytes: usize) -> Gathered {
        let pairs = |column: &usize| Pairs { column: *column, parts: vec![Vec::new(); PARTS], count: 0 };
        let columns = core.created.lookup.iter().map(pairs).collect();
        let enough = (bytes / PAIR_BYTES).max(FEWEST_ROWS);
        Gathered { seed: core.header.seed, columns, zones: Vec::new(), next_zone: 0, enough }
    }

    pub fn keys(&self, batch: &RecordBatch) -> Keys {
        let keys = self.columns.iter().map(|pairs| {
            let array = batch.column(pairs.column);
            let firsts: Vec<usize> = (0..array.len()).step_by(KEYED_ROWS).collect();
            let of_some = firsts.into_par_iter().flat_map_iter(|first| {
                keys(array.slice(first, KEYED_ROWS.min(array.len() - first)).as_ref(), self.seed)
            });
            (of_some.collect(), array.logical_nulls())
        });
        Keys(keys.collect())
    }

    /// Takes a run: the rows of its batch in their order, and those of each zone.
    pub fn add(&mut self, keys: &Keys, order: &[u32], zones: &[u8]) {
        for (pairs, (keys, nulls)) in self.columns.iter_mut().zip(&keys.0) {
            let mut rest = order;
            for (zone, rows) in (self.next_zone..).zip(zones) {
                let (rows, later) = rest.split_at(*rows as usize);
                rest = later;
                let valued =
                    rows.iter().filter(|row| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(**row as usize)));
                for key in valued.map(|row| keys[*row as usize]) {
                    pairs.parts[key as usize >> (32 - PARTS.ilog2())].push((key as u64) << 32 | zone as u64);
                }
            }
            pairs.count += order.len();
        }
        self.zones.push(zones.len() as u32);
        self.next_zone += zones.len() as u32;
    }

    pub fn is_full(&self) -> bool {
        self.columns.iter().any(|pairs| pairs.count >= self.enough)
    }

    /// Writes what is gathered, of the last so many of `runs`; how many bytes.
    pub fn write(&mut self, segment: &mut dyn Segment, runs: &mut [Run<Location>]) -> Result<u64> {
        if self.columns.is_empty() || self.zones.is_empty() {
            return Ok(0);
        }
        let mut places = Vec::new();
        for pairs in &mut self.columns {
            let Encoded { blocks, directory } = postings::encode(pairs.take(), &self.zones);
            let bytes: Vec<&[u8]> = blocks.iter().chain([&directory]).map(Vec::as_slice).collect();
            let offset = segment.append(&bytes).map_err(store_error)?;
            places.push(OfColumn {
                column: pairs.column as u32,
                offset,
                blocks_length: blocks.iter().map(|blocks| blocks.len() as u64).sum(),
                directory_length: directory.len() as u32,
            });
        }
        let first = runs.len() - self.zones.len();
        let lookup = Arc::new(Lookup {
            segment: segment.name().into(),
            first: first as u32,
            runs: self.zones.len() as u32,
            columns: places,
        });
        for run in &mut runs[first..] {
            run.payload.lookup = Some(lookup.clone());
        }
        self.zones.clear();
        self.next_zone = 0;
        Ok(lookup.length())
    }
}

impl Pairs {
    /// All pairs, in parts of ascending keys that are not too small.
    fn take(&mut self) -> Vec<Vec<u64>> {
        self.count = 0;
        let mut taken: Vec<Vec<u64>> = Vec::new();
        for part in &mut self.parts {
            let mut part = std::mem::take(part);
            match taken.last_mut() {
                Some(last) if last.len() < PART_ROWS => last.append(&mut part),
                _ => taken.push(part),
            }
        }
        taken
    }
}
