//! Parses error bounds: a number is in the column's unit, and a string may have another unit or be relative.

use arrow_schema::Field;
use kubist_expr::{Meant, Value, in_unit_of};
use kubist_index::accuracy::{Accuracy, NoAccuracy};
use kubist_types::{Error, Result};

/// # Errors
///
/// `Invalid` names the column and the invalid text.
pub fn accuracy_of(column: &Field, bound: &Value) -> Result<Accuracy> {
    let name = column.name();
    let refused = |why: &dyn std::fmt::Display| Error::invalid(format!("the accuracy of column {name:?}: {why}"));
    let absolute = |bound: f64| Accuracy::absolute(bound).map_err(|why| refused(&why));
    match bound {
        Value::Int(bound) => absolute(*bound as f64),
        Value::Float(bound) => absolute(*bound),
        Value::Text(text) => match text.parse() {
            Err(why @ NoAccuracy::NoNumber(_)) => match in_unit_of(column, text, Meant::Distance) {
                Ok(Some(bound)) => absolute(bound),
                Ok(None) => Err(refused(&why)),
                Err(error) => Err(refused(&error)),
            },
            parsed => parsed.map_err(|why| refused(&why)),
        },
        other => Err(refused(&format!("{other} is neither a number nor text"))),
    }
}
