//! Columns of a table that are too narrow for the values of a file.
//!
//! The table refuses numbers that it cannot represent. Floating-point numbers are rounded, and the report names their
//! columns. Dates are refused, because they would lose digits: 2460000.123 would become 2460000.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef};
use arrow_cast::{CastOptions, cast_with_options, display::array_value_to_string};
use arrow_schema::{DataType, Field};
use kubist_files::fit;

use crate::error::{Error, Result};

/// Larger numbers of days and seconds are dates, not durations.
const LATE: f64 = 10_000.0;
/// The smallest 16-bit float that keeps all digits.
const SMALLEST_HALF: f64 = 6.103_515_625e-5;
const UNITS: [&str; 3] = ["d", "day", "s"];

fn name_of(data_type: &DataType) -> String {
    data_type.to_string().to_lowercase()
}

/// Checks integers before they go into a narrower column of the table; the first row has the number `first`.
///
/// # Errors
///
/// An integer does not fit.
pub fn check_integers(given: &ArrayRef, column: &Field, first: u64) -> Result<()> {
    let (from, to) = (given.data_type(), column.data_type());
    if from == to || !from.is_integer() || !to.is_integer() {
        return Ok(());
    }
    let options = CastOptions { safe: true, ..CastOptions::default() };
    let fitted = cast_with_options(given, to, &options).map_err(Error::invalid)?;
    let Some(row) = (0..given.len()).find(|row| given.is_valid(*row) && fitted.is_null(*row)) else {
        return Ok(());
    };
    let value = array_value_to_string(given, row).unwrap_or_default();
    let holds_all =
        |wide: &DataType| wide.is_signed_integer() || (from.is_unsigned_integer() && to.is_unsigned_integer());
    let is_mixed_64 = from.is_signed_integer() != to.is_signed_integer()
        && [from, to].iter().any(|kind| kind.is_unsigned_integer() && kind.primitive_width() == Some(8));
    let way = match fit::wider(from, to, false).filter(|wide| holds_all(wide) && !is_mixed_64) {
        Some(wide) => {
            format!("a copy of the table takes it (kubist copy --types {}={}), or ", column.name(), name_of(&wide))
        }
        None => String::new(),
    };
    Err(Error::invalid(format!(
        "column {name}, row {}: {value} does not fit into {}, the type of the table: {way}a new table of all files, or \
         one with read option types={name}={}",
        first + row as u64,
        name_of(to),
        name_of(from),
        name = column.name(),
    )))
}

/// Returns floats with the digits that the table keeps. `None` if it keeps all digits, or if it refuses a number
/// because it would become infinite or is so small that it would lose digits.
pub fn rounded(given: &ArrayRef, column: &Field) -> Option<ArrayRef> {
    let smallest = match column.data_type() {
        DataType::Float32 => f64::from(f32::MIN_POSITIVE),
        DataType::Float16 => SMALLEST_HALF,
        _ => return None,
    };
    let values = given.as_primitive_opt::<Float64Type>()?;
    let kept = arrow_cast::cast(given, column.data_type()).ok()?;
    let back = arrow_cast::cast(&kept, &DataType::Float64).ok()?;
    let mut is_rounded = false;
    for (value, kept) in values.iter().zip(back.as_primitive::<Float64Type>()) {
        let Some(value) = value else { continue };
        // A failed cast gives null.
        let kept = kept.unwrap_or(f64::INFINITY);
        if is_lost(value, kept) {
            if kept.is_infinite() || kept.abs() < smallest {
                return None;
            }
            is_rounded = true;
        }
    }
    is_rounded.then_some(kept)
}

/// Checks floats before they go into a narrower column of the table; the first row has the number `first`.
///
/// # Errors
///
/// A number would become infinite, or so small that it loses digits.
pub fn check_floats(given: &ArrayRef, column: &Field, first: u64) -> Result<()> {
    if *given.data_type() != DataType::Float64 || *column.data_type() != DataType::Float32 {
        return Ok(());
    }
    let values = given.as_primitive::<Float64Type>();
    let has_no_place = |value: f64| {
        let kept = f64::from(value as f32);
        is_lost(value, kept) && (kept.is_infinite() || kept.abs() < f64::from(f32::MIN_POSITIVE))
    };
    let Some(row) = (0..values.len()).find(|row| values.is_valid(*row) && has_no_place(values.value(*row))) else {
        return Ok(());
    };
    let (name, value) = (column.name(), values.value(row));
    Err(Error::invalid(format!(
        "column {name}, row {}: {value:?} has no place in float32, the type of the table: a copy of the table takes it \
         (kubist copy --types {name}=float64), or a new table with read option types={name}=float64",
        first + row as u64,
    )))
}

