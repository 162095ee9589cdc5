//! The variance of a number and its root, the standard deviation.

use crate::aggregate::{Bound, Definition, Properties};
use crate::call::Call;
use crate::interval::{Conditions, Interval};
use crate::sums::Sums;
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

#[derive(Clone, Debug)]
struct Variance {
    /// The standard deviation.
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

    fn features(&self, values: &Complete, shifts: &[f64]) -> Vec<Vec<f64>> {
        let a = shifts[0];
        vec![values.present(), values.of(|x| (x - a) * (x - a)), values.of(|x| x - a)]
    }

    fn interval(&self, sums: &Sums, _shifts: &[f64], conditions: &Conditions) -> Interval {
        let p = conditions.p;
        let totals = sums.totals(p);
        let (n, squares, sum) = (totals[0], totals[1], totals[2]);
        if n <= 0.0 {
            return Interval::unknown();
        }
        let (mean, read) = (sum / n, sums.records());
        let correction = if read > 1.0 { read / (read - 1.0) } else { f64::NAN };
        let variance = (squares / n - mean * mean).max(0.0) * correction;
        if variance.is_nan() {
            return Interval::unknown();
        }
        let gradient = [(mean * mean - variance) / n, 1.0 / n, -2.0 * mean / n];
        let found = match variance > 0.0 {
            true => {
                let slope = 1.0 / variance;
                Interval::scaled(variance, sums.spread(p, &gradient), conditions, slope, f64::ln, f64::exp)
            }
            false => Interval { constant: p < 1.0, ..Interval::exact(0.0) },
        };
        match self.root {
            true => {
                let (low, high) = (found.low.sqrt(), found.high.sqrt());
                Interval { value: Some(variance.sqrt()), low, high, ..found }
            }
            false => found,
        }
    }
}
