//! Draws a picture: points, axes, colour bar, words. Pure: a specification in,
//! pixels out.

use crate::canvas::{Canvas, Rect};
use crate::coloring::Colors;
use crate::colormap::Color;
use crate::layout::{CAPTION_TEXT, LABEL_TEXT, Layout, MARK_TEXT, TITLE_TEXT};
use crate::spec::{Picture, RADII};
use crate::splat::Splats;
use crate::text::{Anchor, Typeface};

struct Theme {
    background: Color,
    grid: Color,
    line: Color,
    text: Color,
    quiet: Color,
    /// Points without a value.
    missing: Color,
}

const LIGHT: Theme = Theme {
    background: [255, 255, 255],
    grid: [233, 235, 238],
    line: [90, 94, 102],
    text: [34, 37, 43],
    quiet: [108, 113, 122],
    missing: [176, 180, 186],
};

const DARK: Theme = Theme {
    background: [17, 19, 24],
    grid: [38, 42, 50],
    line: [122, 128, 138],
    text: [228, 231, 236],
    quiet: [150, 156, 166],
    missing: [92, 97, 106],
};

/// Draws points in their axes, with the colours' meaning and the words around them.
pub fn draw(picture: &Picture) -> Canvas {
    let theme = if picture.dark { &DARK } else { &LIGHT };
    let typeface = Typeface::new();
    let mut colors = Colors::new(picture, theme.background);
    let layout = Layout::new(picture, &typeface, &colors);
    let splats = fall(picture, &layout, &colors);
    colors.settle(&splats, picture.precision);
    let mut canvas = Canvas::new(layout.width, layout.height, theme.background);
    let mut pen = Pen { canvas: &mut canvas, typeface, theme, layout: &layout };
    pen.grid();
    pen.points(picture.points.len(), &splats, &colors);
    pen.axes(picture);
    if colors.ends.is_some() {
        pen.color_bar(&colors);
    }
    pen.words(picture);
    canvas
}

/// The points on their pixels.
fn fall(picture: &Picture, layout: &Layout, colors: &Colors) -> Splats {
    let (width, height) = (layout.plot.width as usize, layout.plot.height as usize);
    let points = &picture.points;
    let given = picture.radius.map(|radius| radius.clamp(*RADII.start(), *RADII.end()));
    let radius = given.unwrap_or_else(|| layout.radius(points));
    let mut splats = Splats::new(width, height, radius);
    for index in 0..points.len() {
        let across = layout.x.share(points.x[index]) * width as f64;
        let down = (1.0 - layout.y.share(points.y[index])) * height as f64;
        let value = points.value.as_ref().map_or(f32::NAN, |values| colors.share(values[index]));
        splats.add(across, down, value);
    }
    splats
}

struct Pen<'a> {
    canvas: &'a mut Canvas,
    typeface: Typeface,
    theme: &'a Theme,
    layout: &'a Layout,
}

