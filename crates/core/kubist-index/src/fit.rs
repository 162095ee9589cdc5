//! Tests whether a grid fits the data. A grid does not fit if boxes examine many more records per returned record than
//! with a grid learned from a data sample.
//!
//! If the data has outgrown a grid, the grid separates neighbours only at depths that the tree does not reach.
//! The estimate arranges the sample in a tree of small cubes, and counts the pieces whose bounds intersect boxes
//! with 1/100 of the data.

use crate::cube::{CubeId, Geometry, Interleaver, MortonKey};
use crate::grid::Scale;

/// Number of records in a piece: few, so that pieces and boxes have similar numbers of records.
const PIECE: usize = 16;
const BOXES: usize = 64;
const SHARE: f64 = 0.01;
/// Samples with fewer records are ignored.
pub const LEAST_SAMPLE: usize = 1024;
/// A grid is outgrown when boxes examine this many times as many records as with a new grid.
const OUTGROWN: f64 = 1.3;
/// A new scale leaves one in this many values to the tail at either end.
const OUTLIERS: usize = 1024;

/// `values[d][record]`; NaN for missing numbers.
pub type Sample = [Vec<f64>];

pub fn examined(geometry: &Geometry, scales: &[Scale], sample: &Sample) -> f64 {
    let records = sample.first().map_or(0, Vec::len);
    let columns: Vec<Vec<u32>> =
        scales.iter().zip(sample).map(|(scale, values)| scale.coordinates(values, geometry.bits())).collect();
    let mut keys = Vec::new();
    Interleaver::new(*geometry).keys(&columns, &mut keys);
    let mut order: Vec<usize> = (0..records).collect();
    order.sort_unstable_by_key(|record| keys[*record]);
    let mut pieces = Vec::new();
    descend(geometry, &keys, geometry.root(), &order, &mut pieces);
    let bounds = |piece: &[usize], values: &[f64]| {
        piece.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), record| {
            (low.min(values[*record]), high.max(values[*record]))
        })
    };
    let pieces: Vec<(usize, Vec<(f64, f64)>)> =
        pieces.iter().map(|piece| (piece.len(), sample.iter().map(|values| bounds(piece, values)).collect())).collect();
    let (mut examined, mut returned) = (0, 0);
    for asked in boxes(sample) {
        let meets =
            |ends: &[(f64, f64)]| ends.iter().zip(&asked).all(|(own, asked)| own.0 <= asked.1 && own.1 >= asked.0);
        examined += pieces.iter().filter(|(_, ends)| meets(ends)).map(|(records, _)| records).sum::<usize>();
        let inside = |record: &usize| {
            sample.iter().zip(&asked).all(|(values, asked)| (asked.0..=asked.1).contains(&values[*record]))
        };
        returned += (0..records).filter(inside).count();
    }
    examined as f64 / returned.max(1) as f64
}

