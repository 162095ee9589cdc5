//! The optimizer: the layout heals behind the writers' backs.
//!
//! Small commits rest high in the tree and cubes gather many runs. The optimizer
//! looks for cubes with much debt, rows that a fresh build would put elsewhere or
//! that lie in surplus runs, takes the runs of such a cube (with its whole
//! subtree, if that fits in memory), places their rows anew and publishes the
//! outcome as one rewrite. Writers and readers go on meanwhile; it can be stopped
//! at any moment.
//!
//! Work is only done where debt is a good share of what would be rewritten, so
//! each row is rewritten about once each time the data around it doubles.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arrow_select::concat::concat_batches;
use kubist_index::cube::CubeId;
use kubist_index::layout::Capacity;
use kubist_index::priority::Threshold;
use kubist_index::state::Run;
use rayon::prelude::*;

use crate::build::SortedRows;
use crate::entry::Location;
use crate::error::{Error, Result, store_error};
use crate::options::Cancel;
use crate::output::Output;
use crate::rewrite::{Replacement, create_segment, publish};
use crate::seen::Seen;
use crate::snapshot::Snapshot;
use crate::table::{Table, View};

/// Stored bytes that are rewritten at once, in memory.
const BYTES_AT_ONCE: u64 = 512 << 20;

/// How far the optimizer goes.
#[derive(Clone, Debug)]
pub struct OptimizeOptions {
    /// Rewrites a part of the tree when at least this share of its rows is debt:
    /// low values give a better layout, high ones fewer bytes written.
    pub debt_share: f64,
    /// Rows that are rewritten at once, in memory.
    pub rows_at_once: u64,
    /// Below 1: works on one core only, and rests so long between rewrites that it
    /// takes this share of it. At 1 it takes all cores.
    pub core_share: f64,
    pub cancel: Cancel,
}

impl Default for OptimizeOptions {
    fn default() -> Self {
        OptimizeOptions { debt_share: 0.05, rows_at_once: 4_000_000, core_share: 1.0, cancel: Cancel::default() }
    }
}

impl OptimizeOptions {
    /// For work beside commits: few bytes written, and most of the machine left alone.
    pub fn background() -> OptimizeOptions {
        OptimizeOptions { debt_share: 0.5, rows_at_once: 1_000_000, core_share: 0.4, cancel: Cancel::default() }
    }
}

/// What a call of [`Table::optimize`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct OptimizeReport {
    pub rewrites: u64,
    pub rows_rewritten: u64,
    pub bytes_written: u64,
    /// Rewrites that another optimizer made superfluous.
    pub conflicts: u64,
    /// Rows that a fresh build would put elsewhere, before and after.
    pub debt_before: u64,
    pub debt_after: u64,
}

/// Runs that one rewrite replaces.
struct Move {
    top: CubeId,
    runs: Vec<Arc<Run<Location>>>,
}

impl Table {
    /// Improves the layout until no part of the tree has too large a share of
    /// debt. Calls `progress(rewritten rows, debt left)` after each rewrite.
    pub fn optimize(&self, options: &OptimizeOptions, progress: &mut dyn FnMut(u64, u64)) -> Result<OptimizeReport> {
        if !(options.core_share > 0.0 && options.core_share <= 1.0) {
            return Err(Error::invalid(format!("core_share must be in (0, 1], found {}", options.core_share)));
        }
        // A pool of its own keeps the work off the other cores.
        let pool = match options.core_share < 1.0 {
            true => Some(rayon::ThreadPoolBuilder::new().num_threads(1).build()),
            false => None,
        };
        let pool = pool.transpose().map_err(|error| Error::Io(format!("cannot start a thread: {error}")))?;
        let mut report = OptimizeReport::default();
        let mut done: HashSet<CubeId> = HashSet::new();
        for pass in 0.. {
            let snapshot = self.snapshot()?;
            let survey = Survey::new(&snapshot.view, &self.core.header.capacity);
            if pass == 0 {
                report.debt_before = survey.debt();
            }
            report.debt_after = survey.debt();
            let moves = survey.moves(options, &done);
            if moves.is_empty() {
                break;
            }
            for one in moves {
                options.cancel.check()?;
                done.insert(one.top);
                let rows: u64 = one.runs.iter().map(|run| run.rows).sum();
                let begin = Instant::now();
                let rewritten = match &pool {
                    Some(pool) => pool.install(|| self.rewrite(&snapshot, one, &options.cancel)),
                    None => self.rewrite(&snapshot, one, &options.cancel),
                };
                let rewritten = match rewritten {
                    // Others rewrote it and cleaned up while this one slept.
                    Err(Error::SnapshotExpired { .. }) => None,
                    rewritten => rewritten?,
                };
                rest(begin.elapsed().mul_f64(1.0 / options.core_share - 1.0), &options.cancel)?;
                match rewritten {
                    Some(bytes) => {
                        report.rewrites += 1;
                        report.rows_rewritten += rows;
                        report.bytes_written += bytes;
                    }
                    None => report.conflicts += 1,
                }
                progress(report.rows_rewritten, report.debt_after.saturating_sub(report.rows_rewritten));
            }
        }
        if report.rewrites > 0 {
            self.checkpoint()?;
        }
        Ok(report)
    }

