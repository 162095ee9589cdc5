//! Lays out and draws the labels of plots, one line each, in a font that is part of the program. Labels in images and
//! PDF files therefore look the same on every machine. Characters that are not in the font appear as a box.

use ab_glyph::{Font, FontRef, Glyph, GlyphId, PxScale, ScaleFont, point};

use crate::canvas::Canvas;
use crate::colormap::Color;

/// A subset of DejaVu Sans: Latin, Greek, super- and subscripts, some mathematical symbols; `assets/README.md` has the
/// command that makes it.
pub(crate) const FONT: &[u8] = include_bytes!("../assets/DejaVuSans-subset.ttf");

/// The point of a text that is at [`Text::at`]: its first, middle or last point in the direction of reading.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

pub(crate) struct Text {
    pub text: String,
    /// The font size in pixels, which is the side of the em square.
    pub size: f32,
    /// The position of the anchor on the baseline, in pixels from the left and from the top.
    pub at: (f32, f32),
    pub anchor: Anchor,
    /// True if the text runs from bottom to top.
    pub up: bool,
    pub color: Color,
}

pub(crate) struct Typeface {
    font: FontRef<'static>,
}

impl Typeface {
    pub(crate) fn new() -> Typeface {
        Typeface { font: FontRef::try_from_slice(FONT).expect("the font that the program carries is sound") }
    }

    /// Returns the glyphs of a line that starts at x = 0, and the width of the line, both in pixels.
    pub(crate) fn line(&self, text: &str, pixels: f32) -> (Vec<Glyph>, f32) {
        // A font size is the side of the em square, but ab_glyph expects the line height.
        let em = self.font.units_per_em().unwrap_or(1.0);
        let scale = PxScale::from(pixels * self.font.height_unscaled() / em);
        let font = self.font.as_scaled(scale);
        let mut glyphs: Vec<Glyph> = Vec::new();
        let mut pen = 0.0;
        for character in kubist_types::shown::printable(text).chars() {
            let id = font.glyph_id(character);
            if let Some(last) = glyphs.last() {
                pen += font.kern(last.id, id);
            }
            glyphs.push(id.with_scale_and_position(scale, point(pen, 0.0)));
            pen += font.h_advance(id);
        }
        (glyphs, pen)
    }

    pub(crate) fn width(&self, text: &str, pixels: f32) -> f32 {
        self.line(text, pixels).1
    }

    /// Shortens a text to `width` pixels, with an ellipsis at the end if it was cut. Returns an empty text if not even
    /// one character and the ellipsis fit.
    pub(crate) fn shortened(&self, text: &str, pixels: f32, width: f32) -> String {
        if self.width(text, pixels) <= width {
            return text.to_string();
        }
        let mut kept = text.to_string();
        while kept.pop().is_some() {
            let short = format!("{}…", kept.trim_end());
            if self.width(&short, pixels) <= width {
                return short;
            }
        }
        String::new()
    }

    /// Returns the distance from the start of this glyph to the start of the next, in ems and without kerning.
    pub(crate) fn advance(&self, glyph: GlyphId) -> f32 {
        self.font.h_advance_unscaled(glyph) / self.font.units_per_em().unwrap_or(1.0)
    }

    /// Returns how far the font extends above the baseline (positive) and below it (negative), in ems.
    pub(crate) fn reach(&self) -> (f32, f32) {
        let em = self.font.units_per_em().unwrap_or(1.0);
        (self.font.ascent_unscaled() / em, self.font.descent_unscaled() / em)
    }

    pub(crate) fn write(&self, canvas: &mut Canvas, text: &Text) {
        let (glyphs, width) = self.line(&text.text, text.size);
        let ((x, y), color) = (text.at, text.color);
        if text.up {
            let start = (y + shift(text.anchor, width)).round();
            self.draw(glyphs, |across, down, coverage| {
                canvas.blend(x.round() as i64 + down, start as i64 - across - 1, color, coverage);
            });
        } else {
            let start = (x - shift(text.anchor, width)).round();
            self.draw(glyphs, |across, down, coverage| {
                canvas.blend(start as i64 + across, y.round() as i64 + down, color, coverage);
            });
        }
    }

    /// Calls `dot(x, y, coverage)` for each pixel of the glyphs, where coverage is the fraction of the pixel inside
    /// the glyph.
    fn draw(&self, glyphs: Vec<Glyph>, mut dot: impl FnMut(i64, i64, f32)) {
        for outline in glyphs.into_iter().filter_map(|glyph| self.font.outline_glyph(glyph)) {
            let corner = outline.px_bounds().min;
            outline.draw(|x, y, coverage| {
                dot(corner.x as i64 + i64::from(x), corner.y as i64 + i64::from(y), coverage);
            });
        }
    }
}

/// The distance in pixels from the start of a text to its anchor.
pub(crate) fn shift(anchor: Anchor, width: f32) -> f32 {
    match anchor {
        Anchor::Start => 0.0,
        Anchor::Middle => width / 2.0,
        Anchor::End => width,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_font_has_what_pictures_need() {
        let typeface = Typeface::new();
        for character in "azAZ09−×·±µσλ…äéñØ⁰¹²³⁴⁵⁶⁷⁸⁹⁻°∞≤☉".chars() {
            assert_ne!(typeface.font.glyph_id(character).0, 0, "{character}");
        }
    }

    #[test]
    fn long_text_is_shortened() {
        let typeface = Typeface::new();
        let text = "a very long caption indeed";
        let short = typeface.shortened(text, 16.0, 80.0);
        assert!(short.ends_with('…') && typeface.width(&short, 16.0) <= 80.0);
        assert_eq!(typeface.shortened(text, 16.0, 1000.0), text);
        assert_eq!(typeface.shortened(text, 16.0, 1.0), "");
    }
}
