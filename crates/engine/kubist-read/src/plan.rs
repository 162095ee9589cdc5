//! Planning. A [`LogicalPlan`] says how the rows of a bound query are chosen. For a range of priorities, a
//! [`Planner`] makes a [`ReadPlan`], the list of runs to read, from metadata alone.
//!
//! `limit`, `per_cell` and estimates read windows of increasing priority, with one read plan per window. If
//! the plan of all priorities exists, a window's plan is a part of it. Otherwise the tree is walked only as
//! deep as the window needs.

mod lookup;
mod nearest;
mod outline;
mod pieces;
mod subregions;
mod windows;

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use kubist_expr::{Nulls, Verdict, Zone};
use kubist_index::plan;
use kubist_index::priority::PriorityRange;
use kubist_index::state::Run;
use kubist_store::{ReplicaLocation, StoreExt};

use crate::bind::BoundQuery;
use crate::grids::Within;
use crate::postings::Answer;
use crate::request::{Part, Request};
use crate::ring;
use crate::visit::Visit;
use kubist_catalog::error::store_error;
use kubist_catalog::snapshot::Snapshot;
use kubist_catalog::trace;
use kubist_format::location::Location;
use kubist_format::lookup::Key;
use kubist_index::gradual;
use kubist_types::error::{Error, Result};
use kubist_types::stats::Stats;
pub use nearest::Nearest;
pub use outline::PlanOutline;
pub use pieces::Pieces;
pub use subregions::Subregions;
pub use windows::Windows;

/// Number of sampled rows that suffices for a rough row count.
const ROUGH_ROWS: f64 = 1000.0;
const ANYTHING: Zone = Zone { min: 0, max: u64::MAX, nulls: Nulls::Some };
/// Assumed fraction of matching rows in a run whose statistics do not decide a condition.
const HALF: f64 = 0.5;
/// Number of runs that can be read in a few milliseconds from a directory that is not in memory.
const FEW_RUNS: u64 = 8192;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Nothing,
    /// All matching rows, in read order.
    Scan,
    /// At most `rows` rows of lowest priority.
    Lowest {
        rows: u64,
    },
    /// The rows of lowest priority in each cell, at most `rows` in total.
    LowestInCells {
        rows: u64,
    },
}

#[derive(Clone)]
pub struct LogicalPlan {
    pub query: Arc<BoundQuery>,
    pub method: Method,
    /// A condition contains a formula, or a column that is no dimension.
    by_values: bool,
    computes: bool,
}

/// Makes read plans, and keeps them and the results of secondary indexes for later windows. Methods that
/// read metadata add their cost to `stats`.
#[derive(Clone)]
pub struct Planner {
    pub logical: LogicalPlan,
    windows: Option<Windows>,
    whole: Option<Arc<ReadPlan>>,
    /// The first plan, if it was made before reading.
    first: Option<Arc<ReadPlan>>,
    /// The results of secondary indexes, which are searched once for all windows.
    answers: HashMap<Key, Arc<Answer>>,
}

/// The number of matching rows, as far as the manifest decides.
pub struct RowsByManifest {
    /// The number of rows in runs that match completely.
    pub inside: u64,
    pub open: ReadPlan,
    /// For each run of the plan, the expected number of matching rows.
    pub expected: Vec<f64>,
}

/// The runs to read for a range of priorities.
pub struct ReadPlan {
    pub query: Arc<BoundQuery>,
    pub range: PriorityRange,
    /// The visits are in depth-first order of cubes.
    pub visits: Vec<Visit>,
}

impl ReadPlan {
    pub fn expected_rows(&self) -> f64 {
        let of_visit = |visit: &Visit| match &visit.zones {
            Some(zones) => zones.len() as f64,
            None => visit.rows(&self.query.region, self.range),
        };
        self.visits.iter().map(of_visit).sum()
    }

    pub fn only(&self, visits: &[usize]) -> ReadPlan {
        let visits = visits.iter().map(|visit| self.visits[*visit].clone()).collect();
        ReadPlan { query: self.query.clone(), range: self.range, visits }
    }

    /// Narrows the range of priorities. Runs below a cube have no priority under the cube's cutoff (I2), so
    /// the result equals the plan of a walk of the tree.
    fn narrowed(&self, range: PriorityRange) -> Result<ReadPlan> {
        let mut visits = Vec::new();
        for piece in gradual::pieces(self.visits.len(), &self.query.cancel) {
            let of_piece = self.visits[piece?].iter();
            visits.extend(of_piece.filter(|visit| meets(&visit.run, range)).cloned());
        }
        Ok(ReadPlan { query: self.query.clone(), range, visits })
    }
}

