//! The default of an added column as an array with one row. It must be exact, because a rounded value would appear in
//! every old row; only a float may be rounded to the column's precision.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, FixedSizeBinaryArray, Float64Array, Int64Array, StringArray,
    UInt64Array, new_null_array,
};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, TimeUnit};

use kubist_types::options::Value;

/// # Errors
///
/// The message says why the type cannot represent the value.
pub fn one_value(value: &Value, data_type: &DataType) -> Result<ArrayRef, String> {
    use DataType::*;
    let no = || Err(format!("that is not a value of the type {data_type}"));
    let is_time = |data_type: &DataType| matches!(data_type, Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(_, _));
    let source: ArrayRef = match value {
        Value::Null => return Ok(new_null_array(data_type, 1)),
        Value::Bool(value) if *data_type == Boolean => Arc::new(BooleanArray::from(vec![*value])),
        Value::Float(value) if data_type.is_floating() => Arc::new(Float64Array::from(vec![*value])),
        Value::Float(value) if data_type.is_decimal() => Arc::new(StringArray::from(vec![value.to_string()])),
        Value::Float(value) if data_type.is_integer() && value.fract() == 0.0 && value.abs() < 1e19 => {
            return one_value(&Value::Int(*value as i128), data_type);
        }
        Value::Int(value) if data_type.is_decimal() => Arc::new(StringArray::from(vec![value.to_string()])),
        Value::Int(value) if data_type.is_numeric() || is_time(data_type) || matches!(data_type, Duration(_)) => {
            match (i64::try_from(*value), u64::try_from(*value)) {
                (Ok(value), _) => Arc::new(Int64Array::from(vec![value])),
                (_, Ok(value)) => Arc::new(UInt64Array::from(vec![value])),
                _ => return no(),
            }
        }
        Value::Text(text) if matches!(data_type, Utf8 | LargeUtf8 | Interval(_)) || is_time(data_type) => {
            Arc::new(StringArray::from(vec![text.as_str()]))
        }
        Value::Text(text) if data_type.is_decimal() => Arc::new(StringArray::from(vec![text.as_str()])),
        Value::Binary(bytes) => match data_type {
            Binary | LargeBinary => Arc::new(BinaryArray::from(vec![bytes.as_slice()])),
            FixedSizeBinary(length) if bytes.len() == *length as usize => Arc::new(
                FixedSizeBinaryArray::try_from_iter(std::iter::once(bytes)).map_err(|error| error.to_string())?,
            ),
            _ => return no(),
        },
        _ => return no(),
    };
    // Types of days and seconds of a day are narrower than the source integer.
    let narrow = matches!(data_type, Date32 | Time32(_)) && source.data_type().is_integer();
    let source = if narrow { strictly(&source, &Int32)? } else { source };
    let array = strictly(&source, data_type)?;
    let overflows = match value {
        Value::Float(value) => {
            value.is_finite()
                && strictly(&array, &Float64)?
                    .as_any()
                    .downcast_ref::<Float64Array>()
                    .is_some_and(|back| !back.value(0).is_finite())
        }
        _ => false,
    };
    if overflows || array.is_null(0) || is_rounded(value, &source, &array) { no() } else { Ok(array) }
}

/// Compares in a type wide enough for both values.
fn is_rounded(value: &Value, source: &ArrayRef, array: &ArrayRef) -> bool {
    use DataType::*;
    let wide = match (value, array.data_type()) {
        (_, Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) | Decimal256(_, scale)) => {
            Decimal256(76, (*scale).clamp(0, 40) + 30)
        }
        (Value::Int(_), float) if float.is_floating() => Int64,
        (Value::Text(_), Timestamp(_, zone)) => Timestamp(TimeUnit::Nanosecond, zone.clone()),
        (Value::Text(_), Date32 | Date64) => Timestamp(TimeUnit::Nanosecond, None),
        (Value::Text(_), Time32(_) | Time64(_)) => Time64(TimeUnit::Nanosecond),
        _ => return false,
    };
    // A value beyond the wide type is outside any reasonable range.
    match (strictly(source, &wide), strictly(array, &wide)) {
        (Ok(given), Ok(kept)) => given.to_data() != kept.to_data(),
        _ => false,
    }
}

