//! Error bounds of columns (FORMAT.md, Error bounds).
//!
//! A value is rounded once, before any other computation. With an absolute bound, it becomes a multiple of the
//! **step**, which the type can represent exactly. Integer arithmetic on the bits makes the result the same on
//! every machine, and rounding twice changes nothing.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType};
use arrow_schema::DataType;
use half::f16;
use serde::{Deserialize, Serialize};

use crate::order::Keyed;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Accuracy {
    /// Maximum |stored - given|, in the column's unit.
    Absolute(f64),
    /// Maximum |stored - given| / |given|.
    Relative(f64),
}

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NoAccuracy {
    #[error("{0:?} is neither a number nor, as \"1e-4 rel\", one of a relative bound")]
    NoNumber(String),
    #[error("an absolute bound is a finite number above 0, found {0}")]
    Absolute(f64),
    #[error("a relative bound is above 0 and below 1, found {0}")]
    Relative(f64),
}

const RELATIVE: &str = "rel";

impl Accuracy {
    /// # Errors
    ///
    /// [`NoAccuracy::Absolute`] unless the bound is finite and above 0.
    pub fn absolute(bound: f64) -> Result<Accuracy, NoAccuracy> {
        match bound.is_finite() && bound > 0.0 {
            true => Ok(Accuracy::Absolute(bound)),
            false => Err(NoAccuracy::Absolute(bound)),
        }
    }

    /// # Errors
    ///
    /// [`NoAccuracy::Relative`] unless the bound is above 0 and below 1.
    pub fn relative(bound: f64) -> Result<Accuracy, NoAccuracy> {
        match bound > 0.0 && bound < 1.0 {
            true => Ok(Accuracy::Relative(bound)),
            false => Err(NoAccuracy::Relative(bound)),
        }
    }

    /// The exponent of an absolute bound's step (base 2).
    pub fn step(self) -> Option<i32> {
        match self {
            Accuracy::Absolute(bound) => Some(exponent(bound) + 1),
            Accuracy::Relative(_) => None,
        }
    }

    pub fn suits(data_type: &DataType) -> bool {
        data_type.is_integer() || data_type.is_floating()
    }

    /// Rounds the values; arrays of other types stay unchanged.
    pub fn round(self, array: &ArrayRef) -> ArrayRef {
        match array.data_type() {
            DataType::Int8 => self.round_integers::<Int8Type>(array),
            DataType::Int16 => self.round_integers::<Int16Type>(array),
            DataType::Int32 => self.round_integers::<Int32Type>(array),
            DataType::Int64 => self.round_integers::<Int64Type>(array),
            DataType::UInt8 => self.round_integers::<UInt8Type>(array),
            DataType::UInt16 => self.round_integers::<UInt16Type>(array),
            DataType::UInt32 => self.round_integers::<UInt32Type>(array),
            DataType::UInt64 => self.round_integers::<UInt64Type>(array),
            DataType::Float16 => {
                let half = Float { digits: 10, exponents: 5 };
                self.round_floats::<Float16Type>(array, half, |bits| f16::from_bits(bits as u16))
            }
            DataType::Float32 => {
                let single = Float { digits: 23, exponents: 8 };
                self.round_floats::<Float32Type>(array, single, |bits| f32::from_bits(bits as u32))
            }
            DataType::Float64 => {
                let double = Float { digits: 52, exponents: 11 };
                self.round_floats::<Float64Type>(array, double, f64::from_bits)
            }
            _ => array.clone(),
        }
    }

    fn round_floats<T: ArrowPrimitiveType>(
        self,
        array: &ArrayRef,
        float: Float,
        of_bits: impl Fn(u64) -> T::Native,
    ) -> ArrayRef
    where
        T::Native: Keyed,
    {
        let rounding = self.rounding();
        Arc::new(array.as_primitive::<T>().unary::<_, T>(|value| of_bits(float.round(value.bits(), rounding))))
    }

    fn round_integers<T: ArrowPrimitiveType>(self, array: &ArrayRef) -> ArrayRef
    where
        T::Native: Into<i128> + TryFrom<i128>,
    {
        let rounding = self.rounding();
        Arc::new(array.as_primitive::<T>().unary::<_, T>(|value| {
            let given: i128 = value.into();
            let magnitude = round_integer(given.unsigned_abs(), rounding) as i128;
            T::Native::try_from(if given < 0 { -magnitude } else { magnitude }).unwrap_or(value)
        }))
    }

