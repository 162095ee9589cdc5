//! Functions of positions on the sky.

use super::converted;
use crate::bound::{Compute, Kind};
use crate::error::ExprError;
use crate::rows::Rows;
use crate::vector::{Values, Vector};
use arrow_buffer::NullBuffer;
use kubist_geometry::{healpix, sky};

type Numbers<const N: usize> = ([Vec<f64>; N], Option<NullBuffer>);

fn numbers<const N: usize>(of: [&Compute; N], rows: &Rows<'_>) -> Result<Numbers<N>, ExprError> {
    let mut nulls = None;
    let mut found = [const { Vec::new() }; N];
    for (found, of) in found.iter_mut().zip(of) {
        let next = converted(of, rows, Kind::F64)?;
        nulls = NullBuffer::union(nulls.as_ref(), next.nulls.as_ref());
        *found = next.values.into_f64();
    }
    Ok((found, nulls))
}

/// Degrees between two positions; NaN if either is not a position.
pub(super) fn separations(of: [&Compute; 4], rows: &Rows<'_>) -> Result<Vector, ExprError> {
    let ([a, b, c, d], nulls) = numbers(of, rows)?;
    let values = (0..a.len()).map(|row| sky::separation([a[row], b[row]], [c[row], d[row]]));
    Ok(Vector { values: Values::F64(values.collect()), nulls })
}

/// Null if the operands are not a position.
pub(super) fn cells(order: u32, of: [&Compute; 2], rows: &Rows<'_>) -> Result<Vector, ExprError> {
    let ([longitudes, latitudes], nulls) = numbers(of, rows)?;
    let at = |row: usize| [longitudes[row], latitudes[row]];
    let positions: NullBuffer = (0..longitudes.len()).map(|row| sky::is_position(at(row))).collect();
    let cell = |row: usize| if positions.is_valid(row) { healpix::cell(order, at(row)).into() } else { 0 };
    let values = Values::Int((0..longitudes.len()).map(cell).collect());
    let nulls = NullBuffer::union(nulls.as_ref(), Some(&positions));
    Ok(Vector { values, nulls: nulls.filter(|nulls| nulls.null_count() > 0) })
}
