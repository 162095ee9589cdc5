//! Quantiles and the median, from the sampled values near the quantile.
//!
//! The proportion of values below the quantile has a confidence interval (exact binomial for independent
//! records). The values at its two ranks are the bounds of the quantile's interval (Woodruff, JASA 47, 1952).
//! For clustered samples, an effective sample size replaces the number of records (Korn and Graubard, Survey
//! Methodology 24, 1998).

use std::cmp::Ordering;

use arrow_buffer::i256;
use arrow_schema::DataType;

use crate::aggregate::{
    Accumulator, Aggregate, AggregateValue, Bound, Definition, Pilot, Properties, Records, Rows, same,
};
use crate::call::Call;
use crate::distribution::share;
use crate::interval::{Conditions, Interval};
use crate::own::{self, unit};
use crate::unit::UnitRule;

pub const DEFINITION: Definition = Definition {
    listed: "median, p95 (or any pNN), quantile(x, q)",
    documented: ["`median(x)`, `p95(x)`, `quantile(x, q)`", "linear interpolation, as in numpy", "order statistics"],
    is_named: |name| matches!(name, "median" | "quantile") || percent(name).is_some(),
    bind,
};

fn bind(call: &Call) -> Result<Bound, String> {
    let share = match call.name.as_str() {
        "quantile" => {
            call.takes(2..=2, "a value and a share, like quantile(x, 0.95)")?;
            let share = call.number(1)?;
            if !(0.0..=1.0).contains(&share) {
                return Err(format!("the share must be in [0, 1], found {share}"));
            }
            share
        }
        name => {
            call.takes(1..=1, "one argument")?;
            percent(name).unwrap_or(50.0) / 100.0
        }
    };
    let arguments = call.expressions(1)?;
    let own = arguments[0].whole_type().filter(own::is_narrow).map(own::of);
    let quantile = Quantile { share, divisor: own.as_ref().map_or(1.0, unit), values: Values::of(own.as_ref()) };
    let bound = Bound::new(arguments, quantile);
    Ok(match own {
        Some(own) => bound.of_wholes(own),
        None => bound,
    })
}

/// Returns 95 for `p95`, and `None` for the median.
fn percent(name: &str) -> Option<f64> {
    let percent = name.strip_prefix('p')?.parse::<f64>().ok()?;
    (0.0..=100.0).contains(&percent).then_some(percent)
}

#[derive(Clone, Debug)]
struct Quantile {
    share: f64,
    divisor: f64,
    values: Values,
}

#[derive(Clone, Copy, Debug)]
enum Values {
    Floats,
    Wholes,
    Wide,
}

impl Values {
    fn of(whole: Option<&DataType>) -> Values {
        match whole {
            None => Values::Floats,
            Some(DataType::UInt64 | DataType::Decimal128(..) | DataType::Decimal256(..)) => Values::Wide,
            Some(_) => Values::Wholes,
        }
    }
}

impl Aggregate for Quantile {
    fn properties(&self) -> Properties {
        Properties { lies_among_values: true, unit: UnitRule::First, ..Properties::default() }
    }

    fn accumulator(&self, pilot: &Pilot) -> Box<dyn Accumulator> {
        let (share, groups, divisor) = (self.share, pilot.groups, self.divisor);
        match self.values {
            Values::Floats => Box::new(Ordered::<f64>::new(share, groups, divisor)),
            Values::Wholes => Box::new(Ordered::<i64>::new(share, groups, divisor)),
            Values::Wide => Box::new(Ordered::<i128>::new(share, groups, divisor)),
        }
    }
}

/// Limit of stored values over all groups, and the smallest limit of a group.
const KEPT: usize = 1 << 20;
const KEPT_OF_GROUP: usize = 1 << 14;
/// Above the limit, values farther than this many standard errors from the quantile are discarded.
const SAFE: f64 = 10.0;

trait Ranked: Copy + std::fmt::Debug + Send + Sync + 'static {
    fn of(records: &Records, row: usize) -> Option<Self>;

    fn order(&self, other: &Self) -> Ordering;

    /// Interpolates between this value and the next; integers round to the nearest.
    fn towards(self, next: Self, part: f64) -> Self;

    fn number(self) -> f64;

    fn whole(self) -> Option<i256>;
}

impl Ranked for f64 {
    fn of(records: &Records, row: usize) -> Option<f64> {
        Some(records.features[0][row]).filter(|value| !value.is_nan())
    }

    fn order(&self, other: &f64) -> Ordering {
        self.total_cmp(other)
    }

