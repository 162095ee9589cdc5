//! Colormaps from [0, 1] to sRGB colours, as equidistant stops. Sources: viridis, magma, inferno, plasma from
//! matplotlib (CC0), cividis, Google's turbo (Apache-2.0), and Moreland's coolwarm.

use std::str::FromStr;

/// Red, green, blue.
pub type Color = [u8; 3];

/// A colormap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Colormap {
    /// Purple over green to yellow, with increasing lightness.
    Viridis,
    /// Black over red to pale yellow.
    Magma,
    /// Black over orange to pale yellow.
    Inferno,
    /// Blue over red to yellow.
    Plasma,
    /// Blue to yellow, suitable for colour vision deficiency.
    Cividis,
    /// A rainbow: more distinct colours, but uneven lightness.
    Turbo,
    /// Blue over grey to red, for diverging values.
    Coolwarm,
    /// Black to white.
    Gray,
}

impl FromStr for Colormap {
    type Err = String;

    fn from_str(name: &str) -> Result<Colormap, String> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "viridis" => Colormap::Viridis,
            "magma" => Colormap::Magma,
            "inferno" => Colormap::Inferno,
            "plasma" => Colormap::Plasma,
            "cividis" => Colormap::Cividis,
            "turbo" => Colormap::Turbo,
            "coolwarm" => Colormap::Coolwarm,
            "gray" => Colormap::Gray,
            _ => {
                return Err(format!(
                    "expected viridis, magma, inferno, plasma, cividis, turbo, coolwarm or gray, not {name:?}"
                ));
            }
        })
    }
}

impl Colormap {
    fn stops(self) -> &'static [u32] {
        match self {
            Colormap::Viridis => &[
                0x440154, 0x482475, 0x414487, 0x355f8d, 0x2a788e, 0x21918c, 0x22a884, 0x44bf70, 0x7ad151, 0xbddf26,
                0xfde725,
            ],
            Colormap::Magma => &[
                0x000004, 0x140e36, 0x3b0f70, 0x641a80, 0x8c2981, 0xb73779, 0xde4968, 0xf7705c, 0xfe9f6d, 0xfecf92,
                0xfcfdbf,
            ],
            Colormap::Inferno => &[
                0x000004, 0x160b39, 0x420a68, 0x6a176e, 0x932667, 0xbc3754, 0xdd513a, 0xf37819, 0xfca50a, 0xf6d746,
                0xfcffa4,
            ],
            Colormap::Plasma => &[
                0x0d0887, 0x41049d, 0x6a00a8, 0x8f0da4, 0xb12a90, 0xcc4778, 0xe16462, 0xf2844b, 0xfca636, 0xfcce25,
                0xf0f921,
            ],
            Colormap::Cividis => {
                &[0x00224e, 0x123570, 0x3b496c, 0x575d6d, 0x707173, 0x8a8678, 0xa59c74, 0xc3b369, 0xe1cc55, 0xfee838]
            }
            Colormap::Turbo => &[
                0x30123b, 0x4145ab, 0x4675ed, 0x39a2fc, 0x1bcfd4, 0x24eca6, 0x61fc6c, 0xa4fc3b, 0xd1e834, 0xf3c63a,
                0xfe9b2d, 0xf36315, 0xd93806, 0xb11901, 0x7a0402,
            ],
            Colormap::Coolwarm => &[0x3b4cc0, 0x6788ee, 0x9abbff, 0xc9d7f0, 0xedd1c2, 0xf7a889, 0xe26952, 0xb40426],
            Colormap::Gray => &[0x000000, 0xffffff],
        }
    }

    /// The colour of `t`, clamped to [0, 1].
    pub fn color(self, t: f64) -> Color {
        let stops = self.stops();
        let position = t.clamp(0.0, 1.0) * (stops.len() - 1) as f64;
        let below = (position as usize).min(stops.len() - 2);
        let share = position - below as f64;
        std::array::from_fn(|channel| {
            let part = |stop: u32| f64::from(stop.to_be_bytes()[channel + 1]);
            (part(stops[below]) * (1.0 - share) + part(stops[below + 1]) * share).round() as u8
        })
    }
}

/// The luminance of a colour, from 0 to 255 (Rec. 709).
fn lightness([red, green, blue]: Color) -> f64 {
    0.2126 * f64::from(red) + 0.7152 * f64::from(green) + 0.0722 * f64::from(blue)
}

/// The part of a colormap that contrasts with the background.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ramp {
    map: Colormap,
    from: f64,
    to: f64,
}

impl Ramp {
    /// Leaves out an end of the map that is too close to `background`.
    pub fn on(map: Colormap, background: Color) -> Ramp {
        /// Least difference in luminance from the background, of 255.
        const APART: f64 = 30.0;
        const STEP: f64 = 0.01;
        const MOST: usize = 32;
        let apart = |t: f64| (lightness(map.color(t)) - lightness(background)).abs() >= APART;
        let first = |apart: &dyn Fn(f64) -> bool| {
            let mut steps = (0..MOST).map(|step| step as f64 * STEP);
            steps.find(|share| apart(*share)).unwrap_or(MOST as f64 * STEP)
        };
        Ramp { map, from: first(&apart), to: 1.0 - first(&|less| apart(1.0 - less)) }
    }

    /// A ramp for densities: a higher density has more contrast with `background`.
    pub fn of_density(map: Colormap, background: Color) -> Ramp {
        let Ramp { from, to, .. } = Ramp::on(map, background);
        let away = |t: f64| (lightness(map.color(t)) - lightness(background)).abs();
        let (from, to) = if away(from) > away(to) { (to, from) } else { (from, to) };
        Ramp { map, from, to }
    }

    /// The colour at a position from 0 to 1.
    pub fn color(&self, share: f64) -> Color {
        self.map.color(self.from + (self.to - self.from) * share.clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_and_middles() {
        assert_eq!(Colormap::Viridis.color(0.0), [0x44, 0x01, 0x54]);
        assert_eq!(Colormap::Viridis.color(1.0), [0xfd, 0xe7, 0x25]);
        assert_eq!(Colormap::Viridis.color(7.0), [0xfd, 0xe7, 0x25]);
        assert_eq!(Colormap::Gray.color(0.5), [128, 128, 128]);
        assert_eq!(Colormap::Gray.color(f64::NAN), [0, 0, 0]);
    }

    #[test]
    fn more_records_stand_out_more_on_any_ground() {
        for map in [Colormap::Viridis, Colormap::Inferno, Colormap::Cividis, Colormap::Turbo, Colormap::Gray] {
            for ground in [[255; 3], [17, 19, 24]] {
                let ramp = Ramp::of_density(map, ground);
                let away = |share| (lightness(ramp.color(share)) - lightness(ground)).abs();
                assert!(away(1.0) >= away(0.0), "{map:?} on {ground:?}");
            }
        }
        let ramp = Ramp::of_density(Colormap::Gray, [255; 3]);
        assert_eq!((ramp.color(0.0), ramp.color(1.0)), ([224; 3], [0; 3]));
    }

    #[test]
    fn ends_that_would_vanish_are_left_out() {
        let ramp = Ramp::on(Colormap::Gray, [255; 3]);
        assert_eq!((ramp.color(0.0), ramp.color(1.0)), ([0; 3], [224; 3]));
        let ramp = Ramp::on(Colormap::Gray, [10; 3]);
        assert!(ramp.color(0.0)[0] >= 40 && ramp.color(1.0) == [255; 3]);
        let ramp = Ramp::on(Colormap::Viridis, [255; 3]);
        assert_eq!(ramp.color(1.0), Colormap::Viridis.color(1.0));
    }
}
