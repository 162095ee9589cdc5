//! Comparisons of a column with a literal as ranges of the column's values: `pid >= 2.5` is `[3, last]`, and `x < 0.1`
//! over 32-bit floats ends at the float below `0.1f32`. Ranges of numbers are closed and do not contain NaN. Rows and
//! zone maps use the same range, so they cannot disagree. To find the range, a literal gets a *position* among the
//! values of the column's type.

use crate::cell::Cell;
use crate::moment::{DAY, Moment, SECOND};
use crate::number::{Floor, Number};
use crate::syntax::Op;
use crate::value::Literal;
use arrow_buffer::i256;
use arrow_schema::{DataType, TimeUnit};
use half::f16;
use kubist_index::order::{self, Keyed, bytes_key};
use kubist_index::with_exact_primitive;
use std::ops::Bound;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Family {
    Null,
    Bool,
    /// Integers (booleans as 0 and 1) from `first` to `last`.
    Int {
        first: i128,
        last: i128,
    },
    /// Unscaled integers, to be multiplied by `10^-scale`.
    Decimal {
        first: i256,
        last: i256,
        scale: i8,
    },
    Float(Width),
    /// Dates and timestamps, in units of this many nanoseconds.
    Instant {
        unit: i128,
        first: i128,
        last: i128,
    },
    TimeOfDay {
        unit: i128,
        first: i128,
        last: i128,
    },
    Duration {
        unit: i128,
    },
    Text,
    Binary,
    /// Types without comparison: nested types, calendar intervals.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Width {
    F16,
    F32,
    F64,
}

/// One value, independent of its storage.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Point {
    Whole(i256),
    /// A number with the precision of the family; zero is positive.
    Float(f64),
    Bytes(Arc<[u8]>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Position {
    At(Point),
    /// Above this value and below the next one, if any.
    After(Point),
    Below,
    Unknown,
}

/// Consecutive values, without NaN.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Range {
    Empty,
    Whole(i256, i256),
    Float(f64, f64),
    Bytes(Bound<Arc<[u8]>>, Bound<Arc<[u8]>>),
}

/// A range in order keys: values in the range have keys in `[low, high]`, and all comparable values with keys in
/// `[sure_low, sure_high]` are in the range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span {
    pub low: u64,
    pub high: u64,
    pub sure_low: u64,
    pub sure_high: u64,
}

/// Why a literal has no position in a family; `None` if it has another kind.
pub(crate) type Mismatch = Option<String>;

pub(crate) fn value_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => value_type(values),
        other => other,
    }
}

fn nanoseconds(unit: &TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => SECOND,
        TimeUnit::Millisecond => SECOND / 1_000,
        TimeUnit::Microsecond => SECOND / 1_000_000,
        TimeUnit::Nanosecond => 1,
    }
}

