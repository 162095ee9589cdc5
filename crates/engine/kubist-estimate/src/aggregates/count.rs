//! The number of records, or of records in which the argument has a value.

use arrow_schema::DataType;

use crate::aggregate::{Bound, Definition, Properties, Shift};
use crate::aggregates::{count_distinct, share};
use crate::call::Call;
use crate::distribution::{normal, population};
use crate::interval::{Conditions, Frame, Interval};
use crate::sums::Sums;
use crate::totals::{Complete, Smooth};

pub const DEFINITION: Definition = Definition {
    listed: "count",
    documented: [
        "`count()`, `count(x)`",
        "records; records with a value of x",
        "exact binomial; the count of a box is exact if the index gives it quickly, and groups and conditions in it \
         are then proportions of a known number",
    ],
    is_named: |name| name == "count",
    bind,
};

fn bind(call: &Call) -> Result<Bound, String> {
    if let [only] = call.arguments[..]
        && only.get(..9).is_some_and(|head| head.eq_ignore_ascii_case("distinct "))
    {
        return count_distinct::of(only[9..].trim(), call);
    }
    call.takes(0..=1, "nothing, * or one argument")?;
    let arguments = if call.arguments == ["*"] { vec![] } else { call.expressions(call.arguments.len())? };
    let of_all = arguments.is_empty();
    Ok(Bound::new(arguments, Count { of_all }).exact_in(DataType::Int64))
}

#[derive(Clone, Debug)]
struct Count {
    /// Counts all records, not only those with a value.
    of_all: bool,
}

impl Smooth for Count {
    const WIDTH: usize = 1;

    fn properties(&self) -> Properties {
        Properties {
            uses_number_of_records: true,
            is_number_of_records: self.of_all,
            is_number_of_values: !self.of_all,
            ..Properties::default()
        }
    }

    fn features(&self, values: &Complete, _shifts: &[Shift]) -> Vec<Vec<f64>> {
        vec![values.present()]
    }

    fn interval(&self, sums: &Sums, _shifts: &[Shift], conditions: &Conditions) -> Interval {
        let Conditions { p, alpha, .. } = *conditions;
        if let Some(frame) = conditions.frame.filter(|_| p < 1.0) {
            return of_frame(sums, &frame, conditions);
        }
        let (found, value) = (sums.records(), sums.totals(p)[0]);
        if p < 1.0 && sums.is_corrected() {
            let around = Interval::around(value.max(found), sums.spread(p, &[1.0]), conditions);
            let (low, high) = (around.low.max(found), around.high.max(found));
            return Interval { low, high, constant: false, ..around };
        }
        if !conditions.clustered {
            let certain = if conditions.stratified { sums.certain() } else { 0.0 };
            let (low, high) = population(found - certain, p, alpha);
            return Interval { low: certain + low, high: certain + high, ..Interval::exact(value) };
        }
        let around = Interval::around(value, sums.spread(p, &[1.0]), conditions);
        let high = if found == 0.0 { f64::INFINITY } else { around.high };
        Interval { low: around.low.max(found), high, constant: false, ..around }
    }
}

/// A known number of records times a proportion of the sample `drawn` (ratio estimator: Cochran, Sampling
/// Techniques, 1977, 3.2 and 6.2), at least the number found, and at most the known number minus the
/// records found not to match. An estimated number comes from other records, so its error is independent
/// and the squares of the errors add.
fn of_frame(sums: &Sums, frame: &Frame, conditions: &Conditions) -> Interval {
    let (p, number, rows) = (conditions.p, frame.rows, frame.rows.rows);
    let (found, all) = (sums.records(), frame.drawn.records());
    if all <= 0.0 {
        let high = if number.is_exact() { rows } else { f64::INFINITY };
        return Interval { low: 0.0, high, ..Interval::unknown() };
    }
    let few = found.min(all - found) < share::LEAST_MET;
    let sums = if few { &sums.as_drawn() } else { sums };
    let drawn = frame.drawn_with(sums);
    let of = drawn.totals(p)[0];
    let part = (sums.totals(p)[0] / of).clamp(0.0, 1.0);
    let error = sums.spread_less(p, &[1.0 / of], part / of, drawn).error;
    let (low, high) = share::ends(part, error, drawn, sums.is_corrected(), conditions);
    let of_number = normal(conditions.alpha) * part * number.error;
    let away = |end: f64| (rows * (end - part)).hypot(of_number);
    let most = if number.is_exact() { rows - (all - found) } else { f64::INFINITY };
    let (low, high) = ((rows * part - away(low)).floor(), (rows * part + away(high)).ceil());
    let (low, high) = (low.max(found), high.min(most));
    Interval { low, high, ..Interval::exact((rows * part).clamp(low, high.max(low))) }
}
