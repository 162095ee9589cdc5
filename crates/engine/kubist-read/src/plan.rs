//! Planning: how the records of a bound query are chosen, and which runs are read for it.
//!
//! All planning is here. A [`LogicalPlan`] says by which method records are chosen. For a
//! range of priorities it makes a [`ReadPlan`]: the runs to read, from metadata alone.
//! Neither reads a row. Methods that go by windows of rising priority (`limit`, `per_cell`,
//! estimates) ask for one read plan a window. Where the plan of all priorities is known, a
//! window's is cut from it; otherwise the tree is walked only as deep as the window wants.

mod lookup;
mod nearest;
mod outline;
mod parcels;
mod pieces;
mod windows;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
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
pub use parcels::Parcels;
pub use pieces::Pieces;
pub use windows::Windows;

/// This many records tell roughly how many there are.
const ROUGH_ROWS: f64 = 1000.0;
/// What a column may hold of which nothing is known.
const ANYTHING: Zone = Zone { min: 0, max: u64::MAX, nulls: Nulls::Some };
/// The part of a run's records that meet a condition of which its ranges do not tell, as far as anybody knows.
const HALF: f64 = 0.5;
/// So many runs of a list that is not held are read in some milliseconds.
const FEW_RUNS: u64 = 8192;

/// How the records of a query are chosen among those that match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// None can match, or none is wanted.
    Nothing,
    /// All of them, in the order in which they are read.
    Scan,
    /// The lowest priorities, at most this many.
    Lowest { rows: u64 },
    /// The lowest priorities of each cell, at most this many in all.
    LowestInCells { rows: u64 },
}

/// A bound query, and the method by which its records are chosen.
pub struct LogicalPlan {
    pub query: Arc<BoundQuery>,
    pub method: Method,
    /// Is there a condition on columns that are no dimensions?
    by_values: bool,
    /// The windows as a question begins with them, once they were chosen.
    windows: OnceLock<Windows>,
    /// The plan of all priorities, once it was made.
    whole: OnceLock<Arc<ReadPlan>>,
    /// The plan of the first window, if it was made before that is read.
    first: OnceLock<Arc<ReadPlan>>,
    /// What planning has cost since that was last asked.
    spent: Mutex<Stats>,
    /// What lookups have answered so far; each is asked once for all windows.
    answers: Mutex<HashMap<Key, Arc<Answer>>>,
}

/// What the list of runs tells of how many records match.
pub struct Listed {
    /// Records of runs that match whole.
    pub inside: u64,
    /// The runs that may have some that do not.
    pub open: ReadPlan,
    /// About how many each of these has that do.
    pub expected: Vec<f64>,
}

/// The runs to read for a range of priorities. It does not change.
pub struct ReadPlan {
    pub query: Arc<BoundQuery>,
    pub range: PriorityRange,
    /// In depth-first order of cubes.
    pub visits: Vec<Visit>,
}

impl ReadPlan {
    /// About how many records it finds.
    pub fn expected_rows(&self) -> f64 {
        let of_visit = |visit: &Visit| match &visit.zones {
            Some(zones) => zones.len() as f64,
            None => visit.rows(&self.query.region, self.range),
        };
        self.visits.iter().map(of_visit).sum()
    }

    /// Only some of its visits.
    pub fn only(&self, visits: &[usize]) -> ReadPlan {
        let visits = visits.iter().map(|visit| self.visits[*visit].clone()).collect();
        ReadPlan { query: self.query.clone(), range: self.range, visits }
    }

    /// The same for priorities inside its range. Runs below a cube have no priority under the
    /// cube's cutoff (I2), so what the walk would leave out is left out here too.
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
    /// A query of a snapshot, bound and with its method.
    ///
    /// # Errors
    ///
    /// Those of [`BoundQuery::new`].
    pub fn new(snapshot: &Snapshot, request: &Request) -> Result<LogicalPlan> {
        Ok(LogicalPlan::of(BoundQuery::new(snapshot, request)?))
    }

