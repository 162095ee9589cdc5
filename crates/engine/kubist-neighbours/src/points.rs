//! Points in memory whose neighbours are searched.

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema};
use kubist::{Error, Result};
use kubist_expr::{Meant, in_unit_of};

use crate::columns::{Axis, positions, unit};
use crate::searched::Searched;

/// Positions, numbered from 0.
#[derive(Clone, Debug)]
pub struct Points {
    pub(crate) positions: Vec<f64>,
    pub(crate) count: usize,
}

impl Points {
    /// `batch` has the position columns of the table.
    ///
    /// # Errors
    ///
    /// `Invalid` if a column is missing or has another unit, or a point is no position; the message names
    /// it.
    pub fn new(searched: &Searched, batch: &RecordBatch) -> Result<Points> {
        let schema = batch.schema();
        let (mut chosen, mut axes) = (Vec::new(), Vec::new());
        for axis in &searched.axes {
            let Some((column, _)) = named(&schema, axis.name()) else {
                let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
                return Err(Error::invalid(format!(
                    "points: column {:?} is missing; they have {}",
                    axis.name(),
                    names.join(", ")
                )));
            };
            chosen.push(column);
            axes.push(Axis::new(&schema, schema.field(column).name(), searched.is_sphere())?);
        }
        let batch = batch.project(&chosen).map_err(Error::kernel)?;
        let count = batch.num_rows();
        if count > u32::MAX as usize {
            return Err(Error::invalid(format!("points: {count} are too many; give at most {}", u32::MAX)));
        }
        let (mut found, valid) = positions(&searched.space, &axes, &batch)?;
        if let Some(wrong) = valid.iter().position(|valid| !valid) {
            let shown: Vec<String> = axes
                .iter()
                .zip(batch.columns())
                .map(|(axis, column)| Ok(format!("{} = {}", axis.name(), axis.numbers(&column.slice(wrong, 1))?[0])))
                .collect::<Result<_>>()?;
            return Err(Error::invalid(format!("points: point {wrong} is no position: {}", shown.join(", "))));
        }
        if !searched.is_sphere() {
            for (number, (own, axis)) in searched.axes.iter().zip(&axes).enumerate() {
                let factor = in_units_of(&own.field, &axis.field)?;
                if factor != 1.0 {
                    found.iter_mut().skip(number).step_by(axes.len()).for_each(|value| *value *= factor);
                }
            }
            found.chunks_exact_mut(axes.len()).for_each(|position| {
                searched.space.wrap(position);
            });
        }
        Ok(Points { positions: found, count })
    }

    pub(crate) fn position(&self, point: u32, axes: usize) -> &[f64] {
        &self.positions[point as usize * axes..][..axes]
    }
}

fn named<'a>(schema: &'a Schema, name: &str) -> Option<(usize, &'a Field)> {
    schema.column_with_name(name).or_else(|| {
        let found = schema.fields().iter().position(|field| field.name().eq_ignore_ascii_case(name))?;
        Some((found, schema.field(found)))
    })
}

fn in_units_of(own: &Field, other: &Field) -> Result<f64> {
    match (unit(own), unit(other)) {
        (own, other) if own == other || own.is_empty() || other.is_empty() => Ok(1.0),
        (_, other) => Ok(in_unit_of(own, &format!("1 {other}"), Meant::Distance)?.unwrap_or(1.0)),
    }
}
