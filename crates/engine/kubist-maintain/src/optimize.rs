//! The optimizer: improves the layout of a table while writers and readers continue.
//!
//! Small commits leave rows high in the tree, and cubes collect many runs. The optimizer reads the runs of a subtree
//! that the planner chose, moves their rows to the right cubes of the newest grid, and publishes the result as one
//! rewrite. It also merges secondary indexes, and makes the replicas of the table's policy.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kubist_index::cube::CubeId;
use kubist_index::layout::{Capacity, TreeState};
use kubist_index::priority::Threshold;
use rayon::prelude::*;

use crate::inputs::live;
use crate::lease::Lease;
use crate::merge_lookups;
use crate::planner::{CompactionPlanner, Debt, Kind, Plan, PlanRequest, Rewrite};
use crate::policy::OptimizeOptions;
use crate::recompress::recompress;
use crate::regrid::{When, follow_data};
use crate::replicate::{self, Parts};
use kubist_catalog::core::Core;
use kubist_catalog::snapshot::Snapshot;
use kubist_catalog::write_checkpoint;
use kubist_read::runs::read_run;
use kubist_types::cancel::Cancel;
use kubist_types::error::{Error, ErrorKind, Result};
use kubist_write::build::SortedRows;
use kubist_write::publish::{NewRuns, Replacement, Written};
use kubist_write::remaining::RemainingDirectories;

const NICE: i32 = 10;
/// After this time, a background round stops small rewrites, does its large rewrite, and ends.
const ROUND: Duration = Duration::from_millis(300);

#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct OptimizeReport {
    pub rewrites: u64,
    pub rows_rewritten: u64,
    /// Rows that moved to the newest grid.
    pub rows_moved: u64,
    pub rows_copied: u64,
    pub lookups_merged: u64,
    pub bytes_written: u64,
    pub new_grid: bool,
    /// Rewrites that failed because another rewrite replaced an input first.
    pub conflicts: u64,
    /// Subtrees that another optimizer had leased.
    pub left_to_others: u64,
    /// Debt before the call, in rows.
    pub debt_before: u64,
    pub debt_after: u64,
}

struct Turn {
    leased: bool,
    written: Option<Written>,
    spent: Duration,
}

/// The speed limit, and callbacks of progress.
pub struct Pace<'a> {
    /// The fraction of a core that the optimizer may use now.
    pub core_share: &'a dyn Fn() -> f64,
    pub planned: &'a dyn Fn(&Debt),
    /// Called after each rewrite with the total of rewritten rows and the removed debt.
    pub rewrote: &'a mut dyn FnMut(u64, u64),
}

