//! Round steps and equal parts of a range: tick marks of axes and edges of bins.
//!
//! For any two finite numbers, however large or close, every function returns finite, ascending numbers in
//! bounded time. A multiple of a step is computed from its decimal digits, so it is the float nearest to its
//! printed form.

use std::ops::RangeInclusive;

/// Leading digits of round numbers, times ten.
pub type Leading = &'static [u8];

pub const MARKS: Leading = &[10, 20, 50];
/// 1, 2, 2.5 and 5, for edges.
pub const EDGES: Leading = &[10, 20, 25, 50];

pub const LEAST: f64 = f64::from_bits(1);

const MOST_MULTIPLES: i64 = 1000;
const MOST_TRIES: usize = 8;
/// Multiples this many steps outside a range count as inside, because its bounds are rounded.
const SLACK: f64 = 1e-6;

/// One or two digits times a power of ten.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    digits: u8,
    power: i32,
    leading: Leading,
}

impl Step {
    /// The smallest step of at least this size, or the smallest of all for sizes up to 0.
    pub fn at_least(size: f64, leading: Leading) -> Step {
        let size = if size > 0.0 { size.min(f64::MAX) } else { LEAST };
        let guess = size.log10().floor() as i32 - 1;
        let steps = (guess - 1..=guess + 2).flat_map(|power| leading.iter().map(move |digits| (*digits, power)));
        let steps = steps.map(|(digits, power)| Step { digits, power, leading });
        let fits = |step: &Step| step.value() >= size * (1.0 - 1e-9);
        steps.into_iter().find(fits).unwrap_or(Step { digits: leading[0], power: guess + 2, leading })
    }

    pub fn coarser(self) -> Step {
        let place = self.leading.iter().position(|digits| *digits == self.digits).unwrap_or(0);
        match self.leading.get(place + 1) {
            Some(digits) => Step { digits: *digits, ..self },
            None => Step { digits: self.leading[0], power: self.power + 1, ..self },
        }
    }

    /// The next smaller step; `None` if it is zero as a float.
    pub fn finer(self) -> Option<Step> {
        let place = self.leading.iter().position(|digits| *digits == self.digits).unwrap_or(0);
        let finer = match place.checked_sub(1) {
            Some(below) => Step { digits: self.leading[below], ..self },
            None => Step { digits: self.leading[self.leading.len() - 1], power: self.power - 1, ..self },
        };
        (finer.value() > 0.0).then_some(finer)
    }

    /// The step as a float; infinity if it exceeds the largest float.
    pub fn value(self) -> f64 {
        self.times(1)
    }

    /// The float nearest to `count` steps.
    pub fn times(self, count: i64) -> f64 {
        const EXACT: i128 = 1 << 53;
        let digits = i128::from(count) * i128::from(self.digits);
        // Digits and powers of ten that floats represent exactly need one rounding, like parsing the digits.
        match (digits.abs() < EXACT, self.power) {
            (true, 0..=22) => digits as f64 * 10f64.powi(self.power) + 0.0,
            (true, -22..=-1) => digits as f64 / 10f64.powi(-self.power) + 0.0,
            _ => format!("{digits}e{}", self.power).parse().unwrap_or(f64::NAN) + 0.0,
        }
    }

    /// Formats `count` steps divided by a power of ten, with the decimals of the step.
    pub fn text(self, count: i64, power: i32) -> String {
        let (digits, shift) = self.shortest();
        let shift = shift - power;
        let whole = i128::from(count) * i128::from(digits);
        let (sign, digits) = (if whole < 0 { "-" } else { "" }, whole.unsigned_abs().to_string());
        if shift >= 0 {
            let zeros = if whole == 0 { 0 } else { shift as usize };
            return format!("{sign}{digits}{}", "0".repeat(zeros));
        }
        let decimals = shift.unsigned_abs() as usize;
        let digits = format!("{digits:0>width$}", width = decimals + 1);
        let (before, after) = digits.split_at(digits.len() - decimals);
        format!("{sign}{before}.{after}")
    }

    /// Returns the digits without trailing zeros, and their power of ten.
    pub fn shortest(self) -> (u8, i32) {
        if self.digits % 10 == 0 { (self.digits / 10, self.power + 1) } else { (self.digits, self.power) }
    }

    fn below(self, number: f64) -> i64 {
        let mut near = self.near(number).rev();
        near.find(|count| self.times(*count) <= number).unwrap_or(i64::MIN)
    }

    fn above(self, number: f64) -> i64 {
        let mut near = self.near(number);
        near.find(|count| self.times(*count) >= number).unwrap_or(i64::MAX)
    }

