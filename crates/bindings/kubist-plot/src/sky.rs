//! Plots of the sky, as astronomers draw them: right ascension increases to the left.
//!
//! A field has right ascension and declination as axes, with equal lengths in its middle. A larger part of the
//! sky is a map in Mollweide's projection, which keeps areas, so that densities are comparable (Snyder, "Map
//! Projections: A Working Manual", 1987, page 249). Angles are in degrees.

use std::f64::consts::{FRAC_PI_2, PI, SQRT_2};

use crate::spec::{Picture, Projection};
use crate::ticks::{Scale, Ticks, ticks};

/// Largest width and height of a field, in degrees.
const WIDEST: f64 = 120.0;
const HIGHEST: f64 = 100.0;
/// Nearer to a pole, a field would draw right ascensions too wide.
const POLE: f64 = 85.0;
const HALF_HEIGHT: f64 = SQRT_2;
const MARGIN: f64 = 1.02;

pub(crate) fn projected(picture: &Picture) -> Picture {
    let mut picture = picture.clone();
    let (x, y) = (picture.x.ends, picture.y.ends);
    let width = match x {
        (Some(low), Some(high)) => Some(high - low),
        _ => contiguous(&mut picture.points.x),
    };
    let heights = picture.points.y.iter().copied().filter(|dec| dec.is_finite());
    let (south, north) = heights.fold((f64::MAX, f64::MIN), |(low, high), dec| (low.min(dec), high.max(dec)));
    let (south, north) = (y.0.unwrap_or(south), y.1.unwrap_or(north));
    let is_field =
        width.is_some_and(|width| width <= WIDEST) && north - south <= HIGHEST && (south + north).abs() / 2.0 <= POLE;
    picture.x.inverted = !picture.x.inverted;
    if is_field {
        picture.aspect = Some(((south + north) / 2.0).to_radians().cos());
        return picture;
    }
    picture.projection = Projection::Mollweide;
    for (ra, dec) in picture.points.x.iter_mut().zip(&mut picture.points.y) {
        (*ra, *dec) = mollweide(*ra, *dec);
    }
    for (axis, half) in [(&mut picture.x, 2.0 * HALF_HEIGHT), (&mut picture.y, HALF_HEIGHT)] {
        axis.ends = (Some(-half * MARGIN), Some(half * MARGIN));
    }
    picture.aspect = Some(1.0);
    picture
}

