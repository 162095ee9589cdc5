//! Bounds of computed numbers over the rows of a zone, by interval arithmetic (Moore, Kearfott and Cloud,
//! "Introduction to Interval Analysis", 2009).
//!
//! Each step computes the bounds of its result from the bounds of its operands, and moves them outward by more
//! than the rounding error of the evaluation. Too wide bounds cost a read; too narrow bounds would lose rows.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::f64::consts::{FRAC_PI_2, PI};
use std::ops::Neg;
use std::sync::Arc;

use arrow_buffer::i256;
use arrow_schema::DataType;
use kubist_geometry::{healpix, sky};
use kubist_index::order;

use crate::bound::{Cast, Column, Compute, Function, Kind, Known, Step};
use crate::steps::constant;

/// Integers below this are exact as 64-bit floats.
pub(crate) const EXACT: f64 = 9_007_199_254_740_992.0;
/// Results beyond this may not fit an integer of 128 bits.
const MOST_INTEGER: f64 = 1e38;
/// Angles beyond this have too few digits after the point to determine their sine.
const MOST_ANGLE: f64 = 1e6;
/// Margin, in units of the last place, around the results of functions such as `sin`.
const LOOSE: i32 = 8;
const MOST_STEPS: u32 = 4096;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Interval {
    /// Bounds of the numbers that are not NaN; `low` exceeds `high` if there are no such numbers.
    pub low: f64,
    pub high: f64,
    /// NaN or null is possible.
    pub others: bool,
}

pub(crate) struct InZone {
    /// Bounds of the numbers' order keys, if any.
    pub keys: Option<(u64, u64)>,
    /// NaN or null is possible.
    pub others: bool,
}

impl Interval {
    const ANY: Interval = Interval { low: f64::NEG_INFINITY, high: f64::INFINITY, others: true };
    const NOTHING: Interval = Interval { low: f64::INFINITY, high: f64::NEG_INFINITY, others: false };

    fn new(low: f64, high: f64, others: bool) -> Interval {
        let low = if low.is_nan() { f64::NEG_INFINITY } else { low };
        let high = if high.is_nan() { f64::INFINITY } else { high };
        Interval { low, high, others }
    }

    fn around(ends: impl IntoIterator<Item = f64>, others: bool) -> Interval {
        let ends = ends.into_iter().map(|end| Interval::new(end, end, others));
        ends.fold(Interval { others, ..Interval::NOTHING }, Interval::hull)
    }

    pub fn is_empty(self) -> bool {
        self.low > self.high
    }

    fn has(self, number: f64) -> bool {
        self.low <= number && number <= self.high
    }

    fn is_finite(self) -> bool {
        self.low.is_finite() && self.high.is_finite()
    }

    fn hull(self, other: Interval) -> Interval {
        let others = self.others || other.others;
        Interval { low: self.low.min(other.low), high: self.high.max(other.high), others }
    }

    fn widened(self, places: i32) -> Interval {
        let (low, high) = (0..places).fold((self.low, self.high), |(low, high), _| (low.next_down(), high.next_up()));
        Interval { low, high, ..self }
    }

    fn in_kind(self, kind: Kind) -> Interval {
        if self.is_empty() {
            return self;
        }
        match kind {
            Kind::F64 => self.widened(2),
            Kind::F32 => Interval {
                low: (self.low as f32).next_down().next_down().into(),
                high: (self.high as f32).next_up().next_up().into(),
                ..self
            },
            Kind::Int if self.low.abs().max(self.high.abs()) < EXACT => self,
            Kind::Int => self.widened(2),
        }
    }

    fn converted(self, from: Kind, to: Kind) -> Interval {
        match (from, to) {
            (Kind::Int, Kind::F64) if self.low.abs().max(self.high.abs()) < EXACT => self,
            (Kind::F32, Kind::F64) => self,
            _ if from == to => self,
            _ => self.in_kind(to),
        }
    }

    fn rising(self, of: impl Fn(f64) -> f64) -> Interval {
        Interval::new(of(self.low), of(self.high), self.others)
    }

    fn in_domain(self, low: f64, high: f64) -> Interval {
        let others = self.others || self.low < low || self.high > high;
        Interval { low: self.low.max(low), high: self.high.min(high), others }
    }

    fn abs(self) -> Interval {
        let (low, high) = (self.low.abs(), self.high.abs());
        let least = if self.has(0.0) { 0.0 } else { low.min(high) };
        Interval { low: least, high: low.max(high), ..self }
    }

    fn plus(self, other: Interval) -> Interval {
        let others = self.others || other.others || !(self.is_finite() || other.is_finite());
        Interval::new(self.low + other.low, self.high + other.high, others)
    }

