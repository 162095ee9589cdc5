//! What zone maps say about a column's values: between which ends they lie, and, with a
//! look into the few zones that may hold it, the smallest and the largest of all.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Decimal256Type};
use arrow_array::{Array, Float64Array};
use arrow_buffer::i256;
use arrow_cast::cast;
use arrow_schema::DataType;
use kubist_expr::{Nulls, Zone};
use kubist_index::order;
use kubist_index::priority::PriorityRange;

use crate::aggregate::End;
use crate::own;
use kubist_types::Population;
use kubist_types::error::Result;
use kubist_types::population::{Scan, Scanned, Skip, Wanted};
use kubist_types::stats::Stats;

/// The values of a zone that are numbers; infinite where nothing is known of them, as where a
/// NaN hides them; `None` if there are none.
fn ends(zone: Zone, data_type: &DataType) -> Option<(f64, f64)> {
    if zone.nulls == Nulls::All {
        return None;
    }
    if !order::is_exact(data_type) {
        // Keys of wide decimals stand for no values.
        return Some((f64::NEG_INFINITY, f64::INFINITY));
    }
    let (first, last) = order::number_keys(data_type);
    let low = if zone.min < first { f64::NEG_INFINITY } else { order::number(data_type, zone.min) };
    let high = if zone.max > last { f64::INFINITY } else { order::number(data_type, zone.max) };
    Some((low, high))
}

/// The type of a column's values, without its dictionary.
fn plain(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => plain(values),
        other => other,
    }
}

/// Ends between which all values of a stored column lie, without reading them; infinite ones where NaN hides
/// them, `None` if there are no values.
pub fn bounds(records: &impl Population, column: usize, deadline: Option<Instant>) -> Result<Option<(f64, f64)>> {
    let data_type = plain(records.stored().field(column).data_type()).clone();
    let seen = Arc::new(Mutex::new(None::<(f64, f64)>));
    let all = seen.clone();
    let needless = move |zone: Zone| {
        if let Some((low, high)) = ends(zone, &data_type) {
            let mut all = all.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            *all = Some(all.map_or((low, high), |(lowest, highest)| (lowest.min(low), highest.max(high))));
        }
        true
    };
    let skip = Some(Skip { column, many_at_once: false, needless: Arc::new(needless) });
    let scan = Scan { wanted: Wanted::default(), range: PriorityRange::ALL, skip, deadline };
    records.scan(scan, |_| Ok(()), &mut |()| Ok(()))?;
    let seen = seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    Ok(*seen)
}

/// Whether zone maps say that each record has a value of a stored column: neither null nor NaN.
pub fn is_complete(records: &impl Population, column: usize, deadline: Option<Instant>) -> Result<bool> {
    let data_type = plain(records.stored().field(column).data_type()).clone();
    let (first, last) = order::number_keys(&data_type);
    let complete = Arc::new(AtomicBool::new(true));
    let all = complete.clone();
    let needless = move |zone: Zone| {
        if zone.nulls != Nulls::None || zone.min < first || zone.max > last {
            all.store(false, Ordering::Relaxed);
        }
        true
    };
    let skip = Some(Skip { column, many_at_once: true, needless: Arc::new(needless) });
    let scan = Scan { wanted: Wanted::default(), range: PriorityRange::ALL, skip, deadline };
    records.scan(scan, |_| Ok(()), &mut |()| Ok(()))?;
    Ok(complete.load(Ordering::Relaxed))
}

/// The smallest or the largest value.
#[derive(Clone, Copy, Debug)]
pub struct Extreme {
    pub number: f64,
    /// In the type's units, where the type is one of whole numbers.
    pub whole: Option<i256>,
}

/// The best value so far. Values are compared by their order keys, turned round for the
/// largest; those of wide decimals share keys, and are compared as they are.
#[derive(Clone, Copy, Debug, Default)]
struct Best {
    key: Option<u64>,
    wide: Option<i256>,
}

impl Best {
    fn key(end: End, key: u64) -> u64 {
        if end == End::Least { key } else { !key }
    }

    fn is_better(end: End, one: i256, other: Option<i256>) -> bool {
        other.is_none_or(|other| if end == End::Least { one < other } else { one > other })
    }

