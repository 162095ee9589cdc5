//! Draws the grid, axes, colour bar, scale bar and text around the points.

use crate::canvas::Rect;
use crate::coloring::Colors;
use crate::colormap::Color;
use crate::layout::{CAPTION_TEXT, LABEL_TEXT, Layout, MARK_TEXT, TITLE_TEXT};
use crate::scalebar::ScaleBar;
use crate::scene::Mark;
use crate::spec::Picture;
use crate::text::{Anchor, Text, Typeface};
use crate::theme::Theme;

pub(crate) struct Pen<'a> {
    pub marks: Vec<Mark>,
    pub typeface: &'a Typeface,
    pub theme: &'a Theme,
    pub layout: &'a Layout,
}

impl Pen<'_> {
    fn text_size(&self, size: f32) -> f32 {
        size * self.layout.scale as f32
    }

    pub(crate) fn write(&mut self, text: &str, size: f32, at: (f64, f64), anchor: Anchor, color: Color) {
        let (text, size, at) = (text.to_string(), self.text_size(size), (at.0 as f32, at.1 as f32));
        self.marks.push(Mark::Text(Text { text, size, at, anchor, up: false, color }));
    }

    fn fill(&mut self, rect: Rect, color: Color) {
        self.marks.push(Mark::Fill(rect, color));
    }

    fn frame(&mut self, around: Rect, thickness: i64) {
        self.marks.push(Mark::Frame { around, thickness, color: self.theme.line });
    }

    pub(crate) fn grid(&mut self) {
        let Layout { plot, .. } = *self.layout;
        let line = self.layout.pixels(1.0);
        for (value, _) in &self.layout.x_ticks.major {
            let x = self.layout.column(*value);
            self.fill(Rect { x, y: plot.y, width: line, height: plot.height }, self.theme.grid);
        }
        for (value, _) in &self.layout.y_ticks.major {
            let y = self.layout.row(*value);
            self.fill(Rect { x: plot.x, y, width: plot.width, height: line }, self.theme.grid);
        }
    }

    pub(crate) fn axes(&mut self, picture: &Picture) {
        let layout = self.layout;
        let plot = layout.plot;
        let (line, tick, scale) = (layout.pixels(1.0), layout.pixels(6.0), layout.scale);
        self.frame(plot, line);
        for (value, label) in &layout.x_ticks.major {
            let x = layout.column(*value);
            self.fill(Rect { x, y: plot.bottom(), width: line, height: tick }, self.theme.line);
            let below = (plot.bottom() + tick) as f64 + 18.0 * scale;
            self.write(label, MARK_TEXT, (x as f64, below), Anchor::Middle, self.theme.text);
        }
        for (value, label) in &layout.y_ticks.major {
            let y = layout.row(*value);
            self.fill(Rect { x: plot.x - tick, y, width: tick, height: line }, self.theme.line);
            let left = (plot.x - tick) as f64 - 6.0 * scale;
            self.write(label, MARK_TEXT, (left, y as f64 + 6.0 * scale), Anchor::End, self.theme.text);
        }
        if let Some(common) = &layout.x_ticks.common {
            let below = plot.bottom() as f64 + 54.0 * scale;
            self.write(common, MARK_TEXT, (plot.right() as f64, below), Anchor::End, self.theme.text);
        }
        self.names(picture);
        if let Some(common) = &layout.y_ticks.common {
            let above = plot.y as f64 - 10.0 * scale;
            self.write(common, MARK_TEXT, (plot.x as f64 - 8.0 * scale, above), Anchor::End, self.theme.text);
        }
    }

    pub(crate) fn names(&mut self, picture: &Picture) {
        let Layout { plot, scale, label_distance, .. } = *self.layout;
        let at = (plot.x as f64 + plot.width as f64 / 2.0, plot.bottom() as f64 + 54.0 * scale);
        self.write(&picture.x.label, LABEL_TEXT, at, Anchor::Middle, self.theme.text);
        let left = plot.x as f64 - label_distance - 4.0 * scale;
        self.write_up(&picture.y.label, left, plot.y as f64 + plot.height as f64 / 2.0);
    }

    fn write_up(&mut self, label: &str, x: f64, y: f64) {
        let (text, size, at) = (label.to_string(), self.text_size(LABEL_TEXT), (x as f32, y as f32));
        let (anchor, color) = (Anchor::Middle, self.theme.text);
        self.marks.push(Mark::Text(Text { text, size, at, anchor, up: true, color }));
    }

    pub(crate) fn color_bar(&mut self, colors: &Colors) {
        let layout = self.layout;
        let (line, tick, scale) = (layout.pixels(1.0), layout.pixels(5.0), layout.scale);
        let plot = layout.plot;
        // Smaller arrows on a low plot leave room for the bar.
        let arrow = layout.pixels(16.0).min(plot.height / 4);
        let (above, below) = (if colors.beyond.1 { arrow } else { 0 }, if colors.beyond.0 { arrow } else { 0 });
        let bar = Rect {
            x: plot.right() + layout.pixels(24.0),
            y: plot.y + above,
            width: layout.pixels(20.0),
            height: plot.height - above - below,
        };
        let rows = (0..bar.height).map(|row| colors.at(1.0 - (row as f64 + 0.5) / bar.height as f64));
        self.marks.push(Mark::Ramp(bar, rows.collect()));
        self.frame(bar, line);
        if colors.beyond.1 {
            let base = Rect { y: bar.y - line - arrow, height: arrow, ..bar };
            self.marks.push(Mark::Arrow { base, up: true, color: colors.at(1.0) });
        }
        if colors.beyond.0 {
            let base = Rect { y: bar.bottom() + line, height: arrow, ..bar };
            self.marks.push(Mark::Arrow { base, up: false, color: colors.at(0.0) });
        }
        let marks = colors.marks(layout.color_marks(bar.height));
        let row = |value: f64| bar.bottom() - (colors.height(value) * bar.height as f64).round() as i64;
        let right = bar.right() + line;
        for value in &marks.minor {
            self.fill(Rect { x: right, y: row(*value), width: tick / 2, height: line }, self.theme.line);
        }
        let mut widest = 0f32;
        for (value, label) in &marks.major {
            let y = row(*value);
            self.fill(Rect { x: right, y, width: tick, height: line }, self.theme.line);
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

    /// Draws a length in the axes' common unit, level with the label of the x axis.
    pub(crate) fn scale_bar(&mut self, picture: &Picture) {
        let Some(unit) = &picture.scale_bar else { return };
        let layout = self.layout;
        let Some(ScaleBar { left, length, text }) = ScaleBar::new(picture, unit, layout, self.typeface) else { return };
        let (line, end) = (layout.pixels(2.0), layout.pixels(5.0));
        let middle = layout.plot.bottom() + layout.pixels(48.0);
        self.fill(Rect { x: left, y: middle, width: length, height: line }, self.theme.text);
        for x in [left, left + length - line] {
            self.fill(Rect { x, y: middle - end, width: line, height: 2 * end + line }, self.theme.text);
        }
        let beside = (left + length) as f64 + ScaleBar::GAP * layout.scale;
        let baseline = layout.plot.bottom() as f64 + 54.0 * layout.scale;
        self.write(&text, MARK_TEXT, (beside, baseline), Anchor::Start, self.theme.text);
    }

    pub(crate) fn words(&mut self, picture: &Picture, caption: &str) {
        let layout = self.layout;
        let (left, scale) = (layout.plot.x as f64, layout.scale);
        let room = (layout.width as f64 - left - 16.0 * scale) as f32;
        let above = layout.plot.y as f64;
        let lift = if layout.x_ticks.common.is_some() || layout.y_ticks.common.is_some() { 16.0 } else { 14.0 };
        let caption = self.typeface.shortened(caption, self.text_size(CAPTION_TEXT), room);
        self.write(&caption, CAPTION_TEXT, (left, above - lift * scale), Anchor::Start, self.theme.quiet);
        if let Some(title) = &picture.title {
            let title = self.typeface.shortened(title, self.text_size(TITLE_TEXT), room);
            self.write(&title, TITLE_TEXT, (left, above - 46.0 * scale), Anchor::Start, self.theme.text);
        }
    }
}
