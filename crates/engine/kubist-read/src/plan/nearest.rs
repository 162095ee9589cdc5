//! Where the least and the largest values lie: in few runs, and what is known of runs without reading them says in
//! which.
//!
//! The entry of a run has the ends of its columns, and of dimensions the coordinates of its ends. Coordinates rise with
//! values, so that the least value lies in a run with the least coordinate.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use arrow_schema::DataType;
use kubist_catalog::frame::Frame;
use kubist_expr::Nulls;
use kubist_format::location::Location;
use kubist_index::order;
use kubist_index::priority::PriorityRange;
use kubist_index::state::{Run, RunId};
use kubist_population::seek::{End, Reach, Seek};
use kubist_types::Result;

use super::pieces::Short;
use super::{LogicalPlan, ReadPlan};
use crate::bind::BoundQuery;
use crate::visit::Visit;

/// Runs that are read first for each end, and so many if they all promise the same: those that share a coordinate do.
const NEAREST: usize = 16;
const MOST_ALIKE: usize = 1024;
/// Pages of the list of runs that are read in one go.
const PAGES_AT_ONCE: usize = 64;

/// Some of the runs that promise the best values.
pub struct Nearest {
    pub plan: Arc<ReadPlan>,
    /// For each end the best that runs promise which come later or not at all, turned; `None` if there are no others.
    others: Vec<Option<u64>>,
}

impl Nearest {
    /// Can no other run hold anything better?
    pub fn is_enough(&self, seek: &Seek) -> bool {
        let gains = |(reach, others): (&Reach, &Option<u64>)| others.is_some_and(|others| reach.may_gain(others));
        !seek.reaches.iter().zip(&self.others).any(gains)
    }
}

/// What the best value is that a run may hold.
enum Promise {
    /// It has none.
    Nothing,
    /// All lie beyond the coordinate of the key that was asked for.
    Beyond,
    /// None is better than this key, turned.
    Key(u64),
}

impl BoundQuery {
    /// What a run promises of an end; `None` if that is not known without its zone map. `than` is a key, turned.
    fn promise(&self, run: &Run<Location>, reach: &Reach, than: Option<u64>) -> Option<Promise> {
        if let Some(zone) = run.payload.ranges.as_ref().and_then(|ranges| ranges.zone(reach.column)) {
            return Some(reach.promise(&zone).map_or(Promise::Nothing, Promise::Key));
        }
        let (frame, d) = self.dimension(run, reach.column)?;
        let data_type = self.snapshot.view.schema.stored.field(reach.column).data_type();
        let place = match reach.end {
            End::Least => run.payload.low[d],
            End::Most => run.payload.high[d],
        };
        // What is no number hides the end.
        let is_hidden = reach.end == End::Most && place == frame.geometry.last_coordinate();
        let is_beyond = |than: u64| {
            let other = place_of(frame, d, data_type, reach.end.turned(than));
            if reach.end == End::Least { other < place } else { other > place }
        };
        if !is_hidden && than.is_some_and(is_beyond) {
            return Some(Promise::Beyond);
        }
        let key = best_key(frame, d, data_type, reach.end, place);
        Some(key.map_or(Promise::Nothing, |key| Promise::Key(reach.end.turned(key))))
    }

    /// The best key beyond the coordinate of another, in the tree of a run; turned, both.
    fn beyond(&self, run: &Run<Location>, reach: &Reach, than: u64) -> Option<u64> {
        let (frame, d) = self.dimension(run, reach.column)?;
        let data_type = self.snapshot.view.schema.stored.field(reach.column).data_type();
        let place = place_of(frame, d, data_type, reach.end.turned(than));
        let next = if reach.end == End::Least { place.checked_add(1) } else { place.checked_sub(1) };
        best_key(frame, d, data_type, reach.end, next?).map(|key| reach.end.turned(key))
    }

    /// The frame in which a column is a run's dimension, and which one.
    fn dimension(&self, run: &Run<Location>, column: usize) -> Option<(&Frame, usize)> {
        let frame = self.grids.frame(run.cube.grid())?;
        Some((frame, frame.dimensions.iter().position(|dimension| *dimension == column)?))
    }

    /// May a run hold something better than is known?
    pub fn may_gain(&self, run: &Run<Location>, seek: &Seek) -> bool {
        seek.reaches.iter().any(|reach| match self.promise(run, reach, reach.best()) {
            None => true,
            Some(Promise::Nothing | Promise::Beyond) => false,
            Some(Promise::Key(key)) => reach.may_gain(key),
        })
    }

