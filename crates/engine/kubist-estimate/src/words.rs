//! Text of figures, the same in the command, in Python and on the page.

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef};
use arrow_cast::cast;
use arrow_cast::display::array_value_to_string;
use arrow_schema::{ArrowError, DataType};
use kubist_types::human::{grouped, number, same_decimals};

use crate::own::ExactInterval;

/// Text such as `3.02e-7 ± 0.26e-7 m`; both ends if the interval is asymmetric; the value alone if it is
/// exact.
pub fn in_words(value: Option<f64>, low: f64, high: f64, exact: bool, unit: Option<&str>) -> String {
    let unit = unit.map_or(String::new(), |unit| format!(" {unit}"));
    let Some(value) = value else {
        if exact || (low, high) == (f64::NEG_INFINITY, f64::INFINITY) {
            return "no value: no row that was read has one".into();
        }
        return format!("unknown, {} to {}{unit}", number(low), number(high));
    };
    if exact {
        return format!("{}{unit} exactly", number(value));
    }
    let (below, above) = (value - low, high - value);
    let half = below.max(above);
    if half.is_finite() && (below - above).abs() <= 0.1 * half {
        return match &same_decimals(&[value, half], half)[..] {
            [value, half] if half != "0" => format!("{value} ± {half}{unit}"),
            _ => format!("{}{unit}", number(value)),
        };
    }
    let error = [below, above].into_iter().filter(|error| *error > 0.0).fold(f64::INFINITY, f64::min);
    let texts = same_decimals(&[value, low, high], error);
    format!("{}, {} to {}{unit}", texts[0], texts[1], texts[2])
}

/// For a figure with an exact type: value and ends with all digits.
pub fn texts_in_words([value, low, high]: [Option<&str>; 3], exact: bool, unit: Option<&str>) -> String {
    let unit = unit.map_or(String::new(), |unit| format!(" {unit}"));
    let ends = format!("{} to {}", low.map_or("-inf".into(), grouped), high.map_or("inf".into(), grouped));
    match value {
        None if exact || (low, high) == (None, None) => "no value: no row that was read has one".into(),
        None => format!("unknown, {ends}{unit}"),
        Some(only) if exact => format!("{}{unit} exactly", grouped(only)),
        Some(only) if low == value && high == value => format!("{}{unit}", grouped(only)),
        Some(value) => format!("{}, {ends}{unit}", grouped(value)),
    }
}

/// A bound of a column as text: times as times, other values as numbers.
pub fn bound_in_words(value: f64, data_type: &DataType) -> String {
    use DataType::{Date32, Date64, Time32, Time64, Timestamp};
    let is_time = matches!(data_type, Date32 | Date64 | Timestamp(..) | Time32(_) | Time64(_));
    let text = |own: ExactInterval| own.value.map(|value| own.text(value));
    let time = is_time.then(|| ExactInterval::rounded(data_type, Some(value), value, value)).and_then(text);
    time.unwrap_or_else(|| number(value))
}

/// Text such as `0.5:1 m`, or `below 0.5 m` for an outer bin with an unknown end.
pub fn bin_in_words((low, high): (f64, f64), unit: Option<&str>) -> String {
    let ends = match (low.is_finite(), high.is_finite()) {
        (false, true) => format!("below {}", number(high)),
        (true, false) => format!("from {}", number(low)),
        _ => format!("{}:{}", number(low), number(high)),
    };
    unit.map_or(ends.clone(), |unit| format!("{ends} {unit}"))
}

/// The first `most` values of a column as labels: floats with readable digits, other values in full, `None`
/// for null.
///
/// # Errors
///
/// Arrow cannot format a value.
pub fn values_in_words(column: &ArrayRef, most: usize) -> Result<Vec<Option<String>>, ArrowError> {
    let floats = column.data_type().is_floating().then(|| cast(column, &DataType::Float64)).transpose()?;
    let text = |row| match (column.is_null(row), &floats) {
        (true, _) => Ok(None),
        (false, Some(floats)) => Ok(Some(number(floats.as_primitive::<Float64Type>().value(row)))),
        (false, None) => array_value_to_string(column, row).map(Some),
    };
    (0..column.len().min(most)).map(text).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Float32Array, Int64Array};
    use arrow_schema::TimeUnit;

    use super::*;

    #[test]
    fn bounds_of_times_are_times() {
        let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
        assert_eq!(bound_in_words(1.688_299e15, &micros), "2023-07-02T11:56:40");
        assert_eq!(bound_in_words(19_000.0, &DataType::Date32), "2022-01-08");
        assert_eq!(bound_in_words(1.688_299e15, &DataType::Int64), number(1.688_299e15));
    }

    #[test]
    fn bins_have_ends_and_a_unit() {
        assert_eq!(bin_in_words((0.5, 1.0), Some("m")), "0.5:1 m");
        assert_eq!(bin_in_words((f64::NEG_INFINITY, 2e-5), None), "below 2e-5");
        assert_eq!(bin_in_words((3.0, f64::INFINITY), Some("s")), "from 3 s");
    }

    #[test]
    fn labels_are_whole_or_have_the_digits_that_people_read() {
        let floats: ArrayRef = Arc::new(Float32Array::from(vec![Some(0.1), None, Some(2.0)]));
        assert_eq!(values_in_words(&floats, 9).unwrap(), [Some("0.1".into()), None, Some("2".into())]);
        let whole: ArrayRef = Arc::new(Int64Array::from(vec![1_234_567, 2]));
        assert_eq!(values_in_words(&whole, 1).unwrap(), [Some("1234567".to_string())]);
    }

    #[test]
    fn figures_read_well() {
        let infinity = f64::INFINITY;
        for (value, low, high, exact, unit, words) in [
            (Some(12.34567), 12.3, 12.39134, false, None, "12.346 ± 0.046"),
            (Some(3.0213e-7), 2.757e-7, 3.2853e-7, false, Some("m"), "3.02e-7 ± 0.26e-7 m"),
            (Some(1234567.0), 1230000.0, 1239134.0, false, None, "1,234,600 ± 4,600"),
            (Some(3.0), 3.0, 3.0, true, Some("kg"), "3 kg exactly"),
            (Some(20_000_123.0), 20_000_123.0, 20_000_123.0, true, None, "20,000,123 exactly"),
            (Some(3.5), 3.5, 3.5, false, Some("s"), "3.5 s"),
            (Some(0.0), 0.0, 36.0, false, None, "0, 0 to 36"),
            (Some(0.5), 0.25, 0.9, false, Some("m"), "0.50, 0.25 to 0.90 m"),
            (Some(7.25), 7.0, infinity, false, None, "7.25, 7.00 to inf"),
            (None, -infinity, 2.5, false, Some("m/s"), "unknown, -inf to 2.5 m/s"),
        ] {
            assert_eq!(in_words(value, low, high, exact, unit), words);
        }
        let far = "1152921504606847975";
        for (texts, exact, words) in [
            ([Some(far); 3], true, "1,152,921,504,606,847,975 s exactly"),
            ([Some("2021-03-07"), None, Some("2021-03-09")], false, "2021-03-07, -inf to 2021-03-09 s"),
            ([Some("-1234.50"); 3], false, "-1,234.50 s"),
            ([None, Some("1"), None], false, "unknown, 1 to inf s"),
        ] {
            assert_eq!(texts_in_words(texts, exact, Some("s")), words);
        }
    }
}
