//! Periods of columns, and columns of positions on a sphere, both from the metadata of columns.

use std::fmt;
use std::str::FromStr;

use arrow_schema::{Field, Schema};

pub const PERIOD: &str = "period";

/// The metadata key of a longitude or right ascension; its value is the name of the column of latitudes.
pub const SPHERE: &str = "sphere";

/// The longitude and latitude on a sphere that a schema declares.
pub fn sphere(schema: &Schema) -> Option<[String; 2]> {
    schema.fields().iter().find_map(|field| {
        let latitude = schema.field_with_name(field.metadata().get(SPHERE)?).ok()?;
        let both = [field.as_ref(), latitude];
        both.iter().all(|field| field.data_type().is_numeric()).then(|| both.map(|field| field.name().clone()))
    })
}

/// The interval of a column's values, after which space repeats. Its text is the length if it begins at 0, and
/// otherwise both bounds: `25`, `-12.5:12.5`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Period {
    pub first: f64,
    pub last: f64,
}

impl Period {
    /// Reads the metadata of a column; invalid text is no period.
    pub fn of(field: &Field) -> Option<Period> {
        let text = field.metadata().get(PERIOD).filter(|_| field.data_type().is_numeric())?;
        text.parse().ok()
    }

    /// The period from `first` to `last`; `None` if these are no interval.
    pub fn new(first: f64, last: f64) -> Option<Period> {
        let period = Period { first, last };
        (period.length() > 0.0 && period.length().is_finite()).then_some(period)
    }

    pub fn length(&self) -> f64 {
        self.last - self.first
    }

    /// Whether a closed range is within the interval, so that it has no other image there.
    pub(crate) fn holds(&self, low: f64, high: f64) -> bool {
        self.first <= low && high <= self.last
    }

    /// Returns the distances to the images of a closed range that meet the interval.
    pub(crate) fn shifts(&self, low: f64, high: f64) -> impl Iterator<Item = f64> + use<> {
        let (first, last, length) = (self.first, self.last, self.length());
        let (begin, end) = (((first - high) / length).ceil(), ((last - low) / length).floor());
        // Quotients are rounded, so the neighbours are compared too.
        let count = (end - begin).clamp(-1.0, 1e6) as i64 + 2;
        let inside = self.holds(low, high);
        (-1..count).map(move |image| (begin + image as f64) * length).filter(move |shift| match inside {
            true => *shift == 0.0,
            false => high + shift >= first && low + shift <= last,
        })
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first {
            0.0 => write!(f, "{}", self.last),
            first => write!(f, "{first}:{}", self.last),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoPeriod;

impl FromStr for Period {
    type Err = NoPeriod;

    fn from_str(text: &str) -> Result<Period, NoPeriod> {
        let (first, last) = text.split_once(':').unwrap_or(("0", text));
        let number = |text: &str| text.trim().parse::<f64>().ok();
        number(first).zip(number(last)).and_then(|(first, last)| Period::new(first, last)).ok_or(NoPeriod)
    }
}
