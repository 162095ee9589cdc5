//! The variance and the standard deviation.
//!
//! Deviations from the sample mean are too small by the variance of the mean, which is added back (Cochran,
//! Sampling Techniques, 1977, theorem 2.4; the same argument holds for clusters).

use crate::aggregate::{Bound, Definition, Properties, Shift};
use crate::call::Call;
use crate::interval::{Conditions, Interval, has_few_degrees};
use crate::sums::{Spread, Sums};
use crate::totals::{Complete, Smooth};
use crate::unit::UnitRule;

pub const DEFINITION: Definition = Definition {
    listed: "variance (var), std (stddev)",
    documented: [
        "`variance(x)`, `std(x)`, also `var`, `stddev`",
        "divided by n - 1",
        "delta method on a logarithmic scale",
    ],
    is_named: |name| matches!(name, "variance" | "var" | "std" | "stddev"),
    bind: |call: &Call| {
        call.takes(1..=1, "one argument")?;
        let root = matches!(call.name.as_str(), "std" | "stddev");
        Ok(Bound::new(call.expressions(1)?, Variance { root }))
    },
};

/// The limit for clustered samples, on the logarithmic scale; above it, the interval is unreliable.
const MOST_SKEWNESS: f64 = 0.1;

#[derive(Clone, Debug)]
struct Variance {
    root: bool,
}

impl Smooth for Variance {
    const WIDTH: usize = 3;
    const LEAST: f64 = 0.0;

    fn properties(&self) -> Properties {
        Properties {
            bell_curve: true,
            unit: if self.root { UnitRule::First } else { UnitRule::Square },
            ..Properties::default()
        }
    }

    fn features(&self, values: &Complete, shifts: &[Shift]) -> Vec<Vec<f64>> {
        let a = shifts[0];
        vec![values.present(), values.of(|x| a.of(x) * a.of(x)), values.of(|x| a.of(x))]
    }

    fn interval(&self, sums: &Sums, shifts: &[Shift], conditions: &Conditions) -> Interval {
        let (p, back) = (conditions.p, shifts[0].back());
        let totals = sums.totals(p);
        let (n, squares, sum) = (totals[0], totals[1], totals[2]);
        if n <= 0.0 || sums.records() <= 1.0 {
            return Interval::unknown();
        }
        let mean = sum / n;
        let of_mean = sums.spread(p, &[-mean / n, 0.0, 1.0 / n]).error.powi(2);
        let of_mean = if of_mean.is_finite() { of_mean } else { 0.0 };
        let about_mean = squares / n - mean * mean;
        // Rounding can make it negative, and infinite values make it NaN.
        let about_mean = if about_mean < 0.0 { 0.0 } else { about_mean };
        let variance = (about_mean + of_mean) * n / (n - 1.0);
        if !variance.is_finite() {
            let value = if self.root { variance.sqrt() } else { variance };
            return Interval { value: Some(value), ..Interval::unknown() };
        }
        let gradient = [(mean * mean - variance) / n, 1.0 / n, -2.0 * mean / n];
        let found = match variance > 0.0 {
            true => around(variance, sums.spread(p, &gradient), conditions),
            false => Interval { constant: p < 1.0, ..Interval::exact(0.0) },
        };
        match self.root {
            true => {
                let (low, high) = (found.low.sqrt(), found.high.sqrt());
                Interval { value: Some(variance.sqrt()), low, high, ..found }.times(back)
            }
            false => found.times(back).times(back),
        }
    }
}

/// With T = (v - V) / error, the difference of logarithms in units of its error is T + error / (2 v) T^2
/// (second-order delta method), which reduces the skewness by 3/2 of the relative error. A sample of few
/// identities underestimates the skewness and would give a too low upper end, so clustered samples use the
/// full skewness there.
fn around(variance: f64, spread: Spread, conditions: &Conditions) -> Interval {
    let scaled = |spread: Spread| Interval::scaled(variance, spread, conditions, 1.0 / variance, f64::ln, f64::exp);
    let found = scaled(spread);
    if !conditions.clustered {
        return found;
    }
    let skewness = spread.skewness - 1.5 * spread.error / variance;
    let low = scaled(Spread { skewness, ..spread }).low;
    Interval { low, decided_by_few: skewness > MOST_SKEWNESS || has_few_degrees(&spread, conditions), ..found }
}
