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
//! Only objects put if absent, and reads of them, are asked of the store.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use arrow_array::BooleanArray;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_select::filter::filter_record_batch;
use kubist_index::cube::CubeId;
use kubist_index::layout::Placement;
use kubist_index::order::Keyed;
use kubist_index::priority::Threshold;
use kubist_index::state::{Rewrite, Run};
use kubist_store::Segment;

use crate::build::SortedRows;
use crate::clean::GARBAGE;
use crate::directory::Directory;
use crate::entry::{Location, RewriteEntry};
use crate::error::{Error, Result, store_error};
use crate::options::Cancel;
use crate::output::{Output, identify};
use crate::table::{Core, REWRITES, Table, View};
use crate::writer::DEFAULT_MEMORY;

/// How long to wait for a writer that is making an entry durable.
const PATIENCE: Duration = Duration::from_secs(5);

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

/// How the names of rewrites' segments begin; they end with the time of their
/// creation, so that no name is ever used again.
pub const REWRITE_SEGMENT: &str = "rewrite-";

/// Milliseconds since 1970.
pub fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// A segment for the runs of one rewrite.
pub fn create_segment(core: &Core, view: &View) -> Result<Box<dyn Segment>> {
    core.settle_schema(&view.schema)?;
    new_segment(core, REWRITE_SEGMENT, view.rewrites + 1)
}

/// A segment that is no writer's: of a rewrite or a checkpoint of that number.
pub fn new_segment(core: &Core, prefix: &str, number: u64) -> Result<Box<dyn Segment>> {
    let now = unix_ms();
    for attempt in 0..10_000 {
        match core.store.create_segment(&format!("{prefix}{number:06}-{:013}", now + attempt)) {
            Err(kubist_store::Error::Exists { .. }) => {}
            other => return other.map_err(store_error),
        }
    }
    Err(Error::Busy(format!("{}: ten thousand {prefix}{number:06} were begun", core.store.location())))
}

/// Takes the next number for a replacement whose runs are durable. `false` if
/// another rewrite has removed one of its inputs; then nothing has happened.
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
    for (writer, position) in &needs {
        settle(core, writer, *position, PATIENCE, cancel)?;
    }
    loop {
        cancel.check()?;
        core.check_still_there()?;
        let (view, directory) = core.view_with(|runs| runs.whole(core))?;
        // A replica that has died meanwhile is removed all the same.
        let lives = |run: &Arc<Run<Location>>| {
            run.is_replica() || directory.runs_of(run.cube).iter().any(|live| live.id == run.id)
        };
        if !replacement.inputs.iter().chain(&replacement.copied).all(lives) || copied_twice(&directory, &replacement) {
            return Ok(false);
        }
        // After the table was looked at: see the head.
        let mut segments: Vec<&Arc<str>> = replacement.runs.iter().map(|run| &run.payload.segment).collect();
        segments.dedup();
        for segment in segments {
            if is_given_up(core, segment)? {
                return Ok(false);
            }
        }
        let number = view.rewrites + 1;
        identify(&mut replacement.runs, Core::origin(REWRITES), number);
        let entry = RewriteEntry {
            rewrite: Rewrite {
                runs: replacement.runs.clone(),
                removes: replacement.inputs.iter().map(|run| run.id).collect(),
                cutoffs: replacement.cutoffs.clone(),
                needs: needs.clone(),
            },
            retract_after: replacement.retract_after,
            unix_ms: unix_ms(),
        };
        let bytes = entry.encode(&core.geometry);
        if core.store.put_if_absent(&format!("{REWRITES}{number:020}"), &bytes).map_err(store_error)? {
            return Ok(true);
        }
    }
}

/// Has a segment been deleted, or noted as garbage, so that it will be?
pub fn is_given_up(core: &Core, segment: &str) -> Result<bool> {
    Ok(core.store.get(&format!("{GARBAGE}{segment}")).map_err(store_error)?.is_some()
        || core.store.segment_len(segment).map_err(store_error)?.is_none())
}

/// Takes a number by an entry that says nothing: who has not published by now sees what was
/// noted as garbage before.
pub fn fence(core: &Core) -> Result<()> {
    while !publish(core, Replacement::default(), &Cancel::default())? {}
    Ok(())
}

/// Would two replicas in a cube cover one run (I4)?
fn copied_twice(directory: &Directory, replacement: &Replacement) -> bool {
    replacement.runs.iter().filter(|run| run.is_replica()).any(|new| {
        let others = directory.replicas_in(new.cube).iter();
        let mut staying = others.filter(|other| replacement.inputs.iter().all(|input| input.id != other.id));
        staying.any(|other| other.copies.iter().any(|run| new.copies.contains(run)))
    })
}

/// What one rewrite wrote.
#[derive(Clone, Copy, Default)]
pub struct Written {
    pub rows: u64,
    pub bytes: u64,
}

/// Durable runs in a segment of their own, of which nobody knows yet.
pub struct NewRuns {
    pub runs: Vec<Arc<Run<Location>>>,
    segment: String,
    bytes: u64,
}

