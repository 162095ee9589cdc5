//! The digest of a level of pages (FORMAT.md, Digest), with which queries for a minimum or maximum, for nulls, or for a
//! value in a secondary index read only some pages. If it is damaged, all pages are read. It includes runs that were
//! removed later.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use kubist_index::cube::{CubeId, MAX_DIMENSIONS};
use kubist_index::forest::Forest;
use kubist_index::state::{Run, RunId};

use crate::entry::{Page, decode_page, encode_page};
use crate::error::EntryError;
use crate::location::Location;
use crate::lookup::Lookup;
use crate::lookups::{self, first_run};
use crate::ranges::Around;
use crate::wire::Reader;

const MAGIC: u32 = u32::from_le_bytes(*b"KDG1");
/// Magic, two lengths, and a checksum of the three.
pub const HEAD_BYTES: u64 = 16;
/// Number of runs whose page numbers are read together (4 KiB).
const BLOCK: u32 = 1024;
/// Limit of lookups, of their runs, and of runs without a lookup; beyond it there is no list of places.
const MOST_LOOKUPS: usize = 1 << 14;
const MOST_COVERED: u64 = 1 << 24;
const MOST_OTHERS: usize = 1 << 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    abstracts: u32,
    places: u32,
}

impl Head {
    /// # Errors
    ///
    /// [`EntryError::Bad`] if the bytes are invalid.
    pub fn decode(bytes: &[u8]) -> Result<Head, EntryError> {
        let mut reader = Reader::new(bytes);
        let (magic, abstracts, places, sum) = (reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?);
        match magic == MAGIC && sum == crc32c::crc32c(&bytes[..12]) {
            true => Ok(Head { abstracts, places }),
            false => Err(EntryError::Bad("it is not the head of a digest".into())),
        }
    }

    /// Byte range of the abstracts, from the beginning of the digest.
    pub fn abstracts(&self) -> Range<u64> {
        HEAD_BYTES..HEAD_BYTES + self.abstracts as u64
    }

    /// Byte range of the list of places, empty if there is none. Its blocks follow, to the end of the segment.
    pub fn places(&self) -> Range<u64> {
        let begin = self.abstracts().end;
        begin..begin + self.places as u64
    }
}

/// Decodes one run per page, with the number of rows and the bounds of its primary runs.
///
/// # Errors
///
/// The errors of [`decode_page`]; [`EntryError::Bad`] if their number is not `pages`.
pub fn decode_abstracts(
    bytes: &[u8],
    pages: usize,
    forest: &mut Forest,
) -> Result<Vec<Arc<Run<Location>>>, EntryError> {
    let runs = decode_page(bytes, forest)?.runs;
    match runs.len() == pages {
        true => Ok(runs),
        false => Err(EntryError::Bad(format!("a digest describes {} pages, but the level has {pages}", runs.len()))),
    }
}

/// The list of places: the page of each primary run in a level, by the lookup that covers the run.
#[derive(Debug, PartialEq)]
pub struct Places {
    pub lookups: Vec<OfLookup>,
    pub others: Vec<(RunId, u32)>,
}

#[derive(Debug, PartialEq)]
pub struct OfLookup {
    pub first: RunId,
    pub lookup: Arc<Lookup>,
    pub runs: u32,
    offset: u64,
}

impl Places {
    /// # Errors
    ///
    /// [`EntryError::Bad`] if the bytes are invalid.
    pub fn decode(bytes: &[u8]) -> Result<Places, EntryError> {
        let mut reader = Reader::new(bytes);
        if reader.u32()? != crc32c::crc32c(reader.rest()) {
            return Err(EntryError::Bad("the checksum of a list of places does not match".into()));
        }
        let (mut found, mut offset, mut covered) = (Vec::new(), 0, 0);
        for _ in 0..reader.u32()? {
            let (first, lookup) = lookups::read(&mut reader)?;
            let runs = reader.u32()?;
            covered += lookup.runs as u64;
            if covered > MOST_COVERED {
                return Err(EntryError::Bad("a list of places has too many runs".into()));
            }
            let next = offset + blocks_bytes(lookup.runs);
            found.push(OfLookup { first, lookup: Arc::new(lookup), runs, offset });
            offset = next;
        }
        let mut others = Vec::new();
        for _ in 0..reader.u32()? {
            others.push((RunId(reader.u128()?), reader.u32()?));
        }
        Ok(Places { lookups: found, others })
    }
}

impl OfLookup {
    pub fn blocks(&self) -> u32 {
        self.lookup.runs.div_ceil(BLOCK)
    }

    pub fn block_of(index: u32) -> u32 {
        index / BLOCK
    }

    /// Byte range of a block, from the end of the list of places.
    pub fn place(&self, block: u32) -> Range<u64> {
        let begin = self.offset + block as u64 * (4 + 4 * BLOCK as u64);
        begin..begin + 4 + 4 * self.runs_of(block).len() as u64
    }

    fn runs_of(&self, block: u32) -> Range<u32> {
        block * BLOCK..(block + 1).saturating_mul(BLOCK).min(self.lookup.runs)
    }

    /// # Errors
    ///
    /// [`EntryError::Bad`] if the bytes are invalid.
    pub fn block(&self, block: u32, bytes: Bytes) -> Result<PlacesBlock, EntryError> {
        let (runs, mut reader) = (self.runs_of(block), Reader::new(&bytes));
        if reader.u32()? != crc32c::crc32c(reader.rest()) || reader.rest().len() != 4 * runs.len() {
            return Err(EntryError::Bad("the checksum of a block of places does not match".into()));
        }
        Ok(PlacesBlock { runs, bytes })
    }
}