impl Family {
    pub(crate) fn of(data_type: &DataType) -> Family {
        const LONG: (i128, i128) = (i64::MIN as i128, i64::MAX as i128);
        const SHORT: (i128, i128) = (i32::MIN as i128, i32::MAX as i128);
        fn int<T: Into<i128>>(first: T, last: T) -> Family {
            Family::Int { first: first.into(), last: last.into() }
        }
        fn decimal((first, last): (i128, i128), scale: i8) -> Family {
            Family::Decimal { first: i256::from_i128(first), last: i256::from_i128(last), scale }
        }
        match value_type(data_type) {
            DataType::Null => Family::Null,
            DataType::Boolean => Family::Bool,
            DataType::Int8 => int(i8::MIN, i8::MAX),
            DataType::Int16 => int(i16::MIN, i16::MAX),
            DataType::Int32 => int(i32::MIN, i32::MAX),
            DataType::Int64 => int(i64::MIN, i64::MAX),
            DataType::UInt8 => int(u8::MIN, u8::MAX),
            DataType::UInt16 => int(u16::MIN, u16::MAX),
            DataType::UInt32 => int(u32::MIN, u32::MAX),
            DataType::UInt64 => int(u64::MIN, u64::MAX),
            DataType::Float16 => Family::Float(Width::F16),
            DataType::Float32 => Family::Float(Width::F32),
            DataType::Float64 => Family::Float(Width::F64),
            // Stored values may exceed the declared precision.
            DataType::Decimal32(_, scale) => decimal(SHORT, *scale),
            DataType::Decimal64(_, scale) => decimal(LONG, *scale),
            DataType::Decimal128(_, scale) => decimal((i128::MIN, i128::MAX), *scale),
            DataType::Decimal256(_, scale) => Family::Decimal { first: i256::MIN, last: i256::MAX, scale: *scale },
            DataType::Date32 => Family::Instant { unit: DAY, first: SHORT.0, last: SHORT.1 },
            DataType::Date64 => Family::Instant { unit: SECOND / 1_000, first: LONG.0, last: LONG.1 },
            DataType::Timestamp(unit, _) => Family::Instant { unit: nanoseconds(unit), first: LONG.0, last: LONG.1 },
            DataType::Time32(unit) => Family::TimeOfDay { unit: nanoseconds(unit), first: SHORT.0, last: SHORT.1 },
            DataType::Time64(unit) => Family::TimeOfDay { unit: nanoseconds(unit), first: LONG.0, last: LONG.1 },
            DataType::Duration(unit) => Family::Duration { unit: nanoseconds(unit) },
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Family::Text,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
                Family::Binary
            }
            _ => Family::Other,
        }
    }

    fn ends(&self) -> Option<(Point, Point)> {
        let whole =
            |first: i128, last: i128| Some((Point::Whole(i256::from_i128(first)), Point::Whole(i256::from_i128(last))));
        match *self {
            Family::Bool => whole(0, 1),
            Family::Int { first, last }
            | Family::Instant { first, last, .. }
            | Family::TimeOfDay { first, last, .. } => whole(first, last),
            Family::Duration { .. } => whole(i64::MIN.into(), i64::MAX.into()),
            Family::Decimal { first, last, .. } => Some((Point::Whole(first), Point::Whole(last))),
            Family::Float(_) => Some((Point::Float(f64::NEG_INFINITY), Point::Float(f64::INFINITY))),
            Family::Text | Family::Binary | Family::Null | Family::Other => None,
        }
    }

    pub(crate) fn position(&self, literal: &Literal) -> Result<Position, Mismatch> {
        match (self, literal) {
            (Family::Other, _) => Err(None),
            (_, Literal::Null) | (Family::Null, _) => Ok(Position::Unknown),
            (Family::Bool, Literal::Bool(value)) => Ok(Position::At(Point::Whole(i256::from_i128((*value).into())))),
            (Family::Float(width), Literal::Number(number)) => Ok(position_float(*width, number)),
            (Family::Decimal { scale, .. }, Literal::Number(number)) => {
                Ok(self.position_whole(number, (*scale).into()))
            }
            (
                Family::Int { .. } | Family::Instant { .. } | Family::TimeOfDay { .. } | Family::Duration { .. },
                Literal::Number(number),
            ) => Ok(self.position_whole(number, 0)),
            (Family::Instant { .. } | Family::TimeOfDay { .. }, Literal::Text(text)) => match Moment::parse(text) {
                Some(moment) => self.position_moment(moment),
                None => Err(Some("that is no ISO 8601 date or time".to_owned())),
            },
            (Family::Instant { .. } | Family::TimeOfDay { .. }, Literal::Moment { moment, .. }) => {
                self.position_moment(*moment)
            }
            (Family::Text, Literal::Text(text)) => Ok(Position::At(Point::Bytes(text.clone().into()))),
            (Family::Binary, Literal::Binary(bytes)) => Ok(Position::At(Point::Bytes(bytes.clone()))),
            _ => Err(None),
        }
    }

    fn position_whole(&self, number: &Number, scale: i64) -> Position {
        let Some((_, last)) = self.ends() else { return Position::Unknown };
        match number {
            Number::NaN => Position::Unknown,
            Number::Infinite { negative: true } => Position::Below,
            Number::Infinite { negative: false } => Position::After(last),
            Number::Finite(decimal) => match decimal.floor(scale) {
                Floor::Below => Position::Below,
                Floor::Above => Position::After(last),
                Floor::At { floor, exact } => self.clamp(floor, exact),
            },
        }
    }

    fn position_moment(&self, moment: Moment) -> Result<Position, Mismatch> {
        let (unit, of_day) = match self {
            Family::Instant { unit, .. } => (*unit, false),
            Family::TimeOfDay { unit, .. } => (*unit, true),
            _ => return Err(None),
        };
        match (moment.of_day, of_day) {
            (true, false) => return Err(Some("that is a time of day without a date".to_owned())),
            (false, true) => return Err(Some("that is not a time of day".to_owned())),
            _ => {}
        }
        let exact = moment.nanoseconds.rem_euclid(unit) == 0 && !moment.finer;
        Ok(self.clamp(i256::from_i128(moment.nanoseconds.div_euclid(unit)), exact))
    }

    fn clamp(&self, floor: i256, exact: bool) -> Position {
        match self.ends() {
            Some((Point::Whole(first), _)) if floor < first => Position::Below,
            Some((_, Point::Whole(last))) if floor > last => Position::After(Point::Whole(last)),
            _ if exact => Position::At(Point::Whole(floor)),
            _ => Position::After(Point::Whole(floor)),
        }
    }

    /// Returns the values `v` for which `v op literal` is true, or for `<>` the range of `=`. `None` if the comparison
    /// is always unknown.
    pub(crate) fn range(&self, op: Op, position: &Position) -> Option<Range> {
        let Some((first, last)) = self.ends() else {
            return match position {
                Position::At(Point::Bytes(bytes)) => Some(byte_range(op, bytes.clone())),
                _ => None,
            };
        };
        let upto = |end: Option<Point>| end.map_or(Range::Empty, |end| Range::closed(first.clone(), end));
        let from = |start: Option<Point>| start.map_or(Range::Empty, |start| Range::closed(start, last.clone()));
        Some(match (op, position) {
            (_, Position::Unknown) => return None,
            (Op::Eq | Op::Ne, Position::At(point)) => Range::closed(point.clone(), point.clone()),
            (Op::Eq | Op::Ne, _) => Range::Empty,
            (Op::Lt | Op::Le, Position::Below) => Range::Empty,
            (Op::Lt, Position::At(point)) => upto(self.before(point)),
            (Op::Lt | Op::Le, Position::At(point) | Position::After(point)) => upto(Some(point.clone())),
            (Op::Gt | Op::Ge, Position::Below) => from(Some(first.clone())),
            (Op::Ge, Position::At(point)) => from(Some(point.clone())),
            (Op::Gt | Op::Ge, Position::At(point) | Position::After(point)) => from(self.after(point)),
        })
    }

    fn after(&self, point: &Point) -> Option<Point> {
        match (self, point) {
            (Family::Float(width), Point::Float(value)) => width.after(*value).map(Point::Float),
            (_, Point::Whole(value)) => value.checked_add(i256::ONE).map(Point::Whole),
            _ => None,
        }
    }

    fn before(&self, point: &Point) -> Option<Point> {
        match (self, point) {
            (Family::Float(width), Point::Float(value)) => width.after(-*value).map(|value| Point::Float(-value)),
            (_, Point::Whole(value)) => value.checked_sub(i256::ONE).map(Point::Whole),
            _ => None,
        }
    }
}

