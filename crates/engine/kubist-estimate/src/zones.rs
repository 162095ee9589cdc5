//! Bounds of a column from zone maps, and its exact minimum and maximum from the few zones that can hold
//! them.

use std::sync::Arc;
use std::time::Instant;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Decimal256Type};
use arrow_array::{Array, Float64Array};
use arrow_buffer::i256;
use arrow_cast::cast;
use arrow_schema::DataType;
use kubist_index::order;
use kubist_index::priority::PriorityRange;

use crate::own;
use kubist_population::seek::{ColumnSearch, Extremum, Seek};
use kubist_population::{Population, Projection, Scan, Scanned};
use kubist_types::error::Result;
use kubist_types::stats::Stats;

/// For a dictionary, the type of its values.
fn plain(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => plain(values),
        other => other,
    }
}

/// Infinite if keys of the type are not exact.
fn number(data_type: &DataType, extremum: Extremum, rank: u64) -> f64 {
    match (order::is_exact(data_type), extremum) {
        (true, _) => order::number(data_type, extremum.rank(rank)),
        (false, Extremum::Minimum) => f64::NEG_INFINITY,
        (false, Extremum::Maximum) => f64::INFINITY,
    }
}

/// Bounds per column from zone maps alone: infinite where NaN hides them, `None` without values.
pub fn bounds(
    records: &impl Population,
    columns: &[usize],
    deadline: Option<Instant>,
) -> Result<Vec<Option<(f64, f64)>>> {
    let types: Vec<DataType> = columns.iter().map(|column| type_of(records, *column)).collect();
    let both = columns.iter().zip(&types).flat_map(|(column, data_type)| {
        [Extremum::Minimum, Extremum::Maximum].map(|extremum| ColumnSearch::new(*column, extremum, data_type))
    });
    let seek = Arc::new(Seek::of_zones(both.collect()));
    let scan = Scan { wanted: Projection::default(), range: PriorityRange::ALL, seek: Some(seek.clone()), deadline };
    records.scan(scan, |_| Ok(()), &mut |()| Ok(()))?;
    let found = seek.searches.chunks(2).zip(&types).map(|(both, data_type)| {
        let found =
            |column_search: &ColumnSearch| Some(number(data_type, column_search.extremum, column_search.best()?));
        found(&both[0]).zip(found(&both[1]))
    });
    Ok(found.collect())
}

fn type_of(records: &impl Population, column: usize) -> DataType {
    plain(records.stored().field(column).data_type()).clone()
}

#[derive(Clone, Copy, Debug)]
pub struct Extreme {
    pub number: f64,
    /// For integer types, the value in units of the type.
    pub whole: Option<i256>,
}

/// Values are compared by order keys, reversed for the maximum. Wide decimals share keys, so they are
/// compared directly.
#[derive(Clone, Copy, Debug, Default)]
struct Best {
    key: Option<u64>,
    wide: Option<i256>,
}

fn better(extremum: Extremum, one: Option<i256>, other: Option<i256>) -> Option<i256> {
    let both = one.into_iter().chain(other);
    if extremum == Extremum::Minimum { both.min() } else { both.max() }
}

impl Best {
    fn of(array: &dyn Array, extremum: Extremum) -> Best {
        let (first, last) = order::number_keys(array.data_type());
        let keys = order::keys(array).unwrap_or_default();
        let numbers =
            keys.iter().enumerate().filter(|(row, key)| (first..=last).contains(*key) && array.is_valid(*row));
        let key = numbers.map(|(_, key)| extremum.rank(*key)).min();
        let wides: Box<dyn Iterator<Item = i256>> = match array.data_type() {
            DataType::Decimal128(..) => {
                Box::new(array.as_primitive::<Decimal128Type>().iter().flatten().map(i256::from_i128))
            }
            DataType::Decimal256(..) => Box::new(array.as_primitive::<Decimal256Type>().iter().flatten()),
            _ => Box::new(std::iter::empty()),
        };
        Best { key, wide: wides.fold(None, |best, wide| better(extremum, best, Some(wide))) }
    }

