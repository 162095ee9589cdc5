//! Units of columns, of computed values, and of numbers in expressions.
//!
//! A unit is a product of powers, and units multiply and divide together with their columns. A number with a
//! unit, such as `20um`, is converted to the unit of the other operand by an exact decimal factor.

mod conversion;
mod convert;
mod known;

use crate::error::{ExprError, shortened};
use crate::number::{Decimal, Number};
pub use conversion::Conversion;
use convert::{Converted, convert, plain};
pub use known::{has_direction, seconds, unit_notes};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

const MOST_CONVERSIONS: usize = 128;
const MOST_FACTORS: usize = 8;
/// Denominator of powers, so that halves, thirds and quarters are exact.
const PARTS: i32 = 12;
const MOST_PARTS: i32 = 24 * PARTS;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Quantity {
    pub number: Decimal,
    pub unit: Arc<str>,
}

impl Quantity {
    /// Parses a number with a unit: `20um`, `-1.5 m/s`.
    pub fn parse(text: &str) -> Option<Quantity> {
        let text = text.trim();
        let (negative, size) = match text.strip_prefix('-') {
            Some(size) => (true, size),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        // The longest prefix that is a number: in `2eV` it is `2`.
        let ends = size.char_indices().map(|(at, _)| at).take(64);
        let (number, unit) = ends.filter_map(|at| Some((Decimal::parse(&size[..at])?, size[at..].trim()))).last()?;
        let begins = unit.chars().next().is_some_and(|first| first.is_alphabetic() || "°%µ".contains(first));
        let number = if negative { number.negated() } else { number };
        begins.then(|| Quantity { number, unit: unit.into() })
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.number.as_f64();
        match value == 0.0 || (1e-4..1e15).contains(&value.abs()) {
            true => write!(f, "{value} {}", shortened(&self.unit)),
            false => write!(f, "{} {}", self.number, shortened(&self.unit)),
        }
    }
}

/// Converts a difference, such as `0.1 mas` or `2 degC`, to `unit`; a scale's zero is not subtracted. `None` if the
/// text is no number with a unit. `subject` names the owner of `unit` in errors.
pub(crate) fn distance_in(text: &str, unit: &str, subject: &str, role: Role) -> Result<Option<f64>, ExprError> {
    let Some(quantity) = Quantity::parse(text) else { return Ok(None) };
    Ok(Some(Unit::new(unit, &Arc::default()).distance(&quantity, subject, role)?.as_f64()))
}

/// Converts an error, such as `0.1 mas`, to `unit`, the unit of `subject`; `None` if the text is no number with
/// a unit.
///
/// # Errors
///
/// [`ExprError::Type`] if the units are of different kinds, or one is unknown.
pub fn error_in(text: &str, unit: &str, subject: &str) -> Result<Option<f64>, ExprError> {
    distance_in(text, unit, subject, Role::Error)
}

#[derive(Debug, Default)]
pub(crate) struct Units {
    known: Mutex<UnitCache>,
}

#[derive(Debug, Default)]
struct UnitCache {
    relations: HashMap<(String, String), Relation>,
    on_scales: HashMap<(String, String, String), Number>,
}

#[derive(Clone, Debug)]
enum Relation {
    Factor(Converted),
    Scale,
    OtherKind,
    UnknownFrom,
    UnknownTo,
}

impl Units {
    fn relation(&self, from: &str, to: &str) -> Result<Relation, ExprError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let pair = (from.to_owned(), to.to_owned());
        if let Some(relation) = known.relations.get(&pair) {
            return Ok(relation.clone());
        }
        known.bounded()?;
        let relation = match (convert("0", from, to), convert("1", from, to)) {
            (Some(zero), Some(one)) if zero.number.is_zero() => Relation::Factor(one),
            (Some(_), Some(_)) => Relation::Scale,
            _ if convert("1", from, from).is_none() => Relation::UnknownFrom,
            _ if convert("1", to, to).is_none() => Relation::UnknownTo,
            _ => Relation::OtherKind,
        };
        Ok(known.relations.entry(pair).or_insert(relation).clone())
    }

    /// Converts a number to another scale; `None` if that is not possible.
    fn on_scale(&self, number: &Decimal, from: &str, to: &str) -> Result<Option<Number>, ExprError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = (number.to_string(), from.to_owned(), to.to_owned());
        if let Some(number) = known.on_scales.get(&asked) {
            return Ok(Some(number.clone()));
        }
        known.bounded()?;
        let Some(found) = convert(&asked.0, from, to) else { return Ok(None) };
        Ok(Some(known.on_scales.entry(asked).or_insert(Number::Finite(found.number)).clone()))
    }
}

