//! Aggregates that are smooth functions of totals, each the sum of a feature over all records.
//!
//! They share one accumulator. Each aggregate defines its features, and its value with the gradient, which
//! gives the linear combination of totals with the same variance (delta method, or Taylor linearization:
//! Särndal, Swensson and Wretman, Model Assisted Survey Sampling, 1992, chapter 5).

use std::fmt::Debug;

use crate::aggregate::{Accumulator, Aggregate, AggregateValue, Pilot, Properties, Records, Rows, Shift, same};
use crate::interval::{Conditions, Interval};
use crate::sums::Sums;

pub trait Smooth: Clone + Debug + Send + Sync + 'static {
    const WIDTH: usize;

    const LEAST: f64 = f64::NEG_INFINITY;

    fn properties(&self) -> Properties;

    /// `WIDTH` features per record; the first one counts records. A shift of each argument keeps squares
    /// small.
    fn features(&self, values: &Complete, shifts: &[Shift]) -> Vec<Vec<f64>>;

    fn interval(&self, sums: &Sums, shifts: &[Shift], conditions: &Conditions) -> Interval;
}

/// Values by argument and record. A record has features only if all its arguments have values.
pub struct Complete<'a> {
    values: &'a [&'a [f64]],
    present: Vec<f64>,
}

impl<'a> Complete<'a> {
    pub fn new(values: &'a [&'a [f64]], rows: usize) -> Complete<'a> {
        let mut present = vec![1.0; rows];
        for values in values {
            let missing = present.iter_mut().zip(*values);
            missing.for_each(|(present, value)| *present = if value.is_nan() { 0.0 } else { *present });
        }
        Complete { values, present }
    }

    pub fn rows(&self) -> usize {
        self.present.len()
    }

    /// 1 for each record that has all arguments, otherwise 0.
    pub fn present(&self) -> Vec<f64> {
        self.present.clone()
    }

    pub fn of(&self, feature: impl Fn(f64) -> f64) -> Vec<f64> {
        let values = self.values[0].iter().zip(&self.present);
        values.map(|(x, present)| if *present == 0.0 { 0.0 } else { feature(*x) }).collect()
    }

    pub fn of_both(&self, feature: impl Fn(f64, f64) -> f64) -> Vec<f64> {
        let pairs = self.values[0].iter().zip(self.values[1]).zip(&self.present);
        pairs.map(|((x, y), present)| if *present == 0.0 { 0.0 } else { feature(*x, *y) }).collect()
    }
}

impl<S: Smooth> Aggregate for S {
    fn properties(&self) -> Properties {
        Properties { takes_certain: true, ..Smooth::properties(self) }
    }

    fn features(&self, values: &[&[f64]], shifts: &[Shift], rows: usize) -> Option<Vec<Vec<f64>>> {
        Some(Smooth::features(self, &Complete::new(values, rows), shifts))
    }

    fn accumulator(&self, pilot: &Pilot) -> Box<dyn Accumulator> {
        Box::new(Totals {
            function: self.clone(),
            shifts: pilot.shifts.to_vec(),
            sums: Sums::new(S::WIDTH, pilot.groups),
        })
    }
}

#[derive(Debug)]
struct Totals<S> {
    function: S,
    shifts: Vec<Shift>,
    sums: Sums,
}

impl<S: Smooth> Accumulator for Totals<S> {
    fn add(&mut self, records: &Records, rows: Rows, priorities: Option<&[u64]>) {
        let priorities = priorities.expect("records of the certainty stratum come as totals");
        self.sums.add(&records.features, rows, priorities);
    }

    fn add_totals(&mut self, totals: &[f64]) {
        self.sums.add_totals(totals);
    }

    fn merge(&mut self, other: Box<dyn Accumulator>) {
        self.sums.merge(same::<Totals<S>>(other).sums);
    }

    fn hollow(&self) -> Box<dyn Accumulator> {
        Box::new(Totals { function: self.function.clone(), shifts: self.shifts.clone(), sums: self.sums.hollow() })
    }

    fn figures(&mut self, conditions: &Conditions) -> Vec<AggregateValue> {
        let sums = conditions.corrected(&self.sums);
        let found = self.function.interval(&sums, &self.shifts, conditions);
        // Only zone maps bound the records outside a constant sample.
        let interval = match found.constant && !Smooth::properties(&self.function).alike_asks_zones {
            true => Interval { low: S::LEAST, high: f64::INFINITY, ..found },
            false => found,
        };
        AggregateValue::new(interval, self.sums.records())
    }

    fn numbers(&self) -> usize {
        self.sums.numbers()
    }
}
