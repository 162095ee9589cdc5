//! The ratio of two sums: sum(a) / sum(b).

use crate::aggregate::{Bound, Definition, Properties, Shift};
use crate::call::Call;
use crate::interval::{Conditions, Interval};
use crate::sums::Sums;
use crate::totals::{Complete, Smooth};
use crate::unit::UnitRule;

pub const DEFINITION: Definition = Definition {
    listed: "ratio(a, b)",
    documented: ["`ratio(a, b)`", "sum(a) / sum(b)", "delta method, Student's t, corrected for skewness"],
    is_named: |name| name == "ratio",
    bind: |call: &Call| {
        call.takes(2..=2, "two arguments")?;
        Ok(Bound::new(call.expressions(2)?, Ratio))
    },
};

#[derive(Clone, Debug)]
struct Ratio;

impl Smooth for Ratio {
    const WIDTH: usize = 3;

    fn properties(&self) -> Properties {
        Properties { bell_curve: true, unit: UnitRule::Quotient, ..Properties::default() }
    }

    fn features(&self, values: &Complete, shifts: &[Shift]) -> Vec<Vec<f64>> {
        let (a, b) = (shifts[0], shifts[1]);
        vec![values.present(), values.of_both(|_, below| b.scaled(below)), values.of(|above| a.scaled(above))]
    }

    fn interval(&self, sums: &Sums, shifts: &[Shift], conditions: &Conditions) -> Interval {
        let totals = sums.totals(conditions.p);
        let (n, below, above) = (totals[0], totals[1], totals[2]);
        if n <= 0.0 || below == 0.0 {
            return Interval::unknown();
        }
        let ratio = above / below;
        let spread = sums.spread(conditions.p, &[0.0, -ratio / below, 1.0 / below]);
        Interval::around(ratio, spread, conditions).times(shifts[1].scale).times(shifts[0].back())
    }
}
