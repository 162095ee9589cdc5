//! Conversion of stored values to another unit. A float is multiplied by a factor of twice its precision, or divided by
//! an integer, and rounded once. An integer is converted exactly or not at all.

use std::sync::Arc;

use super::convert::{Converted, convert};
use super::{Relation, Unit};
use crate::error::shortened;
use crate::number::{Decimal, Floor, Number};

/// Integer divisors up to this size are exact as a float.
const MOST_DIVISOR: f64 = 1e15;

/// `(value - zero) * factor` converts a value.
#[derive(Clone, Debug)]
pub struct Conversion {
    /// The zero of the new scale, in the old unit.
    zero: Decimal,
    factor: Factor,
}

#[derive(Clone, Debug)]
enum Factor {
    /// Multiplies by this number, also stored as a sum of two floats; `exact` is false if it was rounded.
    Times { number: Decimal, exact: bool, high: f64, low: f64 },
    /// Divides by this integer.
    Over(Decimal),
}

impl Conversion {
    /// The conversion from `from` to `to`; `None` if the numbers are the same.
    ///
    /// ```
    /// # use kubist_expr::Conversion;
    /// let conversion = Conversion::between("rad", "deg").unwrap().unwrap();
    /// assert_eq!(conversion.of_float(std::f64::consts::PI), 180.0);
    /// assert!(Conversion::between("deg", "degrees_north").unwrap().is_none());
    /// assert_eq!(Conversion::between("deg", "m").unwrap_err(), "these are of different kinds");
    /// ```
    ///
    /// # Errors
    ///
    /// The message says why there is no conversion.
    pub fn between(from: &str, to: &str) -> Result<Option<Conversion>, String> {
        let (from, to) = (Unit::new(from, &Arc::default()), Unit::new(to, &Arc::default()));
        if from.name == to.name || from.is(&to) {
            return Ok(None);
        }
        let unknown = |unit: &Unit| format!("the unit `{}` is not known", shortened(&unit.name));
        let source = from.asked.as_ref().ok_or_else(|| unknown(&from))?;
        let target = to.asked.as_ref().ok_or_else(|| unknown(&to))?;
        let backwards = || -> Option<(Converted, Converted)> {
            Some((convert("0", target, source)?, convert("1", target, source)?))
        };
        let (factor, zero) = match to.units.relation(source, target).map_err(|error| error.to_string())? {
            Relation::Factor(factor) => (Some(factor), Some(Decimal::from_integer(0))),
            Relation::Scale => {
                let scale = || convert("1", source, target)?.minus(&convert("0", source, target)?);
                (scale(), backwards().map(|(zero, _)| zero.number))
            }
            Relation::OtherKind => return Err("these are of different kinds".into()),
            Relation::UnknownFrom => return Err(unknown(&from)),
            Relation::UnknownTo => return Err(unknown(&to)),
        };
        let inverse = backwards().and_then(|(zero, one)| one.minus(&zero));
        let (Some(factor), Some(zero)) = (factor, zero) else {
            return Err("there is no such conversion".into());
        };
        let same = Decimal::from_integer(1);
        if zero.is_zero() && factor.exact && factor.number.compare(&same).is_eq() {
            return Ok(None);
        }
        Ok(Some(Conversion { zero, factor: Factor::of(factor, inverse) }))
    }

    pub fn keeps_zero(&self) -> bool {
        self.zero.is_zero()
    }

    /// The nearest float; NaN stays NaN.
    pub fn of_float(&self, value: f64) -> f64 {
        let value = if self.keeps_zero() { value } else { value - self.zero.as_f64() };
        match &self.factor {
            Factor::Over(divisor) => value / divisor.as_f64(),
            Factor::Times { high, low, .. } => {
                let product = value * high;
                // Zeros keep their sign.
                match product.is_finite() && product != 0.0 {
                    true => product + (value.mul_add(*high, -product) + value * low),
                    false => product,
                }
            }
        }
    }

    /// Converts an integer exactly; `None` if the result is not an integer.
    pub fn of_integer(&self, value: i128) -> Option<i128> {
        self.whole(Decimal::from_integer(value))
    }

    /// Converts a float exactly, taken as its shortest decimal text; `None` if the result is not an integer.
    pub fn integer_of_float(&self, value: f64) -> Option<i128> {
        match Number::from_f64(value) {
            Number::Finite(value) => self.whole(value),
            _ => None,
        }
    }

