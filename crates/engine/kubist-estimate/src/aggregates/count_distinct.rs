//! The number of distinct values.
//!
//! The lower bound is the number of distinct values in the sample. Estimate and upper bound follow Charikar,
//! Chaudhuri, Motwani and Narasayya (PODS 2000). Let p be the sample fraction, `f` the number of values seen in
//! one identity, and `m` the number seen in several. The estimate is `f / sqrt(p) + m`; in the worst case no
//! estimator is better by more than a constant factor. The expectation of `f / p + m` is at least the true
//! number, and the upper bound adds the deviations of `f` and `m` to it. Values are hashed to 64 bits.

use std::collections::HashMap;

use kubist_expr::column_index;
use kubist_index::priority::is_identity_type;
use kubist_population::Number;

use crate::aggregate::{
    Accumulator, Aggregate, AggregateValue, Bound, Definition, Pilot, Properties, Records, Rows, same,
};
use crate::call::Call;
use crate::distribution::normal;
use crate::interval::{Conditions, Interval};

pub const DEFINITION: Definition = Definition {
    listed: "count_distinct",
    documented: [
        "`count_distinct(x)`",
        "distinct values; nulls are not counted, NaN is one value",
        "from the numbers of values seen once and repeatedly; wide",
    ],
    is_named: |name| name == "count_distinct",
    bind: |call: &Call| {
        call.takes(1..=1, "one argument")?;
        of(call.arguments[0], call)
    },
};

pub fn of(name: &str, call: &Call) -> Result<Bound, String> {
    let fields = call.schema.fields();
    let plain = name.strip_prefix('"').and_then(|name| name.strip_suffix('"')).unwrap_or(name);
    let column = column_index(call.schema, plain).map_err(|error| error.to_string())?;
    let field = &fields[column];
    match is_identity_type(field.data_type()) {
        true => Ok(Bound { column: Some(column), ..Bound::new(vec![], CountDistinct) }),
        false => Err(format!("column {plain:?} is of type {}, whose values cannot be compared", field.data_type())),
    }
}

#[derive(Clone, Debug)]
struct CountDistinct;

impl Aggregate for CountDistinct {
    fn properties(&self) -> Properties {
        Properties { uses_number_of_records: true, ..Properties::default() }
    }

    fn accumulator(&self, _pilot: &Pilot) -> Box<dyn Accumulator> {
        Box::new(Distinct::default())
    }
}

/// Marks values that several identities have, or records that were not drawn by chance.
const SEVERAL: u64 = u64::MAX;

const MOST_VALUES: usize = 1 << 23;

#[derive(Clone, Debug, Default)]
struct Distinct {
    /// By hash of the value: the priority of its only identity, or `SEVERAL`.
    seen: HashMap<u64, u64>,
}

impl Distinct {
    fn add_hashes(&mut self, hashes: &[u64], rows: impl Iterator<Item = usize>, priorities: Option<&[u64]>) {
        rows.for_each(|row| self.put(hashes[row], priorities.map_or(SEVERAL, |priorities| priorities[row])));
    }

    fn put(&mut self, hash: u64, identity: u64) {
        let first = *self.seen.entry(hash).or_insert(identity);
        if first != identity {
            self.seen.insert(hash, SEVERAL);
        }
    }

    fn values(&self) -> usize {
        self.seen.len()
    }

    fn estimate(&self, p: f64, alpha: f64, rows: f64) -> (f64, f64, f64) {
        let seen = self.seen.len() as f64;
        if p >= 1.0 {
            return (seen, seen, seen);
        }
        let once = self.seen.values().filter(|identity| **identity != SEVERAL).count() as f64;
        let several = seen - once;
        let z = normal(alpha);
        let most = (once + z * (once + 1.0).sqrt() + z * z) / p + several + z * several.sqrt();
        let most = most.min(rows.max(seen));
        ((once / p.sqrt() + several).clamp(seen, most), seen, most)
    }
}

impl Accumulator for Distinct {
    fn add(&mut self, records: &Records, rows: Rows, priorities: Option<&[u64]>) {
        if let Some((hashes, array)) = records.distinct {
            self.add_hashes(hashes, rows.filter(|row| array.is_valid(*row)), priorities);
        }
    }

    fn merge(&mut self, other: Box<dyn Accumulator>) {
        same::<Distinct>(other).seen.into_iter().for_each(|(hash, identity)| self.put(hash, identity));
    }

    fn hollow(&self) -> Box<dyn Accumulator> {
        Box::new(Distinct::default())
    }

    fn figures(&mut self, conditions: &Conditions) -> Vec<AggregateValue> {
        let most = |number: Number| number.rows + normal(conditions.alpha) * number.error;
        let rows = conditions.rows.map_or(f64::INFINITY, most);
        let (value, low, high) = self.estimate(conditions.p, conditions.alpha, rows);
        AggregateValue::new(Interval { value: Some(value), low, high, ..Interval::unknown() }, self.values() as f64)
    }

    fn fullness(&self) -> f64 {
        self.values() as f64 / MOST_VALUES as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn the_truth_lies_between_the_ends() {
        let mut random = SmallRng::seed_from_u64(5);
        for (values, skewed) in [(50u64, false), (3000, false), (100_000, false), (20_000, true)] {
            for p in [0.01, 0.1, 0.5] {
                let (mut distinct, mut all) = (Distinct::default(), Distinct::default());
                let rows = 200_000;
                for row in 0..rows {
                    let u: f64 = random.random();
                    let value = if skewed { (u.powi(4) * values as f64) as u64 } else { (u * values as f64) as u64 };
                    all.put(value, row);
                    if random.random::<f64>() < p {
                        distinct.put(value, row);
                    }
                }
                let truth = all.values() as f64;
                let (value, low, high) = distinct.estimate(p, 0.05, rows as f64);
                assert!(low <= truth && truth <= high && (low..=high).contains(&value), "{low} {truth} {high}");
                assert_eq!(all.estimate(1.0, 0.05, rows as f64), (truth, truth, truth));
            }
        }
    }

    #[test]
    fn records_of_one_identity_are_one_sighting() {
        let mut distinct = Distinct::default();
        distinct.add_hashes(&[7, 7, 7, 8, 8], 0..5, Some(&[1, 1, 1, 1, 2]));
        let (_, low, high) = distinct.estimate(0.5, 0.05, 1e9);
        assert_eq!(low, 2.0);
        assert!(high > 4.0);
    }
}
