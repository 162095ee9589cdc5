//! The grid that a commit's rows are placed by: the newest, or one that they are the first to need.

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

/// A commit of so many rows may have a grid made for it, and that is judged by some of them.
const BULK_ROWS: u64 = 1 << 14;
const COMPARED_ROWS: u64 = 1 << 15;
/// Rows that tell whether that is worth it.
const LOOKED_AT_ROWS: u64 = 1 << 9;

/// The frame of the newest grid; learned from these rows if the table has none. Rows that are
/// more than all that were there make one for themselves if they do not fit it.
///
/// # Errors
///
/// `Invalid` for a domain that makes no sense; as of [`Core::view`]; a storage error.
pub(crate) fn frame_for(core: &Core, view: &View, batches: &[RecordBatch], cancel: &Cancel) -> Result<Arc<Frame>> {
    let Some(frame) = core.newest_frame(&view.schema)? else {
        return core.publish_grid(&learned(core, batches)?);
    };
    let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>();
    if rows >= BULK_ROWS && rows > view.rows() {
        if let Some(fitting) = fitting(core, view, &frame, batches, cancel)? {
            return Ok(fitting);
        }
    }
    Ok(frame)
}

/// The scales of a table's first grid: as given at its creation, the others as these rows lie.
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

/// The frame of a new grid for many rows, if they have outgrown the newest.
fn fitting(
    core: &Core,
    view: &View,
    frame: &Frame,
    batches: &[RecordBatch],
    cancel: &Cancel,
) -> Result<Option<Arc<Frame>>> {
    let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>();
    let sample = |most: u64| -> Result<Vec<Vec<f64>>> {
        let step = rows.div_ceil(most).max(1) as usize;
        let sampled = |column: &usize| -> Result<Vec<f64>> {
            let some = |batch: &RecordBatch| {
                let rows = UInt32Array::from_iter_values((0..batch.num_rows() as u32).step_by(step));
                take(batch.column(*column), &rows, None).map_err(Error::kernel)
            };
            let sampled = batches.iter().map(some).collect::<Result<Vec<ArrayRef>>>()?;
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
    // Its own, or that of somebody else who was at it.
    let schema = core.view(cancel)?.schema.clone();
    core.settle_schema(&schema)?;
    core.newest_frame(&schema)
}
