//! The regular grid of cells of `per_cell`. Cells are counted with 64-bit integers from the lower bound of
//! the dimension's domain in the first grid that has it. A value beyond their range is refused.

use arrow_array::{Array, ArrayRef};
use arrow_schema::Field;
use kubist_expr::{Meant, in_unit_of};
use kubist_index::order;

use crate::grids::Grids;
use kubist_catalog::snapshot::Snapshot;
use kubist_types::error::{Error, Result};
use kubist_types::query::{PerCell, Width};

/// Largest absolute cell index, because the extreme 64-bit integers represent nulls, NaN and infinities.
const LAST_INDEX: f64 = 9e18;

pub struct CellGrid {
    pub rows: u64,
    pub axes: Vec<Axis>,
}

impl CellGrid {
    /// Refuses widths so small that the cells of the domain cannot be counted.
    pub(super) fn new(snapshot: &Snapshot, grids: &Grids, per_cell: &PerCell) -> Result<CellGrid> {
        let schema = &snapshot.view.schema;
        if per_cell.rows == 0 || per_cell.widths.is_empty() {
            return Err(Error::invalid(
                "per_cell needs at least one record a cell and the width of at least one dimension",
            ));
        }
        let mut axes: Vec<Axis> = Vec::new();
        for (name, width) in &per_cell.widths {
            let column = schema.column(name)?;
            let created = &snapshot.core.created.dimensions;
            if !created.contains(&column) && !schema.grids.iter().any(|grid| grid.dimensions.contains(&column)) {
                return Err(Error::invalid(format!("per_cell: {name:?} is not a dimension of the table")));
            }
            if axes.iter().any(|axis| axis.column == column) {
                return Err(Error::invalid(format!("per_cell: {name:?} is given twice")));
            }
            let width = in_numbers(&schema.with_unit(column), width)?;
            if !(width.is_finite() && width > 0.0) {
                return Err(Error::invalid(format!("per_cell: the width of {name:?} must be positive, found {width}")));
            }
            let domain = grids.first_domain(column);
            let anchor = domain.map_or(0.0, |domain| domain.0);
            let axis = Axis { column, name: name.clone(), anchor, width };
            if let Some((_, end)) = domain.filter(|(_, end)| axis.index(*end).is_none()) {
                return Err(axis.too_far(end));
            }
            axes.push(axis);
        }
        Ok(CellGrid { rows: per_cell.rows, axes })
    }
}

fn in_numbers(column: &Field, width: &Width) -> Result<f64> {
    let name = column.name();
    match width {
        Width::Number(width) => Ok(*width),
        Width::Text(text) => match in_unit_of(column, text, Meant::Distance) {
            Ok(Some(width)) => Ok(width),
            Ok(None) => Err(Error::invalid(format!(
                "per_cell: the width {text:?} of {name:?} is neither a number nor one with a unit, as \"1 mm\""
            ))),
            Err(error) => Err(Error::invalid(format!("per_cell: {error}"))),
        },
    }
}

#[derive(Clone)]
pub struct Axis {
    pub column: usize,
    name: String,
    anchor: f64,
    width: f64,
}

impl Axis {
    /// The cell of a value; `None` if it is out of range; NaN and each infinity have their own cells.
    pub fn index(&self, value: f64) -> Option<i64> {
        if value.is_nan() {
            return Some(i64::MAX);
        }
        if value.is_infinite() {
            return Some(if value > 0.0 { i64::MAX - 1 } else { i64::MIN + 1 });
        }
        let distance = value - self.anchor;
        let cells = match distance.is_finite() {
            true => distance / self.width,
            false => value / self.width - self.anchor / self.width,
        };
        let index = cells.floor();
        (index.abs() <= LAST_INDEX).then_some(index as i64)
    }

    pub fn indices(&self, array: &ArrayRef) -> Result<Vec<i64>> {
        let keys = order::keys(array.as_ref()).unwrap_or_default();
        let of_row = |(row, key): (usize, &u64)| {
            if array.is_null(row) {
                return Ok(i64::MIN);
            }
            let value = order::number(array.data_type(), *key);
            self.index(value).ok_or_else(|| self.too_far(value))
        };
        keys.iter().enumerate().map(of_row).collect()
    }

    fn too_far(&self, value: f64) -> Error {
        let Axis { name, anchor, width, .. } = self;
        Error::invalid(format!(
            "per_cell: {name:?} = {value:e} is more than 9e18 cells of width {width:e} away from {anchor}, where they \
             begin, which is further than they are counted: take wider cells"
        ))
    }
}
