//! The rows whose points are in a shape.

use super::compute::vector;
use crate::bound::Compute;
use crate::error::ExprError;
use crate::rows::Rows;
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};
use kubist_geometry::Shape;

const POINTS_AT_ONCE: usize = 1024;

pub(super) fn inside<const N: usize>(
    shape: &Shape,
    point: &[Compute; 2],
    rows: &Rows<'_>,
    wanted: [bool; N],
) -> Result<[BooleanBuffer; N], ExprError> {
    let (x, y) = (vector(&point[0], rows)?, vector(&point[1], rows)?);
    let is_valid = |row: usize| [&x.nulls, &y.nulls].iter().all(|nulls| nulls.as_ref().is_none_or(|n| n.is_valid(row)));
    let (xs, ys) = (x.values.into_f64(), y.values.into_f64());
    let mut found = wanted.map(|_| BooleanBufferBuilder::new(xs.len()));
    for row in 0..xs.len() {
        if row % POINTS_AT_ONCE == 0 {
            rows.go_on()?;
        }
        let answer = if is_valid(row) { shape.has([xs[row], ys[row]]) } else { None };
        for (found, wanted) in found.iter_mut().zip(wanted) {
            found.append(answer == Some(wanted));
        }
    }
    Ok(found.map(|mut found| found.finish()))
}
