//! From totals to values and their intervals.
//!
//! Every aggregate here is a smooth function of totals; its gradient gives the linear
//! combination whose spread is that of the aggregate (the delta method: Särndal, Swensson
//! and Wretman, Model Assisted Survey Sampling, 1992, chapter 5). Ends are those of
//! Student's t with as many degrees of freedom as there are random groups with records,
//! less one, corrected for skewness; variances are treated on a logarithmic scale,
//! correlations on Fisher's.

use crate::estimate::aggregate::Kind;
use crate::estimate::distribution::{population, share, student};
use crate::estimate::sums::{Spread, Sums};

/// A value and the ends of its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub value: Option<f64>,
    pub low: f64,
    pub high: f64,
    /// Of the estimate's distribution; the interval is trusted while it is small.
    pub skewness: f64,
    /// All records that were drawn are alike, so that the sample knows no spread.
    pub constant: bool,
}

/// What an interval depends on besides the sums.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    /// The share of identities that were drawn.
    pub p: f64,
    pub alpha: f64,
    /// How many records there are, where that is known.
    pub rows: Option<f64>,
    /// Records of one identity come together.
    pub clustered: bool,
    /// Some records are there for certain.
    pub stratified: bool,
}

impl Interval {
    pub fn unknown() -> Interval {
        let (low, high) = (f64::NEG_INFINITY, f64::INFINITY);
        Interval { value: None, low, high, skewness: 0.0, constant: false }
    }

    pub fn exact(value: f64) -> Interval {
        Interval { value: Some(value), low: value, high: value, skewness: 0.0, constant: false }
    }

    /// The value, and to either side what the spread says: Student's interval, bent by the
    /// skewness of the estimate (Hall, JRSS B 54, 1992: the cubic transformation).
    fn around(value: f64, spread: Spread, conditions: &Conditions) -> Interval {
        let Spread { error, degrees, skewness } = spread;
        if !value.is_finite() || error.is_nan() {
            // Infinite values have no error that could be told.
            return Interval { value: Some(value), ..Interval::unknown() };
        }
        let quantile = student(conditions.alpha, degrees);
        let away = |x: f64| if error == 0.0 { 0.0 } else { bent(x, skewness) * error };
        Interval {
            value: Some(value),
            low: value - away(quantile),
            high: value - away(-quantile),
            skewness,
            constant: error == 0.0 && conditions.p < 1.0,
        }
    }

    /// The same on another scale: `from` and `to` are each other's inverse, `slope` is that
    /// of `from` at the value.
    fn scaled(
        value: f64,
        spread: Spread,
        conditions: &Conditions,
        slope: f64,
        from: impl Fn(f64) -> f64,
        to: impl Fn(f64) -> f64,
    ) -> Interval {
        if !value.is_finite() || spread.error.is_nan() {
            return Interval { value: Some(value), ..Interval::unknown() };
        }
        if spread.error == 0.0 {
            return Interval { constant: conditions.p < 1.0, ..Interval::exact(value) };
        }
        let on_scale = Spread { error: spread.error * slope, ..spread };
        let found = Interval::around(from(value), on_scale, conditions);
        Interval { value: Some(value), low: to(found.low), high: to(found.high), ..found }
    }
}

/// The quantile of (estimate - truth) / error that belongs to one of Student's t, where the
/// estimate is skewed.
fn bent(x: f64, skewness: f64) -> f64 {
    match skewness.abs() < 1e-9 || !x.is_finite() {
        true => x,
        false => ((1.0 + skewness * (x - skewness / 6.0)).cbrt() - 1.0) * 3.0 / skewness,
    }
}

/// How many features of a record an aggregate adds up.
pub fn width(kind: &Kind) -> usize {
    match kind {
        Kind::Count => 1,
        Kind::Mean | Kind::Share => 2,
        Kind::Sum | Kind::Variance | Kind::Std | Kind::Ratio => 3,
        Kind::Covariance => 4,
        Kind::Correlation => 6,
        _ => 0,
    }
}

