//! The rewrite log: one numbered line of entries that replace runs.
//!
//! Whoever takes the next number has checked that what it replaces still lives
//! after all earlier numbers; so two rewriters never undo each other, and one
//! that dies leaves nothing but unused bytes.
//!
//! # Why no rewrite names a segment that cleaning deletes
//!
//! A rewriter looks at the table, sees N - 1 rewrites, *then* looks whether its segment is
//! there and not noted as garbage, *then* takes number N. It may be stopped for as long as
//! it likes between any two of these. Who cleans notes a segment as garbage, *then* takes a
//! number F itself, by an entry that says nothing (the fence), *then* looks at the table, up
//! to F at least, and deletes the segment only if nothing there names it. Numbers have one
//! owner each, so N is not F:
//!
//! - N < F: the rewrite is there when the cleaner looks, and the segment stays;
//! - N > F: the rewriter had seen F when it looked at the table, so the note, which is older
//!   than F, was there when it looked for it, and it published nothing.
//!
//! A rewrite may also name bytes in segments that its inputs lie in: runs that go on under other names. That needs no
//! look at these segments. An input lives from the entry that made it up to N, so a cleaner who looks in between needs its
//! segment; one who looks after N sees the rewrite, and to one who looked before, the entry that made the input was such a N.
//!
//! Only objects put if absent, and reads of them, are asked of the store. Where a machine may
//! remember for a while that a name is not there, a note may be overlooked. There cleaning notes
//! no segment of a rewrite that is younger than an hour. A rewriter that has taken half of that, by
//! its own clock, puts the note itself ([`reserve`]): as of an hour later, so that the segment counts
//! as garbage from then on, and cleaning finds the name taken. If the rewriter finds it taken, it has
//! come too late. Clocks may differ by half an hour.
//!
//! A number may have been taken and cleaned away while a rewriter stood still. The last rewrites
//! before a checkpoint stay, and cleaning goes up: where the number before is gone and a checkpoint
//! is so far that cleaning may have deleted this one, it was taken before, and what was just put
//! under it counts for nobody. Before
//! the first number there is none. Where others' changes are seen late, cleaning deletes rewrites
//! when everybody sees the checkpoint that holds them; so whoever has not stood still since it
//! looked at the table has seen later rewrites.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kubist_catalog::segment::{self, unix_ms};
use kubist_catalog::settle::settle;
use kubist_format::names::REWRITE_SEGMENT;
use kubist_index::cube::CubeId;
use kubist_index::layout::Placement;
use kubist_index::priority::Threshold;
use kubist_index::state::{Rewrite, Run, RunId};
use kubist_store::{Segment, StoreExt};

use crate::build::SortedRows;
use crate::output::DEFAULT_MEMORY;
use crate::output::{Output, identify};
use kubist_catalog::chains;
use kubist_catalog::checkpoint;
use kubist_catalog::core::Core;
use kubist_catalog::directory::Directory;
use kubist_catalog::error::store_error;
use kubist_catalog::stop::stoppable;
use kubist_catalog::view::View;
use kubist_format::entry::RewriteEntry;
use kubist_format::location::Location;
use kubist_format::names::GARBAGE;
use kubist_format::names::{REWRITES, rewrite_name};
use kubist_types::cancel::Cancel;
use kubist_types::error::{Error, Result};

/// How long to wait for a writer that is making an entry durable.
const PATIENCE: Duration = Duration::from_secs(5);

/// In a store where others' changes are seen late: a rewrite's segment is not noted as garbage for
/// so long after it was made, and its rewriter reserves it after half of it.
pub const SHARED_REWRITE_TIME: Duration = Duration::from_secs(3600);

/// Cleaning leaves so many rewrites that a checkpoint holds, the last ones.
pub const KEPT_REWRITES: u64 = 64;

