//! Keys to group records by: a value of any plain type per row.

use crate::bind;
use crate::bound::{Column, Compute, Kind, Operand, Step, Test, Text};
use crate::error::ExprError;
use crate::evaluate::compute::vector;
use crate::evaluate::{self, text};
use crate::meaning::{Meaning, describe};
use crate::names;
use crate::parse;
use crate::rows::{Rows, parts};
use crate::types::HUGE;
use crate::vector::{Values, Vector};
use arrow_array::types::{Decimal128Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, PrimitiveArray, RecordBatch, new_empty_array};
use arrow_buffer::{NullBuffer, i256};
use arrow_schema::{DataType, Schema};
use arrow_select::concat::concat;
use kubist_index::with_exact_primitive;
use std::sync::Arc;

/// Maximum bytes of a text in a `CASE` that is used as a group, because each row may get one.
const LONGEST_TEXT: usize = 1_024;

#[derive(Clone, Debug)]
pub struct Grouping {
    of: Of,
    data_type: DataType,
}

#[derive(Clone, Debug)]
enum Of {
    Column(Arc<Column>),
    Number(Compute),
    Truth(Test),
    Text(Text),
}

impl Grouping {
    /// # Errors
    ///
    /// [`ExprError`] names the mistake, or the column that does not fit.
    pub fn parse(sql: &str, schema: &Schema) -> Result<Grouping, ExprError> {
        let meaning = bind::bind(parse::parse(sql)?, schema).map_err(|error| names::with_hint(error, sql, schema))?;
        let of = match meaning {
            Meaning::Test(test) => Of::Truth(*test),
            Meaning::Choice(choice) => Of::Text(bounded(Text::Choice(choice))?),
            Meaning::Operand(operand) => match *operand {
                Operand::Column(column) => Of::Column(column),
                Operand::Compute(compute) => Of::Number(compute),
                Operand::Text(call) => Of::Text(bounded(Text::Call(call))?),
            },
            constant => {
                let message = format!("{} is the same for every row: name a column", describe(&constant));
                return Err(ExprError::type_mistake(message));
            }
        };
        let data_type = match &of {
            Of::Column(column) => column.data_type.clone(),
            Of::Truth(_) => DataType::Boolean,
            Of::Text(_) => DataType::Utf8View,
            Of::Number(compute) => match (&compute.stored, compute.kind) {
                (Some(stored), _) => stored.clone(),
                (None, Kind::Int) => HUGE,
                (None, Kind::F32) => DataType::Float32,
                (None, Kind::F64) => DataType::Float64,
            },
        };
        Ok(Grouping { of, data_type })
    }

    /// The type of the column or cast, or 128 bits (decimals of scale 0) for computed integers.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    pub(crate) fn is_plain_integer(&self) -> bool {
        match &self.of {
            Of::Number(Compute { stored: None, kind: Kind::Int, step, .. }) => !matches!(step, Step::Cast(..)),
            _ => false,
        }
    }

    pub(crate) fn column(&self) -> Option<usize> {
        match &self.of {
            Of::Column(column) => Some(column.index),
            _ => None,
        }
    }

    /// Ascending schema indices of the columns that it reads.
    pub fn columns(&self) -> Vec<usize> {
        let mut columns = Vec::new();
        let mut visit = |column: &Column| columns.push(column.index);
        match &self.of {
            Of::Column(column) => visit(column),
            Of::Number(compute) => compute.each_column(&mut visit),
            Of::Truth(test) => test.each_column(&mut visit),
            Of::Text(text) => text.each_column(&mut visit),
        }
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// One value per row. The batch needs only the columns that the expression reads, found by name. A true
    /// `stopped` cancels the evaluation.
    ///
    /// # Errors
    ///
    /// The errors of `Predicate::evaluate`; [`ExprError::Overflow`] also names a value that its type cannot
    /// hold.
    pub fn evaluate(&self, batch: &RecordBatch, stopped: &dyn Fn() -> bool) -> Result<ArrayRef, ExprError> {
        let found = parts(batch).map(|part| self.values(&Rows::new(&part, stopped)));
        let found = found.collect::<Result<Vec<ArrayRef>, ExprError>>()?;
        let found: Vec<&dyn Array> = found.iter().map(|array| array.as_ref()).collect();
        Ok(concat(&found)?)
    }

    fn values(&self, rows: &Rows<'_>) -> Result<ArrayRef, ExprError> {
        Ok(match &self.of {
            Of::Column(column) => rows.array(column)?,
            Of::Number(compute) => self.stored(vector(compute, rows)?)?,
            Of::Truth(test) => {
                let [yes, no] = evaluate::answers(test, rows, [true, false])?;
                let known = NullBuffer::new(&yes | &no);
                Arc::new(BooleanArray::new(yes, Some(known)))
            }
            Of::Text(text) => text::array(text, rows)?,
        })
    }

    fn stored(&self, found: Vector) -> Result<ArrayRef, ExprError> {
        let Vector { values, nulls } = found;
        let values = match values {
            Values::F32(values) => {
                let values: Vec<f32> = values.into_iter().map(|value| value + 0.0).collect();
                return Ok(Arc::new(PrimitiveArray::<Float32Type>::new(values.into(), nulls)));
            }
            Values::F64(values) => {
                let values: Vec<f64> = values.into_iter().map(|value| value + 0.0).collect();
                return Ok(Arc::new(PrimitiveArray::<Float64Type>::new(values.into(), nulls)));
            }
            Values::Int(values) => values,
        };
        if self.data_type == HUGE {
            let whole = PrimitiveArray::<Decimal128Type>::new(values.into(), nulls);
            return Ok(Arc::new(whole.with_data_type(HUGE)));
        }
        stored(&values, nulls, &self.data_type)
    }
}

fn stored(values: &[i128], nulls: Option<NullBuffer>, data_type: &DataType) -> Result<ArrayRef, ExprError> {
    use crate::cell::Cell;
    with_exact_primitive!(data_type, T => {
        let mut found = Vec::with_capacity(values.len());
        for (row, value) in values.iter().enumerate() {
            let native = <<T as arrow_array::ArrowPrimitiveType>::Native as Cell>::from_whole(i256::from_i128(*value));
            if native.as_i128() != *value && nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
                return Err(ExprError::Overflow { message: format!("{value} does not fit {data_type}") });
            }
            found.push(native);
        }
        Ok(Arc::new(PrimitiveArray::<T>::new(found.into(), nulls).with_data_type(data_type.clone())))
    }, _ => Ok(new_empty_array(data_type)))
}

fn bounded(text: Text) -> Result<Text, ExprError> {
    fn fits(text: &Text) -> bool {
        match text {
            Text::Literal(text) => text.len() <= LONGEST_TEXT,
            Text::Choice(choice) => choice.whens.iter().map(|(_, text)| text).chain([&choice.otherwise]).all(fits),
            Text::Call(call) => call.operands.iter().all(fits),
            Text::Null | Text::Column(_) => true,
        }
    }
    match fits(&text) {
        true => Ok(text),
        false => Err(ExprError::TooLarge { limit: format!("{LONGEST_TEXT} bytes in a text of a CASE") }),
    }
}
