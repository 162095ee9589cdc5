//! What an aggregate is: how it is written, what it adds up of each record, and which figures
//! with which intervals follow from that.
//!
//! Each aggregate has a file in `aggregates/` with all of this and its row of the
//! documentation. Nothing outside that file knows it by name: the others ask for its
//! [`Properties`].

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

/// How an aggregate is written and documented: one entry of the table of aggregates.
pub struct Definition {
    /// Its calls as messages list them, between commas.
    pub listed: &'static str,
    /// Its row in docs/estimates.md: calls, of what they are, and where the interval comes from.
    pub documented: [&'static str; 3],
    /// Whether this is a name of it; the name is in lower case.
    pub is_named: fn(&str) -> bool,
    /// Understands a call by one of its names, or says what is wrong with it.
    pub bind: fn(&Call) -> Result<Bound, String>,
}

/// An aggregate bound to the columns of a table.
#[derive(Debug)]
pub struct Bound {
    pub aggregate: Box<dyn Aggregate>,
    pub properties: Properties,
    pub arguments: Vec<Expression>,
    /// The asked column whose values are told apart, instead of arguments.
    pub column: Option<usize>,
    /// The type in which it is exact, where that is no float.
    pub own: Option<DataType>,
    /// It takes the whole numbers of its first argument, which has them.
    pub takes_wholes: bool,
    /// Its unit, where no rule gives it.
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

    /// The same, exact in this type.
    pub fn exact_in(self, own: DataType) -> Bound {
        Bound { own: Some(own), ..self }
    }

    /// The same, which is exact in the type `own` by the whole numbers of its first argument.
    pub fn of_wholes(self, own: DataType) -> Bound {
        Bound { own: Some(own), takes_wholes: true, ..self }
    }
}

/// What others must know of an aggregate. By default it has none of these.
#[derive(Clone, Copy, Debug, Default)]
pub struct Properties {
    /// Its interval leans on the bell curve of large samples: few records, skewed values and
    /// values that are all alike are warned of, and tails of its arguments can be read apart.
    pub bell_curve: bool,
    /// It is exact or narrower where the number of records is known.
    pub uses_number_of_records: bool,
    /// It is the number of records.
    pub is_number_of_records: bool,
    /// It is the number of records in which its argument, a column, has a value.
    pub is_number_of_values: bool,
    /// It follows from the number of records alone, and is exact where that is known.
    pub follows_from_number_of_records: bool,
    /// It lies between the smallest and the largest value of its first argument.
    pub lies_among_values: bool,
    /// Where all values that were drawn are alike its interval has no width, until zone maps
    /// say how far the others may lie.
    pub alike_asks_zones: bool,
    /// It is the smallest or largest value: zone maps find it, and no sample narrows it.
    pub end: Option<End>,
    /// It is a histogram: zone maps know how far its outer bins reach.
    pub outer_bins: bool,
    /// Nothing bounds it until all is read.
    pub unbounded: bool,
    /// Some of the records that it adds up may be there for certain, and the others by chance.
    pub takes_certain: bool,
    /// It follows from what writers say of all records of steps that they thinned.
    pub total: Option<Total>,
    /// In which unit it is.
    pub unit: UnitRule,
}

/// What it is of the values of its argument, a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Total {
    Sum,
    Mean,
}

/// A bound aggregate: what it adds up, and in which accumulator.
///
/// Functions of totals implement [`crate::totals::Smooth`] instead.
pub trait Aggregate: Debug + Send + Sync {
    fn properties(&self) -> Properties;

    /// What is added up of each record, computed from the values of its arguments beside `shifts`;
    /// `None` for the values of the arguments themselves.
    fn features(&self, _values: &[&[f64]], _shifts: &[Shift], _rows: usize) -> Option<Vec<Vec<f64>>> {
        None
    }

    /// An accumulator that holds nothing yet.
    fn accumulator(&self, pilot: &Pilot) -> Box<dyn Accumulator>;
}

/// Beside which number values are added up, and how much smaller than they are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// Near the mean, so that squares of what is left stay small.
    pub by: f64,
    /// What values are multiplied by: 1, or the power of two for which squares of extreme values are numbers.
    pub scale: f64,
}

impl Shift {
    pub const NONE: Shift = Shift { by: 0.0, scale: 1.0 };