    /// Places the rows of some runs anew; the bytes written, or `None` if
    /// somebody else has replaced one of the runs first.
    fn rewrite(&self, snapshot: &Snapshot, one: Move, cancel: &Cancel) -> Result<Option<u64>> {
        let core = &self.core;
        let view = core.view()?;
        let Some(frame) = core.frame()? else { return Ok(Some(0)) };
        let batches = one.runs.par_iter().map(|run| Ok(snapshot.read_run(run)?.0)).collect::<Result<Vec<_>>>()?;
        let sorted = SortedRows::new(&frame, concat_batches(&core.schema.stored, &batches)?);
        drop(batches);
        let geometry = core.geometry;
        let above = geometry.parent(one.top).map_or(Threshold::NONE, |parent| view.directory.cutoff(parent));
        let seen = Seen::without(&view, one.runs.iter().map(|run| run.id));
        let rows = (0..sorted.order.len() as u32).collect();
        let mut placed = sorted.place(&geometry, &Capacity::new(core.header.capacity), &seen, one.top, above, rows);
        // What rests below `top` relied on the cutoffs above it as well (I5).
        placed.cutoffs.extend(geometry.ancestors(one.top).map(|cube| (cube, view.directory.cutoff(cube))));
        let mut segment = create_segment(core, &view)?;
        let mut output = Output::new(segment.as_mut(), cancel);
        output.write(&sorted, &placed.placements)?;
        let (runs, bytes) = (output.runs, output.bytes);
        segment.sync().map_err(store_error)?;
        let name = segment.name().to_string();
        drop(segment);
        let replacement =
            Replacement { inputs: one.runs, runs, cutoffs: placed.cutoffs, retract_after: None, needs: vec![] };
        let published = publish(core, replacement, cancel);
        // After an error the entry may be there all the same, and need the segment.
        if matches!(published, Ok(false)) {
            // Nobody can know of it: best effort, it only takes space.
            let _ = core.store.delete_segment(&name);
        }
        Ok(published?.then_some(bytes))
    }
}

/// Sleeps, and wakes up soon when cancelled.
fn rest(time: Duration, cancel: &Cancel) -> Result<()> {
    let begin = Instant::now();
    while let Some(left) = time.checked_sub(begin.elapsed()).filter(|left| !left.is_zero()) {
        cancel.check()?;
        std::thread::sleep(left.min(Duration::from_millis(20)));
    }
    cancel.check()
}