impl Pen<'_> {
    fn text_size(&self, size: f32) -> f32 {
        size * self.layout.scale as f32
    }

    fn write(&mut self, text: &str, size: f32, at: (f64, f64), anchor: Anchor, color: Color) {
        let size = self.text_size(size);
        self.typeface.write(self.canvas, text, size, (at.0 as f32, at.1 as f32), anchor, color);
    }

    fn grid(&mut self) {
        let Layout { plot, .. } = *self.layout;
        let line = self.layout.pixels(1.0);
        for (value, _) in &self.layout.x_ticks.major {
            let x = self.layout.column(*value);
            self.canvas.fill(Rect { x, y: plot.y, width: line, height: plot.height }, self.theme.grid);
        }
        for (value, _) in &self.layout.y_ticks.major {
            let y = self.layout.row(*value);
            self.canvas.fill(Rect { x: plot.x, y, width: plot.width, height: line }, self.theme.grid);
        }
    }

    fn points(&mut self, points: usize, splats: &Splats, colors: &Colors) {
        let plot = self.layout.plot;
        // Where points stand apart, solid ones say more; where they pile up,
        // thinner ones leave it to be seen where there are many.
        let layers = points as f64 * splats.disc_pixels() / (plot.width * plot.height) as f64;
        let one = (0.95 - 0.12 * layers.max(1.0).log2()).clamp(0.6, 0.95) as f32;
        for (column, row, splat) in splats.pixels() {
            let opacity = if splat.weight < 1.0 { one * splat.weight } else { 1.0 - (1.0 - one).powf(splat.weight) };
            let color = colors.color(&splat).unwrap_or(self.theme.missing);
            self.canvas.blend(plot.x + column as i64, plot.y + row as i64, color, opacity);
        }
    }

    fn axes(&mut self, picture: &Picture) {
        let layout = self.layout;
        let plot = layout.plot;
        let (line, tick, scale) = (layout.pixels(1.0), layout.pixels(6.0), layout.scale);
        self.canvas.frame(plot, line, self.theme.line);
        for (value, label) in &layout.x_ticks.major {
            let x = layout.column(*value);
            self.canvas.fill(Rect { x, y: plot.bottom(), width: line, height: tick }, self.theme.line);
            let below = (plot.bottom() + tick) as f64 + 18.0 * scale;
            self.write(label, MARK_TEXT, (x as f64, below), Anchor::Middle, self.theme.text);
        }
        for (value, label) in &layout.y_ticks.major {
            let y = layout.row(*value);
            self.canvas.fill(Rect { x: plot.x - tick, y, width: tick, height: line }, self.theme.line);
            let left = (plot.x - tick) as f64 - 6.0 * scale;
            self.write(label, MARK_TEXT, (left, y as f64 + 6.0 * scale), Anchor::End, self.theme.text);
        }
        let middle = plot.x as f64 + plot.width as f64 / 2.0;
        let below = plot.bottom() as f64 + 54.0 * scale;
        self.write(&picture.x.label, LABEL_TEXT, (middle, below), Anchor::Middle, self.theme.text);
        if let Some(common) = &layout.x_ticks.common {
            self.write(common, MARK_TEXT, (plot.right() as f64, below), Anchor::End, self.theme.text);
        }
        let left = plot.x as f64 - layout.label_distance - 4.0 * scale;
        self.write_up(&picture.y.label, left, plot.y as f64 + plot.height as f64 / 2.0);
        if let Some(common) = &layout.y_ticks.common {
            let above = plot.y as f64 - 10.0 * scale;
            self.write(common, MARK_TEXT, (plot.x as f64 - 8.0 * scale, above), Anchor::End, self.theme.text);
        }
    }

    fn write_up(&mut self, label: &str, x: f64, y: f64) {
        let size = self.text_size(LABEL_TEXT);
        let at = (x as f32, y as f32);
        self.typeface.write_up(self.canvas, label, size, at, Anchor::Middle, self.theme.text);
    }

    fn color_bar(&mut self, colors: &Colors) {
        let layout = self.layout;
        let (line, tick, scale) = (layout.pixels(1.0), layout.pixels(5.0), layout.scale);
        let plot = layout.plot;
        let arrow = layout.pixels(16.0);
        let (above, below) = (if colors.beyond.1 { arrow } else { 0 }, if colors.beyond.0 { arrow } else { 0 });
        let bar = Rect {
            x: plot.right() + layout.pixels(24.0),
            y: plot.y + above,
            width: layout.pixels(20.0),
            height: plot.height - above - below,
        };
        for row in 0..bar.height {
            let color = colors.at(1.0 - (row as f64 + 0.5) / bar.height as f64);
            self.canvas.fill(Rect { y: bar.y + row, height: 1, ..bar }, color);
        }
        self.canvas.frame(bar, line, self.theme.line);
        // Arrows: there are values beyond.
        for row in 0..arrow {
            let half = (arrow - row) as f64 / arrow as f64 * bar.width as f64 / 2.0;
            let inset = (bar.width as f64 / 2.0 - half).round() as i64;
            let slice = |y: i64| Rect { x: bar.x + inset, y, width: bar.width - 2 * inset, height: 1 };
            if colors.beyond.1 {
                self.canvas.fill(slice(bar.y - line - 1 - row), colors.at(1.0));
            }
            if colors.beyond.0 {
                self.canvas.fill(slice(bar.bottom() + line + row), colors.at(0.0));
            }
        }
        let marks = colors.marks(layout.color_marks(bar.height));
        let row = |value: f64| bar.bottom() - (colors.height(value) * bar.height as f64).round() as i64;
        let right = bar.right() + line;
        for value in &marks.minor {
            self.canvas.fill(Rect { x: right, y: row(*value), width: tick / 2, height: line }, self.theme.line);
        }
        let mut widest = 0f32;
        for (value, label) in &marks.major {
            let y = row(*value);
            self.canvas.fill(Rect { x: right, y, width: tick, height: line }, self.theme.line);
            let beside = ((right + tick) as f64 + 6.0 * scale, y as f64 + 6.0 * scale);
            self.write(label, MARK_TEXT, beside, Anchor::Start, self.theme.text);
            widest = widest.max(self.typeface.width(label, self.text_size(MARK_TEXT)));
        }
        if let Some(common) = &marks.common {
            let above = (bar.x as f64, plot.y as f64 - 10.0 * scale);
            self.write(common, MARK_TEXT, above, Anchor::Start, self.theme.text);
        }
        let label = (right + tick) as f64 + f64::from(widest) + 26.0 * scale;
        self.write_up(
            &colors.label,
            label.min(layout.width as f64 - 6.0 * scale),
            plot.y as f64 + plot.height as f64 / 2.0,
        );
    }

    fn words(&mut self, picture: &Picture) {
        let layout = self.layout;
        let (left, scale) = (layout.plot.x as f64, layout.scale);
        let room = (layout.width as f64 - left - 16.0 * scale) as f32;
        let above = layout.plot.y as f64;
        let lift = if layout.x_ticks.common.is_some() || layout.y_ticks.common.is_some() { 16.0 } else { 14.0 };
        let caption = self.typeface.shortened(&picture.caption, self.text_size(CAPTION_TEXT), room);
        self.write(&caption, CAPTION_TEXT, (left, above - lift * scale), Anchor::Start, self.theme.quiet);
        if let Some(title) = &picture.title {
            let title = self.typeface.shortened(title, self.text_size(TITLE_TEXT), room);
            self.write(&title, TITLE_TEXT, (left, above - 46.0 * scale), Anchor::Start, self.theme.text);
        }
    }
}
