//! The search for the least and the largest values of columns: what the best so far is, and which places may hold a
//! better one.

use std::sync::{Mutex, PoisonError};

use arrow_schema::DataType;
use kubist_expr::{Nulls, Zone};
use kubist_index::order;

/// Which end of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Least,
    Most,
}

impl End {
    /// A key so that the better ones are the lower ones; turned twice it is the same again.
    pub fn turned(self, key: u64) -> u64 {
        if self == End::Least { key } else { !key }
    }
}

/// The search for one end of a stored column.
#[derive(Debug)]
pub struct Reach {
    pub column: usize,
    pub end: End,
    /// The order keys of the type's numbers; others stand for no values.
    numbers: (u64, u64),
    /// The keys of both zeros, which are one number, if they have two.
    zeros: Option<(u64, u64)>,
    /// Values that share a key may differ.
    may_differ: bool,
    /// The best key so far, turned.
    best: Mutex<Option<u64>>,
}

impl Reach {
    pub fn new(column: usize, end: End, data_type: &DataType) -> Reach {
        let (numbers, may_differ) = (order::number_keys(data_type), !order::is_exact(data_type));
        Reach { column, end, numbers, zeros: order::zero_keys(data_type), may_differ, best: Mutex::new(None) }
    }

    /// The same key for both zeros.
    fn settled(&self, turned: u64) -> u64 {
        match self.zeros {
            Some((negative, zero)) if self.end.turned(turned) == negative => self.end.turned(zero),
            _ => turned,
        }
    }

    /// The best key so far, turned.
    pub fn best(&self) -> Option<u64> {
        *self.best.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the key of a value, turned.
    pub fn take(&self, turned: u64) {
        let (mut best, turned) = (self.best.lock().unwrap_or_else(PoisonError::into_inner), self.settled(turned));
        *best = Some(best.map_or(turned, |known| known.min(turned)));
    }

    /// The best key that a value of a zone can have, turned; `None` if there are no values. Where a NaN hides the end
    /// it is that of the infinity.
    pub fn promise(&self, zone: &Zone) -> Option<u64> {
        let (first, last) = self.numbers;
        let has_numbers = zone.nulls != Nulls::All && zone.min <= last && zone.max >= first;
        has_numbers.then(|| match self.end {
            End::Least => self.end.turned(zone.min.max(first)),
            End::Most => self.end.turned(zone.max.min(last)),
        })
    }

    /// May a value with this key be better than the best?
    pub fn may_gain(&self, turned: u64) -> bool {
        let turned = self.settled(turned);
        self.best().is_none_or(|best| turned < best || (turned == best && self.may_differ))
    }
}

/// The search for some ends.
#[derive(Debug)]
pub struct Seek {
    pub reaches: Vec<Reach>,
    /// Where the values of a zone end is good enough: no record is read.
    by_zones: bool,
}

impl Seek {
    /// A search among records: what is read of them is told by [`Reach::take`].
    pub fn of_records(reaches: Vec<Reach>) -> Seek {
        Seek { reaches, by_zones: false }
    }

    /// A search among zones, which ends where no record can lie outside.
    pub fn of_zones(reaches: Vec<Reach>) -> Seek {
        Seek { reaches, by_zones: true }
    }

    /// Are the records of a place to be read, of which these are the zones?
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
