//! The covariance of two variables.

use crate::aggregate::{Bound, Definition, Properties, Shift};
use crate::call::Call;
use crate::interval::{Conditions, Interval};
use crate::joint::{self, Joint};
use crate::sums::Sums;
use crate::totals::{Complete, Smooth};
use crate::unit::UnitRule;

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
    const WIDTH: usize = Joint::WIDTH;

    fn properties(&self) -> Properties {
        Properties { bell_curve: true, unit: UnitRule::Product, ..Properties::default() }
    }

    fn features(&self, values: &Complete, shifts: &[Shift]) -> Vec<Vec<f64>> {
        joint::features(values, shifts)
    }

    fn interval(&self, sums: &Sums, shifts: &[Shift], conditions: &Conditions) -> Interval {
        let read = sums.records();
        match Joint::of(&sums.totals(conditions.p)).filter(|_| read >= 2.0) {
            None => Interval::unknown(),
            Some(joint) => {
                let spread = sums.spread(conditions.p, &joint.gradient());
                let found = Interval::around(joint.covariance * read / (read - 1.0), spread, conditions);
                found.times(shifts[0].back()).times(shifts[1].back())
            }
        }
    }
}
