//! The interface of aggregates. Each aggregate is one file in `aggregates/`, with its documentation. Other code
//! never names an aggregate; it uses the [`Properties`].

use std::any::Any;
use std::fmt::Debug;

use arrow_array::Array;
use arrow_buffer::i256;
use arrow_schema::DataType;
use kubist_expr::{Expression, Wholes};
use kubist_population::seek::Extremum;

use crate::call::Call;
use crate::interval::{Conditions, Interval};
use crate::unit::UnitRule;

pub struct Definition {
    pub listed: &'static str,
    /// The aggregate's row in docs/estimates.md: calls, meaning, source of the interval.
    pub documented: [&'static str; 3],
    pub is_named: fn(&str) -> bool,
    pub bind: fn(&Call) -> Result<Bound, String>,
}

#[derive(Debug)]
pub struct Bound {
    pub aggregate: Box<dyn Aggregate>,
    pub properties: Properties,
    pub arguments: Vec<Expression>,
    /// The column whose distinct values are counted, if the aggregate has no arguments.
    pub column: Option<usize>,
    /// The exact type of the result, if it is not a float.
    pub own: Option<DataType>,
    pub takes_wholes: bool,
    /// The unit of the result, if no rule gives it.
    pub unit: Option<String>,
}

impl Bound {
    pub fn new(arguments: Vec<Expression>, aggregate: impl Aggregate + 'static) -> Bound {
        Bound {
            properties: aggregate.properties(),
            aggregate: Box::new(aggregate),
            arguments,
            column: None,
            own: None,
            takes_wholes: false,
            unit: None,
        }
    }

    pub fn exact_in(self, own: DataType) -> Bound {
        Bound { own: Some(own), ..self }
    }

    /// Makes the result exact, computed from the integers of the first argument.
    pub fn of_wholes(self, own: DataType) -> Bound {
        Bound { own: Some(own), takes_wholes: true, ..self }
    }
}

/// What other code must know about an aggregate. All properties are off by default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Properties {
    /// The interval assumes a normal distribution. Few records, skewed values and constant samples therefore
    /// cause warnings, and tails can be read separately.
    pub bell_curve: bool,
    /// A known number of records makes the aggregate exact, or its interval narrower.
    pub uses_number_of_records: bool,
    pub is_number_of_records: bool,
    /// The aggregate is the number of records with a value in its argument, a column.
    pub is_number_of_values: bool,
    pub follows_from_number_of_records: bool,
    /// The result is between the minimum and maximum of the first argument.
    pub lies_among_values: bool,
    /// If all sampled values are equal, zone maps bound the others.
    pub alike_asks_zones: bool,
    pub extremum: Option<Extremum>,
    pub outer_bins: bool,
    /// The interval has no bounds until all records are read.
    pub unbounded: bool,
    pub takes_certain: bool,
    /// The total of subsampled steps that gives the exact result, if any.
    pub total: Option<Total>,
    pub unit: UnitRule,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Total {
    Sum,
    Mean,
}

/// An aggregate. Functions of totals implement [`crate::totals::Smooth`] instead.
pub trait Aggregate: Debug + Send + Sync {
    fn properties(&self) -> Properties;

    /// Computes features from argument values and shifts; `None` if the values themselves are accumulated.
    fn features(&self, _values: &[&[f64]], _shifts: &[Shift], _rows: usize) -> Option<Vec<Vec<f64>>> {
        None
    }

    fn accumulator(&self, pilot: &Pilot) -> Box<dyn Accumulator>;
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// A number near the mean, so that squares of differences from it stay small.
    pub by: f64,
    /// A power of two that keeps squares of extreme values finite.
    pub scale: f64,
}

impl Shift {
    pub const NONE: Shift = Shift { by: 0.0, scale: 1.0 };

    pub fn new(by: f64, largest: f64) -> Shift {
        // For exponents in this range, sums of fourth powers are finite and normal.
        const PLAIN: std::ops::RangeInclusive<i32> = -100..=100;
        let power = if largest > 0.0 { largest.min(f64::MAX).log2().floor() as i32 } else { 0 };
        let scale = if PLAIN.contains(&power) { 1.0 } else { 2f64.powi(-power.clamp(-1000, 1000)) };
        Shift { by, scale }
    }

