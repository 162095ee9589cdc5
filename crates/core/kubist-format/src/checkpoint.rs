//! The `checkpoints/` objects: a JSON head, then the runs, or the list of their pages.

use std::sync::Arc;

use kubist_index::cube::{GridBox, MAX_DIMENSIONS};
use kubist_index::forest::Forest;
use kubist_index::pages::{Summary, Tier};
use kubist_index::state::RunId;
use serde::{Deserialize, Serialize};

use crate::entry;
use crate::error::EntryError;
use crate::history::History;
use crate::wire::{Reader, put_text};

#[derive(Serialize, Deserialize)]
pub struct Head {
    pub positions: Vec<(String, u64)>,
    pub rewrites: u64,
    pub history: History,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Leaf {
    pub segment: Arc<str>,
    pub offset: u64,
    pub length: u32,
    pub summary: Summary,
}

const LEAST_LEAF_BYTES: usize = 45;

/// # Errors
///
/// [`EntryError`] if the bytes are invalid or from a newer version.
pub fn split(bytes: &[u8]) -> std::result::Result<(Head, &[u8]), EntryError> {
    let mut reader = Reader::new(bytes);
    let length = reader.u32()? as usize;
    let head = reader.bytes(length)?;
    Ok((serde_json::from_slice(head).map_err(|error| EntryError::Bad(error.to_string()))?, reader.rest()))
}

pub enum Body<'a> {
    Runs(&'a [u8]),
    /// The pages per level, oldest first, and removed runs on them.
    Pages(Vec<Leaf>, Vec<RunId>),
}

pub fn encode_leaves(leaves: &[Leaf], removed: &[RunId], forest: &Forest) -> Vec<u8> {
    let mut grids: Vec<u32> = leaves.iter().map(|leaf| leaf.summary.grid).filter(|grid| *grid > 0).collect();
    grids.sort_unstable();
    grids.dedup();
    let mut list = Vec::new();
    for level in levels(leaves) {
        put_text(&level[0].segment, &mut list);
        list.extend_from_slice(&(level.len() as u32).to_le_bytes());
        level.iter().for_each(|leaf| put_leaf(leaf, forest, &mut list));
    }
    entry::encode_pages(&list, &grids, removed, forest)
}

pub fn levels(leaves: &[Leaf]) -> impl Iterator<Item = &[Leaf]> {
    leaves.chunk_by(|one, next| one.segment == next.segment)
}

/// # Errors
///
/// [`EntryError`] if the bytes are invalid or from a newer version.
pub fn decode_body<'a>(body: &'a [u8], forest: &mut Forest) -> Result<Body<'a>, EntryError> {
    let Some((list, removed)) = entry::decode_pages(body, forest)? else { return Ok(Body::Runs(body)) };
    let (mut reader, mut leaves) = (Reader::new(list), Vec::new());
    while !reader.is_empty() {
        let (segment, pages) = (Arc::from(reader.text()?), reader.u32()?);
        leaves.reserve((pages as usize).min(reader.rest().len() / LEAST_LEAF_BYTES));
        for _ in 0..pages {
            leaves.push(leaf(&mut reader, &segment, forest)?);
        }
    }
    Ok(Body::Pages(leaves, removed))
}

fn put_leaf(leaf: &Leaf, forest: &Forest, out: &mut Vec<u8>) {
    let Summary { tier, runs, grid, span, priorities, primaries_from } = &leaf.summary;
    out.extend_from_slice(&grid.to_le_bytes());
    out.extend_from_slice(&leaf.offset.to_le_bytes());
    out.extend_from_slice(&leaf.length.to_le_bytes());
    out.extend_from_slice(&runs.to_le_bytes());
    out.push(match tier {
        Tier::Lower => 0,
        Tier::Upper => 1,
        Tier::Middle => 2,
    });
    out.extend_from_slice(&priorities.0.to_le_bytes());
    out.extend_from_slice(&priorities.1.to_le_bytes());
    out.extend_from_slice(&primaries_from.to_le_bytes());
    for d in 0..forest.tree(*grid).map_or(0, |tree| tree.dimensions()) {
        out.extend_from_slice(&span.low[d].to_le_bytes());
        out.extend_from_slice(&span.high[d].to_le_bytes());
    }
}

fn leaf(reader: &mut Reader<'_>, segment: &Arc<str>, forest: &Forest) -> Result<Leaf, EntryError> {
    let grid = reader.u32()?;
    let tree = forest
        .tree(grid)
        .ok_or_else(|| EntryError::Bad(format!("a page is of grid {grid}, which the checkpoint does not list")))?;
    let (offset, length, runs) = (reader.u64()?, reader.u32()?, reader.u32()?);
    let tier = match reader.u8()? {
        0 => Tier::Lower,
        1 => Tier::Upper,
        2 => Tier::Middle,
        other => return Err(EntryError::Bad(format!("a page has the unknown tier {other}"))),
    };
    let (priorities, primaries_from) = ((reader.u64()?, reader.u64()?), reader.u64()?);
    let mut span = GridBox { low: [0; MAX_DIMENSIONS], high: [0; MAX_DIMENSIONS] };
    for d in 0..tree.dimensions() {
        (span.low[d], span.high[d]) = (reader.u32()?, reader.u32()?);
    }
    let summary = Summary { tier, runs, grid, span, priorities, primaries_from };
    Ok(Leaf { segment: segment.clone(), offset, length, summary })
}
