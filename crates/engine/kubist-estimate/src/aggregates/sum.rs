//! The sum of a variable.

use crate::aggregate::{Accumulator, Aggregate, Bound, Definition, Pilot, Properties, Shift, Total};
use crate::aggregates::exact_sum::ExactSum;
use crate::call::Call;
use crate::interval::{Conditions, Frame, Interval};
use crate::own::{is_narrow, of_sums, unit};
use crate::sums::Sums;
use crate::totals::{Complete, Smooth};
use crate::unit::UnitRule;

pub const DEFINITION: Definition = Definition {
    listed: "sum",
    documented: [
        "`sum(x)`",
        "",
        "Horvitz-Thompson; a ratio estimator if the number of these records, or of the box that contains them, is known",
    ],
    is_named: |name| name == "sum",
    bind: |call: &Call| {
        call.takes(1..=1, "one argument")?;
        let arguments = call.expressions(1)?;
        // A sum of timestamps is not a timestamp, so it has no exact type.
        let whole =
            arguments[0].whole_type().filter(is_narrow).and_then(|whole| Some((of_sums(&whole)?, unit(&whole))));
        Ok(match whole {
            Some((own, divisor)) => Bound::new(arguments, WholeSum { divisor }).of_wholes(own),
            None => Bound::new(arguments, Sum),
        })
    },
};

#[derive(Clone, Debug)]
struct Sum;

#[derive(Clone, Debug)]
struct WholeSum {
    divisor: f64,
}

impl Aggregate for WholeSum {
    fn properties(&self) -> Properties {
        Aggregate::properties(&Sum)
    }

    fn features(&self, values: &[&[f64]], shifts: &[Shift], rows: usize) -> Option<Vec<Vec<f64>>> {
        Aggregate::features(&Sum, values, shifts, rows)
    }

    fn accumulator(&self, pilot: &Pilot) -> Box<dyn Accumulator> {
        Box::new(ExactSum::new(Sum.accumulator(pilot), self.divisor))
    }
}

impl Smooth for Sum {
    const WIDTH: usize = 3;

    fn properties(&self) -> Properties {
        Properties {
            bell_curve: true,
            uses_number_of_records: true,
            total: Some(Total::Sum),
            unit: UnitRule::First,
            ..Properties::default()
        }
    }

    fn features(&self, values: &Complete, shifts: &[Shift]) -> Vec<Vec<f64>> {
        // The first feature also counts records without a value, because their total number may be known.
        vec![vec![1.0; values.rows()], values.of(|x| shifts[0].of(x)), values.present()]
    }

    fn interval(&self, sums: &Sums, shifts: &[Shift], conditions: &Conditions) -> Interval {
        let p = conditions.p;
        let (totals, shift) = (sums.totals(p), shifts[0].scaled(shifts[0].by));
        let (all, sum, present) = (totals[0], totals[1], totals[2]);
        let total = sum + shift * present;
        let frame = conditions.frame.or(conditions.rows.map(|rows| Frame { rows, drawn: sums, corrected: sums }));
        let found = match frame {
            Some(frame) if p < 1.0 && all > 0.0 => {
                let (rows, drawn) = (frame.rows, frame.drawn_with(sums));
                let drawn_of = drawn.totals(p)[0];
                let (mean, by) = (total / drawn_of, rows.rows / drawn_of);
                let spread = sums.spread_less(p, &[0.0, by, shift * by], mean * by, drawn);
                Interval::around(rows.rows * mean, spread.with_number(mean * rows.error), conditions)
            }
            _ if p < 1.0 && all == 0.0 => Interval { value: Some(0.0), ..Interval::unknown() },
            _ => Interval::around(total, sums.spread(p, &[0.0, 1.0, shift]), conditions),
        };
        found.times(shifts[0].back())
    }
}