    fn near(self, number: f64) -> RangeInclusive<i64> {
        /// Rounding error in steps: a few units of 2^53.
        const OFF: i64 = 8;
        /// Below this power of ten, steps are near the subnormal range, where floats have few digits.
        const SUBNORMAL: i32 = -290;
        let steps = match self.power < SUBNORMAL {
            true => number * 1e300 / f64::from(self.digits) * power_of_ten(-300 - self.power),
            false => number / self.value(),
        };
        let steps = steps.round() as i64;
        steps.saturating_sub(OFF)..=steps.saturating_add(OFF)
    }

    /// Returns the ascending multiples in a range with their counts, without duplicates from rounding.
    pub fn within(self, low: f64, high: f64) -> Vec<(i64, f64)> {
        let slack = if self.value() * SLACK < f64::MAX { self.value() * SLACK } else { 0.0 };
        let first = self.above((low - slack).max(f64::MIN));
        let all = (first..=first.saturating_add(MOST_MULTIPLES)).map(|count| (count, self.times(count)));
        let mut found: Vec<(i64, f64)> = all
            .skip_while(|(_, value)| !value.is_finite())
            .take_while(|(_, value)| value.is_finite() && *value <= high + slack)
            .collect();
        found.dedup_by_key(|(_, value)| *value);
        found
    }
}

/// A step and its multiples in a range: about `most`, and at least `fewest` if the range contains so many floats.
pub fn marks(low: f64, high: f64, most: usize, fewest: usize) -> (Step, Vec<(i64, f64)>) {
    let least = resolution(low, high);
    let mut step = Step::at_least(part(low, high, most.max(1) as f64).max(least), MARKS);
    loop {
        let found = step.within(low, high);
        match step.finer().filter(|finer| found.len() < fewest && finer.value() >= least) {
            Some(finer) => step = finer,
            None => return (step, found),
        }
    }
}

/// Divides the length of a range, which may exceed the largest float.
pub fn part(low: f64, high: f64, count: f64) -> f64 {
    let distance = high - low;
    if distance.is_finite() { distance / count } else { high / count - low / count }
}

/// The relative position of a number: 0 at `low`, 1 at `high`.
pub fn share(low: f64, high: f64, number: f64) -> f64 {
    let (below, all) = (number - low, high - low);
    if below.is_finite() && all.is_finite() {
        return below / all;
    }
    (number / 4.0 - low / 4.0) / (high / 4.0 - low / 4.0)
}

/// The distance between floats of this magnitude.
pub fn resolution(low: f64, high: f64) -> f64 {
    let largest = low.abs().max(high.abs());
    largest - largest.next_down()
}

/// A range around a single number: 0.5 on either side, or more if floats are farther apart.
pub fn around(number: f64) -> (f64, f64) {
    let half = (4.0 * resolution(number, number)).max(0.5);
    ((number - half).max(f64::MIN), (number + half).min(f64::MAX))
}

pub fn equal(low: f64, high: f64, count: usize) -> Vec<f64> {
    let (distance, parts) = (high - low, count.max(1) as f64);
    let is_short = (distance * parts).is_finite();
    let edge = |edge: usize| match (edge as f64, is_short) {
        (edge, true) => low + distance * edge / parts,
        (edge, false) => low * (1.0 - edge / parts) + high * (edge / parts),
    };
    ends_kept((0..=count.max(1)).map(edge).collect(), low, high)
}

/// Edges of `count` parts of equal ratio.
pub fn geometric(low: f64, high: f64, count: usize) -> Vec<f64> {
    let edges = equal(low.ln(), high.ln(), count).into_iter().map(f64::exp);
    ends_kept(edges.collect(), low, high)
}

/// Multiples of a round step around a range: close to `count` parts and never more.
pub fn round(low: f64, high: f64, count: usize) -> Vec<f64> {
    let least = resolution(low, high).max(part(low, high, count.max(1) as f64));
    let mut step = Step::at_least(least, EDGES);
    for _ in 0..MOST_TRIES {
        let (first, last) = (step.below(low), step.above(high));
        if (1..=count as i64).contains(&(last - first)) {
            let edges = (first..=last).map(|count| step.times(count).clamp(f64::MIN, f64::MAX));
            return ascending(edges);
        }
        step = step.coarser();
    }
    equal(low, high, count)
}

/// Powers of ten around a range of positive numbers. Each decade has equally many parts, or each part equally
/// many decades.
pub fn decades(low: f64, high: f64, count: usize) -> Vec<f64> {
    // Logarithms are rounded, so both bounds are checked.
    let first = low.log10().floor() as i32;
    let first = if power_of_ten(first) > low { first - 1 } else { first };
    let last = (high.log10().ceil() as i32).max(first + 1);
    let last = if power_of_ten(last) < high { last + 1 } else { last };
    let (decades, count) = ((last - first) as usize, count.max(1));
    if decades > count {
        let in_each = decades.div_ceil(count);
        return ascending((first..last).step_by(in_each).chain([last]).map(power_of_ten));
    }
    let of_each = count / decades;
    let edges = (first..last).flat_map(|decade| {
        (0..of_each).map(move |part| match part {
            0 => power_of_ten(decade),
            _ => (power_of_ten(decade) * 10f64.powf(part as f64 / of_each as f64)).min(f64::MAX),
        })
    });
    ascending(edges.chain([power_of_ten(last)]))
}

