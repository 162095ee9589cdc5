//! Totals of a sample, and how far they may be from the truth.
//!
//! A record is in the sample if its priority is below p, so each identity is drawn by
//! itself with probability p: a Bernoulli (Poisson) sample, whose totals divided by p are
//! unbiased (Horvitz and Thompson, JASA 47, 1952). Records of one identity come together,
//! so the spread is measured between identities, not records: each identity falls, by the
//! lowest bits of its priority, into one of many random groups, and the spread of the
//! groups' totals gives the variance of any smooth function of totals (random groups and
//! linearisation: Wolter, Introduction to Variance Estimation, 2007, chapters 2 and 6).
//! With groups g and totals t_g of a linear combination the estimate is
//! `(1 - p) / p^2 * sum (t_g - mean t)^2`, times m / (m - 1) for the m groups that hold
//! records; its expectation is that of Horvitz and Thompson's estimate over identities.

/// Totals of some features of records; the first feature counts records.
#[derive(Clone, Debug)]
pub struct Sums {
    width: usize,
    groups: usize,
    /// `cells[group * width + feature]`; empty until a record is drawn by chance.
    cells: Vec<f64>,
    /// Of records that are there for certain.
    certain: Vec<f64>,
}

/// How far an estimate may be from the truth.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    pub error: f64,
    /// About how many identities were drawn.
    pub identities: f64,
    /// Degrees of freedom of the error: random groups with records, less one.
    pub degrees: f64,
    /// The same by the groups' fourth moment: fewer, where a few groups make up most of the
    /// error. They are 2 V^2 / var V for an estimated variance V (Satterthwaite, Biometrics
    /// Bulletin 2, 1946), which depends on the kurtosis of the identities' totals (Valliant and
    /// Rust, Journal of Official Statistics 26, 2010).
    pub degrees_by_kurtosis: f64,
    /// Of the estimate's own distribution: that of a record, divided by the root of their
    /// number.
    pub skewness: f64,
    /// What is added to the error because the number of records that it rests on has one of its own,
    /// which comes from other records.
    pub of_number: f64,
}

impl Spread {
    /// The same, with an error that comes from the number of records.
    pub fn with_number(self, of_number: f64) -> Spread {
        Spread { of_number, ..self }
    }

    /// The error in all, and the skewness that belongs to it.
    pub fn whole(&self) -> (f64, f64) {
        let all = self.error.hypot(self.of_number);
        let part = if all > 0.0 && all.is_finite() { self.error / all } else { 1.0 };
        (all, self.skewness * part.powi(3))
    }
}

impl Sums {
    /// `groups` is a power of two.
    pub fn new(width: usize, groups: usize) -> Sums {
        Sums { width, groups, cells: Vec::new(), certain: vec![0.0; width] }
    }

    /// Adds records with a feature each a column: where `priorities` are given they were
    /// drawn by chance, otherwise they are certain. Records that are not `kept` are left out.
    pub fn add(&mut self, features: &[&[f64]], rows: impl Iterator<Item = usize>, priorities: Option<&[u64]>) {
        let Some(priorities) = priorities else {
            for row in rows {
                for (total, feature) in self.certain.iter_mut().zip(features) {
                    *total += feature[row];
                }
            }
            return;
        };
        if self.cells.is_empty() {
            self.cells = vec![0.0; self.width * self.groups];
        }
        let mask = self.groups as u64 - 1;
        for row in rows {
            let group = (priorities[row] & mask) as usize;
            let cells = &mut self.cells[group * self.width..(group + 1) * self.width];
            for (total, feature) in cells.iter_mut().zip(features) {
                *total += feature[row];
            }
        }
    }

    pub fn merge(&mut self, other: Sums) {
        self.certain.iter_mut().zip(&other.certain).for_each(|(total, more)| *total += more);
        if self.cells.is_empty() {
            self.cells = other.cells;
        } else {
            self.cells.iter_mut().zip(&other.cells).for_each(|(total, more)| *total += more);
        }
    }

    /// Estimates of the totals, from a sample of share `p`.
    pub fn totals(&self, p: f64) -> Vec<f64> {
        if self.cells.is_empty() {
            return self.certain.clone();
        }
        let drawn = |feature: usize| self.cells.iter().skip(feature).step_by(self.width).sum::<f64>();
        self.certain.iter().enumerate().map(|(feature, certain)| certain + drawn(feature) / p).collect()
    }

    /// Records that are there for certain.
    pub fn certain(&self) -> f64 {
        self.certain[0]
    }