/// The features of records from the values of the arguments, less a shift for each that
/// keeps squares small. Missing values have no features.
pub fn features(kind: &Kind, values: &[&[f64]], shifts: &[f64], rows: usize) -> Vec<Vec<f64>> {
    let missing = |row: usize| values.iter().any(|values| values[row].is_nan());
    let present: Vec<f64> = (0..rows).map(|row| if missing(row) { 0.0 } else { 1.0 }).collect();
    let of = |feature: &dyn Fn(f64, f64) -> f64| -> Vec<f64> {
        let second = values.get(1).unwrap_or(&values[0]);
        let pairs = values[0].iter().zip(*second).zip(&present);
        pairs.map(|((x, y), present)| if *present == 0.0 { 0.0 } else { feature(*x, *y) }).collect()
    };
    let (a, b) = (shifts.first().copied().unwrap_or(0.0), shifts.get(1).copied().unwrap_or(0.0));
    match kind {
        Kind::Mean => vec![present.clone(), of(&|x, _| x - a)],
        Kind::Share => vec![present.clone(), of(&|x, _| x)],
        Kind::Sum => vec![vec![1.0; rows], of(&|x, _| x - a), present.clone()],
        Kind::Variance | Kind::Std => vec![present.clone(), of(&|x, _| (x - a) * (x - a)), of(&|x, _| x - a)],
        Kind::Ratio => vec![present.clone(), of(&|_, y| y), of(&|x, _| x)],
        Kind::Covariance => {
            vec![present.clone(), of(&|x, y| (x - a) * (y - b)), of(&|_, y| y - b), of(&|x, _| x - a)]
        }
        Kind::Correlation => vec![
            present.clone(),
            of(&|x, y| (x - a) * (y - b)),
            of(&|_, y| (y - b) * (y - b)),
            of(&|x, _| (x - a) * (x - a)),
            of(&|_, y| y - b),
            of(&|x, _| x - a),
        ],
        _ => vec![present.clone()],
    }
}

/// The aggregate and its interval. Of a sample in which all is alike nothing bounds the rest,
/// but what else is known of it: that is for the caller to add to a mean.
pub fn interval(kind: &Kind, sums: &Sums, shifts: &[f64], conditions: &Conditions) -> Interval {
    let found = of_totals(kind, sums, shifts, conditions);
    let low = match kind {
        Kind::Variance | Kind::Std => 0.0,
        _ => f64::NEG_INFINITY,
    };
    match found.constant && *kind != Kind::Mean {
        true => Interval { low, high: f64::INFINITY, ..found },
        false => found,
    }
}