    /// Of a bound query. The plan has a switch of its own: setting it stops what reads for the
    /// plan, and nothing else.
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
        // Runs of an older grid have ranges of what are dimensions now.
        let by_values = schema.newest_grid() > 0 || !query.predicate.columns().iter().all(is_dimension);
        LogicalPlan {
            query: Arc::new(query.linked()),
            method,
            by_values,
            windows: OnceLock::new(),
            whole: OnceLock::new(),
            first: OnceLock::new(),
            spent: Mutex::default(),
            answers: Mutex::default(),
        }
    }

    /// What planning has cost since this was last asked.
    pub fn take_cost(&self) -> Stats {
        std::mem::take(&mut self.spent.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The runs that may hold records of the query with priorities in `range`.
    ///
    /// # Errors
    ///
    /// `Cancelled`; `Damaged`, `SnapshotExpired` or what the store says if pages of the
    /// directory or postings cannot be read; `Invalid` for a part of a ring that is not there.
    pub fn read_plan(&self, range: PriorityRange) -> Result<Arc<ReadPlan>> {
        match self.known_plan(range)? {
            Some(known) => Ok(known),
            None => Ok(self.planned(range)?.into()),
        }
    }

    /// The same, if it was made already, or is a part of what was.
    fn known_plan(&self, range: PriorityRange) -> Result<Option<Arc<ReadPlan>>> {
        if let Some(first) = self.first.get().filter(|first| first.range == range) {
            return Ok(Some(first.clone()));
        }
        let holds = |whole: &&Arc<ReadPlan>| whole.range.first <= range.first && range.last <= whole.range.last;
        match self.whole.get().filter(holds) {
            Some(whole) if whole.range == range => Ok(Some(whole.clone())),
            Some(whole) => Ok(Some(whole.narrowed(range)?.into())),
            None => Ok(None),
        }
    }

    /// Those of all priorities that the query can have; planned once.
    ///
    /// # Errors
    ///
    /// Those of [`LogicalPlan::read_plan`].
    pub fn whole(&self) -> Result<Arc<ReadPlan>> {
        if let Some(whole) = self.whole.get() {
            return Ok(whole.clone());
        }
        let whole = match self.query.range() {
            Some(range) => self.planned(range)?,
            None => ReadPlan { query: self.query.clone(), range: PriorityRange::ALL, visits: Vec::new() },
        };
        Ok(self.whole.get_or_init(|| Arc::new(whole)).clone())
    }

    /// About how many records match, of all priorities that the query can have: runs by the
    /// part of their own box that the query's box covers, or one for each zone that a lookup
    /// names. Very roughly where it takes long to read which runs there are.
    ///
    /// # Errors
    ///
    /// Those of [`LogicalPlan::read_plan`].
    pub fn expected_rows(&self) -> Result<f64> {
        match (self.query.is_everywhere(), self.query.range()) {
            (_, None) => Ok(0.0),
            (true, Some(range)) => Ok(self.query.snapshot.view.rows() as f64 * share(range)),
            (false, Some(range)) => {
                let long = self.method != Method::Scan && self.unheld_runs() > FEW_RUNS;
                match if long { self.sampled_rows(share(range))? } else { None } {
                    Some(rows) => Ok(rows * share(range)),
                    None => Ok(self.whole()?.expected_rows()),
                }
            }
        }
    }

    /// Very roughly how many records the query has, whatever their priorities.
    ///
    /// # Errors
    ///
    /// Those of [`LogicalPlan::read_plan`].
    pub fn rough_rows(&self) -> Result<f64> {
        if self.query.is_everywhere() {
            return Ok(self.query.snapshot.view.rows() as f64);
        }
        match self.sampled_rows(1.0)? {
            Some(rows) => Ok(rows),
            None => Ok(self.read_plan(PriorityRange::ALL)?.expected_rows()),
        }
    }

    /// The same from records of low priority, well below a share of all, because they lie in few runs; `None` if there
    /// are not enough of them.
    fn sampled_rows(&self, below: f64) -> Result<Option<f64>> {
        let query = &self.query;
        if !query.sought.is_empty() || query.part.is_some() {
            return Ok(None);
        }
        let capacity = query.snapshot.core.header.capacity as f64;
        // More of everything than the first runs have, from which hardly more is known than how large the region is.
        let mut share = 4.0 * ROUGH_ROWS.max(4.0 * capacity) / query.snapshot.view.rows().max(1) as f64;
        let most = below / 16.0;
        while share < most {
            let range = PriorityRange { first: 0, last: (u64::MAX as f64 * share) as u64 };
            let rows = self.read_plan(range)?.expected_rows();
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

    /// What the list of runs tells of how many records match: those of runs that match whole, and the plan of runs that
    /// may have some that do not. `None` if no list tells, or these runs have more than `most` records.
    ///
    /// # Errors
    ///
    /// Those of [`LogicalPlan::read_plan`]; `Cancelled` after the deadline.
    pub fn by_list(&self, most: u64, deadline: Option<Instant>) -> Result<Option<Listed>> {
        let query = &self.query;
        // Without its grid (a damaged table) nothing is known of where rows lie.
        if !query.grids.are_known()
            || query.part.is_some()
            || !query.sought.is_empty()
            || query.range().is_none_or(|range| !range.is_all())
        {
            return Ok(None);
        }
        let everything = PriorityRange::ALL;
        let open = ReadPlan { query: query.clone(), range: everything, visits: Vec::new() };
        let mut listed = Listed { inside: 0, open, expected: Vec::new() };
        if query.predicate.is_always() {
            listed.inside = query.snapshot.view.rows();
            return Ok(Some(listed));
        }
        let (mut others, bounded) = (0, query.bounded());
        let ends = query.ends();
        let known = |column: usize| ends.get(&column).copied();
        // Where nothing but the box decides, no run has to be asked.
        let only_box = query.predicate.verdict(&|column| known(column).unwrap_or(ANYTHING)) == Verdict::All;
        let is_decided = self.each_primary(everything, deadline, |run| {
            let in_box = query.region.holds(run, &bounded);
            let by_values = if only_box { Verdict::All } else { self.verdict(run, known) };
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

    /// How many runs have to be read for the question's region, because they are too many to be held in memory.
    pub fn unheld_runs(&self) -> u64 {
        let query = &self.query;
        query.snapshot.view.runs.unheld(&query.snapshot.core, &query.region.boxes)
    }

    /// Adds to what planning has cost.
    pub(crate) fn spend(&self, stats: &Stats) {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner).add(stats);
    }

    fn planned(&self, range: PriorityRange) -> Result<ReadPlan> {
        let query = &self.query;
        let (visits, stats) = trace::of_plan(query.trace.as_ref(), || match self.looked_up(range)? {
            Some(found) => Ok(found),
            None => self.walked(range),
        })?;
        self.spend(&stats);
        Ok(ReadPlan { query: query.clone(), range, visits: self.of_part(visits)? })
    }

    /// Of some visits what lies in the part that is asked for.
    fn of_part(&self, visits: Vec<Visit>) -> Result<Vec<Visit>> {
        let query = &self.query;
        let Some(part) = &query.part else { return Ok(visits) };
        let tree = query.grids.tree(part.grid);
        let tree = tree.ok_or_else(|| Error::invalid(format!("the table has no grid {}", part.grid)))?;
        let (grid_box, visits) = (part.grid_box(), on_ring(query, part, visits)?);
        Ok(visits.into_iter().filter_map(|visit| visit.inside(&grid_box, &tree)).collect())
    }

    /// What a walk down the tree finds.
    fn walked(&self, range: PriorityRange) -> Result<(Vec<Visit>, Stats)> {
        let query = &self.query;
        let (core, mut stats) = (&query.snapshot.core, Stats::default());
        query.cancel.check()?;
        let boxes = &query.region.boxes;
        let directory = query.snapshot.view.runs.near(core, boxes, range, &mut stats, &query.cancel)?;
        let plan = match query.part.as_ref().is_some_and(|part| part.tokens.is_some()) {
            // Each record is in one primary run; copies lie anywhere on the ring.
            true => directory.plan_primaries(boxes, range, &query.cancel)?,
            false => directory.plan(boxes, range, &query.cancel)?,
        };
        query.cancel.check()?;
        let wanted = |visit: &&plan::Visit<'_, Location>| query.region.meets(visit.run) && self.may_match(visit.run);
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
        stats.cubes_visited = plan.cubes_visited;
        Ok((self.narrowed_by_lookups(visits, &mut stats)?, stats))
    }

    /// Can a run hold records that match, as far as its ranges tell?
    fn may_match(&self, run: &Run<Location>) -> bool {
        !self.by_values || self.verdict(run, |_| None) != Verdict::None
    }

    /// Which records of a run match, as far as its ranges tell, and what else is known of columns.
    fn verdict(&self, run: &Run<Location>, known: impl Fn(usize) -> Option<Zone>) -> Verdict {
        let (schema, ranges) = (&self.query.snapshot.view.schema, run.payload.ranges.as_ref());
        let of_column = |column: usize| {
            let of_run = || ranges.and_then(|ranges| ranges.zone(schema.stored_index[column]));
            known(column).or_else(of_run).unwrap_or(ANYTHING)
        };
        self.query.predicate.verdict(&of_column)
    }
}

/// Where runs lie in a cluster: where their first bytes do.
///
/// # Errors
///
/// What the store says.
pub fn replica_locations(query: &BoundQuery, visits: &[Visit]) -> Result<Vec<ReplicaLocation>> {
    let first_bytes = |visit: &Visit| (visit.run.payload.segment.clone(), visit.run.payload.data_offset);
    let all: Vec<(Arc<str>, u64)> = visits.iter().map(first_bytes).collect();
    let all: Vec<(&str, u64)> = all.iter().map(|(segment, offset)| (&**segment, *offset)).collect();
    query.snapshot.core.store.replica_locations(&all).map_err(store_error)
}

/// Those that lie in the part of a cluster's ring that is asked for.
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

/// The part of all priorities that a range is.
fn share(range: PriorityRange) -> f64 {
    ((range.last - range.first) as f64 + 1.0) / (u64::MAX as f64 + 1.0)
}
