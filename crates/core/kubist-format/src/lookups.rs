//! The section of an entry with the locations of its lookups.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubist_index::spread::SpreadSet;
use kubist_index::state::{Run, RunId};

use crate::location::Location;
use crate::lookup::{Lookup, OfColumn};
use crate::wire::{Reader, UnexpectedEnd, put_text};

#[derive(Default)]
pub struct LookupBytes {
    seen: SpreadSet<RunId>,
    pub bytes: u64,
}

impl LookupBytes {
    /// Adds the bytes of the run's lookup, once per lookup.
    pub fn add(&mut self, run: &Run<Location>) {
        let Some(lookup) = &run.payload.lookup else { return };
        if self.seen.insert(first_run(run, lookup)) {
            self.bytes += lookup.length();
        }
    }
}

/// The first run that a lookup covers, which identifies it.
pub fn first_run(run: &Run<Location>, lookup: &Lookup) -> RunId {
    RunId(run.id.0 - lookup.index_of(run.id) as u128)
}

/// The lookups of runs, by the id of their first run.
pub fn covering<'a>(runs: impl Iterator<Item = &'a Run<Location>>) -> BTreeMap<RunId, &'a Arc<Lookup>> {
    let mut found = BTreeMap::new();
    for run in runs {
        if let Some(lookup) = &run.payload.lookup {
            found.insert(first_run(run, lookup), lookup);
        }
    }
    found
}

/// Encodes the secondary indexes of runs; `None` if there are none.
pub fn encode(runs: &[Arc<Run<Location>>]) -> Option<Vec<u8>> {
    let lookups = covering(runs.iter().map(Arc::as_ref));
    if lookups.is_empty() {
        return None;
    }
    let mut body = (lookups.len() as u32).to_le_bytes().to_vec();
    lookups.into_iter().for_each(|(first, lookup)| put(first, lookup, &mut body));
    Some(body)
}

pub fn put(first: RunId, lookup: &Lookup, out: &mut Vec<u8>) {
    out.extend_from_slice(&first.0.to_le_bytes());
    out.extend_from_slice(&lookup.runs.to_le_bytes());
    put_text(&lookup.segment, out);
    out.extend_from_slice(&(lookup.columns.len() as u32).to_le_bytes());
    for postings in &lookup.columns {
        out.extend_from_slice(&postings.column.to_le_bytes());
        out.extend_from_slice(&postings.offset.to_le_bytes());
        out.extend_from_slice(&postings.blocks_length.to_le_bytes());
        out.extend_from_slice(&postings.directory_length.to_le_bytes());
        out.extend_from_slice(&postings.index_length.to_le_bytes());
    }
}

/// # Errors
///
/// [`UnexpectedEnd`] if the bytes end too soon.
pub fn read(reader: &mut Reader<'_>) -> Result<(RunId, Lookup), UnexpectedEnd> {
    let (first, runs) = (RunId(reader.u128()?), reader.u32()?);
    let segment: Arc<str> = reader.text()?.into();
    let columns = (0..reader.u32()?).map(|_| {
        let (column, offset) = (reader.u32()?, reader.u64()?);
        let (blocks_length, directory_length, index_length) = (reader.u64()?, reader.u32()?, reader.u32()?);
        Ok(OfColumn { column, offset, blocks_length, directory_length, index_length })
    });
    let columns = columns.collect::<Result<_, UnexpectedEnd>>()?;
    Ok((first, Lookup { segment, first: first.0 as u32, runs, columns }))
}

/// # Errors
///
/// [`UnexpectedEnd`] if the bytes end too soon.
pub fn attach(body: &[u8], runs: &mut [Arc<Run<Location>>]) -> Result<(), UnexpectedEnd> {
    let mut reader = Reader::new(body);
    let mut lookups: BTreeMap<u128, Arc<Lookup>> = BTreeMap::new();
    for _ in 0..reader.u32()? {
        let (first, lookup) = read(&mut reader)?;
        lookups.insert(first.0, Arc::new(lookup));
    }
    for run in runs {
        let Some((first, lookup)) = lookups.range(..=run.id.0).next_back() else { continue };
        if run.id.0 - first < lookup.runs as u128 {
            Arc::make_mut(run).payload.lookup = Some(lookup.clone());
        }
    }
    Ok(())
}