    fn whole(&self, value: Decimal) -> Option<i128> {
        let value = if self.keeps_zero() { value } else { value.plus(&self.zero.clone().negated())? };
        if value.is_zero() {
            return Some(0);
        }
        match &self.factor {
            Factor::Times { exact: false, .. } => None,
            Factor::Times { number, .. } => whole(&value.times(number)),
            Factor::Over(divisor) => {
                let (value, divisor) = (whole(&value)?, whole(divisor)?);
                (value % divisor == 0).then_some(value / divisor)
            }
        }
    }
}

impl Factor {
    fn of(factor: Converted, inverse: Option<Converted>) -> Factor {
        let divisor = |inverse: &Converted| {
            inverse.exact && whole(&inverse.number).is_some() && (2.0..=MOST_DIVISOR).contains(&inverse.number.as_f64())
        };
        if let Some(inverse) = inverse.filter(divisor) {
            return Factor::Over(inverse.number);
        }
        let high = factor.number.as_f64();
        let rest = Decimal::parse(&format!("{:.55e}", high.abs()))
            .map(|near| if high < 0.0 { near } else { near.negated() })
            .and_then(|near| factor.number.plus(&near));
        let low = rest.map_or(0.0, |rest| rest.as_f64());
        Factor::Times { number: factor.number, exact: factor.exact, high, low }
    }
}

fn whole(number: &Decimal) -> Option<i128> {
    match number.floor(0) {
        Floor::At { floor, exact: true } => floor.to_i128(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conversion(from: &str, to: &str) -> Conversion {
        Conversion::between(from, to).unwrap().unwrap()
    }

    #[test]
    fn floats_are_the_nearest_to_the_same_amount() {
        for (value, from, to, expected) in [
            (std::f64::consts::PI, "rad", "deg", 180.0),
            (180.0, "deg", "rad", std::f64::consts::PI),
            (0.1, "m", "mm", 100.0),
            (100.0, "mm", "m", 0.1),
            (20.0, "degree_Celsius", "K", 293.15),
            (293.15, "K", "degC", 20.0),
            (212.0, "degF", "degC", 100.0),
            (1.0, "arcsec", "deg", 1.0 / 3600.0),
            (1.0, "km s-1", "m/s", 1000.0),
            (7.0, "mas.yr**-1", "mas/yr", 7.0),
            (36.0, "km/h", "m/s", 10.0),
            (2.0, "yr", "d", 730.5),
            (1461.0, "mas.yr-1", "mas/d", 4.0),
            (3.0, "m year^-2", "m/yr^2", 3.0),
            (3.0, "cm^2", "m2", 3e-4),
            (-0.0, "m", "mm", -0.0),
            (f64::INFINITY, "rad", "deg", f64::INFINITY),
        ] {
            let found = match Conversion::between(from, to).unwrap() {
                Some(conversion) => conversion.of_float(value),
                None => value,
            };
            assert_eq!(found.to_bits(), expected.to_bits(), "{value} {from} in {to}: {found}");
        }
        assert!(conversion("rad", "deg").of_float(f64::NAN).is_nan());
    }

    #[test]
    fn integers_are_the_same_amount_or_none() {
        for (value, from, to, expected) in [
            (3, "m", "mm", Some(3000)),
            (3000, "mm", "m", Some(3)),
            (3001, "mm", "m", None),
            (7200, "arcsec", "deg", Some(2)),
            (7201, "arcsec", "deg", None),
            (5, "inch", "mm", Some(127)),
            (1, "inch", "mm", None),
            (1, "rad", "deg", None),
            (0, "rad", "deg", Some(0)),
            (20, "degC", "K", None),
            (i128::from(i64::MAX), "m", "km", None),
        ] {
            let found = Conversion::between(from, to).unwrap().map_or(Some(value), |change| change.of_integer(value));
            assert_eq!(found, expected, "{value} {from} in {to}");
        }
    }

    #[test]
    fn units_that_do_not_convert_say_why() {
        for (from, to, why) in [
            ("m", "s", "these are of different kinds"),
            ("foo", "m", "the unit `foo` is not known"),
            ("m", "mag", "the unit `mag` is not known"),
            ("1e-22 m kg s^-1", "kg", "is not known"),
        ] {
            assert!(Conversion::between(from, to).unwrap_err().contains(why), "{from} in {to}");
        }
        for (from, to) in [("mag", "mag"), ("N", "kg m s-2"), ("1e-22 m", "1e-22 m"), ("deg", "degree")] {
            assert!(Conversion::between(from, to).unwrap().is_none(), "{from} in {to}");
        }
    }
}