impl LogicalPlan {
    /// # Errors
    ///
    /// The errors of [`BoundQuery::new`].
    pub fn new(snapshot: &Snapshot, request: &Request) -> Result<LogicalPlan> {
        Ok(LogicalPlan::of(BoundQuery::new(snapshot, request)?))
    }

    /// Makes a plan whose cancellation flag stops only its own reads.
    pub fn of(query: BoundQuery) -> LogicalPlan {
        let sample = query.spec.sample_rows();
        let method = match (query.range(), sample, &query.cells) {
            _ if query.order.as_ref().is_some_and(|order| order.first == Some(0)) => Method::Nothing,
            (None, ..) | (_, Some(0), _) => Method::Nothing,
            (_, _, Some(_)) => Method::LowestInCells { rows: sample.unwrap_or(u64::MAX) },
            (_, Some(rows), None) => Method::Lowest { rows },
            (_, None, None) => Method::Scan,
        };
        let schema = &query.snapshot.view.schema;
        let is_dimension = |column: &usize| schema.dimensions.contains(&schema.stored_index[*column]);
        // The boxes contain all conditions on dimensions, except formulas. Runs of older grids have statistics of
        // later dimensions.
        let only_dimensions = query.predicate.columns().iter().all(is_dimension);
        let computes = query.predicate.computes() || (only_dimensions && query.predicate.key_ranges().is_none());
        let is_in_box = !computes && only_dimensions;
        let by_values = schema.newest_grid() > 0 || !is_in_box;
        LogicalPlan { query: Arc::new(query.linked()), method, by_values, computes }
    }

    /// Whether a run may have matching rows. `run` may stand for all runs of a page.
    fn is_wanted(&self, run: &Run<Location>) -> bool {
        self.query.region.meets(run) && self.may_match(run)
    }

    fn may_match(&self, run: &Run<Location>) -> bool {
        !self.by_values || self.verdict(run, |_| None) != Verdict::None
    }

    /// Decides from the run's statistics and the `known` statistics of columns.
    fn verdict(&self, run: &Run<Location>, known: impl Fn(usize) -> Option<Zone>) -> Verdict {
        let (schema, ranges) = (&self.query.snapshot.view.schema, run.payload.ranges.as_ref());
        let of_run = |column: usize| ranges.and_then(|ranges| ranges.zone(schema.stored_index[column]));
        if !self.computes {
            let of_column = |column: usize| known(column).or_else(|| of_run(column)).unwrap_or(ANYTHING);
            return self.query.predicate.verdict(&of_column);
        }
        // A formula may name a column several times.
        let seen = RefCell::new(Vec::new());
        let in_grid = |column: usize| self.query.zone_in_grid(run, schema.stored_index[column]);
        let of_column = |column: usize| {
            if let Some((_, zone)) = seen.borrow().iter().find(|(other, _)| *other == column) {
                return *zone;
            }
            let zone = of_run(column).or_else(|| in_grid(column)).or_else(|| known(column)).unwrap_or(ANYTHING);
            seen.borrow_mut().push((column, zone));
            zone
        };
        self.query.predicate.verdict(&of_column)
    }

    /// The number of runs on the pages that the query needs; 0 if the directory fits in memory.
    pub fn unheld_runs(&self) -> u64 {
        let query = &self.query;
        query.snapshot.view.runs.unheld(&query.snapshot.core, &query.region.boxes)
    }
}

impl From<LogicalPlan> for Planner {
    fn from(logical: LogicalPlan) -> Planner {
        Planner { logical, windows: None, whole: None, first: None, answers: HashMap::new() }
    }
}

impl Planner {
    /// # Errors
    ///
    /// The errors of [`BoundQuery::new`].
    pub fn new(snapshot: &Snapshot, request: &Request) -> Result<Planner> {
        Ok(LogicalPlan::new(snapshot, request)?.into())
    }

    /// The runs that may hold rows of the query with priorities in `range`.
    ///
    /// # Errors
    ///
    /// `Cancelled`; `Damaged`, `SnapshotExpired` or a storage error if pages of the directory or postings
    /// cannot be read; `Invalid` for a ring part if the store is not a cluster.
    pub fn read_plan(&mut self, range: PriorityRange, stats: &mut Stats) -> Result<Arc<ReadPlan>> {
        match self.known_plan(range)? {
            Some(known) => Ok(known),
            None => Ok(self.planned(range, stats)?.into()),
        }
    }

    fn known_plan(&self, range: PriorityRange) -> Result<Option<Arc<ReadPlan>>> {
        if let Some(first) = self.first.as_ref().filter(|first| first.range == range) {
            return Ok(Some(first.clone()));
        }
        let holds = |whole: &&Arc<ReadPlan>| whole.range.first <= range.first && range.last <= whole.range.last;
        match self.whole.as_ref().filter(holds) {
            Some(whole) if whole.range == range => Ok(Some(whole.clone())),
            Some(whole) => Ok(Some(whole.narrowed(range)?.into())),
            None => Ok(None),
        }
    }

