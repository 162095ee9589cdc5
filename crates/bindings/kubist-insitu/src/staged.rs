//! A step while it is being put together: which columns are there, how many rows they have.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, make_array};
use arrow_data::transform::MutableArrayData;
use arrow_schema::{ArrowError, Schema};

use crate::failure::{Failure, Result};
use crate::layout::Layout;

fn internal(error: ArrowError) -> Failure {
    Failure::from(kubist::Error::internal(error))
}

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

    /// Refuses a column that cannot be one of the step.
    ///
    /// # Errors
    ///
    /// `Invalid` if it was put before, or another has another number of values.
    pub fn check_column(&self, layout: &Layout, column: usize, rows: usize) -> Result<()> {
        let (step, name) = (self.step, layout.name(column));
        if self.given.get(column).is_some_and(|given| *given) {
            return Err(Failure::invalid(format!("column {name:?} was put already in step {step}")));
        }
        if let Some((others, first)) = self.rows.filter(|(others, _)| *others != rows) {
            let first = layout.name(first);
            return Err(Failure::invalid(format!(
                "column {name:?} has {rows} values in step {step}, and column {first:?} has {others}"
            )));
        }
        Ok(())
    }

    /// Notes that a column has been put, with so many values.
    pub fn note(&mut self, column: usize, rows: usize) {
        self.given.resize(self.given.len().max(column + 1), false);
        self.rows.get_or_insert((rows, column));
        self.given[column] = true;
    }

    /// Forgets a column that was put.
    pub fn forget(&mut self, column: usize) {
        if let Some(given) = self.given.get_mut(column) {
            *given = false;
        }
        self.columns.retain(|(kept, _)| *kept != column);
        let first = self.given.iter().position(|given| *given);
        self.rows = self.rows.and_then(|(rows, _)| Some((rows, first?)));
    }

    /// Keeps the values of a column that was noted.
    pub fn keep(&mut self, column: usize, values: ArrayRef) {
        self.columns.push((column, values));
    }

    /// Keeps a copy of rows.
    ///
    /// # Errors
    ///
    /// `Internal` if Arrow cannot copy them.
    pub fn keep_batch(&mut self, batch: &RecordBatch) -> Result<()> {
        let copied = |array: &ArrayRef| {
            let data = array.to_data();
            let mut copy = MutableArrayData::new(vec![&data], false, data.len());
            copy.try_extend(0, 0, data.len()).map_err(internal)?;
            Ok(make_array(copy.freeze()))
        };
        let columns = batch.columns().iter().map(copied).collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = RecordBatch::try_new_with_options(batch.schema(), columns, &options);
        self.batches.push(batch.map_err(internal)?);
        Ok(())
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

    /// Forgets the columns so far, for others of more rows.
    pub fn begin_part(&mut self) {
        self.rows = None;
        self.given.clear();
        self.columns.clear();
    }

    /// Makes a batch of the columns so far; others may follow.
    ///
    /// # Errors
    ///
    /// `Internal` if Arrow finds that they do not fit each other.
    pub fn end_part(&mut self, layout: &Layout) -> Result<()> {
        let columns = std::mem::take(&mut self.columns);
        if let Some((rows, _)) = self.rows.filter(|(rows, _)| *rows > 0) {
            let fields: Vec<_> = columns.iter().map(|(column, _)| layout.schema().fields()[*column].clone()).collect();
            let arrays = columns.into_iter().map(|(_, values)| values).collect();
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            let batch = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options);
            self.batches.push(batch.map_err(internal)?);
        }
        self.begin_part();
        Ok(())
    }

    /// All rows so far; there are none after that.
    ///
    /// # Errors
    ///
    /// As of [`Staged::end_part`].
    pub fn take_batches(&mut self, layout: &Layout) -> Result<Vec<RecordBatch>> {
        self.end_part(layout)?;
        Ok(std::mem::take(&mut self.batches))
    }

    /// Rows that were taken, and are the step's after all.
    pub fn put_back(&mut self, batches: Vec<RecordBatch>) {
        self.batches = batches;
    }
}
