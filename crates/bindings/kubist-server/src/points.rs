//! Points for a graphics card: positions and columns as float32, cell by cell.
//!
//! A view consists of cells, each with a window of priorities. A request lists many cells, and the response is
//! a sequence of frames in the same order:
//!
//! ```text
//! u32 cell    its index in the request
//! u32 rows
//! u32 last    1 in the last frame of a cell, else 0
//! u32 zero
//! f32 positions [rows][axes]      less the cell's origin
//! f32 column    [rows]            for each column, less its origin
//! ```
//!
//! All numbers are little-endian. A cell contains the rows with `low <= position < high`, so adjacent cells
//! share no row. Rows with a position that is not a finite float32 are left out. In columns, null becomes NaN,
//! and a finite number beyond the range of float32 becomes the nearest float32.

use std::collections::HashMap;
use std::io::Write;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Schema};
use kubist::{Bound, Query, RunOptions, Snapshot, Value};

use crate::ask::{Attribute, Cell, Points, Region};
use crate::problem::{Problem, Result};
use crate::respond::Out;
use crate::served_table::kind_of;

pub fn send(snapshot: &Snapshot, region: &Region, asked: &Points, out: &mut Out) -> Result<()> {
    asked.check()?;
    let schema = snapshot.schema();
    let asked = &with_own_names(asked, &schema)?;
    for (name, drawn) in
        asked.position.iter().map(|name| (name, true)).chain(asked.columns.iter().map(|column| (&column.name, false)))
    {
        check_kind(&schema, name, drawn)?;
    }
    let mut columns: Vec<String> = Vec::new();
    for name in asked.position.iter().chain(asked.columns.iter().map(|column| &column.name)) {
        if !columns.contains(name) {
            columns.push(name.clone());
        }
    }
    // Reports errors of the region before the first cell is sent.
    let run = RunOptions::with_cancel(&out.cancel);
    let spec = Query { columns: Some(columns), ..region.spec.clone() };
    snapshot.query(run.clone().of(spec.clone().limit(0)))?;
    out.header("content-type", "application/vnd.kubist.points");
    for (index, cell) in asked.cells.iter().enumerate() {
        if let Some(query) = of_cell(spec.clone(), &schema, &asked.position, cell)? {
            for batch in snapshot.query(run.clone().of(query))? {
                frame(index, &batch?, asked, cell, out)?;
            }
        }
        header(index, 0, true, out)?;
        out.hand_over().map_err(Problem::of_sending)?;
    }
    Ok(())
}

fn with_own_names(asked: &Points, schema: &Schema) -> Result<Points> {
    let own = |name: &String| match kubist_expr::column_index(schema, name) {
        Ok(column) => Ok(schema.field(column).name().clone()),
        Err(error) => Err(Problem::invalid(error.to_string())),
    };
    let attribute = |column: &Attribute| Ok(Attribute { name: own(&column.name)?, ..column.clone() });
    Ok(Points {
        position: asked.position.iter().map(own).collect::<Result<_>>()?,
        columns: asked.columns.iter().map(attribute).collect::<Result<_>>()?,
        cells: asked.cells.clone(),
    })
}

fn check_kind(schema: &Schema, name: &str, drawn: bool) -> Result<()> {
    let field = schema.field_with_name(name).map_err(|error| Problem::invalid(error.to_string()))?;
    match (kind_of(field.data_type()), drawn) {
        ("number" | "time", _) | ("boolean" | "text", false) => Ok(()),
        (_, true) => {
            Err(Problem::invalid(format!("column {name:?} is {}, which cannot be an axis", field.data_type())))
        }
        _ => Err(Problem::invalid(format!("column {name:?} is {}, which cannot be drawn", field.data_type()))),
    }
}