    /// Has each record of a run a value of a column, as far as is known? `None` if its zone map has to tell.
    pub fn has_values(&self, run: &Run<Location>, column: usize) -> Option<bool> {
        let (first, last) = order::number_keys(self.snapshot.view.schema.stored.field(column).data_type());
        if let Some(zone) = run.payload.ranges.as_ref().and_then(|ranges| ranges.zone(column)) {
            return Some(zone.nulls == Nulls::None && first <= zone.min && zone.max <= last);
        }
        // What is no number has the last coordinate. Other values hardly ever have it.
        let (frame, d) = self.dimension(run, column)?;
        Some(run.payload.high[d] < frame.geometry.last_coordinate())
    }
}

/// The coordinate of a key of dimension `d`.
fn place_of(frame: &Frame, d: usize, data_type: &DataType, key: u64) -> u32 {
    frame.scales[d].coordinate(order::number(data_type, key), frame.geometry.bits())
}

/// The best key that a value at a coordinate or beyond it can have; `None` if there is no such value.
fn best_key(frame: &Frame, d: usize, data_type: &DataType, end: End, place: u32) -> Option<u64> {
    let (first, last) = order::number_keys(data_type);
    match end {
        End::Least => frame.first_key(d, data_type, place),
        End::Most if place == frame.geometry.last_coordinate() => Some(last),
        End::Most => match frame.first_key(d, data_type, place + 1) {
            Some(above) => above.checked_sub(1).filter(|key| *key >= first),
            None => Some(last),
        },
    }
}