impl NewRuns {
    pub fn write(
        core: &Core,
        view: &View,
        rows: &SortedRows,
        placements: &[Placement],
        cancel: &Cancel,
    ) -> Result<NewRuns> {
        let mut segment = create_segment(core, view)?;
        let mut output = Output::new(core, segment.as_mut(), DEFAULT_MEMORY, cancel);
        output.write(rows, placements)?;
        let (runs, bytes) = output.finish()?;
        segment.sync().map_err(store_error)?;
        Ok(NewRuns { runs, segment: segment.name().to_string(), bytes })
    }

    /// Publishes them as the runs of a replacement. `None` if a source lives no more, or
    /// a writer stands still between an entry and its durability: then the segment goes,
    /// and the work can be done later.
    pub fn publish(self, core: &Core, replacement: Replacement, cancel: &Cancel) -> Result<Option<Written>> {
        let written = Written { rows: self.runs.iter().map(|run| run.rows).sum(), bytes: self.bytes };
        let published = match publish(core, Replacement { runs: self.runs, ..replacement }, cancel) {
            // Said before anything is published.
            Err(Error::Busy(_)) => Ok(false),
            published => published,
        };
        // After an error the entry may be there all the same, and need the segment.
        if matches!(published, Ok(false)) {
            // Best effort: it only takes space.
            let _ = core.store.delete_segment(&self.segment);
        }
        Ok(published?.then_some(written))
    }
}

/// Returns once the log of `writer` is durable up to `position`: a rewrite must
/// not outlive a commit that it replaces.
pub fn settle(core: &Core, writer: &str, position: u64, patience: Duration, cancel: &Cancel) -> Result<()> {
    let begin = Instant::now();
    loop {
        cancel.check()?;
        if core.store.read_log(writer, position).map_err(store_error)?.durable >= position {
            return Ok(());
        }
        // Taking a log whose owner died makes its entries durable.
        match core.store.own_log(writer) {
            Ok(owner) if owner.position() >= position => return Ok(()),
            Ok(_) | Err(kubist_store::Error::Busy { .. }) if begin.elapsed() < patience => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(_) => {
                return Err(Error::Busy(format!(
                    "the log of writer {writer:?} has lost an entry: open the table again"
                )));
            }
            Err(error) => return Err(store_error(error)),
        }
    }
}

/// What [`Table::retract`] took back.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Retraction {
    pub rows: u64,
    /// Runs that held only retracted rows, and such that had to be written anew.
    pub runs_removed: u64,
    pub runs_rewritten: u64,
}

impl Table {
    /// Takes back every commit of a step after `step` that stands in the logs by
    /// now: none of its rows is seen again, and its tokens are forgotten, so that
    /// a solver that starts again from a checkpoint can go on from there. Stop
    /// the writers of the old attempt first: what they commit afterwards counts.
    pub fn retract(&self, step: i64, cancel: &Cancel) -> Result<Retraction> {
        let core = &self.core;
        loop {
            let snapshot = self.snapshot()?;
            let (column, directory) = (core.created.step(), snapshot.directory()?);
            let (maps, _) = snapshot.maps(directory.runs().iter())?;
            let (mut report, mut inputs, mut mixed) = (Retraction::default(), Vec::new(), Vec::new());
            for (run, map) in directory.runs().iter().zip(maps) {
                let zones = &map.columns[column];
                let later = |key: &u64| i64::from_key(*key) > step;
                if zones.max.iter().any(later) {
                    inputs.push(run.clone());
                    match zones.min.iter().all(later) {
                        true => (report.rows, report.runs_removed) = (report.rows + run.rows, report.runs_removed + 1),
                        false => mixed.push(run.clone()),
                    }
                }
            }
            let mut output_runs = Vec::new();
            if let (false, Some(frame)) = (mixed.is_empty(), core.frame()?) {
                let mut segment = create_segment(core, &snapshot.view)?;
                let mut output = Output::new(core, segment.as_mut(), DEFAULT_MEMORY, cancel);
                for run in mixed {
                    let (batch, _) = snapshot.read_run(&run)?;
                    let steps = batch.column(column).as_primitive::<Int64Type>();
                    let kept: BooleanArray = steps.values().iter().map(|of_row| Some(*of_row <= step)).collect();
                    let batch = filter_record_batch(&batch, &kept)?;
                    report.rows += run.rows - batch.num_rows() as u64;
                    report.runs_rewritten += 1;
                    let sorted = SortedRows::new(&frame, &batch.schema(), &[batch])?;
                    let cutoff = directory.cutoff(run.cube);
                    let (within, overflow) =
                        sorted.all().partition(|row| cutoff.admits(sorted.priorities[*row as usize]));
                    output.write(&sorted, &[Placement { cube: run.cube, within, overflow, cutoff }])?;
                }
                output_runs = output.finish()?.0;
                segment.sync().map_err(store_error)?;
            }
            let cutoffs = output_runs.iter().flat_map(|run| core.geometry.ancestors(run.cube));
            let cutoffs: BTreeSet<CubeId> = cutoffs.collect();
            let replacement = Replacement {
                inputs,
                runs: output_runs,
                cutoffs: cutoffs.into_iter().map(|cube| (cube, directory.cutoff(cube))).collect(),
                retract_after: Some(step),
                needs: snapshot.view.positions.clone(),
                ..Replacement::default()
            };
            if publish(core, replacement, cancel)? {
                return Ok(report);
            }
        }
    }
}
