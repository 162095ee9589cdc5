//! Search for minima and maxima: the best values so far, and the zones that may contain better ones.

use std::sync::{Mutex, PoisonError};

use arrow_schema::DataType;
use kubist_expr::{Nulls, Zone};
use kubist_index::order;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extremum {
    Minimum,
    Maximum,
}

impl Extremum {
    /// Maps an order key so that the lower key is the better value. The map is its own inverse.
    pub fn rank(self, key: u64) -> u64 {
        if self == Extremum::Minimum { key } else { !key }
    }
}

#[derive(Debug)]
pub struct ColumnSearch {
    pub column: usize,
    pub extremum: Extremum,
    /// Order keys of numbers; others stand for NaN or null.
    numbers: (u64, u64),
    /// The keys of -0.0 and 0.0; `None` for types with one zero.
    zeros: Option<(u64, u64)>,
    may_differ: bool,
    /// The best key so far, in the form of [`Extremum::rank`], like all keys below.
    best: Mutex<Option<u64>>,
}

impl ColumnSearch {
    pub fn new(column: usize, extremum: Extremum, data_type: &DataType) -> ColumnSearch {
        let (numbers, may_differ) = (order::number_keys(data_type), !order::is_exact(data_type));
        ColumnSearch {
            column,
            extremum,
            numbers,
            zeros: order::zero_keys(data_type),
            may_differ,
            best: Mutex::new(None),
        }
    }

    pub fn number(&self, key: u64) -> Option<u64> {
        let (first, last) = self.numbers;
        (first..=last).contains(&key).then(|| self.without_negative_zero(self.extremum.rank(key)))
    }

    /// Replaces the key of -0.0 by the key of 0.0.
    pub fn without_negative_zero(&self, rank: u64) -> u64 {
        match self.zeros {
            Some((negative, zero)) if self.extremum.rank(rank) == negative => self.extremum.rank(zero),
            _ => rank,
        }
    }

    pub fn best(&self) -> Option<u64> {
        *self.best.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn take(&self, rank: u64) {
        let (mut best, rank) =
            (self.best.lock().unwrap_or_else(PoisonError::into_inner), self.without_negative_zero(rank));
        *best = Some(best.map_or(rank, |known| known.min(rank)));
    }

    /// The best key that a value of a zone can have; the key of infinity if NaN hides it. `None` if the zone
    /// has no numbers.
    pub fn promise(&self, zone: &Zone) -> Option<u64> {
        let (first, last) = self.numbers;
        let has_numbers = zone.nulls != Nulls::All && zone.min <= last && zone.max >= first;
        has_numbers.then(|| match self.extremum {
            Extremum::Minimum => self.extremum.rank(zone.min.max(first)),
            Extremum::Maximum => self.extremum.rank(zone.max.min(last)),
        })
    }

    /// Whether a value with this key can be better than the best so far.
    pub fn may_gain(&self, rank: u64) -> bool {
        let rank = self.without_negative_zero(rank);
        self.best().is_none_or(|best| rank < best || (rank == best && self.may_differ))
    }
}

#[derive(Debug)]
pub struct Seek {
    pub searches: Vec<ColumnSearch>,
    /// The bounds of zones suffice, so no record is read.
    by_zones: bool,
}

impl Seek {
    /// Reads records; the caller adds their values with [`ColumnSearch::take`].
    pub fn of_records(searches: Vec<ColumnSearch>) -> Seek {
        Seek { searches, by_zones: false }
    }

    /// Reads the bounds of zones only; its result bounds all records.
    pub fn of_zones(searches: Vec<ColumnSearch>) -> Seek {
        Seek { searches, by_zones: true }
    }

    /// Whether to read a run or page, from its zone of each column.
    pub fn reads(&self, zone_of: impl Fn(usize) -> Zone) -> bool {
        let mut promises = self
            .searches
            .iter()
            .filter_map(|column_search| Some((column_search, column_search.promise(&zone_of(column_search.column))?)));
        if self.by_zones {
            promises.for_each(|(column_search, promise)| column_search.take(promise));
            return false;
        }
        promises.any(|(column_search, promise)| column_search.may_gain(promise))
    }
}
