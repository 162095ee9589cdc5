//! Skips runs and zones that cannot have any of the first n rows of an order. The bar is the n-th best value so
//! far in the order's first column. Rows with worse values are not among the first n. Rows with an equal value
//! may be, because the other columns decide.

use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{Array, ArrayRef};
use kubist_format::location::Location;
use kubist_format::zone_map::ZoneMap;
use kubist_index::order;
use kubist_index::state::Run;
use kubist_population::seek::{ColumnSearch, Extremum};

use crate::bind::{BoundQuery, By, Order};
use crate::execute::Skips;
use crate::runs::zone_of;

/// Limit of first rows; the bar stores a value for each.
const MOST: u64 = 65_536;

pub(super) struct Bar {
    query: Arc<BoundQuery>,
    column_search: ColumnSearch,
    /// Index among the columns that the query reads.
    place: usize,
    rows: usize,
    /// The best keys so far, as [`Extremum::rank`] returns them; the worst key is on top.
    best: Mutex<BinaryHeap<u64>>,
    /// The bar: the worst of the `rows` best keys; the largest number while there are fewer keys.
    key: AtomicU64,
}

impl Bar {
    /// A bar for the query; `None` if all rows are wanted, or if the keys of the first column are not exact.
    pub(super) fn of(query: &Arc<BoundQuery>, order: &Order) -> Option<Arc<Bar>> {
        let rows = order.first.filter(|rows| (1..=MOST).contains(rows))?;
        let first = order.terms.first()?;
        let By::Column(place) = &first.by else { return None };
        let column = query.read[*place];
        let data_type = query.snapshot.view.schema.stored.field(column).data_type();
        if !order::is_exact(data_type) {
            return None;
        }
        let extremum = if first.descending { Extremum::Maximum } else { Extremum::Minimum };
        Some(Arc::new(Bar {
            query: query.clone(),
            column_search: ColumnSearch::new(column, extremum, data_type),
            place: *place,
            rows: rows as usize,
            best: Mutex::default(),
            key: AtomicU64::new(u64::MAX),
        }))
    }

    pub(super) fn raise(&self, columns: &[ArrayRef]) {
        let array = &columns[self.place];
        let Some(keys) = order::keys(array.as_ref()) else { return };
        let bar = self.key.load(Ordering::Relaxed);
        let better = keys.into_iter().enumerate().filter(|(row, _)| array.is_valid(*row));
        let better = better.filter_map(|(_, key)| self.column_search.number(key)).filter(|rank| *rank < bar);
        let better: Vec<u64> = better.collect();
        if better.is_empty() {
            return;
        }
        let mut best = self.best.lock().unwrap_or_else(PoisonError::into_inner);
        for rank in better {
            best.push(rank);
            if best.len() > self.rows {
                best.pop();
            }
        }
        if let Some(worst) = best.peek().filter(|_| best.len() == self.rows) {
            self.key.store(*worst, Ordering::Relaxed);
        }
    }

    pub(super) fn skips(self: &Arc<Self>) -> Skips {
        let (of_runs, of_zones) = (self.clone(), self.clone());
        Skips {
            runs: Some(Arc::new(move |run: &Run<Location>| {
                of_runs.best_of(run).is_some_and(|best| of_runs.is_behind(best))
            })),
            zones: Some(Arc::new(move |map: &ZoneMap, zone: usize| {
                of_zones.is_behind(of_zones.best_of_zone(map, zone))
            })),
        }
    }

    pub(super) fn rank(&self, run: &Run<Location>) -> u64 {
        self.best_of(run).flatten().unwrap_or(u64::MAX)
    }

    /// The best key of a run; `None` if its zones must be examined.
    fn best_of(&self, run: &Run<Location>) -> Option<Option<u64>> {
        self.query.best_of(run, &self.column_search)
    }

    fn best_of_zone(&self, map: &ZoneMap, zone: usize) -> Option<u64> {
        self.column_search.promise(&zone_of(&self.query.snapshot.view.schema, map, zone, self.column_search.column))
    }

    /// Without numbers, no row is wanted, because null and NaN come last.
    fn is_behind(&self, best: Option<u64>) -> bool {
        let bar = self.key.load(Ordering::Relaxed);
        bar != u64::MAX && best.is_none_or(|best| self.column_search.without_negative_zero(best) > bar)
    }
}
