//! Values and their confidence intervals.
//!
//! Intervals use Student's t and a correction for skewness. The degrees of freedom are the number of
//! nonempty random groups minus 1, or minus 3 for regression estimators. Records with the same identity form a
//! cluster, so a sample of many records can have few independent units; the degrees of freedom then follow
//! from the kurtosis of the error. Variances use a logarithmic scale, and correlations use Fisher's z.

use std::borrow::Cow;

use kubist_population::Number;

use crate::control::Control;
use crate::distribution::student;
use crate::sums::{Spread, Sums};

/// An interval is reliable up to this skewness of the estimator: Cochran's rule n > 25 G^2, with G the
/// skewness of the records (Sampling Techniques, 1977, 2.15).
pub const MOST_SKEWNESS: f64 = 0.2;
/// With fewer degrees of freedom than this, the standard error itself can be wrong by a quarter.
const LEAST_DEGREES: f64 = 10.0;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub value: Option<f64>,
    pub low: f64,
    pub high: f64,
    pub skewness: f64,
    /// A few identities dominate the error, so the coverage may be below the confidence.
    pub decided_by_few: bool,
    /// The effective number of identities, if it matters.
    pub identities: f64,
    /// All sampled values are equal, so the sample shows no variance.
    pub constant: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct Conditions<'a> {
    /// The fraction of sampled identities.
    pub p: f64,
    pub alpha: f64,
    pub rows: Option<Number>,
    /// The frame, if only its number of records is known.
    pub frame: Option<Frame<'a>>,
    pub clustered: bool,
    /// Some records are in a certainty stratum.
    pub stratified: bool,
    pub control: Option<Control<'a>>,
}

impl Conditions<'_> {
    pub fn corrected<'a>(&self, sums: &'a Sums) -> Cow<'a, Sums> {
        let corrected = self.control.as_ref().and_then(|control| sums.corrected(self.p, control));
        corrected.map_or(Cow::Borrowed(sums), Cow::Owned)
    }
}

/// Records that contain the selected ones, such as a box, and whose number is known.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    pub rows: Number,
    pub drawn: &'a Sums,
    pub corrected: &'a Sums,
}

impl<'a> Frame<'a> {
    /// The totals of the frame, as denominator of a ratio with `sums`: both use regression, or neither.
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

    /// Student's interval, corrected for the skewness of the estimator by Hall's cubic transformation
    /// (Hall, JRSS B 54, 1992).
    pub fn around(value: f64, spread: Spread, conditions: &Conditions) -> Interval {
        let Spread { identities, .. } = spread;
        let (error, skewness) = spread.whole();
        if !value.is_finite() || error.is_nan() {
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

    /// The interval on a transformed scale. `to` is the inverse of `from`, and `slope` the derivative of
    /// `from` at the value.
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

    /// Multiplies by a factor above 0.
    pub fn times(self, factor: f64) -> Interval {
        let value = self.value.map(|value| value * factor);
        Interval { value, low: self.low * factor, high: self.high * factor, ..self }
    }

    pub fn moved(self, by: f64) -> Interval {
        Interval { value: self.value.map(|value| value + by), low: self.low + by, high: self.high + by, ..self }
    }
}

fn degrees(spread: &Spread, conditions: &Conditions) -> f64 {
    if conditions.clustered { spread.degrees_by_kurtosis } else { spread.degrees }
}

pub fn has_few_degrees(spread: &Spread, conditions: &Conditions) -> bool {
    conditions.clustered && degrees(spread, conditions) < LEAST_DEGREES
}

/// The quantile of (estimate - truth) / error for a skewed estimator, from Student's quantile `x`.
pub fn bent(x: f64, skewness: f64) -> f64 {
    match skewness.abs() < 1e-9 || !x.is_finite() {
        true => x,
        false => ((1.0 + skewness * (x - skewness / 6.0)).cbrt() - 1.0) * 3.0 / skewness,
    }
}
