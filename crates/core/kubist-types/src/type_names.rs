//! Names of column types on the command line and in Python.

use arrow_schema::{DataType, TimeUnit};

/// Finds the type by its name in Arrow, NumPy or SQL, in any case.
///
/// # Errors
///
/// The message lists the types if the name is unknown.
pub fn data_type(name: &str) -> Result<DataType, String> {
    let lower = name.trim().to_ascii_lowercase();
    if let Some(found) = lower.strip_suffix(']').and_then(|text| text.split_once('[')).and_then(of_unit) {
        return Ok(found);
    }
    Ok(match lower.as_str() {
        "bool" | "boolean" => DataType::Boolean,
        "int8" => DataType::Int8,
        "int16" => DataType::Int16,
        "int32" => DataType::Int32,
        "int64" => DataType::Int64,
        "uint8" => DataType::UInt8,
        "uint16" => DataType::UInt16,
        "uint32" => DataType::UInt32,
        "uint64" => DataType::UInt64,
        "float16" | "halffloat" => DataType::Float16,
        "float32" | "float" => DataType::Float32,
        "float64" | "double" => DataType::Float64,
        "string" | "text" | "utf8" | "str" => DataType::Utf8,
        "large_string" => DataType::LargeUtf8,
        "binary" => DataType::Binary,
        "large_binary" => DataType::LargeBinary,
        "date" | "date32" => DataType::Date32,
        "date64" => DataType::Date64,
        "timestamp" => DataType::Timestamp(TimeUnit::Microsecond, None),
        _ => {
            return Err(format!(
                "{name:?} is not a type; types are bool, int8 to int64, uint8 to uint64, float16 to float64, string, \
                 binary, date, timestamp[s|ms|us|ns], duration[s|ms|us|ns], time32[s|ms], time64[us|ns]"
            ));
        }
    })
}

/// A name with a unit, such as `timestamp[us]`.
fn of_unit((kind, unit): (&str, &str)) -> Option<DataType> {
    let unit = match unit {
        "s" => TimeUnit::Second,
        "ms" => TimeUnit::Millisecond,
        "us" => TimeUnit::Microsecond,
        "ns" => TimeUnit::Nanosecond,
        _ => return None,
    };
    match (kind, unit) {
        ("timestamp" | "datetime64", _) => Some(DataType::Timestamp(unit, None)),
        ("duration" | "timedelta64", _) => Some(DataType::Duration(unit)),
        ("time32", TimeUnit::Second | TimeUnit::Millisecond) => Some(DataType::Time32(unit)),
        ("time64", TimeUnit::Microsecond | TimeUnit::Nanosecond) => Some(DataType::Time64(unit)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_understood() {
        assert_eq!(data_type("Double"), Ok(DataType::Float64));
        assert_eq!(data_type(" timestamp[ns] "), Ok(DataType::Timestamp(TimeUnit::Nanosecond, None)));
        assert_eq!(data_type("timedelta64[ms]"), Ok(DataType::Duration(TimeUnit::Millisecond)));
        assert_eq!(data_type("time32[s]"), Ok(DataType::Time32(TimeUnit::Second)));
        for name in ["complex64", "time32[ns]", "timestamp[h]", "timestamp[", ""] {
            assert!(
                data_type(name).unwrap_err().starts_with(&format!("{name:?} is not a type; types are bool")),
                "{name}"
            );
        }
    }
}