    /// Takes the better of both.
    fn take(&mut self, end: End, other: Best) {
        self.key = self.key.into_iter().chain(other.key).min();
        if let Some(wide) = other.wide.filter(|wide| Best::is_better(end, *wide, self.wide)) {
            self.wide = Some(wide);
        }
    }

    /// The best of an array.
    fn of(array: &dyn Array, end: End) -> Best {
        let (first, last) = order::number_keys(array.data_type());
        let keys = order::keys(array).unwrap_or_default();
        let numbers =
            keys.iter().enumerate().filter(|(row, key)| (first..=last).contains(*key) && array.is_valid(*row));
        let key = numbers.map(|(_, key)| Best::key(end, *key)).min();
        let mut best = Best { key, wide: None };
        let wides: Box<dyn Iterator<Item = i256>> = match array.data_type() {
            DataType::Decimal128(..) => {
                Box::new(array.as_primitive::<Decimal128Type>().iter().flatten().map(i256::from_i128))
            }
            DataType::Decimal256(..) => Box::new(array.as_primitive::<Decimal256Type>().iter().flatten()),
            _ => Box::new(std::iter::empty()),
        };
        wides.for_each(|wide| best.take(end, Best { key: None, wide: Some(wide) }));
        best
    }

    /// The best of values of the type that are known already.
    fn seen(extreme: &Extreme, data_type: &DataType, end: End) -> Best {
        let array = match extreme.whole {
            Some(whole) => own::array(&[Some(whole)], data_type).ok(),
            None if order::is_exact(data_type) => cast(&Float64Array::from(vec![extreme.number]), data_type).ok(),
            // Rounded to a float it may be better than all.
            None => None,
        };
        let array = array.filter(|array| array.data_type() == data_type);
        array.map_or(Best::default(), |array| Best::of(array.as_ref(), end))
    }

    fn extreme(self, data_type: &DataType, end: End) -> Option<Extreme> {
        if let Some(wide) = self.wide {
            let number = wide.to_string().parse().unwrap_or(f64::NAN) / own::unit(data_type);
            return Some(Extreme { number, whole: Some(wide) });
        }
        let key = Best::key(end, self.key?);
        // The one zero of numbers.
        Some(Extreme {
            number: order::number(data_type, key) + 0.0,
            whole: order::whole(data_type, key).map(i256::from_i128),
        })
    }
}

/// The smallest or largest value of all records, `None` if there is none, and what it cost.
/// `seen` is a value of one of them: runs and zones that cannot beat it are not read.
pub fn exact(
    records: &impl Population,
    column: usize,
    end: End,
    seen: Option<&Extreme>,
    deadline: Option<Instant>,
) -> Result<(Option<Extreme>, Stats)> {
    let data_type = plain(records.stored().field(column).data_type()).clone();
    let seen = seen.map_or(Best::default(), |seen| Best::seen(seen, &data_type, end));
    let best = Arc::new(Mutex::new(seen));
    let known = {
        let best = best.clone();
        move || *best.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    };
    // Values that share a key may still differ.
    let strictly = !order::is_exact(&data_type);
    let (first, last) = order::number_keys(&data_type);
    let beaten = {
        let known = known.clone();
        move |zone: Zone| {
            let Some(best) = known().key else { return zone.nulls == Nulls::All };
            let nearest = Best::key(end, if end == End::Least { zone.min.max(first) } else { zone.max.min(last) });
            zone.nulls == Nulls::All || nearest > best || (nearest == best && !strictly)
        }
    };
    let wanted = Wanted { columns: vec![column], priorities: false };
    let skip = Some(Skip { column, many_at_once: true, needless: Arc::new(beaten) });
    let scan = Scan { wanted, range: PriorityRange::ALL, skip, deadline };
    let look = {
        let best = best.clone();
        move |scanned: Scanned| {
            if let Some(array) = scanned.columns.first() {
                let found = Best::of(array.as_ref(), end);
                best.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take(end, found);
            }
            Ok(scanned.stats)
        }
    };
    let mut stats = Stats::default();
    let planned = records.scan(scan, look, &mut |cost| {
        stats.add(&cost);
        Ok(())
    })?;
    stats.add(&planned);
    Ok((known().extreme(&data_type, end), stats))
}