    /// Of values of which this one is the largest in size.
    pub fn new(by: f64, largest: f64) -> Shift {
        // Fourth powers of such values, and sums of these, are numbers.
        const PLAIN: std::ops::RangeInclusive<i32> = -100..=100;
        let power = if largest > 0.0 { largest.min(f64::MAX).log2().floor() as i32 } else { 0 };
        let scale = if PLAIN.contains(&power) { 1.0 } else { 2f64.powi(-power.clamp(-1000, 1000)) };
        Shift { by, scale }
    }

    /// What is added up of a value.
    pub fn of(&self, value: f64) -> f64 {
        value * self.scale - self.by * self.scale
    }

    /// A value itself, as large as it is added up.
    pub fn scaled(&self, value: f64) -> f64 {
        value * self.scale
    }

    /// From what was added up to values.
    pub fn back(&self) -> f64 {
        1.0 / self.scale
    }
}

/// What a pilot says of one aggregate's arguments.
#[derive(Clone, Copy, Debug)]
pub struct Pilot<'a> {
    /// By argument.
    pub shifts: &'a [Shift],
    /// By argument: the smallest and the largest finite value, if there is one.
    pub ends: &'a [Option<(f64, f64)>],
    /// By argument: the smallest finite value above 0, if there is one.
    pub positive: &'a [Option<f64>],
    /// Records of one identity come together.
    pub clustered: bool,
    /// Random groups of identities that spreads are measured between; a power of two.
    pub groups: usize,
}

/// What an accumulator is given of some records.
pub struct Records<'a> {
    /// The aggregate's features, each a column.
    pub features: Vec<&'a [f64]>,
    /// The whole numbers of the first argument, for aggregates that take them.
    pub wholes: Option<&'a Wholes>,
    /// Hashes of the values of the column that is told apart, and the column itself.
    pub distinct: Option<(&'a [u64], &'a dyn Array)>,
}

/// Which records of a batch belong to a group.
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

/// What is kept of the records of one group for one aggregate. Parts are filled side by side
/// and merged.
pub trait Accumulator: Any + Debug + Send + Sync {
    /// Adds records: drawn by chance where `priorities` are given, there for certain otherwise.
    fn add(&mut self, records: &Records, rows: Rows, priorities: Option<&[u64]>);

    /// Adds what another one of the same aggregate holds; see [`same`].
    fn merge(&mut self, other: Box<dyn Accumulator>);

    /// For more of the same, with nothing in it.
    fn hollow(&self) -> Box<dyn Accumulator>;

    fn figures(&mut self, conditions: &Conditions) -> Vec<Found>;

    /// What must be said of its figures: why there is none, or what bins leave out.
    fn remark(&self, _conditions: &Conditions) -> Option<String> {
        None
    }

    /// Lets go of what no answer needs, as one of `groups`; what was added must be a sample of
    /// all.
    fn thin(&mut self, _groups: usize) {}

    /// Keeps every value, until it is thinned.
    fn keeps_all(&self) -> bool {
        false
    }

    /// How many numbers it holds, as far as that is known beforehand.
    fn numbers(&self) -> usize {
        0
    }

    /// How many figures it gives.
    fn size(&self) -> usize {
        1
    }

    /// The part that it holds of what all accumulators of its aggregate may hold.
    fn fullness(&self) -> f64 {
        0.0
    }
}

/// The accumulator to merge, as its own type.
pub fn same<A: Accumulator>(other: Box<dyn Accumulator>) -> A {
    let other: Box<dyn Any> = other;
    *other.downcast().expect("accumulators of one aggregate are of one type")
}

/// A value with its interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Of a histogram: the ends of the bin in each direction.
    pub bin: Vec<(f64, f64)>,
    pub interval: Interval,
    /// The value and its ends in the aggregate's own type, as far as they are known in it.
    pub own: Option<[Option<i256>; 3]>,
    /// Records that it comes from.
    pub records: f64,
}

impl Found {
    pub fn new(interval: Interval, records: f64) -> Vec<Found> {
        vec![Found { bin: vec![], interval, own: None, records }]
    }

    /// The same with a value and ends in the aggregate's own type.
    pub fn exactly(interval: Interval, own: [Option<i256>; 3], records: f64) -> Vec<Found> {
        vec![Found { bin: vec![], interval, own: Some(own), records }]
    }
}
