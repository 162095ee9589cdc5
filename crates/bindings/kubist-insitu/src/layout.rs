//! Checks the columns of a step against the columns of the table before the step is committed, so the solver gets the
//! error at the call that passed a wrong column.

use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use kubist::Table;

use crate::failure::{Failure, Result};
use crate::values::Kind;

/// The columns of a table when they were last read, because other processes may add columns.
pub struct Layout {
    table: Table,
    schema: SchemaRef,
    /// Whether a column was added after the table's creation, so that a step may omit it and its rows get the default.
    added: Vec<bool>,
}

impl Layout {
    /// # Errors
    ///
    /// The errors of `Table::snapshot`.
    pub fn of(table: &Table) -> Result<Layout> {
        let snapshot = table.snapshot()?;
        let added = snapshot.columns().iter().map(|column| column.added).collect();
        Ok(Layout { table: table.clone(), schema: snapshot.schema(), added })
    }

    /// # Errors
    ///
    /// The errors of [`Layout::of`].
    pub fn refresh(&mut self) -> Result<()> {
        *self = Layout::of(&self.table)?;
        Ok(())
    }

    pub fn location(&self) -> &str {
        self.table.location()
    }

    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub fn columns(&self) -> usize {
        self.schema.fields().len()
    }

    pub fn name(&self, column: usize) -> &str {
        self.schema.field(column).name()
    }

    pub fn data_type(&self, column: usize) -> &DataType {
        self.schema.field(column).data_type()
    }

    /// The index of a column; if the name is unknown, reads the columns again first.
    ///
    /// # Errors
    ///
    /// `Invalid` if there is no such column, with the table's columns; the errors of [`Layout::of`].
    pub fn column(&mut self, name: &str) -> Result<usize> {
        if self.schema.index_of(name).is_err() {
            self.refresh()?;
        }
        self.schema.index_of(name).map_err(|_| {
            let names: Vec<&str> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
            let (place, names) = (self.location(), names.join(", "));
            Failure::invalid(format!("{place} has no column {name:?}; its columns are {names}"))
        })
    }

    /// Checks that values of this kind have the type of a column.
    ///
    /// # Errors
    ///
    /// `Invalid` names both types.
    pub fn check_kind(&self, column: usize, kind: Kind) -> Result<()> {
        let wanted = self.data_type(column);
        match *wanted == kind.data_type() {
            true => Ok(()),
            false => {
                let wanted = Kind::of(wanted).map_or_else(|| wanted.to_string(), |kind| kind.name().into());
                let (place, name, kind) = (self.location(), self.name(column), kind.name());
                Err(Failure::invalid(format!(
                    "column {name:?} of {place} has type {wanted}, the values have type {kind}"
                )))
            }
        }
    }

    /// Checks that a batch has every required column once, with the table's type, and without nulls where the table
    /// allows none.
    ///
    /// # Errors
    ///
    /// `Invalid` names the column; the errors of [`Layout::of`].
    pub fn check_batch(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut given = vec![false; self.columns()];
        for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
            let column = self.column(field.name())?;
            given.resize(self.columns(), false);
            let (wanted, place) = (self.schema.field(column), self.location());
            if wanted.data_type() != array.data_type() {
                let (name, wanted, found) = (field.name(), wanted.data_type(), array.data_type());
                return Err(Failure::invalid(format!(
                    "column {name:?} of {place} has type {wanted}, the values have type {found}"
                )));
            }
            if !wanted.is_nullable() && array.null_count() > 0 {
                let row = (0..array.len()).find(|row| array.is_null(*row)).unwrap_or(0);
                let name = field.name();
                return Err(Failure::invalid(format!(
                    "column {name:?} of {place} allows no nulls, but row {row} is null"
                )));
            }
            if std::mem::replace(&mut given[column], true) {
                let name = field.name();
                return Err(Failure::invalid(format!("column {name:?} of {place} is in the batch twice")));
            }
        }
        self.check_complete(&given, "the batch")
    }

    /// Checks that no required column is missing: `given` is true at the indices of existing columns. `what` is the
    /// subject of the error message.
    ///
    /// # Errors
    ///
    /// `Invalid` names the missing columns.
    pub fn check_complete(&self, given: &[bool], what: &str) -> Result<()> {
        let is_missing = |column: &usize| !given.get(*column).is_some_and(|given| *given) && !self.added[*column];
        let missing: Vec<&str> = (0..self.columns()).filter(is_missing).map(|column| self.name(column)).collect();
        match missing.is_empty() {
            true => Ok(()),
            false => {
                let (place, missing) = (self.location(), missing.join(", "));
                Err(Failure::invalid(format!("{what} lacks columns of {place}: {missing}")))
            }
        }
    }
}
