//! Parses option values strictly, but bounds stay text until the type of the column is known ([`value`]).

mod amounts;
mod columns;
mod grid;
mod groups;
mod region;
mod shape;

pub use amounts::{Goal, bytes, fraction, goal, number_range, seconds, share, size, steps, why_no_integer, window};
pub use columns::{Bounds, ColumnText, Periods, Types, Units, charts, entry, named_table, new_column};
pub use grid::{DimensionText, dimension, dimensions};
pub use groups::{Aspect, Drawing, Entry, Group, IngestGroups, Reading, grouped};
pub use region::{Columns, OrderBy, Ranges, bounds, column, columns, order_by, per_cell, value};
pub use shape::shape as region;

/// Splits `a=1,b=2`; `shape` describes the expected form of the parts in messages.
fn parts(text: &str, shape: &str) -> Result<Vec<(String, String)>, String> {
    text.split(',')
        .map(|part| match part.split_once('=') {
            Some((name, value)) if !name.trim().is_empty() && !value.trim().is_empty() => {
                Ok((name.trim().to_string(), value.trim().to_string()))
            }
            _ => Err(format!("{part:?}: expected {shape}")),
        })
        .collect()
}