/// Closes the largest gap between right ascensions; returns the length of their range.
fn contiguous(numbers: &mut [f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = numbers.iter().filter(|ra| ra.is_finite()).map(|ra| ra.rem_euclid(360.0)).collect();
    sorted.sort_by(f64::total_cmp);
    let (first, last) = (*sorted.first()?, *sorted.last()?);
    let around = (first + 360.0 - last, first);
    let gaps = sorted.windows(2).map(|pair| (pair[1] - pair[0], pair[1]));
    let (gap, begin) = gaps.fold(around, |most, gap| if gap.0 > most.0 { gap } else { most });
    for number in numbers {
        *number = begin + (*number - begin).rem_euclid(360.0);
    }
    Some(360.0 - gap)
}

/// The position on a map whose half height is the root of 2, with meridian 0 in the middle.
fn mollweide(ra: f64, dec: f64) -> (f64, f64) {
    let longitude = ((ra + 180.0).rem_euclid(360.0) - 180.0).to_radians();
    place(longitude, dec.to_radians())
}

/// The position of a longitude from -pi to pi and a latitude.
pub(crate) fn place(longitude: f64, latitude: f64) -> (f64, f64) {
    if !(longitude.is_finite() && latitude.abs() <= FRAC_PI_2 + 1e-9) {
        return (f64::NAN, f64::NAN);
    }
    let wanted = PI * latitude.sin();
    // Newton's method for 2t + sin 2t = pi sin(latitude). It is slow at the poles, where it also ends.
    let mut t = latitude;
    for _ in 0..60 {
        let slope = 2.0 + 2.0 * (2.0 * t).cos();
        if slope < 1e-12 {
            break;
        }
        let step = (2.0 * t + (2.0 * t).sin() - wanted) / slope;
        t = (t - step).clamp(-FRAC_PI_2, FRAC_PI_2);
        if step.abs() < 1e-12 {
            break;
        }
    }
    (2.0 * HALF_HEIGHT / PI * longitude * t.cos(), HALF_HEIGHT * t.sin())
}

pub(crate) fn relabelled(mut found: Ticks, (low, high): (f64, f64), most: usize) -> Ticks {
    if high <= 360.0 {
        return found;
    }
    let turned = ticks(Scale::Linear, low - 360.0, high - 360.0, most);
    for (value, label) in found.major.iter_mut().filter(|(value, _)| *value >= 360.0) {
        let same = turned.major.iter().find(|(other, _)| (other + 360.0 - *value).abs() < 1e-9 * 360.0);
        if let Some((_, turned)) = same {
            label.clone_from(turned);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tests::picture;

    fn sky(points: &[(f64, f64)]) -> Picture {
        let mut picture = picture(points.len());
        picture.projection = Projection::Sky;
        picture.x.ends = (None, None);
        picture.y.ends = (None, None);
        (picture.points.x, picture.points.y) = points.iter().copied().unzip();
        picture
    }

    #[test]
    fn the_map_has_known_places() {
        let near = |(x, y): (f64, f64), (a, b): (f64, f64)| (x - a).abs() < 1e-5 && (y - b).abs() < 1e-5;
        assert!(near(mollweide(0.0, 0.0), (0.0, 0.0)));
        assert!(near(mollweide(90.0, 0.0), (SQRT_2, 0.0)));
        assert!(near(mollweide(270.0, 0.0), (-SQRT_2, 0.0)));
        for ra in [0.0, 77.0, 359.0] {
            assert!(near(mollweide(ra, 90.0), (0.0, SQRT_2)) && near(mollweide(ra, -90.0), (0.0, -SQRT_2)));
        }
        assert!(mollweide(0.0, 91.0).0.is_nan() && mollweide(f64::NAN, 0.0).0.is_nan());
    }

    #[test]
    fn a_field_across_0h_is_one_piece_and_wider_parts_are_a_map() {
        let field = projected(&sky(&[(359.0, 59.0), (0.5, 61.0), (2.0, 60.0)]));
        assert_eq!(field.points.x, [359.0, 360.5, 362.0]);
        assert!(field.x.inverted && field.projection == Projection::Sky);
        assert!((field.aspect.expect("both axes are angles") - 0.5).abs() < 1e-12);
        for points in [[(0.0, 0.0), (170.0, 0.0)], [(10.0, 85.0), (20.0, 89.0)], [(0.0, -80.0), (1.0, 80.0)]] {
            let map = projected(&sky(&points));
            assert!(map.projection == Projection::Mollweide && map.aspect == Some(1.0), "{points:?}");
        }
        let mut empty = sky(&[]);
        assert_eq!(projected(&empty).projection, Projection::Mollweide);
        empty.x.ends = (Some(10.0), Some(12.0));
        empty.y.ends = (Some(-1.0), Some(1.0));
        assert_eq!(projected(&empty).projection, Projection::Sky);
    }

    #[test]
    fn labels_continue_at_0() {
        let found = relabelled(ticks(Scale::Linear, 356.0, 364.0, 5), (356.0, 364.0), 5);
        let labels: Vec<&str> = found.major.iter().map(|(_, label)| label.as_str()).collect();
        assert!(labels.contains(&"358") && labels.contains(&"0") && labels.contains(&"2"), "{labels:?}");
    }

    proptest! {
        /// The map keeps areas, and contains every point.
        #[test]
        fn areas_are_kept(ra in 0.0..360.0f64, dec in -89.0..89.0f64) {
            let (x, y) = mollweide(ra, dec);
            prop_assert!((x / 2.0).powi(2) + y.powi(2) <= 2.0 + 1e-9);
            let (longitude, latitude, step) = (((ra + 180.0) % 360.0 - 180.0).to_radians(), dec.to_radians(), 1e-5);
            if longitude.abs() < PI - 0.01 {
                let (east, north) = (place(longitude + step, latitude), place(longitude, latitude + step));
                let area = (east.0 - x) * (north.1 - y) - (east.1 - y) * (north.0 - x);
                prop_assert!((area / (step * step * latitude.cos()) - 1.0).abs() < 0.02, "{area}");
            }
        }
    }
}
