//! Positions of all parts of a plot, with lengths for scale 1, a plot of 1200 x 900 pixels.

use kubist_types::Cancel;

use crate::canvas::Rect;
use crate::coloring::Colors;
use crate::error::{Error, Steps};
use crate::points::Points;
use crate::sky::relabelled;
use crate::spec::{Picture, Projection, SIDES, Side};
use crate::text::Typeface;
use crate::ticks::{Scale, Ticks, ticks};

const WIDTH: f64 = 1200.0;
const HEIGHT: f64 = 900.0;
const HIGHEST_PLOT: f64 = 1000.0;
const SMALLEST_PLOT: f64 = 240.0;
const COLOR_MARKS: usize = 10;

pub(crate) const MARK_TEXT: f32 = 16.0;
pub(crate) const LABEL_TEXT: f32 = 18.0;
pub(crate) const CAPTION_TEXT: f32 = 15.0;
pub(crate) const TITLE_TEXT: f32 = 25.0;

pub(crate) struct Layout {
    pub scale: f64,
    pub width: usize,
    pub height: usize,
    pub plot: Rect,
    pub x: Side,
    pub x_ticks: Ticks,
    pub y: Side,
    pub y_ticks: Ticks,
    pub label_distance: f64,
}

impl Layout {
    pub(crate) fn new(picture: &Picture, typeface: &Typeface, colors: &Colors) -> Layout {
        let (across, upward) = (picture.x.side(&picture.points.x), picture.y.side(&picture.points.y));
        let (x, y) = (across.ends, upward.ends);
        let side = |pixels: u32| f64::from(pixels.clamp(*SIDES.start(), *SIDES.end()));
        let (width, height) = picture.size.map_or((WIDTH, HEIGHT), |(width, height)| (side(width), side(height)));
        let scale = (width * height / (WIDTH * HEIGHT)).sqrt().clamp(0.65, 8.0);
        let fitting = |length: f64, spacing: f64| ((length / (spacing * scale)) as usize).clamp(2, 12);
        let top = if picture.title.is_some() { 92.0 } else { 58.0 } * scale;
        let bottom = 76.0 * scale;
        let up = |height: f64| ticks(picture.y.scale, y.low, y.high, fitting(height, 80.0));
        // The widest label sets the margin, and hardly depends on the number of marks.
        let widths = up(height - top - bottom).major.into_iter();
        let widths = widths.map(|(_, label)| typeface.width(&label, MARK_TEXT * scale as f32));
        let label_distance = f64::from(widths.fold(0.0, f32::max)) + 22.0 * scale;
        let left = label_distance + 40.0 * scale;
        let marks = colors.marks(COLOR_MARKS).major.into_iter().map(|(_, label)| label).chain(["100000".to_string()]);
        let widths = marks.map(|label| typeface.width(&label, MARK_TEXT * scale as f32));
        let bar = f64::from(widths.fold(0.0, f32::max)) + 92.0 * scale;
        let right = if colors.ends.is_some() { bar } else { 40.0 * scale };
        let (mut plot_width, mut plot_height) = (width - left - right, height - top - bottom);
        if let Some(aspect) = picture.aspect {
            let ratio = (y.part(4.0) / (x.part(4.0) * aspect)).clamp(1e-6, 1e6);
            if picture.size.is_none() {
                plot_height = (plot_width * ratio).min(HIGHEST_PLOT * scale);
            }
            plot_width = plot_width.min(plot_height / ratio);
            plot_height = plot_height.min(plot_width * ratio);
        }
        let fits = |length: f64, room: f64| length.max(SMALLEST_PLOT * scale).min(room.max(16.0));
        if picture.size.is_none() {
            (plot_width, plot_height) = (fits(plot_width, f64::MAX), fits(plot_height, f64::MAX));
        } else {
            (plot_width, plot_height) = (plot_width.max(16.0), plot_height.max(16.0));
        }
        let (mut whole, mut corner) = ((left + plot_width + right, top + plot_height + bottom), (left, top));
        if picture.size.is_some() {
            corner.0 += ((width - whole.0) / 2.0).max(0.0);
            corner.1 += ((height - whole.1) / 2.0).max(0.0);
            whole = (width, height);
        } else {
            let caption = typeface.width(&picture.caption, CAPTION_TEXT * scale as f32);
            whole.0 = whole.0.max((left + f64::from(caption) + 24.0 * scale).min(width));
        }
        let plot = Rect {
            x: corner.0.round() as i64,
            y: corner.1.round() as i64,
            width: plot_width.round() as i64,
            height: plot_height.round() as i64,
        };
        let room_across = if picture.x.scale == Scale::Calendar { 150.0 } else { 110.0 };
        let most_across = fitting(plot_width, room_across);
        let mut x_ticks = ticks(picture.x.scale, x.low, x.high, most_across);
        if picture.projection == Projection::Sky {
            x_ticks = relabelled(x_ticks, (x.low, x.high), most_across);
        }
        Layout {
            scale,
            width: whole.0.round() as usize,
            height: whole.1.round() as usize,
            plot,
            x: across,
            x_ticks,
            y: upward,
            y_ticks: up(plot_height),
            label_distance,
        }
    }

