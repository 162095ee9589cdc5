//! Spaces: the distance between two positions.
//!
//! A position has one number per axis: on a sphere, longitude and latitude in degrees. Trees compare embedded
//! positions, whose distance is Euclidean with periods: on a sphere, unit vectors, whose chord grows with the
//! angle.

use kubist_geometry::sky;

pub const MOST_AXES: usize = 6;

/// Upper bound of the rounding error of a chord of unit vectors.
const CHORD_ERROR: f64 = 1e-15;

#[derive(Clone, Debug, PartialEq)]
pub enum Space {
    /// Euclidean; an axis with a period measures from the nearest image.
    Flat {
        /// Per axis, if it has one.
        periods: Vec<Option<f64>>,
    },
    /// The angle between longitudes and latitudes, in degrees.
    Sphere,
}

impl Space {
    pub fn axes(&self) -> usize {
        match self {
            Space::Flat { periods } => periods.len(),
            Space::Sphere => 2,
        }
    }

    pub fn embedded_axes(&self) -> usize {
        match self {
            Space::Flat { periods } => periods.len(),
            Space::Sphere => 3,
        }
    }

    pub fn period(&self, axis: usize) -> Option<f64> {
        match self {
            Space::Flat { periods } => periods[axis],
            Space::Sphere => (axis == 0).then_some(360.0),
        }
    }

    /// The periods are infinite on axes without a period.
    pub fn embedded_periods(&self) -> Vec<f64> {
        match self {
            Space::Flat { periods } => periods.iter().map(|period| period.unwrap_or(f64::INFINITY)).collect(),
            Space::Sphere => vec![f64::INFINITY; 3],
        }
    }

    /// Moves a position into the first period of each axis. Returns false for a number that is not finite, or a
    /// latitude beyond ±90.
    pub fn wrap(&self, position: &mut [f64]) -> bool {
        let valid = match self {
            Space::Flat { .. } => position.iter().all(|number| number.is_finite()),
            Space::Sphere => sky::is_position([position[0], position[1]]),
        };
        for (axis, number) in position.iter_mut().enumerate() {
            if let Some(period) = self.period(axis) {
                let wrapped = number.rem_euclid(period);
                // The remainder of a tiny negative number rounds to the period.
                *number = if wrapped < period { wrapped } else { 0.0 };
            }
            // Makes -0 0, so that equal numbers have equal bits.
            *number += 0.0;
        }
        valid
    }

    pub fn embed(&self, position: &[f64], embedded: &mut [f64]) {
        match self {
            Space::Flat { .. } => embedded.copy_from_slice(position),
            Space::Sphere => {
                let (sin_lon, cos_lon) = position[0].to_radians().sin_cos();
                let (sin_lat, cos_lat) = position[1].to_radians().sin_cos();
                embedded.copy_from_slice(&[cos_lat * cos_lon, cos_lat * sin_lon, sin_lat]);
            }
        }
    }

    pub fn embed_all(&self, positions: &[f64]) -> Vec<f64> {
        let mut embedded = vec![0.0; positions.len() / self.axes() * self.embedded_axes()];
        for (from, to) in positions.chunks_exact(self.axes()).zip(embedded.chunks_exact_mut(self.embedded_axes())) {
            self.embed(from, to);
        }
        embedded
    }

    /// The embedded forms have a squared distance of `square`.
    pub fn distance(&self, one: &[f64], other: &[f64], square: f64) -> f64 {
        match self {
            Space::Flat { .. } => square.sqrt(),
            Space::Sphere => sky::separation([one[0], one[1]], [other[0], other[1]]),
        }
    }

    /// A squared distance of embedded positions that no pair within `radius` exceeds.
    pub fn square(&self, radius: f64) -> f64 {
        match self {
            Space::Flat { .. } => radius * radius,
            Space::Sphere if radius >= 180.0 => f64::INFINITY,
            Space::Sphere => (2.0 * (radius.to_radians() / 2.0).sin() + CHORD_ERROR).powi(2),
        }
    }

    /// The largest radius with one nearest image: half of the shortest period.
    pub fn most_radius(&self) -> f64 {
        match self {
            Space::Flat { periods } => {
                periods.iter().flatten().fold(f64::INFINITY, |most, period| most.min(period / 2.0))
            }
            Space::Sphere => 180.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_outside_the_first_period_are_moved_into_it() {
        let space = Space::Flat { periods: vec![Some(25.0), None] };
        for (x, wrapped) in [(-1.0, 24.0), (25.0, 0.0), (-1e-300, 0.0), (77.5, 2.5), (-0.0, 0.0)] {
            let mut position = [x, -0.0];
            assert!(space.wrap(&mut position));
            assert_eq!(position.map(f64::to_bits), [wrapped, 0.0].map(f64::to_bits));
        }
        assert!(!space.wrap(&mut [f64::NAN, 0.0]));
        assert!(!space.wrap(&mut [0.0, f64::INFINITY]));
        assert!(!Space::Sphere.wrap(&mut [0.0, 90.1]));
        assert!(Space::Sphere.wrap(&mut [-370.0, 90.0]));
    }
}
