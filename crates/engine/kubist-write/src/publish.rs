//! The rewrite log: one numbered sequence of entries that replace runs.
//!
//! A rewriter takes the next number only if its inputs are still live after all earlier numbers. Two rewriters
//! therefore never replace the same run, and a rewriter that crashes leaves only unused bytes.
//!
//! # Why no rewrite names a segment that cleaning deletes
//!
//! A rewriter (1) reads the table and sees N - 1 rewrites, (2) checks that its segment exists and is not noted as
//! garbage, and (3) takes number N. The cleaner (1) notes a segment as garbage, (2) takes a number F by an empty entry
//! (the *fence*), (3) reads the table up to F at least, and (4) deletes the segment if nothing there names it. Each may
//! be stopped for any time in between. N differs from F, so there are two cases:
//!
//! - N < F: the cleaner sees the rewrite, and the segment stays;
//! - N > F: the rewriter had seen F when it read the table. The note is older than F, so the rewriter saw it and
//!   published nothing.
//!
//! A rewrite may also give new ids to runs whose bytes stay in the segments of its inputs. These segments need no
//! check, because an input is live from the entry that made it up to N. A cleaner that reads the table in between sees
//! the live input, and one that reads it after N sees the rewrite. For a cleaner that read the table before, the two
//! cases above apply to the entry that made the input.
//!
//! # Stores where changes become visible late
//!
//! There, a machine may believe for some time that a name is absent, and overlook a note. Cleaning therefore does not
//! note a rewrite's segment within the first hour. After half an hour by its own clock, a rewriter puts the note itself
//! ([`reserve`]), dated one hour later. Until that time, cleaning treats the segment as needed. If the rewriter finds a
//! note, it is too late and must not publish. Clocks may differ by half an hour.
//!
//! # A number that was taken before
//!
//! While a rewriter is stopped, its number may be taken, included in a checkpoint, and cleaned away, so that it seems
//! free. Cleaning deletes rewrites in ascending order, and keeps the last [`KEPT_REWRITES`] before a checkpoint. If the
//! previous number still exists, the number was free. If the previous one is gone, and a checkpoint contains more than
//! [`KEPT_REWRITES`] later rewrites, the number was taken before: the entry just put does not count and is deleted.
//!
//! The first number has no previous one. On stores where changes become visible late, cleaning deletes rewrites only
//! when every machine sees the checkpoint that contains them. A rewriter that was not stopped since it read the table
//! has therefore seen later rewrites, and its first number was free.

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

/// Maximum wait for a writer that is making an entry durable.
const PATIENCE: Duration = Duration::from_secs(5);

/// On stores where changes become visible late, cleaning does not note a rewrite's segment for this time, and the
/// rewriter reserves the segment after half of the time.
pub const SHARED_REWRITE_TIME: Duration = Duration::from_secs(3600);

/// Number of rewrites before a checkpoint that cleaning keeps, although the checkpoint contains them.
pub const KEPT_REWRITES: u64 = 64;

#[derive(Default)]
pub struct Replacement {
    pub inputs: Vec<Arc<Run<Location>>>,
    pub copied: Vec<Arc<Run<Location>>>,
    pub runs: Vec<Arc<Run<Location>>>,
    pub cutoffs: Vec<(CubeId, Threshold)>,
    pub retract_after: Option<i64>,
    /// Log positions that must be durable first, in addition to the positions of the inputs.
    pub needs: Vec<(String, u64)>,
}

/// Writes a durable segment of a rewrite; returns its name and the result of `fill`.
///
/// # Errors
///
/// The errors of [`write_segment`](segment::write_segment).
pub fn write_segment<T>(
    core: &Core,
    view: &View,
    fill: impl FnOnce(&mut dyn Segment) -> Result<T>,
) -> Result<(String, T)> {
    core.settle_schema(&view.schema)?;
    segment::write_segment(core, REWRITE_SEGMENT, view.rewrites + 1, fill)
}

/// Publishes a replacement, whose runs must be durable, under the next number. Returns `false`, without any change, if
/// an input is no longer live.
///
/// # Errors
///
/// The errors of [`Core::view`]; `Busy` if a needed commit does not become durable.
pub fn publish(core: &Core, mut replacement: Replacement, cancel: &Cancel) -> Result<bool> {
    let mut needs = replacement.needs.clone();
    let sources = replacement.inputs.iter().chain(&replacement.copied);
    let origins = sources.filter_map(|run| run.payload.origin.as_ref());
    // A run from a checkpoint is durable, and its writer is unknown.
    for origin in origins.filter(|origin| !origin.writer.is_empty()) {
        match needs.iter_mut().find(|(writer, _)| **writer == *origin.writer) {
            Some((_, position)) => *position = (*position).max(origin.position),
            None => needs.push((origin.writer.to_string(), origin.position)),
        }
    }
    // A crashed writer may seem to run until its ownership expires.
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
        // A replica that is no longer live is removed too.
        let lives = |run: &Arc<Run<Location>>| {
            run.is_replica() || directory.runs_of(run.cube).binary_search_by_key(&run.id, |live| live.id).is_ok()
        };
        if !replacement.inputs.iter().chain(&replacement.copied).all(lives) || copied_twice(&directory, &replacement) {
            return Ok(false);
        }
        // Must follow the read of the table (see the module).
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

fn made_for(replacement: &Replacement) -> BTreeSet<Arc<str>> {
    let segments = |runs: &[Arc<Run<Location>>]| -> BTreeSet<Arc<str>> {
        runs.iter().flat_map(|run| run.payload.segments()).cloned().collect()
    };
    &segments(&replacement.runs) - &segments(&replacement.inputs)
}

/// Whether the number just taken was free (see the module), if the table was read this long `ago`.
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
    // If the entry counts, the checkpoint contains it.
    core.store.delete(&rewrite_name(number)).map_err(store_error)?;
    let why =
        format!("rewrite {number} was made while this process stood still, and cleaned away; open the table again");
    Err(Error::SnapshotExpired { location: core.store.location().into(), why })
}

