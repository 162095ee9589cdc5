//! Order keys: a monotone map from the values of a column type to `u64` (FORMAT.md, Order keys). With them, one
//! implementation of zone maps, page encodings and grids serves every type.
//!
//! *Exact* keys are injective and order preserving (floats in IEEE order, -0.0 directly below 0.0, NaN outside
//! the infinities). Other keys may be equal for different values, which costs pruning, never rows.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrowPrimitiveType, downcast_dictionary_array};
use arrow_schema::{DataType, TimeUnit};
use half::f16;

pub trait Keyed: Copy {
    /// `a < b` if and only if `a.key() < b.key()` (floats in the total order of IEEE 754-2008 5.10).
    fn key(self) -> u64;
    /// The value with this key; undefined for keys without a value.
    fn from_key(key: u64) -> Self;
    /// The bits of the value, zero-extended.
    fn bits(self) -> u64;
    /// The value rounded to `f64`, which is monotone.
    fn number(self) -> f64;
}

macro_rules! keyed_signed {
    ($($signed:ty, $unsigned:ty);*) => {$(
        impl Keyed for $signed {
            #[inline(always)]
            fn key(self) -> u64 {
                ((self as $unsigned) ^ (1 << (<$unsigned>::BITS - 1))) as u64
            }
            #[inline(always)]
            fn from_key(key: u64) -> Self {
                ((key as $unsigned) ^ (1 << (<$unsigned>::BITS - 1))) as $signed
            }
            #[inline(always)]
            fn bits(self) -> u64 {
                (self as $unsigned) as u64
            }
            #[inline(always)]
            fn number(self) -> f64 {
                self as f64
            }
        }
    )*};
}
keyed_signed!(i8, u8; i16, u16; i32, u32; i64, u64);

macro_rules! keyed_unsigned {
    ($($unsigned:ty),*) => {$(
        impl Keyed for $unsigned {
            #[inline(always)]
            fn key(self) -> u64 {
                self as u64
            }
            #[inline(always)]
            fn from_key(key: u64) -> Self {
                key as $unsigned
            }
            #[inline(always)]
            fn bits(self) -> u64 {
                self as u64
            }
            #[inline(always)]
            fn number(self) -> f64 {
                self as f64
            }
        }
    )*};
}
keyed_unsigned!(u8, u16, u32, u64);

macro_rules! keyed_float {
    ($($float:ty, $bits:ty, $signed:ty);*) => {$(
        impl Keyed for $float {
            #[inline(always)]
            fn key(self) -> u64 {
                let bits = self.to_bits();
                // Negative values have all bits flipped, others only the sign bit.
                let flip = ((bits as $signed) >> (<$bits>::BITS - 1)) as $bits;
                (bits ^ (flip | (1 << (<$bits>::BITS - 1)))) as u64
            }
            #[inline(always)]
            fn from_key(key: u64) -> Self {
                let key = key as $bits;
                let flip = (!key as $signed >> (<$bits>::BITS - 1)) as $bits;
                <$float>::from_bits(key ^ (flip | (1 << (<$bits>::BITS - 1))))
            }
            #[inline(always)]
            fn bits(self) -> u64 {
                self.to_bits() as u64
            }
            #[inline(always)]
            fn number(self) -> f64 {
                f64::from(self)
            }
        }
    )*};
}
keyed_float!(f16, u16, i16; f32, u32, i32; f64, u64, i64);

/// A byte string's order key: its first eight bytes, big endian, padded with zeros. Monotone, not injective.
#[inline]
pub fn bytes_key(bytes: &[u8]) -> u64 {
    let mut head = [0u8; 8];
    let length = bytes.len().min(8);
    head[..length].copy_from_slice(&bytes[..length]);
    u64::from_be_bytes(head)
}

fn primitive_keys<T: ArrowPrimitiveType>(array: &dyn Array) -> Vec<u64>
where
    T::Native: Keyed,
{
    array.as_primitive::<T>().values().iter().map(|value| value.key()).collect()
}