/// What is to replace runs.
#[derive(Default)]
pub struct Replacement {
    /// Removed by it.
    pub inputs: Vec<Arc<Run<Location>>>,
    /// Primaries that the new runs copy.
    pub copied: Vec<Arc<Run<Location>>>,
    pub runs: Vec<Arc<Run<Location>>>,
    pub cutoffs: Vec<(CubeId, Threshold)>,
    pub retract_after: Option<i64>,
    /// Log positions that it depends on, beside those of its inputs.
    pub needs: Vec<(String, u64)>,
}

/// Writes a segment for the runs of one rewrite, durable when this returns: its name, and what `fill` gave.
///
/// # Errors
///
/// As of [`write_segment`](segment::write_segment).
pub fn write_segment<T>(
    core: &Core,
    view: &View,
    fill: impl FnOnce(&mut dyn Segment) -> Result<T>,
) -> Result<(String, T)> {
    core.settle_schema(&view.schema)?;
    segment::write_segment(core, REWRITE_SEGMENT, view.rewrites + 1, fill)
}

/// Takes the next number for a replacement whose runs are durable. `false` if
/// another rewrite has removed one of its inputs; then nothing has happened.
///
/// # Errors
///
/// `Cancelled`; as of [`Core::view`]; `Busy` if a commit that it needs does not become durable; a
/// storage error.
pub fn publish(core: &Core, mut replacement: Replacement, cancel: &Cancel) -> Result<bool> {
    let mut needs = replacement.needs.clone();
    let sources = replacement.inputs.iter().chain(&replacement.copied);
    let origins = sources.filter_map(|run| run.payload.origin.as_ref());
    // A run from a checkpoint is durable, and its writer is not known any more.
    for origin in origins.filter(|origin| !origin.writer.is_empty()) {
        match needs.iter_mut().find(|(writer, _)| **writer == *origin.writer) {
            Some((_, position)) => *position = (*position).max(origin.position),
            None => needs.push((origin.writer.to_string(), origin.position)),
        }
    }
    // A writer that died may seem to be at it until its claim lapses.
    let patience = PATIENCE + core.store.capabilities().fencing.outlives();
    for (writer, position) in &needs {
        settle(core, writer, *position, patience, cancel)?;
    }
    let made = made_for(&replacement);
    let mut reserved = Reserved::default();
    loop {
        cancel.check()?;
        let looked = Instant::now();
        core.check_still_there()?;
        let (view, directory) = core.view_with(cancel, |view| {
            let copies = replacement.runs.iter().filter(|run| run.is_replica());
            let concerned = replacement.inputs.iter().chain(&replacement.copied).chain(copies);
            view.runs.of_cubes(core, concerned.map(|run| run.cube), cancel)
        })?;
        // A replica that has died meanwhile is removed all the same.
        let lives = |run: &Arc<Run<Location>>| {
            run.is_replica() || directory.runs_of(run.cube).binary_search_by_key(&run.id, |live| live.id).is_ok()
        };
        if !replacement.inputs.iter().chain(&replacement.copied).all(lives) || copied_twice(&directory, &replacement) {
            return Ok(false);
        }
        // After the table was looked at: see the head.
        for segment in &made {
            if !reserved.is_ours(core, segment)? {
                return Ok(false);
            }
        }
        let number = view.rewrites + 1;
        identify(&mut replacement.runs, Core::origin(REWRITES), number);
        let entry = RewriteEntry {
            previous: chains::rewritten(core, view.rewrites, &view.history),
            rewrite: Rewrite {
                runs: replacement.runs.clone(),
                removes: replacement.inputs.iter().map(|run| run.id).collect(),
                cutoffs: replacement.cutoffs.clone(),
                needs: needs.clone(),
            },
            retract_after: replacement.retract_after,
            unix_ms: unix_ms(),
        };
        let bytes = entry.encode(&core.forest());
        if core.store.put_if_absent(&rewrite_name(number), &bytes).map_err(store_error)? {
            let counts = check_number(core, number, looked.elapsed(), cancel)?;
            reserved.free(core);
            return Ok(counts);
        }
    }
}

