//! The correlation of two numbers (Pearson's).

use crate::aggregate::{Bound, Definition, Properties};
use crate::call::Call;
use crate::interval::{Conditions, Interval};
use crate::sums::Sums;
use crate::totals::{Complete, Smooth};

pub const DEFINITION: Definition = Definition {
    listed: "corr(x, y)",
    documented: ["`corr(x, y)`", "Pearson's", "delta method on Fisher's scale"],
    is_named: |name| matches!(name, "corr" | "correlation"),
    bind: |call: &Call| {
        call.takes(2..=2, "two arguments")?;
        Ok(Bound::new(call.expressions(2)?, Correlation))
    },
};

#[derive(Clone, Debug)]
struct Correlation;

impl Smooth for Correlation {
    const WIDTH: usize = 6;

    fn properties(&self) -> Properties {
        Properties { bell_curve: true, ..Properties::default() }
    }

    fn features(&self, values: &Complete, shifts: &[f64]) -> Vec<Vec<f64>> {
        let (a, b) = (shifts[0], shifts[1]);
        vec![
            values.present(),
            values.of_both(|x, y| (x - a) * (y - b)),
            values.of_both(|_, y| (y - b) * (y - b)),
            values.of(|x| (x - a) * (x - a)),
            values.of_both(|_, y| y - b),
            values.of(|x| x - a),
        ]
    }

    fn interval(&self, sums: &Sums, _shifts: &[f64], conditions: &Conditions) -> Interval {
        let p = conditions.p;
        let totals = sums.totals(p);
        let n = totals[0];
        if n <= 0.0 {
            return Interval::unknown();
        }
        let (products, yy, xx) = (totals[1], totals[2], totals[3]);
        let (y, x) = (totals[4] / n, totals[5] / n);
        let (vx, vy, covariance) = (xx / n - x * x, yy / n - y * y, products / n - x * y);
        if !(vx > 0.0 && vy > 0.0) {
            return Interval::unknown();
        }
        let root = (vx * vy).sqrt();
        let r = (covariance / root).clamp(-1.0, 1.0);
        let (by_x, by_y) = (r / (2.0 * vx), r / (2.0 * vy));
        let gradient = [
            ((x * y - covariance) / root - by_x * (x * x - vx) - by_y * (y * y - vy)) / n,
            1.0 / root / n,
            -by_y / n,
            -by_x / n,
            (-x / root + by_y * 2.0 * y) / n,
            (-y / root + by_x * 2.0 * x) / n,
        ];
        if r.abs() >= 1.0 {
            return Interval { constant: p < 1.0, ..Interval::exact(r) };
        }
        Interval::scaled(r, sums.spread(p, &gradient), conditions, 1.0 / (1.0 - r * r), f64::atanh, f64::tanh)
    }
}
