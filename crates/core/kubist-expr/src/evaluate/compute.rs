//! Computation over whole columns.
//!
//! Nulls propagate, and division or remainder by zero gives null. An integer beyond 128 bits is an error, so no wrong
//! result is returned.

mod buckets;
mod calendar;
mod case;
mod cast;
mod functions;
mod sky;

pub(crate) use calendar::shifted;

use crate::bound::{Compute, Function, Kind, Known, Step};
use crate::error::ExprError;
use crate::evaluate::{answers, lengths};
use crate::rows::Rows;
use crate::vector::{Values, Vector};
use arrow_array::Array;
use arrow_buffer::NullBuffer;

pub(crate) fn vector(compute: &Compute, rows: &Rows<'_>) -> Result<Vector, ExprError> {
    rows.go_on()?;
    let count = rows.count();
    match &compute.step {
        Step::Int(value) => {
            Ok(Vector { values: Values::Int(vec![*value; count]).into_kind(compute.kind), nulls: None })
        }
        Step::Float(value) => {
            let values = match compute.kind {
                Kind::F32 => Values::F32(vec![*value as f32; count]),
                _ => Values::F64(vec![*value; count]),
            };
            Ok(Vector { values, nulls: None })
        }
        Step::Column(column) => {
            let array = rows.array(column)?;
            Ok(Vector { values: Values::of(array.as_ref(), compute.kind)?, nulls: array.nulls().cloned() })
        }
        Step::Known(Known(number)) => match rows.known(number)? {
            Some(known) => Ok(known),
            None => vector(number, rows),
        },
        Step::Call(function, operands) => call(compute, *function, operands, rows),
        Step::Truth(test) => {
            let [yes, no] = answers(test, rows, [true, false])?;
            let values = Values::Int(yes.iter().map(i128::from).collect()).into_kind(compute.kind);
            Ok(Vector { values, nulls: Some(NullBuffer::new(&yes | &no)) })
        }
        Step::Case(whens, otherwise) => case::chosen(whens, otherwise.as_deref(), rows, compute.kind),
        Step::Once(number, of) => {
            let numbers = vector(number, rows)?;
            rows.knowing(number, numbers, || vector(of, rows))
        }
        Step::Coalesce(of) => case::first(of, rows, compute.kind),
        Step::Length(text) => {
            let (values, nulls) = lengths(text, rows)?;
            Ok(Vector { values: Values::Int(values), nulls })
        }
        Step::Cast(of, cast) => cast::cast(vector(of, rows)?, cast, compute),
    }
}

fn call(compute: &Compute, function: Function, operands: &[Compute], rows: &Rows<'_>) -> Result<Vector, ExprError> {
    match (function, operands) {
        (Function::Separation, [a, b, c, d]) => return sky::separations([a, b, c, d], rows),
        (Function::Healpix(order), [longitude, latitude]) => return sky::cells(order, [longitude, latitude], rows),
        _ => {}
    }
    let mut operands = operands.iter();
    let Some(first) = operands.next() else {
        return Err(ExprError::Evaluation { message: format!("{function:?} of nothing") });
    };
    let mut result = converted(first, rows, compute.kind)?;
    if operands.len() == 0 {
        return functions::unary(function, result);
    }
    for operand in operands {
        result = functions::binary(function, result, converted(operand, rows, compute.kind)?)?;
    }
    Ok(result)
}

fn converted(compute: &Compute, rows: &Rows<'_>, kind: Kind) -> Result<Vector, ExprError> {
    let Vector { values, nulls } = vector(compute, rows)?;
    Ok(Vector { values: values.into_kind(kind), nulls })
}