/// The segments that new runs and the lookups into them lie in, but for those of inputs, which stay as long as these live.
fn made_for(replacement: &Replacement) -> BTreeSet<Arc<str>> {
    let segments = |runs: &[Arc<Run<Location>>]| -> BTreeSet<Arc<str>> {
        runs.iter().flat_map(|run| run.payload.segments()).cloned().collect()
    };
    &segments(&replacement.runs) - &segments(&replacement.inputs)
}

/// Was the number that was just taken free before? See the head. The table was looked at `ago`.
fn check_number(core: &Core, number: u64, ago: Duration, cancel: &Cancel) -> Result<bool> {
    let staleness = core.store.capabilities().staleness;
    match number.checked_sub(1).filter(|before| *before > 0) {
        Some(before) if !matches!(core.store.get(&rewrite_name(before)), Ok(None)) => return Ok(true),
        None if !staleness.is_zero() && ago < staleness / 4 => return Ok(true),
        _ => {}
    }
    stoppable(cancel, || core.store.catch_up()).map_err(store_error)?;
    if checkpoint::load(core, cancel)?.is_none_or(|held| held.state.rewrites() <= number + KEPT_REWRITES) {
        return Ok(true);
    }
    // If it counted, the checkpoint holds it, and cleaning deletes it too.
    core.store.delete(&rewrite_name(number)).map_err(store_error)?;
    let why =
        format!("rewrite {number} was made while this process stood still, and cleaned away; open the table again");
    Err(Error::SnapshotExpired { location: core.store.location().into(), why })
}

/// The notes that a rewriter has put itself.
#[derive(Default)]
struct Reserved(Vec<(Arc<str>, Instant)>);

impl Reserved {
    /// May the rewrite name a segment, and be sure that cleaning leaves it?
    fn is_ours(&mut self, core: &Core, segment: &Arc<str>) -> Result<bool> {
        if let Some((_, since)) = self.0.iter().find(|(reserved, _)| reserved == segment) {
            return Ok(since.elapsed() < SHARED_REWRITE_TIME / 2);
        }
        if is_given_up(core, segment)? {
            return Ok(false);
        }
        let made = segment.rsplit_once('-').and_then(|(_, at)| at.parse::<u64>().ok());
        let age = Duration::from_millis(made.map_or(0, |at| unix_ms().saturating_sub(at)));
        if core.store.capabilities().staleness.is_zero() || age < SHARED_REWRITE_TIME / 2 {
            return Ok(true);
        }
        let since = Instant::now();
        let is_ours = reserve(core, segment, unix_ms())?;
        self.0.extend(is_ours.then(|| (segment.clone(), since)));
        Ok(is_ours)
    }

    /// What is named by a rewrite is no garbage. A note that stays is deleted by cleaning.
    fn free(self, core: &Core) {
        self.0.iter().for_each(|(segment, _)| drop(core.store.delete(&note_of(segment))));
    }
}

/// Notes a segment as garbage as of a later time, in milliseconds since 1970; `false` if it is
/// noted already. Whoever asks has the store's own answer, and none that its machine remembers.
///
/// # Errors
///
/// A storage error.
pub fn reserve(core: &Core, segment: &str, now: u64) -> Result<bool> {
    let until = now + SHARED_REWRITE_TIME.as_millis() as u64;
    core.store.put_if_absent(&note_of(segment), &until.to_le_bytes()).map_err(store_error)
}

/// Where it is noted since when a segment has been garbage.
pub fn note_of(segment: &str) -> String {
    format!("{GARBAGE}{segment}")
}

/// Has a segment been deleted, or noted as garbage, so that it will be?
///
/// # Errors
///
/// A storage error.
pub fn is_given_up(core: &Core, segment: &str) -> Result<bool> {
    Ok(core.store.get(&note_of(segment)).map_err(store_error)?.is_some()
        || core.store.segment_len(segment).map_err(store_error)?.is_none())
}

