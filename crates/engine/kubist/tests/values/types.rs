//! The types of columns.

use arrow_schema::{DataType, IntervalUnit, TimeUnit};

/// Every column type of format 1; types with parameters once or twice.
pub fn all_types() -> Vec<DataType> {
    use DataType::*;
    vec![
        Boolean,
        Int8,
        Int16,
        Int32,
        Int64,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
        Float16,
        Float32,
        Float64,
        Date32,
        Date64,
        Time32(TimeUnit::Second),
        Time32(TimeUnit::Millisecond),
        Time64(TimeUnit::Microsecond),
        Time64(TimeUnit::Nanosecond),
        Timestamp(TimeUnit::Second, None),
        Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
        Duration(TimeUnit::Millisecond),
        Interval(IntervalUnit::YearMonth),
        Interval(IntervalUnit::DayTime),
        Interval(IntervalUnit::MonthDayNano),
        Decimal32(7, 2),
        Decimal64(12, 3),
        Decimal128(30, 4),
        Decimal256(50, 2),
        Utf8,
        LargeUtf8,
        Utf8View,
        Binary,
        LargeBinary,
        BinaryView,
        FixedSizeBinary(3),
        Dictionary(Box::new(Int32), Box::new(Utf8)),
        Dictionary(Box::new(Int32), Box::new(Int16)),
    ]
}
