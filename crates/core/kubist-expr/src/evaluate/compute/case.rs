//! `CASE`: each branch is computed only for its rows, so excluded values cannot overflow.

use super::converted;
use crate::bound::{Compute, Kind, Test};
use crate::error::ExprError;
use crate::evaluate::untold;
use crate::rows::Rows;
use crate::vector::{Values, Vector};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, NullBuffer};

pub(super) fn chosen(
    whens: &[(Test, Compute)],
    otherwise: Option<&Compute>,
    rows: &Rows<'_>,
    kind: Kind,
) -> Result<Vector, ExprError> {
    let mut found = Found::new(kind, rows.count());
    let left = untold(whens, rows, &mut |takes, value| {
        found.put(takes, rows.part(takes, |part| converted(value, part, kind))?);
        Ok(())
    })?;
    if let (Some(value), true) = (otherwise, left.has_true()) {
        found.put(&left, rows.part(&left, |part| converted(value, part, kind))?);
    }
    Ok(Vector { values: found.values, nulls: Some(NullBuffer::new(found.valid.finish())) })
}

/// Returns each row's first value that is not null, and computes a value only for rows without an earlier one.
pub(super) fn first(of: &[Compute], rows: &Rows<'_>, kind: Kind) -> Result<Vector, ExprError> {
    let mut found = Found::new(kind, rows.count());
    let mut left = BooleanBuffer::new_set(rows.count());
    for value in of {
        if !left.has_true() {
            break;
        }
        found.put(&left, rows.part(&left, |part| converted(value, part, kind))?);
        left = &left & &!&BooleanBuffer::collect_bool(rows.count(), |row| found.valid.get_bit(row));
    }
    Ok(Vector { values: found.values, nulls: Some(NullBuffer::new(found.valid.finish())) })
}

struct Found {
    values: Values,
    valid: BooleanBufferBuilder,
}

impl Found {
    fn new(kind: Kind, count: usize) -> Found {
        let values = match kind {
            Kind::Int => Values::Int(vec![0; count]),
            Kind::F32 => Values::F32(vec![0.0; count]),
            Kind::F64 => Values::F64(vec![0.0; count]),
        };
        let mut valid = BooleanBufferBuilder::new(count);
        valid.append_n(count, false);
        Found { values, valid }
    }

    fn put(&mut self, takes: &BooleanBuffer, part: Vector) {
        match (&mut self.values, part.values) {
            (Values::Int(all), Values::Int(some)) => scatter(all, takes, some),
            (Values::F32(all), Values::F32(some)) => scatter(all, takes, some),
            (Values::F64(all), some) => scatter(all, takes, some.into_f64()),
            _ => return,
        }
        for (index, row) in takes.set_indices().enumerate() {
            self.valid.set_bit(row, part.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(index)));
        }
    }
}

fn scatter<T>(all: &mut [T], takes: &BooleanBuffer, some: Vec<T>) {
    takes.set_indices().zip(some).for_each(|(row, value)| all[row] = value);
}
