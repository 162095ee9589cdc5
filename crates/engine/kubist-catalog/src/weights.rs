//! Weights of rows, in tables whose samples are not uniform.
//!
//! A row of the relative weight w is in a sample of fraction f with probability `min(1, w f / (1 - f))`
//! (`kubist_index::priority::weigh`). A hidden column stores the weight, so that every reader computes the same
//! priority.
//!
//! - By an expression: w is its value divided by the scale, which an alteration records: the mean of the first commit,
//!   where a value counts as at most 100 times the mean.
//! - By strata: a writer has committed N rows in K strata so far, and N_h rows are in the row's stratum. Then w is
//!   `(1 + N / (K N_h)) / 2`, so half of a sample is uniform, and half is divided equally between the strata. With
//!   `least` n, it is at least `99 n / N_h`, so a sample of 1 % has an expected number of at least n rows of the
//!   stratum, or all.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float32Type;
use arrow_array::{Array, ArrayRef, Float32Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use kubist_format::alteration::Alteration;
use kubist_index::priority;
use kubist_types::error::{Error, Result};
use kubist_types::options::Sampling;

use crate::core::Core;
use crate::sampling::{self, Prioritised, UNWEIGHED, WEIGHT};
use crate::schema::TableSchema;

const MOST_STRATA: usize = 10_000;
/// Limit of a row's weight, as a multiple of the first commit's mean.
const MOST_OF_MEAN: f64 = 100.0;
/// The sample fraction that `least` is about.
const LEAST_IN: f64 = 0.01;
const MOST_ROUNDS: usize = 1_000;

impl TableSchema {
    /// # Errors
    ///
    /// `Invalid` names the column or the expression that is not possible.
    pub fn sampled(mut self, sampling: &Sampling) -> Result<TableSchema> {
        self.sampling = sampling::checked(&self.conditional(), sampling)?;
        if !sampling.is_uniform() {
            let fields = self.stored.fields().iter().cloned();
            let fields: Vec<_> = fields.chain([Arc::new(Field::new(WEIGHT, DataType::Float32, false))]).collect();
            let stored = Schema::new_with_metadata(fields, self.stored.metadata().clone());
            self.weight = Some(stored.fields().len() - 1);
            (self.asked, self.stored_index) = (stored.clone(), (0..stored.fields().len()).collect());
            self.stored = Arc::new(stored);
        }
        Ok(self)
    }

    /// Checks the weights of rows, where `offset` is the position of the first row in the user's batch.
    ///
    /// # Errors
    ///
    /// `Invalid` names the weight, the row and the value.
    pub(crate) fn check_weights(&self, stored: &RecordBatch, offset: usize) -> Result<()> {
        match &self.sampling {
            Sampling::Weight(text) => sampling::check(&self.conditional(), &seen(self, stored), text, offset),
            _ => Ok(()),
        }
    }

    pub fn prioritised(&self) -> Prioritised {
        Prioritised { identity: self.identity.clone(), weight: self.weight }
    }
}

fn seen(schema: &TableSchema, stored: &RecordBatch) -> Vec<ArrayRef> {
    schema.visible().iter().map(|column| stored.column(*column).clone()).collect()
}

#[derive(Default)]
pub struct Weigher {
    /// Number of rows in each stratum, by the hash of its values.
    rows: HashMap<u64, u64>,
    all: u64,
}

impl Weigher {
    /// Adds weights, but rows that have a weight, as in a copy, keep it.
    ///
    /// # Errors
    ///
    /// `Invalid` for too many strata; the errors of [`Core::view`].
    pub fn weighed(
        &mut self,
        core: &Core,
        schema: &TableSchema,
        batches: Vec<RecordBatch>,
    ) -> Result<Vec<RecordBatch>> {
        let Some(place) = schema.weight else { return Ok(batches) };
        let is_open = |batch: &RecordBatch| {
            batch.num_rows() > 0 && batch.column(place).as_primitive::<Float32Type>().value(0) == UNWEIGHED
        };
        if !batches.iter().any(is_open) {
            return Ok(batches);
        }
        let open = batches.iter().filter(|batch| is_open(batch));
        let of_batches: Vec<Vec<f32>> = match &schema.sampling {
            Sampling::Uniform => return Ok(batches),
            Sampling::Weight(text) => {
                let values = open
                    .map(|batch| sampling::values(&schema.conditional(), &seen(schema, batch), text))
                    .collect::<Result<Vec<_>>>()?;
                let scale = match schema.weight_scale {
                    Some(scale) => scale,
                    None => core.publish_weight_scale(scale_of(&values))?,
                };
                let weight = |value: &f64| priority::stored_weight(value / scale);
                values.iter().map(|values| values.iter().map(weight).collect()).collect()
            }
            Sampling::Strata { columns: names, least } => {
                let columns: Vec<usize> = names.iter().map(|name| schema.column(name)).collect::<Result<_>>()?;
                let keys = open.map(|batch| {
                    let arrays: Vec<&dyn Array> = columns.iter().map(|column| batch.column(*column).as_ref()).collect();
                    priority::priorities(&arrays, batch.num_rows(), 0)
                });
                let keys: Vec<Vec<u64>> = keys.collect();
                for key in keys.iter().flatten() {
                    *self.rows.entry(*key).or_default() += 1;
                    self.all += 1;
                    if self.rows.len() > MOST_STRATA {
                        return Err(Error::invalid(format!(
                            "strata of {}: there are more than {MOST_STRATA} strata; use columns with fewer values, or \
                             a weight",
                            names.join(", ")
                        )));
                    }
                }
                let each = self.all as f64 / self.rows.len() as f64;
                // Of N_h rows of this weight, n are expected in a sample of 1 %.
                let of_least = f64::from(*least) * (1.0 - LEAST_IN) / LEAST_IN;
                let weight = |key: &u64| {
                    let rows = self.rows[key] as f64;
                    priority::stored_weight(((1.0 + each / rows) / 2.0).max(of_least / rows))
                };
                keys.iter().map(|keys| keys.iter().map(weight).collect()).collect()
            }
        };
        let mut of_batches = of_batches.into_iter();
        let with = |batch: RecordBatch| {
            if !is_open(&batch) {
                return Ok(batch);
            }
            let mut columns = batch.columns().to_vec();
            columns[place] = Arc::new(Float32Array::from(of_batches.next().expect("one for each open batch")));
            RecordBatch::try_new(batch.schema(), columns).map_err(Error::kernel)
        };
        batches.into_iter().map(with).collect()
    }
}

/// The mean of positive numbers, in which a number counts as at most [`MOST_OF_MEAN`] times the mean, so that one very
/// large number does not make all other rows rare. The sum may overflow.
fn scale_of(values: &[Vec<f64>]) -> f64 {
    let rows = values.iter().map(Vec::len).sum::<usize>() as f64;
    let mean = |most: f64| values.iter().flatten().map(|value| value.min(most) / rows).sum::<f64>();
    let mut scale = mean(f64::INFINITY);
    for _ in 0..MOST_ROUNDS {
        let next = mean(MOST_OF_MEAN * scale);
        if next >= scale * (1.0 - 1e-9) {
            break;
        }
        scale = next;
    }
    scale.clamp(f64::MIN_POSITIVE, f64::MAX)
}

impl Core {
    /// Publishes the scale of the first commit, or returns the one that another writer published.
    fn publish_weight_scale(&self, scale: f64) -> Result<f64> {
        let published = self.alter(Alteration::Weight { scale }, &Default::default());
        match (self.view(&Default::default())?.schema.weight_scale, published) {
            (Some(scale), _) => Ok(scale),
            (None, Err(error)) => Err(error),
            (None, Ok(())) => Err(Error::internal("the scale of weights is missing; please report this")),
        }
    }
}