    fn times(self, other: Interval) -> Interval {
        let undefined = (self.has(0.0) && !other.is_finite()) || (other.has(0.0) && !self.is_finite());
        let product = |a: f64, b: f64| if a == 0.0 || b == 0.0 { 0.0 } else { a * b };
        let ends = corners(self, other).map(|(a, b)| product(a, b));
        Interval::around(ends, self.others || other.others || undefined)
    }

    pub fn times_integer(self, factor: i128) -> Interval {
        let factor = factor as f64;
        Interval { low: self.low * factor, high: self.high * factor, ..self }.in_kind(Kind::Int)
    }

    fn over(self, other: Interval) -> Interval {
        if other.has(0.0) || !other.is_finite() {
            return Interval::ANY;
        }
        let [low, high] = [other.low, other.high].map(|divisor| [self.low / divisor, self.high / divisor]);
        Interval::around(low.into_iter().chain(high), self.others || other.others)
    }

    fn to_the(self, power: Interval) -> Interval {
        if power.low != power.high || power.low == 0.0 {
            return Interval::ANY;
        }
        let (power, others) = (power.low, self.others || power.others);
        let raised = |number: f64| number.powf(power);
        let is_even = power % 2.0 == 0.0;
        if power > 0.0 && is_even {
            return Interval { others, ..self.abs().rising(raised) };
        }
        if power > 0.0 && power.fract() == 0.0 {
            return Interval { others, ..self.rising(raised) };
        }
        match power > 0.0 {
            true if self.low >= 0.0 => Interval { others, ..self.rising(raised) },
            false if self.low > 0.0 => Interval::new(raised(self.high), raised(self.low), others),
            _ => Interval::ANY,
        }
    }

    /// Returns bounds of a sine or cosine with these turning points.
    fn wave(self, of: impl Fn(f64) -> f64, maximum: f64, minimum: f64) -> Interval {
        let others = self.others || !self.is_finite();
        let whole = Interval { low: -1.0, high: 1.0, others };
        if !self.is_finite() || self.low.abs().max(self.high.abs()) > MOST_ANGLE {
            return whole;
        }
        // The turning points are not floats, so numbers around them count too.
        let turns = |at: f64| {
            let first = ((self.low - at) / (2.0 * PI) - 1e-9).ceil();
            at + 2.0 * PI * first <= self.high + 1e-8
        };
        let (one, other) = (of(self.low), of(self.high));
        let low = if turns(minimum) { -1.0 } else { one.min(other) };
        let high = if turns(maximum) { 1.0 } else { one.max(other) };
        Interval { low, high, others }
    }

    fn angle(self, x: Interval) -> Interval {
        let others = self.others || x.others;
        if self.has(0.0) && x.low <= 0.0 {
            return Interval { low: -PI, high: PI, others };
        }
        // Away from the negative axis, the extremes are at corners.
        Interval::around(corners(self, x).map(|(y, x)| y.atan2(x)), others)
    }
}

impl Neg for Interval {
    type Output = Interval;

    fn neg(self) -> Interval {
        Interval { low: -self.high, high: -self.low, ..self }
    }
}

/// The nearest float, which is monotone: a larger integer never has a smaller float.
pub(crate) fn float(whole: i256) -> f64 {
    match whole.to_i128() {
        Some(whole) => whole as f64,
        None if whole < i256::ZERO => f64::NEG_INFINITY,
        None => f64::INFINITY,
    }
}

fn corners(a: Interval, b: Interval) -> [(f64, f64); 4] {
    [(a.low, b.low), (a.low, b.high), (a.high, b.low), (a.high, b.high)]
}

pub(crate) struct Bounds<'a> {
    zone: &'a dyn Fn(&Column) -> InZone,
    steps: Cell<u32>,
    known: RefCell<HashMap<*const Compute, Interval>>,
}