/// `None` if the cell is empty.
fn of_cell(mut query: Query, schema: &Schema, axes: &[String], cell: &Cell) -> Result<Option<Query>> {
    let mut conditions: Vec<String> = query.filter.iter().map(|filter| format!("({filter})")).collect();
    for (axis, name) in axes.iter().enumerate() {
        let (low, high) = (cell.low[axis], cell.high[axis]);
        let data_type = schema.field_with_name(name).map_err(Problem::of_arrow)?.data_type();
        let whole = data_type.is_integer() || kind_of(data_type) == "time";
        // For integers, v >= low is v >= ceil(low), and v < high is v <= ceil(high) - 1.
        let low_end = low.map(|low| if whole { Value::Int(low.ceil() as i128) } else { Value::Float(low) });
        let high_end = high.map(|high| match whole {
            true => Value::Int((high.ceil() as i128).saturating_sub(1)),
            false => Value::Float(high),
        });
        if let (Some(high), false) = (high, whole) {
            conditions.push(format!("\"{}\" < {high:?}", name.replace('"', "\"\"")));
        }
        if let (Some(Value::Int(low)), Some(Value::Int(high))) = (&low_end, &high_end)
            && low > high
        {
            return Ok(None);
        }
        query.bounds.push(Bound { column: name.clone(), low: low_end, high: high_end });
    }
    query.filter = (!conditions.is_empty()).then(|| conditions.join(" AND "));
    let (low, high) = query.window.unwrap_or((0.0, 1.0));
    let (low, high) = (low.max(cell.window.0), high.min(cell.window.1));
    query.window = Some((low, high));
    Ok((low < high).then_some(query))
}

fn header(cell: usize, rows: usize, last: bool, out: &mut Out) -> Result<()> {
    for word in [cell as u32, rows as u32, last as u32, 0] {
        out.write_all(&word.to_le_bytes()).map_err(Problem::of_sending)?;
    }
    Ok(())
}

fn frame(index: usize, batch: &RecordBatch, asked: &Points, cell: &Cell, out: &mut Out) -> Result<()> {
    let of = |name: &str| batch.column_by_name(name).cloned().ok_or_else(|| Problem::invalid(name));
    let axes = asked.position.iter().map(|name| numbers(&of(name)?)).collect::<Result<Vec<_>>>()?;
    let is_placed = |row: &usize| {
        let mut places = axes.iter().zip(&cell.origin).map(|(axis, origin)| (axis[*row] - origin) as f32);
        places.all(f32::is_finite)
    };
    let drawn: Vec<usize> = (0..batch.num_rows()).filter(is_placed).collect();
    if drawn.is_empty() {
        return Ok(());
    }
    header(index, drawn.len(), false, out)?;
    for row in &drawn {
        for (axis, origin) in axes.iter().zip(&cell.origin) {
            out.write_all(&((axis[*row] - origin) as f32).to_le_bytes()).map_err(Problem::of_sending)?;
        }
    }
    for column in &asked.columns {
        let values = attribute(&of(&column.name)?, column)?;
        for row in &drawn {
            out.write_all(&values[*row].to_le_bytes()).map_err(Problem::of_sending)?;
        }
    }
    Ok(())
}

/// Null is NaN.
pub fn numbers(array: &ArrayRef) -> Result<Vec<f64>> {
    let values = match array.data_type() {
        DataType::Float64 => array.clone(),
        // Arrow casts dates and times to integers, but not to floats.
        data_type if kind_of(data_type) == "time" => {
            let counts = match data_type.primitive_width() {
                Some(4) => arrow_cast::cast(array, &DataType::Int32).map_err(Problem::of_arrow)?,
                _ => arrow_cast::cast(array, &DataType::Int64).map_err(Problem::of_arrow)?,
            };
            arrow_cast::cast(&counts, &DataType::Float64).map_err(Problem::of_arrow)?
        }
        _ => arrow_cast::cast(array, &DataType::Float64).map_err(Problem::of_arrow)?,
    };
    let values = values.as_primitive::<Float64Type>();
    Ok((0..values.len()).map(|row| if values.is_null(row) { f64::NAN } else { values.value(row) }).collect())
}

fn attribute(array: &ArrayRef, column: &Attribute) -> Result<Vec<f32>> {
    if kind_of(array.data_type()) != "text" && column.values.is_none() {
        let near = |value: f64| match value.is_finite() {
            true => (value - column.origin).clamp(f32::MIN.into(), f32::MAX.into()) as f32,
            false => value as f32,
        };
        return Ok(numbers(array)?.into_iter().map(near).collect());
    }
    let text = arrow_cast::cast(array, &DataType::Utf8).map_err(Problem::of_arrow)?;
    let indices: HashMap<&str, f32> =
        column.values.iter().flatten().enumerate().map(|(index, value)| (value.as_str(), index as f32)).collect();
    let index = |value: Option<&str>| value.map_or(f32::NAN, |value| indices.get(value).copied().unwrap_or(-1.0));
    Ok(text.as_string::<i32>().iter().map(index).collect())
}
