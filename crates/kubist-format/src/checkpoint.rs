//! The `checkpoints/` objects: a head as JSON, then the runs, or the list of their pages.

use kubist_index::cube::Geometry;
use kubist_index::pages::Summary;
use serde::{Deserialize, Serialize};

use crate::error::EntryError;
use crate::history::History;
use crate::wire::{Reader, Short};

/// The part of a checkpoint that is JSON.
#[derive(Serialize, Deserialize)]
pub struct Head {
    pub positions: Vec<(String, u64)>,
    pub rewrites: u64,
    pub history: History,
    /// Where the pages are, if the runs are in pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<String>,
}

/// Where a page lies, and what is on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaf {
    pub offset: u64,
    pub length: u32,
    pub summary: Summary,
}

/// The head of a checkpoint, and the bytes behind it.
///
/// # Errors
///
/// [`EntryError::Bad`] if the bytes are no such thing, [`EntryError::Newer`] if a newer version
/// wrote them.
pub fn split(bytes: &[u8]) -> std::result::Result<(Head, &[u8]), EntryError> {
    let mut reader = Reader::new(bytes);
    let length = reader.u32()? as usize;
    let head = reader.bytes(length)?;
    Ok((serde_json::from_slice(head).map_err(|error| EntryError::Bad(error.to_string()))?, reader.rest()))
}

pub fn put_leaf(leaf: &Leaf, geometry: &Geometry, out: &mut Vec<u8>) {
    let Summary { upper, runs, span, priorities } = &leaf.summary;
    out.extend_from_slice(&leaf.offset.to_le_bytes());
    out.extend_from_slice(&leaf.length.to_le_bytes());
    out.extend_from_slice(&runs.to_le_bytes());
    out.push(*upper as u8);
    out.extend_from_slice(&priorities.0.to_le_bytes());
    out.extend_from_slice(&priorities.1.to_le_bytes());
    for d in 0..geometry.dimensions() {
        out.extend_from_slice(&span.low[d].to_le_bytes());
        out.extend_from_slice(&span.high[d].to_le_bytes());
    }
}

/// The list of pages behind the head.
///
/// # Errors
///
/// [`Short`] if the bytes end too soon.
pub fn leaves(bytes: &[u8], geometry: &Geometry) -> std::result::Result<Vec<Leaf>, Short> {
    let mut reader = Reader::new(bytes);
    let mut leaves = Vec::new();
    while !reader.is_empty() {
        let (offset, length, runs) = (reader.u64()?, reader.u32()?, reader.u32()?);
        let upper = reader.u8()? != 0;
        let priorities = (reader.u64()?, reader.u64()?);
        let mut span = geometry.everything();
        for d in 0..geometry.dimensions() {
            (span.low[d], span.high[d]) = (reader.u32()?, reader.u32()?);
        }
        leaves.push(Leaf { offset, length, summary: Summary { upper, runs, span, priorities } });
    }
    Ok(leaves)
}
