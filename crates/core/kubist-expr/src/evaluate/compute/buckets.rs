//! Rounding down to edges of bins and beginnings of periods.

use crate::bound::Period;
use crate::moment::{days_since_epoch, month_of};
use crate::number::BinWidth;

/// 2^53: larger floats have no neighbours at distance 1.
const CLOSEST: f64 = 9_007_199_254_740_992.0;

/// Integer multiples of a decimal, each rounded once: an edge is the float nearest to its decimal text, so 0.3 although
/// 3 * 0.1 is larger.
pub(super) struct Edges {
    mantissa: f64,
    power: f64,
    divides: bool,
}

impl Edges {
    pub(super) fn new(width: BinWidth) -> Edges {
        let power = 10f64.powi(width.exponent.abs());
        Edges { mantissa: width.mantissa as f64, power, divides: width.exponent < 0 }
    }

    fn edge(&self, number: f64) -> f64 {
        if self.divides { number * self.mantissa / self.power } else { number * (self.mantissa * self.power) }
    }

    /// Returns the largest edge up to the value, where `round` rounds edges to the precision of the column.
    pub(super) fn below(&self, value: f64, round: impl Fn(f64) -> f64) -> f64 {
        let number = (value / self.edge(1.0)).floor();
        // If edges are closer than floats, each float is an edge.
        if !value.is_finite() || number.abs() >= CLOSEST {
            return value;
        }
        let at = |number: f64| round(self.edge(number));
        // The division was rounded, so the result may be off by one.
        let found = if at(number + 1.0) <= value {
            at(number + 1.0)
        } else if at(number) <= value {
            at(number)
        } else {
            at(number - 1.0)
        };
        if found.is_finite() { found } else { value }
    }
}

pub(super) fn beginning(period: Period, value: i128) -> i128 {
    match period {
        Period::Units { length, offset } => (value - offset).div_euclid(length) * length + offset,
        Period::Months { months, day } => {
            let (year, month) = month_of(value.div_euclid(day) as i64);
            let since = i128::from(year) * 12 + i128::from(month - 1);
            let first = since.div_euclid(months) * months;
            i128::from(days_since_epoch(first.div_euclid(12) as i64, first.rem_euclid(12) as i64 + 1, 1)) * day
        }
    }
}
