//! Wider types of columns for a copy: each value has an equal one in the wider type. A table cannot widen a column in
//! place, because runs store keys that depend on the type.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kubist_format::alteration::Alteration;
use kubist_types::error::{Error, Result};

use kubist_catalog::incoming_column::{is_contained, wider};
use kubist_catalog::schema::TableSchema;

pub struct Widening(Vec<(String, DataType)>);

impl Widening {
    /// # Errors
    ///
    /// `Invalid` if a column is not there, or the type does not contain all its values.
    pub fn new(types: &[(String, DataType)], schema: &TableSchema) -> Result<Widening> {
        let of_column = |(name, wanted): &(String, DataType)| {
            let column = schema.column(name)?;
            let field = schema.user_field(column);
            let is_float = wanted.is_floating() && !field.data_type().is_floating();
            if !is_contained(field.data_type(), wanted) {
                return Err(Error::invalid(format!(
                    "column {:?} has the type {}, and {wanted} is no wider number: a copy widens integers and floats",
                    field.name(),
                    field.data_type()
                )));
            }
            if is_float && schema.identity.contains(&column) {
                return Err(Error::invalid(format!(
                    "column {:?} is of the identity, whose integers stay integers: {wanted} would change the samples",
                    field.name()
                )));
            }
            Ok((field.name().clone(), wanted.clone()))
        };
        types.iter().map(of_column).collect::<Result<_>>().map(Widening)
    }

    fn field(&self, field: &Arc<Field>) -> Arc<Field> {
        match self.0.iter().find(|(name, _)| name == field.name()) {
            Some((_, wanted)) => Arc::new(field.as_ref().clone().with_data_type(wanted.clone())),
            None => field.clone(),
        }
    }

    pub fn schema(&self, schema: &SchemaRef) -> SchemaRef {
        let fields: Vec<_> = schema.fields().iter().map(|field| self.field(field)).collect();
        Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
    }

    /// # Errors
    ///
    /// `Internal` if Arrow fails.
    pub fn alteration(&self, alteration: Alteration) -> Result<Alteration> {
        Ok(match alteration {
            Alteration::AddColumn { field, default, accuracy } => {
                let field = self.field(&Arc::new(field));
                let default = match self.0.iter().any(|(name, _)| name == field.name()) {
                    true => wider(&default, field.data_type())?,
                    false => default,
                };
                Alteration::AddColumn { field: field.as_ref().clone(), default, accuracy }
            }
            other => other,
        })
    }

    /// # Errors
    ///
    /// `Internal` if Arrow fails.
    pub fn rows(&self, batch: RecordBatch) -> Result<RecordBatch> {
        if self.0.is_empty() {
            return Ok(batch);
        }
        let schema = self.schema(&batch.schema());
        let columns = batch.columns().iter().zip(schema.fields());
        let columns = columns.map(|(column, field)| wider(column, field.data_type())).collect::<Result<Vec<_>>>()?;
        RecordBatch::try_new(schema, columns).map_err(Error::kernel)
    }
}
