//! Postings are collected run by run until there are enough, so that memory stays bounded and few keys are stored
//! twice.

use std::sync::Arc;

use kubist_index::state::Run;
use kubist_store::Segment;

use crate::keys::LookupColumns;
use kubist_catalog::core::Core;
use kubist_catalog::error::store_error;
use kubist_format::location::Location;
use kubist_format::lookup::postings::{self, Encoded};
use kubist_format::lookup::{Lookup, OfColumn};
use kubist_types::error::Result;

const PAIR_BYTES: usize = 8;
const FEWEST_ROWS: usize = 1 << 10;
/// Limit of rows, so that the zones stay within the readers' limit ([`postings::MOST_ZONES`]), also with one more part.
const MOST_ROWS: usize = 1 << 24;
/// Parts of a column's postings; a power of two.
const PARTS: usize = 256;
/// Parts with fewer rows are joined with the next one, so that blocks are full.
const PART_ROWS: usize = 1 << 14;

pub struct PostingsBuilder {
    pub columns: LookupColumns,
    pairs: Vec<Pairs>,
    zones: Vec<u32>,
    next_zone: u32,
    enough: usize,
}

/// `key << 32 | zone` of every row, in parts by the highest key bits that can be sorted in a cache.
struct Pairs {
    parts: Vec<Vec<u64>>,
    count: usize,
}

impl PostingsBuilder {
    /// Collects about `bytes` bytes for each column, and one more part.
    pub fn new(core: &Core, bytes: usize) -> PostingsBuilder {
        let columns = LookupColumns { seed: core.header.seed, columns: core.created.lookup.clone() };
        let pairs = columns.columns.iter().map(|_| Pairs { parts: vec![Vec::new(); PARTS], count: 0 }).collect();
        let enough = (bytes / PAIR_BYTES).clamp(FEWEST_ROWS, MOST_ROWS);
        PostingsBuilder { columns, pairs, zones: Vec::new(), next_zone: 0, enough }
    }

    pub fn add(&mut self, postings: Vec<Vec<u64>>, zones: u32) {
        for (pairs, postings) in self.pairs.iter_mut().zip(postings) {
            pairs.count += postings.len();
            for posting in postings {
                pairs.parts[(posting >> (64 - PARTS.ilog2())) as usize].push(posting + self.next_zone as u64);
            }
        }
        self.zones.push(zones);
        self.next_zone += zones;
    }

    pub fn is_full(&self) -> bool {
        self.pairs.iter().any(|pairs| pairs.count >= self.enough)
    }

    /// Writes the postings, which belong to the last of `runs`; returns their bytes.
    ///
    /// # Errors
    ///
    /// A storage error.
    pub fn write(&mut self, segment: &mut dyn Segment, runs: &mut [Arc<Run<Location>>]) -> Result<u64> {
        if self.pairs.is_empty() || self.zones.is_empty() {
            return Ok(0);
        }
        let mut of_columns = Vec::new();
        for (column, pairs) in self.columns.columns.iter().zip(&mut self.pairs) {
            let Encoded { blocks, directory } = postings::encode(pairs.take(), &self.zones);
            let index = postings::encode_index(&directory);
            let bytes: Vec<&[u8]> = blocks.iter().chain([&directory, &index]).map(Vec::as_slice).collect();
            let offset = segment.append(&bytes).map_err(store_error)?;
            of_columns.push(OfColumn {
                column: *column as u32,
                offset,
                blocks_length: blocks.iter().map(|blocks| blocks.len() as u64).sum(),
                directory_length: directory.len() as u32,
                index_length: index.len() as u32,
            });
        }
        let first = runs.len() - self.zones.len();
        let lookup = Arc::new(Lookup {
            segment: segment.name().into(),
            first: first as u32,
            runs: self.zones.len() as u32,
            columns: of_columns,
        });
        for run in &mut runs[first..] {
            Arc::make_mut(run).payload.lookup = Some(lookup.clone());
        }
        self.zones.clear();
        self.next_zone = 0;
        Ok(lookup.length())
    }
}

impl Pairs {
    /// Takes the pairs, in parts of ascending keys that are not too small.
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
