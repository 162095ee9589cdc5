//! Plots of points and charts, as PNG, SVG, PDF or GIF.
//!
//! [`draw_picture`] draws a [`Picture`]: [`Points`] on two axes, coloured by a value or by their density. The
//! resulting [`Scene`] can be written as pixels, or as vector graphics around the pixels of the points. A
//! [`Stage`] draws the frames of an animation with the same axes and colours. [`draw_charts`] draws lines, dots
//! and spans on a [`Canvas`].
//!
//! The same specification gives the same bytes for any order of the points, up to rounding. Numbers that are
//! not finite are left out, and control characters do not reach the output.

#![deny(missing_docs)]

mod canvas;
mod caption;
mod chart;
mod classes;
mod coloring;
mod colormap;
mod columns;
mod error;
mod file;
mod film;
mod graticule;
mod layout;
mod pdf;
mod pen;
mod picture;
mod points;
mod scalebar;
mod scene;
mod sky;
mod spec;
mod splat;
mod svg;
mod text;
mod theme;
mod ticks;

pub use canvas::Canvas;
pub use caption::caption;
pub use chart::{Chart, Series, draw as draw_charts};
pub use classes::Kind;
pub use colormap::{Color, Colormap};
pub use columns::{color_scale, is_magnitude, kind, label, projection, scale, scale_bar, suits_equal_aspect, unit};
pub use error::Error;
pub use file::Format;
pub use film::Film;
pub use picture::{Stage, draw as draw_picture};
pub use points::{Extents, Points};
pub use scene::Scene;
pub use spec::{Axis, Coloring, Picture, Projection, RADII, SIDES};
pub use theme::Style;
pub use ticks::Scale;

#[cfg(test)]
mod tests {
    use kubist_types::Cancel;
    use proptest::prelude::*;

    use super::*;

    fn drawn(picture: &Picture) -> Canvas {
        let go_on = Cancel::default();
        draw_picture(picture, &go_on).unwrap().canvas(&go_on).unwrap()
    }

    pub fn picture(count: usize) -> Picture {
        let numbers: Vec<f64> = (0..count).map(|index| index as f64 / count as f64).collect();
        let mut points = Points::new(["x", "y"], &[]);
        (points.x, points.y) = (numbers.clone(), numbers);
        let axis =
            |label: &str| Axis { label: label.to_string(), scale: Scale::Linear, ends: (None, None), inverted: false };
        Picture {
            x: axis("x"),
            y: axis("y"),
            color: Coloring {
                label: "u".to_string(),
                scale: Scale::Linear,
                ends: (None, None),
                map: Colormap::Viridis,
                kind: Kind::Measured,
            },
            points,
            fraction: 1.0,
            title: None,
            caption: format!("all {count} points"),
            size: None,
            aspect: None,
            projection: Projection::Plane,
            radius: None,
            style: Style::Paper,
            scale_bar: None,
        }
    }

    #[test]
    fn every_picture_can_be_drawn() {
        for (count, value) in [(0, None), (1, None), (1, Some(f64::NAN)), (3, Some(5.0)), (1000, Some(-1.0))] {
            for size in [Some((200, 200)), Some((200, 700)), Some((700, 200))] {
                for aspect in [None, Some(1.0)] {
                    let mut picture = picture(count);
                    picture.points.value = value.map(|value| vec![value; count]);
                    (picture.size, picture.aspect) = (size, aspect);
                    picture.title = Some("A title".repeat(40));
                    let canvas = drawn(&picture);
                    if let Some((width, height)) = size {
                        assert_eq!((canvas.width, canvas.height), (width as usize, height as usize));
                    }
                }
            }
        }
    }

    fn extremes() -> impl Strategy<Value = f64> {
        const EXTREMES: [f64; 16] = [
            0.0,
            -0.0,
            5e-324,
            -5e-324,
            2.3e-308,
            f64::MAX,
            f64::MIN,
            1e300,
            -1e300,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            9_007_199_254_740_993.0,
            9.223372036854775807e18,
            1.0,
            1.000_000_000_000_000_2,
        ];
        prop_oneof![3 => prop::sample::select(&EXTREMES[..]), 1 => any::<f64>()]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn extreme_numbers_are_drawn(
            x in prop::collection::vec(extremes(), 0..7),
            y in prop::collection::vec(extremes(), 7),
            value in prop::option::of(prop::collection::vec(extremes(), 7)),
            ends in prop::option::of((extremes(), extremes())),
            scales in (0usize..3, 0usize..3, 0usize..3),
            whole in any::<bool>(),
            equal_aspect in any::<bool>(),
        ) {
            let axes = [Scale::Linear, Scale::Calendar, Scale::Log];
            let mut picture = picture(0);
            picture.points.y = y[..x.len()].to_vec();
            picture.points.value = value.map(|value| value[..x.len()].to_vec());
            picture.points.x = x;
            (picture.x.scale, picture.y.scale, picture.color.scale) = (axes[scales.0], axes[scales.1], axes[scales.2]);
            picture.color.kind = if whole { Kind::Whole } else { Kind::Measured };
            let finite = |end: f64| Some(end).filter(|end| end.is_finite());
            picture.x.ends = ends.map_or((None, None), |(low, high)| (finite(low), finite(high)));
            picture.color.ends = picture.x.ends;
            (picture.aspect, picture.size) = (equal_aspect.then_some(1.0), Some((300, 260)));
            picture.scale_bar = Some("m".to_string());
            drawn(&picture);
            let (x, y) = (&picture.points.x, &picture.points.y);
            let finite: Vec<usize> = (0..x.len()).filter(|row| x[*row].is_finite() && y[*row].is_finite()).collect();
            for (axis, numbers) in [(&picture.x, x), (&picture.y, y)] {
                let ends = axis.ends_of(numbers);
                prop_assert!(ends.low < ends.high && ends.low.is_finite() && ends.high.is_finite(), "{ends:?}");
                let side = axis.side(numbers);
                let is_within = |row: &usize| side.share(numbers[*row]).is_nan() || (-1e-9..=1.0 + 1e-9).contains(&side.share(numbers[*row]));
                prop_assert!(axis.ends != (None, None) || finite.iter().all(is_within), "{ends:?}");
            }
        }
    }

