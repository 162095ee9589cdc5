//! A plot as SVG: axes and text are vector graphics, the points an embedded PNG.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubist_types::Cancel;
use kubist_types::shown::printable;

use crate::canvas::{Rect, encode};
use crate::colormap::Color;
use crate::error::Error;
use crate::scene::{Mark, Scene};
use crate::text::{Anchor, Text};

/// The layout uses the widths of DejaVu Sans; Verdana is nearly as wide.
const FONTS: &str = "DejaVu Sans, Verdana, Geneva, sans-serif";

/// The whole document; viewers show `title` and `description`.
pub(crate) fn document(scene: &Scene, title: &str, description: &str, cancel: &Cancel) -> Result<String, Error> {
    let Scene { width, height, .. } = *scene;
    let mut body = String::new();
    for mark in &scene.marks {
        let _ = writeln!(body, "{}", element(mark, cancel)?);
    }
    Ok(format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <svg xmlns=\"http://www.w3.org/2000/svg\" xmlns:xlink=\"http://www.w3.org/1999/xlink\" version=\"1.1\" \
         width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" font-family=\"{FONTS}\">\n\
         <title>{}</title>\n<desc>{}</desc>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"{}\"/>\n{body}</svg>\n",
        escaped(title),
        escaped(description),
        hex(scene.background),
    ))
}

fn element(mark: &Mark, cancel: &Cancel) -> Result<String, Error> {
    Ok(match mark {
        Mark::Fill(rect, color) => format!("<rect {} fill=\"{}\"/>", place(*rect), hex(*color)),
        Mark::Frame { around, thickness, color } => {
            // SVG strokes both sides of a path.
            let half = *thickness as f64 / 2.0;
            format!(
                "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{thickness}\"/>",
                around.x as f64 - half,
                around.y as f64 - half,
                around.width + thickness,
                around.height + thickness,
                hex(*color),
            )
        }
        Mark::Line { points, thickness, color } => {
            let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            format!(
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{thickness}\"/>",
                points.join(" "),
                hex(*color),
            )
        }
        Mark::Points(rect, layer) => image(*rect, (rect.width, rect.height), &layer.rgba(*rect, cancel)?, cancel)?,
        Mark::Ramp(rect, colors) => {
            let rgba: Vec<u8> = colors.iter().flat_map(|[red, green, blue]| [*red, *green, *blue, 255]).collect();
            image(*rect, (1, colors.len() as i64), &rgba, cancel)?
        }
        Mark::Arrow { base, up, color } => {
            let (foot, tip) = if *up { (base.bottom(), base.y) } else { (base.y, base.bottom()) };
            let middle = base.x as f64 + base.width as f64 / 2.0;
            let (left, right) = (base.x, base.right());
            format!("<polygon points=\"{left},{foot} {right},{foot} {middle},{tip}\" fill=\"{}\"/>", hex(*color))
        }
        Mark::Text(text) => words(text),
    })
}

fn words(text: &Text) -> String {
    let (x, y) = text.at;
    let anchor = match text.anchor {
        Anchor::Start => "start",
        Anchor::Middle => "middle",
        Anchor::End => "end",
    };
    let turned = if text.up { format!(" transform=\"rotate(-90 {x:.2} {y:.2})\"") } else { String::new() };
    format!(
        "<text x=\"{x:.2}\" y=\"{y:.2}\" font-size=\"{:.2}\" text-anchor=\"{anchor}\" fill=\"{}\"{turned}>{}</text>",
        text.size,
        hex(text.color),
        escaped(&text.text),
    )
}

fn image(rect: Rect, (width, height): (i64, i64), rgba: &[u8], cancel: &Cancel) -> Result<String, Error> {
    let mut png = Vec::new();
    encode(&mut png, (width as u32, height as u32), png::ColorType::Rgba, rgba, &[], cancel)?;
    // `xlink:href` is for readers of SVG 1.1.
    Ok(format!(
        "<image {} preserveAspectRatio=\"none\" xlink:href=\"data:image/png;base64,{}\"/>",
        place(rect),
        STANDARD.encode(png),
    ))
}

fn place(rect: Rect) -> String {
    let Rect { x, y, width, height } = rect;
    format!("x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"")
}

fn hex([red, green, blue]: Color) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// Escapes markup and removes characters that XML forbids.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in printable(text).chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            character => safe.push(character),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_is_markup() {
        assert_eq!(escaped("a<b>&\u{0}\u{ffff}é"), "a&lt;b&gt;&amp;\\u{0}\u{fffd}é");
    }
}
