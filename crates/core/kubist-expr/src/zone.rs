//! Decisions of a predicate from the statistics of a zone, before rows are read.
//!
//! For every test, three bits say whether it can be true, false or unknown for some row. `NOT` only swaps two bits.
//! Everything else is conservative: an unnecessary bit costs a read, but no bit is missing.

use crate::bound::{Column, Operand, PointList, Sides, Test};
use crate::domain::{Range, Span};
use crate::interval::{Bounds, EXACT, InZone, Interval, float};
use crate::syntax::Op;
use kubist_geometry::Containment;

/// Statistics of a column in a zone. A wider range and `Nulls::Some` are always valid too. A column without order
/// keys or statistics has the range from 0 to `u64::MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// The lowest order key of the rows that are not null, NaN included. Undefined if all rows are null.
    pub min: u64,
    /// The highest order key, likewise.
    pub max: u64,
    pub nulls: Nulls,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nulls {
    /// No row is null.
    None,
    /// Some rows may be null.
    Some,
    /// Every row is null.
    All,
}

/// The rows of a zone that a predicate selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Certainly no row: skip the zone.
    None,
    /// Possibly some rows: read and evaluate.
    Some,
    /// Certainly every row: read without evaluating.
    All,
}

/// The truth values that rows of a zone can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Answers {
    yes: bool,
    no: bool,
    unknown: bool,
}

const ANY: Answers = Answers { yes: true, no: true, unknown: true };

pub(crate) fn verdict(test: &Test, zone: &dyn Fn(usize) -> Zone) -> Verdict {
    let in_zone = |column: &Column| {
        let Numbers { keys, nan, nulls } = Numbers::of(column, zone);
        InZone { keys, others: nan || nulls != Nulls::None }
    };
    match answers(test, &Statistics { zone, bounds: Bounds::new(&in_zone) }) {
        Answers { yes: false, .. } => Verdict::None,
        Answers { no: false, unknown: false, .. } => Verdict::All,
        _ => Verdict::Some,
    }
}

struct Numbers {
    keys: Option<(u64, u64)>,
    nan: bool,
    nulls: Nulls,
}

impl Numbers {
    fn of(column: &Column, zone: &dyn Fn(usize) -> Zone) -> Numbers {
        let Zone { min, max, nulls } = zone(column.index);
        let (least, greatest) = column.numbers;
        if nulls == Nulls::All {
            return Numbers { keys: None, nan: false, nulls };
        }
        // Contradictory statistics are ignored.
        let (min, max) = if min <= max { (min, max) } else { (0, u64::MAX) };
        let (low, high) = (min.max(least), max.min(greatest));
        Numbers { keys: (low <= high).then_some((low, high)), nan: min < least || max > greatest, nulls }
    }

    fn within(&self, span: Option<&Span>) -> Answers {
        let unknown = self.nan || self.nulls != Nulls::None;
        let Some((low, high)) = self.keys else { return Answers { yes: false, no: false, unknown } };
        let Some(span) = span else { return Answers { yes: false, no: true, unknown } };
        Answers { yes: low <= span.high && span.low <= high, no: low < span.sure_low || high > span.sure_high, unknown }
    }
}

impl Interval {
    fn within(self, range: &Range) -> Answers {
        let (low, high) = match range {
            Range::Float(low, high) => (*low, *high),
            Range::Whole(low, high) => (float(*low), float(*high)),
            Range::Empty => (f64::INFINITY, f64::NEG_INFINITY),
            Range::Bytes(..) => return ANY,
        };
        if self.is_empty() {
            return Answers { yes: false, no: false, unknown: self.others };
        }
        let yes = low <= high && self.low <= high && low <= self.high;
        // A large integer is rounded, so a number that equals the float may be outside.
        let is_rounded = |end: f64| end.is_finite() && end.abs() >= EXACT;
        let is_at = |end: f64| is_rounded(end) && (self.low == end || self.high == end);
        let no = self.low < low || self.high > high || is_at(low) || is_at(high);
        Answers { yes, no, unknown: self.others }
    }

