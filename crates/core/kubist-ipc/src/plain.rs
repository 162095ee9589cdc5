//! Which types are decoded: those whose values stand beside each other, and whose parameters
//! make sense. On others the decoder may panic.

use arrow_schema::{
    DECIMAL32_MAX_PRECISION, DECIMAL64_MAX_PRECISION, DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType,
};

/// Is it a type whose bytes the decoder either decodes or refuses, whatever they are?
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
