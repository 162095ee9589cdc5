//! The grid for a commit's rows: the newest grid, or a new one if these rows need it.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt32Array};
use arrow_select::take::take;
use kubist_index::fit::{has_left, outgrown};
use kubist_index::grid::Scale;

use kubist_catalog::alter::{next_grid, rescaled};
use kubist_catalog::core::Core;
use kubist_catalog::frame::{self, Frame};
use kubist_catalog::view::View;
use kubist_format::header::HeaderDimension;
use kubist_types::cancel::Cancel;
use kubist_types::error::{Error, Result};

/// Minimum number of rows in a commit that makes a new grid.
const BULK_ROWS: u64 = 1 << 14;
const COMPARED_ROWS: u64 = 1 << 15;
const LOOKED_AT_ROWS: u64 = 1 << 9;

/// Returns the newest grid, or a grid learned from these rows if the table has none. A commit with more rows than the
/// table makes a new grid if its rows do not fit the newest one.
///
/// # Errors
///
/// `Invalid` for an invalid domain; the errors of [`Core::view`].
pub(crate) fn frame_for(
    core: &Core,
    view: &View,
    batches: &[RecordBatch],
    rows_before: u64,
    cancel: &Cancel,
) -> Result<Arc<Frame>> {
    let Some(frame) = core.newest_frame(&view.schema)? else {
        return core.publish_grid(&learned(core, batches)?);
    };
    let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>();
    if rows >= BULK_ROWS
        && rows > rows_before
        && let Some(fitting) = fitting(core, view, &frame, batches, cancel)?
    {
        return Ok(fitting);
    }
    Ok(frame)
}

fn learned(core: &Core, batches: &[RecordBatch]) -> Result<Vec<Scale>> {
    let learn = |(dimension, column): (&HeaderDimension, &usize)| match dimension.domain {
        Some((low, high)) => Scale::linear(low, high).map_err(Error::invalid),
        None => {
            let values = batches.iter().flat_map(|batch| frame::numbers(batch.column(*column).as_ref()));
            Ok(if dimension.scale == "quantile" { Scale::learn_quantile(values) } else { Scale::learn_linear(values) })
        }
    };
    core.header.dimensions.iter().zip(&core.created.dimensions).map(learn).collect()
}

fn fitting(
    core: &Core,
    view: &View,
    frame: &Frame,
    batches: &[RecordBatch],
    cancel: &Cancel,
) -> Result<Option<Arc<Frame>>> {
    let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>();
    let sample = |most: u64| -> Result<Vec<Vec<f64>>> {
        let picked = picked_rows(batches.iter().map(RecordBatch::num_rows), rows.div_ceil(most).max(1) as usize);
        let sampled = |column: &usize| -> Result<Vec<f64>> {
            let some = |(batch, rows): (&RecordBatch, &UInt32Array)| {
                take(batch.column(*column), rows, None).map_err(Error::kernel)
            };
            let sampled = batches.iter().zip(&picked).map(some).collect::<Result<Vec<ArrayRef>>>()?;
            Ok(sampled.iter().flat_map(|array| frame::numbers(array.as_ref())).collect())
        };
        frame.dimensions.iter().map(sampled).collect()
    };
    if !has_left(&frame.scales, &sample(LOOKED_AT_ROWS)?) {
        return Ok(None);
    }
    let sample = sample(COMPARED_ROWS)?;
    let Some(scales) = outgrown(&frame.geometry, &frame.scales, &sample) else { return Ok(None) };
    let schema = &view.schema;
    let why = "a commit had more rows than the table, and had outgrown the one before";
    core.publish_next_grid(next_grid(schema, rescaled(schema, scales), view.rows() + rows, why))?;
    // This process or a faster one has made this grid.
    let schema = core.view(cancel)?.schema.clone();
    core.settle_schema(&schema)?;
    core.newest_frame(&schema)
}

/// Picks one row in `step` rows, as indices into the batches. Distances vary, because rows may repeat a pattern, such
/// as the frames of a trajectory.
fn picked_rows(batches: impl Iterator<Item = usize>, step: usize) -> Vec<UInt32Array> {
    let within = |number: usize| (((number as u32).wrapping_mul(0x9e37_79b1) as u64 * step as u64) >> 32) as usize;
    let (mut first, mut number) = (0, 0);
    let mut picked = Vec::new();
    for rows in batches {
        let mut of_batch = Vec::with_capacity(rows / step + 1);
        while number * step + within(number) < first + rows {
            of_batch.push((number * step + within(number) - first) as u32);
            number += 1;
        }
        first += rows;
        picked.push(UInt32Array::from(of_batch));
    }
    picked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_of_all_batches_however_small_they_are() {
        for (batches, rows, step) in [(250, 5_067, 25_500), (3, 100_000, 1), (1, 7, 100), (40, 1, 3), (9, 1000, 1000)] {
            let picked = picked_rows(std::iter::repeat_n(rows, batches), step);
            let places: Vec<usize> = picked
                .iter()
                .enumerate()
                .flat_map(|(batch, picked)| picked.values().iter().map(move |row| batch * rows + *row as usize))
                .collect();
            let expected: Vec<usize> = places.iter().map(|place| place / step).collect();
            assert!(expected.iter().copied().eq(0..places.len()), "one of each {step} of {batches} batches of {rows}");
            let all = batches * rows;
            assert!([all / step, all.div_ceil(step)].contains(&places.len()), "{} of {all}", places.len());
            assert!(picked.iter().flat_map(|picked| picked.values()).all(|row| (*row as usize) < rows));
            let of_frame: std::collections::HashSet<usize> = places.iter().map(|place| place % rows).collect();
            assert!(rows == 1 || of_frame.len() * 2 > places.len().min(rows), "{} rows of a batch", of_frame.len());
        }
    }
}
