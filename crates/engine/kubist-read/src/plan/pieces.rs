//! Plans in pieces, for a directory that does not fit in memory. Rows are read before the whole directory is,
//! and only one piece is in memory.

use std::sync::Arc;
use std::time::Instant;

use kubist_catalog::directory::{Abridged, Stretches};
use kubist_catalog::trace;
use kubist_format::location::Location;
use kubist_index::gradual;
use kubist_index::priority::PriorityRange;
use kubist_index::state::Run;
use kubist_types::error::{Error, Result};
use kubist_types::stats::Stats;

use super::{Planner, ReadPlan, of_part};
use crate::visit::Visit;

/// Rows of the runs that [`Pieces::ranked`] reads first.
const FIRST_ROWS: u64 = 4_096;

/// Read plans that together have each row once. It is a single plan, unless that would take long to make.
pub struct Pieces(Left);

enum Left {
    Plan(Arc<ReadPlan>),
    /// The second plan is read after the first.
    Ranked(Arc<ReadPlan>, Arc<ReadPlan>),
    Stretches {
        planner: Box<Planner>,
        range: PriorityRange,
        stretches: Stretches,
    },
    Nothing,
}

impl Pieces {
    pub fn nothing() -> Pieces {
        Pieces(Left::Nothing)
    }

    /// Reads some runs of the lowest rank first; without effect if the directory does not fit in memory.
    pub fn ranked(self, rank: impl Fn(&Run<Location>) -> u64) -> Pieces {
        let Left::Plan(plan) = self.0 else { return self };
        let mut visits = plan.visits.clone();
        visits.sort_by_cached_key(|visit| rank(&visit.run));
        let mut rows = 0;
        let of_first = visits.iter().take_while(|visit| {
            let before = rows;
            rows += visit.run.rows;
            before < FIRST_ROWS
        });
        let count = of_first.count();
        let others = visits.split_off(count);
        let of = |visits| Arc::new(ReadPlan { query: plan.query.clone(), range: plan.range, visits });
        Pieces(Left::Ranked(of(visits), of(others)))
    }

    pub fn are_several(&self) -> bool {
        matches!(self.0, Left::Stretches { .. })
    }

    /// Makes the next plan, and adds the cost to `stats`. After an error nothing is left.
    pub fn next(&mut self, stats: &mut Stats) -> Option<Result<Arc<ReadPlan>>> {
        match std::mem::replace(&mut self.0, Left::Nothing) {
            Left::Nothing => None,
            Left::Plan(plan) => Some(Ok(plan)),
            Left::Ranked(first, others) => {
                self.0 = Left::Plan(others);
                Some(Ok(first))
            }
            Left::Stretches { mut planner, range, mut stretches } => {
                let next = planner.next_piece(&mut stretches, range, stats).transpose()?;
                if next.is_ok() {
                    self.0 = Left::Stretches { planner, range, stretches };
                }
                Some(next)
            }
        }
    }
}

impl From<Arc<ReadPlan>> for Pieces {
    fn from(plan: Arc<ReadPlan>) -> Pieces {
        Pieces(Left::Plan(plan))
    }
}

impl From<ReadPlan> for Pieces {
    fn from(plan: ReadPlan) -> Pieces {
        Arc::new(plan).into()
    }
}

impl Planner {
    /// # Errors
    ///
    /// The errors of [`Planner::read_plan`], now or with a piece.
    pub fn pieces(&mut self, range: PriorityRange, stats: &mut Stats) -> Result<Pieces> {
        if let Some(known) = self.known_plan(range)? {
            return Ok(known.into());
        }
        Ok(match self.stretches(range, stats)? {
            Some(stretches) => Pieces(Left::Stretches { planner: Box::new(self.clone()), range, stretches }),
            None if self.logical.query.range() == Some(range) => self.full_plan(stats)?.into(),
            None => self.read_plan(range, stats)?.into(),
        })
    }

    /// # Errors
    ///
    /// The errors of [`Planner::pieces`].
    pub fn all_pieces(&mut self, stats: &mut Stats) -> Result<Pieces> {
        match self.logical.query.range() {
            Some(range) => self.pieces(range, stats),
            None => Ok(self.full_plan(stats)?.into()),
        }
    }

    fn next_piece(
        &mut self,
        stretches: &mut Stretches,
        range: PriorityRange,
        stats: &mut Stats,
    ) -> Result<Option<Arc<ReadPlan>>> {
        let query = self.logical.query.clone();
        let visits = trace::of_plan(query.trace.as_ref(), || self.of_stretch(stretches, range, stats))?;
        let Some(visits) = visits else { return Ok(None) };
        Ok(Some(Arc::new(ReadPlan { visits: of_part(&query, visits)?, query, range })))
    }

    fn stretches(&self, range: PriorityRange, stats: &mut Stats) -> Result<Option<Stretches>> {
        let query = &self.logical.query;
        if self.is_looked_up() {
            return Ok(None);
        }
        let (core, runs) = (&query.snapshot.core, &query.snapshot.view.runs);
        let mut stretches = runs.stretches(core, &query.region.boxes, range);
        if let Some(stretches) = stretches.as_mut().filter(|_| self.logical.by_values) {
            stretches.retain(runs, core, stats, &query.cancel, |page| self.logical.is_wanted(page))?;
        }
        Ok(stretches)
    }

