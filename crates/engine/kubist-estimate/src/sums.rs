//! Estimated totals and their variance.
//!
//! A record is in the sample if its priority is below p. Each identity is therefore included independently
//! with probability p (Bernoulli sampling), and totals divided by p are unbiased (Horvitz and Thompson,
//! JASA 47, 1952). Records with the same identity form a cluster, so the variance is measured between
//! identities: the lowest bits of the priority assign each identity to a random group. The variance between
//! group totals gives the variance of any smooth function of totals (random groups and linearization:
//! Wolter, Introduction to Variance Estimation, 2007, chapters 2 and 6).
//!
//! For a linear combination with totals t_g in m nonempty groups, the variance estimate is
//! `(1 - p) / p^2 * sum (t_g - mean t)^2 * m / (m - 1)`. It has the same expectation as the Horvitz-Thompson
//! variance estimator over identities.
//!
//! Records with unequal inclusion probabilities have features divided by the probability, followed by
//! multiples for the variance (`accumulate::Design`). Their totals need no division by p, and the variance
//! between the groups' totals of the multiples equals the Horvitz-Thompson variance estimate.

use crate::control::Control;

/// Regression needs at least this number of nonempty random groups, and of sampled records.
const LEAST_CORRECTED: f64 = 100.0;
/// Regression must reduce the variance of a total to this fraction.
const WORTH: f64 = 0.9;
/// Largest leverage of a random group in the regression.
const MOST_LEVERAGE: f64 = 0.2;
/// A quantity with expectation 0 is plausible within this many standard errors.
const MOST_OFF: f64 = 5.0;
/// Fourth powers of numbers between these two are normal floats.
const LEAST_PLAIN: f64 = 1e-70;
const MOST_PLAIN: f64 = 1e70;
/// Least difference between 1 and the squared correlation of two predictors; otherwise they are collinear.
const LEAST_APART: f64 = 1e-3;

/// Totals of features; the first feature counts records.
#[derive(Clone, Debug)]
pub struct Sums {
    width: usize,
    groups: usize,
    /// `cells[group * width + feature]`; empty until a sampled record was added.
    cells: Vec<f64>,
    certain: Vec<f64>,
    /// Like `cells`, for the multiples; empty if inclusion probabilities are equal.
    design: Vec<f64>,
    /// Number of sampled records with unequal inclusion probabilities.
    drawn: f64,
    corrected: Option<Corrected>,
}

#[derive(Clone, Debug)]
struct Corrected {
    /// `Sums::cells` minus the part that the auxiliary variables explain.
    cells: Vec<f64>,
    /// Residuals by random group for the variance. A group that influences its own fit has too small a
    /// residual, so each is divided by 1 minus the group's leverage (HC3: MacKinnon and White, Journal of
    /// Econometrics 29, 1985).
    spread: Vec<f64>,
    /// Covariances between totals, from the uncertainty of the population totals; `with_rows` are the
    /// covariances with the number of records.
    total_covariances: Vec<f64>,
    size_covariances: Vec<f64>,
    slopes: Vec<[f64; 2]>,
}

impl Corrected {
    /// The variance from uncertain population totals, for the combination minus `by` times the first total
    /// of `other`.
    fn variance_of_totals(&self, coefficients: &[f64], by: f64, other: Option<&Corrected>) -> f64 {
        let products = coefficients.iter().flat_map(|a| coefficients.iter().map(move |b| a * b));
        let own: f64 = products.zip(&self.total_covariances).map(|(by, covariance)| by * covariance).sum();
        let less = other.filter(|_| by != 0.0).map_or(0.0, |other| {
            let with_size: f64 = coefficients.iter().zip(&self.size_covariances).map(|(a, b)| a * b).sum();
            by * by * other.total_covariances[0] - 2.0 * by * other.slopes[0][1] * with_size
        });
        (own + less).max(0.0)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    pub error: f64,
    pub identities: f64,
    /// Nonempty random groups minus 1, or minus 3 after regression.
    pub degrees: f64,
    /// Degrees of freedom from the groups' fourth moment; lower if a few groups dominate. For an estimated
    /// variance V they are 2 V^2 / var V (Satterthwaite, Biometrics Bulletin 2, 1946), which depends on the
    /// kurtosis of the identities' totals (Valliant and Rust, Journal of Official Statistics 26, 2010).
    pub degrees_by_kurtosis: f64,
    /// The skewness of the estimator: a record's skewness divided by the square root of their number.
    pub skewness: f64,
    /// The error from an estimated number of records. It is independent of `error`, because other records
    /// give that number.
    pub of_number: f64,
}

impl Spread {
    pub fn with_number(self, of_number: f64) -> Spread {
        Spread { of_number, ..self }
    }

