//! Grouping keys: columns, and expressions over them.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::types::Decimal128Type;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, cast::AsArray};
use arrow_schema::{DataType, Field, Schema};
use kubist_expr::{Expression, Grouping, named};
use kubist_index::priority::is_identity_type;
use kubist_population::Population;
use kubist_types::Cancel;
use kubist_types::error::{Error, Result};
use kubist_types::metadata::UNIT;

pub struct GroupBy {
    /// Describes the labels, where an expression without a name has its text as name.
    pub field: Arc<Field>,
    of: Of,
}

enum Of {
    Column(String),
    Expression(Grouping),
}

impl GroupBy {
    /// Resolves a column name, or parses an expression over the columns of `visible`, with an optional name
    /// after `AS`. Also returns the stored columns that it reads.
    pub fn bind(text: &str, of: &impl Population, visible: &Schema) -> Result<(GroupBy, Vec<usize>)> {
        let (text, name) = match of.find(text) {
            Ok(_) => (text, None),
            Err(_) => named(text),
        };
        let (group, columns) = match of.find(text) {
            Ok(column) => {
                let field = of.stored().fields()[column].clone();
                let unit = visible.field_with_name(field.name()).ok().and_then(|field| field.metadata().get(UNIT));
                let of = Of::Column(field.name().clone());
                let shown = name.unwrap_or_else(|| field.name().clone());
                let field = in_unit(Field::clone(&field).with_name(shown), unit.cloned());
                (GroupBy { of, field }, vec![column])
            }
            Err(no_column) if is_name(text) => return Err(no_column),
            Err(_) => {
                let grouping = Grouping::parse(text, visible)
                    .map_err(|mistake| Error::invalid(format!("group_by {text}: {mistake}")))?;
                let columns = grouping.columns().into_iter().map(|column| of.place(column)).collect();
                let unit = Expression::parse(text, visible).ok().and_then(|number| number.unit().map(str::to_owned));
                let field = in_unit(
                    Field::new(name.as_deref().unwrap_or(text.trim()), grouping.data_type().clone(), true),
                    unit,
                );
                (GroupBy { of: Of::Expression(grouping), field }, columns)
            }
        };
        let (name, kind) = (group.field.name(), group.field.data_type());
        match is_identity_type(kind) {
            true => Ok((group, columns)),
            false => Err(Error::invalid(format!("group_by: column {name:?} has type {kind}, which cannot be grouped"))),
        }
    }

    pub fn labels(&self, batch: &RecordBatch, cancel: &Cancel) -> Result<ArrayRef> {
        match &self.of {
            Of::Column(name) => Ok(batch.column_by_name(name).cloned().expect("it was asked for")),
            Of::Expression(grouping) => Ok(grouping.evaluate(batch, &|| cancel.is_set())?),
        }
    }

    /// Labels for the result: computed integers in 64 bits if all fit, and plain text.
    pub fn answered(&self, labels: &ArrayRef) -> Result<ArrayRef> {
        match (&self.of, labels.data_type()) {
            (Of::Expression(_), DataType::Decimal128(38, 0)) => {
                let values = labels.as_primitive::<Decimal128Type>();
                let small: Option<Vec<Option<i64>>> = values
                    .iter()
                    .map(|value| value.map_or(Some(None), |value| i64::try_from(value).ok().map(Some)))
                    .collect();
                Ok(small.map_or(labels.clone(), |small| Arc::new(Int64Array::from(small))))
            }
            (Of::Expression(_), DataType::Utf8View) => arrow_cast::cast(labels, &DataType::Utf8).map_err(Error::kernel),
            _ => Ok(labels.clone()),
        }
    }
}

fn in_unit(field: Field, unit: Option<String>) -> Arc<Field> {
    let metadata = unit.map(|unit| (UNIT.to_owned(), unit));
    Arc::new(field.with_metadata(metadata.into_iter().collect::<HashMap<_, _>>()))
}

fn is_name(text: &str) -> bool {
    text.chars().all(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '.'))
}
