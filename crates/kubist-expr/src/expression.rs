//! Values computed for each row: a column, arithmetic over columns, or a condition
//! read as 1 and 0. What sums, means and quantiles are taken of.

use crate::bind;
use crate::bound::{Column, Compute, Kind, Operand, Step, Test};
use crate::compute::vector;
use crate::domain::Family;
use crate::error::ExprError;
use crate::evaluate;
use crate::meaning::{Meaning, computed, describe, describe_operand, family};
use crate::parse;
use crate::rows::{Rows, parts};
use arrow_array::RecordBatch;
use arrow_schema::Schema;

/// A number for each row of a table, bound to its schema.
#[derive(Clone, Debug)]
pub struct Expression {
    of: Of,
}

#[derive(Clone, Debug)]
enum Of {
    Number(Compute),
    /// 1 where it holds, 0 where it does not, missing where it is unknown.
    Truth(Test),
}

impl Expression {
    /// Parses a column, arithmetic or a condition, and binds it to `schema`. Dates, times
    /// and durations count as numbers in their column's unit; text and bytes do not.
    ///
    /// # Errors
    ///
    /// [`ExprError`] names the mistake in the text, or the column that does not fit.
    pub fn parse(sql: &str, schema: &Schema) -> Result<Expression, ExprError> {
        let of = match bind::bind(parse::parse(sql)?, schema)? {
            Meaning::Test(test) => Of::Truth(*test),
            Meaning::Operand(operand) => match family(&operand) {
                Family::Bool => Of::Truth(bind::as_test(Meaning::Operand(operand))?),
                Family::Null | Family::Text | Family::Binary => {
                    return Err(ExprError::type_mistake(format!("{} is no number", describe_operand(&operand))));
                }
                _ => Of::Number(in_doubles(*operand)),
            },
            constant => {
                let message = format!("{} is the same for every row: name a column", describe(&constant));
                return Err(ExprError::type_mistake(message));
            }
        };
        Ok(Expression { of })
    }

    /// The indices in the schema of the columns that it reads, ascending.
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

    /// The index of the column that it is, if it is no more than that.
    pub fn column(&self) -> Option<usize> {
        match &self.of {
            Of::Number(Compute { step: Step::Column(column), .. }) => Some(column.index),
            _ => None,
        }
    }

    /// Is it a condition, so that its mean is a share?
    pub fn is_condition(&self) -> bool {
        matches!(self.of, Of::Truth(_))
    }

    /// One number a row; NaN where it is null, unknown or NaN. The batch needs only the
    /// columns that it reads, and is searched by name. `stopped` is asked before each step:
    /// once it says so, the answer is [`ExprError::Stopped`].
    ///
    /// # Errors
    ///
    /// [`ExprError::Stopped`]; [`ExprError::Batch`] if a column is missing or of another type;
    /// [`ExprError::Evaluation`] if an Arrow kernel fails.
    pub fn evaluate(&self, batch: &RecordBatch, stopped: &dyn Fn() -> bool) -> Result<Vec<f64>, ExprError> {
        let mut numbers = Vec::with_capacity(batch.num_rows());
        for part in parts(batch) {
            numbers.extend(self.numbers(&Rows::new(&part, stopped))?);
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

/// A column is read as doubles at once; arithmetic keeps its kind until its end.
fn in_doubles(operand: Operand) -> Compute {
    match operand {
        Operand::Column(column) => Compute { kind: Kind::F64, step: Step::Column(column) },
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

    /// Missing values as `None`.
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
        assert!(refused("name").contains("`name` of type Utf8 is no number"), "{}", refused("name"));
        assert!(refused("2 + 3").contains("the same for every row"));
        assert!(refused("speed").contains("no column `speed`"));
    }
}