    fn towards(self, next: f64, part: f64) -> f64 {
        let distance = next - self;
        match distance.is_finite() {
            true => self + part * distance,
            // The difference overflows, or a value is infinite.
            false if self == next => self,
            false => self * (1.0 - part) + next * part,
        }
    }

    fn number(self) -> f64 {
        self
    }

    fn whole(self) -> Option<i256> {
        None
    }
}

macro_rules! ranked_wholes {
    ($($whole:ty, $distance:ty);*) => {$(
        impl Ranked for $whole {
            fn of(records: &Records, row: usize) -> Option<$whole> {
                records.wholes?.get(row).map(|value| value as $whole)
            }

            fn order(&self, other: &$whole) -> Ordering {
                self.cmp(other)
            }

            fn towards(self, next: $whole, part: f64) -> $whole {
                // A float can represent the difference of two large integers.
                let way = part * next.abs_diff(self) as f64;
                let (down, rest) = (self.saturating_add_unsigned(way.floor() as $distance), way.fract());
                let up = rest > 0.5 || (rest == 0.5 && down % 2 != 0);
                down.saturating_add(up.into()).min(next)
            }

            fn number(self) -> f64 {
                self as f64
            }

            fn whole(self) -> Option<i256> {
                Some(i256::from_i128(self.into()))
            }
        }
    )*};
}
ranked_wholes!(i64, u64; i128, u128);

#[derive(Clone, Debug)]
struct Ordered<T> {
    share: f64,
    groups: usize,
    divisor: f64,
    values: Vec<(T, u16)>,
    /// The range of stored values, once there are too many. Values outside are only counted, by random group.
    bracket: Option<(T, T)>,
    below: Vec<f64>,
    above: Vec<f64>,
    /// The number of values left by the last thinning.
    left: usize,
}

/// The quantile and the bounds of its interval; `None` if the sample is too small.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rank<T> {
    pub value: Option<T>,
    pub low: Option<T>,
    pub high: Option<T>,
}

impl<T: Ranked> Ordered<T> {
    fn new(share: f64, groups: usize, divisor: f64) -> Ordered<T> {
        Ordered { share, groups, divisor, values: vec![], bracket: None, below: vec![], above: vec![], left: 0 }
    }

    fn emptied(&self) -> Ordered<T> {
        let none = vec![0.0; self.below.len()];
        let empty = Ordered::new(self.share, self.groups, self.divisor);
        Ordered { bracket: self.bracket, below: none.clone(), above: none, ..empty }
    }

    fn add_values(
        &mut self,
        value: impl Fn(usize) -> Option<T>,
        rows: impl Iterator<Item = usize>,
        priorities: Option<&[u64]>,
    ) {
        let mask = self.groups as u64 - 1;
        for row in rows {
            if let Some(value) = value(row) {
                let group = priorities.map_or(0, |priorities| (priorities[row] & mask) as u16);
                self.put(value, group);
            }
        }
    }

    fn put(&mut self, value: T, group: u16) {
        match self.bracket {
            Some((low, _)) if value.order(&low).is_lt() => self.below[group as usize] += 1.0,
            Some((_, high)) if value.order(&high).is_gt() => self.above[group as usize] += 1.0,
            _ => self.values.push((value, group)),
        }
    }

    fn join(&mut self, other: Ordered<T>) {
        other.values.into_iter().for_each(|(value, group)| self.put(value, group));
        let add = |mine: &mut Vec<f64>, theirs: &[f64]| mine.iter_mut().zip(theirs).for_each(|(a, b)| *a += b);
        add(&mut self.below, &other.below);
        add(&mut self.above, &other.above);
    }

    fn records(&self) -> f64 {
        self.values.len() as f64 + self.below.iter().sum::<f64>() + self.above.iter().sum::<f64>()
    }

    /// If one of `states` accumulators has too many values, discards those that can be neither the quantile
    /// nor a bound of its interval. The stored values must be a uniform sample: values from one region would
    /// not represent the others.
    fn narrow(&mut self, states: usize) {
        let most = (KEPT / states.max(1)).max(KEPT_OF_GROUP).max(2 * self.left);
        if self.values.len() <= most {
            return;
        }
        let n = self.records();
        let Some(at) = self.order(self.share) else { return };
        let half = SAFE * (self.share * (1.0 - self.share) * self.inflation(at) / n).sqrt();
        let (Some(low), Some(high)) = (self.order(self.share - half), self.order(self.share + half)) else { return };
        self.bracket = Some((low, high));
        self.below.resize(self.groups, 0.0);
        self.above.resize(self.groups, 0.0);
        let all = std::mem::take(&mut self.values);
        all.into_iter().for_each(|(value, group)| self.put(value, group));
        self.left = self.values.len();
    }