fn strictly(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef, String> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(array, data_type, &options).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_taken_and_what_does_not_is_refused() {
        use DataType::*;
        let text = |text: &str| Value::Text(text.into());
        let micro = Timestamp(TimeUnit::Microsecond, None);
        for (value, data_type, shown) in [
            (Value::Int(-3), Int8, "-3"),
            (Value::Int(u64::MAX.into()), UInt64, "18446744073709551615"),
            (Value::Float(2.0), Int16, "2"),
            (Value::Float(0.1), Float32, "0.1"),
            (Value::Float(f64::INFINITY), Float32, "inf"),
            (Value::Int(3), Float16, "3"),
            (Value::Bool(true), Boolean, "true"),
            (text("x"), LargeUtf8, "x"),
            (text("2024-02-03"), Date32, "2024-02-03"),
            (text("2024-02-03T04:05:06"), micro.clone(), "2024-02-03T04:05:06"),
            (Value::Int(1), Date32, "1970-01-02"),
            (text("1.25"), Decimal128(10, 2), "1.25"),
            (Value::Float(0.5), Decimal64(5, 1), "0.5"),
            (Value::Binary(vec![1, 2]), FixedSizeBinary(2), "0102"),
            (Value::Null, Utf8, ""),
        ] {
            let array = one_value(&value, &data_type).unwrap();
            assert_eq!((array.len(), array.data_type()), (1, &data_type));
            assert_eq!(arrow_cast::display::array_value_to_string(&array, 0).unwrap(), shown, "{value:?}");
        }
        for (value, data_type) in [
            (Value::Int(300), UInt8),
            (Value::Int(-1), UInt64),
            (Value::Int(i128::MAX), Int64),
            (Value::Float(0.5), Int32),
            (Value::Float(1e300), Float32),
            (Value::Float(0.5), Utf8),
            (Value::Bool(true), Int8),
            (text("1"), Int8),
            (text("yesterday"), Date32),
            (text("many"), Decimal128(10, 2)),
            (Value::Int(123_456), Decimal32(4, 2)),
            (Value::Binary(vec![1]), FixedSizeBinary(2)),
            (Value::Binary(vec![1]), Utf8),
        ] {
            assert!(one_value(&value, &data_type).is_err(), "{value:?} as {data_type}");
        }
    }

    #[test]
    fn what_would_be_rounded_is_refused() {
        use DataType::*;
        let text = |text: &str| Value::Text(text.into());
        let second = Timestamp(TimeUnit::Second, None);
        for (value, data_type) in [
            (text("1.256"), Decimal128(10, 2)),
            (Value::Float(0.126), Decimal128(10, 2)),
            (text("2020-01-02T03:04:06.9"), second.clone()),
            (text("04:05:06.7"), Time32(TimeUnit::Second)),
            (text("2020-01-02T03:04:06"), Date32),
            (Value::Int((1 << 53) + 1), Float64),
        ] {
            assert!(one_value(&value, &data_type).is_err(), "{value:?} as {data_type}");
        }
        for (value, data_type) in [
            (text("1.25"), Decimal128(10, 2)),
            (Value::Float(0.5), Decimal128(10, 2)),
            (Value::Int(7), Decimal128(10, 2)),
            (text("2020-01-02T03:04:06"), second),
            (text("04:05:06"), Time32(TimeUnit::Second)),
            (text("2020-01-02"), Date32),
            (Value::Int(1 << 53), Float64),
            (Value::Float(0.1), Float32),
        ] {
            assert!(one_value(&value, &data_type).is_ok(), "{value:?} as {data_type}");
        }
    }
}
