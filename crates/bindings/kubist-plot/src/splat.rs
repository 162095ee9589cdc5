//! Draws many points onto few pixels: each point adds a small disc with a soft edge, and each pixel keeps the
//! total weight and the mean value. Sums, and so the plot, do not depend on the order of the points.

/// Row by row from the top.
pub(crate) struct Splats {
    pub width: usize,
    height: usize,
    weight: Vec<f32>,
    valued: Vec<(f32, f32)>,
    /// Sums of red, green and blue over the discs with a value; empty without such colours.
    rgb: Vec<[f32; 3]>,
    radius: f32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Splat {
    pub weight: f32,
    pub value: Option<f32>,
    pub rgb: Option<[f32; 3]>,
}

impl Splats {
    pub(crate) fn new(width: usize, height: usize, radius: f32) -> Splats {
        let (weight, valued) = (vec![0.0; width * height], vec![(0.0, 0.0); width * height]);
        Splats { width, height, weight, valued, rgb: Vec::new(), radius }
    }

    /// A colour that is not finite counts as none.
    pub(crate) fn add_colored(&mut self, x: f64, y: f64, color: [f32; 3]) {
        if self.rgb.is_empty() {
            self.rgb = vec![[0.0; 3]; self.weight.len()];
        }
        let is_known = color.iter().all(|channel| channel.is_finite());
        self.cover(x, y, |splats, pixel, cover| {
            splats.weight[pixel] += cover;
            if is_known {
                splats.valued[pixel].0 += cover;
                splats.rgb[pixel].iter_mut().zip(color).for_each(|(sum, channel)| *sum += cover * channel);
            }
        });
    }

    /// Adds a disc around `x`, `y`, in pixels from the plot's top left corner, with an edge that is soft over
    /// one pixel. NaN is a point without a value.
    pub(crate) fn add(&mut self, x: f64, y: f64, value: f32) {
        self.cover(x, y, |splats, pixel, cover| {
            splats.weight[pixel] += cover;
            if !value.is_nan() {
                let (weight, sum) = &mut splats.valued[pixel];
                *weight += cover;
                *sum += cover * value;
            }
        });
    }

    /// Calls `each` with the pixels of a disc and the fraction that it covers.
    fn cover(&mut self, x: f64, y: f64, mut each: impl FnMut(&mut Splats, usize, f32)) {
        let reach = f64::from(self.radius) + 0.5;
        let span = |center: f64, length: usize| {
            let first = (center - reach - 0.5).ceil().max(0.0) as usize;
            let end = ((center + reach - 0.5).floor() + 1.0).clamp(0.0, length as f64) as usize;
            first..end
        };
        for row in span(y, self.height) {
            for column in span(x, self.width) {
                let (dx, dy) = (column as f64 + 0.5 - x, row as f64 + 0.5 - y);
                let cover = ((reach - (dx * dx + dy * dy).sqrt()) as f32).clamp(0.0, 1.0);
                each(self, row * self.width + column, cover);
            }
        }
    }

    /// Merges another layer of the same pixels; the layer that covers more of a pixel gives its value. Equality
    /// allows for rounding, so the order of sums does not matter.
    pub(crate) fn outdo(&mut self, other: &Splats) {
        let pixels = self.weight.iter_mut().zip(&mut self.valued);
        for ((weight, valued), (more, theirs)) in pixels.zip(other.weight.iter().zip(&other.valued)) {
            *weight += more;
            if theirs.0 > valued.0 * 1.001 {
                *valued = *theirs;
            }
        }
    }

    pub(crate) fn pixels(&self) -> impl Iterator<Item = (usize, usize, Splat)> + '_ {
        let covered = self.weight.iter().zip(&self.valued).enumerate().filter(|(_, (weight, _))| **weight > 0.0);
        covered.map(|(pixel, (weight, (valued, sum)))| {
            let value = (*valued > 0.0).then(|| sum / valued);
            let sums = self.rgb.get(pixel).filter(|_| *valued > 0.0);
            let rgb = sums.map(|sums| sums.map(|sum| sum / valued));
            (pixel % self.width, pixel / self.width, Splat { weight: *weight, value, rgb })
        })
    }

    pub(crate) fn disc_pixels(&self) -> f64 {
        disc_pixels(self.radius)
    }
}

pub(crate) fn disc_pixels(radius: f32) -> f64 {
    let radius = f64::from(radius);
    // The integral of a weight that is 1 up to r - 1/2 and falls linearly to 0 at r + 1/2.
    let (inner, outer) = ((radius - 0.5).max(0.0), radius + 0.5);
    let soft = (outer.powi(3) - inner.powi(3)) / 3.0;
    std::f64::consts::TAU * (inner * inner / 2.0 + outer * (outer * outer - inner * inner) / 2.0 - soft)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disc_has_its_area_and_its_value() {
        for radius in [0.5, 1.0, 2.7, 6.0] {
            let mut splats = Splats::new(40, 40, radius);
            splats.add(20.3, 19.8, 7.0);
            let area: f64 = splats.pixels().map(|(.., splat)| f64::from(splat.weight)).sum();
            let expected = splats.disc_pixels();
            assert!((area / expected - 1.0).abs() < 0.06, "{radius}: {area} {expected}");
            assert!(splats.pixels().all(|(.., splat)| splat.value.is_some_and(|value| (value - 7.0).abs() < 1e-5)));
        }
    }

    #[test]
    fn values_average_and_missing_ones_do_not_count() {
        let mut splats = Splats::new(10, 10, 1.0);
        for value in [1.0, 3.0, f32::NAN] {
            splats.add(5.5, 5.5, value);
        }
        let (.., splat) = splats.pixels().find(|(x, y, _)| (*x, *y) == (5, 5)).unwrap();
        assert_eq!(splat, Splat { weight: 3.0, value: Some(2.0), rgb: None });
    }

    #[test]
    fn colours_average_by_channel() {
        let mut splats = Splats::new(10, 10, 1.0);
        for color in [[0.0, 100.0, 200.0], [100.0, 100.0, 0.0], [f32::NAN, 0.0, 0.0]] {
            splats.add_colored(5.5, 5.5, color);
        }
        let (.., splat) = splats.pixels().find(|(x, y, _)| (*x, *y) == (5, 5)).unwrap();
        assert_eq!((splat.weight, splat.rgb), (3.0, Some([50.0, 100.0, 100.0])));
    }

    #[test]
    fn points_beyond_the_edge_are_cut() {
        let mut splats = Splats::new(10, 10, 2.0);
        for (x, y) in [(0.0, 0.0), (10.0, 10.0), (-50.0, 5.0), (5.0, 1e9), (f64::NAN, 1.0)] {
            splats.add(x, y, 1.0);
        }
        assert!(splats.pixels().all(|(x, y, _)| x < 10 && y < 10));
    }
}
