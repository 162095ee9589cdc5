//! Secondary indexes (*lookups*): the zones that contain a value of a column (FORMAT.md, Secondary indexes). A run
//! without postings is read by its zone maps.
//!
//! A value's key is the top 32 bits of the priority of a record with that identity. Two values may share a key, which
//! costs reading. Null has no key, because it equals nothing.

pub mod postings;

use std::sync::Arc;

use arrow_array::Array;
use kubist_index::priority::priorities;
use kubist_index::state::RunId;

#[derive(Debug, PartialEq)]
pub struct Lookup {
    pub segment: Arc<str>,
    /// The first run's index in its entry, and the number of runs.
    pub first: u32,
    pub runs: u32,
    pub columns: Vec<OfColumn>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct OfColumn {
    pub column: u32,
    pub offset: u64,
    pub blocks_length: u64,
    pub directory_length: u32,
    /// 0 if there is no index.
    pub index_length: u32,
}

impl OfColumn {
    pub fn length(&self) -> u64 {
        self.blocks_length.saturating_add(self.directory_length as u64 + self.index_length as u64)
    }
}

/// Identifies a lookup: its segment, and the position of its postings.
pub type Key = (Arc<str>, u64);

impl Lookup {
    pub fn key(&self) -> Key {
        (self.segment.clone(), self.columns.first().map_or(0, |column| column.offset))
    }

    pub fn index_of(&self, run: RunId) -> usize {
        (run.0 as u32).wrapping_sub(self.first) as usize
    }

    pub fn length(&self) -> u64 {
        self.columns.iter().map(OfColumn::length).sum()
    }
}

pub fn keys(values: &dyn Array, seed: u64) -> Vec<u32> {
    priorities(&[values], values.len(), seed).into_iter().map(|hash| (hash >> 32) as u32).collect()
}
