//! Casts of numbers. A value that does not fit the type is an error; NaN becomes null.

use crate::bound::{Cast, Compute, Kind};
use crate::error::ExprError;
use crate::vector::{Values, Vector};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use std::cmp::Ordering;

pub(super) fn cast(of: Vector, cast: &Cast, compute: &Compute) -> Result<Vector, ExprError> {
    let Vector { values, nulls } = of;
    match cast {
        Cast::Float => {
            let values = match (compute.kind, values) {
                (Kind::F32, Values::F64(values)) => Values::F32(values.into_iter().map(|value| value as f32).collect()),
                (kind, values) => values.into_kind(kind),
            };
            Ok(Vector { values, nulls })
        }
        Cast::Whole { first, last } => whole(values, nulls, (*first, *last), compute),
        Cast::Scaled { multiplier, divisor, first, last } => {
            let scaled = |value: i128| value.checked_mul(*multiplier).map(|value| value.div_euclid(*divisor));
            let within = |value: i128| scaled(value).filter(|value| (first..=last).contains(&value));
            integers(values.into_ints(), nulls, within, |value| value.to_string(), compute)
        }
        Cast::Decimal { multiplier, divisor, first, last } => {
            let scaled = |value: i128| value.checked_mul(*multiplier).map(|value| nearest(value, *divisor));
            let within = |value: i128| scaled(value).filter(|value| (first..=last).contains(&value));
            let shown = |value: i128| (value as f64 * *multiplier as f64 / *divisor as f64).to_string();
            integers(values.into_ints(), nulls, within, shown, compute)
        }
    }
}

fn nearest(value: i128, divisor: i128) -> i128 {
    let (down, rest) = (value.div_euclid(divisor), value.rem_euclid(divisor));
    match rest.cmp(&(divisor - rest)) {
        Ordering::Less => down,
        Ordering::Equal => down + down.rem_euclid(2),
        Ordering::Greater => down + 1,
    }
}

fn whole(
    values: Values,
    nulls: Option<NullBuffer>,
    (first, last): (i128, i128),
    compute: &Compute,
) -> Result<Vector, ExprError> {
    let within = |value: &i128| (first..=last).contains(value);
    let floats = match values {
        Values::Int(values) => {
            return integers(values, nulls, |value| Some(value).filter(within), |value| value.to_string(), compute);
        }
        floats => floats.into_f64(),
    };
    let nulls = match floats.iter().any(|value| value.is_nan()) {
        true => {
            let numbers = NullBuffer::new(BooleanBuffer::collect_bool(floats.len(), |row| !floats[row].is_nan()));
            NullBuffer::union(nulls.as_ref(), Some(&numbers))
        }
        false => nulls,
    };
    // Beyond this limit `as` would saturate at the range of 128 bits.
    let rounded = |value: f64| (value.abs() < 1.7e38).then(|| value.round_ties_even() as i128).filter(within);
    integers(floats, nulls, rounded, |value| value.to_string(), compute)
}

/// `shown` formats a value without an integer for the error.
fn integers<T: Copy>(
    values: Vec<T>,
    nulls: Option<NullBuffer>,
    integer: impl Fn(T) -> Option<i128>,
    shown: impl Fn(T) -> String,
    compute: &Compute,
) -> Result<Vector, ExprError> {
    let mut found = Vec::with_capacity(values.len());
    for (row, value) in values.into_iter().enumerate() {
        match integer(value) {
            Some(value) => found.push(value),
            None if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) => found.push(0),
            None => {
                let name = compute.stored.as_ref().map_or("int128".to_owned(), |stored| stored.to_string());
                return Err(ExprError::Overflow { message: format!("CAST: {} does not fit {name}", shown(value)) });
            }
        }
    }
    Ok(Vector { values: Values::Int(found), nulls })
}
