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
    /// `Linear` or `Calendar`.
    pub scale: Scale,
    /// Fixed ends; a missing one follows the data.
    pub ends: (Option<f64>, Option<f64>),
}

impl Axis {
    /// The fixed ends, or those of the data with a margin.
    pub(crate) fn ends_of(&self, numbers: &[f64]) -> Ends {
        const MARGIN: f64 = 0.025;
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
    /// The kind of values. Booleans and few integers have a colour each, unless ends are fixed.
    pub kind: Kind,
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
    /// The points. Without values, the colour is their density.
    pub points: Points,
    /// The sample fraction of the points. Densities are divided by it to estimate those of all rows.
    pub fraction: f64,
    /// Title above the plot.
    pub title: Option<String>,
    /// Caption between title and plot.
    pub caption: String,
    /// Width and height in pixels, clamped to [`SIDES`]. With `None` the height follows from the axes.
    pub size: Option<(u32, u32)>,
    /// Whether both axes have the same scale.
    pub equal_aspect: bool,
    /// Radius of a point in pixels, clamped to [`RADII`]. With `None` it is smaller for more points.
    pub radius: Option<f32>,
    /// Colours of background, lines and text.
    pub style: Style,
    /// The common unit of both axes for a scale bar. It is drawn if both axes have the same scale.
    pub scale_bar: Option<String>,
}

impl Picture {
    /// Fixes the ends of both axes. Missing ends are those of `data` with a margin.
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
    /// Divides the distance of the ends, which may itself overflow.
    pub(crate) fn part(&self, count: f64) -> f64 {
        steps::part(self.low, self.high, count)
    }

    /// The position of a value, from 0 at the low end to 1 at the high end.
    pub(crate) fn share(&self, value: f64) -> f64 {
        steps::share(self.low, self.high, value)
    }

    /// Widens the ends if they are too close to distinguish.
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
    fn given_ends_are_kept_and_others_have_a_margin() {
        let axis = Axis { label: String::new(), scale: Scale::Linear, ends: (Some(0.0), None) };
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