    /// The plan of all priorities, made once.
    ///
    /// # Errors
    ///
    /// The errors of [`Planner::read_plan`].
    pub fn full_plan(&mut self, stats: &mut Stats) -> Result<Arc<ReadPlan>> {
        if let Some(whole) = &self.whole {
            return Ok(whole.clone());
        }
        let query = &self.logical.query;
        let whole = match query.range() {
            Some(range) => self.planned(range, stats)?,
            None => ReadPlan { query: query.clone(), range: PriorityRange::ALL, visits: Vec::new() },
        };
        Ok(self.whole.insert(Arc::new(whole)).clone())
    }

    /// Estimates the number of matching rows of all priorities. A run counts by the fraction of its box
    /// that the query's box covers, and a zone from a secondary index counts one row. If listing the runs
    /// would take long, the estimate is rougher.
    ///
    /// # Errors
    ///
    /// The errors of [`Planner::read_plan`].
    pub fn expected_rows(&mut self, stats: &mut Stats) -> Result<f64> {
        let LogicalPlan { query, method, .. } = &self.logical;
        match (query.is_everywhere(), query.range()) {
            (_, None) => Ok(0.0),
            (true, Some(range)) => Ok(query.snapshot.view.rows() as f64 * share(range)),
            (false, Some(range)) => {
                let long = *method != Method::Scan && self.logical.unheld_runs() > FEW_RUNS;
                match if long { self.sampled_rows(share(range), stats)? } else { None } {
                    Some(rows) => Ok(rows * share(range)),
                    None => Ok(self.full_plan(stats)?.expected_rows()),
                }
            }
        }
    }

    /// Estimates the number of rows of the query roughly, ignoring priorities.
    ///
    /// # Errors
    ///
    /// The errors of [`Planner::read_plan`].
    pub fn rough_rows(&mut self, stats: &mut Stats) -> Result<f64> {
        if self.logical.query.is_everywhere() {
            return Ok(self.logical.query.snapshot.view.rows() as f64);
        }
        match self.sampled_rows(1.0, stats)? {
            Some(rows) => Ok(rows),
            None => Ok(self.read_plan(PriorityRange::ALL, stats)?.expected_rows()),
        }
    }

    /// Estimates from rows of low priority, well below the fraction `below`, because few runs contain
    /// these. `None` if there are too few rows.
    fn sampled_rows(&mut self, below: f64, stats: &mut Stats) -> Result<Option<f64>> {
        let query = &self.logical.query;
        if !query.sought.is_empty() || query.part.is_some() {
            return Ok(None);
        }
        let capacity = query.snapshot.core.header.capacity as f64;
        // More rows than the first runs have, because those show little more than the size of the region.
        let mut share = 4.0 * ROUGH_ROWS.max(4.0 * capacity) / query.snapshot.view.rows().max(1) as f64;
        let most = below / 16.0;
        while share < most {
            let range = PriorityRange { first: 0, last: (u64::MAX as f64 * share) as u64 };
            let rows = self.read_plan(range, stats)?.expected_rows();
            if rows >= ROUGH_ROWS {
                return Ok(Some(rows / share));
            }
            if rows * most / share < ROUGH_ROWS {
                break;
            }
            share *= 16.0;
        }
        Ok(None)
    }

    /// Counts matching rows from the manifest: the rows of runs that match completely, and a plan of the
    /// runs that may match partly. `None` if the manifest does not decide, or these runs have more than
    /// `most` rows.
    ///
    /// # Errors
    ///
    /// The errors of [`Planner::read_plan`]; `Cancelled` after the deadline.
    pub fn by_list(&self, most: u64, deadline: Option<Instant>, stats: &mut Stats) -> Result<Option<RowsByManifest>> {
        let query = &self.logical.query;
        // Without a grid (in a damaged table), positions are unknown.
        if !query.grids.are_known()
            || query.part.is_some()
            || !query.sought.is_empty()
            || query.range().is_none_or(|range| !range.is_all())
        {
            return Ok(None);
        }
        let everything = PriorityRange::ALL;
        let open = ReadPlan { query: query.clone(), range: everything, visits: Vec::new() };
        let mut listed = RowsByManifest { inside: 0, open, expected: Vec::new() };
        if query.predicate.is_always() {
            listed.inside = query.snapshot.view.rows();
            return Ok(Some(listed));
        }
        let (mut others, bounded) = (0, query.bounded());
        let ends = query.ends();
        let known = |column: usize| ends.get(&column).copied();
        let only_box = query.predicate.verdict(&|column| known(column).unwrap_or(ANYTHING)) == Verdict::All;
        let is_decided = self.each_primary(everything, deadline, stats, |run| {
            let in_box = query.region.holds(run, &bounded);
            let by_values = if only_box { Verdict::All } else { self.logical.verdict(run, known) };
            if by_values == Verdict::None {
                return true;
            }
            if in_box && by_values == Verdict::All {
                listed.inside += run.rows;
                return true;
            }
            others += run.rows;
            let part = if by_values == Verdict::All { 1.0 } else { HALF };
            listed.expected.push(run.rows as f64 * query.region.share_of(run) * part);
            listed.open.visits.push(Visit::whole(run.clone()));
            others <= most
        })?;
        Ok(is_decided.then_some(listed))
    }

