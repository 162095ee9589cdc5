//! Charts of lines, dots and spans over two axes, side by side in one image.

use kubist_types::steps::{LEAST, part, share};

use crate::canvas::{Canvas, Rect};
use crate::colormap::Color;
use crate::layout::{CAPTION_TEXT, LABEL_TEXT, MARK_TEXT, TITLE_TEXT};
use crate::text::{Anchor, Text, Typeface};
use crate::ticks::{Scale, Ticks, ticks};

/// Lengths in pixels; the margin is a fraction of an axis.
const WIDTH: i64 = 620;
const HEIGHT: i64 = 520;
const TITLE: i64 = 56;
const LEFT: i64 = 92;
const RIGHT: i64 = 24;
const ABOVE: i64 = 54;
const BELOW: i64 = 74;
const LINE: f64 = 1.4;
const DOT: f64 = 4.5;
const MARGIN: f64 = 0.04;

const BACKGROUND: Color = [255, 255, 255];
const GRID: Color = [233, 235, 238];
const AXIS: Color = [90, 94, 102];
const TEXT: Color = [34, 37, 43];

/// A chart, whose axes span all points of the series.
pub struct Chart {
    /// Title above the axes.
    pub title: String,
    /// Label and scale of the horizontal axis, where a logarithmic axis leaves out values without a logarithm.
    pub x: (String, Scale),
    /// Label and scale of the vertical axis.
    pub y: (String, Scale),
    /// In the order of drawing and of the legend.
    pub series: Vec<Series>,
}

/// Points of the same name and colour.
pub struct Series {
    name: String,
    color: Color,
    mark: Mark,
    points: Vec<(f64, f64)>,
}

#[derive(Clone, Copy, PartialEq)]
enum Mark {
    /// A line through all points.
    Line,
    /// A dot for each point.
    Dots,
    /// A line from every odd point to the next point.
    Spans,
}

impl Series {
    /// A line through points.
    pub fn line(name: &str, color: Color, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
        Series { name: name.into(), color, mark: Mark::Line, points: points.into_iter().collect() }
    }

    /// A dot for each point.
    pub fn dots(name: &str, color: Color, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
        Series { name: name.into(), color, mark: Mark::Dots, points: points.into_iter().collect() }
    }

    /// Horizontal lines: start, end and height.
    pub fn spans(name: &str, color: Color, spans: impl IntoIterator<Item = (f64, f64, f64)>) -> Series {
        let points = spans.into_iter().flat_map(|(from, to, y)| [(from, y), (to, y)]).collect();
        Series { name: name.into(), color, mark: Mark::Spans, points }
    }
}

/// Draws charts side by side under one title.
pub fn draw(charts: &[Chart], title: &str) -> Canvas {
    let width = (WIDTH * charts.len() as i64) as usize;
    let mut canvas = Canvas::new(width, (TITLE + HEIGHT) as usize, BACKGROUND);
    let typeface = Typeface::new();
    let text = typeface.shortened(title, TITLE_TEXT, width as f32 - (LEFT + RIGHT) as f32);
    let (at, anchor) = ((LEFT as f32, 40.0), Anchor::Start);
    typeface.write(&mut canvas, &Text { text, size: TITLE_TEXT, at, anchor, up: false, color: TEXT });
    for (index, chart) in charts.iter().enumerate() {
        let plot = Rect {
            x: WIDTH * index as i64 + LEFT,
            y: TITLE + ABOVE,
            width: WIDTH - LEFT - RIGHT,
            height: HEIGHT - ABOVE - BELOW,
        };
        Pen { canvas: &mut canvas, typeface: &typeface, plot }.chart(chart);
    }
    canvas
}

struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
}

impl Axis {
    fn new(scale: Scale, values: impl Iterator<Item = f64>) -> Axis {
        let on = |value: f64| if scale == Scale::Log { value.ln() } else { value };
        let values = values.map(on).filter(|value| value.is_finite());
        let (low, high) = values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
        let (low, high) = if low > high { (0.0, 1.0) } else { (low, high) };
        let margin = match high - low {
            span if span > 1e-9 * high.abs() => part(low, high, 1.0 / MARGIN),
            _ => high.abs().max(1.0) * MARGIN,
        };
        let off = |value: f64| if scale == Scale::Log { value.exp().clamp(LEAST, f64::MAX) } else { value };
        Axis { scale, low: off((low - margin).max(f64::MIN)), high: off((high + margin).min(f64::MAX)) }
    }

