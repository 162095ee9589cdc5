//! The columns of a step under construction.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, make_array};
use arrow_data::transform::MutableArrayData;
use arrow_schema::{ArrowError, Schema};

use crate::failure::{Failure, Result};
use crate::layout::Layout;

fn internal(error: ArrowError) -> Failure {
    Failure::from(kubist::Error::internal(error))
}

pub struct Staged {
    pub step: i64,
    rows: Option<(usize, usize)>,
    given: Vec<bool>,
    columns: Vec<(usize, ArrayRef)>,
    batches: Vec<RecordBatch>,
}

impl Staged {
    pub fn new(step: i64) -> Staged {
        Staged { step, rows: None, given: vec![], columns: vec![], batches: vec![] }
    }

    /// # Errors
    ///
    /// `Invalid` if it was put before, or has another number of values.
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

    pub fn note(&mut self, column: usize, rows: usize) {
        self.given.resize(self.given.len().max(column + 1), false);
        self.rows.get_or_insert((rows, column));
        self.given[column] = true;
    }

    pub fn forget(&mut self, column: usize) {
        if let Some(given) = self.given.get_mut(column) {
            *given = false;
        }
        self.columns.retain(|(kept, _)| *kept != column);
        let first = self.given.iter().position(|given| *given);
        self.rows = self.rows.and_then(|(rows, _)| Some((rows, first?)));
    }

    pub fn keep(&mut self, column: usize, values: ArrayRef) {
        self.columns.push((column, values));
    }

    /// # Errors
    ///
    /// `Internal`.
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

    /// A step without columns is empty.
    ///
    /// # Errors
    ///
    /// `Invalid` names the missing columns.
    pub fn check(&self, layout: &Layout) -> Result<()> {
        match self.rows {
            None | Some((0, _)) => Ok(()),
            Some(_) => layout.check_complete(&self.given, &format!("step {}", self.step)),
        }
    }

    pub fn begin_part(&mut self) {
        self.rows = None;
        self.given.clear();
        self.columns.clear();
    }

    /// # Errors
    ///
    /// `Internal`.
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

    /// # Errors
    ///
    /// As [`Staged::end_part`].
    pub fn take_batches(&mut self, layout: &Layout) -> Result<Vec<RecordBatch>> {
        self.end_part(layout)?;
        Ok(std::mem::take(&mut self.batches))
    }

    pub fn put_back(&mut self, batches: Vec<RecordBatch>) {
        self.batches = batches;
    }
}