    /// The total error and its skewness.
    pub fn whole(&self) -> (f64, f64) {
        let all = self.error.hypot(self.of_number);
        let part = if all > 0.0 && all.is_finite() { self.error / all } else { 1.0 };
        (all, self.skewness * part.powi(3))
    }
}

impl Sums {
    /// Empty totals; `groups` is a power of two.
    pub fn new(width: usize, groups: usize) -> Sums {
        Sums {
            width,
            groups,
            cells: Vec::new(),
            certain: vec![0.0; width],
            design: vec![],
            drawn: 0.0,
            corrected: None,
        }
    }

    /// Adds the features (one slice for each) of sampled rows.
    pub fn add(&mut self, features: &[&[f64]], rows: impl Iterator<Item = usize>, priorities: &[u64]) {
        if self.cells.is_empty() {
            self.cells = vec![0.0; self.width * self.groups];
        }
        if features.len() > self.width && self.design.is_empty() {
            self.design = vec![0.0; self.width * self.groups];
        }
        let mask = self.groups as u64 - 1;
        for row in rows {
            let group = (priorities[row] & mask) as usize;
            let cells = &mut self.cells[group * self.width..(group + 1) * self.width];
            for (total, feature) in cells.iter_mut().zip(features) {
                *total += feature[row];
            }
            if features.len() > self.width {
                self.drawn += f64::from(features[0][row] != 0.0);
                let design = &mut self.design[group * self.width..(group + 1) * self.width];
                for (total, feature) in design.iter_mut().zip(&features[self.width..]) {
                    *total += feature[row];
                }
            }
        }
    }

    /// Adds totals of the features to the certainty stratum.
    pub fn add_totals(&mut self, totals: &[f64]) {
        self.certain.iter_mut().zip(totals).for_each(|(total, more)| *total += more);
    }

    pub fn merge(&mut self, other: Sums) {
        self.certain.iter_mut().zip(&other.certain).for_each(|(total, more)| *total += more);
        if self.cells.is_empty() {
            self.cells = other.cells;
        } else {
            self.cells.iter_mut().zip(&other.cells).for_each(|(total, more)| *total += more);
        }
        self.drawn += other.drawn;
        if self.design.is_empty() {
            self.design = other.design;
        } else {
            self.design.iter_mut().zip(&other.design).for_each(|(total, more)| *total += more);
        }
    }

    /// The factor of squares between groups in the variance, and the divisor of totals.
    fn expansion(&self, p: f64) -> (f64, f64) {
        if self.design.is_empty() { (1.0 - p, p) } else { (1.0, 1.0) }
    }

    pub fn totals(&self, p: f64) -> Vec<f64> {
        self.totals_of(self.corrected.as_ref().map_or(&self.cells, |corrected| &corrected.cells), p)
    }

    fn totals_of(&self, cells: &[f64], p: f64) -> Vec<f64> {
        if cells.is_empty() {
            return self.certain.clone();
        }
        let (_, p) = self.expansion(p);
        let drawn = |feature: usize| cells.iter().skip(feature).step_by(self.width).sum::<f64>();
        self.certain.iter().enumerate().map(|(feature, certain)| certain + drawn(feature) / p).collect()
    }

    pub fn certain(&self) -> f64 {
        self.certain[0]
    }