    fn meets(self, points: &PointList) -> bool {
        match points {
            PointList::Whole(points) => {
                let next = points.get(points.partition_point(|point| float(*point) < self.low));
                next.is_some_and(|point| float(*point) <= self.high)
            }
            PointList::Float(points) => {
                let next = points.get(points.partition_point(|point| *point < self.low));
                next.is_some_and(|point| *point <= self.high)
            }
            PointList::Bytes(_) => true,
        }
    }

    fn compared(self, op: Op, other: Interval) -> Answers {
        let unknown = self.others || other.others;
        if self.is_empty() || other.is_empty() {
            return Answers { yes: false, no: false, unknown };
        }
        let (below, above) = (self.high < other.low, self.low > other.high);
        let (never_above, never_below) = (self.high <= other.low, self.low >= other.high);
        let is_one = never_above && never_below;
        let (yes, no) = match op {
            Op::Lt => (!never_below, !below),
            Op::Le => (!above, !never_above),
            Op::Gt => (!never_above, !above),
            Op::Ge => (!below, !never_below),
            Op::Eq => (!below && !above, !is_one),
            Op::Ne => (!is_one, !below && !above),
        };
        Answers { yes, no, unknown }
    }
}

struct Statistics<'a> {
    zone: &'a dyn Fn(usize) -> Zone,
    bounds: Bounds<'a>,
}

fn answers(test: &Test, zone: &Statistics<'_>) -> Answers {
    let numbers = |operand: &Operand| operand.column().map(|column| Numbers::of(column, zone.zone));
    let computed = |operand: &Operand| match operand {
        Operand::Compute(compute) => Some(zone.bounds.of(compute)),
        _ => None,
    };
    match test {
        Test::Constant(answer) => {
            Answers { yes: *answer == Some(true), no: *answer == Some(false), unknown: answer.is_none() }
        }
        Test::Within { operand, range, span } => match (numbers(operand), computed(operand)) {
            (Some(numbers), _) => numbers.within(span.as_ref()),
            (_, Some(interval)) => interval.within(range),
            _ => ANY,
        },
        Test::Among { operand, points, null } => match (numbers(operand), computed(operand)) {
            (Some(numbers), _) => among(&numbers, &points.spans, *null),
            (_, Some(interval)) => Answers { yes: interval.meets(&points.points), ..ANY },
            _ => ANY,
        },
        Test::Like { operand, span, .. } => match (numbers(operand), span) {
            (Some(numbers), Some(_)) => Answers { no: numbers.keys.is_some(), ..numbers.within(span.as_ref()) },
            _ => ANY,
        },
        Test::IsNull(operand) => match numbers(operand) {
            Some(numbers) => {
                Answers { yes: numbers.nulls != Nulls::None, no: numbers.nulls != Nulls::All, unknown: false }
            }
            None => Answers { unknown: false, ..ANY },
        },
        Test::IsNan(operand) => match numbers(operand) {
            Some(numbers) => {
                Answers { yes: numbers.nan, no: numbers.keys.is_some(), unknown: numbers.nulls != Nulls::None }
            }
            None => ANY,
        },
        Test::IsFinite { operand, span } => match numbers(operand) {
            Some(numbers) => {
                let finite = numbers.within(span.as_ref());
                Answers { no: finite.no || numbers.nan, unknown: numbers.nulls != Nulls::None, ..finite }
            }
            None => ANY,
        },
        Test::Compare { op, sides } => match &**sides {
            Sides::Float { left, right } => zone.bounds.of(left).compared(*op, zone.bounds.of(right)),
            Sides::Int { left, left_factor, right, right_factor } => {
                let of = |side, factor: i128| zone.bounds.of(side).times_integer(factor);
                of(left, *left_factor).compared(*op, of(right, *right_factor))
            }
            _ => ANY,
        },
        Test::InShape { shape, point } => {
            let [x, y] = [0, 1].map(|axis| zone.bounds.of(&point[axis]));
            let unknown = x.others || y.others;
            if x.is_empty() || y.is_empty() {
                return Answers { yes: false, no: false, unknown: true };
            }
            let (low, high) = ([x.low, y.low], [x.high, y.high]);
            let containment = shape.containment(low, high);
            Answers {
                yes: containment != Containment::Outside,
                no: containment != Containment::Inside,
                unknown: unknown || shape.is_beyond(low, high),
            }
        }
        Test::IsTruth(test, truth) => {
            let Answers { yes, no, unknown } = answers(test, zone);
            let (yes, no) = match truth {
                Some(true) => (yes, no || unknown),
                Some(false) => (no, yes || unknown),
                None => (unknown, yes || no),
            };
            Answers { yes, no, unknown: false }
        }
        Test::Same(one, others) => {
            let a = answers(one, zone);
            any(others.iter().map(|other| {
                let b = answers(other, zone);
                Answers {
                    yes: (a.yes && b.yes) || (a.no && b.no),
                    no: (a.yes && b.no) || (a.no && b.yes),
                    unknown: a.unknown || b.unknown,
                }
            }))
        }
        Test::Once(_, test) => answers(test, zone),
        Test::Not(test) => {
            let inner = answers(test, zone);
            Answers { yes: inner.no, no: inner.yes, unknown: inner.unknown }
        }
        Test::And(tests) => {
            let mut all = Answers { yes: true, no: false, unknown: false };
            for test in tests {
                let next = answers(test, zone);
                all.unknown = (all.unknown && (next.yes || next.unknown)) || (next.unknown && all.yes);
                all.yes &= next.yes;
                all.no |= next.no;
            }
            all
        }
        Test::Or(tests) => any(tests.iter().map(|test| answers(test, zone))),
    }
}

