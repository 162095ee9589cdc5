//! Colours for categorical values: booleans, strings, and integers with few distinct values. Classes have no
//! average, so a pixel has the colour of the class with the largest area.

use std::collections::HashMap;

use crate::colormap::Color;
use crate::points::Names;
use crate::ticks::whole;

const MOST: usize = 12;
/// Largest integer up to which f64 represents every integer, 2^53 - 1.
const MOST_EXACT: f64 = 9_007_199_254_740_991.0;

/// Tableau's palette as in matplotlib (CC0), plus three darker colours, without grey, which marks missing
/// values.
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

/// The kind of values that colour points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Continuous numbers.
    #[default]
    Measured,
    /// Integers, which are classes if there are few.
    Whole,
    /// 0 is false and 1 is true.
    Truths,
    /// Strings; the most frequent ones are classes.
    Texts,
}

#[derive(Clone, Debug)]
pub(crate) struct Classes {
    /// Ascending, or in the order of their strings.
    values: Vec<f64>,
    /// Empty for numbers.
    names: Vec<String>,
    kind: Kind,
}

impl Classes {
    /// `None` if the values are no classes or too many.
    pub(crate) fn of(kind: Kind, values: &[f64], names: &Names) -> Option<Classes> {
        if kind == Kind::Texts {
            return Classes::of_texts(values, names);
        }
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
        (!found.is_empty()).then_some(Classes { values: found, names: Vec::new(), kind })
    }

    /// The most frequent strings, in alphabetical order.
    fn of_texts(values: &[f64], names: &Names) -> Option<Classes> {
        let mut counts: HashMap<u64, u64> = HashMap::new();
        values
            .iter()
            .filter(|value| value.is_finite())
            .for_each(|value| *counts.entry(value.to_bits()).or_default() += 1);
        let name = |bits: u64| names.get(&bits).cloned().unwrap_or_default();
        let mut found: Vec<(u64, String, u64)> = counts.into_iter().map(|(bits, n)| (n, name(bits), bits)).collect();
        found.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
        found.truncate(MOST);
        found.sort_by(|one, other| one.1.cmp(&other.1));
        let values = found.iter().map(|(.., bits)| f64::from_bits(*bits)).collect();
        let names = found.into_iter().map(|(_, name, _)| name).collect::<Vec<_>>();
        (!names.is_empty()).then_some(Classes { values, names, kind: Kind::Texts })
    }

    pub(crate) fn count(&self) -> usize {
        self.values.len()
    }

    /// The middle of the value's segment of the colour bar, in [0, 1].
    pub(crate) fn share(&self, value: f64) -> Option<f64> {
        let place = self.values.iter().position(|known| known.total_cmp(&value).is_eq())?;
        Some((place as f64 + 0.5) / self.count() as f64)
    }

    pub(crate) fn color(&self, share: f64) -> Color {
        PALETTE[((share * self.count() as f64) as usize).min(self.count() - 1)]
    }

    pub(crate) fn marks(&self, most: usize) -> Vec<(f64, String)> {
        let every = self.count().div_ceil(most.max(1));
        let name = |place: usize, value: f64| match self.kind {
            Kind::Truths => (value != 0.0).to_string(),
            Kind::Texts => shortened(&self.names[place]),
            _ => whole(value),
        };
        self.values.iter().enumerate().step_by(every).map(|(place, value)| (*value, name(place, *value))).collect()
    }

    pub(crate) fn values(&self) -> &[f64] {
        &self.values
    }
}

fn shortened(text: &str) -> String {
    const LONGEST: usize = 20;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_texts_are_classes() {
        let names: Names = (0..30).map(|k| (f64::from(k).to_bits(), format!("kind {k:02}"))).collect();
        let values: Vec<f64> = (0..30).flat_map(|k| vec![f64::from(k); k as usize + 1]).collect();
        let classes = Classes::of(Kind::Texts, &values, &names).unwrap();
        let marks: Vec<String> = classes.marks(12).into_iter().map(|(_, name)| name).collect();
        assert_eq!(marks, (18..30).map(|k| format!("kind {k:02}")).collect::<Vec<_>>());
        assert_eq!(classes.share(3.0), None);
        assert!(Classes::of(Kind::Texts, &[f64::NAN], &names).is_none());
    }

    #[test]
    fn few_whole_numbers_are_classes() {
        let classes = Classes::of(Kind::Whole, &[5.0, 2.0, f64::NAN, 5.0, -1.0], &Names::new()).unwrap();
        assert_eq!(classes.values(), [-1.0, 2.0, 5.0]);
        assert_eq!(classes.share(2.0), Some(0.5));
        assert_eq!(classes.share(3.0), None);
        assert_eq!([0.1, 0.5, 0.99, 1.0].map(|share| classes.color(share)), [0, 1, 2, 2].map(|place| PALETTE[place]));
        assert_eq!(classes.marks(9), [(-1.0, "−1".into()), (2.0, "2".into()), (5.0, "5".into())]);
        assert_eq!(classes.marks(2).len(), 2);
        let many: Vec<f64> = (0..13).map(f64::from).collect();
        assert!(
            Classes::of(Kind::Whole, &many, &Names::new()).is_none()
                && Classes::of(Kind::Measured, &[1.0], &Names::new()).is_none()
        );
        assert!(Classes::of(Kind::Truths, &[f64::NAN], &Names::new()).is_none());
        assert_eq!(Classes::of(Kind::Truths, &[1.0, 0.0], &Names::new()).unwrap().marks(5)[1].1, "true");
    }
}
