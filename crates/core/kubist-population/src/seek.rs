//! Search for minima and maxima: the best values so far, and the zones that may contain better ones.

use std::sync::{Mutex, PoisonError};

use arrow_schema::DataType;
use kubist_expr::{Nulls, Zone};
use kubist_index::order;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Least,
    Most,
}

impl End {
    /// Maps an order key so that the lower key is the better value. The map is its own inverse.
    pub fn turned(self, key: u64) -> u64 {
        if self == End::Least { key } else { !key }
    }
}

#[derive(Debug)]
pub struct Reach {
    pub column: usize,
    pub end: End,
    /// Order keys of numbers; others stand for NaN or null.
    numbers: (u64, u64),
    /// The keys of -0.0 and 0.0; `None` for types with one zero.
    zeros: Option<(u64, u64)>,
    may_differ: bool,
    /// The best key so far, in the form of [`End::turned`], like all keys below.
    best: Mutex<Option<u64>>,
}

impl Reach {
    pub fn new(column: usize, end: End, data_type: &DataType) -> Reach {
        let (numbers, may_differ) = (order::number_keys(data_type), !order::is_exact(data_type));
        Reach { column, end, numbers, zeros: order::zero_keys(data_type), may_differ, best: Mutex::new(None) }
    }

    pub fn number(&self, key: u64) -> Option<u64> {
        let (first, last) = self.numbers;
        (first..=last).contains(&key).then(|| self.settled(self.end.turned(key)))
    }

    /// Replaces the key of -0.0 by the key of 0.0.
    pub fn settled(&self, turned: u64) -> u64 {
        match self.zeros {
            Some((negative, zero)) if self.end.turned(turned) == negative => self.end.turned(zero),
            _ => turned,
        }
    }

    pub fn best(&self) -> Option<u64> {
        *self.best.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn take(&self, turned: u64) {
        let (mut best, turned) = (self.best.lock().unwrap_or_else(PoisonError::into_inner), self.settled(turned));
        *best = Some(best.map_or(turned, |known| known.min(turned)));
    }

    /// The best key that a value of a zone can have; the key of infinity if NaN hides it. `None` if the zone
    /// has no numbers.
    pub fn promise(&self, zone: &Zone) -> Option<u64> {
        let (first, last) = self.numbers;
        let has_numbers = zone.nulls != Nulls::All && zone.min <= last && zone.max >= first;
        has_numbers.then(|| match self.end {
            End::Least => self.end.turned(zone.min.max(first)),
            End::Most => self.end.turned(zone.max.min(last)),
        })
    }

    /// Whether a value with this key can be better than the best so far.
    pub fn may_gain(&self, turned: u64) -> bool {
        let turned = self.settled(turned);
        self.best().is_none_or(|best| turned < best || (turned == best && self.may_differ))
    }
}

#[derive(Debug)]
pub struct Seek {
    pub reaches: Vec<Reach>,
    /// The bounds of zones suffice, so no record is read.
    by_zones: bool,
}

impl Seek {
    /// Reads records; the caller adds their values with [`Reach::take`].
    pub fn of_records(reaches: Vec<Reach>) -> Seek {
        Seek { reaches, by_zones: false }
    }

    /// Reads the bounds of zones only; its result bounds all records.
    pub fn of_zones(reaches: Vec<Reach>) -> Seek {
        Seek { reaches, by_zones: true }
    }

    /// Whether to read a run or page, from its zone of each column.
    pub fn reads(&self, zone_of: impl Fn(usize) -> Zone) -> bool {
        let mut promises =
            self.reaches.iter().filter_map(|reach| Some((reach, reach.promise(&zone_of(reach.column))?)));
        if self.by_zones {
            promises.for_each(|(reach, promise)| reach.take(promise));
            return false;
        }
        promises.any(|(reach, promise)| reach.may_gain(promise))
    }
}
