//! Conversion factors between units, from fend-core, exact or cut after 40 digits. fend-core is a calculator, so this
//! module passes only text that looks like units, and limits the work.

use crate::number::{Decimal, Number};
use fend_core::{Context, CustomUnitAttribute, Interrupt, evaluate_with_interrupt};
use std::sync::atomic::{AtomicU64, Ordering};

const LONGEST: usize = 40;
/// Reliable digits of a number times a 40-digit factor.
const SURE_DIGITS: usize = 36;
/// Maximum steps of a conversion; common units take some hundred.
const MOST_STEPS: u64 = 20_000;
/// Spellings of units that fend-core does not know.
const ALSO: &[(&str, &str)] = &[
    ("angstrom", "0.1 nm"),
    ("Angstrom", "0.1 nm"),
    ("Å", "0.1 nm"),
    ("Ω", "ohm"),
    ("dimensionless", "1"),
    ("degrees_north", "degree"),
    ("degree_north", "degree"),
    ("degrees_N", "degree"),
    ("degree_N", "degree"),
    ("degrees_east", "degree"),
    ("degree_east", "degree"),
    ("degrees_E", "degree"),
    ("degree_E", "degree"),
];
/// A year is 365.25 days, as in FITS and astronomy; to fend-core it is the tropical year.
const YEARS: [&str; 3] = ["yr", "year", "years"];
const JULIAN_YEAR: &str = "julian_year";
/// Spellings of degrees Celsius and Fahrenheit inside units, longest first.
const DEGREES: &[(&str, &str)] = &[
    ("degrees_Celsius", "celsius"),
    ("degree_Celsius", "celsius"),
    ("degrees_C", "celsius"),
    ("degree_C", "celsius"),
    ("degC", "celsius"),
    ("degrees_F", "fahrenheit"),
    ("degree_F", "fahrenheit"),
    ("degF", "fahrenheit"),
];

#[derive(Default)]
struct Steps(AtomicU64);

impl Interrupt for Steps {
    fn should_interrupt(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed) >= MOST_STEPS
    }
}

#[derive(Clone, Debug)]
pub(super) struct Converted {
    pub number: Decimal,
    /// False if the number was cut after 40 digits.
    pub exact: bool,
}

impl Converted {
    pub(super) fn of(&self, times: &Decimal) -> Number {
        let product = times.times(&self.number);
        Number::Finite(if self.exact { product } else { product.rounded(SURE_DIGITS) })
    }

    /// The difference; `None` if the magnitudes are too different.
    pub(super) fn minus(&self, other: &Converted) -> Option<Converted> {
        let number = self.number.plus(&other.number.clone().negated())?;
        Some(Converted { number, exact: self.exact && other.exact })
    }
}

/// Units are in the syntax of [`plain`]; `None` if there is no conversion.
pub(super) fn convert(number: &str, from: &str, to: &str) -> Option<Converted> {
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

/// The unit in the syntax of fend-core; `None` if it is not a product of units with small powers.
pub(super) fn plain(unit: &str) -> Option<String> {
    let unit = unit
        .trim()
        .replace('²', "^2")
        .replace('³', "^3")
        .replace(['·', '⋅'], " ")
        .replace('μ', "µ")
        .replace('\u{212B}', "Å");
    let named = |unit: String, (name, degrees): &(&str, &str)| unit.replace(name, degrees);
    let unit = DEGREES.iter().fold(unit, named).replace("**", "^");
    // FITS and CF write `mas.yr-1` for `mas yr^-1`.
    let unit = with_powers(&unit.replace('.', " "));
    let letter = |letter: char| letter.is_alphabetic() || "°%µ_".contains(letter);
    let first = unit.chars().next()?;
    let mut digits = 0;
    for character in unit.chars() {
        digits = if character.is_ascii_digit() { digits + 1 } else { 0 };
        if digits > 2 || !(letter(character) || character.is_ascii_digit() || " /*^-".contains(character)) {
            return None;
        }
    }
    // A number in the unit would make it a calculation.
    let is_factor = |word: &str| word.chars().next().is_some_and(letter);
    let words = unit.split([' ', '/', '*']).filter(|word| !word.is_empty());
    let sound = words.clone().all(|word| is_factor(word) && word.matches('^').count() <= 1);
    let known = !words.into_iter().any(|word| ["to", "as", "in", "of", "mod", "per"].contains(&word));
    (sound && known && (letter(first)) && unit.chars().count() <= LONGEST).then_some(unit)
}

/// Adds `^` before a power at the end of a name (`s-1` becomes `s^-1`, `m2` becomes `m^2`), and names the year in full.
fn with_powers(unit: &str) -> String {
    let raised = |word: &str| {
        if let Some((name, power)) = word.split_once('^') {
            let own = if YEARS.contains(&name) { JULIAN_YEAR } else { name };
            return format!("{own}^{power}");
        }
        let name = word.trim_end_matches(|last: char| last.is_ascii_digit());
        let name = name.strip_suffix(['-', '+']).filter(|_| name.len() < word.len()).unwrap_or(name);
        let own = if YEARS.contains(&name) { JULIAN_YEAR } else { name };
        match name.len() < word.len() && name.ends_with(char::is_alphabetic) {
            true => format!("{own}^{}", word[name.len()..].trim_start_matches('+')),
            false => format!("{own}{}", &word[name.len()..]),
        }
    };
    let mut written = String::with_capacity(unit.len() + 4);
    for word in unit.split_inclusive([' ', '/', '*']) {
        let name = word.trim_end_matches([' ', '/', '*']);
        written += &raised(name);
        written += &word[name.len()..];
    }
    written
}
