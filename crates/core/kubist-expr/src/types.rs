//! Type names for `CAST`: the names of Arrow and NumPy, and SQL names with the same meaning.

use arrow_schema::{DataType, TimeUnit};

pub(crate) const HUGE: DataType = DataType::Decimal128(38, 0);

pub(crate) const LISTED: &str = "tinyint, int16, int32, int64, uint8, uint16, uint32, uint64, int128, \
                                 float32, float64, boolean, date, timestamp";

pub(crate) enum Unknown {
    Type,
    /// The type is not supported; use this one instead.
    But(&'static str),
}

pub(crate) fn named(name: &str) -> Result<DataType, Unknown> {
    let timestamp = |unit: TimeUnit| Ok(DataType::Timestamp(unit, None));
    match name {
        "tinyint" | "int1" => Ok(DataType::Int8),
        "smallint" | "int16" | "int2" => Ok(DataType::Int16),
        "integer" | "int" | "int32" | "int4" => Ok(DataType::Int32),
        "bigint" | "int64" | "long" => Ok(DataType::Int64),
        "utinyint" | "uint8" => Ok(DataType::UInt8),
        "usmallint" | "uint16" => Ok(DataType::UInt16),
        "uinteger" | "uint32" => Ok(DataType::UInt32),
        "ubigint" | "uint64" => Ok(DataType::UInt64),
        "hugeint" | "int128" => Ok(HUGE),
        "float32" | "real" | "float4" => Ok(DataType::Float32),
        "float64" | "double" | "float8" => Ok(DataType::Float64),
        "boolean" | "bool" => Ok(DataType::Boolean),
        "date" | "date32" => Ok(DataType::Date32),
        "timestamp_s" => timestamp(TimeUnit::Second),
        "timestamp_ms" => timestamp(TimeUnit::Millisecond),
        "timestamp" | "datetime" | "timestamp_us" => timestamp(TimeUnit::Microsecond),
        "timestamp_ns" => timestamp(TimeUnit::Nanosecond),
        "timestamptz" => Ok(DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))),
        "int8" => Err(Unknown::But("it has 8 bits to NumPy and 8 bytes to SQL: write tinyint or int64")),
        "float" => Err(Unknown::But("it has 32 bits to SQL and 64 to NumPy: write float32 or float64")),
        "decimal" | "numeric" | "decimal128" | "decimal256" => {
            Err(Unknown::But("computed numbers are integers or floats: write int128 or float64"))
        }
        "text" | "varchar" | "string" | "char" | "utf8" | "blob" | "binary" => {
            Err(Unknown::But("nothing becomes text or bytes in an expression"))
        }
        "time" | "interval" | "uuid" | "json" => Err(Unknown::But("casts go to numbers, dates and timestamps")),
        _ => Err(Unknown::Type),
    }
}
