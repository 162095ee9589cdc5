//! Periods of columns: parsing, metadata, and the check of written rows.
//!
//! All values of a column with a period are in one interval. Other values are refused, because queries would not find
//! such rows by their images.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kubist_expr::{Meant, column_index, in_unit_of};
use kubist_types::metadata::UNIT;
use kubist_types::{Error, PERIOD, Period, Result, SPHERE, Value};

use crate::frame::numbers;

/// Parses a period: a length in the column's unit, text with a unit (`25 kpc`), or the interval of values
/// (`-12.5:12.5`).
///
/// # Errors
///
/// `Invalid` names the column and the value that is no period.
pub fn period_of(column: &Field, period: &Value) -> Result<Period> {
    let name = column.name();
    let refused = |why: &dyn std::fmt::Display| Error::invalid(format!("the period of column {name:?}: {why}"));
    if !column.data_type().is_numeric() {
        return Err(refused(&format!("a column of type {} has none", column.data_type())));
    }
    let number = |text: &str, meant| match text.trim().parse::<f64>() {
        Ok(number) => Ok(number),
        Err(_) => match in_unit_of(column, text.trim(), meant) {
            Ok(Some(number)) => Ok(number),
            Ok(None) => Err(refused(&format!("{text:?} is no number with a unit"))),
            Err(error) => Err(refused(&error)),
        },
    };
    let (first, last) = match period {
        Value::Int(length) => (0.0, *length as f64),
        Value::Float(length) => (0.0, *length),
        Value::Text(text) => match text.split_once(':') {
            None => (0.0, number(text, Meant::Distance)?),
            Some((first, last)) => (number(first, Meant::Value)?, number(last, Meant::Value)?),
        },
        other => return Err(refused(&format!("{other} is neither a number nor text"))),
    };
    Period::new(first, last).ok_or_else(|| refused(&format!("{first} to {last} is no interval")))
}

/// # Errors
///
/// `Invalid` if a column is missing or a period is not possible.
pub fn with_periods(schema: &SchemaRef, periods: &[(String, Value)]) -> Result<SchemaRef> {
    let mut fields: Vec<Field> = schema.fields().iter().map(|field| field.as_ref().clone()).collect();
    for (column, period) in periods {
        let field = &mut fields[column_index(schema, column)?];
        let mut metadata = field.metadata().clone();
        metadata.insert(PERIOD, period_of(field, period)?.to_string());
        field.set_metadata(metadata);
    }
    Ok(Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())))
}

/// Adds positions on a sphere to the schema of a new table.
///
/// # Errors
///
/// `Invalid` if a column is missing, has no numbers or no angles, or the period of the longitude is not a full circle.
pub fn with_sphere(schema: &SchemaRef, columns: Option<&[String; 2]>) -> Result<SchemaRef> {
    let Some([longitude, latitude]) = columns else { return Ok(schema.clone()) };
    let [index, other] = [column_index(schema, longitude)?, column_index(schema, latitude)?];
    let field = schema.field(index);
    let refused = |why: String| Err(Error::invalid(format!("sphere: {why}")));
    if index == other {
        return refused(format!("{:?} is both longitude and latitude", field.name()));
    }
    for field in [field, schema.field(other)] {
        if !field.data_type().is_numeric() {
            return refused(format!("column {:?} of type {} has no angles", field.name(), field.data_type()));
        }
    }
    let turn = turn_of(field)?;
    turn_of(schema.field(other))?;
    let schema = match Period::of(field) {
        None => with_periods(schema, &[(field.name().clone(), Value::Float(turn))])?,
        Some(period) if (period.length() / turn - 1.0).abs() < 1e-9 => schema.clone(),
        Some(period) => {
            return refused(format!("{:?} has the period {}, and a turn is {turn}", field.name(), period.length()));
        }
    };
    let fields = schema.fields().iter().enumerate().map(|(at, field)| match at == index {
        false => field.clone(),
        true => {
            let mut metadata = field.metadata().clone();
            metadata.insert(SPHERE, schema.field(other).name().clone());
            Arc::new(field.as_ref().clone().with_metadata(metadata))
        }
    });
    Ok(Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone())))
}

/// A full circle; angles without a unit are in degrees.
fn turn_of(field: &Field) -> Result<f64> {
    let has_unit = field.metadata().get(UNIT).is_some_and(|unit| !unit.trim().is_empty());
    let degree = if has_unit { in_unit_of(field, "1 deg", Meant::Distance)? } else { None };
    Ok(360.0 * degree.unwrap_or(1.0))
}

/// Refuses values outside a period, where `first_row` is the position of the first value in the user's batch.
pub(crate) fn check_inside(column: &Field, values: &ArrayRef, first_row: usize) -> Result<()> {
    let Some(period) = Period::of(column) else { return Ok(()) };
    let of_type = |end: f64| match values.data_type() {
        DataType::Float32 => f64::from(end as f32),
        _ => end,
    };
    let (first, last) = (of_type(period.first), of_type(period.last));
    let found = numbers(values.as_ref()).into_iter().enumerate().find(|(_, number)| *number < first || *number > last);
    let Some((row, number)) = found else { return Ok(()) };
    Err(Error::invalid(format!(
        "column {:?} repeats from {first} to {last}, and is {number} in row {} of the batch: wrap the values, or give \
         the interval that they are in as its period",
        column.name(),
        first_row + row
    )))
}
