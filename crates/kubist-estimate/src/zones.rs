//! What zone maps say about a column's values: between which ends they lie, and, with a
//! look into the few zones that may hold it, the smallest and the largest of all.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use arrow_array::Array;
use arrow_schema::DataType;
use kubist_expr::{Nulls, Zone};
use kubist_index::order;
use kubist_index::priority::PriorityRange;

use crate::aggregate::End;
use kubist_format::zone_map::ZoneMap;
use kubist_read::execute::{self, Wanted};
use kubist_read::plan::LogicalPlan;
use kubist_types::error::Result;
use kubist_types::stats::Stats;

/// The values of a zone that are numbers; infinite where a NaN hides them, `None` if there
/// are none.
fn ends(zone: Zone, data_type: &DataType) -> Option<(f64, f64)> {
    if zone.nulls == Nulls::All {
        return None;
    }
    let (first, last) = order::number_keys(data_type);
    let low = if zone.min < first { f64::NEG_INFINITY } else { order::number(data_type, zone.min) };
    let high = if zone.max > last { f64::INFINITY } else { order::number(data_type, zone.max) };
    Some((low, high))
}

/// How a zone's bounds are found, for a stored column.
fn zones_of(plan: &LogicalPlan, column: usize) -> impl Fn(&ZoneMap, usize) -> Option<(f64, f64)> + use<> {
    let schema = plan.query.snapshot.view.schema.clone();
    move |map: &ZoneMap, zone: usize| {
        let found = match map.columns.get(column) {
            Some(zones) => map.zone(zone, zones),
            None => schema.zone_of_default(column),
        };
        ends(found, schema.stored.field(column).data_type())
    }
}

/// Ends between which all values lie, without reading them; infinite ones where NaN hides
/// them, `None` if there are no values.
pub fn bounds(plan: &LogicalPlan, column: usize, deadline: Option<Instant>) -> Result<Option<(f64, f64)>> {
    let read = plan.read_plan(PriorityRange::ALL)?;
    let (zones, seen) = (zones_of(plan, column), Arc::new(Mutex::new(None::<(f64, f64)>)));
    let all = seen.clone();
    let skip = move |map: &ZoneMap, zone: usize| {
        if let Some((low, high)) = zones(map, zone) {
            let mut all = all.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            *all = Some(all.map_or((low, high), |(lowest, highest)| (lowest.min(low), highest.max(high))));
        }
        true
    };
    let work = execute::work(read, Wanted::default(), Arc::new(skip), |_| Ok(()));
    work.until(deadline).collect::<Result<Vec<()>>>()?;
    let seen = seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    Ok(*seen)
}

/// The smallest or largest value of all records, `None` if there is none, and what it cost.
/// `seen` is a value of one of them: runs and zones that cannot beat it are not read.
pub fn exact(
    plan: &LogicalPlan,
    column: usize,
    end: End,
    seen: Option<f64>,
    deadline: Option<Instant>,
) -> Result<(Option<f64>, Stats)> {
    let zones = zones_of(plan, column);
    // Of the largest the smallest opposite is sought.
    let sign = if end == End::Least { 1.0 } else { -1.0 };
    let best = Arc::new(Mutex::new(seen.map_or(f64::INFINITY, |value| sign * value)));
    let known = {
        let best = best.clone();
        move || *best.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    };
    let beaten = {
        let known = known.clone();
        move |within: Option<(f64, f64)>| {
            within.is_none_or(|(low, high)| sign * (if sign > 0.0 { low } else { high }) >= known())
        }
    };
    let data_type = plan.query.snapshot.view.schema.stored.field(column).data_type().clone();
    let read = plan.read_plan(PriorityRange::ALL)?.only(|visit| {
        let of_run = visit.run.payload.ranges.as_ref().and_then(|ranges| ranges.zone(column));
        of_run.is_none_or(|zone| !beaten(ends(zone, &data_type)))
    });
    let mut stats = plan.take_cost();
    let skip = move |map: &ZoneMap, zone: usize| beaten(zones(map, zone));
    let wanted = Wanted { columns: vec![column], priorities: false };
    let found = {
        let best = best.clone();
        execute::work(read, wanted, Arc::new(skip), move |scanned| {
            if let Some(array) = scanned.columns.first() {
                let keys = order::keys(array.as_ref()).unwrap_or_default();
                let (first, last) = order::number_keys(&data_type);
                let numbers =
                    keys.iter().enumerate().filter(|(row, key)| (first..=last).contains(*key) && array.is_valid(*row));
                let least =
                    numbers.map(|(_, key)| sign * order::number(&data_type, *key)).fold(f64::INFINITY, f64::min);
                let mut best = best.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                *best = best.min(least);
            }
            Ok(scanned.stats)
        })
    };
    for cost in found.until(deadline) {
        stats.add(&cost?);
    }
    let best = known();
    // Nothing seen and nothing found: there is no value, or only infinities.
    Ok(((best < f64::INFINITY || seen.is_some()).then_some(sign * best), stats))
}
