//! Search for the runs that can hold minimum and maximum values, from metadata alone.
//!
//! The manifest has the bounds of a run's columns, and for dimensions the coordinates of the run's box.
//! Coordinates increase with values, so a run with the least coordinate has the minimum. To search a maximum,
//! keys are inverted, so that the smaller `rank` key is always better.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use arrow_schema::DataType;
use kubist_catalog::frame::Frame;
use kubist_expr::{Nulls, Zone};
use kubist_format::location::Location;
use kubist_index::order;
use kubist_index::priority::PriorityRange;
use kubist_index::state::{Run, RunId};
use kubist_population::seek::{ColumnSearch, Extremum, Seek};
use kubist_types::{Result, Stats};

use super::pieces::PageStandIns;
use super::{LogicalPlan, Planner, ReadPlan};
use crate::bind::BoundQuery;
use crate::visit::Visit;

/// Number of runs to read first for each extreme. Up to `MOST_ALIKE` runs if they share the best bound,
/// which happens with runs at the same coordinate.
const NEAREST: usize = 16;
const MOST_ALIKE: usize = 1024;
const PAGES_AT_ONCE: usize = 64;

pub struct Nearest {
    pub plan: Arc<ReadPlan>,
    /// By extreme: the best bound (rank key) of the runs that are neither in this plan nor in earlier
    /// ones, if any.
    others: Vec<Option<u64>>,
}

impl Nearest {
    pub fn is_enough(&self, seek: &Seek) -> bool {
        let gains = |(column_search, others): (&ColumnSearch, &Option<u64>)| {
            others.is_some_and(|others| column_search.may_gain(others))
        };
        !seek.searches.iter().zip(&self.others).any(gains)
    }
}

/// The best value that a run may hold.
enum Promise {
    Nothing,
    /// All values are beyond the coordinate of the given key.
    Beyond,
    /// No value is better than this rank key.
    Key(u64),
}

impl BoundQuery {
    /// The best value that a run may hold; `None` if only the zone map has the bound. `than` is a rank key.
    fn promise(&self, run: &Run<Location>, column_search: &ColumnSearch, than: Option<u64>) -> Option<Promise> {
        if let Some(zone) = run.payload.ranges.as_ref().and_then(|ranges| ranges.zone(column_search.column)) {
            return Some(column_search.promise(&zone).map_or(Promise::Nothing, Promise::Key));
        }
        let (frame, d) = self.dimension(run, column_search.column)?;
        let data_type = self.snapshot.view.schema.stored.field(column_search.column).data_type();
        let place = match column_search.extremum {
            Extremum::Minimum => run.payload.low[d],
            Extremum::Maximum => run.payload.high[d],
        };
        // Nulls and NaN have the last coordinate and hide the maximum.
        let is_hidden = column_search.extremum == Extremum::Maximum && place == frame.geometry.last_coordinate();
        let is_beyond = |than: u64| {
            let other = place_of(frame, d, data_type, column_search.extremum.rank(than));
            if column_search.extremum == Extremum::Minimum { other < place } else { other > place }
        };
        if !is_hidden && than.is_some_and(is_beyond) {
            return Some(Promise::Beyond);
        }
        let key = best_key(frame, d, data_type, column_search.extremum, place);
        Some(key.map_or(Promise::Nothing, |key| Promise::Key(column_search.extremum.rank(key))))
    }

    /// The best rank key of a run: `Some(None)` if it has no numbers, `None` if only its zone map can
    /// decide.
    pub(crate) fn best_of(&self, run: &Run<Location>, column_search: &ColumnSearch) -> Option<Option<u64>> {
        self.promise(run, column_search, None).map(|promise| match promise {
            Promise::Key(key) => Some(key),
            Promise::Nothing | Promise::Beyond => None,
        })
    }

    /// The best key beyond the coordinate of `than`, in the run's grid; both keys are rank keys.
    fn beyond(&self, run: &Run<Location>, column_search: &ColumnSearch, than: u64) -> Option<u64> {
        let (frame, d) = self.dimension(run, column_search.column)?;
        let data_type = self.snapshot.view.schema.stored.field(column_search.column).data_type();
        let place = place_of(frame, d, data_type, column_search.extremum.rank(than));
        let next =
            if column_search.extremum == Extremum::Minimum { place.checked_add(1) } else { place.checked_sub(1) };
        best_key(frame, d, data_type, column_search.extremum, next?).map(|key| column_search.extremum.rank(key))
    }

