//! Lookups: which zones hold a value of a column, so that "all records of one
//! particle" reads those and scans nothing.
//!
//! Whoever writes runs (a commit, a rewrite) also writes, into the same segment, the
//! postings of the table's lookup columns over these runs, and says in its entry where
//! they lie. So postings live and die with their runs, and each run either knows
//! those that cover it or is read by its zone maps, as in a table without lookups:
//! nothing but speed depends on them. Zones of the covered runs are numbered one after
//! the other, in the order of the runs in their entry.
//!
//! A value's key is the highest 32 bits of the priority that a record would have whose
//! identity it is: canonical, whatever its type's layout. Two values may share a key,
//! which costs reading; rows without a value have none, because no equality finds them.

pub mod postings;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::Array;
use kubist_index::priority::priorities;
use kubist_index::state::{Run, RunId};

use crate::location::Location;
use crate::wire::{Reader, Short, put_text};

/// Where the postings over some consecutive runs of an entry lie.
#[derive(Debug, PartialEq)]
pub struct Lookup {
    pub segment: Arc<str>,
    /// The place in its entry of the first run, and how many there are.
    pub first: u32,
    pub runs: u32,
    pub columns: Vec<OfColumn>,
}

/// The postings of one column: blocks, then their directory.
#[derive(Clone, Debug, PartialEq)]
pub struct OfColumn {
    /// The stored column.
    pub column: u32,
    pub offset: u64,
    pub blocks_length: u64,
    pub directory_length: u32,
}

impl OfColumn {
    pub fn length(&self) -> u64 {
        self.blocks_length + self.directory_length as u64
    }
}

/// Tells a lookup from all others: its segment, and where its postings begin.
pub type Key = (Arc<str>, u64);

impl Lookup {
    pub fn key(&self) -> Key {
        (self.segment.clone(), self.columns.first().map_or(0, |column| column.offset))
    }

    /// Which of the covered runs it is; its id says its place in the entry.
    pub fn place_of(&self, run: RunId) -> usize {
        (run.0 as u32).wrapping_sub(self.first) as usize
    }

    /// Bytes of all columns.
    pub fn length(&self) -> u64 {
        self.columns.iter().map(OfColumn::length).sum()
    }
}

/// The keys of values.
pub fn keys(values: &dyn Array, seed: u64) -> Vec<u32> {
    priorities(&[values], values.len(), seed).into_iter().map(|hash| (hash >> 32) as u32).collect()
}

/// The lookups that cover some runs, each once, with the id of the first run of each.
pub fn covering<'a>(runs: impl Iterator<Item = &'a Run<Location>>) -> BTreeMap<RunId, &'a Arc<Lookup>> {
    let mut found = BTreeMap::new();
    for run in runs {
        if let Some(lookup) = &run.payload.lookup {
            found.insert(RunId(run.id.0 - lookup.place_of(run.id) as u128), lookup);
        }
    }
    found
}

/// The bytes of the lookups that cover some runs.
pub fn bytes<'a>(runs: impl Iterator<Item = &'a Run<Location>>) -> u64 {
    covering(runs).values().map(|lookup| lookup.length()).sum()
}

/// The section of an entry that says where the lookups over its runs lie; `None`:
/// there are none.
pub fn encode(runs: &[Arc<Run<Location>>]) -> Option<Vec<u8>> {
    let lookups = covering(runs.iter().map(Arc::as_ref));
    if lookups.is_empty() {
        return None;
    }
    let mut body = (lookups.len() as u32).to_le_bytes().to_vec();
    for (first, lookup) in lookups {
        body.extend_from_slice(&first.0.to_le_bytes());
        body.extend_from_slice(&lookup.runs.to_le_bytes());
        put_text(&lookup.segment, &mut body);
        body.extend_from_slice(&(lookup.columns.len() as u32).to_le_bytes());
        for place in &lookup.columns {
            body.extend_from_slice(&place.column.to_le_bytes());
            body.extend_from_slice(&place.offset.to_le_bytes());
            body.extend_from_slice(&place.blocks_length.to_le_bytes());
            body.extend_from_slice(&place.directory_length.to_le_bytes());
        }
    }
    Some(body)
}

/// Tells runs which lookup covers them.
pub fn attach(body: &[u8], runs: &mut [Arc<Run<Location>>]) -> Result<(), Short> {
    let mut reader = Reader::new(body);
    let mut lookups: BTreeMap<u128, Arc<Lookup>> = BTreeMap::new();
    for _ in 0..reader.u32()? {
        let (first, runs) = (reader.u128()?, reader.u32()?);
        let segment: Arc<str> = reader.text()?.into();
        let columns = (0..reader.u32()?).map(|_| {
            let (column, offset) = (reader.u32()?, reader.u64()?);
            Ok(OfColumn { column, offset, blocks_length: reader.u64()?, directory_length: reader.u32()? })
        });
        let columns = columns.collect::<Result<_, Short>>()?;
        lookups.insert(first, Arc::new(Lookup { segment, first: first as u32, runs, columns }));
    }
    for run in runs {
        let Some((first, lookup)) = lookups.range(..=run.id.0).next_back() else { continue };
        if run.id.0 - first < lookup.runs as u128 {
            Arc::make_mut(run).payload.lookup = Some(lookup.clone());
        }
    }
    Ok(())
}