    #[test]
    fn extreme_charts_are_drawn() {
        for scale in [Scale::Linear, Scale::Log, Scale::Calendar] {
            let points = [(f64::MIN, 5e-324), (0.0, f64::MAX), (f64::MAX, f64::NAN), (5e-324, 1e300)];
            let axis = || ("a".to_string(), scale);
            let series = vec![Series::line("s", [200, 0, 0], points), Series::dots("d", [0, 0, 200], points)];
            draw_charts(&[Chart { title: "t".to_string(), x: axis(), y: axis(), series }], "title");
        }
    }

    #[test]
    fn drawing_ends_once_it_is_cancelled() {
        let mut picture = picture(3);
        let (go_on, stopped) = (Cancel::default(), Cancel::default());
        stopped.set();
        let scene = draw_picture(&picture, &go_on).unwrap();
        for format in [Format::Png, Format::Svg, Format::Pdf] {
            let written = scene.write(format, Vec::new(), "", "", &stopped);
            assert!(matches!(written, Err(Error::Cancelled)), "{format:?}");
        }
        picture.points = self::picture(200_000).points;
        let looks = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let count = looks.clone();
        let counting = Cancel::asking(move || count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 1_000_000);
        draw_picture(&picture, &counting).unwrap();
        assert!(looks.load(std::sync::atomic::Ordering::Relaxed) > 40);
        assert!(matches!(draw_picture(&picture, &stopped), Err(Error::Cancelled)));
    }

    #[test]
    fn a_pixel_of_classes_has_the_colour_of_one() {
        let mut picture = picture(3000);
        picture.size = Some((300, 300));
        picture.points.value = Some((0..3000).map(|index| f64::from(index % 2) * 7.0).collect());
        picture.color.kind = Kind::Whole;
        let blended = |picture: &Picture| {
            let canvas = drawn(picture);
            let between =
                |[red, green, blue]: Color| red > 120 && red < 175 && green > 110 && green < 140 && blue < 116;
            (0..canvas.height).any(|y| (0..canvas.width).any(|x| between(canvas.pixel(x, y))))
        };
        assert!(!blended(&picture));
        let two = Stage::new(&picture, &picture.points, &Cancel::default()).unwrap();
        let colors: std::collections::HashSet<Color> = two.palette().into_iter().collect();
        assert!(colors.contains(&[0x1f, 0x77, 0xb4]) && colors.contains(&[0xff, 0x7f, 0x0e]));
        let forward = drawn(&picture);
        for numbers in [&mut picture.points.x, &mut picture.points.y] {
            numbers.reverse();
        }
        picture.points.value.iter_mut().for_each(|values| values.reverse());
        let backward = drawn(&picture);
        let far = |one: u8, other: u8| one.abs_diff(other) > 1;
        for (x, y) in (0..300).flat_map(|y| (0..300).map(move |x| (x, y))) {
            let mut pairs = forward.pixel(x, y).into_iter().zip(backward.pixel(x, y));
            assert!(!pairs.any(|(one, other)| far(one, other)), "{x} {y}");
        }
    }

    #[test]
    fn the_order_of_the_points_does_not_matter() {
        let mut picture = picture(5000);
        picture.size = Some((400, 300));
        picture.points.value = Some(picture.points.x.iter().map(|x| (x * 50.0).sin()).collect());
        let forward = drawn(&picture);
        picture.points.x.reverse();
        picture.points.y.reverse();
        if let Some(values) = &mut picture.points.value {
            values.reverse();
        }
        let backward = drawn(&picture);
        let far = |one: u8, other: u8| one.abs_diff(other) > 1;
        for y in 0..forward.height {
            for x in 0..forward.width {
                let pairs = forward.pixel(x, y).into_iter().zip(backward.pixel(x, y));
                assert!(!pairs.into_iter().any(|(one, other)| far(one, other)), "{x} {y}");
            }
        }
    }
}
