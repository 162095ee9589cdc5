//! An RGB image in memory.

use std::io::Write;

use kubist_types::Cancel;

use crate::colormap::Color;
use crate::error::Error;

pub(crate) const PIECE: usize = 1 << 18;

/// A drawn image: rows of pixels from the top.
pub struct Canvas {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pixels: Vec<Color>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rect {
    pub x: i64,
    pub y: i64,
    pub width: i64,
    pub height: i64,
}

impl Rect {
    pub(crate) fn right(&self) -> i64 {
        self.x + self.width
    }

    pub(crate) fn bottom(&self) -> i64 {
        self.y + self.height
    }
}

impl Canvas {
    pub(crate) fn new(width: usize, height: usize, background: Color) -> Canvas {
        Canvas { width, height, pixels: vec![background; width * height] }
    }

    pub(crate) fn blend(&mut self, x: i64, y: i64, color: Color, opacity: f32) {
        let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y)) else {
            return;
        };
        if x < self.width && y < self.height {
            let opacity = opacity.clamp(0.0, 1.0);
            for (old, new) in self.pixels[y * self.width + x].iter_mut().zip(color) {
                *old = (f32::from(*old) + (f32::from(new) - f32::from(*old)) * opacity).round() as u8;
            }
        }
    }

    pub(crate) fn fill(&mut self, rect: Rect, color: Color) {
        for y in rect.y..rect.bottom() {
            for x in rect.x..rect.right() {
                self.blend(x, y, color, 1.0);
            }
        }
    }

    pub(crate) fn frame(&mut self, rect: Rect, thickness: i64, color: Color) {
        let Rect { x, y, width, height } = rect;
        let t = thickness;
        self.fill(Rect { x: x - t, y: y - t, width: width + 2 * t, height: t }, color);
        self.fill(Rect { x: x - t, y: y + height, width: width + 2 * t, height: t }, color);
        self.fill(Rect { x: x - t, y, width: t, height }, color);
        self.fill(Rect { x: x + width, y, width: t, height }, color);
    }

    pub(crate) fn line(&mut self, points: &[(f32, f32)], thickness: i64, color: Color) {
        for pair in points.windows(2) {
            let ((x, y), (to_x, to_y)) = (pair[0], pair[1]);
            let dots = (to_x - x).abs().max((to_y - y).abs()).ceil().clamp(1.0, 1e5) as usize;
            for dot in 0..=dots {
                let share = dot as f32 / dots as f32;
                let at = |from: f32, to: f32| (from + (to - from) * share - thickness as f32 / 2.0).round() as i64;
                self.fill(Rect { x: at(x, to_x), y: at(y, to_y), width: thickness, height: thickness }, color);
            }
        }
    }

    pub(crate) fn is_colored(&self, x: i64, y: i64) -> bool {
        let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y)) else {
            return false;
        };
        let far = |[red, green, blue]: Color| red.max(green).max(blue) - red.min(green).min(blue) > 24;
        x < self.width && y < self.height && far(self.pixels[y * self.width + x])
    }

    /// Width in pixels.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Height in pixels.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Writes a PNG with `texts` (keyword, text) as metadata.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if `out` fails; [`Error::Encoding`] if the image has no pixel or PNG does not allow a
    /// keyword; [`Error::Cancelled`].
    pub fn write_png(&self, out: impl Write, texts: &[(&str, &str)], cancel: &Cancel) -> Result<(), Error> {
        let size = (self.width as u32, self.height as u32);
        encode(out, size, png::ColorType::Rgb, self.pixels.as_flattened(), texts, cancel)
    }

    /// Red, green and blue of all pixels, row by row.
    pub fn rgb(&self) -> &[u8] {
        self.pixels.as_flattened()
    }

    #[cfg(test)]
    pub(crate) fn pixel(&self, x: usize, y: usize) -> Color {
        self.pixels[y * self.width + x]
    }
}

pub(crate) fn encode(
    out: impl Write,
    (width, height): (u32, u32),
    colors: png::ColorType,
    bytes: &[u8],
    texts: &[(&str, &str)],
    cancel: &Cancel,
) -> Result<(), Error> {
    let failed = |error| match error {
        png::EncodingError::IoError(error) => Error::Io(error),
        error => Error::Encoding(error.to_string()),
    };
    let begun = (|| {
        let mut encoder = png::Encoder::new(out, width, height);
        encoder.set_color(colors);
        encoder.set_depth(png::BitDepth::Eight);
        for (keyword, text) in texts {
            encoder.add_itxt_chunk(keyword.to_string(), text.to_string())?;
        }
        encoder.write_header()
    })();
    let mut image = begun.map_err(failed)?;
    let mut writer = image.stream_writer().map_err(failed)?;
    for piece in bytes.chunks(PIECE) {
        cancel.check()?;
        writer.write_all(piece).map_err(Error::Io)?;
    }
    writer.finish().map_err(failed)?;
    image.finish().map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawing_stays_on_the_canvas_and_comes_back_from_the_png() {
        let mut canvas = Canvas::new(20, 10, [255; 3]);
        canvas.fill(Rect { x: -5, y: 8, width: 10, height: 50 }, [200, 0, 0]);
        canvas.blend(19, 0, [0, 0, 255], 0.5);
        canvas.blend(-1, 0, [0; 3], 1.0);
        let mut bytes = Vec::new();
        canvas.write_png(&mut bytes, &[("Title", "Größe")], &Cancel::default()).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((info.width, info.height), (20, 10));
        let pixel = |x: usize, y: usize| &pixels[(y * 20 + x) * 3..][..3];
        assert_eq!(pixel(4, 9), [200, 0, 0]);
        assert_eq!(pixel(5, 9), [255, 255, 255]);
        assert_eq!(pixel(19, 0), [128, 128, 255]);
    }
}
