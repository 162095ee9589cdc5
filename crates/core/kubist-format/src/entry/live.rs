//! The live runs of a checkpoint: as one list, and as pages.

use std::sync::Arc;

use kubist_index::forest::Forest;
use kubist_index::pages;
use kubist_index::state::{Commit, Run, RunId};

use super::{
    SomeRuns, grids_body, learn_grids, put_commit, put_removes, put_section, put_steps, removed, section, sections,
    sections_of, set_steps, some_runs, take_commit,
};
use crate::error::EntryError;
use crate::location::Location;
use crate::wire::Reader;
use crate::{lookups, ranges};

pub type Page = pages::Page<Location>;

pub fn encode_live(live: &Commit<Location>, forest: &Forest) -> Vec<u8> {
    let mut out = Vec::new();
    put_commit(&live.runs, &live.cutoffs, forest, &mut out);
    put_steps(&live.runs, &mut out);
    put_section(section::END, &[], &mut out);
    out
}

/// # Errors
///
/// [`EntryError`] if the bytes are invalid or from a newer version.
pub fn decode_live(bytes: &[u8], forest: &mut Forest) -> Result<Commit<Location>, EntryError> {
    let mut live = Commit::default();
    for (tag, body) in sections_of(&mut Reader::new(bytes), forest)? {
        if !take_commit(tag, body, forest, &mut live)? {
            match tag {
                section::RUN_STEPS => set_steps(body, &mut live.runs)?,
                _ => return Err(EntryError::Bad(format!("a list of live runs has no section {tag}"))),
            }
        }
    }
    Ok(live)
}

/// A page has a checksum, then live runs.
pub fn encode_page(page: Page, forest: &Forest) -> Vec<u8> {
    let body = encode_live(&Commit { runs: page.runs, cutoffs: page.cutoffs }, forest);
    [&crc32c::crc32c(&body).to_le_bytes()[..], &body].concat()
}

/// # Errors
///
/// [`EntryError`] if the bytes are invalid or from a newer version.
pub fn decode_page(bytes: &[u8], forest: &mut Forest) -> Result<Page, EntryError> {
    let Commit { runs, cutoffs } = decode_live(body_of_page(bytes)?, forest)?;
    Ok(Page { runs, cutoffs })
}

/// Decodes the wanted runs of a page, much faster than decoding all.
///
/// # Errors
///
/// The errors of [`decode_page`].
pub fn runs_of_page(
    bytes: &[u8],
    forest: &mut Forest,
    wanted: impl Fn(RunId) -> bool,
) -> Result<Vec<Arc<Run<Location>>>, EntryError> {
    let mut found = SomeRuns::default();
    for (tag, body) in sections_of(&mut Reader::new(body_of_page(bytes)?), forest)? {
        match tag {
            section::RUNS => found = some_runs(body, forest, &wanted)?,
            section::LOOKUPS => lookups::attach(body, &mut found.runs)?,
            section::RANGES => {
                let ranges = ranges::decode(body, found.all)?;
                for (run, place) in found.runs.iter_mut().zip(&found.places) {
                    Arc::make_mut(run).payload.ranges = Some(ranges.of_run(*place));
                }
            }
            _ => {}
        }
    }
    Ok(found.runs)
}

fn body_of_page(bytes: &[u8]) -> Result<&[u8], EntryError> {
    let mut reader = Reader::new(bytes);
    match reader.u32()? == crc32c::crc32c(reader.rest()) {
        true => Ok(reader.rest()),
        false => Err(EntryError::Bad("the checksum of a page does not match".into())),
    }
}

pub fn encode_pages(list: &[u8], grids: &[u32], removed: &[RunId], forest: &Forest) -> Vec<u8> {
    let mut out = Vec::new();
    if !grids.is_empty() {
        put_section(section::GRIDS, &grids_body(grids, forest), &mut out);
    }
    put_section(section::PAGES, list, &mut out);
    put_removes(removed, &mut out);
    put_section(section::END, &[], &mut out);
    out
}

/// Decodes the list of pages in a checkpoint; `None` if the bytes are live runs.
///
/// # Errors
///
/// [`EntryError`] if the bytes are invalid or from a newer version.
pub fn decode_pages<'a>(bytes: &'a [u8], forest: &mut Forest) -> Result<Option<(&'a [u8], Vec<RunId>)>, EntryError> {
    let found = sections(&mut Reader::new(bytes))?;
    let body = |wanted: u16| found.iter().find(|(tag, _)| *tag == wanted).map(|(_, body)| *body);
    let Some(list) = body(section::PAGES) else { return Ok(None) };
    learn_grids(body(section::GRIDS).unwrap_or_default(), forest)?;
    Ok(Some((list, removed(body(section::REMOVES).unwrap_or_default())?)))
}
