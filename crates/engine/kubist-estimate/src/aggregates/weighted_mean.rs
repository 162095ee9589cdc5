//! The weighted mean: sum(v w) / sum(w).

use crate::aggregate::{Bound, Definition, Properties, Shift};
use crate::call::Call;
use crate::interval::{Conditions, Interval};
use crate::sums::Sums;
use crate::totals::{Complete, Smooth};
use crate::unit::UnitRule;

pub const DEFINITION: Definition = Definition {
    listed: "weighted_mean(v, w)",
    documented: [
        "`weighted_mean(v, w)`",
        "sum(v * w) / sum(w), over records with both values",
        "delta method, Student's t, corrected for skewness",
    ],
    is_named: |name| name == "weighted_mean",
    bind: |call: &Call| {
        call.takes(2..=2, "two arguments")?;
        Ok(Bound::new(call.expressions(2)?, WeightedMean))
    },
};

#[derive(Clone, Debug)]
struct WeightedMean;

impl Smooth for WeightedMean {
    const WIDTH: usize = 3;

    fn properties(&self) -> Properties {
        // With negative weights, the mean can lie outside the range of the values.
        Properties { bell_curve: true, unit: UnitRule::First, ..Properties::default() }
    }

    fn features(&self, values: &Complete, shifts: &[Shift]) -> Vec<Vec<f64>> {
        let (of_values, of_weights) = (shifts[0], shifts[1]);
        let weighted = values.of_both(|v, w| of_values.of(v) * of_weights.scaled(w));
        vec![values.present(), values.of_both(|_, w| of_weights.scaled(w)), weighted]
    }

    fn interval(&self, sums: &Sums, shifts: &[Shift], conditions: &Conditions) -> Interval {
        let totals = sums.totals(conditions.p);
        let (n, weight, sum) = (totals[0], totals[1], totals[2]);
        if n <= 0.0 || weight == 0.0 {
            return Interval::unknown();
        }
        let mean = sum / weight;
        let spread = sums.spread(conditions.p, &[0.0, -mean / weight, 1.0 / weight]);
        Interval::around(mean, spread, conditions).times(shifts[0].back()).moved(shifts[0].by)
    }
}
