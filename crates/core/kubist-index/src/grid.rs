//! Grids: monotone maps from a dimension's values to integer coordinates (FORMAT.md, Coordinates and cubes).
//!
//! `a <= b` implies `coordinate(a) <= coordinate(b)` for all values of the type. A query maps its box through the
//! same grid and then applies the exact predicate, so a bad grid costs time, never rows.

use crate::order::Keyed;
use serde::{Deserialize, Serialize};

const AT_ONCE: usize = 64;
/// Each tail, outside the domain, has 1/`TAIL_SHARE` of the coordinates.
const TAIL_SHARE: u64 = 64;
/// Number of doublings of the domain's width that a tail spans, more than `f64` can represent.
const TAIL_DOUBLINGS: f64 = 2200.0;
pub const MAX_KNOTS: usize = 1024;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Equal intervals; both bounds are finite, and `low < high`.
    Linear { low: f64, high: f64 },
    /// Equal numbers of coordinates between neighbouring knots (quantiles; at least two, finite, ascending).
    Quantile { knots: Vec<f64> },
}

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("a domain needs finite ends with low < high, found {low} to {high}")]
pub struct BadDomain {
    pub low: f64,
    pub high: f64,
}

impl Scale {
    /// # Errors
    ///
    /// [`BadDomain`] if an end is not finite, or `low` is not below `high`.
    pub fn linear(low: f64, high: f64) -> Result<Scale, BadDomain> {
        if low.is_finite() && high.is_finite() && low < high {
            Ok(Scale::Linear { low, high })
        } else {
            Err(BadDomain { low, high })
        }
    }

    /// Linear between the finite minimum and maximum, widened by half their distance on either side, because a
    /// first commit is often a single time step. A single value `v` gives `v ± max(|v|, 1)`.
    pub fn learn_linear(values: impl IntoIterator<Item = f64>) -> Scale {
        let (low, high) = extremes(values);
        if low > high {
            return Scale::Linear { low: 0.0, high: 1.0 };
        }
        let reach = if low < high { (high * 0.5 - low * 0.5).max(f64::MIN_POSITIVE) } else { low.abs().max(1.0) };
        Scale::Linear { low: (low - reach).max(f64::MIN), high: (high + reach).min(f64::MAX) }
    }

    /// Knots at quantiles of the finite values; linear if all are equal.
    pub fn learn_quantile(values: impl IntoIterator<Item = f64>) -> Scale {
        let mut sorted: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let last = sorted.len().saturating_sub(1);
        let steps = last.clamp(1, MAX_KNOTS - 1);
        let mut knots: Vec<f64> = match sorted.is_empty() {
            true => Vec::new(),
            // + 0.0 makes -0.0 the same knot as 0.0.
            false => (0..=steps).map(|i| sorted[i * last / steps] + 0.0).collect(),
        };
        knots.dedup();
        if knots.len() < 2 {
            return Scale::learn_linear(sorted);
        }
        Scale::Quantile { knots }
    }

    pub fn domain(&self) -> (f64, f64) {
        match self {
            Scale::Linear { low, high } => (*low, *high),
            Scale::Quantile { knots } => (knots[0], knots[knots.len() - 1]),
        }
    }

    /// # Errors
    ///
    /// [`BadDomain`] if it is invalid.
    pub fn check(&self) -> Result<(), BadDomain> {
        let (sound, low, high) = match self {
            Scale::Linear { low, high } => (low < high, *low, *high),
            Scale::Quantile { knots } => (
                (2..=MAX_KNOTS).contains(&knots.len()) && knots.windows(2).all(|pair| pair[0] < pair[1]),
                knots.first().copied().unwrap_or(f64::NAN),
                knots.last().copied().unwrap_or(f64::NAN),
            ),
        };
        if sound && low.is_finite() && high.is_finite() { Ok(()) } else { Err(BadDomain { low, high }) }
    }

    /// Returns the coordinate of a value among `2^bits`, `6 < bits <= 32`.
    #[inline]
    pub fn coordinate(&self, value: f64, bits: u32) -> u32 {
        let count = 1u64 << bits;
        let tail = count / TAIL_SHARE;
        let inner = (count - 2 * tail) as f64;
        let (low, high) = self.domain();
        if value >= low && value <= high {
            let cell = match self {
                Scale::Linear { .. } => fraction(low, high, value) * inner,
                Scale::Quantile { knots } => {
                    let piece = knots.partition_point(|knot| *knot <= value).clamp(1, knots.len() - 1);
                    let within = fraction(knots[piece - 1], knots[piece], value);
                    ((piece - 1) as f64 + within) / (knots.len() - 1) as f64 * inner
                }
            };
            (tail + (cell as u64).min(inner as u64 - 1)) as u32
        } else if value < low {
            (tail - 1 - tail_cell(low, high, low, value, tail)) as u32
        } else if value > high {
            (count - tail + tail_cell(low, high, value, high, tail)) as u32
        } else {
            (count - 1) as u32
        }
    }

