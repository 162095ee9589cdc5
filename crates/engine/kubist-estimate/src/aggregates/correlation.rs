//! Pearson's correlation coefficient of two variables.

use crate::aggregate::{Bound, Definition, Properties, Shift};
use crate::call::Call;
use crate::interval::{Conditions, Interval};
use crate::joint::{self, Joint};
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
    const WIDTH: usize = Joint::WIDTH + 2;

    fn properties(&self) -> Properties {
        Properties { bell_curve: true, ..Properties::default() }
    }

    fn features(&self, values: &Complete, shifts: &[Shift]) -> Vec<Vec<f64>> {
        let (a, b) = (shifts[0], shifts[1]);
        let mut features = joint::features(values, shifts);
        features.push(values.of(|x| a.of(x) * a.of(x)));
        features.push(values.of_both(|_, y| b.of(y) * b.of(y)));
        features
    }

    fn interval(&self, sums: &Sums, _shifts: &[Shift], conditions: &Conditions) -> Interval {
        let p = conditions.p;
        let totals = sums.totals(p);
        let Some(joint) = Joint::of(&totals) else { return Interval::unknown() };
        let Joint { n, x, y, covariance } = joint;
        let (vx, vy) = (totals[4] / n - x * x, totals[5] / n - y * y);
        if !(vx > 0.0 && vy > 0.0) {
            return Interval::unknown();
        }
        let root = (vx * vy).sqrt();
        let r = (covariance / root).clamp(-1.0, 1.0);
        if r.abs() >= 1.0 {
            return Interval { constant: p < 1.0, ..Interval::exact(r) };
        }
        // The chain rule for r = covariance / sqrt(vx vy).
        let (by_x, by_y) = (r / (2.0 * vx), r / (2.0 * vy));
        let [of_n, of_products, of_y, of_x] = joint.gradient().map(|of| of / root);
        let gradient = [
            of_n - (by_x * (x * x - vx) + by_y * (y * y - vy)) / n,
            of_products,
            of_y + 2.0 * by_y * y / n,
            of_x + 2.0 * by_x * x / n,
            -by_x / n,
            -by_y / n,
        ];
        Interval::scaled(r, sums.spread(p, &gradient), conditions, 1.0 / (1.0 - r * r), f64::atanh, f64::tanh)
    }
}
