//! Quantiles: the values of a sample, of which only those near the quantile are kept.
//!
//! The interval comes from order statistics: the share of values below the quantile is a
//! share like any other, its interval is one of ranks, and the values at those ranks are
//! the ends (Woodruff, JASA 47, 1952; for independent records these are the exact
//! binomial intervals). Where records of one identity come together the number of records
//! is replaced by the number of independent ones that would spread as much (Korn and
//! Graubard, Survey Methodology 24, 1998).

use super::distribution::share;

/// So many values are kept as they are.
const KEPT: usize = 1 << 22;
/// Beyond, those within so many standard errors of the quantile.
const SAFE: f64 = 10.0;

#[derive(Clone, Debug)]
pub struct Ordered {
    share: f64,
    groups: usize,
    /// Value and random group.
    values: Vec<(f64, u16)>,
    /// Once there are too many: only values inside are kept, the others counted by group.
    bracket: Option<(f64, f64)>,
    below: Vec<f64>,
    above: Vec<f64>,
}

/// A quantile of a sample, and the ends of its interval; infinite where the sample is too
/// small to say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rank {
    pub value: Option<f64>,
    pub low: f64,
    pub high: f64,
}

impl Ordered {
    pub fn new(share: f64, groups: usize) -> Ordered {
        Ordered { share, groups, values: vec![], bracket: None, below: vec![], above: vec![] }
    }

    pub fn add(&mut self, values: &[f64], rows: impl Iterator<Item = usize>, priorities: Option<&[u64]>) {
        let mask = self.groups as u64 - 1;
        for row in rows {
            let value = values[row];
            if !value.is_nan() {
                let group = priorities.map_or(0, |priorities| (priorities[row] & mask) as u16);
                self.put(value, group);
            }
        }
        self.thin();
    }

    fn put(&mut self, value: f64, group: u16) {
        match self.bracket {
            Some((low, _)) if value < low => self.below[group as usize] += 1.0,
            Some((_, high)) if value > high => self.above[group as usize] += 1.0,
            _ => self.values.push((value, group)),
        }
    }

    pub fn merge(&mut self, other: Ordered) {
        if self.bracket.is_none() && other.bracket.is_some() {
            let mine = std::mem::replace(self, other);
            return self.merge(mine);
        }
        // Of two brackets the second is counted value by value; what it only counted lies
        // beyond its ends, and its bracket is as safe as ours.
        other.values.into_iter().for_each(|(value, group)| self.put(value, group));
        let add = |mine: &mut Vec<f64>, theirs: &[f64]| mine.iter_mut().zip(theirs).for_each(|(a, b)| *a += b);
        add(&mut self.below, &other.below);
        add(&mut self.above, &other.above);
        self.thin();
    }

    pub fn records(&self) -> f64 {
        self.values.len() as f64 + self.below.iter().sum::<f64>() + self.above.iter().sum::<f64>()
    }

    /// Lets go of values that cannot be the quantile or an end of its interval.
    fn thin(&mut self) {
        if self.values.len() <= KEPT {
            return;
        }
        let n = self.records();
        let at = self.order(self.share);
        let half = SAFE * (self.share * (1.0 - self.share) * self.inflation(at) / n).sqrt();
        let (low, high) = (self.order(self.share - half), self.order(self.share + half));
        self.bracket = Some((low, high));
        self.below.resize(self.groups, 0.0);
        self.above.resize(self.groups, 0.0);
        let all = std::mem::take(&mut self.values);
        all.into_iter().for_each(|(value, group)| self.put(value, group));
    }

    /// The value below which a share of all values lies, between neighbours by proportion
    /// (Hyndman and Fan's type 7).
    fn order(&mut self, share: f64) -> f64 {
        let rank = (self.records() - 1.0) * share.clamp(0.0, 1.0) - self.below.iter().sum::<f64>();
        self.at(rank)
    }

    /// The value at a rank among those kept, from 0.
    fn at(&mut self, rank: f64) -> f64 {
        let last = self.values.len() - 1;
        let rank = rank.clamp(0.0, last as f64);
        let place = rank as usize;
        let (_, (value, _), after) = self.values.select_nth_unstable_by(place, |a, b| a.0.total_cmp(&b.0));
        let (value, part) = (*value, rank.fract());
        if part == 0.0 {
            return value;
        }
        let next = after.iter().map(|(value, _)| *value).fold(f64::INFINITY, f64::min);
        value + part * (next - value)
    }

