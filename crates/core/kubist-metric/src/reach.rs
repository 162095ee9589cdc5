//! The ranges of coordinates that contain all positions within a radius of a box.

use crate::Space;

/// Upper bound of a range's rounding error, as a fraction of its numbers.
const SLACK: f64 = 1e-12;

/// Per axis; `None` is the whole axis. A range on a periodic axis may extend beyond the first period, and is at most
/// one period wide.
#[derive(Clone, Debug, PartialEq)]
pub struct Reach(pub Vec<Option<(f64, f64)>>);

impl Reach {
    /// All positions within `radius` of a box.
    pub fn around(space: &Space, low: &[f64], high: &[f64], radius: f64) -> Reach {
        let mut ranges: Vec<(f64, f64)> =
            low.iter().zip(high).map(|(low, high)| (low - radius, high + radius)).collect();
        if matches!(space, Space::Sphere) {
            let latitude = low[1].abs().max(high[1].abs());
            // Within this angle of the latitude, a pole has every longitude.
            let longitudes = if latitude + radius < 89.999_999 {
                let ratio = radius.to_radians().sin() / latitude.to_radians().cos();
                if ratio < 1.0 { ratio.asin().to_degrees() } else { f64::INFINITY }
            } else {
                f64::INFINITY
            };
            ranges[0] = (low[0] - longitudes, high[0] + longitudes);
        }
        Reach(Vec::new()).widened(space, ranges)
    }

    pub fn joined(&self, space: &Space, other: &Reach) -> Reach {
        if self.0.is_empty() {
            return other.clone();
        }
        let open = (f64::NEG_INFINITY, f64::INFINITY);
        let ranges = self.0.iter().zip(&other.0).map(|(one, other)| {
            let (one, other) = (one.unwrap_or(open), other.unwrap_or(open));
            (one.0.min(other.0), one.1.max(other.1))
        });
        Reach(ranges.enumerate().map(|(axis, range)| bounded(space, axis, range)).collect())
    }

    fn widened(mut self, space: &Space, ranges: Vec<(f64, f64)>) -> Reach {
        self.0 = ranges
            .into_iter()
            .enumerate()
            .map(|(axis, (low, high))| {
                let finite = [low, high].into_iter().filter(|end| end.is_finite());
                let slack = SLACK * finite.map(f64::abs).fold(0.0, f64::max);
                bounded(space, axis, (low - slack, high + slack))
            })
            .collect();
        self
    }

    /// Whether a wrapped position is in all ranges.
    pub fn has(&self, space: &Space, position: &[f64]) -> bool {
        self.0.iter().zip(position).enumerate().all(|(axis, (range, number))| match (range, space.period(axis)) {
            (None, _) => true,
            (Some((low, high)), None) => (*low..=*high).contains(number),
            (Some((low, high)), Some(period)) => {
                [number - period, *number, number + period].iter().any(|image| (*low..=*high).contains(image))
            }
        })
    }
}

/// Returns the range if it excludes something; `None` if it has no finite bound, or covers a whole period.
fn bounded(space: &Space, axis: usize, (low, high): (f64, f64)) -> Option<(f64, f64)> {
    let whole = space.period(axis).is_some_and(|period| !(high - low < period));
    let open = low == f64::NEG_INFINITY && high == f64::INFINITY;
    (!whole && !open && !low.is_nan() && !high.is_nan()).then_some((low, high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn a_range_with_one_end_keeps_it() {
        let space = Space::Flat { periods: vec![None, None] };
        let Reach(ranges) = Reach::around(&space, &[f64::NEG_INFINITY, 1.0], &[2.0, f64::INFINITY], 0.5);
        let [Some((f64::NEG_INFINITY, high)), Some((low, f64::INFINITY))] = ranges[..] else {
            panic!("{ranges:?}");
        };
        assert!((high - 2.5).abs() < 1e-9 && (low - 0.5).abs() < 1e-9);
    }

    #[test]
    fn no_neighbour_is_outside() {
        let mut random = StdRng::seed_from_u64(5);
        for round in 0..5_000 {
            let space = if round % 2 == 0 { Space::Sphere } else { Space::Flat { periods: vec![Some(10.0), None] } };
            let position = |random: &mut StdRng| match space {
                Space::Sphere if random.random_bool(0.3) => {
                    let pole = if random.random_bool(0.5) { 90.0 } else { -90.0 };
                    [random.random_range(0.0..360.0), pole - f64::copysign(random.random_range(0.0..2.0), pole)]
                }
                Space::Sphere => [random.random_range(0.0..360.0), random.random_range(-90.0..=90.0)],
                Space::Flat { .. } => [random.random_range(0.0..10.0), random.random_range(-10.0..10.0)],
            };
            let (one, other) = (position(&mut random), position(&mut random));
            let square = |one: [f64; 2], other: [f64; 2]| {
                let apart = (one[0] - other[0]).abs();
                let apart = apart.min(10.0 - apart);
                apart * apart + (one[1] - other[1]).powi(2)
            };
            let distance = space.distance(&one, &other, square(one, other));
            if distance <= space.most_radius() {
                let reach = Reach::around(&space, &one, &one, distance);
                assert!(reach.has(&space, &other), "{one:?} {other:?} {distance} {reach:?}");
            }
        }
    }
}
