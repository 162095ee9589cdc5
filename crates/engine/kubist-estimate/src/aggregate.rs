//! The interface of aggregates: parsing, features per record, accumulation, and figures with intervals.
//!
//! Each aggregate has one file in `aggregates/`, with its documentation. Other code never names an aggregate;
//! it uses its [`Properties`].

use std::any::Any;
use std::fmt::Debug;

use arrow_array::Array;
use arrow_buffer::i256;
use arrow_schema::DataType;
use kubist_expr::{Expression, Wholes};
use kubist_population::seek::End;

use crate::call::Call;
use crate::interval::{Conditions, Interval};
use crate::unit::UnitRule;

pub struct Definition {
    /// Its calls in error messages, separated by commas.
    pub listed: &'static str,
    /// Its row in docs/estimates.md: calls, meaning, source of the interval.
    pub documented: [&'static str; 3],
    /// True for its names, in lower case.
    pub is_named: fn(&str) -> bool,
    pub bind: fn(&Call) -> Result<Bound, String>,
}

/// An aggregate bound to the columns of a table.
#[derive(Debug)]
pub struct Bound {
    pub aggregate: Box<dyn Aggregate>,
    pub properties: Properties,
    pub arguments: Vec<Expression>,
    /// The column whose distinct values are counted, instead of arguments.
    pub column: Option<usize>,
    /// The exact type, if it is not a float.
    pub own: Option<DataType>,
    /// It uses the exact integers of its first argument.
    pub takes_wholes: bool,
    /// The unit, if no rule gives it.
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

    /// Makes it exact in the type `own`, by the integers of its first argument.
    pub fn of_wholes(self, own: DataType) -> Bound {
        Bound { own: Some(own), takes_wholes: true, ..self }
    }
}

/// Properties of an aggregate that the estimation uses; all off by default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Properties {
    /// Its interval assumes a normal distribution: few records, skewed values and constant samples cause
    /// warnings, and tails can be read separately.
    pub bell_curve: bool,
    /// A known number of records makes it exact or narrower.
    pub uses_number_of_records: bool,
    pub is_number_of_records: bool,
    /// It is the number of records in which its argument, a column, has a value.
    pub is_number_of_values: bool,
    /// It is a function of the number of records alone.
    pub follows_from_number_of_records: bool,
    /// It lies between the minimum and the maximum of its first argument.
    pub lies_among_values: bool,
    /// If all sampled values are equal, zone maps bound the others.
    pub alike_asks_zones: bool,
    /// It is a minimum or maximum; zone maps find it.
    pub end: Option<End>,
    /// It is a histogram; zone maps bound its outer bins.
    pub outer_bins: bool,
    /// It has no bounds until all records were read.
    pub unbounded: bool,
    pub takes_certain: bool,
    /// Totals of subsampled steps give it exactly.
    pub total: Option<Total>,
    pub unit: UnitRule,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Total {
    Sum,
    Mean,
}

/// A bound aggregate.
///
/// Functions of totals implement [`crate::totals::Smooth`] instead.
pub trait Aggregate: Debug + Send + Sync {
    fn properties(&self) -> Properties;

    /// The features per record, computed from argument values and shifts; `None` if the values themselves
    /// are accumulated.
    fn features(&self, _values: &[&[f64]], _shifts: &[Shift], _rows: usize) -> Option<Vec<Vec<f64>>> {
        None
    }

    fn accumulator(&self, pilot: &Pilot) -> Box<dyn Accumulator>;
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// Near the mean, so that squares of differences stay small.
    pub by: f64,
    /// 1, or a power of two that keeps squares of extreme values finite.
    pub scale: f64,
}

impl Shift {
    pub const NONE: Shift = Shift { by: 0.0, scale: 1.0 };

    pub fn new(by: f64, largest: f64) -> Shift {
        // The range of exponents for which sums of fourth powers are finite and normal.
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
    /// By argument: the smallest and the largest finite value.
    pub ends: &'a [Option<(f64, f64)>],
    /// By argument: the smallest finite value above 0.
    pub positive: &'a [Option<f64>],
    pub clustered: bool,
    /// The number of random groups for variances; a power of two.
    pub groups: usize,
}

pub struct Records<'a> {
    /// The aggregate's features, by column.
    pub features: Vec<&'a [f64]>,
    /// The exact integers of the first argument, if the aggregate uses them.
    pub wholes: Option<&'a Wholes>,
    /// Hashes of the values to count as distinct, and their column.
    pub distinct: Option<(&'a [u64], &'a dyn Array)>,
}

/// The rows of a batch that belong to a group.
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

/// The accumulated state of a group and aggregate. Parallel tasks fill parts, which are merged.
pub trait Accumulator: Any + Debug + Send + Sync {
    /// Adds sampled records if `priorities` are given, otherwise records of the certainty stratum, which come by
    /// [`Accumulator::add_totals`] if the aggregate has features.
    fn add(&mut self, records: &Records, rows: Rows, priorities: Option<&[u64]>);

    /// Adds totals of the aggregate's features over records of the certainty stratum. Only for aggregates with
    /// [`Aggregate::features`].
    fn add_totals(&mut self, _totals: &[f64]) {
        unreachable!("the aggregate has no features")
    }

    /// Adds the content of another accumulator of the same aggregate; see [`same`].
    fn merge(&mut self, other: Box<dyn Accumulator>);

    fn hollow(&self) -> Box<dyn Accumulator>;

    fn figures(&mut self, conditions: &Conditions) -> Vec<Found>;

    /// A warning about its figures: why one is missing, or what bins leave out.
    fn remark(&self, _conditions: &Conditions) -> Option<String> {
        None
    }

    /// Discards values that no result needs, with `groups` groups in total. The values must be a sample of
    /// all records.
    fn thin(&mut self, _groups: usize) {}

    /// True if it keeps every value until it is thinned.
    fn keeps_all(&self) -> bool {
        false
    }

    /// The number of stored numbers, if known in advance.
    fn numbers(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    /// Its fraction of the memory limit of all accumulators of the aggregate.
    fn fullness(&self) -> f64 {
        0.0
    }
}

pub fn same<A: Accumulator>(other: Box<dyn Accumulator>) -> A {
    let other: Box<dyn Any> = other;
    *other.downcast().expect("accumulators of one aggregate are of one type")
}

#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// For a histogram, the ends of the bin in each dimension.
    pub bin: Vec<(f64, f64)>,
    pub interval: Interval,
    /// Value and ends in the exact type, if known.
    pub own: Option<[Option<i256>; 3]>,
    /// The number of records that it was computed from.
    pub records: f64,
}

impl Found {
    pub fn new(interval: Interval, records: f64) -> Vec<Found> {
        vec![Found { bin: vec![], interval, own: None, records }]
    }

    pub fn exactly(interval: Interval, own: [Option<i256>; 3], records: f64) -> Vec<Found> {
        vec![Found { bin: vec![], interval, own: Some(own), records }]
    }
}
