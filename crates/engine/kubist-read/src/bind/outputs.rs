//! The columns of a result: stored columns, and expressions over them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kubist_expr::{Output as Parsed, named};

use super::place;
use kubist_catalog::schema::TableSchema;
use kubist_types::cancel::Cancel;
use kubist_types::error::{Error, Result};
use kubist_types::metadata::UNIT;
use kubist_types::query::QuerySpec;

const ALL: &str = "*";

pub(crate) struct Output {
    pub field: Arc<Field>,
    of: Of,
}

enum Of {
    /// A stored column, and its index among the columns that the query reads.
    Stored(usize, usize),
    Computed(Computed),
}

impl Output {
    pub(super) fn all(schema: &TableSchema, spec: &QuerySpec, read: &mut Vec<usize>) -> Result<Vec<Output>> {
        let every = schema.visible();
        let Some(texts) = &spec.columns else {
            read.extend(every);
            let all = every.iter().enumerate().map(|(place, column)| Output {
                field: schema.user_field(*column).clone(),
                of: Of::Stored(*column, place),
            });
            return Ok(all.collect());
        };
        let mut outputs: Vec<Output> = Vec::with_capacity(texts.len());
        for text in texts {
            match schema.column(text) {
                Ok(column) => outputs.push(Output::stored(schema, column, None, read)),
                Err(_) if text.trim() == ALL => {
                    outputs.extend(every.iter().map(|column| Output::stored(schema, *column, None, read)));
                }
                Err(no_column) if is_name(text) => return Err(no_column),
                Err(_) => outputs.push(Output::parse(schema, text, read)?),
            }
        }
        let mut names = HashSet::with_capacity(outputs.len());
        match outputs.iter().find(|output| !names.insert(output.name())) {
            Some(twice) => {
                let name = twice.name();
                Err(Error::invalid(format!("columns: {name:?} is asked for twice; name one of them by AS")))
            }
            None => Ok(outputs),
        }
    }

    pub(super) fn column(&self) -> Option<usize> {
        match &self.of {
            Of::Stored(column, _) => Some(*column),
            Of::Computed(_) => None,
        }
    }

    /// True for an expression over the column at `place` among those that the query reads.
    pub(super) fn computes_from(&self, place: usize) -> bool {
        match &self.of {
            Of::Stored(..) => false,
            Of::Computed(computed) => computed.reads(place),
        }
    }

    pub(super) fn name(&self) -> &str {
        self.field.name()
    }

    pub(super) fn by(&self) -> By {
        match &self.of {
            Of::Stored(_, place) => By::Column(*place),
            Of::Computed(computed) => By::Computed(computed.clone()),
        }
    }

    /// An expression or a column, such as `x * 2 AS width`, whose default name is its text.
    fn parse(schema: &TableSchema, text: &str, read: &mut Vec<usize>) -> Result<Output> {
        let (expression, name) = named(text);
        if let Ok(column) = schema.column(expression) {
            return Ok(Output::stored(schema, column, name, read));
        }
        let of = schema.conditional();
        let parsed = Parsed::parse(expression, &of)
            .map_err(|mistake| Error::invalid(format!("columns: {expression}: {mistake}")))?;
        if let Some(column) = parsed.column() {
            return Ok(Output::stored(schema, schema.stored_index[column], name, read));
        }
        let unit = parsed.unit().map(|unit| (UNIT.to_owned(), unit.to_owned()));
        let field = Field::new(name.as_deref().unwrap_or(expression), parsed.data_type().clone(), true)
            .with_metadata(unit.into_iter().collect::<HashMap<_, _>>());
        Ok(Output { field: Arc::new(field), of: Of::Computed(Computed::new(schema, &of, parsed, read)) })
    }

    fn stored(schema: &TableSchema, column: usize, name: Option<String>, read: &mut Vec<usize>) -> Output {
        let field = schema.user_field(column);
        let field = name.map_or(field.clone(), |name| Arc::new(Field::clone(field).with_name(name)));
        Output { field, of: Of::Stored(column, place(column, read)) }
    }

    pub(super) fn values(
        &self,
        schema: &TableSchema,
        rows: usize,
        columns: &[ArrayRef],
        cancel: &Cancel,
    ) -> Result<ArrayRef> {
        match &self.of {
            Of::Stored(column, place) => schema.to_user(*column, columns[*place].clone()),
            Of::Computed(computed) => computed.values(rows, columns, cancel),
        }
    }
}

pub(crate) enum By {
    Priority,
    Column(usize),
    Computed(Computed),
}

impl By {
    pub(super) fn is_same(&self, other: &By) -> bool {
        match (self, other) {
            (By::Priority, By::Priority) => true,
            (By::Column(one), By::Column(other)) => one == other,
            _ => false,
        }
    }
}

#[derive(Clone)]
pub(crate) struct Computed {
    expression: Parsed,
    /// Fields, and indexes among the columns that the query reads.
    inputs: SchemaRef,
    places: Vec<usize>,
}

impl Computed {
    fn reads(&self, place: usize) -> bool {
        self.places.contains(&place)
    }

    pub(super) fn new(schema: &TableSchema, of: &Schema, expression: Parsed, read: &mut Vec<usize>) -> Computed {
        let columns = expression.columns();
        let places = columns.iter().map(|column| place(schema.stored_index[*column], read)).collect();
        let inputs = columns.iter().map(|column| of.fields()[*column].clone()).collect::<Vec<_>>();
        Computed { expression, inputs: Arc::new(Schema::new(inputs)), places }
    }

    pub(super) fn data_type(&self) -> &DataType {
        self.expression.data_type()
    }

    pub(crate) fn values(&self, rows: usize, columns: &[ArrayRef], cancel: &Cancel) -> Result<ArrayRef> {
        let columns = self.places.iter().map(|place| columns[*place].clone()).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(self.inputs.clone(), columns, &options).map_err(Error::kernel)?;
        Ok(self.expression.evaluate(&batch, &|| cancel.is_set())?)
    }
}

pub(super) fn is_name(text: &str) -> bool {
    text.chars().all(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '.'))
}
