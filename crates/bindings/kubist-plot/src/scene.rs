//! A plot as a list of marks in drawing order, before it becomes pixels or paths.

use kubist_types::Cancel;

use crate::canvas::{Canvas, Rect};
use crate::coloring::Colors;
use crate::colormap::Color;
use crate::error::{Error, Steps};
use crate::splat::Splats;
use crate::text::{Text, Typeface};

/// A plot, to be written as PNG, SVG or PDF, where lengths are pixels from the top left corner.
pub struct Scene {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) background: Color,
    pub(crate) marks: Vec<Mark>,
}

pub(crate) enum Mark {
    Fill(Rect, Color),
    /// Lines around the outside of `around`.
    Frame {
        around: Rect,
        thickness: i64,
        color: Color,
    },
    /// Straight lines from point to point.
    Line {
        points: Vec<(f32, f32)>,
        thickness: i64,
        color: Color,
    },
    /// The points, as pixels in all formats.
    Points(Rect, Layer),
    /// Colours of equal height, from top to bottom.
    Ramp(Rect, Vec<Color>),
    /// A triangle on `base` with its tip above or below.
    Arrow {
        base: Rect,
        up: bool,
        color: Color,
    },
    Text(Text),
}

pub(crate) struct Layer {
    pub splats: Splats,
    pub colors: Colors,
    pub opacity: f32,
    /// Colour of points without a value.
    pub missing: Color,
}

impl Layer {
    pub(crate) fn pixels(&self) -> impl Iterator<Item = (usize, usize, Color, f32)> + '_ {
        let one = self.opacity;
        self.splats.pixels().map(move |(column, row, splat)| {
            let opacity = if splat.weight < 1.0 { one * splat.weight } else { 1.0 - (1.0 - one).powf(splat.weight) };
            (column, row, self.colors.color(&splat).unwrap_or(self.missing), opacity)
        })
    }

    pub(crate) fn rgba(&self, rect: Rect, cancel: &Cancel) -> Result<Vec<u8>, Error> {
        let mut steps = Steps::new(cancel);
        let (width, height) = (rect.width as usize, rect.height as usize);
        let mut bytes = vec![0; width * height * 4];
        for (column, row, [red, green, blue], opacity) in self.pixels() {
            steps.step(1)?;
            let pixel = (row * width + column) * 4;
            bytes[pixel..pixel + 4].copy_from_slice(&[red, green, blue, (opacity * 255.0).round() as u8]);
        }
        Ok(bytes)
    }
}

impl Scene {
    /// Width in pixels.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Height in pixels.
    pub fn height(&self) -> usize {
        self.height
    }

    /// The plot as pixels.
    ///
    /// # Errors
    ///
    /// [`Error::Cancelled`].
    pub fn canvas(&self, cancel: &Cancel) -> Result<Canvas, Error> {
        let mut canvas = Canvas::new(self.width, self.height, self.background);
        let mut steps = Steps::new(cancel);
        let typeface = Typeface::new();
        for mark in &self.marks {
            cancel.check()?;
            match mark {
                Mark::Fill(rect, color) => canvas.fill(*rect, *color),
                Mark::Frame { around, thickness, color } => canvas.frame(*around, *thickness, *color),
                Mark::Line { points, thickness, color } => canvas.line(points, *thickness, *color),
                Mark::Points(rect, layer) => {
                    for (column, row, color, opacity) in layer.pixels() {
                        steps.step(1)?;
                        canvas.blend(rect.x + column as i64, rect.y + row as i64, color, opacity);
                    }
                }
                Mark::Ramp(rect, colors) => {
                    for (row, color) in (0..rect.height).zip(colors) {
                        canvas.fill(Rect { y: rect.y + row, height: 1, ..*rect }, *color);
                    }
                }
                Mark::Arrow { base, up, color } => {
                    for row in 0..base.height {
                        let half = (base.height - row) as f64 / base.height as f64 * base.width as f64 / 2.0;
                        let inset = (base.width as f64 / 2.0 - half).round() as i64;
                        let y = if *up { base.bottom() - 1 - row } else { base.y + row };
                        canvas.fill(Rect { x: base.x + inset, y, width: base.width - 2 * inset, height: 1 }, *color);
                    }
                }
                Mark::Text(text) => typeface.write(&mut canvas, text),
            }
        }
        Ok(canvas)
    }
}
