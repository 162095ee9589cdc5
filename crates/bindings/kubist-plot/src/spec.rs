//! The specification of a plot.

use std::ops::RangeInclusive;

use kubist_types::steps::{self, LEAST};

use crate::classes::Kind;
use crate::colormap::Colormap;
use crate::points::{Extents, Points, extent};
use crate::theme::Style;
use crate::ticks::Scale;

/// Allowed width and height in pixels.
pub const SIDES: RangeInclusive<u32> = 200..=16_384;

/// Allowed radius of a point in pixels.
pub const RADII: RangeInclusive<f32> = 0.1..=100.0;

/// One of the two axes.
#[derive(Clone, Debug)]
pub struct Axis {
    /// The label.
    pub label: String,
    /// The scale.
    pub scale: Scale,
    /// Fixed ends; a missing one follows the data.
    pub ends: (Option<f64>, Option<f64>),
    /// True if values rise to the left or downwards.
    pub inverted: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Side {
    pub ends: Ends,
    pub scale: Scale,
    inverted: bool,
}

impl Side {
    /// The position of a value, from 0 at the left or bottom to 1; NaN if it has none.
    pub(crate) fn share(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Log if value <= 0.0 => f64::NAN,
            Scale::Log => Ends { low: self.ends.low.log10(), high: self.ends.high.log10() }.share(value.log10()),
            _ => self.ends.share(value),
        };
        if self.inverted { 1.0 - share } else { share }
    }
}

impl Axis {
    pub(crate) fn side(&self, numbers: &[f64]) -> Side {
        Side { ends: self.ends_of(numbers), scale: self.scale, inverted: self.inverted }
    }

    /// The ends as exponents of ten.
    fn log_ends_of(&self, numbers: &[f64]) -> Ends {
        let exponents = |numbers: &[f64]| -> Vec<f64> {
            numbers.iter().map(|number| number.log10()).filter(|exponent| exponent.is_finite()).collect()
        };
        let given = |end: Option<f64>| end.filter(|end| *end > 0.0 && end.is_finite()).map(f64::log10);
        let ends = (given(self.ends.0), given(self.ends.1));
        let ends = Axis { scale: Scale::Linear, ends, ..self.clone() }.ends_of(&exponents(numbers));
        let value = |exponent: f64| 10f64.powf(exponent).clamp(LEAST, f64::MAX);
        let (low, high) = (value(ends.low), value(ends.high));
        if low < high { Ends { low, high } } else { Ends { low: 1.0, high: 10.0 } }
    }

    pub(crate) fn ends_of(&self, numbers: &[f64]) -> Ends {
        const MARGIN: f64 = 0.025;
        if self.scale == Scale::Log {
            return self.log_ends_of(numbers);
        }
        let (low, high) = extent(numbers).unwrap_or((0.0, 1.0));
        let (given_low, given_high) = self.ends;
        let (low, high) = (given_low.unwrap_or(low), given_high.unwrap_or(high));
        let least = if self.scale == Scale::Calendar { 60.0 } else { 1.0 };
        let ends = Ends::apart(low.min(high), high.max(low), least);
        let margin = |given: Option<f64>| {
            if given.is_some() || ends.low != low { 0.0 } else { ends.part(1.0 / MARGIN).max(LEAST) }
        };
        Ends { low: (ends.low - margin(given_low)).max(f64::MIN), high: (ends.high + margin(given_high)).min(f64::MAX) }
    }

    fn fixed(&mut self, data: Option<(f64, f64)>) {
        let ends = self.ends_of(&data.map_or(Vec::new(), |(low, high)| vec![low, high]));
        self.ends = (Some(ends.low), Some(ends.high));
    }
}

/// The meaning of colours.
#[derive(Clone, Debug)]
pub struct Coloring {
    /// The label of the colour bar.
    pub label: String,
    /// The scale from values to colours.
    pub scale: Scale,
    /// Fixed ends; a missing one follows the data.
    pub ends: (Option<f64>, Option<f64>),
    /// The colormap.
    pub map: Colormap,
    /// The kind of values; unless ends are fixed, booleans and integers with few distinct values have a colour each.
    pub kind: Kind,
}

