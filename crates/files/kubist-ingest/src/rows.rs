//! Converts file rows to table rows: columns, types, units, missing positions.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, Float64Array, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_cast::{CastOptions, cast_with_options, display::array_value_to_string};
use arrow_schema::{DataType, Field, Fields, Schema};
use arrow_select::filter::filter_record_batch;

use crate::error::{Error, Result};
use crate::narrow;
use crate::request::Request;
use crate::source::{Source, Step};
use crate::table::{Open, unit};

/// Adds the time that the user or the step gives.
pub fn with_time(batch: RecordBatch, request: &Request, open: &Open, step: &Step) -> Result<RecordBatch> {
    if batch.column_by_name("time").is_some() || open.state.schema.field_with_name("time").is_err() {
        return Ok(batch);
    }
    let Some(time) = request.time.or(step.time) else { return Ok(batch) };
    let mut fields: Vec<Arc<Field>> = batch.schema().fields().iter().cloned().collect();
    fields.push(Arc::new(Field::new("time", DataType::Float64, true)));
    let mut columns = batch.columns().to_vec();
    columns.push(Arc::new(Float64Array::from_value(time, batch.num_rows())));
    of(fields, columns, batch.num_rows())
}

/// The rows that have a value in each dimension.
pub fn with_positions(batch: &RecordBatch, dimensions: &[String]) -> Result<RecordBatch> {
    let columns = dimensions.iter().filter_map(|name| batch.column_by_name(name));
    let missing: Vec<_> = columns.map(|column| missing(column)).collect();
    let here: BooleanArray = (0..batch.num_rows()).map(|row| Some(!missing.iter().any(|rows| rows(row)))).collect();
    filter_record_batch(batch, &here).map_err(Error::invalid)
}

fn missing(column: &ArrayRef) -> Box<dyn Fn(usize) -> bool + '_> {
    let nulls = column.logical_nulls();
    let is_null = move |row: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
    match column.data_type() {
        DataType::Float64 => {
            let values = column.as_primitive::<Float64Type>();
            Box::new(move |row| is_null(row) || values.value(row).is_nan())
        }
        DataType::Float32 => {
            let values = column.as_primitive::<Float32Type>();
            Box::new(move |row| is_null(row) || values.value(row).is_nan())
        }
        DataType::Float16 => {
            let values = column.as_primitive::<Float16Type>();
            Box::new(move |row| is_null(row) || values.value(row).is_nan())
        }
        _ => Box::new(is_null),
    }
}

/// The column for the table with the unit of the file, unless the user gave a unit.
pub fn measured(field: &Field, batch: &Schema, source: &dyn Source, request: &Request) -> Field {
    if request.states_unit(field.name()) {
        return field.clone();
    }
    let of_rows = batch.field_with_name(field.name()).ok().and_then(unit);
    let of_file = match source.input() {
        None => source.facts().schema.field_with_name(field.name()).ok().and_then(unit),
        Some(_) => None,
    };
    let said = of_rows.or(of_file).map(|unit| ("unit".to_owned(), unit.to_owned()));
    field.clone().with_metadata(said.into_iter().collect::<std::collections::HashMap<_, _>>())
}

/// Returns rows in the table's columns and the file's units; the table converts the units. They begin at row `first` of
/// the step. The names of rounded columns are added to the list.
///
/// # Errors
///
/// A position or a column that the table needs is missing, or a value does not fit.
pub fn fitted(
    batch: &RecordBatch,
    (request, open): (&Request, &Open),
    source: &dyn Source,
    step: &Step,
    first: u64,
    rounded: &mut Vec<String>,
) -> Result<RecordBatch> {
    let state = &open.state;
    let is_native = source.input().is_some();
    let schema = batch.schema();
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for field in state.schema.fields() {
        let Some(column) = batch.column_by_name(field.name()) else {
            if state.needed.contains(field.name()) || !field.is_nullable() {
                return Err(Error::invalid(format!(
                    "{}: there is no column '{}', and the table needs a value in it",
                    step.label,
                    field.name()
                )));
            }
            if !state.added.contains(field.name()) {
                columns.push(new_null_array(field.data_type(), batch.num_rows()));
                fields.push(field.clone());
            }
            continue;
        };
        let column = converted(column, field)
            .map_err(|error| Error::invalid(format!("{}: column {}: {error}", step.label, field.name())))?;
        let mut column = column;
        let own = field.as_ref().clone().with_data_type(column.data_type().clone());
        let mut own = measured(&own, &schema, source, request);
        narrow::check_dates(&column, field, unit(&own), first)?;
        let kept = narrow::rounded(&column, field);
        let is_typed = request.types.iter().any(|(name, _)| name == field.name());
        if kept.is_some() && !is_typed && !rounded.contains(field.name()) {
            rounded.push(field.name().clone());
        }
        if unit(&own).is_none_or(|own| Some(own) == unit(field)) {
            narrow::check_integers(&column, field, first)?;
            narrow::check_floats(&column, field, first)?;
            if let Some(kept) = kept {
                own = own.with_data_type(kept.data_type().clone());
                column = kept;
            }
        }
        if !is_native && column.data_type().is_floating() && open.dimensions.contains(field.name()) {
            check_position(batch, &column, field.name(), step, first)?;
        }
        columns.push(column);
        fields.push(Arc::new(own));
    }
    of(fields, columns, batch.num_rows())
}

fn check_position(batch: &RecordBatch, column: &ArrayRef, name: &str, step: &Step, first: u64) -> Result<()> {
    let is_missing = missing(column);
    let Some(row) = (0..column.len()).find(|row| is_missing(*row)) else { return Ok(()) };
    let text = |column: &ArrayRef| match column.is_null(row) {
        true => "None".to_owned(),
        false => array_value_to_string(column, row).unwrap_or_default().to_lowercase(),
    };
    let here = ["frame", "atom"].into_iter().filter_map(|name| Some((name, batch.column_by_name(name)?)));
    let of_what: Vec<String> = here.map(|(name, column)| format!("{name} {}", text(column))).collect();
    let of_what = if of_what.is_empty() { String::new() } else { format!(" ({})", of_what.join(", ")) };
    let row = first + row as u64;
    Err(Error::invalid(format!("{}: row {row}{of_what}: {name} is {}", step.label, text(column))))
}

/// Converts a column; numbers and times are unchanged, because the table decides whether they fit.
fn converted(column: &ArrayRef, field: &Field) -> std::result::Result<ArrayRef, arrow_schema::ArrowError> {
    use DataType::*;
    let kind = |data_type: &DataType| match data_type {
        other if other.is_numeric() => 1,
        Timestamp(..) => 2,
        Duration(_) => 3,
        Time32(_) | Time64(_) => 4,
        Date32 | Date64 => 5,
        _ => 0,
    };
    let (from, to) = (column.data_type(), field.data_type());
    if from == to || kind(from) != 0 && kind(from) == kind(to) {
        return Ok(column.clone());
    }
    cast_with_options(column, to, &CastOptions { safe: false, ..CastOptions::default() })
}

fn of(fields: Vec<Arc<Field>>, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(Fields::from(fields))), columns, &options)
        .map_err(Error::invalid)
}