fn position_float(width: Width, number: &Number) -> Position {
    let exact = number.as_f64();
    let rounded = width.round(exact) + 0.0; // Turns -0.0 into 0.0.
    match number {
        Number::NaN => Position::Unknown,
        // A finite number beyond the largest float is not equal to infinity.
        Number::Finite(_) if rounded == f64::INFINITY => Position::After(Point::Float(width.greatest())),
        Number::Finite(_) if rounded == f64::NEG_INFINITY => Position::After(Point::Float(f64::NEG_INFINITY)),
        _ => Position::At(Point::Float(rounded)),
    }
}

impl Width {
    pub(crate) fn round(self, value: f64) -> f64 {
        match self {
            // Computed in software, because some processors convert through 32 bits and round twice.
            Width::F16 => f16::from_f64_const(value).to_f64(),
            Width::F32 => (value as f32).into(),
            Width::F64 => value,
        }
    }

    pub(crate) fn greatest(self) -> f64 {
        match self {
            Width::F16 => f16::MAX.to_f64(),
            Width::F32 => f32::MAX.into(),
            Width::F64 => f64::MAX,
        }
    }

    fn after(self, value: f64) -> Option<f64> {
        if value == f64::INFINITY {
            return None;
        }
        let value = value + 0.0;
        Some(match self {
            Width::F64 => value.next_up(),
            Width::F32 => (value as f32).next_up().into(),
            // One step in total order, because values here are never -0.0 or NaN.
            Width::F16 => f16::from_key(f16::from_f64(value).key() + 1).to_f64() + 0.0,
        })
    }
}