#[derive(Default)]
struct Reserved(Vec<(Arc<str>, Instant)>);

impl Reserved {
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

    /// If the deletion of the notes fails, cleaning deletes them.
    fn free(self, core: &Core) {
        self.0.iter().for_each(|(segment, _)| drop(core.store.delete(&note_of(segment))));
    }
}

/// Puts a note that the segment is garbage from one hour after `now` (milliseconds since 1970). Returns `false` if the
/// store itself, not a cache, already has a note.
///
/// # Errors
///
/// A storage error.
pub fn reserve(core: &Core, segment: &str, now: u64) -> Result<bool> {
    let until = now + SHARED_REWRITE_TIME.as_millis() as u64;
    core.store.put_if_absent(&note_of(segment), &until.to_le_bytes()).map_err(store_error)
}

/// The object that notes since when a segment is garbage.
pub fn note_of(segment: &str) -> String {
    format!("{GARBAGE}{segment}")
}

/// Whether a segment has a note, or is deleted.
///
/// # Errors
///
/// A storage error.
pub fn is_given_up(core: &Core, segment: &str) -> Result<bool> {
    Ok(core.store.get(&note_of(segment)).map_err(store_error)?.is_some()
        || core.store.segment_len(segment).map_err(store_error)?.is_none())
}

/// Takes a number by an empty entry, so that a rewriter that publishes later sees all earlier notes.
///
/// # Errors
///
/// The errors of [`Core::view`].
pub fn fence(core: &Core) -> Result<()> {
    while !publish(core, Replacement::default(), &Cancel::default())? {}
    Ok(())
}

/// Whether two replicas in a cube would copy the same run (I4).
fn copied_twice(directory: &Directory, replacement: &Replacement) -> bool {
    let inputs: HashSet<RunId> = replacement.inputs.iter().map(|input| input.id).collect();
    replacement.runs.iter().filter(|run| run.is_replica()).any(|new| {
        let others = directory.replicas_in(new.cube).iter();
        let mut staying = others.filter(|other| !inputs.contains(&other.id));
        staying.any(|other| other.copies.iter().any(|run| new.copies.contains(run)))
    })
}

#[derive(Clone, Copy, Default)]
pub struct Written {
    pub runs: u64,
    pub rows: u64,
    pub bytes: u64,
}

/// Errors are ignored, because a segment that nothing names only takes space.
fn discard(core: &Core, segment: &str) {
    let _ = core.store.delete_segment(segment);
}

/// Durable runs in a new segment that is not published.
pub struct NewRuns {
    pub runs: Vec<Arc<Run<Location>>>,
    segment: String,
    bytes: u64,
}

impl NewRuns {
    /// Writes placements as runs of a new, durable segment.
    ///
    /// # Errors
    ///
    /// `Cancelled`; `SnapshotExpired` if the segment was cleaned during the call; a storage error.
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

    /// Calls `fill` to write runs or secondary indexes into a new segment.
    ///
    /// # Errors
    ///
    /// The errors of [`write_segment`].
    pub fn filled(
        core: &Core,
        view: &View,
        fill: impl FnOnce(&mut dyn Segment) -> Result<(Vec<Arc<Run<Location>>>, u64)>,
    ) -> Result<NewRuns> {
        let (segment, (runs, bytes)) = write_segment(core, view, fill)?;
        Ok(NewRuns { runs, segment, bytes })
    }

    pub fn discard(self, core: &Core) {
        discard(core, &self.segment);
    }

    /// Publishes the runs of a replacement. Returns `None`, and deletes the segment, if a source is no longer live, or
    /// if a writer stopped between an entry and its sync. The caller can try again later.
    ///
    /// # Errors
    ///
    /// The errors of [`Core::view`].
    pub fn publish(self, core: &Core, replacement: Replacement, cancel: &Cancel) -> Result<Option<Written>> {
        let (runs, rows) = (self.runs.len() as u64, self.runs.iter().map(|run| run.rows).sum());
        let written = Written { runs, rows, bytes: self.bytes };
        let published = match publish(core, Replacement { runs: self.runs, ..replacement }, cancel) {
            // `Busy` occurs only before anything is published.
            Err(Error::Busy(_)) => Ok(false),
            published => published,
        };
        // After an error the entry may exist and need the segment.
        if matches!(published, Ok(false)) {
            discard(core, &self.segment);
        }
        Ok(published?.then_some(written))
    }
}
