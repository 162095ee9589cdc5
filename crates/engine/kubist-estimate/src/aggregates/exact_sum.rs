//! Exact sums of integers, which are the result when all records are read.

use arrow_buffer::i256;

use crate::aggregate::{Accumulator, AggregateValue, Records, Rows, same};
use crate::interval::{Conditions, Interval};

#[derive(Debug)]
pub struct ExactSum {
    estimated: Box<dyn Accumulator>,
    /// 256 bits cannot overflow for any number of rows.
    total: i256,
    /// Number of units in 1; converts integers to values.
    divisor: f64,
}

impl ExactSum {
    pub fn new(estimated: Box<dyn Accumulator>, divisor: f64) -> ExactSum {
        ExactSum { estimated, total: i256::ZERO, divisor }
    }
}

impl Accumulator for ExactSum {
    fn add(&mut self, records: &Records, rows: Rows, priorities: Option<&[u64]>) {
        let rows: Vec<usize> = rows.collect();
        self.add_wholes(records, Rows::Some(rows.iter()));
        self.estimated.add(records, Rows::Some(rows.iter()), priorities);
    }

    fn add_totals(&mut self, totals: &[f64]) {
        self.estimated.add_totals(totals);
    }

    fn add_wholes(&mut self, records: &Records, rows: Rows) {
        let Some(wholes) = records.wholes else { return };
        let mut part = 0i128;
        for value in rows.filter_map(|row| wholes.get(row)) {
            part = part.checked_add(value).unwrap_or_else(|| {
                self.total = self.total.wrapping_add(i256::from_i128(part));
                value
            });
        }
        self.total = self.total.wrapping_add(i256::from_i128(part));
    }

    fn merge(&mut self, other: Box<dyn Accumulator>) {
        let other = same::<ExactSum>(other);
        self.total = self.total.wrapping_add(other.total);
        self.estimated.merge(other.estimated);
    }

    fn hollow(&self) -> Box<dyn Accumulator> {
        Box::new(ExactSum::new(self.estimated.hollow(), self.divisor))
    }

    fn figures(&mut self, conditions: &Conditions) -> Vec<AggregateValue> {
        let estimated = self.estimated.figures(conditions);
        if conditions.p < 1.0 {
            return estimated;
        }
        let value = self.total.to_string().parse().unwrap_or(f64::NAN) / self.divisor;
        let records = estimated.first().map_or(0.0, |found| found.records);
        AggregateValue::exactly(Interval::exact(value), [Some(self.total); 3], records)
    }

    fn numbers(&self) -> usize {
        self.estimated.numbers()
    }
}