fn any(parts: impl Iterator<Item = Answers>) -> Answers {
    let mut any = Answers { yes: false, no: true, unknown: false };
    for next in parts {
        any.unknown = (any.unknown && (next.no || next.unknown)) || (next.unknown && any.no);
        any.no &= next.no;
        any.yes |= next.yes;
    }
    any
}

/// The condition on one column: ascending ranges of its order keys.
#[derive(Clone, Copy, Debug)]
pub struct KeyRanges<'a> {
    pub column: usize,
    pub numbers: (u64, u64),
    spans: &'a [Span],
}

/// Some row of the zone may be in a range.
pub const SOME_INSIDE: u8 = 1;
/// All rows of the zone are in a range.
pub const ALL_INSIDE: u8 = 2;

impl<'a> KeyRanges<'a> {
    pub(crate) fn of(test: &'a Test) -> Option<KeyRanges<'a>> {
        let (Operand::Column(column), spans) = (match test {
            Test::Within { operand, span: Some(span), .. } => (operand, std::slice::from_ref(span)),
            // With a null in the list, a row outside may be unknown instead of false. Neither is selected.
            Test::Among { operand, points, .. } => (operand, &points.spans[..]),
            _ => return None,
        }) else {
            return None;
        };
        Some(KeyRanges { column: column.index, numbers: column.numbers, spans })
    }

    /// Clears [`SOME_INSIDE`] and [`ALL_INSIDE`] of the zones for which they are false. `min` and `max` are the
    /// lowest and highest keys per zone, which contains only numbers.
    pub fn narrow(&self, min: &[u64], max: &[u64], zones: &mut [u8]) {
        let fits = zones.iter_mut().zip(min.iter().zip(max));
        match self.spans {
            [span] => fits.for_each(|(fit, (min, max))| *fit &= inside(span, *min, *max)),
            spans => fits.for_each(|(fit, (min, max))| {
                let first = spans.partition_point(|span| span.high < *min);
                *fit &= spans.get(first).map_or(0, |span| inside(span, *min, *max));
            }),
        }
    }
}

#[inline(always)]
fn inside(span: &Span, min: u64, max: u64) -> u8 {
    let some = min <= span.high && max >= span.low;
    let all = min >= span.sure_low && max <= span.sure_high;
    some as u8 | (all as u8) << 1
}

/// Requires ascending `spans`.
fn among(numbers: &Numbers, spans: &[Span], null: bool) -> Answers {
    let unknown = numbers.nan || numbers.nulls != Nulls::None;
    let Some((low, high)) = numbers.keys else { return Answers { yes: false, no: false, unknown } };
    let first = spans.partition_point(|span| span.high < low);
    let Some(span) = spans.get(first).filter(|span| span.low <= high) else {
        return Answers { yes: false, no: !null, unknown: unknown || null };
    };
    let miss = low < span.sure_low || high > span.sure_high;
    Answers { yes: true, no: miss && !null, unknown: unknown || (miss && null) }
}
