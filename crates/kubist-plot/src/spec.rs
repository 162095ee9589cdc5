//! What a picture shows: handed in, never looked up.

use std::ops::RangeInclusive;

use crate::colormap::Colormap;
use crate::points::Points;
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

/// What the colours mean.
#[derive(Clone, Debug)]
pub struct Coloring {
    /// What stands beside the colour bar.
    pub label: String,
    /// How values spread over the colours.
    pub scale: Scale,
    /// Fixed ends; an open one follows the data.
    pub ends: (Option<f64>, Option<f64>),
    /// The colours.
    pub map: Colormap,
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
    pub precision: f64,
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
    /// Light on dark.
    pub dark: bool,
}

/// Ends of an axis or of the colours, low below high.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ends {
    pub low: f64,
    pub high: f64,
}

impl Ends {
    pub(crate) fn span(&self) -> f64 {
        self.high - self.low
    }

    /// Where a value lies: 0 at the low end, 1 at the high end.
    pub(crate) fn share(&self, value: f64) -> f64 {
        (value - self.low) / self.span()
    }

    /// These ends, or ones around them if they are too close to tell apart.
    pub(crate) fn apart(low: f64, high: f64, least: f64) -> Ends {
        let magnitude = low.abs().max(high.abs());
        if high - low > magnitude * 1e-12 && (high - low).is_finite() {
            return Ends { low, high };
        }
        let around = magnitude.max(least) * 0.05;
        Ends { low: (low - around).max(f64::MIN / 4.0), high: (high + around).min(f64::MAX / 4.0) }
    }
}