    fn dimension(&self, run: &Run<Location>, column: usize) -> Option<(&Frame, usize)> {
        let frame = self.grids.frame(run.cube.grid())?;
        Some((frame, frame.dimensions.iter().position(|dimension| *dimension == column)?))
    }

    /// Bounds from the coordinates of a run; `None` if some values may be null or NaN.
    pub(super) fn zone_in_grid(&self, run: &Run<Location>, column: usize) -> Option<Zone> {
        let (frame, d) = self.dimension(run, column)?;
        let data_type = self.snapshot.view.schema.stored.field(column).data_type();
        let (low, high) = (run.payload.low[d], run.payload.high[d]);
        if high == frame.geometry.last_coordinate() {
            return None;
        }
        let min = frame.first_key(d, data_type, low)?;
        let max = frame.first_key(d, data_type, high + 1)?.checked_sub(1)?;
        Some(Zone { min, max, nulls: Nulls::None })
    }

    pub fn may_gain(&self, run: &Run<Location>, seek: &Seek) -> bool {
        seek.searches.iter().any(|column_search| match self.promise(run, column_search, column_search.best()) {
            None => true,
            Some(Promise::Nothing | Promise::Beyond) => false,
            Some(Promise::Key(key)) => column_search.may_gain(key),
        })
    }

    /// Whether the column has a value in each row of the run; `None` if only the run's zone map can decide.
    pub fn has_values(&self, run: &Run<Location>, column: usize) -> Option<bool> {
        let (first, last) = order::number_keys(self.snapshot.view.schema.stored.field(column).data_type());
        if let Some(zone) = run.payload.ranges.as_ref().and_then(|ranges| ranges.zone(column)) {
            return Some(zone.nulls == Nulls::None && first <= zone.min && zone.max <= last);
        }
        // Nulls and NaN have the last coordinate, with few other values.
        let (frame, d) = self.dimension(run, column)?;
        Some(run.payload.high[d] < frame.geometry.last_coordinate())
    }
}

fn place_of(frame: &Frame, d: usize, data_type: &DataType, key: u64) -> u32 {
    frame.scales[d].coordinate(order::number(data_type, key), frame.geometry.bits())
}

/// The best key at or beyond the coordinate.
fn best_key(frame: &Frame, d: usize, data_type: &DataType, extremum: Extremum, place: u32) -> Option<u64> {
    let (first, last) = order::number_keys(data_type);
    match extremum {
        Extremum::Minimum => frame.first_key(d, data_type, place),
        Extremum::Maximum if place == frame.geometry.last_coordinate() => Some(last),
        Extremum::Maximum => match frame.first_key(d, data_type, place + 1) {
            Some(above) => above.checked_sub(1).filter(|key| *key >= first),
            None => Some(last),
        },
    }
}

impl Planner {
    /// Plans of the runs with the best bounds: first the best run of every extreme, then others. Empty if
    /// metadata does not decide, or if the query is limited to a split or to indexed values.
    ///
    /// # Errors
    ///
    /// The errors of [`Planner::read_plan`]; `Cancelled` after the deadline.
    pub fn nearest(&self, seek: &Seek, deadline: Option<Instant>, stats: &mut Stats) -> Result<Vec<Nearest>> {
        let query = &self.logical.query;
        if !query.sought.is_empty() || query.part.is_some() {
            return Ok(Vec::new());
        }
        let mut search = Search::new(seek);
        if !self.search(&mut search, deadline, stats)? {
            return Ok(Vec::new());
        }
        let Search { found, others, .. } = search;
        let (mut first, mut later, mut beyond_first) = (Vec::new(), Vec::new(), Vec::new());
        for (best, others) in found.into_iter().zip(&others) {
            let mut of_end = best.runs.into_sorted_vec().into_iter();
            first.extend(of_end.next().map(|promising| promising.run));
            let next = of_end.as_slice().first().map(|promising| promising.key);
            beyond_first.push(next.into_iter().chain(*others).min());
            later.extend(of_end.map(|promising| promising.run));
        }
        let step = |mut runs: Vec<Arc<Run<Location>>>, others| {
            runs.sort_unstable_by_key(|run| (run.cube, run.id));
            runs.dedup_by_key(|run| run.id);
            let visits = runs.into_iter().map(Visit::whole).collect();
            let plan = ReadPlan { query: query.clone(), range: PriorityRange::ALL, visits };
            Nearest { plan: Arc::new(plan), others }
        };
        Ok(vec![step(first, beyond_first), step(later, others)])
    }