    /// Totals of all records read, neither expanded nor corrected by regression.
    pub fn read(&self) -> Vec<f64> {
        self.totals_of(&self.cells, 1.0)
    }

    pub fn records(&self) -> f64 {
        if self.design.is_empty() { self.read()[0] } else { self.certain[0] + self.drawn }
    }

    /// A lower bound of the effective number of independent records, from random groups weighted by their
    /// records.
    pub fn independent(&self) -> f64 {
        let counts = self.cells.chunks_exact(self.width).map(|cell| cell[0]);
        let (sum, squares) = counts.fold((0.0, 0.0), |(sum, squares), n| (sum + n, squares + n * n));
        if squares > 0.0 { sum * sum / squares } else { 0.0 }
    }

    fn occupied(&self) -> f64 {
        self.cells.chunks_exact(self.width).filter(|cell| cell[0] != 0.0).count() as f64
    }

    fn spread_cells(&self) -> std::slice::ChunksExact<'_, f64> {
        let as_drawn = if self.design.is_empty() { &self.cells } else { &self.design };
        let cells = self.corrected.as_ref().map_or(as_drawn, |corrected| &corrected.spread);
        cells.chunks_exact(self.width)
    }

    pub fn is_corrected(&self) -> bool {
        self.corrected.is_some()
    }

    pub fn as_drawn(&self) -> Sums {
        Sums { corrected: None, ..self.clone() }
    }

    /// Regression on the control variate, for a sample of fraction `p` (Särndal, Swensson and Wretman,
    /// Model Assisted Survey Sampling, 1992, 6.4). `None` if it does not reduce the variance enough.
    pub fn corrected(&self, p: f64, control: &Control) -> Option<Sums> {
        if p >= 1.0 || self.occupied() < LEAST_CORRECTED || self.records() < LEAST_CORRECTED {
            return None;
        }
        // A predictor is not used if its sample total is implausibly far from its expectation. Reasons are
        // rare subregions without a sampled record, and invalid predictions.
        let likely = |numbers: Vec<f64>, totals_variance: f64| match is_likely(&numbers, p * p * totals_variance) {
            true => numbers,
            false => vec![0.0; numbers.len()],
        };
        let of_rows = likely(control.rows(p), control.size_variance);
        let fits = (0..self.width).map(|feature| {
            let drawn: Vec<f64> = self.cells.iter().skip(feature).step_by(self.width).copied().collect();
            let alone = (feature, [1.0, 0.0]);
            let expected = likely(control.expected(feature), control.variance(alone, alone));
            let fit = Fit::of(&drawn, expected, &of_rows);
            let fit = fit.or_else(|| Fit::of(&drawn, vec![0.0; self.groups], &of_rows))?;
            let totals_variance = control.variance((feature, fit.slopes), (feature, fit.slopes)) * p * p / (1.0 - p);
            Some((fit.left + totals_variance, fit))
        });
        let fits: Vec<Option<(f64, Fit)>> = fits.collect();
        // A ratio gets worse if only one of its totals uses regression: all totals use it, or none.
        if !fits.iter().flatten().any(|(left, fit)| *left < WORTH * fit.squares) {
            return None;
        }
        let (mut cells, mut spread) = (self.cells.clone(), self.cells.clone());
        let mut slopes = vec![[0.0; 2]; self.width];
        for (feature, fit) in fits.into_iter().enumerate() {
            let Some((_, fit)) = fit.filter(|(left, fit)| *left < fit.squares) else { continue };
            let [a, b] = fit.slopes;
            for (group, of_rows) in of_rows.iter().enumerate() {
                let at = group * self.width + feature;
                cells[at] -= a * fit.expected[group] + b * of_rows;
                let of_means = a * (fit.expected[group] - fit.means[0]) + b * (of_rows - fit.means[1]);
                spread[at] = (spread[at] - fit.mean - of_means) / (1.0 - fit.leverages[group]);
            }
            slopes[feature] = fit.slopes;
        }
        let pairs = (0..self.width).flat_map(|a| (0..self.width).map(move |b| (a, b)));
        let total_covariances = pairs.map(|(a, b)| control.variance((a, slopes[a]), (b, slopes[b]))).collect();
        let size_covariances = slopes.iter().enumerate().map(|(a, slopes)| control.covariance((a, *slopes))).collect();
        Some(Sums {
            corrected: Some(Corrected { cells, spread, total_covariances, size_covariances, slopes }),
            ..self.clone()
        })
    }

