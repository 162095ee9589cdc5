//! Adds a new grid to a table that has rows: other dimensions, domains or scales.
//!
//! The optimizer and writers add a grid when the data no longer fits the newest one and the table has twice the rows
//! that it had at that grid, so each row moves about once each time the table doubles. Writers place new rows by the
//! grid when they see it; the optimizer moves existing rows. Results are the same at all times
//! (docs/design/placement.md).

use std::sync::Arc;

use kubist_catalog::alter::{next_grid, rescaled};
use kubist_catalog::core::Core;
use kubist_catalog::create::scale_of;
use kubist_catalog::snapshot::Snapshot;
use kubist_format::alteration::{GridDimension, NewGrid};
use kubist_index::fit::{has_left, outgrown};
use kubist_types::{Cancel, Dimension, Error, Result, Value};

use crate::learn::{ScaleKind, sample, sample_of};
use crate::period::of_rows;
#[cfg(doc)]
use crate::policy::OptimizeOptions;

#[derive(Clone, Debug)]
pub struct GridOptions {
    /// The new dimensions. Missing domains are learned from a sample of all rows. `None` keeps the columns and the
    /// kinds of scale of the newest grid, with learned domains.
    pub dimensions: Option<Vec<Dimension>>,
    /// Periods as in [`TableOptions`](kubist_types::TableOptions); null removes one, and the rows must be inside.
    pub period: Vec<(String, Value)>,
    pub core_share: f64,
    /// After cancellation, rows that have moved stay in the new grid.
    pub cancel: Cancel,
}

impl Default for GridOptions {
    fn default() -> Self {
        GridOptions { dimensions: None, period: Vec::new(), core_share: 1.0, cancel: Cancel::default() }
    }
}

/// Publishes the next grid; returns its number.
///
/// # Errors
///
/// `Invalid` for a column that does not exist or cannot be a dimension, an invalid domain, or a domain to be learned
/// from a table without rows; `Busy` if another process has published a grid first.
pub fn publish(core: &Arc<Core>, options: &GridOptions, reason: &str) -> Result<u32> {
    let snapshot = Snapshot::now(core, &options.cancel)?;
    let grid = plan(&snapshot, options, reason)?;
    core.set_periods(&of_rows(&snapshot, &options.period, &options.cancel)?)?;
    let number = grid.grid;
    match core.publish_next_grid(grid)? {
        true => Ok(number),
        false => {
            let location = core.store.location();
            Err(Error::Busy(format!("{location}: another grid was published meanwhile; look at it, and try again")))
        }
    }
}

/// Tables with fewer rows get no new grid, because any grid is fast for them.
const LEAST_ROWS: u64 = 1 << 14;
const COMPARED: u64 = 1 << 15;
const LOOKED_AT: u64 = 1 << 9;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    Now,
    /// Only if the table has grown by a quarter since the last comparison.
    Grown,
}

/// Publishes a new grid if box queries would examine many more rows with the newest grid than with a fresh one, and the
/// table has twice the rows that it had at the newest grid.
///
/// # Errors
///
/// `Cancelled`; a storage error.
pub fn follow_data(core: &Arc<Core>, snapshot: &Snapshot, when: When, cancel: &Cancel) -> Result<bool> {
    let (schema, rows) = (&snapshot.view.schema, snapshot.view.rows());
    let at_newest = schema.grids.last().map_or(0, |grid| grid.said.rows);
    if rows < LEAST_ROWS || rows < 2 * at_newest || (!core.read_amplification.has_grown(rows) && when == When::Grown) {
        return Ok(false);
    }
    let Some(frame) = core.newest_frame(schema)? else { return Ok(false) };
    let columns: Vec<String> =
        schema.dimensions.iter().map(|column| schema.user_field(*column).name().clone()).collect();
    if when == When::Grown && !has_left(&frame.scales, &sample_of(snapshot, columns.clone(), LOOKED_AT, cancel)?) {
        return Ok(false);
    }
    let sample = sample_of(snapshot, columns, COMPARED, cancel)?;
    let Some(scales) = outgrown(&frame.geometry, &frame.scales, &sample) else { return Ok(false) };
    core.publish_next_grid(next_grid(schema, rescaled(schema, scales), rows, "the data had outgrown the one before"))
}

fn plan(snapshot: &Snapshot, options: &GridOptions, reason: &str) -> Result<NewGrid> {
    let (core, schema) = (&snapshot.core, &snapshot.view.schema);
    let newest = schema.newest_grid();
    let own = |given: &Dimension| schema.own_name(&given.column).map(str::to_string);
    let names: Vec<String> = match &options.dimensions {
        Some(dimensions) => dimensions.iter().map(own).collect::<Result<_>>()?,
        None => schema.dimensions.iter().map(|column| schema.user_field(*column).name().clone()).collect(),
    };
    let domain = |d: usize| options.dimensions.as_ref().map(|dimensions| &dimensions[d].domain);
    let frame = core.frame(schema, newest)?;
    let mut scales = Vec::new();
    for (d, name) in names.iter().enumerate() {
        let column = schema.column(name)?;
        let data_type = schema.stored.field(column).data_type();
        let scale = domain(d).map(|domain| scale_of(&schema.with_unit(column), data_type, domain));
        scales.push(scale.transpose()?.flatten());
    }
    let open: Vec<usize> = (0..names.len()).filter(|d| scales[*d].is_none()).collect();
    if !open.is_empty() {
        let columns: Vec<String> = open.iter().map(|d| names[*d].clone()).collect();
        for (d, values) in open.into_iter().zip(sample(snapshot, columns, &options.cancel)?) {
            if !values.iter().any(|value| value.is_finite()) {
                let why = "the table has no values of it to learn one from";
                return Err(Error::invalid(format!("give a domain of {:?}: {why}", names[d])));
            }
            // Without `dimensions`, the names are in the frame's order.
            let before = || frame.as_ref().map_or(ScaleKind::Linear, |frame| ScaleKind::of(&frame.scales[d]));
            scales[d] = Some(domain(d).map_or_else(before, ScaleKind::to_learn).learn(&values));
        }
    }
    let dimensions = names.into_iter().zip(scales.into_iter().flatten());
    let dimensions = dimensions.map(|(column, scale)| GridDimension { column, scale }).collect();
    Ok(next_grid(schema, dimensions, snapshot.view.rows(), reason))
}