    /// Returns false if some runs have no bounds.
    fn search(&self, search: &mut Search<'_>, deadline: Option<Instant>, stats: &mut Stats) -> Result<bool> {
        let logical = &self.logical;
        let Some(mut short) = self.abridged(deadline, stats)? else {
            return self.each_primary(PriorityRange::ALL, deadline, stats, |run| search.take(logical, run));
        };
        if !short.each_recent(|run| search.take(logical, run))? {
            return Ok(false);
        }
        // A page's bound is at least as good as the bounds of its runs, including removed ones.
        let pages = 0..short.len();
        let wanted: Vec<bool> = pages.clone().map(|page| logical.is_wanted(short.page(page))).collect();
        let promise = |column_search: &ColumnSearch, page: usize| match logical.query.promise(
            short.page(page),
            column_search,
            None,
        ) {
            None => Some(0),
            Some(Promise::Nothing | Promise::Beyond) => None,
            Some(Promise::Key(key)) => Some(key),
        };
        let of_pages =
            |column_search| pages.clone().map(|page| promise(column_search, page).filter(|_| wanted[page])).collect();
        let promises: Vec<Vec<Option<u64>>> = search.seek.searches.iter().map(of_pages).collect();
        let mut is_read = vec![false; pages.len()];
        for (end, promises) in promises.iter().enumerate() {
            let keys = promises.iter().zip(0..).filter_map(|(key, page)| Some(((*key)?, page)));
            let mut left: VecDeque<(u64, usize)> = keys.filter(|(_, page)| !is_read[*page]).collect();
            left.make_contiguous().sort_unstable();
            let mut at_once = 1;
            while left.front().is_some_and(|(key, _)| !search.found[end].has_enough(*key)) {
                let some: Vec<usize> = left.drain(..at_once.min(left.len())).map(|(_, page)| page).collect();
                at_once = (2 * at_once).min(PAGES_AT_ONCE);
                some.iter().for_each(|page| is_read[*page] = true);
                if !short.each(&some, stats, |run| search.take(logical, run))? {
                    return Ok(false);
                }
            }
        }
        for (promises, others) in promises.iter().zip(&mut search.others) {
            let unread = promises.iter().zip(&is_read).filter(|(_, is_read)| !**is_read);
            *others = unread.filter_map(|(key, _)| *key).chain(*others).min();
        }
        Ok(true)
    }

    /// Whether, by the manifest, each row has a value in a stored column. `None` if some runs do not decide
    /// this and all others have values.
    ///
    /// # Errors
    ///
    /// The errors of [`Planner::read_plan`]; `Cancelled` after the deadline.
    pub fn all_have(&self, column: usize, deadline: Option<Instant>, stats: &mut Stats) -> Result<Option<bool>> {
        let logical = &self.logical;
        let field = logical.query.snapshot.view.schema.stored.field(column);
        if !field.is_nullable() && !field.data_type().is_floating() {
            return Ok(Some(true));
        }
        let has_values = |run: &Run<Location>| {
            if logical.is_wanted(run) { logical.query.has_values(run, column) } else { Some(true) }
        };
        let mut all_tell = true;
        let mut goes_on = |run: &Arc<Run<Location>>| {
            let has_values = has_values(run);
            all_tell &= has_values.is_some();
            has_values != Some(false)
        };
        // If one page does not decide, many others do not either.
        let of_pages = |short: &PageStandIns<'_>| {
            (0..short.len()).map(|page| has_values(short.page(page))).collect::<Option<Vec<_>>>()
        };
        let short = self.abridged(deadline, stats)?.map(|short| (of_pages(&short), short));
        let is_complete = match short {
            Some((None, _)) if logical.unheld_runs() > 0 => return Ok(None),
            None | Some((None, _)) => self.each_primary(PriorityRange::ALL, deadline, stats, goes_on)?,
            Some((Some(of_pages), mut short)) => {
                let open: Vec<usize> = (0..of_pages.len()).filter(|page| !of_pages[*page]).collect();
                let mut is_complete = short.each_recent(&mut goes_on)?;
                for some in open.chunks(PAGES_AT_ONCE) {
                    is_complete = is_complete && short.each(some, stats, &mut goes_on)?;
                }
                is_complete
            }
        };
        Ok(if is_complete && !all_tell { None } else { Some(is_complete) })
    }
}

