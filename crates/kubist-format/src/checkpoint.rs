//! The `checkpoints/` objects: a head as JSON, then the runs, or the list of their pages.

use kubist_index::cube::{GridBox, MAX_DIMENSIONS};
use kubist_index::forest::Forest;
use kubist_index::pages::Summary;
use serde::{Deserialize, Serialize};

use crate::entry;
use crate::error::EntryError;
use crate::history::History;
use crate::wire::{Reader, put_text};

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

/// The runs of a checkpoint, or where their pages are.
pub enum Body<'a> {
    Runs(&'a [u8]),
    Pages(String, Vec<Leaf>),
}

/// The list of pages in a segment, and the name of the segment if it belongs into the head.
///
/// While all pages are of the first grid, the list stands as it is and the head names the
/// segment; otherwise an entry has both, and each page its grid.
pub fn encode_leaves(segment: &str, leaves: &[Leaf], forest: &Forest) -> (Vec<u8>, Option<String>) {
    let mut grids: Vec<u32> = leaves.iter().map(|leaf| leaf.summary.grid).filter(|grid| *grid > 0).collect();
    grids.sort_unstable();
    grids.dedup();
    let mut list = Vec::new();
    if grids.is_empty() {
        leaves.iter().for_each(|leaf| put_leaf(leaf, forest, &mut list));
        return (list, Some(segment.into()));
    }
    put_text(segment, &mut list);
    for leaf in leaves {
        list.extend_from_slice(&leaf.summary.grid.to_le_bytes());
        put_leaf(leaf, forest, &mut list);
    }
    (entry::encode_pages(&grids, forest, &list), None)
}

/// What stands behind the head of a checkpoint.
///
/// # Errors
///
/// [`EntryError::Bad`] if the bytes are no such thing, [`EntryError::Newer`] if a newer version
/// wrote them.
pub fn decode_body<'a>(pages: Option<String>, body: &'a [u8], forest: &mut Forest) -> Result<Body<'a>, EntryError> {
    if let Some(segment) = pages {
        let mut reader = Reader::new(body);
        let mut leaves = Vec::new();
        while !reader.is_empty() {
            leaves.push(leaf(&mut reader, 0, forest)?);
        }
        return Ok(Body::Pages(segment, leaves));
    }
    let Some(list) = entry::decode_pages(body, forest)? else { return Ok(Body::Runs(body)) };
    let mut reader = Reader::new(list);
    let (segment, mut leaves) = (reader.text()?.to_string(), Vec::new());
    while !reader.is_empty() {
        let grid = reader.u32()?;
        leaves.push(leaf(&mut reader, grid, forest)?);
    }
    Ok(Body::Pages(segment, leaves))
}

fn put_leaf(leaf: &Leaf, forest: &Forest, out: &mut Vec<u8>) {
    let Summary { upper, runs, grid, span, priorities } = &leaf.summary;
    out.extend_from_slice(&leaf.offset.to_le_bytes());
    out.extend_from_slice(&leaf.length.to_le_bytes());
    out.extend_from_slice(&runs.to_le_bytes());
    out.push(*upper as u8);
    out.extend_from_slice(&priorities.0.to_le_bytes());
    out.extend_from_slice(&priorities.1.to_le_bytes());
    for d in 0..forest.tree(*grid).map_or(0, |tree| tree.dimensions()) {
        out.extend_from_slice(&span.low[d].to_le_bytes());
        out.extend_from_slice(&span.high[d].to_le_bytes());
    }
}

fn leaf(reader: &mut Reader<'_>, grid: u32, forest: &Forest) -> Result<Leaf, EntryError> {
    let tree = forest
        .tree(grid)
        .ok_or_else(|| EntryError::Bad(format!("a page is of grid {grid}, which it does not name")))?;
    let (offset, length, runs) = (reader.u64()?, reader.u32()?, reader.u32()?);
    let upper = reader.u8()? != 0;
    let priorities = (reader.u64()?, reader.u64()?);
    let mut span = GridBox { low: [0; MAX_DIMENSIONS], high: [0; MAX_DIMENSIONS] };
    for d in 0..tree.dimensions() {
        (span.low[d], span.high[d]) = (reader.u32()?, reader.u32()?);
    }
    Ok(Leaf { offset, length, summary: Summary { upper, runs, grid, span, priorities } })
}