fn byte_range(op: Op, bytes: Arc<[u8]>) -> Range {
    use Bound::{Excluded, Included, Unbounded};
    match op {
        Op::Eq | Op::Ne => Range::Bytes(Included(bytes.clone()), Included(bytes)),
        Op::Lt => Range::Bytes(Unbounded, Excluded(bytes)),
        Op::Le => Range::Bytes(Unbounded, Included(bytes)),
        Op::Gt => Range::Bytes(Excluded(bytes), Unbounded),
        Op::Ge => Range::Bytes(Included(bytes), Unbounded),
    }
}

impl Range {
    fn closed(low: Point, high: Point) -> Range {
        match (low, high) {
            (Point::Whole(low), Point::Whole(high)) if low <= high => Range::Whole(low, high),
            (Point::Float(low), Point::Float(high)) if low <= high => Range::Float(low, high),
            _ => Range::Empty,
        }
    }

    pub(crate) fn prefix(prefix: &[u8]) -> Range {
        let mut next = prefix.to_vec();
        while next.last() == Some(&u8::MAX) {
            next.pop();
        }
        let end = match next.last_mut() {
            Some(last) => {
                *last += 1;
                Bound::Excluded(next.into())
            }
            None => Bound::Unbounded,
        };
        Range::Bytes(Bound::Included(prefix.into()), end)
    }

    pub(crate) fn intersect(&self, other: &Range) -> Range {
        match (self, other) {
            (Range::Whole(a, b), Range::Whole(c, d)) => Range::closed(Point::Whole(*a.max(c)), Point::Whole(*b.min(d))),
            (Range::Float(a, b), Range::Float(c, d)) => Range::closed(Point::Float(a.max(*c)), Point::Float(b.min(*d))),
            (Range::Bytes(a, b), Range::Bytes(c, d)) => {
                let (low, high) = (later(a, c), earlier(b, d));
                let empty = match (low, high) {
                    (Bound::Included(low), Bound::Included(high)) => low > high,
                    (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) => {
                        low >= high
                    }
                    _ => false,
                };
                if empty { Range::Empty } else { Range::Bytes(low.clone(), high.clone()) }
            }
            _ => Range::Empty,
        }
    }