/// Runs `$body` with `$T` bound to the Arrow primitive type of a column with exact keys, or `$otherwise` for
/// every other type (booleans included).
#[macro_export]
macro_rules! with_exact_primitive {
    ($data_type:expr, $T:ident => $body:expr, _ => $otherwise:expr) => {{
        use arrow_array::types::*;
        use arrow_schema::{DataType, IntervalUnit, TimeUnit};
        match $data_type {
            DataType::Int8 => {
                type $T = Int8Type;
                $body
            }
            DataType::Int16 => {
                type $T = Int16Type;
                $body
            }
            DataType::Int32 => {
                type $T = Int32Type;
                $body
            }
            DataType::Int64 => {
                type $T = Int64Type;
                $body
            }
            DataType::UInt8 => {
                type $T = UInt8Type;
                $body
            }
            DataType::UInt16 => {
                type $T = UInt16Type;
                $body
            }
            DataType::UInt32 => {
                type $T = UInt32Type;
                $body
            }
            DataType::UInt64 => {
                type $T = UInt64Type;
                $body
            }
            DataType::Float16 => {
                type $T = Float16Type;
                $body
            }
            DataType::Float32 => {
                type $T = Float32Type;
                $body
            }
            DataType::Float64 => {
                type $T = Float64Type;
                $body
            }
            DataType::Date32 => {
                type $T = Date32Type;
                $body
            }
            DataType::Date64 => {
                type $T = Date64Type;
                $body
            }
            DataType::Time32(TimeUnit::Second) => {
                type $T = Time32SecondType;
                $body
            }
            DataType::Time32(TimeUnit::Millisecond) => {
                type $T = Time32MillisecondType;
                $body
            }
            DataType::Time64(TimeUnit::Microsecond) => {
                type $T = Time64MicrosecondType;
                $body
            }
            DataType::Time64(TimeUnit::Nanosecond) => {
                type $T = Time64NanosecondType;
                $body
            }
            DataType::Timestamp(TimeUnit::Second, _) => {
                type $T = TimestampSecondType;
                $body
            }
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                type $T = TimestampMillisecondType;
                $body
            }
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                type $T = TimestampMicrosecondType;
                $body
            }
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                type $T = TimestampNanosecondType;
                $body
            }
            DataType::Duration(TimeUnit::Second) => {
                type $T = DurationSecondType;
                $body
            }
            DataType::Duration(TimeUnit::Millisecond) => {
                type $T = DurationMillisecondType;
                $body
            }
            DataType::Duration(TimeUnit::Microsecond) => {
                type $T = DurationMicrosecondType;
                $body
            }
            DataType::Duration(TimeUnit::Nanosecond) => {
                type $T = DurationNanosecondType;
                $body
            }
            DataType::Interval(IntervalUnit::YearMonth) => {
                type $T = IntervalYearMonthType;
                $body
            }
            DataType::Decimal32(_, _) => {
                type $T = Decimal32Type;
                $body
            }
            DataType::Decimal64(_, _) => {
                type $T = Decimal64Type;
                $body
            }
            _ => $otherwise,
        }
    }};
}

/// The order key of each row, undefined for nulls. `None` if the type has no order (nested types, two-part
/// intervals).
pub fn keys(array: &dyn Array) -> Option<Vec<u64>> {
    with_exact_primitive!(array.data_type(), T => return Some(primitive_keys::<T>(array)), _ => {});
    Some(match array.data_type() {
        DataType::Boolean => array.as_boolean().values().iter().map(u64::from).collect(),
        DataType::Decimal128(_, _) => {
            let clamp = |value: &i128| (*value).clamp(i64::MIN.into(), i64::MAX.into()) as i64;
            array.as_primitive::<Decimal128Type>().values().iter().map(|v| clamp(v).key()).collect()
        }
        DataType::Decimal256(_, _) => {
            let values = array.as_primitive::<Decimal256Type>().values();
            values
                .iter()
                .map(|value| match value.to_i128() {
                    Some(small) => (small.clamp(i64::MIN.into(), i64::MAX.into()) as i64).key(),
                    None if value.is_negative() => i64::MIN.key(),
                    None => i64::MAX.key(),
                })
                .collect()
        }
        DataType::Utf8 => array.as_string::<i32>().iter().map(text_key).collect(),
        DataType::LargeUtf8 => array.as_string::<i64>().iter().map(text_key).collect(),
        DataType::Utf8View => array.as_string_view().iter().map(text_key).collect(),
        DataType::Binary => array.as_binary::<i32>().iter().map(binary_key).collect(),
        DataType::LargeBinary => array.as_binary::<i64>().iter().map(binary_key).collect(),
        DataType::BinaryView => array.as_binary_view().iter().map(binary_key).collect(),
        DataType::FixedSizeBinary(_) => array.as_fixed_size_binary().iter().map(binary_key).collect(),
        DataType::Dictionary(_, _) => return dictionary_keys(array),
        _ => return None,
    })
}

fn text_key(value: Option<&str>) -> u64 {
    bytes_key(value.unwrap_or_default().as_bytes())
}

fn binary_key(value: Option<&[u8]>) -> u64 {
    bytes_key(value.unwrap_or_default())
}

fn dictionary_keys(array: &dyn Array) -> Option<Vec<u64>> {
    downcast_dictionary_array!(
        array => {
            let values = keys(array.values().as_ref())?;
            Some(array.keys_iter().map(|index| index.map_or(0, |i| values[i])).collect())
        }
        _ => None
    )
}

pub fn is_exact(data_type: &DataType) -> bool {
    match data_type {
        DataType::Boolean => true,
        DataType::Dictionary(_, values) => is_exact(values),
        other => with_exact_primitive!(other, T => { let _: Option<T> = None; true }, _ => false),
    }
}

