//! The mean; for a condition, the proportion of records that meet it.

use crate::aggregate::{Bound, Definition, Properties, Shift, Total};
use crate::aggregates::share;
use crate::call::Call;
use crate::interval::{Conditions, Interval};
use crate::sums::Sums;
use crate::totals::{Complete, Smooth};
use crate::unit::UnitRule;

pub const DEFINITION: Definition = Definition {
    listed: "mean (avg)",
    documented: ["`mean(x)`, also `avg`", "", "delta method, Student's t, corrected for skewness"],
    is_named: |name| matches!(name, "mean" | "avg"),
    bind: |call: &Call| {
        call.takes(1..=1, "one argument")?;
        let arguments = call.expressions(1)?;
        match arguments[0].is_condition() {
            true => Ok(share::of(arguments)),
            false => Ok(Bound::new(arguments, Mean)),
        }
    },
};

#[derive(Clone, Debug)]
struct Mean;

impl Smooth for Mean {
    const WIDTH: usize = 2;

    fn properties(&self) -> Properties {
        Properties {
            bell_curve: true,
            lies_among_values: true,
            alike_asks_zones: true,
            total: Some(Total::Mean),
            unit: UnitRule::First,
            ..Properties::default()
        }
    }

    fn features(&self, values: &Complete, shifts: &[Shift]) -> Vec<Vec<f64>> {
        vec![values.present(), values.of(|x| shifts[0].of(x))]
    }

    fn interval(&self, sums: &Sums, shifts: &[Shift], conditions: &Conditions) -> Interval {
        // Equal inclusion probabilities cancel, and totals at fraction 1 avoid their rounding error.
        let totals = sums.totals(conditions.p);
        let weighed = if sums.certain() > 0.0 { totals.clone() } else { sums.totals(1.0) };
        let (n, mean) = (totals[0], weighed[1] / weighed[0]);
        if n <= 0.0 {
            return Interval::unknown();
        }
        let spread = sums.spread(conditions.p, &[-mean / n, 1.0 / n]);
        Interval::around(mean, spread, conditions).times(shifts[0].back()).moved(shifts[0].by)
    }
}
