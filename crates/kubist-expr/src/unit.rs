//! Numbers with units: `20um` becomes a number in the unit of the column that it meets.
//!
//! What units there are, and what they are to each other, fend-core knows; it is asked here and
//! nowhere else. It is a calculator, so only what looks like units is handed to it, and its work
//! is bounded. Factors are exact, or of 40 digits where they have no end; a number is multiplied
//! by them in decimal digits, so that `20um` is the very number 0.00002 in metres.

use crate::error::{ExprError, shortened};
use crate::number::{Decimal, Number};
use fend_core::{Context, CustomUnitAttribute, Interrupt, evaluate_with_interrupt};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Characters of a unit.
const LONGEST: usize = 40;
/// Conversions into the unit of one column that are worked out for one expression.
const MOST_CONVERSIONS: usize = 64;
/// Digits of a number that a factor without end has made.
const SURE_DIGITS: usize = 36;
/// Steps of one conversion; those that people write take some hundred.
const MOST_STEPS: u64 = 20_000;
/// Units that are written in other ways too: what fend-core does not know.
const ALSO: &[(&str, &str)] =
    &[("angstrom", "0.1 nm"), ("Angstrom", "0.1 nm"), ("Å", "0.1 nm"), ("Ω", "ohm"), ("dimensionless", "1")];

/// A number with a unit, as it is written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Quantity {
    pub number: Decimal,
    pub unit: Arc<str>,
}

impl Quantity {
    /// What begins with a number, and ends with a unit: `20um`, `-1.5 m/s`.
    pub fn parse(text: &str) -> Option<Quantity> {
        let text = text.trim();
        let (negative, size) = match text.strip_prefix('-') {
            Some(size) => (true, size),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        // The longest beginning that is a number: in `2eV` that is the 2.
        let ends = size.char_indices().map(|(at, _)| at).take(64);
        let (number, unit) = ends.filter_map(|at| Some((Decimal::parse(&size[..at])?, size[at..].trim()))).last()?;
        let begins = unit.chars().next().is_some_and(|first| first.is_alphabetic() || "°%µ".contains(first));
        let number = if negative { number.negated() } else { number };
        begins.then(|| Quantity { number, unit: unit.into() })
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.number, shortened(&self.unit))
    }
}

/// The unit of a column, and what other units are in it, each asked once.
#[derive(Debug)]
pub(crate) struct Unit {
    name: Arc<str>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// What one of a unit is; nothing for a scale that begins at another zero.
    factors: HashMap<Arc<str>, Option<Converted>>,
    /// Numbers of such scales: of temperature.
    on_scales: HashMap<(Arc<str>, String), Number>,
}

impl Unit {
    pub fn new(name: &str) -> Unit {
        Unit { name: name.trim().into(), known: Mutex::default() }
    }

    /// A quantity that is compared with `column`, as a number in the column's unit.
    pub fn number(&self, quantity: &Quantity, column: &str) -> Result<Number, ExprError> {
        if quantity.unit == self.name {
            return Ok(Number::Finite(quantity.number.clone()));
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Some(factor)) = known.factors.get(&quantity.unit) {
            return Ok(factor.of(&quantity.number));
        }
        let on_scale = (quantity.unit.clone(), quantity.number.to_string());
        if let Some(number) = known.on_scales.get(&on_scale) {
            return Ok(number.clone());
        }
        if known.factors.len() + known.on_scales.len() >= MOST_CONVERSIONS {
            return Err(ExprError::TooLarge { limit: format!("{MOST_CONVERSIONS} units for one column") });
        }
        let mistake = |why: String| ExprError::type_mistake(format!("column `{column}` is in {}, {why}", self.name));
        let other_kind =
            || mistake(format!("and cannot be compared with {quantity}: {} is of another kind", quantity.unit));
        if known.factors.contains_key(&quantity.unit) {
            let found = convert(&on_scale.1, &quantity.unit, &self.name).ok_or_else(other_kind)?;
            return Ok(known.on_scales.entry(on_scale).or_insert(Number::Finite(found.number)).clone());
        }
        if convert("1", &quantity.unit, &quantity.unit).is_none() {
            let unit = shortened(&quantity.unit);
            return Err(mistake(format!("and the unit `{unit}` of {quantity} is not known")));
        }
        if convert("1", &self.name, &self.name).is_none() {
            let why = format!("a unit that is not known: {quantity} cannot be converted; write a plain number");
            return Err(mistake(why));
        }
        let [zero, one] = ["0", "1"].map(|number| convert(number, &quantity.unit, &self.name));
        let (zero, one) = (zero.ok_or_else(other_kind)?, one.ok_or_else(other_kind)?);
        if zero.number.is_zero() {
            let number = one.of(&quantity.number);
            known.factors.insert(quantity.unit.clone(), Some(one));
            return Ok(number);
        }
        known.factors.insert(quantity.unit.clone(), None);
        let found = convert(&on_scale.1, &quantity.unit, &self.name).ok_or_else(other_kind)?;
        Ok(known.on_scales.entry(on_scale).or_insert(Number::Finite(found.number)).clone())
    }
}

/// Stops a calculation that takes too long.
#[derive(Default)]
struct Steps(AtomicU64);

impl Interrupt for Steps {
    fn should_interrupt(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed) >= MOST_STEPS
    }
}

