//! Outliers: the few records that an estimate with a goal reads completely.
//!
//! An interval is reliable for n > 25 G^2 records of skewness G (Cochran's rule, Sampling Techniques, 1977, 2.15). A
//! pilot without the largest values has a small G, so the pilot alone cannot decide. Zone maps bound all values: above
//! the k-th largest of n values is about k/n of the records, and above the bound is none. Between these two points the
//! tail is assumed to be Pareto's, a line in logarithms (Weissman, JASA 73, 1978), which gives G.
//!
//! If records are read completely that are farther than d from the median (a certainty stratum: Cochran, 5A.7), the
//! others have a standard deviation s and distances of at most d' = d + |mean - median| from their mean. Then
//! |E (x - mean)^3| <= d' s^2, so G <= d' / s for any distribution, and n = 25 (d' / s)^2 records are enough. A
//! larger d leaves fewer outliers and needs a larger n. The d with the least reading is taken, if it saves a fifth, or
//! if the goal would not hold without.

use super::plan::MARGIN;
use super::{EstimateQuery, Facts, Sample, quoted};
use crate::accumulate::Values;
use crate::figure::Figure;
use crate::interval::MOST_SKEWNESS;
use crate::zones;
use kubist_population::{Ends, Population};
use kubist_types::error::Result;

/// The order statistic where the assumed tail begins.
const ANCHOR: usize = 5;
const LEAST_VALUES: usize = 50;
/// Records examined for each outlier: its zone, and its part of the zone map.
const EXAMINED: f64 = 100.0;
/// If the goal holds without, outliers must reduce the reading to this fraction.
const WORTH: f64 = 0.8;
const MOST_HALVINGS: i32 = 64;

impl<P: Population> EstimateQuery<P> {
    /// The condition of the records that the goal needs completely, if there are any. `drawn` is the pilot.
    pub(super) fn outliers(&self, sample: &mut Sample<P>, facts: &Facts, drawn: &[Values]) -> Result<Option<String>> {
        let options = &self.options;
        // The reading of outliers has no limit.
        let is_free = self.deadline.is_none() && options.max_rows.is_none() && options.max_bytes.is_none();
        let takes_certain = self.task.aggregates.iter().all(|asked| asked.bound.properties.takes_certain);
        let is_sampled =
            sample.share() < 1.0 && options.query.sample.is_none() && sample.source.brought.weight.is_none();
        if !self.has_goal() || !is_free || !takes_certain || !is_sampled || !self.whole_range() || self.known.is_some()
        {
            return Ok(None);
        }
        let mut columns: Vec<(usize, usize, usize)> = Vec::new();
        for (number, asked) in
            self.task.aggregates.iter().enumerate().filter(|(_, asked)| asked.bound.properties.bell_curve)
        {
            let arguments = asked.bound.arguments.iter().enumerate();
            let plain = arguments.filter_map(|(argument, expression)| Some((number, argument, expression.column()?)));
            columns.extend(plain.filter(|(.., column)| self.visible.field(*column).data_type().is_numeric()));
        }
        columns.sort_unstable_by_key(|(.., column)| *column);
        columns.dedup_by_key(|(.., column)| *column);
        if columns.is_empty() {
            return Ok(None);
        }
        // Without outliers, the width alone decides how many records are needed.
        let figures = self.figures(sample, facts).into_iter().map(|figure| Figure { skewness: 0.0, ..figure });
        let figures: Vec<Figure> = figures.collect();
        let cluster_size = sample.pilot.as_ref().map_or(1.0, |pilot| pilot.cluster_size);
        let share = self.needed(sample, facts, &figures).unwrap_or(0.0).max(sample.share());
        let planned = self.expected * (share * MARGIN).min(1.0);
        let cut = |(number, argument, column): (usize, usize, usize), bounds: Ends| {
            let values = drawn.iter().flat_map(|part| part.argument(number, argument)).copied();
            let values: Vec<f64> = values.filter(|value| !value.is_nan()).collect();
            let (low, high) = beyond(&values, bounds?, self.expected, planned, cluster_size)?;
            let name = quoted(self.visible.field(column).name());
            Some(format!("{name} <= {low:e} OR {name} >= {high:e}"))
        };
        let mut conditions = Vec::new();
        for asked in columns {
            let column = self.whole.place(asked.2);
            let bounds = |records: &P| Ok(zones::bounds(records, &[column], None)?[0]);
            // Bounds of all rows are at hand, and mostly exclude outliers.
            let mut condition = cut(asked, self.whole.wide_bounds(column, bounds)?);
            if condition.is_some() && !self.whole.is_all() {
                condition = cut(asked, bounds(&self.whole)?);
            }
            conditions.extend(condition);
        }
        Ok((!conditions.is_empty()).then(|| conditions.join(" OR ")))
    }
}