    /// How much more the share below `at` spreads between groups than if records were
    /// independent.
    fn inflation(&self, at: f64) -> f64 {
        let (mut below, mut all) = (self.below.clone(), self.above.clone());
        below.resize(self.groups, 0.0);
        all.resize(self.groups, 0.0);
        all.iter_mut().zip(&below).for_each(|(all, below)| *all += below);
        for (value, group) in &self.values {
            all[*group as usize] += 1.0;
            below[*group as usize] += (*value <= at) as u8 as f64;
        }
        let (n, occupied) = (all.iter().sum::<f64>(), all.iter().filter(|count| **count > 0.0).count() as f64);
        let share = below.iter().sum::<f64>() / n;
        let independent = n * share * (1.0 - share);
        if occupied < 2.0 || independent <= 0.0 {
            return 1.0;
        }
        let spread: f64 = below.iter().zip(&all).map(|(below, all)| (below - share * all).powi(2)).sum();
        spread * occupied / (occupied - 1.0) / independent
    }

    /// The quantile from a sample of share `p`, with confidence `1 - alpha`.
    pub fn quantile(&mut self, p: f64, alpha: f64, clustered: bool) -> Rank {
        if self.values.is_empty() {
            return Rank { value: None, low: f64::NEG_INFINITY, high: f64::INFINITY };
        }
        let value = self.order(self.share);
        if p >= 1.0 {
            return Rank { value: Some(value), low: value, high: value };
        }
        let n = self.records();
        let inflation = if clustered { self.inflation(value).max(0.01) } else { 1.0 };
        let independent = n / inflation / (1.0 - p);
        let (low, high) = share(self.share * independent, independent, alpha);
        let below = self.below.iter().sum::<f64>();
        // One record further out on either side: ranks are whole.
        let (first, last) = ((n * low).floor() - 1.0, (n * high).ceil());
        let low = if first < 0.0 { f64::NEG_INFINITY } else { self.at(first - below) };
        let high = if last > n - 1.0 { f64::INFINITY } else { self.at(last - below) };
        Rank { value: Some(value), low, high }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn a_whole_population_has_its_own_quantiles() {
        let values: Vec<f64> = (0..101).rev().map(f64::from).collect();
        for (share, expected) in [(0.0, 0.0), (0.5, 50.0), (0.25, 25.0), (0.999, 99.9), (1.0, 100.0)] {
            let mut ordered = Ordered::new(share, 1024);
            ordered.add(&values, 0..101, None);
            let rank = ordered.quantile(1.0, 0.05, false);
            assert!((rank.value.unwrap() - expected).abs() < 1e-9 && rank.low == rank.high, "{rank:?}");
        }
    }

    #[test]
    fn ends_are_order_statistics() {
        // The classic: for the median of 100 independent values, the 40th and the 61st.
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        let mut ordered = Ordered::new(0.5, 1024);
        ordered.add(&values, 0..100, Some(&vec![0; 100]));
        let rank = ordered.quantile(1e-9, 0.05, false);
        assert!((39.0..=40.0).contains(&rank.low) && (61.0..=62.0).contains(&rank.high), "{rank:?}");
        let mut few = Ordered::new(0.99, 1024);
        few.add(&values[..10], 0..10, Some(&[0; 10]));
        assert_eq!(few.quantile(0.01, 0.05, false).high, f64::INFINITY);
    }

    #[test]
    fn thinning_changes_no_answer() {
        let mut random = SmallRng::seed_from_u64(3);
        let (mut thinned, mut all) = (Ordered::new(0.9, 1024), Vec::new());
        for _ in 0..3 {
            let values: Vec<f64> = (0..2_000_000).map(|_| random.random::<f64>().powi(3)).collect();
            let priorities: Vec<u64> = values.iter().map(|_| random.random()).collect();
            let mut part = Ordered::new(0.9, 1024);
            part.add(&values, 0..values.len(), Some(&priorities));
            thinned.merge(part);
            all.extend(values);
        }
        assert!(thinned.values.len() < 100_000, "{}", thinned.values.len());
        all.sort_by(f64::total_cmp);
        let rank = thinned.quantile(1.0, 0.05, false);
        let place = 0.9 * (all.len() - 1) as f64;
        let (low, high) = (all[place as usize], all[place as usize + 1]);
        assert!((low..=high).contains(&rank.value.unwrap()));
        let sampled = thinned.quantile(0.5, 0.05, true);
        assert!(sampled.low < low && high < sampled.high);
    }
}