struct Search<'a> {
    seek: &'a Seek,
    found: Vec<Best>,
    others: Vec<Option<u64>>,
}

impl Search<'_> {
    fn new(seek: &Seek) -> Search<'_> {
        let found: Vec<Best> = seek.searches.iter().map(|_| Best::default()).collect();
        Search { seek, others: vec![None; found.len()], found }
    }

    /// Returns false if the run has no bounds.
    fn take(&mut self, plan: &LogicalPlan, run: &Arc<Run<Location>>) -> bool {
        if !plan.may_match(run) {
            return true;
        }
        let query = &plan.query;
        for ((column_search, best), others) in self.seek.searches.iter().zip(&mut self.found).zip(&mut self.others) {
            let out = match query.promise(run, column_search, best.worst()) {
                None => return false,
                Some(Promise::Nothing) => None,
                Some(Promise::Beyond) => best.beyond(run.cube.grid(), |worst| query.beyond(run, column_search, worst)),
                Some(Promise::Key(key)) => best.add(Promising { key, run: run.clone() }),
            };
            *others = others.iter().copied().chain(out).min();
        }
        true
    }
}

#[derive(Default)]
struct Best {
    /// The run with the worst bound is on top.
    runs: BinaryHeap<Promising>,
    least: Option<u64>,
    /// The cached result, with its grid and worst bound.
    beyond: Option<((u32, u64), Option<u64>)>,
}

impl Best {
    /// The bound that a further run must reach; `None` if any run is accepted.
    fn worst(&self) -> Option<u64> {
        if self.runs.len() < NEAREST { None } else { self.runs.peek().map(|promising| promising.key) }
    }

    fn has_enough(&self, key: u64) -> bool {
        self.worst().is_some_and(|worst| match key.cmp(&worst) {
            Ordering::Less => false,
            // Up to `MOST_ALIKE` runs with equal bounds are kept if they are the best.
            Ordering::Equal => self.least != Some(worst) || self.runs.len() >= MOST_ALIKE,
            Ordering::Greater => true,
        })
    }

    /// The result is cached for each grid and worst bound.
    fn beyond(&mut self, grid: u32, find: impl FnOnce(u64) -> Option<u64>) -> Option<u64> {
        let of = (grid, self.worst()?);
        match self.beyond {
            Some((known, beyond)) if known == of => beyond,
            _ => self.beyond.insert((of, find(of.1))).1,
        }
    }

    /// Returns the best bound of the displaced runs.
    fn add(&mut self, promising: Promising) -> Option<u64> {
        self.least = self.least.into_iter().chain([promising.key]).min();
        self.runs.push(promising);
        let mut gone = None;
        loop {
            let worst = self.runs.peek().map(|promising| promising.key);
            let most = if worst == self.least { MOST_ALIKE } else { NEAREST };
            if self.runs.len() <= most {
                return gone;
            }
            // Each one is no worse than the one before.
            gone = self.runs.pop().map(|promising| promising.key);
        }
    }
}

struct Promising {
    key: u64,
    run: Arc<Run<Location>>,
}

impl Promising {
    fn rank(&self) -> (u64, RunId) {
        (self.key, self.run.id)
    }
}

impl PartialEq for Promising {
    fn eq(&self, other: &Promising) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Promising {}

impl PartialOrd for Promising {
    fn partial_cmp(&self, other: &Promising) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Promising {
    fn cmp(&self, other: &Promising) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}
