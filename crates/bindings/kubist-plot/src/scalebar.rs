//! Length and position of a scale bar.

use kubist_types::steps::{MARKS, Step};

use crate::layout::{LABEL_TEXT, Layout, MARK_TEXT};
use crate::spec::{Picture, Projection};
use crate::text::Typeface;
use crate::ticks::shown;

pub(crate) struct ScaleBar {
    pub left: i64,
    pub length: i64,
    pub text: String,
}

impl ScaleBar {
    pub(crate) const GAP: f64 = 8.0;
    /// Greatest length as a fraction of the plot, and smallest length in pixels at scale 1.
    const SHARE: f64 = 0.25;
    const SHORTEST: f64 = 20.0;

    /// The longest round length that fits left of the x axis' label. `None` if there is no space or the axes
    /// have different scales.
    pub(crate) fn new(picture: &Picture, unit: &str, layout: &Layout, typeface: &Typeface) -> Option<ScaleBar> {
        if picture.aspect != Some(1.0) || picture.projection != Projection::Plane {
            return None;
        }
        let scale = layout.scale;
        let across = layout.plot.width as f64;
        let per_pixel = layout.x.ends.part(across);
        let pixels = |step: Step| step.value() / per_pixel;
        let width = |text: &str, size: f32| f64::from(typeface.width(text, size * scale as f32));
        let middle = layout.plot.x as f64 + layout.plot.width as f64 / 2.0;
        let end = middle - width(&picture.x.label, LABEL_TEXT) / 2.0 - 16.0 * scale;
        // Below the plot's corner, or from the image's edge if it is narrow.
        for left in [layout.plot.x as f64, 12.0 * scale] {
            let mut length = Step::at_least(layout.x.ends.part(2.5 / Self::SHARE), MARKS);
            let mut found = None;
            while pixels(length) <= across * Self::SHARE {
                let text = format!("{} {unit}", shown(length));
                let whole = pixels(length) + Self::GAP * scale + width(&text, MARK_TEXT);
                if pixels(length) >= Self::SHORTEST * scale && left + whole <= end {
                    let length = pixels(length).round() as i64;
                    found = Some(ScaleBar { left: left.round() as i64, length, text });
                }
                length = length.coarser();
            }
            if found.is_some() {
                return found;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use kubist_types::Cancel;

    use super::*;
    use crate::coloring::Colors;
    use crate::tests::picture;

    #[test]
    fn a_bar_is_as_long_as_it_says() {
        let typeface = Typeface::new();
        for (span, size) in [(0.4, (1200, 900)), (7e-7, (1200, 900)), (3e9, (800, 800)), (1.0, (300, 900))] {
            let mut picture = picture(100);
            picture.x.ends = (Some(0.0), Some(span));
            picture.y.ends = (Some(0.0), Some(span));
            (picture.aspect, picture.size) = (Some(1.0), Some(size));
            let layout =
                Layout::new(&picture, &typeface, &Colors::new(&picture, [255; 3], &Cancel::default()).unwrap());
            let bar = ScaleBar::new(&picture, "m", &layout, &typeface).unwrap();
            let number = bar.text.strip_suffix(" m").unwrap();
            let value = match number.split_once("10") {
                Some((leading, power)) if leading.is_empty() || leading.ends_with('·') => {
                    let digits: String = power
                        .chars()
                        .map(|c| "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().position(|d| d == c).map_or('-', |d| (b'0' + d as u8) as char))
                        .collect();
                    leading.trim_end_matches('·').parse().unwrap_or(1.0) * 10f64.powi(digits.parse().unwrap())
                }
                _ => number.parse().unwrap(),
            };
            let drawn = bar.length as f64 / layout.plot.width as f64 * layout.x.ends.part(1.0);
            assert!((drawn / value - 1.0).abs() < 0.03, "{}: {drawn}", bar.text);
            picture.aspect = None;
            assert!(ScaleBar::new(&picture, "m", &layout, &typeface).is_none());
        }
    }
}
