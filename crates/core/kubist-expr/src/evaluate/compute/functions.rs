//! Operators and functions over vectors of one kind.

use super::buckets::{Edges, beginning};
use super::calendar;
use crate::bound::Function;
use crate::error::ExprError;
use crate::number::BinWidth;
use crate::vector::{Values, Vector};
use arrow_buffer::{BooleanBuffer, NullBuffer};

pub(super) fn unary(function: Function, operand: Vector) -> Result<Vector, ExprError> {
    let Vector { values, nulls } = operand;
    let values = match values {
        Values::Int(values) => {
            let mut found = Vec::with_capacity(values.len());
            for (row, value) in values.into_iter().enumerate() {
                match integer(function, value) {
                    Some(result) => found.push(result),
                    None if hidden(&nulls, row) => found.push(0),
                    None => return Err(overflow(format!("{} of {value}", symbol(function)))),
                }
            }
            Values::Int(found)
        }
        Values::F32(mut values) => {
            match function {
                Function::Bin(width) => {
                    let edges = Edges::new(width);
                    let round = |edge: f64| f64::from(edge as f32);
                    values.iter_mut().for_each(|value| *value = edges.below(f64::from(*value), round) as f32);
                }
                _ => values.iter_mut().for_each(|value| *value = single::unary(function, *value)),
            }
            Values::F32(values)
        }
        Values::F64(mut values) => {
            match function {
                Function::Bin(width) => {
                    let edges = Edges::new(width);
                    values.iter_mut().for_each(|value| *value = edges.below(*value, |edge| edge));
                }
                _ => values.iter_mut().for_each(|value| *value = of_double(function, *value)),
            }
            Values::F64(values)
        }
    };
    Ok(Vector { values, nulls })
}

pub(super) fn binary(function: Function, left: Vector, right: Vector) -> Result<Vector, ExprError> {
    let nulls = NullBuffer::union(left.nulls.as_ref(), right.nulls.as_ref());
    let divides = matches!(function, Function::Divide | Function::Remainder);
    match (left.values, right.values) {
        (Values::F32(mut left), Values::F32(right)) => {
            let nulls = if divides { without_zeros(&right, nulls) } else { nulls };
            left.iter_mut().zip(right).for_each(|(a, b)| *a = single::binary(function, *a, b));
            Ok(Vector { values: Values::F32(left), nulls })
        }
        (Values::Int(left), Values::Int(right)) => {
            let nulls = if divides { without_zeros(&right, nulls) } else { nulls };
            let mut found = Vec::with_capacity(left.len());
            for (row, (a, b)) in left.into_iter().zip(right).enumerate() {
                match integers(function, a, b) {
                    Some(result) => found.push(result),
                    None if hidden(&nulls, row) => found.push(0),
                    None => return Err(overflow(format!("{a} {} {b}", symbol(function)))),
                }
            }
            Ok(Vector { values: Values::Int(found), nulls })
        }
        (left, right) => {
            let (mut left, right) = (left.into_f64(), right.into_f64());
            let nulls = if divides { without_zeros(&right, nulls) } else { nulls };
            left.iter_mut().zip(right).for_each(|(a, b)| *a = of_doubles(function, *a, b));
            Ok(Vector { values: Values::F64(left), nulls })
        }
    }
}

/// Rows that are null can have any hidden number.
fn hidden(nulls: &Option<NullBuffer>, row: usize) -> bool {
    nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
}

fn without_zeros<T: PartialEq + Default>(divisors: &[T], nulls: Option<NullBuffer>) -> Option<NullBuffer> {
    let zero = T::default();
    if divisors.iter().all(|divisor| *divisor != zero) {
        return nulls;
    }
    let valid = NullBuffer::new(BooleanBuffer::collect_bool(divisors.len(), |row| divisors[row] != zero));
    NullBuffer::union(nulls.as_ref(), Some(&valid))
}

fn overflow(what: String) -> ExprError {
    ExprError::Overflow {
        message: format!("{what} does not fit an integer of 128 bits: cast it to float64 before, as in x::float64"),
    }
}

fn symbol(function: Function) -> &'static str {
    match function {
        Function::Add => "+",
        Function::Subtract | Function::Negate => "-",
        Function::Multiply => "*",
        Function::Abs => "abs",
        Function::Bin(_) => "bin",
        Function::RoundTo(_) => "round",
        Function::ShiftLeft => "<<",
        Function::ShiftRight => ">>",
        Function::Shift { .. } => "+ INTERVAL",
        _ => "%",
    }
}

