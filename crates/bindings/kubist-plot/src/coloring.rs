//! Pixel colours, and the marks of the colour bar.

use kubist_types::Cancel;
use kubist_types::steps::{self, LEAST};

use crate::classes::Classes;
use crate::colormap::{Color, Ramp};
use crate::error::Error;
use crate::points::{extent, quantiles};
use crate::spec::{Ends, Picture};
use crate::splat::{Splat, Splats};
use crate::ticks::{Scale, Ticks, ticks};

#[derive(Clone)]
pub(crate) struct Colors {
    pub label: String,
    pub scale: Scale,
    /// Exponents of ten on a logarithmic scale; `None` if nothing is coloured.
    pub ends: Option<Ends>,
    /// Whether there are values below or above the ends.
    pub beyond: (bool, bool),
    ramp: Ramp,
    pub classes: Option<Classes>,
    /// `None` if colours show values.
    density: Option<Density>,
    channels: Option<f32>,
}

#[derive(Clone, Copy, Default)]
struct Density {
    /// Rows per pixel for a weight of 1.
    per_weight: f64,
    /// The greatest density of a pixel so far, in the same unit.
    densest: f64,
}

impl Colors {
    pub(crate) fn new(picture: &Picture, background: Color, cancel: &Cancel) -> Result<Colors, Error> {
        let density = Colors {
            label: "points per pixel".to_string(),
            scale: Scale::Log,
            ends: (!picture.points.is_empty()).then_some(Ends { low: 0.0, high: 1.0 }),
            beyond: (false, false),
            ramp: Ramp::of_density(picture.color.map, background),
            classes: None,
            density: Some(Density::default()),
            channels: None,
        };
        if !picture.points.rgb.is_empty() {
            let scale = picture.points.channel_scale();
            return Ok(Colors { ends: None, density: None, channels: Some(scale), ..density });
        }
        let Some(values) = &picture.points.value else {
            return Ok(density);
        };
        let (label, scale) = (picture.color.label.clone(), picture.color.scale);
        let ramp = Ramp::on(picture.color.map, background);
        let nothing = Colors { label, scale, ends: None, density: None, ramp, ..density };
        let is_plain = scale == Scale::Linear && picture.color.ends == (None, None);
        if let Some(classes) = Classes::of(picture.color.kind, values, &picture.points.names).filter(|_| is_plain) {
            let ends = Some(Ends { low: 0.0, high: 1.0 });
            return Ok(Colors { ends, classes: Some(classes), ..nothing });
        }
        cancel.check()?;
        let mapped: Vec<f64> = values.iter().map(|value| nothing.mapped(*value)).collect();
        let Some((low, high)) = extent(&mapped) else {
            return Ok(nothing);
        };
        let (mut chosen_low, mut chosen_high) = (low, high);
        // A few extreme values must not use up the colour range.
        if let Some([bottom, top]) = quantiles(|| mapped.iter().copied(), [0.005, 0.995], cancel)?
            && top > bottom
            && steps::part(low, high, 1.5) > top - bottom
        {
            (chosen_low, chosen_high) = (bottom, top);
        }
        let given = |end: Option<f64>| end.map(|end| nothing.mapped(end)).filter(|end| end.is_finite());
        let low_end = given(picture.color.ends.0).unwrap_or(chosen_low);
        let high_end = given(picture.color.ends.1).unwrap_or(chosen_high).max(low_end);
        let ends = Ends::apart(low_end, high_end, 1.0);
        let ends = match scale {
            Scale::Log => Ends { low: ends.low.max(LEAST.log10()), high: ends.high.min(f64::MAX.log10()) },
            _ => ends,
        };
        Ok(Colors { ends: Some(ends), beyond: (low < ends.low, high > ends.high), ..nothing })
    }

    fn mapped(&self, value: f64) -> f64 {
        if self.scale == Scale::Log { value.log10() } else { value }
    }

    /// The position of a value in the colour range, which pixels average. It is clamped to [0, 1], so that an
    /// extreme value does not dominate its neighbours.
    pub(crate) fn share(&self, value: f64) -> f32 {
        if let Some(classes) = &self.classes {
            return classes.share(value).map_or(f32::NAN, |share| share as f32);
        }
        match self.ends {
            Some(ends) if self.density.is_none() => ends.share(self.mapped(value)).clamp(0.0, 1.0) as f32,
            _ => f32::NAN,
        }
    }