/// Optimizes behind a writer's back, after its commits; ends with it.
pub struct Healer {
    cancel: Cancel,
    commits: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Healer {
    pub fn start(table: Table) -> Healer {
        let options = OptimizeOptions::background();
        let cancel = options.cancel.clone();
        // One place: commits that come while it works are one reason to look again.
        let (commits, woken) = sync_channel(1);
        let thread = std::thread::spawn(move || {
            while woken.recv().is_ok() && !options.cancel.is_set() {
                // What it could not do now, a later commit or an explicit call will
                // do or report: nothing is lost by a layout that stays as it is.
                let _ = table.optimize(&options, &mut |_, _| {});
            }
        });
        Healer { cancel, commits: Some(commits), thread: Some(thread) }
    }

    /// Says that there is something new.
    pub fn wake(&self) {
        if let Some(commits) = &self.commits {
            let _ = commits.try_send(());
        }
    }
}

impl Drop for Healer {
    fn drop(&mut self) {
        self.cancel.set();
        self.commits = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// One cube with runs.
struct Place {
    cube: CubeId,
    runs: Vec<Arc<Run<Location>>>,
    rows: u64,
    debt: u64,
    /// Of the cube and everything below it.
    tree_rows: u64,
    tree_debt: u64,
    tree_bytes: u64,
    /// The first place that is not below it.
    end: usize,
}

/// All cubes with runs in depth-first order, and what is wrong with them.
struct Survey {
    places: Vec<Place>,
}

impl Survey {
    fn new(view: &View, capacity: &u32) -> Survey {
        let capacity = Capacity::new(*capacity);
        let geometry = view.directory.geometry();
        // Rows of steps that are not complete are left alone: they may be retracted.
        let incomplete = view.history.incomplete();
        let movable = |run: &Arc<Run<Location>>| {
            let step = run.payload.origin.as_ref().and_then(|origin| origin.step);
            step.is_none_or(|step| !incomplete.contains(&step))
        };
        let mut places: Vec<Place> = Vec::new();
        let runs: Vec<Arc<Run<Location>>> = view.directory.runs().iter().filter(|run| movable(run)).cloned().collect();
        for of_cube in runs.chunk_by(|a, b| a.cube == b.cube) {
            let cube = of_cube[0].cube;
            let rows = of_cube.iter().map(|run| run.rows).sum::<u64>();
            let largest = of_cube.iter().map(|run| run.rows).max().unwrap_or(0);
            // A fresh build leaves up to so many rows here.
            let usual = match view.directory.cutoff(cube) == Threshold::ALL {
                true => capacity.leaf_rows,
                false => capacity.leaf_rows + (capacity.worth_pushing << geometry.dimensions()),
            } as u64;
            let excess = if cube.level() < geometry.deepest() { largest.saturating_sub(usual) } else { 0 };
            let debt = (rows - largest + excess).min(rows);
            let tree_bytes = of_cube.iter().map(|run| run.payload.data_length).sum();
            let (tree_rows, tree_debt, end) = (rows, debt, 0);
            places.push(Place { cube, runs: of_cube.to_vec(), rows, debt, tree_rows, tree_debt, tree_bytes, end });
        }
        let mut open: Vec<usize> = Vec::new();
        for place in 0..=places.len() {
            while let Some(above) = open.last().copied() {
                let inside = place < places.len() && geometry.contains(places[above].cube, places[place].cube);
                if inside {
                    break;
                }
                open.pop();
                places[above].end = place;
                if let Some(parent) = open.last().copied() {
                    let (rows, debt) = (places[above].tree_rows, places[above].tree_debt);
                    places[parent].tree_bytes += places[above].tree_bytes;
                    places[parent].tree_rows += rows;
                    places[parent].tree_debt += debt;
                }
            }
            open.push(place);
        }
        Survey { places }
    }

    fn debt(&self) -> u64 {
        self.places.iter().map(|place| place.debt).sum()
    }

    /// Disjoint moves, from the root downwards.
    fn moves(&self, options: &OptimizeOptions, done: &HashSet<CubeId>) -> Vec<Move> {
        let worth = |debt: u64, rows: u64| debt > 0 && debt as f64 >= options.debt_share * rows as f64;
        let mut moves = Vec::new();
        let mut place = 0;
        // Below a cube whose own runs move, nothing else moves in the same pass:
        // new rows are about to arrive there.
        let mut blocked: BTreeSet<usize> = BTreeSet::new();
        while place < self.places.len() {
            let here = &self.places[place];
            if done.contains(&here.cube) || blocked.iter().any(|end| place < *end) {
                place += 1;
                continue;
            }
            let fits = here.tree_rows <= options.rows_at_once && here.tree_bytes <= BYTES_AT_ONCE;
            if fits && worth(here.tree_debt, here.tree_rows) {
                let runs = self.places[place..here.end].iter().flat_map(|below| below.runs.iter().cloned()).collect();
                moves.push(Move { top: here.cube, runs });
                place = here.end;
                continue;
            }
            if !fits && worth(here.debt, here.rows) {
                let (mut rows, mut bytes) = (0, 0);
                let few = here.runs.iter().take_while(|run| {
                    rows += run.rows;
                    bytes += run.payload.data_length;
                    rows == run.rows || (rows <= options.rows_at_once && bytes <= BYTES_AT_ONCE)
                });
                moves.push(Move { top: here.cube, runs: few.cloned().collect() });
                blocked.insert(here.end);
            }
            place += 1;
        }
        moves
    }
}