    fn planned(&mut self, range: PriorityRange, stats: &mut Stats) -> Result<ReadPlan> {
        let query = self.logical.query.clone();
        let visits = trace::of_plan(query.trace.as_ref(), || match self.looked_up(range, stats)? {
            Some(found) => Ok(found),
            None => self.walked(range, stats),
        })?;
        Ok(ReadPlan { visits: of_part(&query, visits)?, query, range })
    }

    fn walked(&mut self, range: PriorityRange, stats: &mut Stats) -> Result<Vec<Visit>> {
        let (logical, query) = (&self.logical, &self.logical.query);
        query.cancel.check()?;
        let (core, boxes) = (&query.snapshot.core, &query.region.boxes);
        let directory = query.snapshot.view.runs.near(core, boxes, range, stats, &query.cancel)?;
        let plan = match query.part.as_ref().is_some_and(|part| part.tokens.is_some()) {
            // Each row is in one primary run. Replicas may be anywhere on the ring, so they are not read.
            true => directory.plan_primaries(boxes, range, &query.cancel)?,
            false => directory.plan(boxes, range, &query.cancel)?,
        };
        query.cancel.check()?;
        let wanted = |visit: &&plan::Visit<'_, Location>| logical.is_wanted(visit.run);
        let mut visits = Vec::new();
        for piece in gradual::pieces(plan.visits.len(), &query.cancel) {
            visits.extend(plan.visits[piece?].iter().filter(wanted).map(|visit| {
                let tree = directory.forest().tree_of(visit.run.cube);
                let boxes = |cubes: &Arc<[_]>| Within {
                    grid: tree.grid(),
                    boxes: cubes.iter().map(|cube| tree.span(*cube)).collect(),
                };
                Visit { run: visit.run.clone(), within: visit.within.iter().map(boxes).collect(), zones: None }
            }));
        }
        stats.cubes_visited += plan.cubes_visited;
        self.narrowed_by_lookups(visits, stats)
    }
}

fn of_part(query: &BoundQuery, visits: Vec<Visit>) -> Result<Vec<Visit>> {
    let Some(part) = &query.part else { return Ok(visits) };
    let tree = query.grids.tree(part.grid);
    let tree = tree.ok_or_else(|| Error::invalid(format!("the table has no grid {}", part.grid)))?;
    let (grid_box, visits) = (part.grid_box(), on_ring(query, part, visits)?);
    Ok(visits.into_iter().filter_map(|visit| visit.inside(&grid_box, &tree)).collect())
}

/// The hosts that store the first bytes of each run.
///
/// # Errors
///
/// The errors of the store.
pub fn replica_locations(query: &BoundQuery, visits: &[Visit]) -> Result<Vec<ReplicaLocation>> {
    let first_bytes = |visit: &Visit| (visit.run.payload.segment.clone(), visit.run.payload.data_offset);
    let all: Vec<(Arc<str>, u64)> = visits.iter().map(first_bytes).collect();
    let all: Vec<(&str, u64)> = all.iter().map(|(segment, offset)| (&**segment, *offset)).collect();
    query.snapshot.core.store.replica_locations(&all).map_err(store_error)
}

fn on_ring(query: &BoundQuery, part: &Part, mut visits: Vec<Visit>) -> Result<Vec<Visit>> {
    if let Some(tokens) = &part.tokens {
        let homes = replica_locations(query, &visits)?;
        if homes.len() < visits.len() {
            return Err(Error::invalid("a part of a cluster's ring is read from the cluster"));
        }
        let mut homes = homes.into_iter();
        visits.retain(|_| homes.next().is_some_and(|home| ring::holds(tokens, home.token)));
    }
    Ok(visits)
}

fn meets(run: &Run<Location>, range: PriorityRange) -> bool {
    range.meets(run.priorities.0, run.priorities.1)
}

fn share(range: PriorityRange) -> f64 {
    ((range.last - range.first) as f64 + 1.0) / (u64::MAX as f64 + 1.0)
}
