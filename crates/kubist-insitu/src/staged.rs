//! A step while it is being put together: which columns are there, how many rows they have.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::Schema;

use crate::failure::{Failure, Result};
use crate::layout::Layout;

/// The columns of a step that were put, and batches beside them.
pub struct Staged {
    pub step: i64,
    /// The rows of the columns, and the one that was put first.
    rows: Option<(usize, usize)>,
    given: Vec<bool>,
    columns: Vec<(usize, ArrayRef)>,
    batches: Vec<RecordBatch>,
}

impl Staged {
    pub fn new(step: i64) -> Staged {
        Staged { step, rows: None, given: vec![], columns: vec![], batches: vec![] }
    }

    /// Notes that a column has so many values.
    ///
    /// # Errors
    ///
    /// `Invalid` if it was put before, or another has another number of values.
    pub fn note(&mut self, layout: &Layout, column: usize, rows: usize) -> Result<()> {
        let (step, name) = (self.step, layout.name(column));
        self.given.resize(layout.columns(), false);
        if self.given[column] {
            return Err(Failure::invalid(format!("column {name:?} was put already in step {step}")));
        }
        if let Some((others, first)) = self.rows.filter(|(others, _)| *others != rows) {
            let first = layout.name(first);
            return Err(Failure::invalid(format!(
                "column {name:?} has {rows} values in step {step}, and column {first:?} has {others}"
            )));
        }
        self.rows.get_or_insert((rows, column));
        self.given[column] = true;
        Ok(())
    }

    /// Keeps the values of a column that was noted.
    pub fn keep(&mut self, column: usize, values: ArrayRef) {
        self.columns.push((column, values));
    }

    pub fn keep_batch(&mut self, batch: RecordBatch) {
        self.batches.push(batch);
    }

    /// Refuses a step of which some columns are missing. One without any is empty.
    ///
    /// # Errors
    ///
    /// `Invalid` names the columns.
    pub fn check(&self, layout: &Layout) -> Result<()> {
        match self.rows {
            None | Some((0, _)) => Ok(()),
            Some(_) => layout.check_complete(&self.given, &format!("step {}", self.step)),
        }
    }

    /// All rows.
    ///
    /// # Errors
    ///
    /// `Internal` if Arrow finds that they do not fit each other.
    pub fn into_batches(self, layout: &Layout) -> Result<Vec<RecordBatch>> {
        let Staged { rows, columns, mut batches, .. } = self;
        if let Some((rows, _)) = rows.filter(|(rows, _)| *rows > 0) {
            let fields: Vec<_> = columns.iter().map(|(column, _)| layout.schema().fields()[*column].clone()).collect();
            let arrays = columns.into_iter().map(|(_, values)| values).collect();
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            let batch = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options);
            batches.push(batch.map_err(|error| Failure::from(kubist::Error::internal(error)))?);
        }
        Ok(batches)
    }
}
