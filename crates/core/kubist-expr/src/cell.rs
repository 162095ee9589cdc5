//! Native values of fixed-width columns.

use crate::error::ExprError;
use arrow_buffer::i256;
use arrow_schema::DataType;
use half::f16;

pub(crate) trait Cell: Copy + PartialOrd + Send + Sync {
    /// Converts an integer, which must fit.
    fn from_whole(value: i256) -> Self;
    fn from_float(value: f64) -> Self;
    fn as_f64(self) -> f64;
    /// Converts to an integer; `None` if it needs more than 128 bits.
    fn as_i128(self) -> i128;
    /// The difference to a smaller integer, if it fits; otherwise an equal hash for equal values.
    fn above(self, least: Self) -> usize;
}

macro_rules! integer_cells {
    ($($native:ty),*) => {$(
        impl Cell for $native {
            fn from_whole(value: i256) -> Self {
                value.as_i128() as $native
            }
            fn from_float(value: f64) -> Self {
                value as $native
            }
            #[inline(always)]
            fn as_f64(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn as_i128(self) -> i128 {
                self as i128
            }
            #[inline(always)]
            fn above(self, least: Self) -> usize {
                (self as i64).wrapping_sub(least as i64) as usize
            }
        }
    )*};
}
integer_cells!(i8, i16, i32, i64, i128, u8, u16, u32, u64);

macro_rules! float_cells {
    ($($native:ty, $from:expr, $to:expr);*) => {$(
        impl Cell for $native {
            fn from_whole(value: i256) -> Self {
                $from(value.as_i128() as f64)
            }
            fn from_float(value: f64) -> Self {
                $from(value)
            }
            #[inline(always)]
            fn as_f64(self) -> f64 {
                $to(self)
            }
            #[inline(always)]
            fn as_i128(self) -> i128 {
                self.as_f64() as i128
            }
            #[inline(always)]
            fn above(self, _: Self) -> usize {
                // Adding 0.0 gives both zeros the same bits.
                (self.as_f64() + 0.0).to_bits() as usize
            }
        }
    )*};
}
float_cells!(f16, f16::from_f64, f16::to_f64; f32, |value| value as f32, f64::from; f64, |value| value, |value| value);

impl Cell for i256 {
    fn from_whole(value: i256) -> Self {
        value
    }
    fn from_float(value: f64) -> Self {
        i256::from_f64(value).unwrap_or(i256::ZERO)
    }
    fn as_f64(self) -> f64 {
        match self.to_i128() {
            Some(small) => small as f64,
            None => self.to_string().parse().unwrap_or(f64::NAN),
        }
    }
    fn as_i128(self) -> i128 {
        i256::as_i128(self)
    }
    fn above(self, least: Self) -> usize {
        self.wrapping_sub(least).as_i128() as usize
    }
}

/// Runs `$body` with `$values` bound to the array's native values; the caller must import `AsArray`.
macro_rules! with_native_values {
    ($array:expr, $values:ident => $body:expr, _ => $otherwise:expr) => {{
        let array: &dyn arrow_array::Array = $array;
        kubist_index::with_exact_primitive!(
            array.data_type(),
            T => {
                let $values: &[<T as arrow_array::ArrowPrimitiveType>::Native] = array.as_primitive::<T>().values();
                $body
            },
            _ => match array.data_type() {
                arrow_schema::DataType::Decimal128(_, _) => {
                    let $values: &[i128] = array.as_primitive::<arrow_array::types::Decimal128Type>().values();
                    $body
                }
                arrow_schema::DataType::Decimal256(_, _) => {
                    let $values: &[arrow_buffer::i256] =
                        array.as_primitive::<arrow_array::types::Decimal256Type>().values();
                    $body
                }
                _ => $otherwise,
            }
        )
    }};
}
pub(crate) use with_native_values;

pub(crate) fn unsupported(data_type: &DataType) -> ExprError {
    ExprError::Evaluation { message: format!("values of type {data_type} cannot be compared so") }
}
