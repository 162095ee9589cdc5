//! Known units, suggestions for unknown ones, and kinds of units.

use std::sync::Arc;

use super::convert::{convert, plain};
use super::{PARTS, Quantity, Role, Unit, factors};
use crate::error::{ExprError, shortened};
use crate::near::nearest;

const COMMON: &str = "\
    m cm mm um nm km metre meter metres meters angstrom inch foot mile AU pc kpc Mpc parsec lightyear s ms us ns ps \
    fs second seconds min minute minutes h hour hours day days week month year years kg g mg ug gram kilogram tonne \
    K kelvin celsius degC N newton J joule W watt Pa pascal hPa kPa MPa bar mbar Hz hertz V volt A ampere C coulomb \
    T tesla mol mole litre liter eV keV MeV GeV erg rad radian radians deg degree degrees arcmin arcsec mas";
/// Units that convert to no other unit and are valid on their own.
const THEIR_OWN: &str = "\
    mag mmag dex dB count counts ct cts adu ADU electron electrons photon photons pix pixel pixels px voxel sample \
    frame psu pH Msun Rsun Lsun solMass solRad solLum Jy mJy Sun 1 - % none";

/// Fractions: plain numbers as radians are, but no angles.
const SHARES: [&str; 4] = ["%", "percent", "ppm", "dimensionless"];

/// Notes on columns' units when a table is created or changed: why a unit cannot be converted, and a
/// suggestion. Known units and units such as `mag` have no note.
///
/// ```
/// # use kubist_expr::unit_notes;
/// assert!(unit_notes([("u", "m/s"), ("g", "mag")]).is_empty());
/// let notes = unit_notes([("x", "metre/foo"), ("y", "metr")]);
/// assert!(notes[0].starts_with("column \"x\": the unit `metre/foo` is not known (foo)"));
/// assert!(notes[1].ends_with("; did you mean `meter` or `metre`?"));
/// ```
pub fn unit_notes<'a>(units: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let note = |(column, unit)| Some(format!("column {column:?}: {}", unit_note(unit)?));
    units.into_iter().filter_map(note).collect()
}

fn unit_note(unit: &str) -> Option<String> {
    let is_known = |unit: &str| plain(unit).is_some_and(|asked| convert("1", &asked, &asked).is_some());
    let stands = |word: &str| {
        is_known(word) || THEIR_OWN.split_whitespace().any(|own| own == word) || word.parse::<f64>().is_ok()
    };
    // The calendar times of climate and forecast files: `days since 2000-01-01`.
    let unit = unit.split_once(" since ").map_or(unit, |(unit, _)| unit);
    if is_known(unit) || stands(unit.trim()) {
        return None;
    }
    let unknown = |word: &'_ str| {
        let factor = word.split('^').next().unwrap_or_default();
        let name = factor.trim_end_matches(|last: char| last.is_ascii_digit() || "+-".contains(last));
        (!name.is_empty() && !stands(factor) && !stands(name)).then(|| name.to_owned())
    };
    let words: Vec<String> = unit.split([' ', '*', '/', '·', '⋅', '(', ')', '.']).filter_map(unknown).collect();
    if words.is_empty() {
        // All parts are known, and a product such as `10^3 Msun` is valid on its own.
        return None;
    }
    let near = words.first().map_or(vec![], |word| nearest(word, COMMON.split_whitespace()));
    let near: Vec<String> = near.iter().take(2).map(|near| format!("`{near}`")).collect();
    let meant = if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(" or ")) };
    let part = if words.len() == 1 && words[0] != unit.trim() {
        format!(" ({})", shortened(&words[0]))
    } else {
        String::new()
    };
    Some(format!(
        "the unit `{}` is not known{part}: it is kept as text, and converted to no other one{meant}",
        shortened(unit)
    ))
}

/// Whether values in this unit are lengths, angles or their derivatives, which have a direction.
pub fn has_direction(unit: &str) -> bool {
    let of_space = |name: &str| {
        let asked = plain(name).filter(|name| !SHARES.contains(&name.as_str()));
        asked.is_some_and(|asked| ["m", "rad"].into_iter().any(|space| convert("1", &asked, space).is_some()))
    };
    factors(unit).is_some_and(|factors| factors.iter().any(|(name, parts)| *parts == PARTS && of_space(name)))
}

/// A time in seconds: `0.5`, `2 s`, `500ms`, `1 min`.
///
/// # Errors
///
/// [`ExprError::Type`] if it is neither a number nor a time.
pub fn seconds(text: &str) -> Result<f64, ExprError> {
    if let Ok(number) = text.trim().parse::<f64>() {
        return Ok(number);
    }
    let unit = Unit::new("s", &Arc::default());
    match Quantity::parse(text) {
        Some(quantity) => Ok(unit.distance(&quantity, "a time", Role::Compared)?.as_f64()),
        None => Err(ExprError::type_mistake(format!("{:?} is no time, as 2, '2 s' or '500 ms'", shortened(text)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_that_are_not_known_are_told_with_what_may_be_meant() {
        for unit in [
            "m",
            "km/s",
            "kg m^-3",
            "1e-22 m kg s^-1",
            "mag",
            "mas/yr",
            "count/s",
            "10^3 Msun",
            "deg",
            "%",
            "°C",
            "degrees_north",
            "degree_C",
            "hours since 1970-01-01",
        ] {
            assert_eq!(unit_note(unit), None, "{unit}");
        }
        for (unit, told) in [
            ("foo", "the unit `foo` is not known: it is kept as text"),
            ("metre/foo", "(foo)"),
            ("metr/s", "did you mean `meter` or `metre`?"),
            ("secnd", "did you mean `second` or `seconds`?"),
            ("code_length", "is not known"),
        ] {
            assert!(unit_note(unit).unwrap_or_default().contains(told), "{unit}: {:?}", unit_note(unit));
        }
    }

    #[test]
    fn lengths_angles_and_their_changes_have_a_direction() {
        for unit in ["m", "um", "m/s", "deg", "mas/yr", "kpc"] {
            assert!(has_direction(unit), "{unit}");
        }
        for unit in ["mag", "K", "kg", "s", "kg/m^3", "m^2", "J", "foo", "%"] {
            assert!(!has_direction(unit), "{unit}");
        }
    }

    #[test]
    fn times_have_units() {
        for (text, expected) in [("2", 2.0), ("2s", 2.0), ("500 ms", 0.5), ("1 min", 60.0), ("1e-3", 1e-3)] {
            assert_eq!(seconds(text).unwrap(), expected, "{text}");
        }
        assert!(seconds("2 m").unwrap_err().to_string().contains("of another kind"));
        assert!(seconds("soon").is_err());
    }
}