/// One side of the median: distances from it, the largest first.
struct Side {
    distances: Vec<f64>,
    anchor: f64,
    /// No distance is larger.
    most: f64,
    /// The exponent of Pareto's distribution between the anchor and `most`; infinite if nothing is between them.
    exponent: f64,
}

impl Side {
    /// `n` values are a sample of `rows`.
    fn new(mut distances: Vec<f64>, most: f64, deviation: f64, n: f64, rows: f64) -> Side {
        distances.sort_unstable_by(|a, b| b.total_cmp(a));
        let anchor = distances.get(ANCHOR - 1).copied().unwrap_or(0.0).max(deviation);
        let exponent = (rows * ANCHOR as f64 / n).ln() / (most / anchor).ln();
        Side { distances, anchor, most, exponent: if most > anchor { exponent } else { f64::INFINITY } }
    }

    /// The correction of the sample's sum of powers for the assumed tail.
    fn more(&self, power: f64) -> f64 {
        if self.exponent.is_infinite() {
            return 0.0;
        }
        let found: f64 =
            self.distances.iter().take_while(|each| **each > self.anchor).map(|each| each.powf(power)).sum();
        let (above, far) = (power - self.exponent, self.most / self.anchor);
        let integral = if above.abs() < 1e-9 { far.ln() } else { (far.powf(above) - 1.0) / above };
        ANCHOR as f64 * self.exponent * self.anchor.powf(power) * integral - found
    }

    /// The expected number of sampled values beyond a distance.
    fn beyond(&self, distance: f64) -> f64 {
        match (distance > self.most, distance <= self.anchor || self.exponent.is_infinite()) {
            (true, _) => 0.0,
            (_, true) => self.distances.partition_point(|each| *each >= distance) as f64,
            _ => ANCHOR as f64 * (distance / self.anchor).powf(-self.exponent),
        }
    }
}

/// The mean and the variance.
fn moments(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (mean, values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n)
}