    /// The abridged manifest; `None` if it is cheaper to read all pages.
    pub(super) fn abridged(&self, deadline: Option<Instant>, stats: &mut Stats) -> Result<Option<PageStandIns<'_>>> {
        let query = &self.logical.query;
        let runs = &query.snapshot.view.runs;
        let abridged = runs.abridged(&query.snapshot.core, &query.region.boxes, stats, &query.cancel)?;
        Ok(abridged.map(|abridged| PageStandIns { planner: self, abridged, deadline }))
    }

    /// Calls `work` with the runs that meet the query's region until it returns false, and returns whether
    /// all were visited.
    fn each_of<'a>(
        &self,
        runs: impl IntoIterator<Item = &'a Arc<Run<Location>>>,
        deadline: Option<Instant>,
        mut work: impl FnMut(&Arc<Run<Location>>) -> bool,
    ) -> Result<bool> {
        for (number, run) in runs.into_iter().enumerate() {
            if number % gradual::PIECE == 0 {
                self.logical.query.cancel.check()?;
                if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                    return Err(Error::Cancelled);
                }
            }
            if self.logical.query.region.meets(run) && !work(run) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn of_stretch(
        &mut self,
        stretches: &mut Stretches,
        range: PriorityRange,
        stats: &mut Stats,
    ) -> Result<Option<Vec<Visit>>> {
        let query = &self.logical.query;
        let (core, boxes) = (&query.snapshot.core, &query.region.boxes);
        let runs = query.snapshot.view.runs.next_primaries(core, stretches, boxes, range, stats, &query.cancel)?;
        let Some(runs) = runs else { return Ok(None) };
        stats.cubes_visited += runs.chunk_by(|a, b| a.cube == b.cube).count() as u64;
        let wanted = runs.into_iter().filter(|run| self.logical.is_wanted(run)).map(Visit::whole).collect();
        self.narrowed_by_lookups(wanted, stats).map(Some)
    }

    /// Calls `work` with the primary runs that may have rows of the query in `range`, until it returns
    /// false. Returns whether all were visited, and `Cancelled` after the deadline.
    pub(super) fn each_primary(
        &self,
        range: PriorityRange,
        deadline: Option<Instant>,
        stats: &mut Stats,
        mut work: impl FnMut(&Arc<Run<Location>>) -> bool,
    ) -> Result<bool> {
        let query = &self.logical.query;
        let (core, boxes, cancel) = (&query.snapshot.core, &query.region.boxes, &query.cancel);
        let all = &query.snapshot.view.runs;
        let mut goes_on = true;
        match all.stretches(core, boxes, range) {
            None => {
                let near = all.near(core, boxes, range, stats, cancel)?;
                goes_on = match query.is_everywhere() {
                    true => self.each_of(near.runs(), deadline, &mut work)?,
                    false => {
                        let plan = near.plan_primaries(boxes, range, cancel)?;
                        self.each_of(plan.visits.iter().map(|visit| visit.run), deadline, &mut work)?
                    }
                };
            }
            Some(mut stretches) => {
                while goes_on
                    && let Some(runs) = all.next_primaries(core, &mut stretches, boxes, range, stats, cancel)?
                {
                    goes_on = self.each_of(&runs, deadline, &mut work)?;
                }
            }
        }
        Ok(goes_on)
    }
}

/// A stand-in run for the primary runs of every page, and these runs on request.
pub(super) struct PageStandIns<'a> {
    planner: &'a Planner,
    abridged: Abridged,
    deadline: Option<Instant>,
}

impl PageStandIns<'_> {
    pub fn len(&self) -> usize {
        self.abridged.runs.len()
    }

    pub fn page(&self, page: usize) -> &Run<Location> {
        &self.abridged.runs[page]
    }

    /// Like [`Planner::each_primary`], for these pages.
    pub fn each(
        &mut self,
        pages: &[usize],
        stats: &mut Stats,
        work: impl FnMut(&Arc<Run<Location>>) -> bool,
    ) -> Result<bool> {
        let query = &self.planner.logical.query;
        let (core, boxes) = (&query.snapshot.core, &query.region.boxes);
        let of = (&mut self.abridged, pages);
        let runs = query.snapshot.view.runs.unabridged(core, of, boxes, stats, &query.cancel)?;
        self.planner.each_of(&runs, self.deadline, work)
    }

    /// Calls `work` with the runs that are on no page.
    pub fn each_recent(&self, work: impl FnMut(&Arc<Run<Location>>) -> bool) -> Result<bool> {
        let query = &self.planner.logical.query;
        let all = &query.snapshot.view.runs;
        let runs = all.recent_primaries(&query.snapshot.core, &query.region.boxes, PriorityRange::ALL);
        self.planner.each_of(&runs, self.deadline, work)
    }
}
