//! The proportion of records that meet a condition.

use kubist_expr::Expression;

use crate::aggregate::{Bound, Definition, Properties, Shift};
use crate::call::Call;
use crate::distribution::share;
use crate::interval::{Conditions, Interval};
use crate::sums::Sums;
use crate::totals::{Complete, Smooth};

pub const DEFINITION: Definition = Definition {
    listed: "share",
    documented: ["`share(condition)`, `mean(condition)`", "", "Clopper-Pearson, Wilson for many records"],
    is_named: |name| name == "share",
    bind: |call: &Call| {
        call.takes(1..=1, "one argument")?;
        let arguments = call.expressions(1)?;
        match arguments[0].is_condition() {
            true => Ok(of(arguments)),
            false => Err(NO_CONDITION.into()),
        }
    },
};

/// Regression needs at least this many sampled records on either side of the condition; with fewer, the measured error
/// is too small.
pub const LEAST_MET: f64 = 50.0;

pub const NO_CONDITION: &str = "share() needs a condition, such as share(diameter > 2e-5)";

pub fn of(condition: Vec<Expression>) -> Bound {
    Bound::new(condition, Share)
}

#[derive(Clone, Debug)]
struct Share;

impl Smooth for Share {
    const WIDTH: usize = 2;

    fn properties(&self) -> Properties {
        Properties::default()
    }

    fn features(&self, values: &Complete, _shifts: &[Shift]) -> Vec<Vec<f64>> {
        vec![values.present(), values.of(|x| x)]
    }

    fn interval(&self, sums: &Sums, _shifts: &[Shift], conditions: &Conditions) -> Interval {
        let p = conditions.p;
        let met = sums.read()[1];
        let few = met.min(sums.records() - met) < LEAST_MET;
        let sums = if few { &sums.as_drawn() } else { sums };
        let totals = sums.totals(p);
        let (n, sum) = (totals[0], totals[1]);
        if n <= 0.0 {
            return Interval::unknown();
        }
        let found = (sum / n).clamp(0.0, 1.0);
        let error = sums.spread(p, &[-found / n, 1.0 / n]).error;
        let (low, high) =
            if p >= 1.0 { (found, found) } else { ends(found, error, sums, sums.is_corrected(), conditions) };
        Interval { low, high, ..Interval::exact(found) }
    }
}

/// The interval of a proportion `part` of the sample `drawn`. For clustered or stratified samples and for
/// regression estimators (`corrected`), the standard `error` between random groups replaces the binomial
/// error, as an effective number of trials.
pub fn ends(part: f64, error: f64, drawn: &Sums, corrected: bool, conditions: &Conditions) -> (f64, f64) {
    let Conditions { p, alpha, clustered, stratified, .. } = *conditions;
    let independent = match (clustered || stratified || corrected) && error > 0.0 && error.is_finite() {
        true => part * (1.0 - part) / (error * error),
        false if clustered => drawn.independent() / (1.0 - p),
        false => drawn.records() / (1.0 - p),
    };
    share(part * independent, independent, alpha)
}