    /// Records that were read.
    pub fn records(&self) -> f64 {
        self.totals(1.0)[0]
    }

    /// How many independent records the drawn ones stand for at least: as many as there are
    /// random groups, weighed by their records.
    pub fn independent(&self) -> f64 {
        let counts = self.cells.chunks_exact(self.width).map(|cell| cell[0]);
        let (sum, squares) = counts.fold((0.0, 0.0), |(sum, squares), n| (sum + n, squares + n * n));
        if squares > 0.0 { sum * sum / squares } else { 0.0 }
    }

    /// How many numbers it holds, once records are drawn.
    pub fn numbers(&self) -> usize {
        self.width * self.groups
    }

    /// The same features and groups, with nothing in them.
    pub fn hollow(&self) -> Sums {
        Sums::new(self.width, self.groups)
    }

    /// The spread of the linear combination `sum of coefficients * totals`.
    pub fn spread(&self, p: f64, coefficients: &[f64]) -> Spread {
        self.spread_less(p, coefficients, 0.0, self)
    }

    /// The same less `by` times the first total of other sums over the same random groups.
    pub fn spread_less(&self, p: f64, coefficients: &[f64], by: f64, other: &Sums) -> Spread {
        let cells = self.cells.chunks_exact(self.width);
        let occupied = cells.clone().filter(|cell| cell[0] != 0.0).count() as f64;
        if p >= 1.0 {
            let endless = f64::INFINITY;
            return Spread { identities: endless, degrees: endless, degrees_by_kurtosis: endless, ..Spread::default() };
        }
        // By the share of groups that are empty (linear counting: Whang, Vander-Zanden and
        // Taylor, ACM Transactions on Database Systems 15, 1990).
        let groups = self.groups as f64;
        let identities = groups * -(1.0 - occupied / groups).ln();
        if occupied < 2.0 {
            return Spread { error: f64::INFINITY, identities, ..Spread::default() };
        }
        let combine = |(cell, less): (&[f64], &[f64])| {
            (cell.iter().zip(coefficients).map(|(total, by)| total * by).sum::<f64>() - less[0] * by) / p
        };
        let pairs = cells.zip(other.cells.chunks_exact(other.width));
        let mean = pairs.clone().map(combine).sum::<f64>() / groups;
        let (mut second, mut third, mut fourth) = (0.0, 0.0, 0.0);
        for pair in pairs {
            let away = combine(pair) - mean;
            let square = away * away;
            second += square;
            third += square * away;
            fourth += square * square;
        }
        let variance = (1.0 - p) * second * occupied / (occupied - 1.0);
        let skewness = if second > 0.0 { third / second.powf(1.5) } else { 0.0 };
        let degrees = occupied - 1.0;
        let by_kurtosis = 2.0 / (fourth / (second * second) - 1.0 / occupied);
        Spread {
            error: variance.sqrt(),
            identities,
            degrees,
            degrees_by_kurtosis: if by_kurtosis > 0.0 { by_kurtosis.min(degrees) } else { degrees },
            skewness,
            of_number: 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    /// Draws identities of `size` records each and compares the estimated variance of their
    /// total with Horvitz and Thompson's own, over many draws.
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
                        sums.add(&[&vec![1.0; size], &rows], 0..size, Some(&vec![priority; size]));
                    }
                }
                mean += sums.spread(p, &[0.0, 1.0]).error.powi(2) / draws as f64;
            }
            assert!((mean / truth - 1.0).abs() < 0.06, "{identities} of {size} at {p}: {}", mean / truth);
        }
    }

    /// The spread of one value for each of some identities of five records.
    fn spread_of(values: &[f64]) -> Spread {
        let mut random = SmallRng::seed_from_u64(5);
        let mut sums = Sums::new(2, 256);
        for value in values {
            sums.add(&[&[1.0; 5], &[*value; 5]], 0..5, Some(&[random.random(); 5]));
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
    fn certain_records_have_no_spread() {
        let mut sums = Sums::new(2, 64);
        sums.add(&[&[1.0; 3], &[2.0, 4.0, 9.0]], 0..3, None);
        assert_eq!(sums.totals(0.1), [3.0, 15.0]);
        let mut drawn = Sums::new(2, 64);
        drawn.add(&[&[1.0; 2], &[1.0, 2.0]], 0..2, Some(&[1, 2]));
        sums.merge(drawn);
        assert_eq!(sums.totals(0.1), [23.0, 45.0]);
        assert_eq!(sums.spread(1.0, &[0.0, 1.0]).error, 0.0);
        assert_eq!(sums.records(), 5.0);
    }
}
