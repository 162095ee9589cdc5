//! The rows of a batch during evaluation: their columns, shared results, and cancellation.

use crate::bound::{Column, Compute};
use crate::domain::value_type;
use crate::error::ExprError;
use crate::vector::Vector;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_buffer::BooleanBuffer;
use arrow_select::filter::filter;
use arrow_select::take::take;
use std::cell::RefCell;
use std::sync::Arc;

/// Limits the memory and the time between checks for cancellation.
const ROWS_AT_ONCE: usize = 65_536;

pub(crate) fn parts(batch: &RecordBatch) -> impl Iterator<Item = RecordBatch> {
    let rows = batch.num_rows();
    let starts = (0..rows.max(1)).step_by(ROWS_AT_ONCE);
    starts.map(move |start| batch.slice(start, ROWS_AT_ONCE.min(rows - start)))
}

enum From<'a> {
    Batch(&'a RecordBatch),
    Part(&'a Rows<'a>, BooleanArray),
}

pub(crate) struct Rows<'a> {
    from: From<'a>,
    stopped: &'a dyn Fn() -> bool,
    known: RefCell<Vec<(Arc<Compute>, Vector)>>,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(batch: &'a RecordBatch, stopped: &'a dyn Fn() -> bool) -> Rows<'a> {
        Rows { from: From::Batch(batch), stopped, known: RefCell::default() }
    }

    pub(crate) fn count(&self) -> usize {
        match &self.from {
            From::Batch(batch) => batch.num_rows(),
            From::Part(_, chosen) => chosen.true_count(),
        }
    }

    /// Columns are filtered when they are read.
    pub(crate) fn part<T>(
        &self,
        chosen: &BooleanBuffer,
        ask: impl FnOnce(&Rows<'_>) -> Result<T, ExprError>,
    ) -> Result<T, ExprError> {
        if !chosen.has_false() {
            return ask(self);
        }
        let chosen = BooleanArray::new(chosen.clone(), None);
        ask(&Rows { from: From::Part(self, chosen), stopped: self.stopped, known: RefCell::default() })
    }

    pub(crate) fn go_on(&self) -> Result<(), ExprError> {
        if (self.stopped)() { Err(ExprError::Stopped) } else { Ok(()) }
    }

    pub(crate) fn stored(&self, column: &Column) -> Result<ArrayRef, ExprError> {
        let batch = match &self.from {
            From::Batch(batch) => batch,
            From::Part(rows, chosen) => return Ok(filter(rows.stored(column)?.as_ref(), chosen)?),
        };
        let mistake =
            |found: String| ExprError::Batch { column: column.name.clone(), expected: column.data_type.clone(), found };
        let array = batch.column_by_name(&column.name).ok_or_else(|| mistake(String::new()))?;
        if value_type(array.data_type()) != &column.data_type {
            return Err(mistake(format!(", but one of type {}", array.data_type())));
        }
        Ok(array.clone())
    }

    /// Without dictionary encoding.
    pub(crate) fn array(&self, column: &Column) -> Result<ArrayRef, ExprError> {
        let mut array = self.stored(column)?;
        while let Some(dictionary) = array.as_any_dictionary_opt() {
            array = take(dictionary.values().as_ref(), dictionary.keys(), None)?;
        }
        Ok(array)
    }

    /// Runs `ask` while [`Rows::known`] can return the result of `compute`.
    pub(crate) fn knowing<T>(
        &self,
        compute: &Arc<Compute>,
        numbers: Vector,
        ask: impl FnOnce() -> Result<T, ExprError>,
    ) -> Result<T, ExprError> {
        self.known.borrow_mut().push((compute.clone(), numbers));
        let found = ask();
        self.known.borrow_mut().pop();
        found
    }

    pub(crate) fn known(&self, compute: &Arc<Compute>) -> Result<Option<Vector>, ExprError> {
        let known = self.known.borrow();
        if let Some((_, numbers)) = known.iter().rev().find(|(one, _)| Arc::ptr_eq(one, compute)) {
            return Ok(Some(numbers.clone()));
        }
        match &self.from {
            From::Batch(_) => Ok(None),
            From::Part(rows, chosen) => Ok(rows.known(compute)?.map(|numbers| numbers.part(chosen.values()))),
        }
    }
}
