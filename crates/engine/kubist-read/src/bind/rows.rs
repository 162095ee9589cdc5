//! Priorities of rows, and batches of the result of a bound query.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{ArrayRef, Float64Array, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kubist_index::priority::{PriorityRange, Threshold, inclusion};

use crate::bind::BoundQuery;
use kubist_types::error::{Error, Result};

impl BoundQuery {
    pub fn priorities(&self, columns: &[ArrayRef], rows: usize) -> Vec<u64> {
        self.snapshot.view.schema.prioritised().priorities(columns, rows, self.snapshot.core.header.seed)
    }

    /// Builds a result batch. For inclusion probabilities, `below` returns the priority below which a row
    /// is in the result: `Some(None)` means the whole range of the query, and `None` an unknown
    /// probability.
    pub(crate) fn batch(
        &self,
        rows: usize,
        columns: Vec<ArrayRef>,
        below: impl Fn(usize) -> Option<Option<u64>>,
    ) -> Result<RecordBatch> {
        let schema = &self.snapshot.view.schema;
        let kept_below = self.kept_below.map(|place| columns[place].clone());
        let weights = self.weight.map(|place| columns[place].clone());
        let values = self.outputs.iter().map(|output| output.values(schema, rows, &columns, &self.cancel));
        let mut columns = values.collect::<Result<Vec<ArrayRef>>>()?;
        if self.inclusion.is_some() {
            let weights = weights.as_ref().map(|weights| weights.as_primitive::<Float32Type>().values());
            let inclusion = (0..rows).map(|row| {
                let weight = weights.map(|weights| weights[row]);
                below(row).map(|below| self.probability(weight, below))
            });
            let inclusion: Float64Array = inclusion.collect();
            columns.push(Arc::new(match kept_below {
                None => inclusion,
                Some(kept_below) => self.thinned(&inclusion, kept_below.as_primitive::<Float64Type>()),
            }));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.schema(), columns, &options).map_err(Error::kernel)
    }

    /// The probability that a row's priority is in the query's range and below `below`, if given.
    fn probability(&self, weight: Option<f32>, below: Option<u64>) -> f64 {
        let Some(drawn) = self.drawn else { return 0.0 };
        let end = below.map_or(drawn.last as u128 + 1, u128::from);
        if let Some(weight) = weight {
            let range = PriorityRange::between(Threshold::new(drawn.first.into()), Threshold::new(end));
            return range.map_or(0.0, |range| inclusion(weight, range));
        }
        Threshold::new(end.saturating_sub(drawn.first as u128)).to_fraction()
    }

    /// Inclusion probabilities for steps that stored only rows below a priority threshold.
    fn thinned(&self, inclusion: &Float64Array, kept_below: &Float64Array) -> Float64Array {
        let first = self.drawn.map_or(0.0, |drawn| Threshold::new(drawn.first.into()).to_fraction());
        let both = inclusion.iter().zip(kept_below);
        let thinned = both.map(|(inclusion, below)| {
            inclusion.map(|inclusion| below.map_or(inclusion, |below| inclusion.min(below - first)))
        });
        thinned.collect()
    }

    pub(crate) fn schema(&self) -> SchemaRef {
        let schema = &self.snapshot.view.schema;
        let mut fields: Vec<_> = self.outputs.iter().map(|output| output.field.clone()).collect();
        if let Some((name, nullable)) = &self.inclusion {
            fields.push(Arc::new(Field::new(name, DataType::Float64, *nullable)));
        }
        Arc::new(Schema::new_with_metadata(fields, schema.user.metadata().clone()))
    }
}
