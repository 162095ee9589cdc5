//! Checks the metadata that leads to the runs: header, grid, logs, rewrites and checkpoints, which a fresh handle reads
//! from their beginning.

use kubist_store::StoreExt;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kubist_index::cube::CubeId;
use kubist_index::priority::Threshold;

use kubist_catalog::checkpoint::{self, LoadedCheckpoint};
use kubist_catalog::core::Core;
use kubist_catalog::directory::Entry;
use kubist_catalog::error::bad_entry;
use kubist_catalog::error::store_error;
use kubist_catalog::snapshot::Snapshot;
use kubist_format::alteration;
use kubist_format::chain::Chain;
use kubist_format::entry::{CommitEntry, RewriteEntry};
use kubist_format::error::EntryError;
use kubist_format::names::{ALTERATIONS, CHECKPOINTS, REWRITES, WRITERS, number_of};
use kubist_types::Cancel;
use kubist_types::error::Result;

use crate::verify::VerifyReport;

const PIECE_BYTES: u64 = 16 << 20;

pub fn check(core: Result<Arc<Core>>, report: &mut VerifyReport, cancel: &Cancel) -> Result<Option<Snapshot>> {
    let core = &match core {
        Ok(core) => core,
        Err(error) => return report.note(error).map(|()| None),
    };
    if let Err(error) = core.frame(&core.created, 0) {
        report.note(error)?;
    }
    let snapshot = match Snapshot::now(core, cancel) {
        Ok(snapshot) => Some(snapshot),
        Err(error) => report.note(error).map(|()| None)?,
    };
    let mut stated = HashMap::new();
    for writer in core.store.logs().map_err(store_error)? {
        if let Err(error) = check_log(core, &writer, snapshot.as_ref(), &mut stated, cancel) {
            report.note(error)?;
        }
    }
    let mut names = core.store.list(REWRITES).map_err(store_error)?;
    names.sort_unstable_by_key(|name| number_of(name));
    for name in &names {
        cancel.check()?;
        if let Err(error) = check_rewrite(core, name, &mut stated) {
            report.note(error)?;
        }
    }
    for pair in names.windows(2).filter(|pair| number_of(&pair[0]) + 1 != number_of(&pair[1])) {
        let held = snapshot.as_ref().is_some_and(|snapshot| snapshot.view.rewrites >= number_of(&pair[1]));
        if !held {
            report.find(format!("{}/{}: the rewrite after it is missing", core.store.location(), pair[0]));
        }
    }
    // A checkpoint's snapshot does not read the declared writers, but an open handle compares them.
    if snapshot.is_some() {
        if let Err(error) = core.store.get(WRITERS).map_err(store_error) {
            report.note(error)?;
        }
    }
    check_alterations(core, snapshot.as_ref(), report)?;
    let names = core.store.list(CHECKPOINTS).map_err(store_error)?;
    for name in &names {
        cancel.check()?;
        let pages = |held: Option<LoadedCheckpoint>| match held {
            Some(held) if Some(name) == names.last() || !has_lost_its_pages(core, &held)? => {
                held.base.map_or(Ok(()), |base| base.check(core, cancel))
            }
            _ => Ok(()),
        };
        if let Err(error) = checkpoint::read(core, name).and_then(pages) {
            report.note(error)?;
        }
    }
    if let Some(snapshot) = &snapshot
        && let Err(error) = check_cutoffs(snapshot, &stated, report, cancel)
    {
        report.note(error)?;
    }
    Ok(snapshot)
}

/// Missing pages are valid for an old checkpoint: a writer killed during publication may leave one whose number another
/// writer had used, and cleaning deletes its pages. Readers use only the newest checkpoint, and the next writer deletes
/// the old one.
fn has_lost_its_pages(core: &Core, held: &LoadedCheckpoint) -> Result<bool> {
    for segment in held.base.iter().flat_map(|base| base.segments()) {
        if core.store.segment_len(segment).map_err(store_error)?.is_none() {
            return Ok(true);
        }
    }
    Ok(false)
}

type Stated = HashMap<CubeId, Threshold>;

fn note(cutoffs: &[(CubeId, Threshold)], stated: &mut Stated) {
    for (cube, cutoff) in cutoffs {
        let lowest = stated.entry(*cube).or_insert(*cutoff);
        *lowest = (*lowest).min(*cutoff);
    }
}

