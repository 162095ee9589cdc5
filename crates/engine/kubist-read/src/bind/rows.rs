//! Row operations of a bound query: priorities, and batches of the result.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef, Float64Array, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kubist_index::priority::{Threshold, priorities};

use crate::bind::BoundQuery;
use kubist_types::error::{Error, Result};

impl BoundQuery {
    pub fn priorities(&self, identity: &[ArrayRef], rows: usize) -> Vec<u64> {
        let identity: Vec<&dyn Array> = identity.iter().map(|array| array.as_ref()).collect();
        priorities(&identity, rows, self.snapshot.core.header.seed)
    }

    /// Builds a result batch from the columns read. `inclusion` is called if the result has that column; it
    /// returns the inclusion probabilities without subsampling of steps.
    pub(crate) fn batch(
        &self,
        rows: usize,
        columns: Vec<ArrayRef>,
        inclusion: impl FnOnce() -> Float64Array,
    ) -> Result<RecordBatch> {
        let schema = &self.snapshot.view.schema;
        let kept_below = self.kept_below.map(|place| columns[place].clone());
        let values = self.outputs.iter().map(|output| output.values(schema, rows, &columns, &self.cancel));
        let mut columns = values.collect::<Result<Vec<ArrayRef>>>()?;
        if self.inclusion.is_some() {
            let inclusion = inclusion();
            columns.push(Arc::new(match kept_below {
                None => inclusion,
                Some(kept_below) => self.thinned(&inclusion, kept_below.as_primitive::<Float64Type>()),
            }));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.schema(), columns, &options).map_err(Error::kernel)
    }

    /// The probability that a row's priority is in the query's range and below `below`; without a bound, in
    /// the whole range.
    pub(crate) fn probability(&self, below: Option<u64>) -> f64 {
        let Some(drawn) = self.drawn else { return 0.0 };
        let end = below.map_or(drawn.last as u128 + 1, u128::from);
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