    fn rounding(self) -> Rounding {
        match self {
            Accuracy::Absolute(bound) => Rounding::Step(exponent(bound) + 1),
            // The error is at most half of the last kept digit.
            Accuracy::Relative(bound) => Rounding::Digits((-exponent(bound) - 1).max(0) as u32),
        }
    }
}

#[derive(Clone, Copy)]
enum Rounding {
    Step(i32),
    Digits(u32),
}

#[derive(Clone, Copy)]
struct Float {
    digits: u32,
    exponents: u32,
}

impl Float {
    #[inline(always)]
    fn round(self, bits: u64, rounding: Rounding) -> u64 {
        let Float { digits, exponents } = self;
        let sign = 1u64 << (digits + exponents);
        let (magnitude, infinite) = (bits & (sign - 1), ((1u64 << exponents) - 1) << digits);
        if magnitude == 0 || magnitude >= infinite {
            return bits;
        }
        let field = magnitude >> digits;
        let rounded = match rounding {
            Rounding::Step(step) => {
                let bias = (1i32 << (exponents - 1)) - 1;
                let last = field.max(1) as i32 - bias - digits as i32;
                match step - last {
                    ..=0 => return bits,
                    dropped if dropped <= digits as i32 => without(magnitude, dropped as u32),
                    dropped if dropped == digits as i32 + 1 && field > 0 => (field + 1) << digits,
                    _ => return 0,
                }
            }
            Rounding::Digits(kept) => {
                let all = if field > 0 { digits } else { magnitude.ilog2() };
                match all.saturating_sub(kept) {
                    0 => return bits,
                    dropped => without(magnitude, dropped),
                }
            }
        };
        match rounded {
            0 => 0,
            rounded if rounded >= infinite => bits,
            rounded => bits & sign | rounded,
        }
    }
}

#[inline(always)]
fn without(magnitude: u64, bits: u32) -> u64 {
    (magnitude + (1 << (bits - 1))) >> bits << bits
}

#[inline(always)]
fn round_integer(magnitude: u128, rounding: Rounding) -> u128 {
    let dropped = match rounding {
        _ if magnitude == 0 => 0,
        // No 64-bit integer reaches half of a larger step.
        Rounding::Step(step) => step.clamp(0, 66) as u32,
        Rounding::Digits(kept) => magnitude.ilog2().saturating_sub(kept),
    };
    match dropped {
        0 => magnitude,
        _ => (magnitude + (1 << (dropped - 1))) >> dropped << dropped,
    }
}

fn exponent(number: f64) -> i32 {
    let bits = number.to_bits();
    match (bits >> 52) as i32 {
        0 => bits.ilog2() as i32 - 1074,
        field => field - 1023,
    }
}

impl fmt::Display for Accuracy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Accuracy::Absolute(bound) | Accuracy::Relative(bound)) = *self;
        match (1e-3..1e6).contains(&bound) {
            true => write!(out, "{bound}")?,
            false => write!(out, "{bound:e}")?,
        }
        match self {
            Accuracy::Absolute(_) => Ok(()),
            Accuracy::Relative(_) => write!(out, " {RELATIVE}"),
        }
    }
}

impl FromStr for Accuracy {
    type Err = NoAccuracy;

    /// Parses a number, or a number followed by `rel`.
    fn from_str(text: &str) -> Result<Accuracy, NoAccuracy> {
        let number = |number: &str| number.trim().parse::<f64>().map_err(|_| NoAccuracy::NoNumber(text.to_owned()));
        match text.trim().strip_suffix(RELATIVE) {
            Some(bound) => Accuracy::relative(number(bound)?),
            None => Accuracy::absolute(number(text)?),
        }
    }
}

impl TryFrom<String> for Accuracy {
    type Error = NoAccuracy;

    fn try_from(text: String) -> Result<Accuracy, NoAccuracy> {
        text.parse()
    }
}

impl From<Accuracy> for String {
    fn from(accuracy: Accuracy) -> String {
        accuracy.to_string()
    }
}