pub struct PlacesBlock {
    /// Indices in the lookup.
    pub runs: Range<u32>,
    bytes: Bytes,
}

impl PlacesBlock {
    /// The page of a run; `None` if no page of the level has it.
    pub fn page(&self, index: u32) -> Option<u32> {
        let at = 4 + 4 * index.checked_sub(self.runs.start)? as usize;
        let page = self.bytes.get(at..at + 4)?.try_into().ok()?;
        u32::from_le_bytes(page).checked_sub(1)
    }
}

fn blocks_bytes(runs: u32) -> u64 {
    4 * (runs as u64 + runs.div_ceil(BLOCK) as u64)
}

#[derive(Default)]
pub struct Digest {
    abstracts: Vec<Arc<Run<Location>>>,
    around: Around,
    lookups: BTreeMap<RunId, (Arc<Lookup>, Vec<u32>)>,
    covered: u64,
    others: Vec<(RunId, u32)>,
    has_too_many: bool,
}

impl Digest {
    pub fn add(&mut self, page: &Page) {
        let number = self.abstracts.len() as u32;
        let primaries = || page.runs.iter().filter(|run| !run.is_replica());
        self.around.add(primaries().map(|run| run.payload.ranges.as_ref()));
        self.abstracts.push(Arc::new(abstract_of(page, number)));
        primaries().for_each(|run| self.add_place(run, number));
    }

    fn add_place(&mut self, run: &Run<Location>, page: u32) {
        self.has_too_many |= self.lookups.len() > MOST_LOOKUPS || self.others.len() > MOST_OTHERS;
        match &run.payload.lookup {
            _ if self.has_too_many => {}
            None => self.others.push((run.id, page)),
            Some(lookup) => {
                let first = first_run(run, lookup);
                if !self.lookups.contains_key(&first) {
                    self.covered += lookup.runs as u64;
                    self.has_too_many |= self.covered > MOST_COVERED;
                    if self.has_too_many {
                        return;
                    }
                }
                let new = || (lookup.clone(), vec![0; lookup.runs as usize]);
                let (lookup, pages) = self.lookups.entry(first).or_insert_with(new);
                if let Some(place) = pages.get_mut(lookup.index_of(run.id)) {
                    *place = page + 1;
                }
            }
        }
    }

    /// Encodes the abstracts of the added pages; called once.
    pub fn encode_abstracts(&mut self, forest: &Forest) -> Vec<u8> {
        let mut runs = std::mem::take(&mut self.abstracts);
        let around = std::mem::take(&mut self.around).finish();
        for (run, ranges) in runs.iter_mut().zip(around) {
            Arc::make_mut(run).payload.ranges = Some(ranges);
        }
        encode_page(Page { runs, cutoffs: Vec::new() }, forest)
    }

    /// The parts of the digest, in their stored order.
    pub fn encode(mut self, forest: &Forest) -> [Vec<u8>; 4] {
        let abstracts = self.encode_abstracts(forest);
        let (places, blocks) = self.encode_places();
        let mut out = MAGIC.to_le_bytes().to_vec();
        out.extend_from_slice(&(abstracts.len() as u32).to_le_bytes());
        out.extend_from_slice(&(places.len() as u32).to_le_bytes());
        out.extend_from_slice(&crc32c::crc32c(&out).to_le_bytes());
        [out, abstracts, places, blocks]
    }

    /// Encodes the list of places and its blocks; both are empty if no run has a lookup, or if a limit is exceeded.
    pub fn encode_places(&self) -> (Vec<u8>, Vec<u8>) {
        let has_none = self.lookups.is_empty() && !self.others.is_empty();
        if has_none || self.has_too_many {
            return (Vec::new(), Vec::new());
        }
        let (mut list, mut blocks) = ((self.lookups.len() as u32).to_le_bytes().to_vec(), Vec::new());
        for (first, (lookup, pages)) in &self.lookups {
            lookups::put(*first, lookup, &mut list);
            let on_pages = pages.iter().filter(|page| **page > 0).count() as u32;
            list.extend_from_slice(&on_pages.to_le_bytes());
            for block in pages.chunks(BLOCK as usize) {
                let bytes: Vec<u8> = block.iter().flat_map(|page| page.to_le_bytes()).collect();
                blocks.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
                blocks.extend_from_slice(&bytes);
            }
        }
        list.extend_from_slice(&(self.others.len() as u32).to_le_bytes());
        for (run, page) in &self.others {
            list.extend_from_slice(&run.0.to_le_bytes());
            list.extend_from_slice(&page.to_le_bytes());
        }
        ([&crc32c::crc32c(&list).to_le_bytes()[..], &list].concat(), blocks)
    }
}

fn abstract_of(page: &Page, number: u32) -> Run<Location> {
    let (mut low, mut high) = ([u32::MAX; MAX_DIMENSIONS], [0; MAX_DIMENSIONS]);
    let (mut rows, mut priorities) = (0, (u64::MAX, 0));
    for run in page.runs.iter().filter(|run| !run.is_replica()) {
        for d in 0..MAX_DIMENSIONS {
            low[d] = low[d].min(run.payload.low[d]);
            high[d] = high[d].max(run.payload.high[d]);
        }
        rows = run.rows.saturating_add(rows);
        priorities = (run.priorities.0.min(priorities.0), run.priorities.1.max(priorities.1));
    }
    let payload = Location {
        segment: "".into(),
        data_offset: 0,
        data_length: 0,
        map_offset: 0,
        map_length: 0,
        low,
        high,
        origin: None,
        lookup: None,
        ranges: None,
    };
    let cube = CubeId::root(page.cubes().next().map_or(0, CubeId::grid));
    Run { id: RunId(number as u128), cube, rows, priorities, copies: Vec::new(), payload }
}