fn of_totals(kind: &Kind, sums: &Sums, shifts: &[f64], conditions: &Conditions) -> Interval {
    let Conditions { p, alpha, .. } = *conditions;
    let totals = sums.totals(p);
    let spread = |coefficients: &[f64]| sums.spread(p, coefficients);
    let shift = shifts.first().copied().unwrap_or(0.0);
    // In the order of `features`.
    match (kind, &totals[..]) {
        (Kind::Count, _) => count(sums, conditions),
        (Kind::Sum, &[all, sum, present]) => {
            let total = sum + shift * present;
            match conditions.rows {
                Some(rows) if p < 1.0 && all > 0.0 => {
                    let mean = total / all;
                    let by = rows / all;
                    Interval::around(rows * mean, spread(&[-mean * by, by, shift * by]), conditions)
                }
                _ if p < 1.0 && all == 0.0 => Interval { value: Some(0.0), ..Interval::unknown() },
                _ => Interval::around(total, spread(&[0.0, 1.0, shift]), conditions),
            }
        }
        (_, &[present, ..]) if present <= 0.0 => Interval::unknown(),
        (Kind::Mean, &[n, sum]) => {
            let mean = sum / n;
            let found = Interval::around(mean, spread(&[-mean / n, 1.0 / n]), conditions);
            let (low, high) = (found.low + shift, found.high + shift);
            Interval { value: Some(mean + shift), low, high, ..found }
        }
        (Kind::Share, &[n, sum]) => {
            let found = sum / n;
            let error = spread(&[-found / n, 1.0 / n]).error;
            let measured = (conditions.clustered || conditions.stratified) && error > 0.0 && error.is_finite();
            let independent = match measured {
                true => found * (1.0 - found) / (error * error),
                false if conditions.clustered => sums.independent() / (1.0 - p),
                false => sums.records() / (1.0 - p),
            };
            let (low, high) = if p >= 1.0 { (found, found) } else { share(found * independent, independent, alpha) };
            Interval { low, high, ..Interval::exact(found) }
        }
        (Kind::Variance | Kind::Std, &[n, squares, sum]) => {
            let (mean, read) = (sum / n, sums.records());
            let correction = if read > 1.0 { read / (read - 1.0) } else { f64::NAN };
            let variance = (squares / n - mean * mean).max(0.0) * correction;
            if variance.is_nan() {
                return Interval::unknown();
            }
            let gradient = [(mean * mean - variance) / n, 1.0 / n, -2.0 * mean / n];
            let found = match variance > 0.0 {
                true => {
                    let slope = 1.0 / variance;
                    Interval::scaled(variance, spread(&gradient), conditions, slope, f64::ln, f64::exp)
                }
                false => Interval { constant: p < 1.0, ..Interval::exact(0.0) },
            };
            match kind {
                Kind::Std => {
                    let (low, high) = (found.low.sqrt(), found.high.sqrt());
                    Interval { value: Some(variance.sqrt()), low, high, ..found }
                }
                _ => found,
            }
        }
        (Kind::Ratio, &[_, below, above]) => {
            if below == 0.0 {
                return Interval::unknown();
            }
            let ratio = above / below;
            Interval::around(ratio, spread(&[0.0, -ratio / below, 1.0 / below]), conditions)
        }
        (Kind::Covariance, &[n, products, y, x]) => {
            let (x, y, read) = (x / n, y / n, sums.records());
            if read < 2.0 {
                return Interval::unknown();
            }
            let covariance = products / n - x * y;
            let gradient = [(x * y - covariance) / n, 1.0 / n, -x / n, -y / n];
            Interval::around(covariance * read / (read - 1.0), spread(&gradient), conditions)
        }
        (Kind::Correlation, &[n, products, yy, xx, y, x]) => {
            let (x, y) = (x / n, y / n);
            let (vx, vy, covariance) = (xx / n - x * x, yy / n - y * y, products / n - x * y);
            if !(vx > 0.0 && vy > 0.0) {
                return Interval::unknown();
            }
            let root = (vx * vy).sqrt();
            let r = (covariance / root).clamp(-1.0, 1.0);
            let (by_x, by_y) = (r / (2.0 * vx), r / (2.0 * vy));
            let gradient = [
                ((x * y - covariance) / root - by_x * (x * x - vx) - by_y * (y * y - vy)) / n,
                1.0 / root / n,
                -by_y / n,
                -by_x / n,
                (-x / root + by_y * 2.0 * y) / n,
                (-y / root + by_x * 2.0 * x) / n,
            ];
            if r.abs() >= 1.0 {
                return Interval { constant: p < 1.0, ..Interval::exact(r) };
            }
            Interval::scaled(r, spread(&gradient), conditions, 1.0 / (1.0 - r * r), f64::atanh, f64::tanh)
        }
        _ => Interval::unknown(),
    }
}

