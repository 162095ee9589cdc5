//! The column types that are decoded: not nested, with valid parameters. The decoder may panic on others.

use arrow_schema::{
    DECIMAL32_MAX_PRECISION, DECIMAL64_MAX_PRECISION, DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType,
};

/// Whether the decoder decodes or refuses any bytes of this type, without a panic.
pub fn is_plain(data_type: &DataType) -> bool {
    let is_decimal = |precision: u8, scale: i8, most: u8| (1..=most).contains(&precision) && scale <= precision as i8;
    match data_type {
        DataType::FixedSizeBinary(width) => *width >= 0,
        DataType::Decimal32(precision, scale) => is_decimal(*precision, *scale, DECIMAL32_MAX_PRECISION),
        DataType::Decimal64(precision, scale) => is_decimal(*precision, *scale, DECIMAL64_MAX_PRECISION),
        DataType::Decimal128(precision, scale) => is_decimal(*precision, *scale, DECIMAL128_MAX_PRECISION),
        DataType::Decimal256(precision, scale) => is_decimal(*precision, *scale, DECIMAL256_MAX_PRECISION),
        DataType::Dictionary(_, values) => !matches!(**values, DataType::Dictionary(..)) && is_plain(values),
        DataType::RunEndEncoded(..) => false,
        other => !other.is_nested(),
    }
}
