//! The covariance of two numbers.

use crate::aggregate::{Bound, Definition, Properties};
use crate::call::Call;
use crate::interval::{Conditions, Interval};
use crate::sums::Sums;
use crate::totals::{Complete, Smooth};

pub const DEFINITION: Definition = Definition {
    listed: "cov(x, y)",
    documented: ["`cov(x, y)`, also `covar`", "divided by n - 1", "delta method, Student's t, corrected for skewness"],
    is_named: |name| matches!(name, "cov" | "covar" | "covariance"),
    bind: |call: &Call| {
        call.takes(2..=2, "two arguments")?;
        Ok(Bound::new(call.expressions(2)?, Covariance))
    },
};

#[derive(Clone, Debug)]
struct Covariance;

impl Smooth for Covariance {
    const WIDTH: usize = 4;

    fn properties(&self) -> Properties {
        Properties { bell_curve: true, ..Properties::default() }
    }

    fn features(&self, values: &Complete, shifts: &[f64]) -> Vec<Vec<f64>> {
        let (a, b) = (shifts[0], shifts[1]);
        vec![
            values.present(),
            values.of_both(|x, y| (x - a) * (y - b)),
            values.of_both(|_, y| y - b),
            values.of(|x| x - a),
        ]
    }

    fn interval(&self, sums: &Sums, _shifts: &[f64], conditions: &Conditions) -> Interval {
        let totals = sums.totals(conditions.p);
        let (n, read) = (totals[0], sums.records());
        if n <= 0.0 || read < 2.0 {
            return Interval::unknown();
        }
        let (products, y, x) = (totals[1], totals[2] / n, totals[3] / n);
        let covariance = products / n - x * y;
        let gradient = [(x * y - covariance) / n, 1.0 / n, -x / n, -y / n];
        Interval::around(covariance * read / (read - 1.0), sums.spread(conditions.p, &gradient), conditions)
    }
}