    /// Linear interpolation (type 7 of Hyndman and Fan, American Statistician 50, 1996).
    fn order(&mut self, share: f64) -> Option<T> {
        self.at((self.records() - 1.0) * share.clamp(0.0, 1.0))
    }

    /// The value at a rank, counted from 0; `None` if it was discarded.
    fn at(&mut self, rank: f64) -> Option<T> {
        let rank = rank - self.below.iter().sum::<f64>();
        let last = self.values.len().checked_sub(1)? as f64;
        if rank < -1e-6 || rank > last + 1e-6 {
            return None;
        }
        let rank = rank.clamp(0.0, last);
        let below = rank as usize;
        let (_, (value, _), after) = self.values.select_nth_unstable_by(below, |a, b| a.0.order(&b.0));
        let (value, part) = (*value, rank.fract());
        if part == 0.0 {
            return Some(value);
        }
        let next = after.iter().map(|(value, _)| *value).min_by(T::order);
        Some(next.map_or(value, |next| value.towards(next, part)))
    }

    /// The design effect: the variance between random groups of the proportion below `at`, relative to
    /// independent records. Returns the larger effect, with or without values equal to `at`.
    fn inflation(&self, at: T) -> f64 {
        let fill = |counts: &[f64]| -> Vec<f64> {
            let mut filled = counts.to_vec();
            filled.resize(self.groups, 0.0);
            filled
        };
        let (mut less, mut all) = (fill(&self.below), fill(&self.above));
        all.iter_mut().zip(&less).for_each(|(all, below)| *all += below);
        let mut less_or_equal = less.clone();
        for (value, group) in &self.values {
            all[*group as usize] += 1.0;
            less[*group as usize] += value.order(&at).is_lt() as u8 as f64;
            less_or_equal[*group as usize] += value.order(&at).is_le() as u8 as f64;
        }
        let (n, occupied) = (all.iter().sum::<f64>(), all.iter().filter(|count| **count > 0.0).count() as f64);
        let of = |below: &[f64]| {
            let share = below.iter().sum::<f64>() / n;
            let independent = n * share * (1.0 - share);
            let spread: f64 = below.iter().zip(&all).map(|(below, all)| (below - share * all).powi(2)).sum();
            if independent > 0.0 { spread * occupied / (occupied - 1.0) / independent } else { 0.0 }
        };
        // If all records of every group are on one side, each group counts as one record.
        let cluster_size = all.iter().map(|count| count * count).sum::<f64>() / n.max(1.0);
        match (occupied >= 2.0, of(&less).max(of(&less_or_equal))) {
            (true, inflation) if inflation > 0.0 => inflation,
            _ => cluster_size.max(1.0),
        }
    }

    fn quantile(&mut self, p: f64, alpha: f64, clustered: bool) -> Rank<T> {
        let Some(value) = self.order(self.share) else { return Rank { value: None, low: None, high: None } };
        if p >= 1.0 {
            return Rank { value: Some(value), low: Some(value), high: Some(value) };
        }
        let n = self.records();
        let inflation = if clustered { self.inflation(value) } else { 1.0 };
        let independent = n / inflation / (1.0 - p);
        let (low, high) = share(self.share * independent, independent, alpha);
        // Ranks are integers, so widen by one independent record.
        let alike = inflation.max(1.0);
        let low = self.at((n * low).floor() - alike);
        let high = self.at((n * high).ceil() + alike - 1.0);
        Rank { value: Some(value), low, high }
    }
}

impl<T: Ranked> Accumulator for Ordered<T> {
    fn add(&mut self, records: &Records, rows: Rows, priorities: Option<&[u64]>) {
        self.add_values(|row| T::of(records, row), rows, priorities);
    }

    fn merge(&mut self, other: Box<dyn Accumulator>) {
        self.join(same(other));
    }

    fn hollow(&self) -> Box<dyn Accumulator> {
        Box::new(self.emptied())
    }

    fn figures(&mut self, conditions: &Conditions) -> Vec<AggregateValue> {
        let Rank { value, low, high } = self.quantile(conditions.p, conditions.alpha, conditions.clustered);
        let number = |value: T| value.number() / self.divisor;
        let interval = Interval {
            value: value.map(number),
            low: low.map_or(f64::NEG_INFINITY, number),
            high: high.map_or(f64::INFINITY, number),
            ..Interval::unknown()
        };
        let own = [value, low, high].map(|value| value.and_then(T::whole));
        match own[0] {
            Some(_) => AggregateValue::exactly(interval, own, self.records()),
            None => AggregateValue::new(interval, self.records()),
        }
    }