impl<'a> Bounds<'a> {
    pub fn new(zone: &'a dyn Fn(&Column) -> InZone) -> Bounds<'a> {
        Bounds { zone, steps: Cell::new(0), known: RefCell::default() }
    }

    pub fn of(&self, compute: &Compute) -> Interval {
        self.steps.set(self.steps.get() + 1);
        if self.steps.get() > MOST_STEPS {
            return Interval::ANY;
        }
        match &compute.step {
            Step::Int(value) => {
                let value = Interval::new(*value as f64, *value as f64, false);
                value.in_kind(Kind::Int).converted(Kind::Int, compute.kind)
            }
            Step::Float(value) if value.is_nan() => Interval { others: true, ..Interval::NOTHING },
            Step::Float(value) => match compute.kind {
                Kind::F32 => Interval::new((*value as f32).into(), (*value as f32).into(), false),
                _ => Interval::new(*value, *value, false),
            },
            Step::Column(column) => self.column(column, compute.kind),
            Step::Known(Known(number)) => self.known(number),
            Step::Once(_, of) => self.of(of),
            Step::Call(function, operands) => self.call(compute.kind, *function, operands),
            Step::Cast(of, Cast::Float) => self.of(of).in_kind(compute.kind),
            Step::Coalesce(of) => {
                let hull = of.iter().map(|of| self.of(of)).fold(Interval::NOTHING, Interval::hull);
                Interval { others: true, ..hull.in_kind(compute.kind) }
            }
            Step::Case(whens, otherwise) => {
                let values = whens.iter().map(|(_, value)| value).chain(otherwise.as_deref());
                let hull = values.map(|value| self.of(value)).fold(Interval::NOTHING, Interval::hull);
                Interval { others: true, ..hull.in_kind(compute.kind) }
            }
            Step::Truth(_) => Interval { low: 0.0, high: 1.0, others: true },
            Step::Length(_) => Interval { low: 0.0, ..Interval::ANY },
            Step::Cast(..) => Interval::ANY,
        }
    }

    fn known(&self, number: &Arc<Compute>) -> Interval {
        let place = Arc::as_ptr(number);
        if let Some(known) = self.known.borrow().get(&place) {
            return *known;
        }
        let found = self.of(number);
        self.known.borrow_mut().insert(place, found);
        found
    }

    fn column(&self, column: &Column, kind: Kind) -> Interval {
        if !column.data_type.is_floating() && !column.data_type.is_integer() {
            return Interval::ANY;
        }
        let InZone { keys, others } = (self.zone)(column);
        let Some((low, high)) = keys else { return Interval { others, ..Interval::NOTHING } };
        // Statistics with rounded bounds may exceed the keys of a narrow type.
        let width = column.data_type.primitive_width().unwrap_or(8) as u32;
        let high = high.min(u64::MAX >> (64 - 8 * width));
        let ends = Interval::new(order::number(&column.data_type, low), order::number(&column.data_type, high), others);
        match column.data_type {
            DataType::Float64 => ends.converted(Kind::F64, kind),
            DataType::Float16 | DataType::Float32 => ends.converted(Kind::F32, kind),
            _ => ends.in_kind(Kind::Int).converted(Kind::Int, kind),
        }
    }

    fn call(&self, kind: Kind, function: Function, operands: &[Compute]) -> Interval {
        match (function, operands) {
            (Function::Separation, [a, b, c, d]) => return self.separation([a, b, c, d]),
            (Function::Healpix(order), [longitude, latitude]) => return self.cells(order, [longitude, latitude]),
            _ => {}
        }
        let of = |operand: &Compute| self.of(operand).converted(operand.kind, kind);
        let Some((first, rest)) = operands.split_first() else { return Interval::ANY };
        // Null gives null, and NaN gives NaN, except in these functions; for example, NaN to the power 0 is 1.
        let of_nothing = match (function, rest) {
            (Function::Power, [power]) if constant(power).is_none_or(|power| power == 0.0) => Interval::ANY,
            (Function::Hypot, _) => Interval::ANY,
            _ => Interval { others: true, ..Interval::NOTHING },
        };
        let mut result = of(first);
        if result.is_empty() {
            return of_nothing;
        }
        if rest.is_empty() {
            return bounded(kind, unary(function, result));
        }
        if let (Function::Multiply, [other]) = (function, rest)
            && is_same(first, other)
        {
            let square = result.abs();
            return bounded(kind, square.times(square));
        }
        for operand in rest {
            let other = of(operand);
            if other.is_empty() || result.is_empty() {
                return of_nothing;
            }
            result = bounded(kind, binary(function, result, other));
        }
        result
    }
}

impl Bounds<'_> {
    fn separation(&self, operands: [&Compute; 4]) -> Interval {
        let [a, b, c, d] = operands.map(|operand| self.of(operand).converted(operand.kind, Kind::F64));
        if [a, b, c, d].iter().any(|one| one.is_empty()) {
            return Interval { others: true, ..Interval::NOTHING };
        }
        let is_point = |one: Interval, other: Interval| one.low == one.high && other.low == other.high;
        let bounds = |x: Interval, y: Interval, to: Interval, up: Interval| {
            sky::separations([x.low, y.low], [x.high, y.high], [to.low, up.low])
        };
        let (low, high) = match (is_point(c, d), is_point(a, b)) {
            (true, _) => bounds(a, b, c, d),
            (_, true) => bounds(c, d, a, b),
            _ => (0.0, 180.0),
        };
        let is_beyond = |x: Interval, y: Interval| sky::is_beyond([x.low, y.low], [x.high, y.high]);
        let others = [a, b, c, d].iter().any(|one| one.others) || is_beyond(a, b) || is_beyond(c, d);
        let found = Interval::new(low, high, others);
        if found.is_empty() { found } else { found.widened(LOOSE) }
    }