/// Improves the layout until the debt of every subtree is below `debt_share`, and calls
/// `progress(rewritten rows, remaining debt)` after each rewrite.
///
/// # Errors
///
/// `Invalid` options; the errors of [`Core::view`]. Rewrites that were published before the error stay.
pub fn optimize(
    core: &Arc<Core>,
    options: &OptimizeOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<OptimizeReport> {
    let left = std::cell::Cell::new(0);
    optimize_at(
        core,
        options,
        &mut Pace {
            core_share: &|| options.core_share,
            planned: &|debt| left.set(debt.total()),
            rewrote: &mut |rows, repaid| {
                left.set(left.get().saturating_sub(repaid));
                progress(rows, left.get());
            },
        },
    )
}

/// [`optimize`] with a speed limit and callbacks.
///
/// # Errors
///
/// The same as [`optimize`].
pub fn optimize_at(core: &Arc<Core>, options: &OptimizeOptions, pace: &mut Pace<'_>) -> Result<OptimizeReport> {
    if !(options.core_share > 0.0 && options.core_share <= 1.0) {
        return Err(Error::invalid(format!("core_share must be in (0, 1], found {}", options.core_share)));
    }
    let hands = Hands::new(options)?;
    let mut report = OptimizeReport::default();
    let mut tried: HashMap<CubeId, u64> = HashMap::new();
    let mut unlisted = 0;
    // Rows of other subtrees move down in runs above a minimum size.
    let adding = Capacity::adding(core.header.capacity, options.debt_share);
    if options.follow_data {
        let snapshot = Snapshot::now(core, &options.cancel)?;
        let when = if options.one_round { When::Grown } else { When::Now };
        report.new_grid = follow_data(core, &snapshot, when, &options.cancel)?;
    }
    if options.recompress {
        recompress(core, options, &mut |written| {
            report.rewrites += 1;
            report.rows_rewritten += written.rows;
            report.bytes_written += written.bytes;
            (pace.rewrote)(report.rows_rewritten, 0);
            keep_short(core, &mut unlisted, written, options)
        })?;
    }
    for pass in 0.. {
        let Plan { debt, rewrites } = plan(core, &adding, PlanRequest { options, tried: &tried })?;
        (pace.planned)(&debt);
        if pass == 0 {
            report.debt_before = debt.total();
        }
        report.debt_after = debt.total();
        if rewrites.is_empty() {
            break;
        }
        let mut worked = Duration::ZERO;
        for one in rewrites {
            if options.one_round && worked > ROUND && one.kind == Kind::Own {
                continue;
            }
            let mut work = || rewrite(core, &one, &adding, &options.cancel);
            let turn = turn(core, Some(one.top), &hands, options, &mut report, &mut work)?;
            // A cube is tried again only if its debt fell by a quarter of the rewritten rows. After a move the cube has
            // other rows, and the next move may start in it, so moves are exempt.
            if one.kind != Kind::Move || turn.written.is_none_or(|written| written.rows == 0) {
                tried.insert(one.top, if turn.leased { one.debt.saturating_sub(one.rows / 4) } else { 0 });
            }
            if let Some(written) = turn.written {
                report.rows_rewritten += written.rows;
                report.debt_after = report.debt_after.saturating_sub(one.debt);
                if one.kind == Kind::Move {
                    report.rows_moved += written.rows;
                } else {
                    let tree = core.forest().tree_of(one.top);
                    core.read_amplification.forget(&tree, one.top, one.kind == Kind::Whole);
                }
                (pace.rewrote)(report.rows_rewritten, if one.kind == Kind::Move { 0 } else { one.debt });
                keep_short(core, &mut unlisted, written, options)?;
            }
            worked += turn.spent;
            rest(owed(turn.spent, pace), &options.cancel)?;
        }
        if options.one_round {
            return conclude(core, options, report);
        }
    }
    merge_lookups::each(core, options, &mut |group| {
        let mut lookups = 0;
        let mut work = || {
            let merged = merge_lookups::merge(core, group, &options.cancel)?;
            lookups = merged.map_or(0, |(_, lookups)| lookups);
            Ok(merged.map(|(written, _)| written))
        };
        // These runs are in the whole tree, so a lease would block all other work, whereas a conflict costs only
        // seconds.
        let turn = turn(core, None, &hands, options, &mut report, &mut work)?;
        report.lookups_merged += lookups;
        if let Some(written) = turn.written {
            (pace.rewrote)(report.rows_rewritten, 0);
            keep_short(core, &mut unlisted, written, options)?;
        }
        rest(owed(turn.spent, pace), &options.cancel)
    })?;
    let policy = options.replication.unwrap_or(core.header.replication);
    // Makes only one replica, because compactions of new commits come first.
    let most = if options.one_round { 1 } else { usize::MAX };
    loop {
        let (view, Parts { parts, are_all }) = replicate::parts(core, policy, options)?;
        let snapshot = Snapshot::new(core.clone(), view);
        let before = report.rewrites;
        for part in parts.into_iter().take(most) {
            let mut work = || replicate::copy(&snapshot, &part, &options.cancel);
            let turn = turn(core, Some(part.top), &hands, options, &mut report, &mut work)?;
            if let Some(written) = turn.written {
                report.rows_copied += written.rows;
                (pace.rewrote)(report.rows_rewritten + report.rows_copied, 0);
                keep_short(core, &mut unlisted, written, options)?;
            }
            rest(owed(turn.spent, pace), &options.cancel)?;
        }
        // If nothing was rewritten, other optimizers have leased the remaining subtrees.
        if are_all || options.one_round || report.rewrites == before {
            return conclude(core, options, report);
        }
    }
}

fn plan(core: &Core, capacity: &Capacity, wanted: PlanRequest<'_>) -> Result<Plan> {
    let cancel = &wanted.options.cancel;
    let (_, plan) = core.view_with(cancel, |view| {
        let mut planner = CompactionPlanner::new(view, core.forest(), capacity, &core.read_amplification, Some(wanted));
        view.runs.each_in_order(core, cancel, |entry| {
            planner.add(&entry);
            Ok(())
        })?;
        Ok(planner.finish())
    })?;
    Ok(plan)
}

/// Writes a checkpoint after many new runs if the manifest does not fit in memory: runs since the last checkpoint are
/// held in memory. `unlisted` counts the new runs of this call.
fn keep_short(core: &Core, unlisted: &mut u64, written: Written, options: &OptimizeOptions) -> Result<()> {
    *unlisted += written.runs;
    let is_long = core.last_view().is_some_and(|view| !core.fits_in_memory(view.runs.about()));
    if is_long && write_checkpoint::is_due(core, *unlisted) && write_checkpoint::write(core, &options.cancel)? {
        *unlisted = 0;
    }
    Ok(())
}

/// Does one unit of work under the lease of `top`, if any, unless another optimizer has it.
fn turn(
    core: &Arc<Core>,
    top: Option<CubeId>,
    hands: &Hands,
    options: &OptimizeOptions,
    report: &mut OptimizeReport,
    work: &mut (dyn FnMut() -> Result<Option<Written>> + Send),
) -> Result<Turn> {
    options.cancel.check()?;
    let lease = top.map(|top| Lease::take(core, top)).transpose()?;
    if matches!(lease, Some(None)) {
        report.left_to_others += 1;
        return Ok(Turn { leased: false, written: None, spent: Duration::ZERO });
    }
    let (written, spent) = hands.work(work)?;
    match written {
        Some(written) => {
            report.rewrites += 1;
            report.bytes_written += written.bytes;
        }
        None => report.conflicts += 1,
    }
    Ok(Turn { leased: true, written, spent })
}

/// Writes a checkpoint, so that other processes need not read these rewrites.
fn conclude(core: &Arc<Core>, options: &OptimizeOptions, report: OptimizeReport) -> Result<OptimizeReport> {
    let wanted = if options.one_round { write_checkpoint::is_due(core, 0) } else { report.rewrites > 0 };
    if wanted {
        write_checkpoint::write(core, &options.cancel)?;
    }
    // Without digests, queries are only slower.
    if !options.one_round
        && let Err(Error::Cancelled) = write_checkpoint::write_digests(core, &options.cancel)
    {
        return Err(Error::Cancelled);
    }
    Ok(report)
}

/// Does a rewrite; `None` if another rewrite has replaced a run first.
fn rewrite(core: &Arc<Core>, one: &Rewrite, adding: &Capacity, cancel: &Cancel) -> Result<Option<Written>> {
    // Moved rows may go to any cube of the newest tree.
    let (view, (known, inputs)) = core.view_with(cancel, |view| {
        let runs = &view.runs;
        if one.kind == Kind::Move {
            let of_inputs = runs.of_cubes(core, one.runs.iter().map(|(cube, _)| *cube), cancel)?;
            return Ok((runs.worth_knowing(core, cancel)?, live(&of_inputs, &one.runs)));
        }
        // For a single cube, reading the manifest below would cost more than it saves.
        let known = match one.kind {
            Kind::Own => runs.above(core, one.top, cancel)?,
            Kind::Whole | Kind::Move => runs.around(core, one.top, cancel)?,
        };
        let inputs = live(&known, &one.runs);
        Ok((vec![known], inputs))
    })?;
    let Some(inputs) = inputs else { return Ok(None) };
    let grid = if one.kind == Kind::Move { view.schema.newest_grid() } else { one.top.grid() };
    let Some(frame) = core.frame(&view.schema, grid)? else { return Ok(Some(Written::default())) };
    let snapshot = &Snapshot::new(core.clone(), view.clone());
    let read = inputs.par_iter().map(|run| {
        cancel.check()?;
        Ok(read_run(snapshot, run)?.0)
    });
    let batches = read.collect::<Result<Vec<_>>>()?;
    let sorted = SortedRows::new(&frame, &view.schema.stored, view.schema.run_encoding(), &batches, cancel)?;
    drop(batches);
    let geometry = frame.geometry;
    let top = if one.kind == Kind::Move { geometry.root() } else { one.top };
    let has_rows = known.iter().any(|part| part.trees().any(|tree| tree == geometry));
    let seen = RemainingDirectories::without(known, inputs.iter().map(|run| run.id));
    let above = geometry.parent(top).map_or(Threshold::NONE, |parent| seen.cutoff(parent));
    // A move places only a part of the rows, so the capacity of commits applies.
    let capacity = match one.kind {
        Kind::Own => *adding,
        Kind::Move if has_rows => Capacity::for_commits(core.header.capacity),
        Kind::Whole | Kind::Move => Capacity::new(core.header.capacity),
    };
    let rows = sorted.all().collect();
    let mut placed = sorted.place(&geometry, &capacity, &seen, top, above, rows);
    // The placement below `top` also used the cutoffs above it (I5).
    placed.cutoffs.extend(geometry.ancestors(top).map(|cube| (cube, seen.cutoff(cube))));
    let replacement = Replacement { inputs, cutoffs: placed.cutoffs, ..Replacement::default() };
    NewRuns::write(core, &view, &sorted, &placed.placements, cancel)?.publish(core, replacement, cancel)
}

/// The working threads: all cores, or one thread with a low priority.
struct Hands(Option<rayon::ThreadPool>);

impl Hands {
    fn new(options: &OptimizeOptions) -> Result<Hands> {
        if options.core_share >= 1.0 {
            return Ok(Hands(None));
        }
        // Commits and queries then get most of the core's time; without niceness, the thread still keeps its fraction.
        let polite = |_| {
            // On other systems, nice lowers the priority of the whole process.
            #[cfg(target_os = "linux")]
            let _ = rustix::process::nice(NICE);
        };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).start_handler(polite).build();
        Ok(Hands(Some(pool.map_err(|error| {
            Error::storage(ErrorKind::Unavailable, format!("cannot start a thread: {error}"), error)
        })?)))
    }

    /// Runs the work; also returns its time on one core, if one thread worked.
    fn work(&self, work: &mut (dyn FnMut() -> Result<Option<Written>> + Send)) -> Result<(Option<Written>, Duration)> {
        let (done, spent) = match &self.0 {
            None => (work(), Duration::ZERO),
            Some(pool) => pool.install(|| {
                let begin = core_time();
                let done = work();
                (done, core_time().saturating_sub(begin))
            }),
        };
        match done {
            // Another optimizer replaced these runs.
            Err(Error::SnapshotExpired { .. }) => Ok((None, spent)),
            done => Ok((done?, spent)),
        }
    }
}

fn core_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

fn owed(spent: Duration, pace: &Pace<'_>) -> Duration {
    spent.mul_f64(1.0 / (pace.core_share)().clamp(0.01, 1.0) - 1.0)
}

fn rest(time: Duration, cancel: &Cancel) -> Result<()> {
    let begin = Instant::now();
    while let Some(left) = time.checked_sub(begin.elapsed()).filter(|left| !left.is_zero()) {
        cancel.check()?;
        std::thread::sleep(left.min(Duration::from_millis(20)));
    }
    cancel.check()
}
