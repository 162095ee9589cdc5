//! Arithmetic over whole columns.
//!
//! A step works in one kind of number; what it reads is converted first. Nulls
//! go through every step, and a step in integers that has no result (overflow,
//! remainder by zero) makes one.

use crate::bound::{Compute, Function, Kind, Known, Step};
use crate::error::ExprError;
use crate::rows::Rows;
use crate::vector::{Values, Vector};
use arrow_array::Array;
use arrow_buffer::{BooleanBuffer, NullBuffer};

/// Computes one number for each row.
pub(crate) fn vector(compute: &Compute, rows: &Rows<'_>) -> Result<Vector, ExprError> {
    rows.go_on()?;
    let count = rows.count();
    Ok(match &compute.step {
        Step::Int(value) => Vector { values: Values::Int(vec![*value; count]).into_kind(compute.kind), nulls: None },
        Step::Float(value) => {
            let values = match compute.kind {
                Kind::F32 => Values::F32(vec![*value as f32; count]),
                _ => Values::F64(vec![*value; count]),
            };
            Vector { values, nulls: None }
        }
        Step::Column(column) => {
            let array = rows.array(column)?;
            Vector { values: Values::of(array.as_ref(), compute.kind)?, nulls: array.nulls().cloned() }
        }
        Step::Known(Known(number)) => match rows.known(number) {
            Some(known) => known,
            None => vector(number, rows)?,
        },
        Step::Call(function, operands) => {
            let mut operands = operands.iter();
            let Some(first) = operands.next() else {
                return Err(ExprError::Evaluation { message: format!("{function:?} of nothing") });
            };
            let mut result = converted(first, rows, compute.kind)?;
            if operands.len() == 0 {
                return Ok(unary(*function, result));
            }
            for operand in operands {
                result = binary(*function, result, converted(operand, rows, compute.kind)?);
            }
            result
        }
    })
}

fn converted(compute: &Compute, rows: &Rows<'_>, kind: Kind) -> Result<Vector, ExprError> {
    let Vector { values, nulls } = vector(compute, rows)?;
    Ok(Vector { values: values.into_kind(kind), nulls })
}

fn unary(function: Function, operand: Vector) -> Vector {
    let Vector { values, nulls } = operand;
    match values {
        Values::Int(values) => {
            let results = values.into_iter().map(|value| match function {
                Function::Negate => value.checked_neg(),
                Function::Abs => value.checked_abs(),
                _ => Some(value),
            });
            partial(results.collect(), nulls)
        }
        Values::F32(mut values) => {
            values.iter_mut().for_each(|value| *value = single::unary(function, *value));
            Vector { values: Values::F32(values), nulls }
        }
        Values::F64(mut values) => {
            values.iter_mut().for_each(|value| *value = double::unary(function, *value));
            Vector { values: Values::F64(values), nulls }
        }
    }
}

fn binary(function: Function, left: Vector, right: Vector) -> Vector {
    let nulls = NullBuffer::union(left.nulls.as_ref(), right.nulls.as_ref());
    match (left.values, right.values) {
        (Values::F32(mut left), Values::F32(right)) => {
            left.iter_mut().zip(right).for_each(|(a, b)| *a = single::binary(function, *a, b));
            Vector { values: Values::F32(left), nulls }
        }
        (Values::Int(left), Values::Int(right)) => {
            let results = left.into_iter().zip(right).map(|(a, b)| match function {
                Function::Add => a.checked_add(b),
                Function::Subtract => a.checked_sub(b),
                Function::Multiply => a.checked_mul(b),
                Function::Remainder if b == -1 => Some(0),
                Function::Remainder => a.checked_rem(b),
                Function::Least => Some(a.min(b)),
                Function::Greatest => Some(a.max(b)),
                _ => None,
            });
            partial(results.collect(), nulls)
        }
        (left, right) => {
            let mut left = left.into_f64();
            left.iter_mut().zip(right.into_f64()).for_each(|(a, b)| *a = double::binary(function, *a, b));
            Vector { values: Values::F64(left), nulls }
        }
    }
}

/// Integers, null where there is none.
fn partial(results: Vec<Option<i128>>, nulls: Option<NullBuffer>) -> Vector {
    let nulls = if results.iter().any(Option::is_none) {
        let found = NullBuffer::new(BooleanBuffer::collect_bool(results.len(), |row| results[row].is_some()));
        NullBuffer::union(nulls.as_ref(), Some(&found))
    } else {
        nulls
    };
    Vector { values: Values::Int(results.into_iter().map(|result| result.unwrap_or(0)).collect()), nulls }
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
                    Function::Sqrt => value.sqrt(),
                    Function::Floor => value.floor(),
                    Function::Ceil => value.ceil(),
                    Function::Exp => value.exp(),
                    Function::Ln => value.ln(),
                    Function::Log10 => value.log10(),
                    Function::Sin => value.sin(),
                    Function::Cos => value.cos(),
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
                    Function::Power => a.powf(b),
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