    fn cells(&self, order: u32, operands: [&Compute; 2]) -> Interval {
        let [x, y] = operands.map(|operand| self.of(operand).converted(operand.kind, Kind::F64));
        if x.is_empty() || y.is_empty() {
            return Interval { others: true, ..Interval::NOTHING };
        }
        let (low, high) = ([x.low, y.low], [x.high, y.high]);
        let (first, last) = healpix::cells(order, low, high);
        let others = x.others || y.others || sky::is_beyond(low, high);
        Interval::new(first as f64, last as f64, others).in_kind(Kind::Int)
    }
}

/// Rounds, and removes bounds of integers that may not fit the type, for which evaluation fails.
fn bounded(kind: Kind, of: Interval) -> Interval {
    let is_too_large = kind == Kind::Int && !of.is_empty() && of.low.abs().max(of.high.abs()) > MOST_INTEGER;
    if is_too_large { Interval::ANY } else { of.in_kind(kind) }
}

fn unary(function: Function, of: Interval) -> Interval {
    match function {
        Function::Negate => -of,
        Function::Abs => of.abs(),
        Function::Floor => of.rising(f64::floor),
        Function::Ceil => of.rising(f64::ceil),
        Function::Round => of.rising(f64::round),
        Function::Sign => of.rising(|number| if number == 0.0 { 0.0 } else { number.signum() }),
        Function::Sqrt => positive(of.in_domain(0.0, f64::INFINITY), f64::sqrt),
        Function::Exp => of.rising(f64::exp).widened(LOOSE),
        Function::Ln => positive(of.in_domain(0.0, f64::INFINITY), f64::ln),
        Function::Log2 => positive(of.in_domain(0.0, f64::INFINITY), f64::log2),
        Function::Log10 => positive(of.in_domain(0.0, f64::INFINITY), f64::log10),
        Function::Sin => of.wave(f64::sin, FRAC_PI_2, -FRAC_PI_2).widened(LOOSE),
        Function::Cos => of.wave(f64::cos, 0.0, PI).widened(LOOSE),
        Function::Asin => positive(of.in_domain(-1.0, 1.0), f64::asin),
        Function::Acos => {
            let of = of.in_domain(-1.0, 1.0);
            if of.is_empty() { of } else { Interval::new(of.high.acos(), of.low.acos(), of.others).widened(LOOSE) }
        }
        Function::Atan => of.rising(f64::atan).widened(LOOSE),
        Function::Radians => of.rising(f64::to_radians).widened(LOOSE),
        Function::Degrees => of.rising(f64::to_degrees).widened(LOOSE),
        Function::Periodic(period) => {
            let (low, high) = sky::distances(of.low, of.high, period);
            Interval { low, high, others: of.others || !of.is_finite() }.widened(LOOSE)
        }
        Function::Least | Function::Greatest => of,
        _ => Interval::ANY,
    }
}

fn positive(of: Interval, function: impl Fn(f64) -> f64) -> Interval {
    if of.is_empty() { of } else { of.rising(function).widened(LOOSE) }
}

fn binary(function: Function, a: Interval, b: Interval) -> Interval {
    let others = a.others || b.others;
    match function {
        Function::Add => a.plus(b),
        Function::Subtract => a.plus(-b),
        Function::Multiply => a.times(b),
        Function::Divide => a.over(b),
        Function::Power => a.to_the(b).widened(LOOSE),
        Function::Hypot => {
            let (a, b) = (a.abs(), b.abs());
            Interval::new(a.low.hypot(b.low), a.high.hypot(b.high), others).widened(LOOSE)
        }
        Function::Atan2 => a.angle(b).widened(LOOSE),
        Function::Least => Interval { low: a.low.min(b.low), high: a.high.min(b.high), others },
        Function::Greatest => Interval { low: a.low.max(b.low), high: a.high.max(b.high), others },
        _ => Interval::ANY,
    }
}

/// Whether two expressions certainly have the same value in each row.
fn is_same(one: &Compute, other: &Compute) -> bool {
    one.kind == other.kind
        && match (&one.step, &other.step) {
            (Step::Column(a), Step::Column(b)) => a.index == b.index,
            (Step::Int(a), Step::Int(b)) => a == b,
            (Step::Float(a), Step::Float(b)) => a == b,
            (Step::Call(f, a), Step::Call(g, b)) => {
                f == g && a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
            }
            _ => false,
        }
}
