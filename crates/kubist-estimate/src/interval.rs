//! Values and their intervals.
//!
//! Ends are those of Student's t with as many degrees of freedom as there are random groups
//! with records, less one, corrected for skewness; some aggregates are treated on another
//! scale, variances on a logarithmic one and correlations on Fisher's.

use crate::distribution::student;
use crate::sums::{Spread, Sums};

/// A value and the ends of its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub value: Option<f64>,
    pub low: f64,
    pub high: f64,
    /// Of the estimate's distribution; the interval is trusted while it is small.
    pub skewness: f64,
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
    pub rows: Option<f64>,
    /// The frame in which they lie, where only that is known.
    pub frame: Option<Frame<'a>>,
    /// Records of one identity come together.
    pub clustered: bool,
    /// Some records are there for certain.
    pub stratified: bool,
}

/// Records of known number, among which those that are asked for are some: the records of a
/// box, of which a condition or a group has its part.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    pub rows: f64,
    /// How many of them were drawn.
    pub drawn: &'a Sums,
}

impl Interval {
    pub fn unknown() -> Interval {
        let (low, high) = (f64::NEG_INFINITY, f64::INFINITY);
        Interval { value: None, low, high, skewness: 0.0, constant: false }
    }

    pub fn exact(value: f64) -> Interval {
        Interval { value: Some(value), low: value, high: value, skewness: 0.0, constant: false }
    }

    /// The value, and to either side what the spread says: Student's interval, bent by the
    /// skewness of the estimate (Hall, JRSS B 54, 1992: the cubic transformation).
    pub fn around(value: f64, spread: Spread, conditions: &Conditions) -> Interval {
        let Spread { error, degrees, skewness } = spread;
        if !value.is_finite() || error.is_nan() {
            // Infinite values have no error that could be told.
            return Interval { value: Some(value), ..Interval::unknown() };
        }
        let quantile = student(conditions.alpha, degrees);
        let away = |x: f64| if error == 0.0 { 0.0 } else { bent(x, skewness) * error };
        Interval {
            value: Some(value),
            low: value - away(quantile),
            high: value - away(-quantile),
            skewness,
            constant: error == 0.0 && conditions.p < 1.0,
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
            return Interval { value: Some(value), ..Interval::unknown() };
        }
        if spread.error == 0.0 {
            return Interval { constant: conditions.p < 1.0, ..Interval::exact(value) };
        }
        let on_scale = Spread { error: spread.error * slope, ..spread };
        let found = Interval::around(from(value), on_scale, conditions);
        Interval { value: Some(value), low: to(found.low), high: to(found.high), ..found }
    }

    /// The same of values that are all more by `by`.
    pub fn moved(self, by: f64) -> Interval {
        Interval { value: self.value.map(|value| value + by), low: self.low + by, high: self.high + by, ..self }
    }
}

/// The quantile of (estimate - truth) / error that belongs to one of Student's t, where the
/// estimate is skewed.
pub fn bent(x: f64, skewness: f64) -> f64 {
    match skewness.abs() < 1e-9 || !x.is_finite() {
        true => x,
        false => ((1.0 + skewness * (x - skewness / 6.0)).cbrt() - 1.0) * 3.0 / skewness,
    }
}