impl LogicalPlan {
    /// The runs that promise the best values of each end, first the best of each and then others; nothing if runs do
    /// not tell, or are not what is asked for.
    ///
    /// # Errors
    ///
    /// Those of [`LogicalPlan::read_plan`]; `Cancelled` after the deadline.
    pub fn nearest(&self, seek: &Seek, deadline: Option<Instant>) -> Result<Vec<Nearest>> {
        let query = &self.query;
        if !query.sought.is_empty() || query.part.is_some() {
            return Ok(Vec::new());
        }
        let mut search = Search::new(seek);
        if !self.search(&mut search, deadline)? {
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

    /// Looks for the best runs of each end; false if some do not tell.
    fn search(&self, search: &mut Search<'_>, deadline: Option<Instant>) -> Result<bool> {
        let Some(mut short) = self.abridged(deadline)? else {
            return self.each_primary(PriorityRange::ALL, deadline, |run| search.take(self, run));
        };
        if !short.each_recent(|run| search.take(self, run))? {
            return Ok(false);
        }
        // What each page promises of each end: no better than the best of its runs, and than that of runs that are no
        // more.
        let pages = 0..short.len();
        let wanted: Vec<bool> = pages.clone().map(|page| self.is_wanted(short.page(page))).collect();
        let promise = |reach: &Reach, page: usize| match self.query.promise(short.page(page), reach, None) {
            None => Some(0),
            Some(Promise::Nothing | Promise::Beyond) => None,
            Some(Promise::Key(key)) => Some(key),
        };
        let of_pages = |reach| pages.clone().map(|page| promise(reach, page).filter(|_| wanted[page])).collect();
        let promises: Vec<Vec<Option<u64>>> = search.seek.reaches.iter().map(of_pages).collect();
        let mut is_read = vec![false; pages.len()];
        for (end, promises) in promises.iter().enumerate() {
            let keys = promises.iter().zip(0..).filter_map(|(key, page)| Some(((*key)?, page)));
            let mut left: VecDeque<(u64, usize)> = keys.filter(|(_, page)| !is_read[*page]).collect();
            left.make_contiguous().sort_unstable();
            // Mostly the first page has the best.
            let mut at_once = 1;
            while left.front().is_some_and(|(key, _)| !search.found[end].has_enough(*key)) {
                let some: Vec<usize> = left.drain(..at_once.min(left.len())).map(|(_, page)| page).collect();
                at_once = (2 * at_once).min(PAGES_AT_ONCE);
                some.iter().for_each(|page| is_read[*page] = true);
                if !short.each(&some, |run| search.take(self, run))? {
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

    /// Whether the list of runs says that each record has a value of a stored column; `None` if it does not tell of some
    /// runs, and of the others it says so.
    ///
    /// # Errors
    ///
    /// Those of [`LogicalPlan::read_plan`]; `Cancelled` after the deadline.
    pub fn all_have(&self, column: usize, deadline: Option<Instant>) -> Result<Option<bool>> {
        let field = self.query.snapshot.view.schema.stored.field(column);
        if !field.is_nullable() && !field.data_type().is_floating() {
            return Ok(Some(true));
        }
        let has_values =
            |run: &Run<Location>| if self.is_wanted(run) { self.query.has_values(run, column) } else { Some(true) };
        let mut all_tell = true;
        let mut goes_on = |run: &Arc<Run<Location>>| {
            let has_values = has_values(run);
            all_tell &= has_values.is_some();
            has_values != Some(false)
        };
        // Where a page does not tell, many do not.
        let of_pages =
            |short: &Short<'_>| (0..short.len()).map(|page| has_values(short.page(page))).collect::<Option<Vec<_>>>();
        let short = self.abridged(deadline)?.map(|short| (of_pages(&short), short));
        let is_complete = match short {
            Some((None, _)) if self.unheld_runs() > 0 => return Ok(None),
            None | Some((None, _)) => self.each_primary(PriorityRange::ALL, deadline, goes_on)?,
            Some((Some(of_pages), mut short)) => {
                let open: Vec<usize> = (0..of_pages.len()).filter(|page| !of_pages[*page]).collect();
                let mut is_complete = short.each_recent(&mut goes_on)?;
                for some in open.chunks(PAGES_AT_ONCE) {
                    is_complete = is_complete && short.each(some, &mut goes_on)?;
                }
                is_complete
            }
        };
        Ok(if is_complete && !all_tell { None } else { Some(is_complete) })
    }
}

/// The search for the runs that promise the best values of some ends.
struct Search<'a> {
    seek: &'a Seek,
    found: Vec<Best>,
    /// For each end the best promise of runs that are not among these.
    others: Vec<Option<u64>>,
}

impl Search<'_> {
    fn new(seek: &Seek) -> Search<'_> {
        let found: Vec<Best> = seek.reaches.iter().map(|_| Best::default()).collect();
        Search { seek, others: vec![None; found.len()], found }
    }

    /// Takes a run; false if it does not tell what it promises.
    fn take(&mut self, plan: &LogicalPlan, run: &Arc<Run<Location>>) -> bool {
        if !plan.may_match(run) {
            return true;
        }
        let query = &plan.query;
        for ((reach, best), others) in self.seek.reaches.iter().zip(&mut self.found).zip(&mut self.others) {
            let out = match query.promise(run, reach, best.worst()) {
                None => return false,
                Some(Promise::Nothing) => None,
                Some(Promise::Beyond) => best.beyond(run.cube.grid(), |worst| query.beyond(run, reach, worst)),
                Some(Promise::Key(key)) => best.add(Promising { key, run: run.clone() }),
            };
            *others = others.iter().copied().chain(out).min();
        }
        true
    }
}

/// The runs that promise the best values of an end, so far.
#[derive(Default)]
struct Best {
    /// The worst on top.
    runs: BinaryHeap<Promising>,
    /// The best promise.
    least: Option<u64>,
    /// What lies beyond the coordinate of the worst: of which grid and worst that is, and the best of it.
    beyond: Option<((u32, u64), Option<u64>)>,
}

impl Best {
    /// What a run must not be worse than; `None` if any will do.
    fn worst(&self) -> Option<u64> {
        if self.runs.len() < NEAREST { None } else { self.runs.peek().map(|promising| promising.key) }
    }

    /// Does nothing that promises this key, or a worse one, have to be looked at?
    fn has_enough(&self, key: u64) -> bool {
        self.worst().is_some_and(|worst| match key.cmp(&worst) {
            Ordering::Less => false,
            // Of those that are alike up to so many are kept if they promise the best.
            Ordering::Equal => self.least != Some(worst) || self.runs.len() >= MOST_ALIKE,
            Ordering::Greater => true,
        })
    }

    /// The best of what lies beyond the coordinate of the worst in a grid, found once for each worst.
    fn beyond(&mut self, grid: u32, find: impl FnOnce(u64) -> Option<u64>) -> Option<u64> {
        let of = (grid, self.worst()?);
        match self.beyond {
            Some((known, beyond)) if known == of => beyond,
            _ => self.beyond.insert((of, find(of.1))).1,
        }
    }

    /// Takes a run; gives the best promise of those that have to go for it.
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
            // Each is no worse than the one before.
            gone = self.runs.pop().map(|promising| promising.key);
        }
    }
}

/// A run and what it promises, the worst on top of a heap.
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