    pub fn coordinates<T: Keyed>(&self, values: &[T], bits: u32) -> Vec<u32> {
        match *self {
            Scale::Linear { low, high } if (high - low).is_finite() => {
                #[cfg(target_arch = "x86_64")]
                if is_x86_feature_detected!("avx2") {
                    // SAFETY: the check above found the instructions.
                    return unsafe { self.even_coordinates_wide(low, high, values, bits) };
                }
                self.even_coordinates(low, high, values, bits)
            }
            _ => values.iter().map(|value| self.coordinate(value.number(), bits)).collect(),
        }
    }

    /// Compiled for wider vector instructions.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn even_coordinates_wide<T: Keyed>(&self, low: f64, high: f64, values: &[T], bits: u32) -> Vec<u32> {
        self.even_coordinates(low, high, values, bits)
    }

    #[inline(always)]
    fn even_coordinates<T: Keyed>(&self, low: f64, high: f64, values: &[T], bits: u32) -> Vec<u32> {
        let mut coordinates = Vec::with_capacity(values.len());
        for some in values.chunks(AT_ONCE) {
            let mut numbers = [low; AT_ONCE];
            for (number, value) in numbers.iter_mut().zip(some) {
                *number = value.number();
            }
            let mut are_inside = true;
            for number in &numbers {
                are_inside &= (*number >= low) & (*number <= high);
            }
            if !are_inside {
                coordinates.extend(some.iter().map(|value| self.coordinate(value.number(), bits)));
                continue;
            }
            let mut found = [0; AT_ONCE];
            for (coordinate, number) in found.iter_mut().zip(&numbers) {
                *coordinate = inside(low, high, *number, bits);
            }
            coordinates.extend_from_slice(&found[..some.len()]);
        }
        coordinates
    }

    /// The smallest value whose coordinate is at least this; infinity if there is none.
    pub fn value_at(&self, coordinate: u32, bits: u32) -> f64 {
        let (mut low, mut high) = (f64::NEG_INFINITY.key(), f64::INFINITY.key());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.coordinate(f64::from_key(middle), bits) >= coordinate {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        f64::from_key(low)
    }
}

/// [`Scale::coordinate`] inside a linear domain: the same arithmetic without branches, so that the compiler can
/// vectorise it.
#[inline(always)]
fn inside(low: f64, high: f64, value: f64, bits: u32) -> u32 {
    /// Adding this constant rounds a number to an integer in its lowest bits.
    const WHOLE: f64 = (1u64 << 52) as f64;
    let count = 1u64 << bits;
    let tail = (count / TAIL_SHARE) as u32;
    let cells = (count - 2 * tail as u64) as f64;
    let at = (value - low) / (high - low) * cells;
    let at = if at < cells - 1.0 { at } else { cells - 1.0 };
    let nearest = at + WHOLE - WHOLE;
    let whole = if nearest > at { nearest - 1.0 } else { nearest };
    tail + (whole + WHOLE).to_bits() as u32
}

