//! Distances on a sphere, in degrees.

use crate::Point;
use std::f64::consts::PI;

/// Upper bound of the rounding error of [`separation`], in degrees.
const SLACK: f64 = 1e-12;
/// Differences this close to a multiple of the half period count as reaching it.
const NEAR: f64 = 1e-9;

pub fn is_position([longitude, latitude]: Point) -> bool {
    longitude.is_finite() && (-90.0..=90.0).contains(&latitude)
}

pub fn is_beyond(low: Point, high: Point) -> bool {
    low[1] < -90.0 || high[1] > 90.0 || !low[0].is_finite() || !high[0].is_finite()
}

/// The angle between two positions from 0 to 180, or NaN if one is no position.
///
/// The haversine formula gives the sine of the half angle without cancellation, and its cosine for the opposite point,
/// so all distances have about 15 digits.
pub fn separation(one: Point, other: Point) -> f64 {
    if !is_position(one) || !is_position(other) {
        return f64::NAN;
    }
    apart((one[0] - other[0]) % 360.0, one[1], other[1])
}

fn apart(longitudes: f64, one: f64, other: f64) -> f64 {
    let half = |degrees: f64| (degrees / 2.0).to_radians();
    let (sine, cosine) = half(longitudes).sin_cos();
    let both = one.to_radians().cos() * other.to_radians().cos();
    let (up, sum) = (half(one - other).sin(), half(one + other).sin());
    let near = (up * up + both * sine * sine).max(0.0).sqrt();
    let far = (sum * sum + both * cosine * cosine).max(0.0).sqrt();
    2.0 * near.atan2(far).to_degrees()
}

/// Bounds of [`distance`] over an interval.
pub fn distances(low: f64, high: f64, period: f64) -> (f64, f64) {
    let half = period / 2.0;
    if !(high - low < period) {
        return (0.0, half);
    }
    let near = NEAR * period;
    let (one, other) = (distance(low, period), distance(high, period));
    let reaches = |first: f64| ((low - first - near) / period).ceil() * period + first <= high + near;
    let least = if reaches(0.0) { 0.0 } else { one.min(other) };
    let most = if reaches(half) { half } else { one.max(other) };
    (least.min(one).min(other), most.max(one).max(other))
}

/// The distance from a number to the nearest multiple of `period`.
pub fn distance(number: f64, period: f64) -> f64 {
    let rest = (number % period).abs();
    rest.min(period - rest)
}

/// Bounds of [`separation`] over a box. The first bound exceeds the second if the box has no position.
pub fn separations(low: Point, high: Point, from: Point) -> (f64, f64) {
    let (least, most) = (low[1].max(-90.0), high[1].min(90.0));
    if !(least <= most) {
        return (f64::INFINITY, f64::NEG_INFINITY);
    }
    if !is_position(from) {
        return (0.0, 180.0);
    }
    let (near, far) = distances(low[0] - from[0], high[0] - from[0], 360.0);
    let (mut nearest, mut farthest) = (f64::INFINITY, 0.0f64);
    for longitudes in [near, far] {
        for latitude in [least, most] {
            let found = apart(longitudes, latitude, from[1]);
            (nearest, farthest) = (nearest.min(found), farthest.max(found));
        }
        // Along a meridian the cosine is a wave with one maximum, and its minimum opposite.
        let (sine, cosine) = from[1].to_radians().sin_cos();
        let top = sine.atan2(cosine * longitudes.to_radians().cos());
        for turning in [top, top - PI, top + PI].map(f64::to_degrees) {
            if least - NEAR <= turning && turning <= most + NEAR {
                let found = apart(longitudes, turning, from[1]);
                (nearest, farthest) = (nearest.min(found), farthest.max(found));
            }
        }
    }
    ((nearest - SLACK).max(0.0), (farthest + SLACK).min(180.0))
}

pub(crate) fn vector([longitude, latitude]: Point) -> [f64; 3] {
    let ((sine, cosine), (z, ring)) = ((longitude % 360.0).to_radians().sin_cos(), latitude.to_radians().sin_cos());
    [ring * cosine, ring * sine, z]
}

pub(crate) fn position([x, y, z]: [f64; 3]) -> Point {
    [y.atan2(x).to_degrees().rem_euclid(360.0), z.atan2(x.hypot(y)).to_degrees()]
}