/// How many records there are.
fn count(sums: &Sums, conditions: &Conditions) -> Interval {
    let Conditions { p, alpha, .. } = *conditions;
    let (found, value) = (sums.records(), sums.totals(p)[0]);
    if !conditions.clustered && !conditions.stratified {
        let (low, high) = population(found, p, alpha);
        return Interval { low, high, ..Interval::exact(value) };
    }
    let around = Interval::around(value, sums.spread(p, &[1.0]), conditions);
    let high = if found == 0.0 { f64::INFINITY } else { around.high };
    Interval { low: around.low.max(found), high, constant: false, ..around }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXACT: Conditions = Conditions { p: 1.0, alpha: 0.05, rows: None, clustered: false, stratified: false };

    fn sums(kind: &Kind, values: &[&[f64]], shifts: &[f64], priorities: Option<&[u64]>) -> Sums {
        let rows = values[0].len();
        let features = features(kind, values, shifts, rows);
        let mut sums = Sums::new(width(kind), 1024);
        sums.add(&features.iter().map(Vec::as_slice).collect::<Vec<_>>(), 0..rows, priorities);
        sums
    }

    #[test]
    fn whole_populations_have_their_textbook_values() {
        let x: Vec<f64> = vec![1.0, 2.0, 4.0, 7.0, f64::NAN, 11.0];
        let y: Vec<f64> = vec![2.0, 1.0, 5.0, 8.0, 3.0, 9.0];
        let found = |kind: Kind, values: &[&[f64]], shifts: &[f64]| {
            let interval = interval(&kind, &sums(&kind, values, shifts, None), shifts, &EXACT);
            assert!(interval.low == interval.high || (interval.high - interval.low).abs() < 1e-12, "{interval:?}");
            interval.value.unwrap()
        };
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} is not {b}");
        for shift in [0.0, 5.5] {
            close(found(Kind::Count, &[&x], &[]), 5.0);
            close(found(Kind::Sum, &[&x], &[shift]), 25.0);
            close(found(Kind::Mean, &[&x], &[shift]), 5.0);
            close(found(Kind::Variance, &[&x], &[shift]), 16.5);
            close(found(Kind::Std, &[&x], &[shift]), 16.5f64.sqrt());
            close(found(Kind::Ratio, &[&x, &y], &[shift, shift]), 1.0);
            close(found(Kind::Covariance, &[&x, &y], &[shift, -shift]), 13.5);
            close(found(Kind::Correlation, &[&x, &y], &[shift, -shift]), 13.5 / (16.5f64 * 12.5).sqrt());
        }
    }

    /// Gradients are those of the functions themselves, seen by small changes of weights.
    #[test]
    fn gradients_are_derivatives() {
        let x = [1.0, 2.5, -4.0, 7.0, 3.0, 0.5];
        let y = [2.0, 1.0, 5.0, -8.0, 3.5, 9.0];
        let shifts = [0.3, -0.2];
        for kind in [Kind::Mean, Kind::Variance, Kind::Ratio, Kind::Covariance, Kind::Correlation] {
            let both: [&[f64]; 2] = [&x, &y];
            let values = &both[..if matches!(kind, Kind::Mean | Kind::Variance) { 1 } else { 2 }];
            let alone: Vec<u64> = (0..6).collect();
            let p = 1e-6;
            let conditions = Conditions { p, ..EXACT };
            let error = {
                let found = interval(&kind, &sums(&kind, values, &shifts, Some(&alone)), &shifts, &conditions);
                let (low, high) = match kind {
                    Kind::Variance => (found.low.ln(), found.high.ln()),
                    Kind::Correlation => (found.low.atanh(), found.high.atanh()),
                    _ => (found.low, found.high),
                };
                let quantile = student(0.05, 5.0);
                (high - low) / (bent(quantile, found.skewness) - bent(-quantile, found.skewness))
            };
            // The same by the jackknife over weights: each record weighs a little more.
            let value_with = |heavier: Option<usize>| {
                let rows: Vec<usize> =
                    (0..6).flat_map(|row| vec![row; if Some(row) == heavier { 10_001 } else { 10_000 }]).collect();
                let of = |values: &[f64]| rows.iter().map(|row| values[*row]).collect::<Vec<f64>>();
                let weighted: Vec<Vec<f64>> = values.iter().map(|values| of(values)).collect();
                let weighted: Vec<&[f64]> = weighted.iter().map(Vec::as_slice).collect();
                let value = interval(&kind, &sums(&kind, &weighted, &shifts, None), &shifts, &EXACT).value.unwrap();
                match kind {
                    Kind::Variance => value.ln(),
                    Kind::Correlation => value.atanh(),
                    _ => value,
                }
            };
            let squares: f64 = (0..6).map(|row| ((value_with(Some(row)) - value_with(None)) * 1e4).powi(2)).sum();
            let expected = (squares * 6.0 / 5.0).sqrt();
            assert!(
                (error / expected - 1.0).abs() < 0.02 || kind == Kind::Variance && (error / expected - 1.0).abs() < 0.2,
                "{kind:?}: {error} is not {expected}"
            );
        }
    }

    #[test]
    fn nothing_found_is_not_nothing_there() {
        let empty = Sums::new(1, 1024);
        let conditions = Conditions { p: 0.1, ..EXACT };
        let found = interval(&Kind::Count, &empty, &[], &conditions);
        assert_eq!((found.value, found.low), (Some(0.0), 0.0));
        assert!(found.high >= 35.0 && found.high < 37.0, "{found:?}");
        assert_eq!(interval(&Kind::Mean, &Sums::new(2, 1024), &[0.0], &conditions), Interval::unknown());
        let clustered = Conditions { clustered: true, ..conditions };
        assert_eq!(interval(&Kind::Count, &empty, &[], &clustered).high, f64::INFINITY);
    }
}