    pub(crate) fn pixels(&self, length: f64) -> i64 {
        ((length * self.scale).round() as i64).max(1)
    }

    pub(crate) fn column(&self, value: f64) -> i64 {
        self.plot.x + (self.x.share(value) * self.plot.width as f64).round() as i64
    }

    pub(crate) fn row(&self, value: f64) -> i64 {
        self.plot.bottom() - (self.y.share(value) * self.plot.height as f64).round() as i64
    }

    pub(crate) fn color_marks(&self, height: i64) -> usize {
        ((height as f64 / (70.0 * self.scale)) as usize).clamp(2, COLOR_MARKS)
    }

    /// The radius at which these points cover a good part of their area.
    pub(crate) fn radius(&self, points: &Points, cancel: &Cancel) -> Result<f32, Error> {
        const SHARE_COVERED: f64 = 0.35;
        let block = (32.0 * self.scale).max(8.0);
        let pixels = self.hit(points, 1.0, cancel)?.max(1) as f64;
        let room = self.hit(points, block, cancel)? as f64 * block * block;
        let radius = (room / pixels * SHARE_COVERED / std::f64::consts::PI).sqrt();
        Ok(radius.clamp(0.8 * self.scale.max(0.9), 4.5 * self.scale.max(0.9)) as f32)
    }

    fn hit(&self, points: &Points, side: f64, cancel: &Cancel) -> Result<usize, Error> {
        let mut steps = Steps::new(cancel);
        let (width, height) = (self.plot.width as f64 / side, self.plot.height as f64 / side);
        let columns = width.ceil() as usize;
        let mut hit = vec![false; columns * height.ceil() as usize];
        for (x, y) in points.x.iter().zip(&points.y) {
            steps.step(1)?;
            let (across, down) = (self.x.share(*x) * width, self.y.share(*y) * height);
            if (0.0..width).contains(&across) && (0.0..height).contains(&down) {
                hit[down as usize * columns + across as usize] = true;
            }
        }
        Ok(hit.into_iter().filter(|hit| *hit).count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::picture;

    fn layout(picture: &Picture) -> Layout {
        Layout::new(picture, &Typeface::new(), &Colors::new(picture, [255; 3], &Cancel::default()).unwrap())
    }

    #[test]
    fn equal_units_are_equally_long() {
        let mut picture = picture(100);
        picture.x.ends = (Some(0.0), Some(4.0));
        picture.y.ends = (Some(0.0), Some(1.0));
        picture.aspect = Some(1.0);
        for size in [None, Some((1000, 800)), Some((300, 900))] {
            picture.size = size;
            let layout = layout(&picture);
            let ratio = layout.plot.width as f64 / layout.plot.height as f64;
            assert!((ratio - 4.0).abs() < 0.2, "{size:?}: {ratio}");
            assert!(layout.plot.right() < layout.width as i64 && layout.plot.bottom() < layout.height as i64);
        }
    }
}