/// The ends beyond which values are read completely: `values` are a sample of `rows` values between the bounds, and
/// the goal needs `planned` of them if the tails are light. An identity has `cluster_size` values. `None` if outliers save
/// little, or without bounds.
fn beyond(values: &[f64], (low, high): (f64, f64), rows: f64, planned: f64, cluster_size: f64) -> Option<(f64, f64)> {
    let n = values.len() as f64;
    let (mean, variance) = moments(values);
    let is_known = variance > 0.0 && variance.is_finite() && low.is_finite() && high.is_finite();
    if values.len() < LEAST_VALUES || !is_known {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let median = sorted[sorted.len() / 2];
    let side = |sign: f64, most: f64| {
        let distances = values.iter().map(|value| sign * (value - median)).filter(|distance| *distance > 0.0);
        Side::new(distances.collect(), most, variance.sqrt(), n, rows)
    };
    let (lower, upper) = (side(-1.0, median - low), side(1.0, high - median));
    let third = values.iter().map(|value| (value - mean).powi(3)).sum::<f64>() + upper.more(3.0) - lower.more(3.0);
    let second = n * variance + lower.more(2.0) + upper.more(2.0);
    let skewness = n.sqrt() * third / second.powf(1.5);
    let alone = planned.max((cluster_size * (skewness / MOST_SKEWNESS).powi(2)).min(rows));
    // The needed fraction of all records, relative to the fraction that is not needed.
    let odds = planned / (rows - planned).max(1.0);
    let plan = |distance: f64| {
        let rest: Vec<f64> = values.iter().copied().filter(|value| (value - median).abs() < distance).collect();
        let (centre, spread) = moments(&rest);
        let of_width = odds * spread / variance;
        let farthest = distance + (centre - median).abs();
        let of_skewness = cluster_size * (farthest / MOST_SKEWNESS).powi(2) / spread;
        let needed = (rows * of_width / (1.0 + of_width)).max(of_skewness).max(n).min(rows);
        (spread > 0.0).then(|| needed + EXAMINED * rows / n * (lower.beyond(distance) + upper.beyond(distance)))
    };
    let farthest = lower.most.max(upper.most);
    let plans = (1..MOST_HALVINGS).map_while(|halvings| {
        let distance = farthest * 0.5f64.powi(halvings);
        plan(distance).map(|cost| (cost, distance))
    });
    let (cost, distance) = plans.min_by(|a, b| a.0.total_cmp(&b.0))?;
    let worth = if alone > planned { 1.0 } else { WORTH };
    (cost < worth * alone).then_some((median - distance, median + distance))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: f64 = 1e6;

    /// `n` even quantiles, and the bounds of [`ROWS`] values.
    fn of(quantile: impl Fn(f64) -> f64) -> (Vec<f64>, (f64, f64)) {
        let end = 0.5 / ROWS;
        ((0..1000).map(|at| quantile((at as f64 + 0.5) / 1000.0)).collect(), (quantile(end), quantile(1.0 - end)))
    }

    #[test]
    fn light_tails_have_no_outliers() {
        for quantile in [|u: f64| u, |u: f64| (u / (1.0 - u)).ln(), |u: f64| -(1.0 - u).ln()] {
            let (values, bounds) = of(quantile);
            assert_eq!(beyond(&values, bounds, ROWS, 1000.0, 1.0), None);
            assert_eq!(beyond(&values, bounds, ROWS, 20_000.0, 1.0), None);
        }
    }

    /// Also if the sample happens to lack its largest values.
    #[test]
    fn heavy_tails_have_outliers() {
        let (values, bounds) = of(|u| (1.0 - u).powf(-1.0 / 1.5));
        for most in [f64::INFINITY, 40.0, 15.0] {
            let seen: Vec<f64> = values.iter().copied().filter(|value| *value < most).collect();
            let (low, high) = beyond(&seen, bounds, ROWS, 1000.0, 1.0).unwrap();
            assert!(low < 0.0 && high > 10.0 && high < 2_000.0, "{low} {high}");
        }
    }

    #[test]
    fn values_that_no_record_of_the_sample_has_are_outliers() {
        let (values, (low, high)) = of(|u| u);
        let (_, end) = beyond(&values, (low, 1e5), ROWS, 1000.0, 1.0).unwrap();
        assert!(end > 1.0 && end < 1e5, "{end}");
        let (end, _) = beyond(&values, (-1e5, high), ROWS, 1000.0, 1.0).unwrap();
        assert!(end < 0.0 && end > -1e5, "{end}");
    }

    #[test]
    fn without_bounds_or_a_spread_there_is_no_decision() {
        let (values, (low, _)) = of(|u| u);
        assert_eq!(beyond(&values, (low, f64::INFINITY), ROWS, 1000.0, 1.0), None);
        assert_eq!(beyond(&[1.0; 1000], (1.0, 1e5), ROWS, 1000.0, 1.0), None);
        assert_eq!(beyond(&[], (1.0, 1e5), ROWS, 1000.0, 1.0), None);
        assert_eq!(beyond(&[f64::MAX, -f64::MAX, 1.0].repeat(100), (-f64::MAX, f64::MAX), ROWS, 1000.0, 1.0), None);
    }
}