fn check_log(
    core: &Core,
    writer: &str,
    snapshot: Option<&Snapshot>,
    stated: &mut Stated,
    cancel: &Cancel,
) -> Result<()> {
    cancel.check()?;
    let damaged = |at: u64, what: String| {
        bad_entry(core.store.location(), &format!("log of {writer}"), at, EntryError::Bad(what))
    };
    let known = snapshot.and_then(|snapshot| {
        snapshot.view.positions.iter().find(|(other, _)| other == writer).map(|(_, position)| *position)
    });
    let (mut number, mut from, mut chain) = (0, 0, Chain::of_log(&core.header.id, writer));
    loop {
        let read = core.store.read_log_piece(writer, from, PIECE_BYTES).map_err(store_error)?;
        for found in &read.entries {
            cancel.check()?;
            let bad = |error| bad_entry(core.store.location(), &format!("log of {writer}"), found.position, error);
            let entry = core.decoded(|forest| CommitEntry::decode(&found.bytes, forest)).map_err(bad)?;
            number += 1;
            if entry.sequence != number {
                return Err(damaged(found.position, format!("it has commit {} as number {number}", entry.sequence)));
            }
            if entry.link.map(|link| link.previous) != Some(chain) {
                return Err(damaged(found.position, "the entry before it is not the one that it follows".into()));
            }
            chain = Chain::after_entry(&found.bytes);
            // Entries after the snapshot may have lowered cutoffs.
            if known.is_some_and(|known| found.position < known) {
                note(&entry.commit.cutoffs, stated);
            }
        }
        if read.next < from {
            return Err(damaged(read.next, format!("it ends there, but went on to byte {from} a moment ago")));
        }
        if read.entries.is_empty() {
            return Ok(());
        }
        from = read.next;
    }
}

fn check_rewrite(core: &Core, name: &str, stated: &mut Stated) -> Result<()> {
    let Some(bytes) = core.store.get(name).map_err(store_error)? else { return Ok(()) };
    let bad = |error| bad_entry(core.store.location(), name, 0, error);
    let entry = core.decoded(|forest| RewriteEntry::decode(&bytes, forest)).map_err(bad)?;
    note(&entry.rewrite.cutoffs, stated);
    Ok(())
}

/// Readers apply alterations up to the first missing one.
fn check_alterations(core: &Core, snapshot: Option<&Snapshot>, report: &mut VerifyReport) -> Result<()> {
    let Some(snapshot) = snapshot else { return Ok(()) };
    let names = core.store.list(ALTERATIONS).map_err(store_error)?;
    let last = names.iter().map(|name| number_of(name)).max().unwrap_or(0);
    let missing = alteration::name_of(snapshot.view.schema.version + 1);
    // It may have been published after the snapshot.
    if last > snapshot.view.schema.version && core.store.get(&missing).map_err(store_error)?.is_none() {
        report.find(format!("{}/{missing} is missing, and later ones are there", core.store.location()));
    }
    Ok(())
}

/// Checks I3: no cutoff is higher than in an existing entry, and cubes of the deepest level have none.
fn check_cutoffs(snapshot: &Snapshot, stated: &Stated, report: &mut VerifyReport, cancel: &Cancel) -> Result<()> {
    let core = &snapshot.core;
    let forest = core.forest();
    let mut kept: HashSet<CubeId> = HashSet::new();
    snapshot.view.runs.each_in_order(core, cancel, |entry| {
        let Entry::Cutoff(cube, cutoff) = entry else { return Ok(()) };
        if cube.level() == forest.tree_of(cube).deepest() && cutoff < Threshold::ALL {
            report.find(format!("cube {:#x} is of the deepest level and has a cutoff", cube.to_u128()));
        }
        if stated.get(&cube).is_some_and(|lowest| cutoff <= *lowest) {
            kept.insert(cube);
        }
        Ok(())
    })?;
    for (cube, lowest) in stated.iter().filter(|(cube, lowest)| **lowest < Threshold::ALL && !kept.contains(cube)) {
        // A later rewrite may have lowered this cutoff.
        let now = core.view(cancel)?.runs.of_cubes(core, std::iter::once(*cube), cancel)?;
        if now.cutoff(*cube) > *lowest {
            report.find(format!("the cutoff of cube {:#x} is higher than an entry says", cube.to_u128()));
        }
    }
    Ok(())
}
