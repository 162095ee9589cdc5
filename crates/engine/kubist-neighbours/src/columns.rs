//! The columns of a position: names, units and types.

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Schema};
use kubist::{Error, Result};
use kubist_expr::{Meant, column_index, in_unit_of};
use kubist_metric::{Reach, Space};
use kubist_region::{End, Periodic, Region};

/// The unit of a column; empty without a unit.
pub fn unit(field: &Field) -> &str {
    field.metadata().get("unit").map_or("", |unit| unit.trim())
}

#[derive(Clone, Debug)]
pub struct Axis {
    pub field: Field,
    /// Angles may be radians in the column.
    factor: f64,
}

impl Axis {
    /// On a sphere, positions are in degrees.
    pub fn new(schema: &Schema, name: &str, sphere: bool) -> Result<Axis> {
        let field = schema.field(column_index(schema, name)?).clone();
        if !field.data_type().is_numeric() {
            return Err(Error::invalid(format!(
                "column {:?} of type {} has no positions",
                field.name(),
                field.data_type()
            )));
        }
        let degree =
            if sphere && !unit(&field).is_empty() { in_unit_of(&field, "1 deg", Meant::Distance)? } else { None };
        Ok(Axis { factor: degree.unwrap_or(1.0), field })
    }

    pub fn name(&self) -> &str {
        self.field.name()
    }

    /// Converts a bound to the column's unit and type, with integers rounded outward.
    fn end(&self, number: f64, up: bool) -> Option<End> {
        let number = number * self.factor;
        if !number.is_finite() {
            return None;
        }
        if !self.field.data_type().is_integer() {
            return Some(End::Float(number));
        }
        let whole = if up { number.ceil() } else { number.floor() };
        (whole.abs() < 9e15).then_some(End::Integer(whole as i64))
    }

    pub fn numbers(&self, column: &ArrayRef) -> Result<Vec<f64>> {
        let floats = cast(column, &DataType::Float64).map_err(Error::kernel)?;
        let floats = floats.as_primitive::<Float64Type>();
        let number = |row: usize| if floats.is_null(row) { f64::NAN } else { floats.value(row) / self.factor };
        Ok((0..floats.len()).map(number).collect())
    }
}

/// Wrapped positions, and whether each is valid, where the last columns of the batch are the axes.
pub fn positions(space: &Space, axes: &[Axis], batch: &RecordBatch) -> Result<(Vec<f64>, Vec<bool>)> {
    let first = batch.num_columns() - axes.len();
    let columns = axes.iter().zip(&batch.columns()[first..]).map(|(axis, column)| axis.numbers(column));
    let columns = columns.collect::<Result<Vec<Vec<f64>>>>()?;
    let (mut positions, mut valid) = (vec![0.0; batch.num_rows() * axes.len()], vec![true; batch.num_rows()]);
    for (row, position) in positions.chunks_exact_mut(axes.len()).enumerate() {
        for (number, column) in position.iter_mut().zip(&columns) {
            *number = column[row];
        }
        valid[row] = space.wrap(position);
    }
    Ok((positions, valid))
}

/// The region within reach; `None` is everywhere.
pub fn region(space: &Space, axes: &[Axis], reach: &Reach) -> Option<Region> {
    let (mut ranges, mut period) = (std::collections::BTreeMap::new(), std::collections::BTreeMap::new());
    for (number, (axis, range)) in axes.iter().zip(&reach.0).enumerate() {
        let Some((low, high)) = *range else { continue };
        let ends = [axis.end(low, false), axis.end(high, true)];
        match space.period(number) {
            // A periodic range needs both ends.
            Some(_) if ends.contains(&None) => continue,
            Some(length) => {
                period.insert(axis.name().to_owned(), length * axis.factor);
            }
            None if ends == [None, None] => continue,
            None => {}
        }
        ranges.insert(axis.name().to_owned(), ends);
    }
    if ranges.is_empty() {
        return None;
    }
    let region = Region::Box(ranges);
    Some(match period.is_empty() {
        true => region,
        false => Region::Periodic(Periodic { period, region: Box::new(region) }),
    })
}