    fn seen(extreme: &Extreme, data_type: &DataType, extremum: Extremum) -> Best {
        let array = match extreme.whole {
            Some(whole) => own::array(&[Some(whole)], data_type).ok(),
            None if order::is_exact(data_type) => cast(&Float64Array::from(vec![extreme.number]), data_type).ok(),
            // A rounded float could wrongly beat all stored values.
            None => None,
        };
        let array = array.filter(|array| array.data_type() == data_type);
        array.map_or(Best::default(), |array| Best::of(array.as_ref(), extremum))
    }

    fn extreme(self, data_type: &DataType, extremum: Extremum) -> Option<Extreme> {
        if let Some(wide) = self.wide {
            let number = wide.to_string().parse().unwrap_or(f64::NAN) / own::unit(data_type);
            return Some(Extreme { number, whole: Some(wide) });
        }
        let key = extremum.rank(self.key?);
        // Turns -0 into 0.
        Some(Extreme {
            number: order::number(data_type, key) + 0.0,
            whole: order::integer(data_type, key).map(i256::from_i128),
        })
    }
}

/// A known value lets the search skip runs and zones.
pub struct ExtremumTarget {
    pub column: usize,
    pub extremum: Extremum,
    pub seen: Option<Extreme>,
}

/// Exact extremes of all records, `None` without values, and the cost.
pub fn exact(
    records: &impl Population,
    sought: &[ExtremumTarget],
    deadline: Option<Instant>,
) -> Result<(Vec<Option<Extreme>>, Stats)> {
    let types: Vec<DataType> = sought.iter().map(|sought| type_of(records, sought.column)).collect();
    let mut wides: Vec<Option<i256>> = Vec::new();
    let searches = sought.iter().zip(&types).map(|(ExtremumTarget { column, extremum, seen }, data_type)| {
        let (column_search, seen) = (ColumnSearch::new(*column, *extremum, data_type), seen.as_ref());
        let best = seen.map_or(Best::default(), |seen| Best::seen(seen, data_type, *extremum));
        best.key.into_iter().for_each(|key| column_search.take(key));
        wides.push(best.wide);
        column_search
    });
    let seek = Arc::new(Seek::of_records(searches.collect()));
    let mut columns: Vec<usize> = sought.iter().map(|sought| sought.column).collect();
    columns.sort_unstable();
    columns.dedup();
    let (wanted, range) =
        (Projection { columns: columns.clone(), priorities: false, coded: vec![] }, PriorityRange::ALL);
    let scan = Scan { wanted, range, seek: Some(seek.clone()), deadline };
    let look = {
        let seek = seek.clone();
        move |scanned: Scanned| {
            let mut wides = Vec::with_capacity(seek.searches.len());
            for column_search in &seek.searches {
                let place = columns.binary_search(&column_search.column).expect("one of them");
                let best = scanned.columns.get(place).map(|array| Best::of(array.as_ref(), column_search.extremum));
                let best = best.unwrap_or_default();
                best.key.into_iter().for_each(|key| column_search.take(key));
                wides.push(best.wide);
            }
            Ok((wides, scanned.stats))
        }
    };
    let mut stats = Stats::default();
    let planned = records.scan(scan, look, &mut |(found, cost): (Vec<Option<i256>>, Stats)| {
        for ((best, found), ExtremumTarget { extremum, .. }) in wides.iter_mut().zip(found).zip(sought) {
            *best = better(*extremum, *best, found);
        }
        stats.add(&cost);
        Ok(())
    })?;
    stats.add(&planned);
    let found = seek.searches.iter().zip(wides).zip(&types);
    let found = found.map(|((column_search, wide), data_type)| {
        Best { key: column_search.best(), wide }.extreme(data_type, column_search.extremum)
    });
    Ok((found.collect(), stats))
}
