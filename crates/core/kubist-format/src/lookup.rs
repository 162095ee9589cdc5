//! Lookups: which zones hold a value of a column, so that "all records of one
//! particle" reads those and scans nothing.
//!
//! A commit and a rewrite also write, into the segment of their runs, the postings of the
//! table's lookup columns over these runs, and store in their entry where the postings
//! lie. Postings therefore live and die with their runs. A rewrite that merges lookups leaves the bytes of runs
//! where they are, and has a segment for postings alone. A run that no postings cover is
//! read by its zone maps, as in a table without lookups: only speed depends on them. Zones
//! of the covered runs are numbered one after the other, in the order of the runs in their
//! entry.
//!
//! A value's key is the highest 32 bits of the priority that a record would have whose
//! identity it is: canonical, whatever its type's layout. Two values may share a key,
//! which costs reading; rows without a value have none, because no equality finds them.

pub mod postings;

use std::sync::Arc;

use arrow_array::Array;
use kubist_index::priority::priorities;
use kubist_index::state::RunId;

/// Where the postings over some consecutive runs of an entry lie.
#[derive(Debug, PartialEq)]
pub struct Lookup {
    pub segment: Arc<str>,
    /// The index in its entry of the first run, and how many there are.
    pub first: u32,
    pub runs: u32,
    pub columns: Vec<OfColumn>,
}

/// The postings of one column: blocks, then their directory, then the index of that if it is a large one.
#[derive(Clone, Debug, PartialEq)]
pub struct OfColumn {
    /// The stored column.
    pub column: u32,
    pub offset: u64,
    pub blocks_length: u64,
    pub directory_length: u32,
    /// 0 if there is none.
    pub index_length: u32,
}

impl OfColumn {
    pub fn length(&self) -> u64 {
        self.blocks_length.saturating_add(self.directory_length as u64 + self.index_length as u64)
    }
}

/// Tells a lookup from all others: its segment, and where its postings begin.
pub type Key = (Arc<str>, u64);

impl Lookup {
    pub fn key(&self) -> Key {
        (self.segment.clone(), self.columns.first().map_or(0, |column| column.offset))
    }

    /// Which of the covered runs it is; its id says its index in the entry.
    pub fn index_of(&self, run: RunId) -> usize {
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
