//! The argument of an aggregate: an SQL text that gives one number per row. It is a column, arithmetic over columns, or
//! a condition, which counts as 1 or 0.

use crate::arithmetic;
use crate::bind;
use crate::bound::{Column, Compute, Kind, Operand, Step, Test};
use crate::domain::Family;
use crate::error::ExprError;
use crate::evaluate;
use crate::evaluate::compute::vector;
use crate::meaning::{Meaning, computed, describe, describe_operand, family};
use crate::measured::{self, Meant};
use crate::names;
use crate::parse;
use crate::rows::{Rows, parts};
use crate::types::HUGE;
use crate::unit::Unit;
use crate::vector::{Values, Vector};
use arrow_array::cast::AsArray;
use arrow_array::types::Decimal256Type;
use arrow_array::{Array, RecordBatch};
use arrow_buffer::{NullBuffer, i256};
use arrow_schema::{DataType, Schema};
use std::collections::HashMap;

/// A parsed expression, bound to the columns of a schema.
#[derive(Clone, Debug)]
pub struct Expression {
    of: Of,
}

#[derive(Clone, Debug)]
enum Of {
    Number(Compute),
    /// 1 if the condition is true, 0 if it is false, missing if it is unknown (SQL's comparison with null).
    Truth(Test),
}

impl Expression {
    /// Parses a column, arithmetic or a condition, and binds it to `schema`. Dates, times and durations are
    /// numbers in their column's unit.
    ///
    /// # Errors
    ///
    /// [`ExprError`] names the mistake, or the column that does not fit; it refuses text, bytes and constants.
    pub fn parse(sql: &str, schema: &Schema) -> Result<Expression, ExprError> {
        let meaning = bind::bind(parse::parse(sql)?, schema).map_err(|error| names::with_hint(error, sql, schema))?;
        let of = match meaning {
            Meaning::Test(test) => Of::Truth(*test),
            Meaning::Operand(operand) => match family(&operand) {
                Family::Bool => Of::Truth(bind::as_test(Meaning::Operand(operand))?),
                Family::Null | Family::Text | Family::Binary => {
                    return Err(ExprError::type_mistake(format!("{} is not a number", describe_operand(&operand))));
                }
                _ => Of::Number(in_doubles(*operand)),
            },
            Meaning::Choice(_) => return Err(ExprError::type_mistake("a CASE of texts is not a number")),
            constant => {
                let message = format!("{} is the same for every row: name a column", describe(&constant));
                return Err(ExprError::type_mistake(message));
            }
        };
        Ok(Expression { of })
    }

    pub(crate) fn of_number(compute: Compute) -> Expression {
        Expression { of: Of::Number(compute) }
    }

    pub(crate) fn number(&self) -> Option<&Compute> {
        match &self.of {
            Of::Number(compute) => Some(compute),
            Of::Truth(_) => None,
        }
    }

    /// The unit of the values. `None` if there is none or it is uncertain: the factor in `x * 1e6` may convert metres
    /// to micrometres, or multiply the length.
    pub fn unit(&self) -> Option<&str> {
        self.known_unit().filter(|unit| !unit.scaled).map(|unit| &*unit.name)
    }

    /// The unit that follows from the columns, also if a factor makes it uncertain.
    fn known_unit(&self) -> Option<&Unit> {
        match &self.of {
            Of::Number(compute) => compute.unit.as_deref(),
            Of::Truth(_) => None,
        }
    }

    /// The Arrow metadata of a column with these values: its unit.
    pub fn metadata(&self) -> HashMap<String, String> {
        self.known_unit().map(names::metadata_of).unwrap_or_default()
    }

    /// Converts a text with a unit, such as `20um`, to the unit of this expression; `None` if the text has no unit.
    ///
    /// # Errors
    ///
    /// [`ExprError::Type`] if the expression has no unit, or a unit of another quantity.
    pub fn in_its_unit(&self, text: &str, meant: Meant) -> Result<Option<f64>, ExprError> {
        let operand = match &self.of {
            Of::Number(Compute { step: Step::Column(column), .. }) => Operand::Column(column.clone()),
            Of::Number(compute) => Operand::Compute(compute.clone()),
            Of::Truth(test) => arithmetic::truth(test.clone()),
        };
        measured::of_text(text, &operand, meant)
    }

