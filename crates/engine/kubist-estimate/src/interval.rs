//! Values and their intervals.
//!
//! Ends are those of Student's t with as many degrees of freedom as there are random groups
//! with records, less one, or less three where sums are corrected by what was expected, bent by skewness; some aggregates are treated on another
//! scale, variances on a logarithmic one and correlations on Fisher's. Where records of one
//! identity come together samples may be of few identities, however many records they have:
//! then the degrees of freedom are those of the error's own spread.

use std::borrow::Cow;

use kubist_population::Number;

use crate::control::Control;
use crate::distribution::student;
use crate::sums::{Spread, Sums};

/// An interval is trusted while the estimate's distribution is no more skewed than this:
/// Cochran's rule, n > 25 G^2 for records of skewness G (Sampling Techniques, 1977, 2.15).
const MOST_SKEWNESS: f64 = 0.2;
/// With fewer degrees of freedom the error itself may well be off by a quarter.
const LEAST_DEGREES: f64 = 10.0;

/// A value and the ends of its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub value: Option<f64>,
    pub low: f64,
    pub high: f64,
    /// Of the estimate's distribution.
    pub skewness: f64,
    /// A few identities decide it, so that it may hold the truth less often than it says.
    pub decided_by_few: bool,
    /// About how many identities it comes from, where that matters to it.
    pub identities: f64,
    /// All records that were drawn are alike, so that the sample knows no spread.
    pub constant: bool,
}

/// What an interval depends on besides what was added up.
#[derive(Clone, Copy, Debug)]
pub struct Conditions<'a> {
    /// The share of identities that were drawn.
    pub p: f64,
    pub alpha: f64,
    /// How many records there are, where that is known.
    pub rows: Option<Number>,
    /// The frame in which they lie, where only that is known.
    pub frame: Option<Frame<'a>>,
    /// Records of one identity come together.
    pub clustered: bool,
    /// Some records are there for certain.
    pub stratified: bool,
    /// What was expected of the records that were drawn.
    pub control: Option<Control<'a>>,
}

impl Conditions<'_> {
    /// Sums, corrected by what was expected.
    pub fn corrected<'a>(&self, sums: &'a Sums) -> Cow<'a, Sums> {
        let corrected = self.control.as_ref().and_then(|control| sums.corrected(self.p, control));
        corrected.map_or(Cow::Borrowed(sums), Cow::Owned)
    }
}

/// Records of known number, among which those that are asked for are some: the records of a
/// box, of which a condition or a group has its part.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    pub rows: Number,
    /// How many of them were drawn.
    pub drawn: &'a Sums,
    /// The same, corrected by what was expected.
    pub corrected: &'a Sums,
}

impl<'a> Frame<'a> {
    /// How many were drawn, for a ratio with some of these.
    pub fn drawn_with(&self, sums: &Sums) -> &'a Sums {
        if sums.is_corrected() { self.corrected } else { self.drawn }
    }
}

impl Interval {
    pub fn unknown() -> Interval {
        let (low, high) = (f64::NEG_INFINITY, f64::INFINITY);
        Interval { value: None, low, high, ..Interval::exact(0.0) }
    }

    pub fn exact(value: f64) -> Interval {
        Interval {
            value: Some(value),
            low: value,
            high: value,
            skewness: 0.0,
            decided_by_few: false,
            identities: f64::INFINITY,
            constant: false,
        }
    }

    /// The value, and to either side what the spread says: Student's interval, bent by the
    /// skewness of the estimate (Hall, JRSS B 54, 1992: the cubic transformation).
    pub fn around(value: f64, spread: Spread, conditions: &Conditions) -> Interval {
        let Spread { identities, .. } = spread;
        let (error, skewness) = spread.whole();
        if !value.is_finite() || error.is_nan() {
            // Infinite values have no error that could be told.
            return Interval { value: Some(value), identities, ..Interval::unknown() };
        }
        let quantile = student(conditions.alpha, degrees(&spread, conditions));
        let away = |x: f64| if error == 0.0 { 0.0 } else { bent(x, skewness) * error };
        Interval {
            value: Some(value),
            low: value - away(quantile),
            high: value - away(-quantile),
            skewness,
            decided_by_few: skewness.abs() > MOST_SKEWNESS || has_few_degrees(&spread, conditions),
            identities,
            constant: spread.error == 0.0 && conditions.p < 1.0,
        }
    }

    /// The same on another scale: `from` and `to` are each other's inverse, `slope` is that
    /// of `from` at the value.
    pub fn scaled(
        value: f64,
        spread: Spread,
        conditions: &Conditions,
        slope: f64,
        from: impl Fn(f64) -> f64,
        to: impl Fn(f64) -> f64,
    ) -> Interval {
        if !value.is_finite() || spread.error.is_nan() {
            return Interval { value: Some(value), identities: spread.identities, ..Interval::unknown() };
        }
        if spread.error == 0.0 {
            return Interval { constant: conditions.p < 1.0, ..Interval::exact(value) };
        }
        let on_scale = Spread { error: spread.error * slope, ..spread };
        let found = Interval::around(from(value), on_scale, conditions);
        Interval { value: Some(value), low: to(found.low), high: to(found.high), ..found }
    }

    /// The same of values that are all so many times as large; `factor` is above 0.
    pub fn times(self, factor: f64) -> Interval {
        let value = self.value.map(|value| value * factor);
        Interval { value, low: self.low * factor, high: self.high * factor, ..self }
    }

    /// The same of values that are all more by `by`.
    pub fn moved(self, by: f64) -> Interval {
        Interval { value: self.value.map(|value| value + by), low: self.low + by, high: self.high + by, ..self }
    }
}

/// Of Student's t.
fn degrees(spread: &Spread, conditions: &Conditions) -> f64 {
    if conditions.clustered { spread.degrees_by_kurtosis } else { spread.degrees }
}

/// Do a few of the identities whose records come together make up most of the error?
pub fn has_few_degrees(spread: &Spread, conditions: &Conditions) -> bool {
    conditions.clustered && degrees(spread, conditions) < LEAST_DEGREES
}

/// The quantile of (estimate - truth) / error that belongs to one of Student's t, where the
/// estimate is skewed.
pub fn bent(x: f64, skewness: f64) -> f64 {
    match skewness.abs() < 1e-9 || !x.is_finite() {
        true => x,
        false => ((1.0 + skewness * (x - skewness / 6.0)).cbrt() - 1.0) * 3.0 / skewness,
    }
}