    pub fn numbers(&self) -> usize {
        self.width * self.groups
    }

    pub fn hollow(&self) -> Sums {
        Sums::new(self.width, self.groups)
    }

    /// Error of the linear combination `sum of coefficients * totals`.
    pub fn spread(&self, p: f64, coefficients: &[f64]) -> Spread {
        self.spread_less(p, coefficients, 0.0, self)
    }

    /// Error of the combination minus `by` times the first total of `other`, which has the same random
    /// groups.
    pub fn spread_less(&self, p: f64, coefficients: &[f64], by: f64, other: &Sums) -> Spread {
        let occupied = self.occupied();
        if p >= 1.0 {
            let endless = f64::INFINITY;
            return Spread { identities: endless, degrees: endless, degrees_by_kurtosis: endless, ..Spread::default() };
        }
        // Number of identities from the fraction of empty groups (linear counting: Whang, Vander-Zanden and
        // Taylor, ACM Transactions on Database Systems 15, 1990).
        let groups = self.groups as f64;
        let identities = groups * -(1.0 - occupied / groups).ln();
        if occupied < 2.0 {
            return Spread { error: f64::INFINITY, identities, ..Spread::default() };
        }
        let (part_drawn, divisor) = self.expansion(p);
        let combine = |(cell, less): (&[f64], &[f64])| {
            (cell.iter().zip(coefficients).map(|(total, by)| total * by).sum::<f64>() - less[0] * by) / divisor
        };
        let combined: Vec<f64> = self.spread_cells().zip(other.spread_cells()).map(combine).collect();
        let mean = combined.iter().sum::<f64>() / groups;
        let largest = combined.iter().fold(0.0, |most: f64, total| most.max((total - mean).abs()));
        let is_extreme = largest > 0.0 && largest.is_finite() && !(LEAST_PLAIN..MOST_PLAIN).contains(&largest);
        let unit = if is_extreme { largest } else { 1.0 };
        let (mut second, mut third, mut fourth) = (0.0, 0.0, 0.0);
        for total in combined {
            let away = (total - mean) / unit;
            let square = away * away;
            second += square;
            third += square * away;
            fourth += square * square;
        }
        let totals_variance = self.corrected.as_ref().map_or(0.0, |corrected| {
            corrected.variance_of_totals(coefficients, by, other.corrected.as_ref()) / unit / unit
        });
        let sampled = part_drawn * second * occupied / (occupied - 1.0);
        let variance = sampled + totals_variance;
        let part = if variance > 0.0 { sampled / variance } else { 1.0 };
        let skewness = if second > 0.0 { third / second.powf(1.5) * part.powf(1.5) } else { 0.0 };
        // Regression estimates two more coefficients from the same groups.
        let degrees = occupied - if self.is_corrected() { 3.0 } else { 1.0 };
        let by_kurtosis = 2.0 / (fourth / (second * second) - 1.0 / occupied);
        Spread {
            error: variance.sqrt() * unit,
            identities,
            degrees,
            degrees_by_kurtosis: if by_kurtosis > 0.0 { by_kurtosis.min(degrees) } else { degrees },
            skewness,
            of_number: 0.0,
        }
    }
}

/// True if the sum is within [`MOST_OFF`] standard errors of 0, with `totals_variance` added to its variance.
fn is_likely(numbers: &[f64], totals_variance: f64) -> bool {
    let sum: f64 = numbers.iter().sum();
    let mean = sum / numbers.len() as f64;
    let squares: f64 = numbers.iter().map(|number| (number - mean) * (number - mean)).sum();
    sum * sum <= MOST_OFF * MOST_OFF * (squares + totals_variance)
}