/// Multiples of a width around a range, at most `most` parts, and whether there would be more. The width is
/// increased to the resolution of floats.
pub fn widths(low: f64, high: f64, width: f64, most: usize) -> (Vec<f64>, bool) {
    let width = width.max(resolution(low, high));
    // If the width is 1 divided by an integer, division gives the float nearest to the printed edge.
    let (inverse, is_part) = ((1.0 / width).round(), 1.0 / (1.0 / width).round() == width);
    let edge = |index: f64| if is_part { index / inverse } else { index * width };
    let (first, last) = ((low / width).floor(), (high / width).ceil());
    let first = if edge(first) > low { first - 1.0 } else { first };
    let last = if edge(last) < high { last + 1.0 } else { last };
    let parts = (last - first).max(1.0);
    let edges = (0..=parts.min(most as f64) as usize).map(|part| edge(first + part as f64).clamp(f64::MIN, f64::MAX));
    (ascending(edges), parts > most as f64)
}

/// Clamped to positive finite floats.
pub fn power_of_ten(power: i32) -> f64 {
    format!("1e{power}").parse().unwrap_or(1.0f64).clamp(LEAST, f64::MAX)
}

/// Sets the bounds exactly and clamps the other edges to them.
fn ends_kept(mut edges: Vec<f64>, low: f64, high: f64) -> Vec<f64> {
    if let [first, .., last] = &mut edges[..] {
        (*first, *last) = (low, high);
    }
    ascending(edges.into_iter().map(|edge| edge.clamp(low, high)))
}