    /// From 0 to 1; `None` if it is not on the axis.
    fn share(&self, value: f64) -> Option<f64> {
        let share = match self.scale {
            Scale::Log => share(self.low.ln(), self.high.ln(), value.ln()),
            _ => share(self.low, self.high, value),
        };
        share.is_finite().then_some(share)
    }

    fn ticks(&self, most: usize) -> Ticks {
        ticks(self.scale, self.low, self.high, most)
    }
}

struct Pen<'a> {
    canvas: &'a mut Canvas,
    typeface: &'a Typeface,
    plot: Rect,
}

impl Pen<'_> {
    fn chart(&mut self, chart: &Chart) {
        let points = || chart.series.iter().flat_map(|series| &series.points);
        let (x, y) = (Axis::new(chart.x.1, points().map(|at| at.0)), Axis::new(chart.y.1, points().map(|at| at.1)));
        let plot = self.plot;
        let column = |share: f64| plot.x as f64 + share * plot.width as f64;
        let row = |share: f64| plot.bottom() as f64 - share * plot.height as f64;
        let (across, up) = (x.ticks(6), y.ticks(6));
        for (value, label) in &across.major {
            let Some(at) = x.share(*value).map(column) else { continue };
            self.canvas.fill(Rect { x: at as i64, y: plot.y, width: 1, height: plot.height }, GRID);
            self.write(label, MARK_TEXT, (at, plot.bottom() as f64 + 24.0), Anchor::Middle);
        }
        for (value, label) in &up.major {
            let Some(at) = y.share(*value).map(row) else { continue };
            self.canvas.fill(Rect { x: plot.x, y: at as i64, width: plot.width, height: 1 }, GRID);
            self.write(label, MARK_TEXT, (plot.x as f64 - 8.0, at + 6.0), Anchor::End);
        }
        self.canvas.frame(plot, 1, AXIS);
        for series in &chart.series {
            let pixel = |at: &(f64, f64)| Some((column(x.share(at.0)?), row(y.share(at.1)?)));
            let pixels: Vec<(f64, f64)> = series.points.iter().filter_map(pixel).collect();
            match series.mark {
                Mark::Line => pixels.windows(2).for_each(|ends| self.stroke(ends[0], ends[1], LINE, series.color)),
                Mark::Spans => {
                    let half = (plot.height as f64 / series.points.len().max(1) as f64).clamp(0.5, 4.0);
                    pixels.chunks_exact(2).for_each(|ends| self.stroke(ends[0], ends[1], half, series.color));
                }
                Mark::Dots => pixels.iter().for_each(|at| self.stroke(*at, *at, DOT, series.color)),
            }
        }
        let middle = (plot.x + plot.width / 2) as f64;
        self.write(&chart.title, LABEL_TEXT, (middle, plot.y as f64 - 14.0), Anchor::Middle);
        let with_power = |label: &str, ticks: &Ticks| match &ticks.common {
            Some(power) => format!("{label} {power}"),
            None => label.to_string(),
        };
        self.write(&with_power(&chart.x.0, &across), LABEL_TEXT, (middle, plot.bottom() as f64 + 54.0), Anchor::Middle);
        let left = ((plot.x - LEFT + 22) as f32, (plot.y + plot.height / 2) as f32);
        let (text, anchor) = (with_power(&chart.y.0, &up), Anchor::Middle);
        self.typeface.write(self.canvas, &Text { text, size: LABEL_TEXT, at: left, anchor, up: true, color: TEXT });
        self.legend(chart);
    }

    fn legend(&mut self, chart: &Chart) {
        const LINE_HEIGHT: f64 = 21.0;
        let plot = self.plot;
        let widest = chart.series.iter().map(|series| self.typeface.width(&series.name, CAPTION_TEXT));
        let width = f64::from(widest.fold(0.0, f32::max)) + 44.0;
        let height = LINE_HEIGHT * chart.series.len() as f64 + 10.0;
        let corners = [(true, true), (true, false), (false, true), (false, false)].map(|(right, top)| {
            let x = if right { plot.right() as f64 - width - 8.0 } else { plot.x as f64 + 8.0 };
            let y = if top { plot.y as f64 + 8.0 } else { plot.bottom() as f64 - height - 8.0 };
            let busy = (0..height as i64).flat_map(|down| (0..width as i64).map(move |across| (across, down)));
            let inked = busy.filter(|(across, down)| self.canvas.is_colored(x as i64 + across, y as i64 + down));
            (inked.count(), x, y)
        });
        let Some((_, x, y)) = corners.into_iter().min_by_key(|(inked, ..)| *inked) else { return };
        for (index, series) in chart.series.iter().enumerate() {
            let middle = y + 5.0 + LINE_HEIGHT * (index as f64 + 0.5);
            let (from, to) = match series.mark {
                Mark::Line | Mark::Spans => (x + 8.0, x + 30.0),
                Mark::Dots => (x + 19.0, x + 19.0),
            };
            let half = if series.mark == Mark::Line { LINE } else { DOT };
            self.stroke((from, middle), (to, middle), half, series.color);
            self.write(&series.name, CAPTION_TEXT, (x + 38.0, middle + 5.0), Anchor::Start);
        }
    }

    fn write(&mut self, text: &str, size: f32, at: (f64, f64), anchor: Anchor) {
        let (text, at) = (text.to_string(), (at.0 as f32, at.1 as f32));
        self.typeface.write(self.canvas, &Text { text, size, at, anchor, up: false, color: TEXT });
    }

    fn stroke(&mut self, from: (f64, f64), to: (f64, f64), half: f64, color: Color) {
        let reach = half + 1.0;
        let (left, right) = (from.0.min(to.0) - reach, from.0.max(to.0) + reach);
        let (top, bottom) = (from.1.min(to.1) - reach, from.1.max(to.1) + reach);
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let length = dx * dx + dy * dy;
        for y in top as i64..=bottom as i64 {
            for x in left as i64..=right as i64 {
                let (px, py) = (x as f64 + 0.5 - from.0, y as f64 + 0.5 - from.1);
                let along = if length > 0.0 { ((px * dx + py * dy) / length).clamp(0.0, 1.0) } else { 0.0 };
                let distance = (px - along * dx).hypot(py - along * dy);
                self.canvas.blend(x, y, color, (half + 0.5 - distance) as f32);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: &[(f64, f64)], scale: Scale) -> Chart {
        Chart {
            title: "Title".into(),
            x: ("x".into(), scale),
            y: ("y".into(), Scale::Linear),
            series: vec![
                Series::line("line", [200, 0, 0], points.iter().copied()),
                Series::dots("dots", [0, 0, 200], points.iter().copied()),
                Series::spans("spans", [0, 160, 0], points.iter().map(|(x, y)| (*x, x + 1.0, *y))),
            ],
        }
    }

    #[test]
    fn values_stand_where_their_axis_says() {
        let axis = Axis::new(Scale::Log, [1.0, 100.0, 0.0, -5.0].into_iter());
        let [low, middle, high] = [1.0, 10.0, 100.0].map(|value| axis.share(value).unwrap());
        assert!((middle - 0.5).abs() < 1e-9 && (low + high - 1.0).abs() < 1e-9 && low > 0.0 && low < 0.1);
        assert_eq!(axis.share(-1.0), None);
        let mut drawn = chart(&[(0.0, 0.0), (1.0, 1.0)], Scale::Linear);
        drawn.series.truncate(1);
        let canvas = draw(&[drawn], "T");
        let plot = Rect { x: LEFT, y: TITLE + ABOVE, width: WIDTH - LEFT - RIGHT, height: HEIGHT - ABOVE - BELOW };
        let middle = ((plot.x + plot.width / 2) as usize, (plot.y + plot.height / 2) as usize);
        assert_eq!(canvas.pixel(middle.0, middle.1), [200, 0, 0]);
    }

    #[test]
    fn every_chart_can_be_drawn() {
        let points: [&[(f64, f64)]; 5] = [
            &[],
            &[(1.0, 1.0)],
            &[(0.0, 0.0), (1.0, f64::NAN)],
            &[(1e-9, 1e9), (1e9, -1e9)],
            &[(2.0, 3.0), (2.0, 3.0)],
        ];
        for points in points {
            for scale in [Scale::Linear, Scale::Log] {
                let two = [chart(points, scale), chart(points, scale)];
                assert_eq!(draw(&two, &"long ".repeat(100)).width, 2 * WIDTH as usize);
            }
        }
    }
}
