//! Animated GIFs. All frames share one palette of 256 colours that does not depend on the data, so colours do
//! not flicker.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Write;

use gif::{Encoder, Frame, Repeat};
use kubist_types::Cancel;

use crate::canvas::{Canvas, PIECE};
use crate::colormap::Color;
use crate::error::Error;
use crate::picture::Stage;

/// An animated GIF that is being written; [`Film::finish`] ends it.
pub struct Film<W: Write> {
    encoder: Encoder<W>,
    palette: Vec<Color>,
    nearest: HashMap<Color, u8>,
    size: (u16, u16),
    delay: u16,
}

impl Film<Vec<u8>> {
    /// Browsers do not honour delays below 2/100 s.
    pub const MOST_PER_SECOND: f64 = 50.0;
}

impl<W: Write> Film<W> {
    /// Starts a GIF of frames of `stage` that repeats forever.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if `out` fails.
    pub fn new(out: W, stage: &Stage<'_>, per_second: f64) -> Result<Film<W>, Error> {
        let palette = stage.palette();
        let size = stage.size();
        let size = (size.0 as u16, size.1 as u16);
        let mut encoder = Encoder::new(out, size.0, size.1, palette.as_flattened()).map_err(failed)?;
        encoder.set_repeat(Repeat::Infinite).map_err(failed)?;
        let delay = (100.0 / per_second.min(Film::MOST_PER_SECOND)).round().min(60_000.0) as u16;
        Ok(Film { encoder, palette, nearest: HashMap::new(), size, delay })
    }

    /// Adds a frame.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the output fails; [`Error::Encoding`] if the frame has another size;
    /// [`Error::Cancelled`].
    pub fn add(&mut self, canvas: &Canvas, cancel: &Cancel) -> Result<(), Error> {
        if (canvas.width, canvas.height) != (self.size.0.into(), self.size.1.into()) {
            return Err(Error::Encoding("frames are of one size".to_string()));
        }
        let Film { palette, nearest, .. } = self;
        let mut index = |color: Color| *nearest.entry(color).or_insert_with(|| closest(palette, color));
        let mut buffer = Vec::with_capacity(canvas.width * canvas.height);
        for piece in canvas.rgb().as_chunks::<3>().0.chunks(PIECE) {
            cancel.check()?;
            buffer.extend(piece.iter().map(|color| index(*color)));
        }
        let (width, height) = self.size;
        let frame = Frame { width, height, delay: self.delay, buffer: Cow::Owned(buffer), ..Frame::default() };
        self.encoder.write_frame(&frame).map_err(failed)
    }

    /// Ends the file.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the output fails.
    pub fn finish(self) -> Result<(), Error> {
        let mut out = self.encoder.into_inner().map_err(failed)?;
        out.flush().map_err(Error::Io)
    }
}

fn closest(palette: &[Color], color: Color) -> u8 {
    let apart = |other: &Color| -> i32 {
        other.iter().zip(color).map(|(one, other)| (i32::from(*one) - i32::from(other)).pow(2)).sum()
    };
    let best = palette.iter().enumerate().min_by_key(|(_, known)| apart(known));
    best.map_or(0, |(index, _)| index as u8)
}

fn failed(error: gif::EncodingError) -> Error {
    match error {
        gif::EncodingError::Io(error) => Error::Io(error),
        error => Error::Encoding(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::picture;
    use crate::theme::Style;

    #[test]
    fn a_film_shows_its_pictures() {
        for style in [Style::Paper, Style::Dark] {
            let mut picture = picture(3000);
            (picture.style, picture.size, picture.title) = (style, Some((400, 300)), Some("Title".to_string()));
            picture.points.value = Some(picture.points.x.iter().map(|x| (x * 9.0).sin()).collect());
            let stage = Stage::new(&picture, &picture.points, &Cancel::default()).unwrap();
            let go_on = Cancel::default();
            let canvas = |caption| stage.scene(&picture.points, caption).unwrap().canvas(&go_on).unwrap();
            let shown = [canvas("one"), canvas("two")];
            let mut bytes = Vec::new();
            let mut film = Film::new(&mut bytes, &stage, 10.0).unwrap();
            shown.iter().for_each(|canvas| film.add(canvas, &go_on).unwrap());
            assert!(film.add(&Canvas::new(10, 10, [0; 3]), &go_on).is_err());
            film.finish().unwrap();
            let mut options = gif::DecodeOptions::new();
            options.set_color_output(gif::ColorOutput::RGBA);
            let mut decoder = options.read_info(&bytes[..]).unwrap();
            for canvas in &shown {
                let frame = decoder.read_next_frame().unwrap().unwrap();
                assert_eq!((frame.delay, frame.buffer.len()), (10, 400 * 300 * 4));
                let apart = |(seen, meant): (&[u8], &[u8])| -> i32 {
                    seen.iter().zip(meant).map(|(a, b)| i32::from(a.abs_diff(*b))).max().unwrap_or(0)
                };
                let differing: Vec<i32> =
                    frame.buffer.chunks_exact(4).zip(canvas.rgb().chunks_exact(3)).map(apart).collect();
                // Pixels differ where points cross lines or other points.
                let mean = f64::from(differing.iter().sum::<i32>()) / differing.len() as f64;
                assert!(mean < 1.0 && *differing.iter().max().unwrap() < 48, "{style:?}: {mean}");
            }
            assert!(decoder.read_next_frame().unwrap().is_none());
        }
    }
}
