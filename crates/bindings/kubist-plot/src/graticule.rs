//! The meridians and parallels of a map of the sky.

use std::f64::consts::PI;

use crate::colormap::Color;
use crate::layout::{Layout, MARK_TEXT};
use crate::pen::Pen;
use crate::scene::Mark;
use crate::sky::place;
use crate::spec::Picture;
use crate::text::Anchor;

const MERIDIANS: i32 = 60;
const PARALLELS: i32 = 30;

impl Pen<'_> {
    pub(crate) fn graticule(&mut self) {
        let degrees = |from: i32, to: i32, step: usize| (from..=to).step_by(step).map(f64::from);
        for ra in degrees(-180 + MERIDIANS, 180 - MERIDIANS, MERIDIANS as usize) {
            self.curve(degrees(-90, 90, 2).map(|dec| (ra, dec)), self.theme.grid);
        }
        for dec in degrees(-90 + PARALLELS, 90 - PARALLELS, PARALLELS as usize) {
            self.curve(degrees(-180, 180, 4).map(|ra| (ra, dec)), self.theme.grid);
        }
        for ra in [-180.0, 180.0] {
            self.curve(degrees(-90, 90, 2).map(|dec| (ra, dec)), self.theme.line);
        }
    }

    fn curve(&mut self, angles: impl Iterator<Item = (f64, f64)>, color: Color) {
        let layout = self.layout;
        let points = angles.map(|(ra, dec)| pixel(layout, place(ra.to_radians(), dec.to_radians()))).collect();
        self.marks.push(Mark::Line { points, thickness: layout.pixels(1.0), color });
    }

    pub(crate) fn angles(&mut self, picture: &Picture) {
        let scale = self.layout.scale;
        for dec in (-90 + PARALLELS..90).step_by(PARALLELS as usize) {
            let edge = if picture.x.inverted { PI } else { -PI };
            let (x, y) = pixel(self.layout, place(edge, f64::from(dec).to_radians()));
            let at = (f64::from(x) - 8.0 * scale, f64::from(y) + 6.0 * scale);
            self.write(&format!("{dec}°"), MARK_TEXT, at, Anchor::End, self.theme.text);
        }
        for ra in (-180 + MERIDIANS..180).step_by(MERIDIANS as usize) {
            let (x, y) = pixel(self.layout, place(f64::from(ra).to_radians(), 0.0));
            let at = (f64::from(x), f64::from(y) - 5.0 * scale);
            self.write(&format!("{}°", ra.rem_euclid(360)), MARK_TEXT, at, Anchor::Middle, self.theme.text);
        }
        self.names(picture);
    }
}

fn pixel(layout: &Layout, (x, y): (f64, f64)) -> (f32, f32) {
    let plot = layout.plot;
    let across = plot.x as f64 + layout.x.share(x) * plot.width as f64;
    let down = plot.bottom() as f64 - layout.y.share(y) * plot.height as f64;
    (across as f32, down as f32)
}