    pub(crate) fn span(&self, data_type: &DataType) -> Option<Span> {
        match self {
            Range::Empty => None,
            Range::Bytes(low, high) => {
                let key = |bound: &Bound<Arc<[u8]>>, free: u64| match bound {
                    Bound::Included(bytes) | Bound::Excluded(bytes) => bytes_key(bytes),
                    Bound::Unbounded => free,
                };
                let (bounded_low, bounded_high) = (low != &Bound::Unbounded, high != &Bound::Unbounded);
                Some(Span::inexact(key(low, 0), key(high, u64::MAX), bounded_low, bounded_high))
            }
            Range::Whole(low, high) => {
                let exact = Span::exact(whole_key(data_type, *low), whole_key(data_type, *high));
                if order::is_exact(data_type) {
                    return Some(exact);
                }
                let ends = Family::of(data_type).ends();
                let (first, last) = ends
                    .map_or((false, false), |(first, last)| (first == Point::Whole(*low), last == Point::Whole(*high)));
                Some(Span::inexact(exact.low, exact.high, !first, !last))
            }
            Range::Float(low, high) => {
                let low = if *low == 0.0 { -0.0 } else { *low };
                let high = if *high == 0.0 { 0.0 } else { *high };
                Some(Span::exact(float_key(data_type, low), float_key(data_type, high)))
            }
        }
    }
}

impl Span {
    fn exact(low: u64, high: u64) -> Span {
        Span { low, high, sure_low: low, sure_high: high }
    }

    /// For types whose values may share a key: the keys of the bounds are not sure.
    fn inexact(low: u64, high: u64, bounded_low: bool, bounded_high: bool) -> Span {
        let sure_low = if bounded_low { low.checked_add(1) } else { Some(0) };
        let sure_high = if bounded_high { high.checked_sub(1) } else { Some(u64::MAX) };
        let (sure_low, sure_high) = sure_low.zip(sure_high).unwrap_or((u64::MAX, 0));
        Span { low, high, sure_low, sure_high }
    }
}

fn later<'a>(a: &'a Bound<Arc<[u8]>>, b: &'a Bound<Arc<[u8]>>) -> &'a Bound<Arc<[u8]>> {
    match (a, b) {
        (Bound::Unbounded, other) | (other, Bound::Unbounded) => other,
        (Bound::Included(x), Bound::Excluded(y)) if x == y => b,
        (Bound::Included(x) | Bound::Excluded(x), Bound::Included(y) | Bound::Excluded(y)) => {
            if x >= y {
                a
            } else {
                b
            }
        }
    }
}

fn earlier<'a>(a: &'a Bound<Arc<[u8]>>, b: &'a Bound<Arc<[u8]>>) -> &'a Bound<Arc<[u8]>> {
    match (a, b) {
        (Bound::Unbounded, other) | (other, Bound::Unbounded) => other,
        (Bound::Included(x), Bound::Excluded(y)) if x == y => b,
        (Bound::Included(x) | Bound::Excluded(x), Bound::Included(y) | Bound::Excluded(y)) => {
            if x <= y {
                a
            } else {
                b
            }
        }
    }
}

fn whole_key(data_type: &DataType, value: i256) -> u64 {
    let data_type = value_type(data_type);
    with_exact_primitive!(
        data_type,
        T => <T as arrow_array::ArrowPrimitiveType>::Native::from_whole(value).key(),
        _ => match data_type {
            DataType::Boolean => u64::from(value != i256::ZERO),
            // Wide decimals saturate at 64 bits, like their keys.
            _ => match value.to_i128() {
                Some(small) => small.clamp(i64::MIN.into(), i64::MAX.into()) as i64,
                None if value.is_negative() => i64::MIN,
                None => i64::MAX,
            }
            .key(),
        }
    )
}

fn float_key(data_type: &DataType, value: f64) -> u64 {
    match value_type(data_type) {
        DataType::Float16 => f16::from_f64(value).key(),
        DataType::Float32 => (value as f32).key(),
        _ => value.key(),
    }
}
