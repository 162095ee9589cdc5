//! The bound form of an expression: names are columns with known types, and literals are converted to these types.
//!
//! `bind` creates it from the syntax tree. `evaluate` computes it for each row, and `zone` for the minimum and maximum
//! of many rows. A [`Test`] is true, false or unknown (as NULL in SQL), a [`Compute`] is a number, and a [`Text`] is a
//! string.
//!
//! The form grows linearly with the expression's text. An operand of several comparisons (in `IN`, `BETWEEN`, `CASE`)
//! is stored and computed once: `Once` computes it first, and [`Known`] refers to the result.

use crate::domain::{Point, Range, Span};
use crate::like::Pattern;
use crate::number::BinWidth;
use crate::syntax::Op;
use crate::unit::Unit;
use arrow_buffer::i256;
use arrow_schema::DataType;
use kubist_geometry::Shape;
use kubist_index::gradual::{self, Steps, Stop};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub index: usize,
    pub name: String,
    /// For a dictionary column, the type of its values.
    pub data_type: DataType,
    /// The lowest and highest order key (`kubist_index::order`) that the type allows, without NaN.
    pub numbers: (u64, u64),
    pub unit: Option<Arc<Unit>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Int,
    F32,
    F64,
}

#[derive(Clone, Debug)]
pub(crate) struct Compute {
    pub kind: Kind,
    /// The type of a date, a time or a cast; `None` for plain numbers.
    pub stored: Option<DataType>,
    pub unit: Option<Arc<Unit>>,
    pub step: Step,
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Column(Arc<Column>),
    Int(i128),
    Float(f64),
    Call(Function, Vec<Compute>),
    /// 1 if the test is true, 0 if false, null if unknown.
    Truth(Box<Test>),
    /// The value of the first true test, else the last value, else null.
    Case(Vec<(Test, Compute)>, Option<Box<Compute>>),
    Cast(Box<Compute>, Cast),
    Coalesce(Vec<Compute>),
    Length(Box<Text>),
    /// Computes the first number, and then the second one, which refers to the first by [`Step::Known`].
    Once(Arc<Compute>, Box<Compute>),
    Known(Known),
}