/// A least-squares fit of group totals on two predictors.
struct Fit {
    slopes: [f64; 2],
    expected: Vec<f64>,
    means: [f64; 2],
    mean: f64,
    /// Sums of squares: about the mean, and of the residuals.
    squares: f64,
    left: f64,
    leverages: Vec<f64>,
}

impl Fit {
    /// Fits; `None` without a finite, nonzero slope, or if one group has too much leverage.
    fn of(found: &[f64], expected: Vec<f64>, of_rows: &[f64]) -> Option<Fit> {
        let groups = found.len() as f64;
        let mean = |numbers: &[f64]| numbers.iter().sum::<f64>() / groups;
        let (of_found, means) = (mean(found), [mean(&expected), mean(of_rows)]);
        let [mut squares, mut aa, mut ab, mut bb, mut with_a, mut with_b] = [0.0; 6];
        for ((found, a), b) in found.iter().zip(&expected).zip(of_rows) {
            let (found, a, b) = (found - of_found, a - means[0], b - means[1]);
            squares += found * found;
            (aa, ab, bb) = (aa + a * a, ab + a * b, bb + b * b);
            (with_a, with_b) = (with_a + found * a, with_b + found * b);
        }
        let inverse = |square: f64| if square > 0.0 { 1.0 / square } else { 0.0 };
        let determinant = aa * bb - ab * ab;
        // Inverse of the normal matrix. If the predictors are collinear, only the better one is used.
        let [aa, ab, bb] = match determinant > LEAST_APART * aa * bb {
            true => [bb / determinant, -ab / determinant, aa / determinant],
            false if with_a * with_a * inverse(aa) > with_b * with_b * inverse(bb) => [inverse(aa), 0.0, 0.0],
            false => [0.0, 0.0, inverse(bb)],
        };
        let slopes = [aa * with_a + ab * with_b, ab * with_a + bb * with_b];
        let leverages = expected.iter().zip(of_rows).map(|(a, b)| {
            let (a, b) = (a - means[0], b - means[1]);
            aa * a * a + 2.0 * ab * a * b + bb * b * b
        });
        let leverages: Vec<f64> = leverages.collect();
        let is_told = slopes.iter().all(|slope| slope.is_finite()) && slopes != [0.0; 2];
        let is_of_many = leverages.iter().all(|leverage| *leverage <= MOST_LEVERAGE);
        let left = squares - slopes[0] * with_a - slopes[1] * with_b;
        (is_told && is_of_many).then_some(Fit { slopes, expected, means, mean: of_found, squares, left, leverages })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    /// The mean of the estimated variances over many draws matches the exact Horvitz-Thompson variance.
    #[test]
    fn variances_are_those_between_identities() {
        let mut random = SmallRng::seed_from_u64(7);
        for (identities, size, p) in [(400usize, 1usize, 0.1f64), (400, 1, 0.6), (300, 7, 0.2), (5000, 3, 0.3)] {
            let values: Vec<f64> = (0..identities).map(|_| random.random_range(0.0..2.0)).collect();
            let truth: f64 = values.iter().map(|y| (y * size as f64).powi(2)).sum::<f64>() * (1.0 - p) / p;
            let (draws, mut mean) = (400, 0.0);
            for _ in 0..draws {
                let mut sums = Sums::new(2, 1024);
                for value in &values {
                    let priority: u64 = random.random();
                    if (priority as f64) < p * 2f64.powi(64) {
                        let rows = vec![*value; size];
                        sums.add(&[&vec![1.0; size], &rows], 0..size, &vec![priority; size]);
                    }
                }
                mean += sums.spread(p, &[0.0, 1.0]).error.powi(2) / draws as f64;
            }
            assert!((mean / truth - 1.0).abs() < 0.06, "{identities} of {size} at {p}: {}", mean / truth);
        }
    }

    fn spread_of(values: &[f64]) -> Spread {
        let mut random = SmallRng::seed_from_u64(5);
        let mut sums = Sums::new(2, 256);
        for value in values {
            sums.add(&[&[1.0; 5], &[*value; 5]], 0..5, &[random.random(); 5]);
        }
        let n = 5.0 * values.len() as f64 / 0.01;
        sums.spread(0.01, &[-values.iter().sum::<f64>() / values.len() as f64 / n, 1.0 / n])
    }

    #[test]
    fn identities_are_counted_by_the_groups_that_they_fall_into() {
        for count in [10usize, 40, 150] {
            let found = spread_of(&(0..count).map(|value| value as f64).collect::<Vec<f64>>()).identities;
            assert!((found / count as f64 - 1.0).abs() < 0.1, "{found} are not {count}");
        }
    }

    #[test]
    fn few_degrees_of_freedom_are_left_where_one_identity_decides() {
        let even = spread_of(&(0..40).map(f64::from).collect::<Vec<f64>>());
        assert_eq!(even.degrees_by_kurtosis, even.degrees);
        let decided = spread_of(&(0..40).map(|value| f64::from(value == 7)).collect::<Vec<f64>>());
        assert!(decided.degrees > 30.0 && decided.degrees_by_kurtosis < 3.0, "{decided:?}");
    }

    #[test]
    fn a_ratio_is_a_combination() {
        let mut random = SmallRng::seed_from_u64(9);
        let mut sums = Sums::new(2, 256);
        for _ in 0..2000 {
            let value: f64 = random.random_range(1.0..3.0);
            sums.add(&[&[1.0], &[value]], 0..1, &[random.random()]);
        }
        let (inside, centers): (Vec<f64>, _) =
            (sums.cells.chunks_exact(2).map(|cell| 0.9 * cell[0]).collect(), [1.0, 2.0]);
        let cells: Vec<f64> = sums.cells.iter().map(|sum| 0.9 * sum).collect();
        let control = Control::of_test(&cells, &centers, &inside, 90_000.0);
        let corrected = sums.corrected(0.02, &control).unwrap();
        for by in [0.0, 0.7, 2.0] {
            let (one, other) = (
                corrected.spread_less(0.02, &[0.3, 1.0], by, &corrected).error,
                corrected.spread(0.02, &[0.3 - by, 1.0]).error,
            );
            assert!((one / other - 1.0).abs() < 1e-9, "{one} {other} by {by}");
        }
        assert!(corrected.spread(0.02, &[0.0, 1.0]).error < 0.4 * sums.spread(0.02, &[0.0, 1.0]).error);
    }

    /// If no record of the predicted subregions was drawn, the prediction is not used.
    #[test]
    fn what_was_not_drawn_has_no_say() {
        let (mut random, mut sums) = (SmallRng::seed_from_u64(10), Sums::new(2, 256));
        for _ in 0..2000 {
            sums.add(&[&[1.0], &[random.random_range(1.0..3.0)]], 0..1, &[random.random()]);
        }
        let inside: Vec<f64> = sums.cells.chunks_exact(2).map(|cell| cell[0]).collect();
        let (cells, centers) = (vec![0.0; 512], [0.002, 0.004]);
        let corrected = sums.corrected(0.02, &Control::of_test(&cells, &centers, &inside, 100_500.0)).unwrap();
        let (found, all) = (sums.totals(0.02), corrected.totals(0.02));
        assert!((all[0] - 100_500.0).abs() < 1.0 && (all[1] / found[1] - 1.005).abs() < 0.01, "{all:?} of {found:?}");
    }

    #[test]
    fn certain_records_have_no_spread() {
        let mut sums = Sums::new(2, 64);
        sums.add_totals(&[3.0, 15.0]);
        assert_eq!(sums.totals(0.1), [3.0, 15.0]);
        let mut drawn = Sums::new(2, 64);
        drawn.add(&[&[1.0; 2], &[1.0, 2.0]], 0..2, &[1, 2]);
        sums.merge(drawn);
        assert_eq!(sums.totals(0.1), [23.0, 45.0]);
        assert_eq!(sums.spread(1.0, &[0.0, 1.0]).error, 0.0);
        assert_eq!(sums.records(), 5.0);
    }
}