fn integer(function: Function, value: i128) -> Option<i128> {
    match function {
        Function::Negate => value.checked_neg(),
        Function::Abs => value.checked_abs(),
        Function::Sign => Some(value.signum()),
        Function::Bin(BinWidth { mantissa, .. }) => value.div_euclid(mantissa).checked_mul(mantissa),
        Function::Truncate(period) => Some(beginning(period, value)),
        Function::Part(part, unit) => Some(calendar::part(part, unit, value)),
        Function::Shift { months, units, day } => calendar::shifted(value, months, units, day),
        Function::BitNot => Some(!value),
        Function::RoundTo(digits @ ..0) => match 10i128.checked_pow(digits.unsigned_abs()) {
            Some(unit) => {
                let (down, rest) = (value / unit, value % unit);
                let up = if rest.unsigned_abs() * 2 >= unit.unsigned_abs() { rest.signum() } else { 0 };
                (down + up).checked_mul(unit)
            }
            None => Some(0),
        },
        _ => Some(value),
    }
}

fn integers(function: Function, a: i128, b: i128) -> Option<i128> {
    match function {
        Function::Add => a.checked_add(b),
        Function::Subtract => a.checked_sub(b),
        Function::Multiply => a.checked_mul(b),
        Function::Remainder if b == -1 => Some(0),
        Function::Remainder => a.checked_rem(b),
        Function::Least => Some(a.min(b)),
        Function::Greatest => Some(a.max(b)),
        Function::BitAnd => Some(a & b),
        Function::BitOr => Some(a | b),
        Function::BitXor => Some(a ^ b),
        Function::ShiftLeft => {
            let by = u32::try_from(b).ok().filter(|by| *by < 127)?;
            a.checked_mul(1 << by)
        }
        // Bits beyond the last are copies of the sign.
        Function::ShiftRight => u32::try_from(b).ok().map(|by| a >> by.min(127)),
        _ => None,
    }
}

fn of_double(function: Function, value: f64) -> f64 {
    match function {
        Function::Sqrt => value.sqrt(),
        Function::Exp => value.exp(),
        Function::Ln => value.ln(),
        Function::Log2 => value.log2(),
        Function::Log10 => value.log10(),
        Function::Sin => value.sin(),
        Function::Cos => value.cos(),
        Function::Tan => value.tan(),
        Function::Asin => value.asin(),
        Function::Acos => value.acos(),
        Function::Atan => value.atan(),
        Function::Radians => value.to_radians(),
        Function::Degrees => value.to_degrees(),
        Function::Periodic(period) => kubist_geometry::sky::distance(value, period),
        _ => double::unary(function, value),
    }
}

fn of_doubles(function: Function, a: f64, b: f64) -> f64 {
    match function {
        Function::Power => a.powf(b),
        Function::Atan2 => a.atan2(b),
        Function::Hypot => a.hypot(b),
        _ => double::binary(function, a, b),
    }
}

macro_rules! float_arithmetic {
    ($module:ident, $float:ty) => {
        mod $module {
            use super::Function;

            #[inline]
            pub(super) fn unary(function: Function, value: $float) -> $float {
                match function {
                    Function::Negate => -value,
                    Function::Abs => value.abs(),
                    Function::Floor => value.floor(),
                    Function::Ceil => value.ceil(),
                    Function::Round => value.round(),
                    Function::RoundTo(digits) => {
                        let unit = (10.0 as $float).powi(digits.abs());
                        let rounded = match digits < 0 {
                            true => (value / unit).round() * unit,
                            false => (value * unit).round() / unit,
                        };
                        // A digit beyond the precision of a float changes nothing.
                        if rounded.is_finite() { rounded } else { value }
                    }
                    Function::Sign if value > 0.0 => 1.0,
                    Function::Sign if value < 0.0 => -1.0,
                    _ => value,
                }
            }

            #[inline]
            pub(super) fn binary(function: Function, a: $float, b: $float) -> $float {
                match function {
                    Function::Add => a + b,
                    Function::Subtract => a - b,
                    Function::Multiply => a * b,
                    Function::Divide => a / b,
                    Function::Remainder => a % b,
                    _ if a.is_nan() || b.is_nan() => <$float>::NAN,
                    Function::Least => a.min(b),
                    Function::Greatest => a.max(b),
                    _ => <$float>::NAN,
                }
            }
        }
    };
}
float_arithmetic!(single, f32);
float_arithmetic!(double, f64);
