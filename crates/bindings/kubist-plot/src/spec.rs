//! What a picture shows: handed in, never looked up.

use std::ops::RangeInclusive;

use kubist_types::steps::{self, LEAST};

use crate::classes::Kind;
use crate::colormap::Colormap;
use crate::points::{Extents, Points, extent};
use crate::theme::Style;
use crate::ticks::Scale;

/// Pixels that a picture may be wide, and high.
pub const SIDES: RangeInclusive<u32> = 200..=16_384;

/// Pixels that a point's radius may have.
pub const RADII: RangeInclusive<f32> = 0.1..=100.0;

/// One of the two axes.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What stands beside it.
    pub label: String,
    /// `Linear` or `Calendar`.
    pub scale: Scale,
    /// Fixed ends; an open one follows the data.
    pub ends: (Option<f64>, Option<f64>),
}

impl Axis {
    /// The ends: given, or the data's with a margin.
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

/// What the colours mean.
#[derive(Clone, Debug)]
pub struct Coloring {
    /// What stands beside the colour bar.
    pub label: String,
    /// How values spread over the colours.
    pub scale: Scale,
    /// Fixed ends; an open one follows the data.
    pub ends: (Option<f64>, Option<f64>),
    /// The colours of numbers.
    pub map: Colormap,
    /// What the values are: few whole numbers and truths have a colour each, unless ends are given.
    pub kind: Kind,
}

/// All that is drawn.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Across.
    pub x: Axis,
    /// Up.
    pub y: Axis,
    /// Of the points, if they have values.
    pub color: Coloring,
    /// Without values the colour is the density of the points.
    pub points: Points,
    /// The share of the records that the points are: the density is divided by
    /// it, to be that of all records.
    pub fraction: f64,
    /// Above the plot.
    pub title: Option<String>,
    /// Between title and plot.
    pub caption: String,
    /// Width and height in pixels, each brought within [`SIDES`]; `None`: as high as the axes ask.
    pub size: Option<(u32, u32)>,
    /// One unit is as long across as up.
    pub equal_aspect: bool,
    /// Of a point, in pixels, brought within [`RADII`]; `None`: smaller the more points.
    pub radius: Option<f32>,
    /// On what it is drawn.
    pub style: Style,
    /// The unit of both axes, if a bar is to show a length in it; drawn where units are equally long.
    pub scale_bar: Option<String>,
}

impl Picture {
    /// Fixes the ends of both axes, open ones at these of the data with a margin.
    pub fn fix_axes(&mut self, data: &Extents) {
        self.x.fixed(data.x);
        self.y.fixed(data.y);
    }
}

/// Ends of an axis or of the colours, low below high.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ends {
    pub low: f64,
    pub high: f64,
}

impl Ends {
    /// How far they lie apart, divided: the distance itself need not be a number.
    pub(crate) fn part(&self, count: f64) -> f64 {
        steps::part(self.low, self.high, count)
    }

    /// Where a value lies: 0 at the low end, 1 at the high end.
    pub(crate) fn share(&self, value: f64) -> f64 {
        steps::share(self.low, self.high, value)
    }

    /// These ends, or ones around them if they are too close to tell apart.
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
