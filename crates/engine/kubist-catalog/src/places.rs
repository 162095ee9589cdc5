//! The page of every run of a secondary index, from a digest (`kubist_format::digest`).

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use kubist_format::digest::OfLookup;
use kubist_format::lookup::Lookup;
use kubist_index::state::RunId;

use crate::fetch::Piece;

/// Maps runs of an index to pages of a level.
#[derive(Debug)]
pub struct Table {
    pub pages: Range<usize>,
    segment: Arc<str>,
    begin: u64,
    of: OfLookup,
    /// The map as read from the pages, if the digest is damaged.
    found: OnceLock<BTreeMap<u32, u32>>,
}

impl Table {
    pub fn new(pages: Range<usize>, segment: Arc<str>, begin: u64, of: OfLookup) -> Table {
        Table { pages, segment, begin, of, found: OnceLock::new() }
    }

    pub fn lookup(&self) -> &Arc<Lookup> {
        &self.of.lookup
    }

    pub fn len(&self) -> usize {
        self.of.runs as usize
    }

    pub fn run(&self, index: u32) -> RunId {
        RunId(self.of.first.0.saturating_add(index as u128))
    }

    /// Blocks with the pages of the runs at `indices`, or of all runs; none if damaged.
    pub fn blocks(&self, indices: Option<&[u32]>) -> Vec<u32> {
        match indices {
            _ if self.is_found() => Vec::new(),
            None => (0..self.of.blocks()).collect(),
            Some(indices) => {
                let mut blocks: Vec<u32> = indices.iter().map(|index| OfLookup::block_of(*index)).collect();
                blocks.dedup();
                blocks
            }
        }
    }

    pub fn pieces(&self, blocks: &[u32]) -> Vec<Piece> {
        let piece = |block: &u32| {
            let place = self.of.place(*block);
            Piece { segment: self.segment.clone(), offset: self.begin + place.start, length: place.end - place.start }
        };
        blocks.iter().map(piece).collect()
    }

    /// Reads indices and pages (in the level) from blocks, of all runs or of those at `indices`; `None` if a block is
    /// damaged.
    pub fn pages_in(&self, blocks: &[u32], bytes: &[&Bytes], indices: Option<&[u32]>) -> Option<Vec<(u32, u32)>> {
        if self.is_found() || bytes.len() < blocks.len() {
            return None;
        }
        let (mut pages, mut left) = (Vec::new(), indices.unwrap_or_default());
        for (block, bytes) in blocks.iter().zip(bytes) {
            let block = self.of.block(*block, (*bytes).clone()).ok()?;
            let page = |index: u32| Some((index, block.page(index)?));
            match indices {
                None => pages.extend(block.runs.clone().filter_map(page)),
                Some(_) => {
                    let of_block = left.partition_point(|index| *index < block.runs.end);
                    pages.extend(left.split_off(..of_block)?.iter().copied().filter_map(page));
                }
            }
        }
        pages.iter().all(|(_, page)| (*page as usize) < self.pages.len()).then_some(pages)
    }

    pub fn is_found(&self) -> bool {
        self.found.get().is_some()
    }

    pub fn take(&self, found: BTreeMap<u32, u32>) {
        let _ = self.found.set(found);
    }

    pub fn pages_found(&self, indices: Option<&[u32]>) -> Vec<(u32, u32)> {
        let Some(found) = self.found.get() else { return Vec::new() };
        let known = |index: &u32| Some((*index, *found.get(index)?));
        match indices {
            None => found.iter().map(|(index, page)| (*index, *page)).collect(),
            Some(indices) => indices.iter().filter_map(known).collect(),
        }
    }
}