    fn thin(&mut self, groups: usize) {
        self.narrow(groups);
    }

    fn keeps_all(&self) -> bool {
        self.bracket.is_none()
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
            let mut ordered = Ordered::new(share, 1024, 1.0);
            ordered.add_values(|row| Some(values[row]), 0..101, None);
            let rank = ordered.quantile(1.0, 0.05, false);
            assert!((rank.value.unwrap() - expected).abs() < 1e-9 && rank.low == rank.high, "{rank:?}");
        }
    }

    #[test]
    fn whole_numbers_keep_their_digits() {
        let far = 1i64 << 60;
        for (share, expected) in [(0.0, far), (0.5, far + 50), (0.505, far + 50), (0.999, far + 100), (1.0, far + 100)]
        {
            let mut ordered = Ordered::<i64>::new(share, 1024, 1.0);
            ordered.add_values(|row| Some(far + row as i64), 0..101, None);
            assert_eq!(ordered.quantile(1.0, 0.05, false).value, Some(expected), "{share}");
        }
        assert_eq!((0i64.towards(1, 0.5), 1i64.towards(2, 0.5), (-1i128).towards(0, 0.5)), (0, 2, 0));
        assert_eq!((3i64.towards(5, 0.5), 3i64.towards(9, 0.25), 3i64.towards(8, 0.5)), (4, 4, 6));
        assert_eq!(
            (far.towards(far + 100, 0.5), i128::from(far).towards(i128::from(far) + 3, 0.5)),
            (far + 50, (1 << 60) + 2)
        );
        assert_eq!(i64::MIN.towards(i64::MAX, 0.75), 1 << 62);
    }

    #[test]
    fn values_that_were_let_go_are_not_made_up() {
        let mut ordered = Ordered::new(0.5, 64, 1.0);
        // The first values come from one region and do not represent the later ones.
        ordered.add_values(|row| Some(row as f64), 0..2_000_000, None);
        ordered.narrow(1);
        let mut rest = ordered.emptied();
        rest.add_values(|row| Some(row as f64), 2_000_000..9_000_000, None);
        ordered.join(rest);
        assert_eq!(ordered.records(), 9e6);
        assert_eq!(ordered.quantile(1.0, 0.05, false).value, None);
    }

    #[test]
    fn ends_are_order_statistics() {
        // The textbook interval for the median of 100 independent values.
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        let mut ordered = Ordered::new(0.5, 1024, 1.0);
        ordered.add_values(|row| Some(values[row]), 0..100, Some(&vec![0; 100]));
        let rank = ordered.quantile(1e-9, 0.05, false);
        let (low, high) = (rank.low.unwrap(), rank.high.unwrap());
        assert!((39.0..=40.0).contains(&low) && (61.0..=62.0).contains(&high), "{rank:?}");
        let mut few = Ordered::new(0.99, 1024, 1.0);
        few.add_values(|row| Some(values[row]), 0..10, Some(&[0; 10]));
        assert_eq!(few.quantile(0.01, 0.05, false).high, None);
    }

    #[test]
    fn thinning_changes_no_answer() {
        let mut random = SmallRng::seed_from_u64(3);
        let (mut thinned, mut all) = (Ordered::new(0.9, 1024, 1.0), Vec::new());
        for _ in 0..3 {
            let values: Vec<f64> = (0..2_000_000).map(|_| random.random::<f64>().powi(3)).collect();
            let priorities: Vec<u64> = values.iter().map(|_| random.random()).collect();
            let mut part = thinned.emptied();
            part.add_values(|row| Some(values[row]), 0..values.len(), Some(&priorities));
            thinned.join(part);
            thinned.narrow(1);
            all.extend(values);
        }
        assert!(thinned.values.len() < 200_000, "{}", thinned.values.len());
        all.sort_by(f64::total_cmp);
        let rank = thinned.quantile(1.0, 0.05, false);
        let at = 0.9 * (all.len() - 1) as f64;
        let (low, high) = (all[at as usize], all[at as usize + 1]);
        assert!((low..=high).contains(&rank.value.unwrap()));
        let sampled = thinned.quantile(0.5, 0.05, true);
        assert!(sampled.low.unwrap() < low && high < sampled.high.unwrap());
    }
}
