//! Colours for categorical values: booleans, and few integers.
//!
//! A pixel has the colour of the class with the largest area, because classes have no average.

use crate::colormap::Color;
use crate::ticks::whole;

/// More colours would be hard to distinguish.
const MOST: usize = 12;
/// The largest integer up to which f64 represents every integer, 2^53 - 1.
const MOST_EXACT: f64 = 9_007_199_254_740_991.0;

/// Tableau's palette as in matplotlib (CC0), without grey, which marks missing values, plus three darker
/// colours.
const PALETTE: [Color; MOST] = [
    [0x1f, 0x77, 0xb4],
    [0xff, 0x7f, 0x0e],
    [0x2c, 0xa0, 0x2c],
    [0xd6, 0x27, 0x28],
    [0x94, 0x67, 0xbd],
    [0x8c, 0x56, 0x4b],
    [0xe3, 0x77, 0xc2],
    [0xbc, 0xbd, 0x22],
    [0x17, 0xbe, 0xcf],
    [0x39, 0x3b, 0x79],
    [0x63, 0x79, 0x39],
    [0xad, 0x49, 0x4a],
];

/// The kind of the values that colour points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Continuous numbers.
    #[default]
    Measured,
    /// Integers: classes if there are few.
    Whole,
    /// 0 is false and 1 is true.
    Truths,
}

#[derive(Clone, Debug)]
pub(crate) struct Classes {
    values: Vec<f64>,
    kind: Kind,
}

impl Classes {
    /// `None` if the values are not classes or there are too many.
    pub(crate) fn of(kind: Kind, values: &[f64]) -> Option<Classes> {
        // Several larger integers are the same f64.
        let are_told_apart = values.iter().all(|value| !(value.abs() > MOST_EXACT && value.is_finite()));
        if kind == Kind::Measured || !are_told_apart {
            return None;
        }
        let mut found: Vec<f64> = Vec::new();
        for value in values.iter().copied().filter(|value| value.is_finite()) {
            if let Err(place) = found.binary_search_by(|known| known.total_cmp(&value)) {
                if found.len() == MOST {
                    return None;
                }
                found.insert(place, value);
            }
        }
        (!found.is_empty()).then_some(Classes { values: found, kind })
    }

    pub(crate) fn count(&self) -> usize {
        self.values.len()
    }

    /// Returns the middle of the value's segment of the colour bar, in [0, 1].
    pub(crate) fn share(&self, value: f64) -> Option<f64> {
        let place = self.values.binary_search_by(|known| known.total_cmp(&value)).ok()?;
        Some((place as f64 + 0.5) / self.count() as f64)
    }

    /// Returns the colour of the class whose segment contains this position.
    pub(crate) fn color(&self, share: f64) -> Color {
        PALETTE[((share * self.count() as f64) as usize).min(self.count() - 1)]
    }

    /// Positions and labels, thinned to at most `most`.
    pub(crate) fn marks(&self, most: usize) -> Vec<(f64, String)> {
        let every = self.count().div_ceil(most.max(1));
        let name = |value: &f64| match self.kind {
            Kind::Truths => (*value != 0.0).to_string(),
            _ => whole(*value),
        };
        self.values.iter().step_by(every).map(|value| (*value, name(value))).collect()
    }

    pub(crate) fn values(&self) -> &[f64] {
        &self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_whole_numbers_are_classes() {
        let classes = Classes::of(Kind::Whole, &[5.0, 2.0, f64::NAN, 5.0, -1.0]).unwrap();
        assert_eq!(classes.values(), [-1.0, 2.0, 5.0]);
        assert_eq!(classes.share(2.0), Some(0.5));
        assert_eq!(classes.share(3.0), None);
        assert_eq!([0.1, 0.5, 0.99, 1.0].map(|share| classes.color(share)), [0, 1, 2, 2].map(|place| PALETTE[place]));
        assert_eq!(classes.marks(9), [(-1.0, "−1".into()), (2.0, "2".into()), (5.0, "5".into())]);
        assert_eq!(classes.marks(2).len(), 2);
        let many: Vec<f64> = (0..13).map(f64::from).collect();
        assert!(Classes::of(Kind::Whole, &many).is_none() && Classes::of(Kind::Measured, &[1.0]).is_none());
        assert!(Classes::of(Kind::Truths, &[f64::NAN]).is_none());
        assert_eq!(Classes::of(Kind::Truths, &[1.0, 0.0]).unwrap().marks(5)[1].1, "true");
    }
}
