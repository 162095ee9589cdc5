//! Casts of numbers. What does not fit the type is an error; NaN, which no integer is,
//! becomes null.

use crate::bound::{Cast, Compute, Kind};
use crate::error::ExprError;
use crate::vector::{Values, Vector};
use arrow_buffer::{BooleanBuffer, NullBuffer};

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
            integers(values.into_ints(), nulls, within, compute)
        }
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
        Values::Int(values) => return integers(values, nulls, |value| Some(value).filter(within), compute),
        floats => floats.into_f64(),
    };
    let nulls = match floats.iter().any(|value| value.is_nan()) {
        true => {
            let numbers = NullBuffer::new(BooleanBuffer::collect_bool(floats.len(), |row| !floats[row].is_nan()));
            NullBuffer::union(nulls.as_ref(), Some(&numbers))
        }
        false => nulls,
    };
    // Beyond this, `as` would give the nearest integer of 128 bits.
    let rounded = |value: f64| (value.abs() < 1.7e38).then(|| value.round_ties_even() as i128).filter(within);
    integers(floats, nulls, rounded, compute)
}

/// Integers of all rows that are not null, each of which must have one.
fn integers<T: Copy + std::fmt::Display>(
    values: Vec<T>,
    nulls: Option<NullBuffer>,
    integer: impl Fn(T) -> Option<i128>,
    compute: &Compute,
) -> Result<Vector, ExprError> {
    let mut found = Vec::with_capacity(values.len());
    for (row, value) in values.into_iter().enumerate() {
        match integer(value) {
            Some(value) => found.push(value),
            None if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) => found.push(0),
            None => {
                let name = compute.stored.as_ref().map_or("int128".to_owned(), |stored| stored.to_string());
                return Err(ExprError::Overflow { message: format!("CAST: {value} does not fit {name}") });
            }
        }
    }
    Ok(Vector { values: Values::Int(found), nulls })
}
