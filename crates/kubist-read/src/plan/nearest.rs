//! Where the least and the largest values lie: in few runs, and what is known of runs without reading them says in
//! which.
//!
//! The entry of a run has the ends of its columns, and of dimensions the coordinates of its ends. Coordinates rise with
//! values, so that the least value lies in a run with the least coordinate.

use std::collections::BinaryHeap;
use std::sync::Arc;

use kubist_catalog::frame::Frame;
use kubist_expr::Nulls;
use kubist_format::location::Location;
use kubist_index::order;
use kubist_index::priority::PriorityRange;
use kubist_index::state::{Run, RunId};
use kubist_types::Result;
use kubist_types::seek::{End, Reach, Seek};

use super::{LogicalPlan, ReadPlan};
use crate::bind::BoundQuery;
use crate::visit::Visit;

/// Runs that are read first for each end.
const NEAREST: usize = 16;

/// The runs that promise the best values.
pub struct Nearest {
    pub plan: Arc<ReadPlan>,
    /// For each end the best that others promise, turned; `None` if there are no others.
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
    /// It has none, or none that is better than was asked.
    Nothing,
    /// None is better than this key, turned.
    Key(u64),
}

impl BoundQuery {
    /// What a run promises of an end; `None` if that is not known without its zone map. Perhaps nothing, if it is worse
    /// than the key `than`, turned.
    fn promise(&self, run: &Run<Location>, reach: &Reach, than: Option<u64>) -> Option<Promise> {
        if let Some(zone) = run.payload.ranges.as_ref().and_then(|ranges| ranges.zone(reach.column)) {
            return Some(reach.promise(&zone).map_or(Promise::Nothing, Promise::Key));
        }
        let (frame, d) = self.dimension(run, reach.column)?;
        let data_type = self.snapshot.view.schema.stored.field(reach.column).data_type();
        let place_of = |turned| {
            let number = order::number(data_type, reach.end.turned(turned));
            frame.scales[d].coordinate(number, frame.geometry.bits())
        };
        let key = match reach.end {
            End::Least => {
                let low = run.payload.low[d];
                if than.is_some_and(|than| place_of(than) < low) {
                    return Some(Promise::Nothing);
                }
                frame.first_key(d, data_type, low)
            }
            End::Most => {
                let high = run.payload.high[d];
                // What is no number hides the end.
                let is_hidden = high == frame.geometry.last_coordinate();
                if !is_hidden && than.is_some_and(|than| place_of(than) > high) {
                    return Some(Promise::Nothing);
                }
                let above = if is_hidden { None } else { frame.first_key(d, data_type, high + 1) };
                Some(above.map_or(order::number_keys(data_type).1, |above| above.saturating_sub(1)))
            }
        };
        Some(key.map_or(Promise::Nothing, |key| Promise::Key(reach.end.turned(key))))
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
            Some(Promise::Nothing) => false,
            Some(Promise::Key(key)) => reach.may_gain(key),
        })
    }

    /// Is it known, without its zone map, that each record of a run has a value of a column?
    fn has_values(&self, run: &Run<Location>, column: usize) -> bool {
        let (first, last) = order::number_keys(self.snapshot.view.schema.stored.field(column).data_type());
        match run.payload.ranges.as_ref().and_then(|ranges| ranges.zone(column)) {
            Some(zone) => zone.nulls == Nulls::None && first <= zone.min && zone.max <= last,
            // What has none has the last coordinate.
            None => self
                .dimension(run, column)
                .is_some_and(|(frame, d)| run.payload.high[d] < frame.geometry.last_coordinate()),
        }
    }
}

impl LogicalPlan {
    /// The runs that promise the best values of each end; `None` if runs do not tell, or are not what is asked for.
    ///
    /// # Errors
    ///
    /// Those of [`LogicalPlan::read_plan`].
    pub fn nearest(&self, seek: &Seek) -> Result<Option<Nearest>> {
        let query = &self.query;
        if !query.sought.is_empty() || query.part.is_some() {
            return Ok(None);
        }
        let mut found: Vec<BinaryHeap<Promising>> = seek.reaches.iter().map(|_| BinaryHeap::new()).collect();
        let mut others: Vec<Option<u64>> = vec![None; found.len()];
        let all_tell = self.each_primary(PriorityRange::ALL, |run| {
            if !self.may_match(run) {
                return true;
            }
            for ((reach, best), others) in seek.reaches.iter().zip(&mut found).zip(&mut others) {
                let worst = if best.len() < NEAREST { None } else { best.peek().map(|promising| promising.key) };
                match query.promise(run, reach, worst) {
                    None => return false,
                    Some(Promise::Nothing) => *others = others.iter().copied().chain(worst).min(),
                    Some(Promise::Key(key)) => {
                        best.push(Promising { key, run: run.clone() });
                        let out = if best.len() > NEAREST { best.pop().map(|promising| promising.key) } else { None };
                        *others = others.iter().copied().chain(out).min();
                    }
                }
            }
            true
        })?;
        if !all_tell {
            return Ok(None);
        }
        let mut runs: Vec<Arc<Run<Location>>> = found.into_iter().flatten().map(|promising| promising.run).collect();
        runs.sort_unstable_by_key(|run| (run.cube, run.id));
        runs.dedup_by_key(|run| run.id);
        let visits = runs.into_iter().map(Visit::whole).collect();
        let plan = ReadPlan { query: query.clone(), range: PriorityRange::ALL, visits };
        Ok(Some(Nearest { plan: Arc::new(plan), others }))
    }

    /// Whether the list of runs says that each record has a value of a stored column.
    ///
    /// # Errors
    ///
    /// Those of [`LogicalPlan::read_plan`].
    pub fn all_have(&self, column: usize) -> Result<bool> {
        let field = self.query.snapshot.view.schema.stored.field(column);
        if !field.is_nullable() && !field.data_type().is_floating() {
            return Ok(true);
        }
        self.each_primary(PriorityRange::ALL, |run| !self.may_match(run) || self.query.has_values(run, column))
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
    fn partial_cmp(&self, other: &Promising) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Promising {
    fn cmp(&self, other: &Promising) -> std::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}