fn is_lost(value: f64, rounded: f64) -> bool {
    !value.is_nan() && value != rounded
}

/// Checks dates; the first row has the number `first`. Readers of text check their own values.
///
/// # Errors
///
/// A date would lose digits.
pub fn check_dates(given: &ArrayRef, column: &Field, unit: Option<&str>, first: u64) -> Result<()> {
    if *column.data_type() != DataType::Float32 || *given.data_type() != DataType::Float64 {
        return Ok(());
    }
    if !UNITS.contains(&unit.unwrap_or("").trim()) && !is_date(column.name()) {
        return Ok(());
    }
    let values = given.as_primitive::<Float64Type>();
    let lost = |value: f64| value.abs() >= LATE && is_lost(value, f64::from(value as f32));
    let Some(row) = (0..values.len()).find(|row| values.is_valid(*row) && lost(values.value(*row))) else {
        return Ok(());
    };
    let value = values.value(row);
    let kept = arrow_array::PrimitiveArray::<Float32Type>::from_value(value as f32, 1);
    Err(Error::invalid(format!(
        "column {}, row {}: {value} is a date, of which 32 bits keep {}: give the column the type float64",
        column.name(),
        first + row as u64,
        array_value_to_string(&kept, 0).unwrap_or_default(),
    )))
}

/// Whether a name means a date: `time`, `date...`, or a Julian date such as `BJD` or `t_mjd`.
fn is_date(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_julian = |word: &str| {
        let before = word.strip_suffix("jd");
        before.is_some_and(|before| matches!(before, "" | "m" | "b" | "h" | "t" | "bt"))
    };
    name == "time" || name.starts_with("date") || name.split('_').any(is_julian)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Float64Array, Int64Array, UInt64Array};

    use super::*;

    #[test]
    fn an_integer_that_does_not_fit_is_named() {
        let column = Field::new("id", DataType::UInt8, true);
        let told = |given: ArrayRef| check_integers(&given, &column, 10).unwrap_err().to_string();
        assert!(check_integers(&(Arc::new(Int64Array::from(vec![0, 255])) as ArrayRef), &column, 0).is_ok());
        let text = told(Arc::new(Int64Array::from(vec![Some(1), None, Some(-1)])));
        assert!(text.starts_with("column id, row 12: -1 does not fit into uint8"), "{text}");
        assert!(text.contains("kubist copy --types id=int64"), "{text}");
        let text = told(Arc::new(UInt64Array::from(vec![256])));
        assert!(text.contains("kubist copy --types id=uint64"), "{text}");
        let column = Field::new("id", DataType::Int64, true);
        let given: ArrayRef = Arc::new(UInt64Array::from(vec![u64::MAX]));
        let text = check_integers(&given, &column, 0).unwrap_err().to_string();
        assert!(!text.contains("kubist copy"), "no integer type has both: {text}");
    }

    #[test]
    fn dates_keep_their_digits() {
        let given: ArrayRef = Arc::new(Float64Array::from(vec![f64::NAN, 2_460_000.0, 2_460_000.123]));
        for (name, unit, is_refused) in [
            ("BJD", None, true),
            ("t_mjd", None, true),
            ("x", Some("d"), true),
            ("x", Some("m"), false),
            ("jdx", None, false),
        ] {
            let column = Field::new(name, DataType::Float32, true);
            assert_eq!(check_dates(&given, &column, unit, 0).is_err(), is_refused, "{name}");
        }
        let column = Field::new("x", DataType::Float32, true);
        assert_eq!(rounded(&given, &column).map(|kept| kept.data_type().clone()), Some(DataType::Float32));
        assert!(rounded(&given, &Field::new("x", DataType::Float64, true)).is_none());
        for refused in [1e60, 1e-41] {
            let given: ArrayRef = Arc::new(Float64Array::from(vec![0.1, refused]));
            assert!(rounded(&given, &column).is_none(), "{refused}");
        }
        let given: ArrayRef = Arc::new(Float64Array::from(vec![Some(0.1), None, Some(f64::INFINITY), Some(1e60)]));
        let text = check_floats(&given, &column, 10).unwrap_err().to_string();
        assert!(text.starts_with("column x, row 13: 1e60 has no place in float32"), "{text}");
        assert!(check_floats(&given.slice(0, 3), &column, 0).is_ok());
        let exact: ArrayRef = Arc::new(Float64Array::from(vec![f64::NAN, 0.5]));
        assert!(rounded(&exact, &Field::new("x", DataType::Float16, true)).is_none());
    }
}