    /// Sets the range of a density after all points are drawn. Call it with every frame, because the range covers all
    /// frames.
    pub(crate) fn settle(&mut self, splats: &Splats, fraction: f64, cancel: &Cancel) -> Result<(), Error> {
        let (Some(density), Some(former)) = (self.density, self.ends) else {
            return Ok(());
        };
        let per_weight = 1.0 / (splats.disc_pixels() * fraction);
        // From the density of a single point to nearly the densest pixel.
        let weights = || splats.pixels().map(|(.., splat)| f64::from(splat.weight));
        let densest = weights().fold(0.0, f64::max);
        let most = quantiles(weights, [0.999], cancel)?
            .map_or(densest, |[most]| if densest > 2.0 * most { most } else { densest });
        let mut ends = Ends::apart(per_weight.log10(), (most.max(1.0) * per_weight).log10(), 1.0);
        if density.densest > 0.0 {
            ends = Ends { low: ends.low.min(former.low), high: ends.high.max(former.high) };
        }
        let densest = density.densest.max(densest * per_weight);
        self.density = Some(Density { per_weight, densest });
        self.ends = Some(ends);
        self.beyond = (false, densest > 10f64.powf(ends.high) * 1.01);
        Ok(())
    }

    /// `None` if no point on the pixel has a value.
    pub(crate) fn color(&self, splat: &Splat) -> Option<Color> {
        if let Some(scale) = self.channels {
            return splat.rgb.map(|channels| channels.map(|channel| (channel * scale).round() as u8));
        }
        match (self.density, self.ends, splat.value) {
            (Some(density), Some(ends), _) => {
                Some(self.ramp.color(ends.share((f64::from(splat.weight) * density.per_weight).log10())))
            }
            (None, _, Some(share)) => Some(self.at(share.into())),
            _ => None,
        }
    }

    pub(crate) fn marks(&self, most: usize) -> Ticks {
        if let Some(classes) = &self.classes {
            return Ticks { major: classes.marks(most), ..Ticks::default() };
        }
        let Some(ends) = self.ends else {
            return Ticks::default();
        };
        let value = |end: f64| {
            if self.scale == Scale::Log { 10f64.powf(end).clamp(LEAST, f64::MAX) } else { end }
        };
        ticks(self.scale, value(ends.low), value(ends.high), most)
    }

    /// From 0 at the bottom of the colour bar to 1 at the top.
    pub(crate) fn height(&self, value: f64) -> f64 {
        let of_class = self.classes.as_ref().and_then(|classes| classes.share(value));
        of_class.unwrap_or_else(|| self.ends.map_or(0.0, |ends| ends.share(self.mapped(value))))
    }

    pub(crate) fn at(&self, share: f64) -> Color {
        self.classes.as_ref().map_or_else(|| self.ramp.color(share), |classes| classes.color(share))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::picture;

    #[test]
    fn extremes_do_not_take_the_colours() {
        let mut values: Vec<f64> = (0..10_000).map(|i| f64::from(i) / 10_000.0).collect();
        values.push(1e6);
        let mut picture = picture(values.len());
        picture.points.value = Some(values);
        let colors = Colors::new(&picture, [255; 3], &Cancel::default()).unwrap();
        assert!(colors.ends.is_some_and(|ends| ends.high < 1.01));
        assert_eq!(colors.beyond, (true, true));
        assert_eq!(colors.share(1e6), 1.0);
        picture.color.ends = (Some(0.0), Some(2e6));
        let colors = Colors::new(&picture, [255; 3], &Cancel::default()).unwrap();
        assert_eq!((colors.ends, colors.beyond), (Some(Ends { low: 0.0, high: 2e6 }), (false, false)));
    }

    #[test]
    fn logarithms_leave_out_what_has_none() {
        let mut picture = picture(4);
        picture.points.value = Some(vec![-1.0, 0.0, 1.0, 100.0]);
        picture.color.scale = Scale::Log;
        let colors = Colors::new(&picture, [255; 3], &Cancel::default()).unwrap();
        assert_eq!(colors.ends, Some(Ends { low: 0.0, high: 2.0 }));
        assert_eq!(colors.share(10.0), 0.5);
        assert!(colors.share(-1.0).is_nan());
        picture.points.value = Some(vec![f64::NAN; 4]);
        assert!(Colors::new(&picture, [255; 3], &Cancel::default()).unwrap().ends.is_none());
    }
}