fn extremes(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    values
        .into_iter()
        .filter(|value| value.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
}

/// The relative position of a value in a domain: monotone, in [0, 1]. If the width would overflow, all numbers are
/// halved.
#[inline]
fn fraction(low: f64, high: f64, value: f64) -> f64 {
    let width = high - low;
    if width.is_finite() { (value - low) / width } else { (value * 0.5 - low * 0.5) / (high * 0.5 - low * 0.5) }
}

/// The cell in a tail: logarithmic in the distance from the domain divided by its width.
fn tail_cell(low: f64, high: f64, far: f64, near: f64, tail: u64) -> u64 {
    let half_width = high * 0.5 - low * 0.5;
    let distance = (far * 0.5 - near * 0.5) / half_width.max(f64::MIN_POSITIVE);
    let share = (1.0 + distance).log2() / TAIL_DOUBLINGS;
    ((share * tail as f64) as u64).min(tail - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order;
    use arrow_schema::{DataType, TimeUnit};
    use proptest::prelude::*;

    fn any_scale() -> impl Strategy<Value = Scale> {
        let linear =
            (any::<f64>(), any::<f64>()).prop_filter_map("domain", |(a, b)| Scale::linear(a.min(b), a.max(b)).ok());
        let near = (-1e3..1e3f64, 1e-9..1e3f64).prop_map(|(low, width)| Scale::linear(low, low + width).unwrap());
        let learned = prop::collection::vec(any::<f64>(), 0..50).prop_map(Scale::learn_linear);
        let quantile = prop::collection::vec(any::<f64>(), 0..3000).prop_map(Scale::learn_quantile);
        let skewed = prop::collection::vec(0.0..1.0f64, 2..3000)
            .prop_map(|values| Scale::learn_quantile(values.into_iter().map(|u| u.powi(9))));
        prop_oneof![linear, near, learned, quantile, skewed]
    }

    fn special() -> impl Strategy<Value = f64> {
        prop_oneof![
            any::<f64>(),
            -2.0..2.0f64,
            prop::sample::select(vec![
                -0.0,
                0.0,
                f64::MIN,
                f64::MAX,
                f64::INFINITY,
                f64::NEG_INFINITY,
                f64::MIN_POSITIVE,
                5e-324,
                -5e-324,
                1.0,
                -1.0,
                f64::EPSILON,
            ]),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn a_coordinate_begins_at_its_value(scale in any_scale(), value in special(), bits in 7u32..=32) {
            if !value.is_nan() {
                let coordinate = scale.coordinate(value, bits);
                let first = scale.value_at(coordinate, bits);
                prop_assert!(first <= value && scale.coordinate(first, bits) == coordinate);
            }
        }

        #[test]
        fn coordinates_are_monotone(scale in any_scale(), a in special(), b in special(), bits in 7u32..=32) {
            prop_assert!(scale.check().is_ok(), "{:?}", scale);
            let (low, high) = if a <= b { (a, b) } else { (b, a) };
            if !low.is_nan() && !high.is_nan() {
                prop_assert!(scale.coordinate(low, bits) <= scale.coordinate(high, bits));
            }
            prop_assert_eq!(scale.coordinate(0.0, bits), scale.coordinate(-0.0, bits));
            prop_assert_eq!(scale.coordinate(f64::NAN, bits) as u64, (1u64 << bits) - 1);
        }

        #[test]
        fn many_coordinates_are_those_of_each(
            scale in any_scale(),
            values in prop::collection::vec(special(), 0..200),
            bits in 7u32..=32,
        ) {
            let each: Vec<u32> = values.iter().map(|value| scale.coordinate(*value, bits)).collect();
            prop_assert_eq!(scale.coordinates(&values, bits), each);
        }

        #[test]
        fn neighbours_of_a_value_keep_order(scale in any_scale(), key in any::<u64>(), bits in 7u32..=32) {
            for data_type in [
                DataType::Int8, DataType::Int16, DataType::Int32, DataType::Int64, DataType::UInt8, DataType::UInt16,
                DataType::UInt32, DataType::UInt64, DataType::Float16, DataType::Float32, DataType::Float64,
                DataType::Date32, DataType::Date64, DataType::Timestamp(TimeUnit::Nanosecond, None),
            ] {
                let width = data_type.primitive_width().unwrap() as u32 * 8;
                let (first, last) = order::number_keys(&data_type);
                let last = last.min(u64::MAX >> (64 - width));
                let key = (key >> (64 - width)).clamp(first, last);
                let next = (key + 1).min(last).max(key);
                let of_key = |key| scale.coordinate(order::number(&data_type, key), bits);
                prop_assert!(of_key(key) <= of_key(next), "{data_type} {key}");
            }
        }

        #[test]
        fn the_domain_gets_most_coordinates(low in -1e6..1e6f64, width in 1e-3..1e6f64) {
            let scale = Scale::linear(low, low + width).unwrap();
            let (first, last) = (scale.coordinate(low, 20), scale.coordinate(low + width, 20));
            prop_assert!((last - first) as f64 > 0.96 * (1 << 20) as f64);
        }
    }

    #[test]
    fn far_values_still_differ() {
        let scale = Scale::linear(0.0, 1.0).unwrap();
        let coordinates: Vec<u32> = [2.0, 1e3, 1e9, 1e30, 1e300].iter().map(|v| scale.coordinate(*v, 32)).collect();
        assert!(coordinates.windows(2).all(|pair| pair[0] < pair[1]), "{coordinates:?}");
        let coordinates: Vec<u32> = [-1e300, -1e9, -1.0, 0.0].iter().map(|v| scale.coordinate(*v, 32)).collect();
        assert!(coordinates.windows(2).all(|pair| pair[0] < pair[1]), "{coordinates:?}");
    }

    #[test]
    fn quantiles_even_out_skewed_values() {
        let values: Vec<f64> = (0..100_000).map(|i| (i as f64 / 1e5).powi(8)).collect();
        let scale = Scale::learn_quantile(values.iter().copied());
        let mut counts = [0u32; 16];
        for value in values {
            counts[(scale.coordinate(value, 16) >> 12) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (4500..7500).contains(count)), "{counts:?}");
    }

    #[test]
    fn bad_domains_are_refused() {
        for (low, high) in [(1.0, 1.0), (2.0, 1.0), (f64::NAN, 1.0), (0.0, f64::INFINITY)] {
            assert!(Scale::linear(low, high).is_err());
        }
    }
}