/// The meaning of positions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Projection {
    /// The axes are any quantities.
    #[default]
    Plane,
    /// Longitude and latitude on the sky, in degrees, where the plot is a field or a map; animations use a plane.
    Sky,
    /// Already projected.
    Mollweide,
}

/// A plot of points.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Colouring of the points by their values.
    pub color: Coloring,
    /// The points; without values, the colour is their density.
    pub points: Points,
    /// The sample fraction of the points, which densities are divided by to estimate those of all rows.
    pub fraction: f64,
    /// Title above the plot.
    pub title: Option<String>,
    /// Caption between title and plot.
    pub caption: String,
    /// Width and height in pixels, clamped to [`SIDES`]; with `None` the height follows from the axes.
    pub size: Option<(u32, u32)>,
    /// The length of a unit of x over that of a unit of y; with `None` the plot fills its space.
    pub aspect: Option<f64>,
    /// The meaning of the axes.
    pub projection: Projection,
    /// Radius of a point in pixels, clamped to [`RADII`]; with `None` it is smaller for more points.
    pub radius: Option<f32>,
    /// Colours of background, lines and text.
    pub style: Style,
    /// The common unit of both axes for a scale bar, which is drawn if both axes have the same scale.
    pub scale_bar: Option<String>,
}

impl Picture {
    /// Fixes the ends of both axes; missing ends are those of `data` with a margin.
    pub fn fix_axes(&mut self, data: &Extents) {
        self.x.fixed(data.x);
        self.y.fixed(data.y);
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ends {
    pub low: f64,
    pub high: f64,
}

impl Ends {
    /// Divides the distance of the ends, which may overflow.
    pub(crate) fn part(&self, count: f64) -> f64 {
        steps::part(self.low, self.high, count)
    }

    /// From 0 at the low end to 1 at the high end.
    pub(crate) fn share(&self, value: f64) -> f64 {
        steps::share(self.low, self.high, value)
    }

    pub(crate) fn apart(low: f64, high: f64, least: f64) -> Ends {
        let magnitude = low.abs().max(high.abs());
        if high - low > magnitude * 1e-12 {
            return Ends { low, high };
        }
        let around = magnitude.max(least) * 0.05;
        Ends { low: (low - around).max(f64::MIN), high: (high + around).min(f64::MAX) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_can_be_logarithmic_and_inverted() {
        let axis = Axis { label: String::new(), scale: Scale::Log, ends: (Some(1.0), Some(100.0)), inverted: false };
        let side = axis.side(&[]);
        assert!((side.share(10.0) - 0.5).abs() < 1e-9 && side.share(-1.0).is_nan());
        let side = Axis { inverted: true, ..axis.clone() }.side(&[]);
        assert!(side.share(1.0) > 0.999 && side.share(100.0) < 0.001);
        for numbers in [&[][..], &[5.0], &[1e300, 1e-300], &[-5.0, 0.0], &[5e-324], &[f64::MAX]] {
            let open = Axis { ends: (None, Some(-1.0)), ..axis.clone() };
            let found = open.ends_of(numbers);
            assert!(0.0 < found.low && found.low < found.high, "{numbers:?}: {found:?}");
        }
    }

    #[test]
    fn given_ends_are_kept_and_others_have_a_margin() {
        let axis = Axis { label: String::new(), scale: Scale::Linear, ends: (Some(0.0), None), inverted: false };
        let found = axis.ends_of(&[0.2, 1.0, f64::NAN]);
        assert_eq!(found.low, 0.0);
        assert!(found.high > 1.0 && found.high < 1.05);
        for numbers in [&[][..], &[5.0], &[f64::MAX, f64::MIN], &[f64::MAX], &[0.0, 5e-324], &[f64::NAN], &[0.0]] {
            let found = Axis { ends: (None, None), ..axis.clone() }.ends_of(numbers);
            assert!(found.low < found.high && found.part(4.0).is_finite(), "{numbers:?}: {found:?}");
            let shares = numbers.iter().filter(|number| number.is_finite()).map(|number| found.share(*number));
            assert!(shares.into_iter().all(|share| (0.0..=1.0).contains(&share)), "{numbers:?}: {found:?}");
        }
        let mut fixed = axis.clone();
        fixed.fixed(Some((0.2, 1.0)));
        assert_eq!(fixed.ends_of(&[-7.0, 7.0]), found);
    }
}