    pub fn of(&self, value: f64) -> f64 {
        value * self.scale - self.by * self.scale
    }

    pub fn scaled(&self, value: f64) -> f64 {
        value * self.scale
    }

    /// The factor from scaled numbers back to values.
    pub fn back(&self) -> f64 {
        1.0 / self.scale
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Pilot<'a> {
    pub shifts: &'a [Shift],
    /// By argument: bounds of the finite values.
    pub ends: &'a [Option<(f64, f64)>],
    /// By argument: the smallest finite value above 0.
    pub positive: &'a [Option<f64>],
    pub clustered: bool,
    /// The number of random groups, a power of two.
    pub groups: usize,
}

pub struct Records<'a> {
    pub features: Vec<&'a [f64]>,
    pub wholes: Option<&'a Wholes>,
    /// Hashes of the values, and their column.
    pub distinct: Option<(&'a [u64], &'a dyn Array)>,
}

pub enum Rows<'a> {
    All(std::ops::Range<usize>),
    Some(std::slice::Iter<'a, usize>),
}

impl Iterator for Rows<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        match self {
            Rows::All(range) => range.next(),
            Rows::Some(rows) => rows.next().copied(),
        }
    }
}

/// The state of a group and aggregate. Parallel tasks fill parts, which are then merged.
pub trait Accumulator: Any + Debug + Send + Sync {
    /// Adds sampled records if `priorities` are given, otherwise records of the certainty stratum. If the
    /// aggregate has features, [`Accumulator::add_totals`] adds that stratum.
    fn add(&mut self, records: &Records, rows: Rows, priorities: Option<&[u64]>);

    /// Adds totals of the aggregate's features over records of the certainty stratum. Only for aggregates with
    /// [`Aggregate::features`].
    fn add_totals(&mut self, _totals: &[f64]) {
        unreachable!("the aggregate has no features")
    }

    /// Adds the integers of records whose totals were added.
    fn add_wholes(&mut self, _records: &Records, _rows: Rows) {}

    /// Adds the content of another accumulator of the same aggregate; see [`same`].
    fn merge(&mut self, other: Box<dyn Accumulator>);

    fn hollow(&self) -> Box<dyn Accumulator>;

    fn figures(&mut self, conditions: &Conditions) -> Vec<AggregateValue>;

    /// A remark for the user: why a figure is missing, or which values are in no bin.
    fn remark(&self, _conditions: &Conditions) -> Option<String> {
        None
    }

    /// Discards values that no result needs, with `groups` groups in total. The values must be a sample of
    /// all records.
    fn thin(&mut self, _groups: usize) {}

    fn keeps_all(&self) -> bool {
        false
    }

    fn numbers(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    /// The used fraction of the aggregate's memory limit.
    fn fullness(&self) -> f64 {
        0.0
    }
}

pub fn same<A: Accumulator>(other: Box<dyn Accumulator>) -> A {
    let other: Box<dyn Any> = other;
    *other.downcast().expect("accumulators of one aggregate are of one type")
}

#[derive(Clone, Debug, PartialEq)]
pub struct AggregateValue {
    /// For a histogram: the edges of the bin in each dimension.
    pub bin: Vec<(f64, f64)>,
    pub interval: Interval,
    /// Value, lower and upper bound in the exact type, if known.
    pub own: Option<[Option<i256>; 3]>,
    pub records: f64,
}

impl AggregateValue {
    pub fn new(interval: Interval, records: f64) -> Vec<AggregateValue> {
        vec![AggregateValue { bin: vec![], interval, own: None, records }]
    }

    pub fn exactly(interval: Interval, own: [Option<i256>; 3], records: f64) -> Vec<AggregateValue> {
        vec![AggregateValue { bin: vec![], interval, own: Some(own), records }]
    }
}
