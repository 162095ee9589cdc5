//! Fields of a schema: possible dimensions, stored types, metadata and names.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use kubist_format::column_type::stored_type;
use kubist_index::order;
use kubist_types::error::{Error, Result};
use kubist_types::metadata::Metadata;

pub fn check_dimension(name: &str, data_type: &DataType, is_known: bool) -> Result<()> {
    if !order::is_dimension_type(data_type) {
        return Err(Error::invalid(format!(
            "column {name:?} has the type {data_type} and cannot be a dimension: \
             dimensions are integers, floats, dates, times or timestamps"
        )));
    }
    match is_known {
        true => Err(Error::invalid(format!("column {name:?} is given twice as a dimension"))),
        false => Ok(()),
    }
}

pub fn as_stored(field: &Field) -> Arc<Field> {
    Arc::new(field.clone().with_data_type(stored_type(field.data_type())))
}

/// Inserts the values; a null removes its key.
pub fn merge(metadata: &mut Metadata, values: &Metadata) {
    for (key, value) in values {
        match value.is_null() {
            true => drop(metadata.remove(key)),
            false => drop(metadata.insert(key.clone(), value.clone())),
        }
    }
}

pub fn column_names(schema: &Schema) -> String {
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    names.join(", ")
}