/// Arranges a cube's records, in key order, as a tree does. If all records are in one child, every box across the cube
/// examines more.
fn descend(geometry: &Geometry, keys: &[MortonKey], cube: CubeId, records: &[usize], pieces: &mut Vec<Vec<usize>>) {
    if records.len() <= PIECE + PIECE / 4 || cube.level() >= geometry.deepest() {
        pieces.extend(records.chunks(PIECE).map(<[usize]>::to_vec));
        return;
    }
    // A priority that does not depend on the sample's order.
    let priority = |record: usize| (record as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut priorities: Vec<u64> = records.iter().map(|record| priority(*record)).collect();
    let cutoff = *priorities.select_nth_unstable(PIECE - 1).1;
    let (kept, below): (Vec<usize>, Vec<usize>) = records.iter().partition(|record| priority(**record) <= cutoff);
    pieces.extend(kept.chunks(PIECE / 2).map(<[usize]>::to_vec));
    let mut rest = &below[..];
    for child in geometry.children(cube) {
        let last = geometry.last_key(child);
        let (inside, later) = rest.split_at(rest.partition_point(|record| keys[*record] <= last));
        rest = later;
        if !inside.is_empty() {
            descend(geometry, keys, child, inside, pieces);
        }
    }
}

/// Boxes around sampled records, with equal fractions of the records and widths proportional to the spread of the
/// values.
fn boxes(sample: &Sample) -> Vec<Vec<(f64, f64)>> {
    let records = sample.first().map_or(0, Vec::len);
    let spreads: Vec<f64> = sample.iter().map(|values| spread(values).unwrap_or(1.0)).collect();
    let within = ((records as f64 * SHARE) as usize).min(records.saturating_sub(1));
    let around = |center: usize| -> Option<Vec<(f64, f64)>> {
        let mut distances: Vec<f64> =
            (0..records)
                .map(|record| {
                    let in_dimension =
                        |(values, spread): (&Vec<f64>, &f64)| (values[record] - values[center]).abs() / spread;
                    sample.iter().zip(&spreads).map(in_dimension).fold(0.0, |most: f64, distance| {
                        if distance.is_nan() { f64::INFINITY } else { most.max(distance) }
                    })
                })
                .collect();
        let reach = *distances.select_nth_unstable_by(within, f64::total_cmp).1;
        let side =
            |(values, spread): (&Vec<f64>, &f64)| (values[center] - reach * spread, values[center] + reach * spread);
        reach.is_finite().then(|| sample.iter().zip(&spreads).map(side).collect())
    };
    let chosen = (0..BOXES).map(|number| number * records / BOXES).filter(|record| *record < records);
    chosen.filter_map(around).collect()
}

/// Width of the central 90 % of the values, or of all values if that is zero; `None` if all are equal.
fn spread(values: &[f64]) -> Option<f64> {
    let sorted = finite(values);
    let at = |share: f64| sorted[(sorted.len() as f64 * share) as usize];
    let (first, last) = (sorted.first()?, sorted.last()?);
    [at(0.95) - at(0.05), last - first].into_iter().find(|width| *width > 0.0 && width.is_finite())
}

fn finite(values: &[f64]) -> Vec<f64> {
    let mut finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    finite.sort_unstable_by(f64::total_cmp);
    finite
}

/// Whether data has left the domain, or fills a small part of it. It takes 1/1000 of the time of [`outgrown`], but
/// ignores the distribution inside.
pub fn has_left(scales: &[Scale], sample: &Sample) -> bool {
    scales.iter().zip(sample).any(|(scale, values)| {
        let (low, high) = scale.domain();
        let outside = values.iter().filter(|value| **value < low || **value > high).count();
        outside * 20 > values.len() || spread(values).is_some_and(|width| width * 8.0 < high - low)
    })
}

/// Returns scales for a new grid with the same dimensions, if boxes examine much more with the current scales.
///
/// If values have left a linear domain, the new domain extends beyond the data by the data's width in that
/// direction. Growing data then gets a new grid each time its range doubles.
pub fn outgrown(geometry: &Geometry, scales: &[Scale], sample: &Sample) -> Option<Vec<Scale>> {
    if sample.first().is_none_or(|values| values.len() < LEAST_SAMPLE) {
        return None;
    }
    let fresh: Vec<Scale> = scales.iter().zip(sample).map(|(scale, values)| fresh(scale, values)).collect();
    let by_rank: Vec<Scale> = sample.iter().zip(&fresh).map(|(values, fresh)| by_rank(fresh, values)).collect();
    let (old, even, ranked) =
        (examined(geometry, scales, sample), examined(geometry, &fresh, sample), examined(geometry, &by_rank, sample));
    // A linear scale changes less when the data moves, so a quantile scale is chosen only if it is much better.
    let (scales, best) = if ranked * OUTGROWN < even { (by_rank, ranked) } else { (fresh, even) };
    (old > OUTGROWN * best).then_some(scales)
}

fn fresh(scale: &Scale, values: &[f64]) -> Scale {
    let finite = finite(values);
    let (Some(first), Some(last)) = (finite.first(), finite.last()) else { return scale.clone() };
    if first == last {
        return scale.clone();
    }
    let (known_low, known_high) = match scale {
        Scale::Quantile { .. } => return Scale::learn_quantile(finite),
        Scale::Linear { low, high } => (*low, *high),
    };
    let out = finite.len() / OUTLIERS;
    let (mut low, mut high) = (finite[out], finite[finite.len() - 1 - out]);
    if low == high {
        (low, high) = (*first, *last);
    }
    let width = high - low;
    let further = |has_left: bool| if has_left { width } else { width / 16.0 };
    let (low, high) = (low - further(low < known_low), high + further(high > known_high));
    Scale::linear(low, high).unwrap_or_else(|_| scale.clone())
}

fn by_rank(fresh: &Scale, values: &[f64]) -> Scale {
    match Scale::learn_quantile(values.iter().copied()) {
        ranked @ Scale::Quantile { .. } => ranked,
        Scale::Linear { .. } => fresh.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    fn uniform(rng: &mut SmallRng, low: f64, high: f64) -> Vec<f64> {
        (0..4096).map(|_| rng.random_range(low..high)).collect()
    }

    fn linear(low: f64, high: f64) -> Scale {
        Scale::linear(low, high).unwrap()
    }

    #[test]
    fn a_grid_that_fits_stays() {
        let (mut rng, geometry) = (SmallRng::seed_from_u64(1), Geometry::new(3).unwrap());
        let sample: Vec<Vec<f64>> = (0..3).map(|_| uniform(&mut rng, 0.0, 1.0)).collect();
        for scale in [linear(0.0, 1.0), linear(-0.5, 1.5), linear(0.0, 1.9)] {
            assert_eq!(outgrown(&geometry, &vec![scale; 3], &sample), None);
        }
    }

    #[test]
    fn values_outside_the_domain_are_noticed() {
        let (mut rng, geometry) = (SmallRng::seed_from_u64(2), Geometry::new(3).unwrap());
        let mut sample: Vec<Vec<f64>> = (0..3).map(|_| uniform(&mut rng, 0.0, 1.0)).collect();
        sample[2] = uniform(&mut rng, 0.0, 1000.0);
        let scales = outgrown(&geometry, &[linear(0.0, 1.0), linear(0.0, 1.0), linear(0.0, 1.0)], &sample).unwrap();
        let (low, high) = scales[2].domain();
        assert!((-100.0..=0.0).contains(&low) && (1900.0..2100.0).contains(&high), "{low} {high}");
        assert_eq!(outgrown(&geometry, &scales, &sample), None);
    }

    #[test]
    fn a_second_value_gives_a_domain_to_a_column_that_had_one() {
        let (mut rng, geometry) = (SmallRng::seed_from_u64(3), Geometry::new(2).unwrap());
        let times: Vec<f64> = (0..4096).map(|record| 1e6 + (record % 50) as f64 * 1e-3).collect();
        let sample = [times, uniform(&mut rng, 0.0, 1.0)];
        let learned = Scale::learn_linear([1e6]);
        assert!(outgrown(&geometry, &[learned, linear(0.0, 1.0)], &sample).is_some());
    }

    #[test]
    fn a_growing_domain_gets_few_grids() {
        let (mut rng, geometry) = (SmallRng::seed_from_u64(4), Geometry::new(2).unwrap());
        let (mut scales, mut grids) = (vec![linear(0.0, 1.0), linear(0.0, 1.0)], 0);
        for step in 1..=1000 {
            let sample = [uniform(&mut rng, 0.0, step as f64), uniform(&mut rng, 0.0, 1.0)];
            if let Some(fresh) = outgrown(&geometry, &scales, &sample) {
                (scales, grids) = (fresh, grids + 1);
            }
        }
        assert!((3..=12).contains(&grids), "{grids}");
    }

    #[test]
    fn leaving_a_domain_is_seen_from_few_values() {
        let mut rng = SmallRng::seed_from_u64(6);
        for (values, left) in [
            (uniform(&mut rng, 0.0, 1.0), false),
            (uniform(&mut rng, 0.3, 0.6), false),
            (uniform(&mut rng, 0.0, 1.25), true),
            (uniform(&mut rng, 0.5, 0.51), true),
            (vec![0.5; 100], false),
            (vec![f64::NAN; 100], false),
            (vec![], false),
        ] {
            assert_eq!(has_left(&[linear(0.0, 1.0)], &[values]), left);
        }
    }

    #[test]
    fn odd_values_do_no_harm() {
        let geometry = Geometry::new(2).unwrap();
        let odd: Vec<f64> = (0..4096).map(|record| [f64::NAN, f64::INFINITY, f64::MIN, f64::MAX][record % 4]).collect();
        for sample in [vec![odd.clone(), odd], vec![vec![f64::NAN; 4096]; 2], vec![vec![1.0; 4096]; 2]] {
            if let Some(scales) = outgrown(&geometry, &[linear(0.0, 1.0), linear(0.0, 1.0)], &sample) {
                assert!(scales.iter().all(|scale| scale.check().is_ok()));
            }
        }
    }
}