/// Takes a number by an empty entry (the fence): a rewriter that has not published by now sees
/// what was noted as garbage before.
///
/// # Errors
///
/// As of [`Core::view`], or a storage error.
pub fn fence(core: &Core) -> Result<()> {
    while !publish(core, Replacement::default(), &Cancel::default())? {}
    Ok(())
}

/// Would two replicas in a cube cover one run (I4)?
fn copied_twice(directory: &Directory, replacement: &Replacement) -> bool {
    let inputs: HashSet<RunId> = replacement.inputs.iter().map(|input| input.id).collect();
    replacement.runs.iter().filter(|run| run.is_replica()).any(|new| {
        let others = directory.replicas_in(new.cube).iter();
        let mut staying = others.filter(|other| !inputs.contains(&other.id));
        staying.any(|other| other.copies.iter().any(|run| new.copies.contains(run)))
    })
}

/// What one rewrite wrote.
#[derive(Clone, Copy, Default)]
pub struct Written {
    pub runs: u64,
    pub rows: u64,
    pub bytes: u64,
}

/// Deletes a segment that nothing names. Best effort: it only takes space.
fn discard(core: &Core, segment: &str) {
    let _ = core.store.delete_segment(segment);
}

/// Durable runs in a segment of their own, of which nobody knows yet.
pub struct NewRuns {
    pub runs: Vec<Arc<Run<Location>>>,
    segment: String,
    bytes: u64,
}

impl NewRuns {
    /// Writes placements as runs of a new segment, durable when this returns.
    ///
    /// # Errors
    ///
    /// `Cancelled`; `SnapshotExpired` if the segment was cleaned away meanwhile; a storage error.
    pub fn write(
        core: &Core,
        view: &View,
        rows: &SortedRows,
        placements: &[Placement],
        cancel: &Cancel,
    ) -> Result<NewRuns> {
        NewRuns::filled(core, view, |segment| {
            let mut output = Output::new(core, &rows.frame().dimensions, segment, DEFAULT_MEMORY, cancel);
            output.write(rows, placements)?;
            output.finish()
        })
    }

    /// Runs that `fill` writes into a new segment, or the lookup into them, and how many bytes it wrote.
    ///
    /// # Errors
    ///
    /// As of [`write_segment`].
    pub fn filled(
        core: &Core,
        view: &View,
        fill: impl FnOnce(&mut dyn Segment) -> Result<(Vec<Arc<Run<Location>>>, u64)>,
    ) -> Result<NewRuns> {
        let (segment, (runs, bytes)) = write_segment(core, view, fill)?;
        Ok(NewRuns { runs, segment, bytes })
    }

    /// Gives them up.
    pub fn discard(self, core: &Core) {
        discard(core, &self.segment);
    }

    /// Publishes them as the runs of a replacement. `None` if a source lives no more, or
    /// a writer stands still between an entry and its durability: then the segment goes,
    /// and the work can be done later.
    ///
    /// # Errors
    ///
    /// `Cancelled`; as of [`Core::view`]; a storage error.
    pub fn publish(self, core: &Core, replacement: Replacement, cancel: &Cancel) -> Result<Option<Written>> {
        let (runs, rows) = (self.runs.len() as u64, self.runs.iter().map(|run| run.rows).sum());
        let written = Written { runs, rows, bytes: self.bytes };
        let published = match publish(core, Replacement { runs: self.runs, ..replacement }, cancel) {
            // Said before anything is published.
            Err(Error::Busy(_)) => Ok(false),
            published => published,
        };
        // After an error the entry may be there all the same, and need the segment.
        if matches!(published, Ok(false)) {
            discard(core, &self.segment);
        }
        Ok(published?.then_some(written))
    }
}
