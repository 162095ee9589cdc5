//! Draws plots of points.

use kubist_types::Cancel;

use crate::coloring::Colors;
use crate::colormap::Color;
use crate::error::{Error, Steps};
use crate::layout::Layout;
use crate::pen::Pen;
use crate::points::Points;
use crate::scene::{Layer, Mark, Scene};
use crate::sky;
use crate::spec::{Picture, Projection, RADII};
use crate::splat::{Splats, disc_pixels};
use crate::text::Typeface;
use crate::theme::Theme;

/// Draws points with their axes, colour bar and text.
///
/// # Errors
///
/// [`Error::Cancelled`].
pub fn draw(picture: &Picture, cancel: &Cancel) -> Result<Scene, Error> {
    let projected = (picture.projection == Projection::Sky).then(|| sky::projected(picture));
    let picture = projected.as_ref().unwrap_or(picture);
    let mut stage = Stage::new(picture, &picture.points, cancel)?;
    let splats = stage.fall(&picture.points)?;
    stage.colors.settle(&splats, picture.fraction, cancel)?;
    Ok(stage.compose(splats, &picture.caption))
}

/// The common axes, colours and point style of an animation's frames.
pub struct Stage<'a> {
    picture: &'a Picture,
    theme: &'static Theme,
    typeface: Typeface,
    layout: Layout,
    colors: Colors,
    radius: f32,
    opacity: f32,
    cancel: Cancel,
}

impl<'a> Stage<'a> {
    /// Axes and colours span the points of `picture`, unless it fixes their ends. `fullest` are the points of
    /// the frame with most points, which determine radius and opacity.
    ///
    /// # Errors
    ///
    /// [`Error::Cancelled`].
    pub fn new(picture: &'a Picture, fullest: &Points, cancel: &Cancel) -> Result<Stage<'a>, Error> {
        let (theme, typeface) = (picture.style.theme(), Typeface::new());
        let colors = Colors::new(picture, theme.background, cancel)?;
        let layout = Layout::new(picture, &typeface, &colors);
        let given = picture.radius.map(|radius| radius.clamp(*RADII.start(), *RADII.end()));
        let radius = given.map_or_else(|| layout.radius(fullest, cancel), Ok)?;
        // Overlapping points are transparent, so that dense regions stay visible.
        let layers = fullest.len() as f64 * disc_pixels(radius) / (layout.plot.width * layout.plot.height) as f64;
        let opacity = (0.95 - 0.12 * layers.max(1.0).log2()).clamp(0.6, 0.95) as f32;
        Ok(Stage { picture, theme, typeface, layout, colors, radius, opacity, cancel: cancel.clone() })
    }

    /// Extends a density's colours to these points.
    ///
    /// # Errors
    ///
    /// [`Error::Cancelled`].
    pub fn settle(&mut self, points: &Points) -> Result<(), Error> {
        let splats = self.fall(points)?;
        self.colors.settle(&splats, self.picture.fraction, &self.cancel)
    }

    /// Draws the points.
    ///
    /// # Errors
    ///
    /// [`Error::Cancelled`].
    pub fn scene(&self, points: &Points, caption: &str) -> Result<Scene, Error> {
        Ok(self.compose(self.fall(points)?, caption))
    }

    /// Width and height in pixels.
    pub fn size(&self) -> (usize, usize) {
        (self.layout.width, self.layout.height)
    }

    /// The background colour.
    pub fn background(&self) -> Color {
        self.theme.background
    }

    /// A palette of 256 colours for all frames: lines, text, and points of all values and opacities.
    pub(crate) fn palette(&self) -> Vec<Color> {
        const OPACITIES: [f32; 6] = [1.0, 0.85, 0.68, 0.5, 0.32, 0.15];
        let Theme { background, grid, line, text, quiet, missing } = *self.theme;
        let mixed = |color: Color, opacity: f32| -> Color {
            let channels = [0, 1, 2].map(|k| (f32::from(background[k]), f32::from(color[k])));
            channels.map(|(below, above)| (below + (above - below) * opacity).round() as u8)
        };
        let mut palette = vec![background, grid, line, quiet, missing];
        palette.extend((1..=8).map(|part| mixed(text, part as f32 / 8.0)));
        palette.extend([0.33, 0.67].map(|opacity| mixed(quiet, opacity)));
        let steps = (256 - palette.len()) / OPACITIES.len();
        let shares = (0..steps).map(|step| self.colors.at(step as f64 / (steps - 1) as f64));
        palette.extend(shares.flat_map(|color| OPACITIES.map(|opacity| mixed(color, opacity))));
        palette.resize(256, background);
        palette
    }

    /// For classes, each class separately.
    fn fall(&self, points: &Points) -> Result<Splats, Error> {
        let (Some(classes), Some(values)) = (&self.colors.classes, &points.value) else {
            return self.splats(points, |_| true);
        };
        let mut splats = self.splats(points, |index| classes.share(values[index]).is_none())?;
        for class in classes.values() {
            splats.outdo(&self.splats(points, |index| values[index] == *class)?);
        }
        Ok(splats)
    }

    fn splats(&self, points: &Points, wanted: impl Fn(usize) -> bool) -> Result<Splats, Error> {
        let (layout, colors) = (&self.layout, &self.colors);
        let (width, height) = (layout.plot.width as usize, layout.plot.height as usize);
        let mut splats = Splats::new(width, height, self.radius);
        let (mut steps, each) = (Steps::new(&self.cancel), splats.disc_pixels() as usize);
        for index in 0..points.len() {
            steps.step(1)?;
            if !wanted(index) {
                continue;
            }
            steps.step(each)?;
            let across = layout.x.share(points.x[index]) * width as f64;
            let down = (1.0 - layout.y.share(points.y[index])) * height as f64;
            if let Some(color) = points.rgb.get(index) {
                splats.add_colored(across, down, *color);
                continue;
            }
            let value = points.value.as_ref().map_or(f32::NAN, |values| colors.share(values[index]));
            splats.add(across, down, value);
        }
        Ok(splats)
    }

    fn compose(&self, splats: Splats, caption: &str) -> Scene {
        let Stage { picture, theme, layout, colors, .. } = self;
        let mut pen = Pen { marks: Vec::new(), typeface: &self.typeface, theme, layout };
        let is_map = picture.projection == Projection::Mollweide;
        if is_map {
            pen.graticule()
        } else {
            pen.grid()
        }
        let layer = Layer { splats, colors: colors.clone(), opacity: self.opacity, missing: theme.missing };
        pen.marks.push(Mark::Points(layout.plot, layer));
        if is_map {
            pen.angles(picture)
        } else {
            pen.axes(picture)
        }
        pen.scale_bar(picture);
        if colors.ends.is_some() {
            pen.color_bar(colors);
        }
        pen.words(picture, caption);
        Scene { width: layout.width, height: layout.height, background: theme.background, marks: pen.marks }
    }
}