/// The result of a number that an enclosing `Once` computed. The `Arc` pointer identifies it.
#[derive(Clone)]
pub(crate) struct Known(pub Arc<Compute>);

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Known")
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cast {
    /// Rounds to the nearest float of the kind.
    Float,
    /// Rounds to the nearest integer from `first` to `last`, ties to even.
    Whole { first: i128, last: i128 },
    /// Multiplies unscaled decimals by `multiplier`, divides by `divisor`, and rounds to nearest, ties to even.
    Decimal { multiplier: i128, divisor: i128, first: i128, last: i128 },
    /// Multiplies integers by `multiplier`, divides by `divisor`, and rounds down.
    Scaled { multiplier: i128, divisor: i128, first: i128, last: i128 },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Period {
    /// Periods of `length` from `offset` on, both in units of the column.
    Units { length: i128, offset: i128 },
    /// Periods of `months` calendar months; `day` is the length of a day in units of the column.
    Months { months: i128, day: i128 },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Function {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Power,
    Negate,
    Abs,
    Sqrt,
    Floor,
    Ceil,
    Round,
    Sign,
    Exp,
    Ln,
    Log2,
    Log10,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Atan2,
    Hypot,
    /// Degrees between two positions on the sky; the operands are the longitude and latitude of both.
    Separation,
    /// The HEALPix cell of this order.
    Healpix(u32),
    /// The distance to the nearest multiple of this period.
    Periodic(f64),
    Radians,
    Degrees,
    Least,
    Greatest,
    RoundTo(i32),
    Bin(BinWidth),
    Truncate(Period),
    /// A field of a date or time; the number is the unit of its values in nanoseconds.
    Part(Part, i128),
    /// Adds calendar months and then units; `day` is the length of a day in units.
    Shift {
        months: i128,
        units: i128,
        day: i128,
    },
    BitAnd,
    BitOr,
    BitXor,
    BitNot,
    ShiftLeft,
    ShiftRight,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Part {
    Century,
    Decade,
    Year,
    Quarter,
    Month,
    /// The week of [`Part::IsoYear`]: the first one contains 4 January.
    Week,
    IsoYear,
    Day,
    DayOfYear,
    /// Counts from 0 for Sunday.
    DayOfWeek,
    /// Counts from 1 for Monday.
    IsoDayOfWeek,
    Hour,
    Minute,
    Second,
    /// This and the next two count since the beginning of the minute.
    Millisecond,
    Microsecond,
    Nanosecond,
}

/// For each row, the text of the first true test.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    /// A number that is computed once before the tests; they refer to it by [`Known`].
    pub known: Option<Arc<Compute>>,
    pub whens: Vec<(Test, Text)>,
    pub otherwise: Text,
}

#[derive(Clone, Debug)]
pub(crate) enum Text {
    Null,
    Literal(Arc<str>),
    Column(Arc<Column>),
    Choice(Box<Choice>),
    Call(Arc<TextCall>),
}

#[derive(Clone, Debug)]
pub(crate) struct TextCall {
    pub function: TextFunction,
    pub operands: Vec<Text>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum TextFunction {
    Upper,
    Lower,
    /// `length` characters from position `start`, which counts from 1, or from the end if negative.
    Substring {
        start: i64,
        length: Option<i64>,
    },
    Coalesce,
    NullIf,
}

#[derive(Clone, Debug)]
pub(crate) enum Operand {
    Column(Arc<Column>),
    Compute(Compute),
    Text(Arc<TextCall>),
}

/// Sorted distinct values of the same type.
#[derive(Clone, Debug)]
pub(crate) struct Points {
    pub points: PointList,
    /// The values as order keys, if the operand is a column.
    pub spans: Vec<Span>,
}

#[derive(Clone, Debug)]
pub(crate) enum PointList {
    Whole(Vec<i256>),
    Float(Vec<f64>),
    Bytes(Vec<Arc<[u8]>>),
}

#[derive(Clone, Debug)]
pub(crate) enum Sides {
    /// Integers, each multiplied by its factor, to compare times in different units.
    Int {
        left: Compute,
        left_factor: i128,
        right: Compute,
        right_factor: i128,
    },
    Float {
        left: Compute,
        right: Compute,
    },
    /// Decimals, each multiplied by a power of ten, to compare different scales.
    Wide {
        left: Arc<Column>,
        left_factor: i256,
        right: Arc<Column>,
        right_factor: i256,
    },
    Bytes {
        left: Arc<Column>,
        right: Arc<Column>,
    },
    Texts {
        left: Text,
        right: Text,
    },
}

#[derive(Clone, Debug)]
pub(crate) enum Test {
    /// `None` is unknown.
    Constant(Option<bool>),
    /// True for values in the range and unknown for null and NaN; `span` is the range in the column's order keys.
    Within {
        operand: Operand,
        range: Range,
        span: Option<Span>,
    },
    /// True for values in the list; other values are false, or unknown if `null` is set (the list contains null).
    Among {
        operand: Operand,
        points: Arc<Points>,
        null: bool,
    },
    /// `span`: the order keys of the texts that start with the pattern's fixed prefix.
    Like {
        operand: Operand,
        pattern: Arc<Pattern>,
        span: Option<Span>,
    },
    Compare {
        op: Op,
        sides: Box<Sides>,
    },
    /// True for points inside the shape; unknown if a coordinate is null or the position is invalid.
    InShape {
        shape: Arc<Shape>,
        point: Box<[Compute; 2]>,
    },
    IsNull(Operand),
    IsNan(Operand),
    /// `span`: the order keys of the finite numbers.
    IsFinite {
        operand: Operand,
        span: Option<Span>,
    },
    /// Whether the test has this value: true, false or unknown (`None`).
    IsTruth(Box<Test>, Option<bool>),
    /// `IN` over tests: true if another test has the same value as the first. Unknown if the first test is unknown, or
    /// if no test equals it and at least one is unknown.
    Same(Box<Test>, Vec<Test>),
    /// Computes the number, and then the test, which refers to it by [`Step::Known`].
    Once(Arc<Compute>, Box<Test>),
    Not(Box<Test>),
    And(Vec<Test>),
    Or(Vec<Test>),
}

impl Operand {
    /// Number of tests and steps, which `bind` limits.
    pub(crate) fn size(&self) -> usize {
        match self {
            Operand::Column(_) => 1,
            Operand::Compute(compute) => compute.size(),
            Operand::Text(call) => call.size(),
        }
    }

    pub(crate) fn unit(&self) -> Option<&Arc<Unit>> {
        match self {
            Operand::Column(column) => column.unit.as_ref(),
            Operand::Compute(compute) => compute.unit.as_ref(),
            Operand::Text(_) => None,
        }
    }

    pub(crate) fn column(&self) -> Option<&Arc<Column>> {
        match self {
            Operand::Column(column) => Some(column),
            Operand::Compute(_) | Operand::Text(_) => None,
        }
    }

    pub(crate) fn each_column(&self, visit: &mut dyn FnMut(&Column)) {
        match self {
            Operand::Column(column) => visit(column),
            Operand::Compute(compute) => compute.each_column(visit),
            Operand::Text(call) => call.each_column(visit),
        }
    }
}

#[derive(Clone, Copy)]
struct Ordered(f64);

impl Ord for Ordered {
    fn cmp(&self, other: &Ordered) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Ordered) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ordered {
    fn eq(&self, other: &Ordered) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ordered {}

fn sorted_once<'a, T: Copy + Ord, S: Stop>(
    values: &'a mut Vec<T>,
    stop: &S,
) -> Result<impl Iterator<Item = T> + use<'a, T, S>, S::Stopped> {
    gradual::sort(values, stop)?;
    values.dedup();
    Ok(values.drain(..))
}

impl PointList {
    /// Sorts values of the same type and removes duplicates.
    ///
    /// # Errors
    ///
    /// `Stopped` if the work was cancelled.
    pub(crate) fn new<S: Stop>(points: Vec<Point>, stop: &S) -> Result<PointList, S::Stopped> {
        let (mut whole, mut floats, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
        let mut steps = Steps::new(stop);
        for point in points {
            steps.step(1)?;
            match point {
                Point::Whole(value) => whole.push(value),
                Point::Float(value) => floats.push(Ordered(value)),
                Point::Bytes(value) => bytes.push(value),
            }
        }
        Ok(if !bytes.is_empty() {
            let mut order: Vec<&Arc<[u8]>> = bytes.iter().collect();
            PointList::Bytes(sorted_once(&mut order, stop)?.cloned().collect())
        } else if !floats.is_empty() {
            PointList::Float(sorted_once(&mut floats, stop)?.map(|value| value.0).collect())
        } else {
            PointList::Whole(sorted_once(&mut whole, stop)?.collect())
        })
    }

    pub(crate) fn ranges(&self) -> Vec<Range> {
        use std::ops::Bound::Included;
        match self {
            PointList::Whole(points) => points.iter().map(|p| Range::Whole(*p, *p)).collect(),
            PointList::Float(points) => points.iter().map(|p| Range::Float(*p, *p)).collect(),
            PointList::Bytes(points) => {
                points.iter().map(|p| Range::Bytes(Included(p.clone()), Included(p.clone()))).collect()
            }
        }
    }
}

impl Test {
    /// Combines tests by AND, and intersects ranges of the same column.
    pub(crate) fn all(tests: Vec<Test>) -> Test {
        let mut kept: Vec<Test> = Vec::new();
        let mut ranged: HashMap<usize, usize> = HashMap::new();
        let mut pending: Vec<Test> = tests.into_iter().rev().collect();
        while let Some(test) = pending.pop() {
            match test {
                Test::Constant(Some(true)) => {}
                Test::And(inner) => pending.extend(inner.into_iter().rev()),
                Test::Within { operand: Operand::Column(column), range, span } => {
                    let twin = ranged.get(&column.index).and_then(|range| kept.get_mut(*range));
                    if let Some(Test::Within { range: other, span: other_span, .. }) = twin {
                        *other = other.intersect(&range);
                        *other_span = other.span(&column.data_type);
                    } else {
                        ranged.insert(column.index, kept.len());
                        kept.push(Test::Within { operand: Operand::Column(column), range, span });
                    }
                }
                other => kept.push(other),
            }
        }
        match kept.len() {
            0 => Test::Constant(Some(true)),
            1 => kept.swap_remove(0),
            _ => Test::And(kept),
        }
    }

    pub(crate) fn size(&self) -> usize {
        1 + match self {
            Test::Constant(_) => 0,
            Test::Within { operand, .. }
            | Test::Like { operand, .. }
            | Test::Among { operand, .. }
            | Test::IsFinite { operand, .. }
            | Test::IsNull(operand)
            | Test::IsNan(operand) => operand.size(),
            Test::Compare { sides, .. } => match &**sides {
                Sides::Int { left, right, .. } | Sides::Float { left, right } => left.size() + right.size(),
                Sides::Wide { .. } | Sides::Bytes { .. } => 2,
                Sides::Texts { left, right } => left.size() + right.size(),
            },
            Test::InShape { point, .. } => point.iter().map(Compute::size).sum(),
            Test::IsTruth(test, _) | Test::Not(test) => test.size(),
            Test::Same(one, others) => one.size() + others.iter().map(Test::size).sum::<usize>(),
            Test::Once(compute, test) => compute.size() + test.size(),
            Test::And(tests) | Test::Or(tests) => tests.iter().map(Test::size).sum(),
        }
    }

    pub(crate) fn each_column(&self, visit: &mut dyn FnMut(&Column)) {
        match self {
            Test::Constant(_) => {}
            Test::Within { operand, .. }
            | Test::Among { operand, .. }
            | Test::IsFinite { operand, .. }
            | Test::IsNull(operand)
            | Test::Like { operand, .. }
            | Test::IsNan(operand) => operand.each_column(visit),
            Test::Compare { sides, .. } => match &**sides {
                Sides::Int { left, right, .. } | Sides::Float { left, right } => {
                    left.each_column(visit);
                    right.each_column(visit);
                }
                Sides::Wide { left, right, .. } | Sides::Bytes { left, right } => {
                    visit(left);
                    visit(right);
                }
                Sides::Texts { left, right } => {
                    left.each_column(visit);
                    right.each_column(visit);
                }
            },
            Test::InShape { point, .. } => point.iter().for_each(|of| of.each_column(visit)),
            Test::IsTruth(test, _) | Test::Not(test) => test.each_column(visit),
            Test::Same(one, others) => {
                one.each_column(visit);
                others.iter().for_each(|test| test.each_column(visit));
            }
            Test::Once(compute, test) => {
                compute.each_column(visit);
                test.each_column(visit);
            }
            Test::And(tests) | Test::Or(tests) => tests.iter().for_each(|test| test.each_column(visit)),
        }
    }
}

impl Compute {
    pub(crate) fn new(kind: Kind, step: Step) -> Compute {
        Compute { kind, stored: None, unit: None, step }
    }

    pub(crate) fn size(&self) -> usize {
        1 + match &self.step {
            Step::Call(_, operands) => operands.iter().map(Compute::size).sum(),
            Step::Truth(test) => test.size(),
            Step::Case(whens, otherwise) => {
                let whens = whens.iter().map(|(test, value)| test.size() + value.size());
                whens.chain(otherwise.iter().map(|value| value.size())).sum()
            }
            Step::Cast(of, _) => of.size(),
            Step::Coalesce(of) => of.iter().map(Compute::size).sum(),
            Step::Length(text) => text.size(),
            Step::Once(number, of) => number.size() + of.size(),
            Step::Column(_) | Step::Int(_) | Step::Float(_) | Step::Known(_) => 0,
        }
    }

    pub(crate) fn each_column(&self, visit: &mut dyn FnMut(&Column)) {
        match &self.step {
            Step::Column(column) => visit(column),
            Step::Call(_, operands) => operands.iter().for_each(|operand| operand.each_column(visit)),
            Step::Truth(test) => test.each_column(visit),
            Step::Case(whens, otherwise) => {
                for (test, value) in whens {
                    test.each_column(visit);
                    value.each_column(visit);
                }
                otherwise.iter().for_each(|value| value.each_column(visit));
            }
            Step::Cast(of, _) => of.each_column(visit),
            Step::Coalesce(of) => of.iter().for_each(|of| of.each_column(visit)),
            Step::Length(text) => text.each_column(visit),
            Step::Once(number, of) => {
                number.each_column(visit);
                of.each_column(visit);
            }
            Step::Int(_) | Step::Float(_) | Step::Known(_) => {}
        }
    }
}

impl Text {
    pub(crate) fn size(&self) -> usize {
        match self {
            Text::Choice(choice) => choice.size(),
            Text::Call(call) => call.size(),
            Text::Null | Text::Literal(_) | Text::Column(_) => 1,
        }
    }

    pub(crate) fn each_column(&self, visit: &mut dyn FnMut(&Column)) {
        match self {
            Text::Column(column) => visit(column),
            Text::Choice(choice) => choice.each_column(visit),
            Text::Call(call) => call.each_column(visit),
            Text::Null | Text::Literal(_) => {}
        }
    }
}

impl TextCall {
    pub(crate) fn size(&self) -> usize {
        1 + self.operands.iter().map(Text::size).sum::<usize>()
    }

    pub(crate) fn each_column(&self, visit: &mut dyn FnMut(&Column)) {
        self.operands.iter().for_each(|operand| operand.each_column(visit));
    }
}

impl Choice {
    pub(crate) fn size(&self) -> usize {
        let known = self.known.as_ref().map_or(0, |number| number.size());
        1 + known
            + self.otherwise.size()
            + self.whens.iter().map(|(test, then)| test.size() + then.size()).sum::<usize>()
    }

    pub(crate) fn each_column(&self, visit: &mut dyn FnMut(&Column)) {
        self.known.iter().for_each(|number| number.each_column(visit));
        self.whens.iter().for_each(|(test, _)| test.each_column(visit));
        self.whens.iter().map(|(_, text)| text).chain([&self.otherwise]).for_each(|text| text.each_column(visit));
    }
}
