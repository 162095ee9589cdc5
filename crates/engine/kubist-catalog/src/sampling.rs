//! Sampling probabilities of rows: the checks of weights and strata, as functions of columns.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float32Type;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{Field, Schema};
use kubist_expr::{Expression, column_index, never};
use kubist_index::priority::{self, is_identity_type};
use kubist_types::error::{Error, Result};
use kubist_types::options::Sampling;

/// The hidden column with the relative weights of rows, if samples are weighted.
pub const WEIGHT: &str = "_kubist_weight";
pub const UNWEIGHED: f32 = 0.0;
/// A single row of a stratum then has nearly the largest weight.
const MOST_LEAST: u32 = 10_000;

#[derive(Clone, Debug)]
pub struct Prioritised {
    pub identity: Vec<usize>,
    pub weight: Option<usize>,
}

impl Prioritised {
    /// The identity, then the weight.
    pub fn columns(&self) -> impl Iterator<Item = usize> + '_ {
        self.identity.iter().copied().chain(self.weight)
    }

    /// Returns the priorities of rows from their values in [`Prioritised::columns`].
    pub fn priorities(&self, columns: &[ArrayRef], rows: usize, seed: u64) -> Vec<u64> {
        let (identity, weight) = columns.split_at(self.identity.len());
        let identity: Vec<&dyn Array> = identity.iter().map(|array| array.as_ref()).collect();
        let mut priorities = priority::priorities(&identity, rows, seed);
        if let [weight] = weight {
            priority::weigh(&mut priorities, weight.as_primitive::<Float32Type>().values());
        }
        priorities
    }
}

/// Checks the sampling of a new table; returns it with column names as the table spells them.
///
/// # Errors
///
/// `Invalid` names the column or the expression.
pub fn checked(columns: &Schema, sampling: &Sampling) -> Result<Sampling> {
    match sampling {
        Sampling::Uniform => {}
        Sampling::Weight(text) => {
            let bad = |why: String| Error::invalid(format!("weight {text:?}: {why}"));
            let weight = Expression::parse(text, columns).map_err(|error| bad(error.to_string()))?;
            if weight.is_condition() {
                return Err(bad("it is a condition, but a weight is a number".into()));
            }
        }
        Sampling::Strata { columns: names, .. } if names.is_empty() => {
            return Err(Error::invalid("strata: name at least one column"));
        }
        Sampling::Strata { least, .. } if *least > MOST_LEAST => {
            return Err(Error::invalid(format!("least must be at most {MOST_LEAST}, found {least}")));
        }
        Sampling::Strata { columns: names, least } => {
            let mut own = Vec::new();
            for name in names {
                let field = columns.field(column_index(columns, name)?);
                let data_type = field.data_type();
                if !is_identity_type(data_type) {
                    return Err(Error::invalid(format!(
                        "strata: column {name:?} has the type {data_type}, whose values are no classes"
                    )));
                }
                let name = field.name().clone();
                if own.contains(&name) {
                    return Err(Error::invalid(format!("strata: column {name:?} is given twice")));
                }
                own.push(name);
            }
            return Ok(Sampling::Strata { columns: own, least: *least });
        }
    }
    Ok(sampling.clone())
}

/// Checks weights, where `offset` is the position of the first row in the user's batch.
///
/// # Errors
///
/// `Invalid` names the weight, the row and the value.
pub fn check(asked: &Schema, columns: &[ArrayRef], text: &str, offset: usize) -> Result<()> {
    let values = values(asked, columns, text)?;
    match values.iter().position(|value| !(*value > 0.0 && value.is_finite())) {
        None => Ok(()),
        Some(row) => {
            let found = if values[row].is_nan() { "null or NaN".into() } else { values[row].to_string() };
            let row = offset + row;
            Err(Error::invalid(format!(
                "weight {text:?} of row {row} is {found}: weights are positive and finite, because a row without one \
                 would be in no sample"
            )))
        }
    }
}

/// # Errors
///
/// `Expression` if the weight cannot be evaluated.
pub fn values(asked: &Schema, columns: &[ArrayRef], text: &str) -> Result<Vec<f64>> {
    let typed =
        |(field, array): (&Arc<Field>, &ArrayRef)| field.as_ref().clone().with_data_type(array.data_type().clone());
    let plain = Schema::new(asked.fields().iter().zip(columns).map(typed).collect::<Vec<_>>());
    let batch = RecordBatch::try_new(Arc::new(plain), columns.to_vec()).map_err(Error::kernel)?;
    Ok(Expression::parse(text, asked)?.evaluate(&batch, &never)?)
}