/// Removes edges that rounding made equal, and gives a single remaining edge a neighbour.
fn ascending(edges: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut kept: Vec<f64> = Vec::new();
    for edge in edges {
        if kept.last().is_none_or(|last| *last < edge) {
            kept.push(edge);
        }
    }
    match kept[..] {
        [only] if only < f64::MAX => kept.push(only.next_up()),
        [only] => kept.insert(0, only.next_down()),
        _ => {}
    }
    kept
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn numbers() -> impl Strategy<Value = f64> {
        const EXTREMES: [f64; 12] = [
            0.0,
            -0.0,
            LEAST,
            -LEAST,
            f64::MIN_POSITIVE,
            f64::MAX,
            f64::MIN,
            9_007_199_254_740_992.0,
            9_223_372_036_854_775_807.0,
            1.0,
            1e300,
            -1e-300,
        ];
        let of_bits = any::<u64>().prop_map(f64::from_bits).prop_filter("finite", |number| number.is_finite());
        prop_oneof![prop::sample::select(&EXTREMES[..]), of_bits, -1e3..1e3f64, (-40i64..40).prop_map(|n| n as f64)]
    }

    fn ranges() -> impl Strategy<Value = (f64, f64)> {
        let near = (numbers(), 1u64..5).prop_map(|(low, ulps)| {
            let high = (0..ulps).fold(low, |high, _| high.next_up());
            (low, if high.is_finite() { high } else { low })
        });
        let far = (numbers(), numbers()).prop_map(|(a, b)| (a.min(b), a.max(b)));
        prop_oneof![near, far].prop_map(|(low, high)| if low < high { (low, high) } else { around(low) })
    }

    fn is_ascending(edges: &[f64]) -> bool {
        edges.iter().all(|edge| edge.is_finite()) && edges.windows(2).all(|pair| pair[0] < pair[1])
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn marks_are_round_finite_and_within((low, high) in ranges(), most in 1usize..20) {
            let (step, found) = marks(low, high, most, 3);
            prop_assert!(found.len() <= 4 * most + 12, "{} marks", found.len());
            prop_assert!(found.windows(2).all(|pair| pair[0].1 < pair[1].1));
            let slack = step.value() * 2.0 * SLACK;
            for (count, value) in found {
                prop_assert!(value.is_finite() && value >= low - slack && value <= high + slack);
                prop_assert_eq!(step.text(count, 0).parse::<f64>().unwrap() + 0.0, value);
            }
        }

        #[test]
        fn edges_ascend_and_enclose((low, high) in ranges(), count in 1usize..300) {
            for edges in [equal(low, high, count), round(low, high, count)] {
                prop_assert!(is_ascending(&edges) && edges.len() >= 2 && edges.len() <= count + 1, "{edges:?}");
                prop_assert!(edges[0] <= low && edges[edges.len() - 1] >= high, "{edges:?}");
            }
            let (low, high) = if low > 0.0 { (low, high) } else { (LEAST, high.max(2.0 * LEAST)) };
            for edges in [geometric(low, high, count), decades(low, high, count)] {
                prop_assert!(is_ascending(&edges) && edges.len() >= 2 && edges.len() <= count + 1, "{edges:?}");
                prop_assert!(edges[0] <= low && edges[edges.len() - 1] >= high && edges[0] > 0.0, "{edges:?}");
            }
        }

        #[test]
        fn parts_of_a_width_ascend((low, high) in ranges(), width in numbers(), most in 1usize..300) {
            let width = if width == 0.0 { LEAST } else { width.abs() };
            let (edges, more) = widths(low, high, width, most);
            prop_assert!(is_ascending(&edges) && edges.len() >= 2 && edges.len() <= most + 1, "{edges:?}");
            prop_assert!(edges[0] <= low && (more || edges[edges.len() - 1] >= high), "{edges:?}");
        }

        #[test]
        fn shares_and_parts_are_finite((low, high) in ranges(), at in 0.0..=1f64) {
            prop_assert!(part(low, high, 2.0) >= 0.0 && part(low, high, 2.0).is_finite());
            let within = low * (1.0 - at) + high * at;
            prop_assert!((-1e-9..=1.0 + 1e-9).contains(&share(low, high, within.clamp(low, high))));
            prop_assert_eq!((share(low, high, low), share(low, high, high)), (0.0, 1.0));
        }

        #[test]
        fn around_a_number_lie_others(number in numbers()) {
            let (low, high) = around(number);
            prop_assert!(low < high && low <= number && number <= high && low.is_finite() && high.is_finite());
        }
    }

    #[test]
    fn steps_are_round() {
        let of = |size: f64| Step::at_least(size, MARKS).value();
        assert_eq!([of(0.3), of(0.5), of(0.500_000_000_1), of(51.0), of(LEAST)], [0.5, 0.5, 0.5, 100.0, LEAST]);
        assert_eq!(Step::at_least(0.2, MARKS).finer().map(Step::value), Some(0.1));
        assert_eq!(Step::at_least(5.0, MARKS).coarser().value(), 10.0);
        assert_eq!(Step::at_least(0.021, EDGES).value(), 0.025);
        assert_eq!(Step::at_least(0.2, MARKS).text(-3, 0), "-0.6");
        assert_eq!(Step::at_least(2e7, MARKS).text(3, 6), "60");
        assert_eq!(Step::at_least(0.25, EDGES).text(3, 0), "0.75");
    }

    #[test]
    fn edges_are_multiples_of_round_steps() {
        let tenths = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];
        assert_eq!(round(0.013, 0.987, 10), tenths);
        assert_eq!(round(-12.0, 17.0, 7), [-15.0, -10.0, -5.0, 0.0, 5.0, 10.0, 15.0, 20.0]);
        assert_eq!(round(1e12 + 1.0, 1e12 + 5.0, 2), [1e12, 1e12 + 2.5, 1e12 + 5.0]);
        assert_eq!(decades(0.02, 7.0, 3), [0.01, 0.1, 1.0, 10.0]);
        assert_eq!(decades(0.02, 7.0, 2), [0.01, 1.0, 10.0]);
        assert_eq!(decades(LEAST, f64::MAX, 1), [LEAST, f64::MAX]);
    }

    #[test]
    fn parts_of_a_width_begin_at_its_multiples() {
        assert_eq!(widths(0.013, 0.047, 0.01, 100), (vec![0.01, 0.02, 0.03, 0.04, 0.05], false));
        assert_eq!(widths(-3.0, 4.0, 2.5, 100), (vec![-5.0, -2.5, 0.0, 2.5, 5.0], false));
        assert_eq!(widths(0.0, 1e9, 1.0, 3), (vec![0.0, 1.0, 2.0, 3.0], true));
        assert_eq!(widths(2.0, 2.0, 1.0, 3), (vec![2.0, 3.0], false));
        assert_eq!(widths(1.0, 1.0f64.next_up(), LEAST, 9).0, [1.0, 1.0f64.next_up()]);
    }

    #[test]
    fn equal_parts_of_the_longest_range() {
        assert_eq!(equal(f64::MIN, f64::MAX, 2), [f64::MIN, 0.0, f64::MAX]);
        assert_eq!(equal(-1.0, f64::MAX, 2), [-1.0, f64::MAX / 2.0, f64::MAX]);
        assert_eq!(equal(0.5, 2.5, 4), [0.5, 1.0, 1.5, 2.0, 2.5]);
    }
}