/// The lowest and highest key that are not NaN.
pub fn number_keys(data_type: &DataType) -> (u64, u64) {
    match data_type {
        DataType::Float16 => (f16::NEG_INFINITY.key(), f16::INFINITY.key()),
        DataType::Float32 => (f32::NEG_INFINITY.key(), f32::INFINITY.key()),
        DataType::Float64 => (f64::NEG_INFINITY.key(), f64::INFINITY.key()),
        DataType::Dictionary(_, values) => number_keys(values),
        _ => (0, u64::MAX),
    }
}

/// The keys of -0.0 and 0.0, which are equal numbers.
pub fn zero_keys(data_type: &DataType) -> Option<(u64, u64)> {
    match data_type {
        DataType::Float16 => Some((f16::NEG_ZERO.key(), f16::ZERO.key())),
        DataType::Float32 => Some(((-0.0f32).key(), 0.0f32.key())),
        DataType::Float64 => Some(((-0.0f64).key(), 0.0f64.key())),
        _ => None,
    }
}

/// The number with this key of a fixed-width type, rounded to `f64`; times in the type's unit.
pub fn number(data_type: &DataType, key: u64) -> f64 {
    fn of<T: ArrowPrimitiveType>(key: u64) -> f64
    where
        T::Native: Keyed,
    {
        T::Native::from_key(key).number()
    }
    with_exact_primitive!(data_type, T => of::<T>(key), _ => key as f64)
}

/// The exact integer with this key of integers, dates and times in the type's unit; `None` for other types.
pub fn integer(data_type: &DataType, key: u64) -> Option<i128> {
    fn of<T: ArrowPrimitiveType>(key: u64) -> i128
    where
        T::Native: Keyed,
    {
        let unused = 64 - 8 * size_of::<T::Native>() as u32;
        i128::from((T::Native::from_key(key).bits() << unused) as i64 >> unused)
    }
    use DataType::*;
    match data_type {
        Float16 | Float32 | Float64 => None,
        Boolean | UInt8 | UInt16 | UInt32 | UInt64 => Some(key.into()),
        other => with_exact_primitive!(other, T => Some(of::<T>(key)), _ => None),
    }
}

pub fn is_dimension_type(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(
        data_type,
        Int8 | Int16
            | Int32
            | Int64
            | UInt8
            | UInt16
            | UInt32
            | UInt64
            | Float16
            | Float32
            | Float64
            | Date32
            | Date64
            | Time32(TimeUnit::Second | TimeUnit::Millisecond)
            | Time64(TimeUnit::Microsecond | TimeUnit::Nanosecond)
            | Timestamp(_, _)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{DictionaryArray, Float32Array, StringArray};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn float_keys_keep_total_order(a in any::<u32>(), b in any::<u32>()) {
            let (x, y) = (f32::from_bits(a), f32::from_bits(b));
            prop_assert_eq!(x.key().cmp(&y.key()), x.total_cmp(&y));
            prop_assert_eq!(f32::from_key(x.key()).to_bits(), a);
        }

        #[test]
        fn double_keys_keep_total_order(a in any::<u64>(), b in any::<u64>()) {
            let (x, y) = (f64::from_bits(a), f64::from_bits(b));
            prop_assert_eq!(x.key().cmp(&y.key()), x.total_cmp(&y));
            prop_assert_eq!(f64::from_key(x.key()).to_bits(), a);
        }

        #[test]
        fn integer_keys_keep_order(a in any::<i64>(), b in any::<i64>()) {
            prop_assert_eq!(a.key().cmp(&b.key()), a.cmp(&b));
            prop_assert_eq!(i64::from_key(a.key()), a);
            prop_assert_eq!((a as i8).key().cmp(&(b as i8).key()), (a as i8).cmp(&(b as i8)));
        }

        #[test]
        fn byte_keys_are_monotone(a in any::<Vec<u8>>(), b in any::<Vec<u8>>()) {
            if a <= b {
                prop_assert!(bytes_key(&a) <= bytes_key(&b));
            }
        }
    }

    #[test]
    fn nan_lies_outside_the_number_keys() {
        let (low, high) = number_keys(&DataType::Float32);
        assert!(f32::NAN.key() > high && (-f32::NAN).key() < low);
        assert!(f32::MAX.key() < high && f32::MIN.key() > low);
        assert!((-0.0f32).key() + 1 == 0.0f32.key());
    }

    #[test]
    fn dictionaries_have_the_keys_of_their_values() {
        let values = StringArray::from(vec![Some("b"), None, Some("a"), Some("b")]);
        let dictionary: DictionaryArray<Int8Type> = vec![Some("b"), None, Some("a"), Some("b")].into_iter().collect();
        let (plain, coded) = (keys(&values).unwrap(), keys(&dictionary).unwrap());
        assert_eq!((plain[0], plain[2], plain[3]), (coded[0], coded[2], coded[3]));
        assert_eq!(keys(&Float32Array::from(vec![1.0])).unwrap()[0], 1.0f32.key());
    }
}