impl UnitCache {
    fn bounded(&self) -> Result<(), ExprError> {
        match self.relations.len() + self.on_scales.len() < MOST_CONVERSIONS {
            true => Ok(()),
            false => Err(ExprError::TooLarge { limit: format!("{MOST_CONVERSIONS} conversions of units") }),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Unit {
    /// The name to display.
    pub name: Arc<str>,
    /// Units and their nonzero powers in [`PARTS`], each once.
    factors: Vec<(Arc<str>, i32)>,
    /// The name in the syntax of fend-core; `None` if it knows no such unit.
    asked: Option<String>,
    /// A plain number is a factor of the values, as in `x * 1e6`, so it is uncertain whether the unit or the
    /// quantity changed.
    pub scaled: bool,
    units: Arc<Units>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Role {
    Compared,
    /// The quantity is added to the value, or is another branch of the same choice.
    Added,
    Width,
    Error,
}

impl Role {
    fn refused(self, quantity: &Quantity) -> String {
        match self {
            Role::Compared => format!("cannot be compared with {quantity}"),
            Role::Added => format!("{quantity} cannot be added to it"),
            Role::Width => format!("{quantity} is no width of it"),
            Role::Error => format!("{quantity} is no error of it"),
        }
    }
}

enum Met {
    Number(Number),
    /// Between scales with different zeros, named in the syntax of fend-core.
    Scales {
        from: String,
        to: String,
    },
}

pub(crate) enum Change {
    None,
    Times(Decimal),
    /// Divides by this integer.
    Over(Decimal),
    Unknown,
}

impl Unit {
    pub fn new(name: &str, units: &Arc<Units>) -> Unit {
        let name = name.trim();
        let factors = factors(name).unwrap_or_else(|| vec![(name.into(), PARTS)]);
        Unit { name: name.into(), factors, asked: plain(name), scaled: false, units: units.clone() }
    }

    /// The unit of values that are multiplied by a plain number.
    pub fn times_a_number(&self) -> Unit {
        Unit { scaled: true, ..self.clone() }
    }

    /// Converts a quantity to a number in this unit; errors name `subject`.
    pub fn number(&self, quantity: &Quantity, subject: &str) -> Result<Number, ExprError> {
        match self.met(quantity, subject, Role::Compared)? {
            Met::Number(number) => Ok(number),
            Met::Scales { from, to } => {
                let found = self.units.on_scale(&quantity.number, &from, &to)?;
                found.ok_or_else(|| self.other_kind(quantity, subject, Role::Compared))
            }
        }
    }

    /// The same for a difference: a scale's zero is not subtracted.
    pub fn distance(&self, quantity: &Quantity, subject: &str, role: Role) -> Result<Number, ExprError> {
        match self.met(quantity, subject, role)? {
            Met::Number(number) => Ok(number),
            Met::Scales { .. } => Err(ExprError::type_mistake(format!(
                "{subject} is in {}, and {quantity} is on a scale with another zero: write a plain number",
                self.name
            ))),
        }
    }

    fn met(&self, quantity: &Quantity, subject: &str, role: Role) -> Result<Met, ExprError> {
        if quantity.unit == self.name {
            return Ok(Met::Number(Number::Finite(quantity.number.clone())));
        }
        let mistake = |why: String| ExprError::type_mistake(format!("{subject} is in {}, {why}", self.name));
        let unknown_from =
            || mistake(format!("and the unit `{}` of {quantity} is not known", shortened(&quantity.unit)));
        let unknown_to =
            || mistake(format!("a unit that is not known: {quantity} cannot be converted; write a plain number"));
        let from = plain(&quantity.unit).ok_or_else(unknown_from)?;
        let to = self.asked.clone().ok_or_else(unknown_to)?;
        match self.units.relation(&from, &to)? {
            Relation::Factor(factor) => Ok(Met::Number(factor.of(&quantity.number))),
            Relation::Scale => Ok(Met::Scales { from, to }),
            Relation::OtherKind => Err(self.other_kind(quantity, subject, role)),
            Relation::UnknownFrom => Err(unknown_from()),
            Relation::UnknownTo => Err(unknown_to()),
        }
    }

    fn other_kind(&self, quantity: &Quantity, subject: &str, role: Role) -> ExprError {
        ExprError::type_mistake(format!(
            "{subject} is in {}, and {}: {} is of another kind",
            self.name,
            role.refused(quantity),
            quantity.unit
        ))
    }

    /// The conversion from another unit; an error if its kind differs. `subjects` name the owners of both
    /// units.
    pub fn change_from(&self, other: &Unit, subjects: [&str; 2]) -> Result<Change, ExprError> {
        if self.is(other) {
            return Ok(Change::None);
        }
        let (Some(from), Some(to)) = (&other.asked, &self.asked) else { return Ok(Change::Unknown) };
        let [mine, of_other] = subjects;
        let refused = |why: &str| {
            Err(ExprError::type_mistake(format!("{mine} is in {}, and {of_other} in {}: {why}", self.name, other.name)))
        };
        match self.units.relation(from, to)? {
            Relation::Factor(factor) => Ok(Change::by(factor.number)),
            Relation::Scale => refused("these scales begin at different zeros"),
            Relation::OtherKind => refused("these are of different kinds"),
            Relation::UnknownFrom | Relation::UnknownTo => Ok(Change::Unknown),
        }
    }

    pub fn checked(self, quantity: &Quantity) -> Result<Unit, ExprError> {
        let known = match &self.asked {
            Some(name) => !matches!(self.units.relation(name, name)?, Relation::UnknownFrom),
            None => false,
        };
        match known {
            true => Ok(self),
            false => {
                let unit = shortened(&quantity.unit);
                Err(ExprError::type_mistake(format!("the unit `{unit}` of {quantity} is not known")))
            }
        }
    }

    /// The factor from another unit; `None` unless both units have the same kind and zero.
    pub fn factor_from(&self, other: &Unit) -> Result<Option<Change>, ExprError> {
        if self.is(other) {
            return Ok(Some(Change::None));
        }
        let (Some(from), Some(to)) = (&other.asked, &self.asked) else { return Ok(None) };
        Ok(match self.units.relation(from, to)? {
            Relation::Factor(factor) => Some(Change::by(factor.number)),
            _ => None,
        })
    }

    fn is(&self, other: &Unit) -> bool {
        self.factors.len() == other.factors.len() && self.factors.iter().all(|factor| other.factors.contains(factor))
    }

    /// Multiplies (`power` 1) or divides (-1); `None` if all factors cancel, or if there are too many.
    pub fn times(&self, other: &Unit, power: i32) -> Option<Unit> {
        let mut factors = self.factors.clone();
        for (name, parts) in &other.factors {
            match factors.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) => *known += power * parts,
                None => factors.push((name.clone(), power * parts)),
            }
        }
        let found = self.of(factors)?;
        Some(Unit { scaled: self.scaled || other.scaled, ..found })
    }

    /// Raises to a power; `None` if units cannot have this power.
    pub fn to_the(&self, power: f64) -> Option<Unit> {
        let parts = |parts: &i32| {
            let raised = f64::from(*parts) * power;
            let whole = raised.round();
            ((raised - whole).abs() < 1e-9 && whole.abs() <= f64::from(MOST_PARTS)).then_some(whole as i32)
        };
        let factors = self.factors.iter().map(|(name, of)| Some((name.clone(), parts(of)?)));
        self.of(factors.collect::<Option<_>>()?)
    }

    fn of(&self, mut factors: Vec<(Arc<str>, i32)>) -> Option<Unit> {
        factors.retain(|(_, parts)| *parts != 0);
        let bounded = factors.len() <= MOST_FACTORS && factors.iter().all(|(_, parts)| parts.abs() <= MOST_PARTS);
        if !bounded || factors.is_empty() {
            return None;
        }
        let asked = |(name, parts): &(Arc<str>, i32)| Some(format!("({})^{}", plain(name)?, exponent(*parts)));
        let asked = factors.iter().map(asked).collect::<Option<Vec<_>>>();
        let asked = asked.map(|factors| format!("({})", factors.join(" * ")));
        Some(Unit { name: written(&factors).into(), factors, asked, scaled: self.scaled, units: self.units.clone() })
    }
}

impl Change {
    /// Divides by the inverse if that is an exact integer.
    fn by(factor: Decimal) -> Change {
        let inverse = (1.0 / factor.as_f64()).round();
        let whole = Decimal::from_integer(inverse as i128);
        let one = Decimal::from_integer(1);
        if factor.compare(&one).is_eq() {
            Change::None
        } else if (2.0..1e15).contains(&inverse) && whole.times(&factor).compare(&one).is_eq() {
            Change::Over(whole)
        } else {
            Change::Times(factor)
        }
    }
}

fn factors(name: &str) -> Option<Vec<(Arc<str>, i32)>> {
    let unit = plain(name)?;
    let (above, below) = unit.split_once('/').unwrap_or((&unit, ""));
    let words = |part: &'_ str| part.split([' ', '*']).filter(|word| !word.is_empty()).count();
    if below.contains('/') || words(below) > 1 {
        return None;
    }
    let above = above.split([' ', '*']).filter(|word| !word.is_empty()).map(|word| (word, 1));
    let below = Some(below.trim()).filter(|below| !below.is_empty()).map(|word| (word, -1));
    let mut found: Vec<(Arc<str>, i32)> = Vec::new();
    for (word, sign) in above.chain(below) {
        let (base, power) = match word.split_once('^') {
            Some((base, power)) => (base, power.parse::<i32>().ok()?),
            None => (word, 1),
        };
        match found.iter_mut().find(|(known, _)| **known == *base) {
            Some((_, parts)) => *parts += sign * power * PARTS,
            None => found.push((base.into(), sign * power * PARTS)),
        }
    }
    found.retain(|(_, parts)| *parts != 0);
    (!found.is_empty() && found.len() <= MOST_FACTORS).then_some(found)
}

/// Formats a unit: `kg m/s^2`.
fn written(factors: &[(Arc<str>, i32)]) -> String {
    let below: Vec<_> = factors.iter().filter(|(_, parts)| *parts < 0).collect();
    let divides = below.len() == 1 && factors.len() > 1;
    let above = factors.iter().filter(|(_, parts)| *parts > 0 || !divides);
    let above: Vec<String> = above.map(|(name, parts)| power(name, *parts)).collect();
    match below[..] {
        [(name, parts)] if divides => format!("{}/{}", above.join(" "), power(name, -parts)),
        _ => above.join(" "),
    }
}

fn power(name: &str, parts: i32) -> String {
    let name = match name.chars().all(char::is_alphabetic) {
        true => name.to_owned(),
        false => format!("({name})"),
    };
    if parts == PARTS { name } else { format!("{name}^{}", exponent(parts)) }
}

/// Formats a power: `2`, `-1`, `(1/2)`.
fn exponent(parts: i32) -> String {
    let common = (1..=PARTS).rev().find(|by| parts % by == 0 && PARTS % by == 0).unwrap_or(1);
    match PARTS / common {
        1 => (parts / PARTS).to_string(),
        below => format!("({}/{below})", parts / common),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(name: &str) -> Unit {
        Unit::new(name, &Arc::default())
    }

    fn number(text: &str, of: &str) -> Result<String, String> {
        let quantity = Quantity::parse(text).ok_or("no quantity")?;
        unit(of).number(&quantity, "column `x`").map(|number| number.to_string()).map_err(|error| error.to_string())
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
            ("1 \u{212B}", "nm", "1e-1"),
            ("20 °C", "K", "29315e-2"),
            ("20 degC", "K", "29315e-2"),
            ("2eV", "eV", "2"),
            ("3 min", "s", "180"),
            ("7 mag", "mag", "7"),
            ("30 deg", "degrees_north", "30"),
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
    fn units_multiply_as_numbers_do() {
        let metre = unit("m");
        let speed = metre.times(&unit("s"), -1).unwrap();
        assert_eq!(&*speed.name, "m/s");
        assert!(speed.is(&unit("m/s")) && speed.is(&unit("s^-1 m")));
        assert_eq!(&*speed.to_the(2.0).unwrap().to_the(0.5).unwrap().name, "m/s");
        assert_eq!(&*speed.times(&unit("s"), 1).unwrap().name, "m");
        assert!(metre.times(&metre, -1).is_none());
        assert_eq!(&*metre.to_the(0.5).unwrap().name, "m^(1/2)");
        assert_eq!(&*unit("kg").times(&metre.to_the(3.0).unwrap(), -1).unwrap().name, "kg/m^3");
        let area = metre.times(&unit("cm"), 1).unwrap();
        let number = |text: &str| area.number(&Quantity::parse(text).unwrap(), "it").map(|number| number.to_string());
        assert_eq!(number("3 m^2").unwrap(), "300");
        assert!(number("3 m").is_err());
        let root = metre.to_the(0.5).unwrap();
        assert!(root.times(&root, 1).unwrap().is(&metre));
    }

    #[test]
    fn units_change_by_whole_numbers_where_there_are() {
        let change = |to: &str, from: &str| unit(to).change_from(&unit(from), ["a", "b"]);
        assert!(matches!(change("m", "m"), Ok(Change::None)));
        assert!(matches!(change("m", "cm"), Ok(Change::Over(by)) if by.to_string() == "100"));
        assert!(matches!(change("cm", "m"), Ok(Change::Times(by)) if by.to_string() == "100"));
        assert!(matches!(change("N", "kg m/s^2"), Ok(Change::None)));
        assert!(matches!(change("mag", "m"), Ok(Change::Unknown)));
        let refused = |to, from| change(to, from).map(|_| ()).unwrap_err().to_string();
        assert!(refused("m", "s").contains("a is in m, and b in s: these are of different kinds"));
        assert!(refused("K", "°C").contains("different zeros"));
    }

    #[test]
    fn an_expression_meets_a_bounded_number_of_units() {
        let kelvin = unit("K");
        let of = |degrees: usize| kelvin.number(&Quantity::parse(&format!("{degrees} °C")).unwrap(), "x");
        assert!((1..MOST_CONVERSIONS).all(|degrees| of(degrees).is_ok()));
        assert!(of(1).is_ok() && matches!(of(MOST_CONVERSIONS), Err(ExprError::TooLarge { .. })));
    }
}