    /// Indices in the schema of the columns that the expression reads, in ascending order.
    pub fn columns(&self) -> Vec<usize> {
        let mut columns = Vec::new();
        let mut visit = |column: &Column| columns.push(column.index);
        match &self.of {
            Of::Number(compute) => compute.each_column(&mut visit),
            Of::Truth(test) => test.each_column(&mut visit),
        }
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// The index in the schema, if the expression is a column without arithmetic.
    pub fn column(&self) -> Option<usize> {
        match &self.of {
            Of::Number(Compute { step: Step::Column(column), .. }) => Some(column.index),
            _ => None,
        }
    }

    /// Whether this is a condition. Its mean is a proportion, which has its own confidence interval.
    pub fn is_condition(&self) -> bool {
        matches!(self.of, Of::Truth(_))
    }

    /// The type of the values if integers represent them exactly, as for integers, decimals, dates, times and
    /// conditions; `None` for floating point. Computed integers have 128 bits (decimals of scale 0).
    pub fn whole_type(&self) -> Option<DataType> {
        match &self.of {
            Of::Truth(_) => Some(DataType::Int64),
            Of::Number(Compute { step: Step::Column(column), .. }) => match Family::of(&column.data_type) {
                Family::Float(_) => None,
                _ => Some(column.data_type.clone()),
            },
            Of::Number(Compute { kind: Kind::Int, stored, .. }) => Some(stored.clone().unwrap_or(HUGE)),
            Of::Number(_) => None,
        }
    }

    /// Evaluates to one exact integer per row, if [`Expression::whole_type`] is a type. A decimal is its unscaled
    /// integer, and a time is a count of its unit.
    ///
    /// # Errors
    ///
    /// The errors of [`Expression::evaluate`]; [`ExprError::Overflow`] also for a decimal beyond 128 bits.
    pub fn wholes(&self, batch: &RecordBatch, stopped: &dyn Fn() -> bool) -> Result<Wholes, ExprError> {
        let mut all = Wholes { values: Vec::with_capacity(batch.num_rows()), missing: Vec::new() };
        for part in parts(batch) {
            let rows = Rows::new(&part, stopped);
            let found = match &self.of {
                Of::Number(Compute { step: Step::Column(column), .. }) => of_column(rows.array(column)?.as_ref())?,
                Of::Number(compute) => vector(compute, &rows)?,
                Of::Truth(test) => {
                    let [yes, no] = evaluate::answers(test, &rows, [true, false])?;
                    let values = Values::Int(yes.iter().map(i128::from).collect());
                    Vector { values, nulls: Some(NullBuffer::new(&yes | &no)) }
                }
            };
            let before = all.values.len();
            if let Some(nulls) = found.nulls.filter(|nulls| nulls.null_count() > 0) {
                all.missing.resize(before, false);
                all.missing.extend(nulls.iter().map(|valid| !valid));
            }
            all.values.extend(found.values.into_ints());
        }
        Ok(all)
    }

    /// Evaluates to one number per row: NaN if it is null, unknown or NaN. The batch must have the columns that the
    /// expression reads, under their names. `stopped` runs before each step, and true cancels the evaluation.
    ///
    /// # Errors
    ///
    /// The errors of `Predicate::evaluate`.
    pub fn evaluate(&self, batch: &RecordBatch, stopped: &dyn Fn() -> bool) -> Result<Vec<f64>, ExprError> {
        let mut numbers = Vec::new();
        for part in parts(batch) {
            let of_part = self.numbers(&Rows::new(&part, stopped))?;
            match numbers.is_empty() {
                true => numbers = of_part,
                false => numbers.extend(of_part),
            }
        }
        Ok(numbers)
    }

    fn numbers(&self, rows: &Rows<'_>) -> Result<Vec<f64>, ExprError> {
        match &self.of {
            Of::Number(compute) => {
                let found = vector(compute, rows)?;
                let mut values = found.values.into_f64();
                if let Some(nulls) = found.nulls {
                    let missing = values.iter_mut().zip(nulls.iter()).filter(|(_, valid)| !valid);
                    missing.for_each(|(value, _)| *value = f64::NAN);
                }
                Ok(values)
            }
            Of::Truth(test) => {
                let [yes, no] = evaluate::answers(test, rows, [true, false])?;
                let answers = yes.iter().zip(no.iter());
                Ok(answers
                    .map(|(yes, no)| {
                        if yes {
                            1.0
                        } else if no {
                            0.0
                        } else {
                            f64::NAN
                        }
                    })
                    .collect())
            }
        }
    }
}

/// One integer per row, or no value.
#[derive(Clone, Debug, Default)]
pub struct Wholes {
    values: Vec<i128>,
    /// True for each row without a value; rows beyond its end have values.
    missing: Vec<bool>,
}

impl Wholes {
    /// The integer of a row; `None` if it is null or unknown.
    pub fn get(&self, row: usize) -> Option<i128> {
        if self.missing.get(row).copied().unwrap_or(false) { None } else { self.values.get(row).copied() }
    }
}

fn of_column(array: &dyn Array) -> Result<Vector, ExprError> {
    let Some(wide) = array.as_primitive_opt::<Decimal256Type>() else {
        return Ok(Vector { values: Values::of(array, Kind::Int)?, nulls: array.nulls().cloned() });
    };
    let whole = |value: Option<i256>| match value {
        None => Ok(0),
        Some(value) => value
            .to_i128()
            .ok_or_else(|| ExprError::Overflow { message: format!("{value} is a decimal that does not fit 128 bits") }),
    };
    let values = wide.iter().map(whole).collect::<Result<Vec<i128>, ExprError>>()?;
    Ok(Vector { values: Values::Int(values), nulls: wide.nulls().cloned() })
}

/// Reads a lone column as doubles. Arithmetic keeps its operands' type, and only its result becomes doubles.
fn in_doubles(operand: Operand) -> Compute {
    match operand {
        Operand::Column(column) => Compute { kind: Kind::F64, ..computed(Operand::Column(column)) },
        computation => computed(computation),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{BooleanArray, Float32Array, Int64Array, StringArray, TimestampMillisecondArray};
    use std::sync::Arc;

    fn rows() -> RecordBatch {
        RecordBatch::try_from_iter([
            ("x", Arc::new(Float32Array::from(vec![Some(1.5), None, Some(f32::NAN), Some(-2.0)])) as _),
            ("n", Arc::new(Int64Array::from(vec![3, 4, 5, 6])) as _),
            ("on", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None, Some(true)])) as _),
            ("name", Arc::new(StringArray::from(vec!["a", "b", "c", "d"])) as _),
            ("at", Arc::new(TimestampMillisecondArray::from(vec![5, 6, 7, 8])) as _),
        ])
        .unwrap()
    }

    fn of(sql: &str) -> Vec<Option<f64>> {
        let batch = rows();
        let values = Expression::parse(sql, &batch.schema()).unwrap().evaluate(&batch, &crate::never).unwrap();
        values.into_iter().map(|value| (!value.is_nan()).then_some(value)).collect()
    }

    #[test]
    fn columns_arithmetic_and_conditions_are_numbers() {
        assert_eq!(of("x"), [Some(1.5), None, None, Some(-2.0)]);
        assert_eq!(of("2 * x + n"), [Some(6.0), None, None, Some(2.0)]);
        assert_eq!(of("n % 2"), [Some(1.0), Some(0.0), Some(1.0), Some(0.0)]);
        assert_eq!(of("on"), [Some(1.0), Some(0.0), None, Some(1.0)]);
        assert_eq!(of("x > 0"), [Some(1.0), None, None, Some(0.0)]);
        assert_eq!(of("x IS NULL"), [Some(0.0), Some(1.0), Some(0.0), Some(0.0)]);
        assert_eq!(of("at"), [Some(5.0), Some(6.0), Some(7.0), Some(8.0)]);
    }

    #[test]
    fn it_says_what_it_reads() {
        let schema = rows().schema();
        let parsed = |sql| Expression::parse(sql, &schema).unwrap();
        assert_eq!(parsed("n * x").columns(), [0, 1]);
        assert_eq!((parsed("n").column(), parsed("-n").column(), parsed("on").column()), (Some(1), None, None));
        assert_eq!((parsed("n > 2").is_condition(), parsed("n").is_condition()), (true, false));
    }

    #[test]
    fn text_and_constants_are_refused() {
        let refused = |sql| Expression::parse(sql, &rows().schema()).unwrap_err().to_string();
        assert!(refused("name").contains("`name` of type Utf8 is not a number"), "{}", refused("name"));
        assert!(refused("CASE WHEN on THEN name END").contains("a CASE of texts is not a number"));
        assert!(refused("2 + 3").contains("the same for every row"));
        assert!(refused("speed").contains("no column `speed`"));
    }
}
