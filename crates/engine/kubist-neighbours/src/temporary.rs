//! A table for the duration of a search.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use kubist::{Cancel, Dimension, Domain, Error, Result, Snapshot, Table, TableOptions, Writer, WriterOptions};

/// A table in a temporary folder, which is deleted when this object is dropped.
pub struct Temporary {
    writer: Option<Writer>,
    snapshot: Option<Snapshot>,
    table: Table,
    // Dropped after the handles, whose files it contains.
    _folder: tempfile::TempDir,
}

impl Temporary {
    /// # Errors
    ///
    /// The errors of [`Table::create`].
    pub fn new(schema: SchemaRef, dimensions: &[String], cancel: &Cancel) -> Result<Temporary> {
        let folder = tempfile::tempdir().map_err(|error| Error::io("cannot create a temporary folder", error))?;
        let dimension = |column: &String| Dimension { column: column.clone(), domain: Domain::Learned };
        let options =
            TableOptions { dimensions: dimensions.iter().map(dimension).collect(), ..TableOptions::default() };
        let location = folder.path().join("other.kubist");
        let table = Table::create(location.to_string_lossy().as_ref(), schema, &options)?;
        let writer = table.writer(&WriterOptions { cancel: cancel.clone(), ..WriterOptions::default() })?;
        Ok(Temporary { writer: Some(writer), snapshot: None, table, _folder: folder })
    }

    /// Appends rows.
    ///
    /// # Errors
    ///
    /// The errors of [`Writer::append`].
    pub fn append(&mut self, rows: &RecordBatch) -> Result<()> {
        match &mut self.writer {
            Some(writer) => writer.append(rows).map(drop),
            None => Err(Error::internal("a temporary table is complete")),
        }
    }

    /// Commits the rows, and returns their snapshot.
    ///
    /// # Errors
    ///
    /// The errors of [`Writer::commit`].
    pub fn snapshot(&mut self) -> Result<Snapshot> {
        if let Some(mut writer) = self.writer.take() {
            writer.commit()?;
            self.snapshot = Some(self.table.snapshot()?);
        }
        self.snapshot.clone().ok_or_else(|| Error::internal("a temporary table has no snapshot"))
    }
}