/// A number in another unit.
#[derive(Clone, Debug)]
struct Converted {
    number: Decimal,
    /// Or cut after 40 digits.
    exact: bool,
}

impl Converted {
    /// So many times this number.
    fn of(&self, times: &Decimal) -> Number {
        let product = times.times(&self.number);
        Number::Finite(if self.exact { product } else { product.rounded(SURE_DIGITS) })
    }
}

/// So many of one unit in another; `None` if there is no such number.
fn convert(number: &str, from: &str, to: &str) -> Option<Converted> {
    let (from, to) = (plain(from)?, plain(to)?);
    let mut context = Context::new();
    for (name, definition) in ALSO {
        context.define_custom_unit_v1(name, name, definition, &CustomUnitAttribute::AllowShortPrefix);
    }
    let asked = format!("({number} {from}) to {to} to 40 sf");
    let answer = evaluate_with_interrupt(&asked, &mut context, &Steps::default()).ok()?;
    let answer = answer.get_main_result();
    let (digits, exact) = match answer.strip_prefix("approx. ") {
        Some(digits) => (digits, false),
        None => (answer, true),
    };
    let digits = digits.split_whitespace().next()?.trim_end_matches(['%', '°']);
    let number = match digits.strip_prefix('-') {
        Some(size) => Decimal::parse(size)?.negated(),
        None => Decimal::parse(digits)?,
    };
    Some(Converted { number, exact })
}

/// A unit as fend-core reads it; `None` if it is more than units with small powers.
fn plain(unit: &str) -> Option<String> {
    let unit = unit.trim().replace('²', "^2").replace('³', "^3").replace(['·', '⋅'], " ").replace('μ', "µ");
    let unit = unit.replace("degC", "celsius").replace("degF", "fahrenheit").replace("**", "^");
    let letter = |letter: char| letter.is_alphabetic() || "°%µ_".contains(letter);
    let first = unit.chars().next()?;
    let mut digits = 0;
    for character in unit.chars() {
        digits = if character.is_ascii_digit() { digits + 1 } else { 0 };
        if digits > 2 || !(letter(character) || character.is_ascii_digit() || " /*^-".contains(character)) {
            return None;
        }
    }
    // A number of its own would make it a calculation.
    let is_factor = |word: &str| word.chars().next().is_some_and(letter);
    let words = unit.split([' ', '/', '*']).filter(|word| !word.is_empty());
    let sound = words.clone().all(|word| is_factor(word) && word.matches('^').count() <= 1);
    let known = !words.into_iter().any(|word| ["to", "as", "in", "of", "mod", "per"].contains(&word));
    (sound && known && (letter(first)) && unit.chars().count() <= LONGEST).then_some(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str, unit: &str) -> Result<String, String> {
        let quantity = Quantity::parse(text).ok_or("no quantity")?;
        Unit::new(unit).number(&quantity, "x").map(|number| number.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn quantities_become_exact_numbers() {
        for (text, unit, expected) in [
            ("20um", "m", "2e-5"),
            ("20 µm", "m", "2e-5"),
            ("1.5e-3 km", "m", "15e-1"),
            ("-3 cm", "mm", "-30"),
            ("36 km/h", "m/s", "10"),
            ("1 g/cm^3", "kg m^-3", "1000"),
            ("2 m²", "cm^2", "20000"),
            ("5 angstrom", "nm", "5e-1"),
            ("1 Å", "m", "1e-10"),
            ("20 °C", "K", "29315e-2"),
            ("20 degC", "K", "29315e-2"),
            ("2eV", "eV", "2"),
            ("3 min", "s", "180"),
            ("7 mag", "mag", "7"),
        ] {
            assert_eq!(number(text, unit).as_deref(), Ok(expected), "{text} in {unit}");
        }
        let degree: f64 = number("1 deg", "rad").unwrap().parse().unwrap();
        assert_eq!(degree, 1f64.to_radians());
    }

    #[test]
    fn what_is_of_another_kind_or_unknown_is_refused() {
        assert!(number("20 s", "m").unwrap_err().contains("is in m, and cannot be compared with 20 s"));
        assert!(number("20 foo", "m").unwrap_err().contains("the unit `foo` of 20 foo is not known"));
        assert!(number("20 um", "mag").unwrap_err().contains("a unit that is not known"));
        for text in ["9^9^9^9 m", "5 m^999999", "5 m to s", "5 pi*9^9", "1 2", "m", ""] {
            assert!(number(text, "m").is_err(), "{text}");
        }
    }

    #[test]
    fn a_column_meets_a_bounded_number_of_units() {
        let unit = Unit::new("m");
        let of = |text: &str| unit.number(&Quantity::parse(text).unwrap(), "x");
        for power in 1..=MOST_CONVERSIONS {
            assert!(of(&format!("1 m^{} / m^{}", power + 1, power)).is_ok(), "{power}");
        }
        assert!(of("1 m^9 / m^8").is_ok());
        assert!(matches!(of("1 km"), Err(ExprError::TooLarge { .. })));
        let kelvin = Unit::new("K");
        let of = |degrees: usize| kelvin.number(&Quantity::parse(&format!("{degrees} °C")).unwrap(), "x");
        assert!((1..MOST_CONVERSIONS).all(|degrees| of(degrees).is_ok()));
        assert!(of(1).is_ok() && matches!(of(MOST_CONVERSIONS), Err(ExprError::TooLarge { .. })));
    }
}
