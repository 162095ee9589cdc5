//! Size limits for files from untrusted sources, which are checked before memory is allocated. They bound the memory by
//! [`Limits::batch_bytes`] and a few pieces.

use arrow_array::RecordBatch;
use kubist_index::plain;

use crate::error::{Error, Result};

/// Maximum number of rows in a batch for the table.
pub const BATCH_ROWS: usize = 64 * 1024;
/// The target size of a batch, in plain encoding. A single record may exceed it.
pub const PIECE_BYTES: usize = 64 << 20;
/// The inflation of smaller files is not checked, because they may be very regular.
const INFLATION_FLOOR: u64 = 256 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum bytes of a line, or of a row's values.
    pub record_bytes: u64,
    pub columns: usize,
    /// Maximum bytes of records per byte of the file; files with less than 256 MiB of records are not checked.
    pub inflation: u64,
    /// Maximum bytes that can only be read together: an inflated batch of Arrow IPC, a set of Parquet pages, or all
    /// dictionaries.
    pub batch_bytes: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { record_bytes: 16 << 20, columns: 10_000, inflation: 100, batch_bytes: 1 << 30 }
    }
}

impl Limits {
    pub(crate) fn check_columns(&self, columns: usize) -> Result<()> {
        match columns > self.columns {
            true => Err(Error::limit(format!("it has {columns} columns"), self.columns, "read option max_columns")),
            false => Ok(()),
        }
    }

    pub(crate) fn check_record(&self, bytes: u64) -> Result<()> {
        match bytes > self.record_bytes {
            true => Err(Error::limit(
                format!("a record takes {bytes} bytes"),
                format!("{} bytes", self.record_bytes),
                "read option max_record",
            )),
            false => Ok(()),
        }
    }

    pub(crate) fn check_batch(&self, what: &str, bytes: u64) -> Result<()> {
        match bytes > self.batch_bytes {
            true => Err(Error::limit(
                format!("{what} takes {bytes} bytes"),
                format!("{} bytes", self.batch_bytes),
                "read option max_batch",
            )),
            false => Ok(()),
        }
    }

    pub(crate) fn check_inflation(&self, inflated: u64, bytes: u64) -> Result<()> {
        match inflated > INFLATION_FLOOR.max(bytes.saturating_mul(self.inflation)) {
            true => Err(Error::limit(
                format!("more than {inflated} bytes of data come from {bytes} bytes of file"),
                format!("{} for each", self.inflation),
                "read option max_inflation",
            )),
            false => Ok(()),
        }
    }

    /// Splits a batch into pieces with at most [`BATCH_ROWS`] rows. A piece with several rows has at most
    /// [`PIECE_BYTES`] in plain encoding. A record beyond the limit is an error.
    pub(crate) fn pieces(
        &self,
        batch: &RecordBatch,
        each: &mut dyn FnMut(RecordBatch, u64) -> Result<()>,
    ) -> Result<()> {
        for start in (0..batch.num_rows()).step_by(BATCH_ROWS) {
            self.split(&batch.slice(start, BATCH_ROWS.min(batch.num_rows() - start)), each)?;
        }
        Ok(())
    }

    fn split(&self, batch: &RecordBatch, each: &mut dyn FnMut(RecordBatch, u64) -> Result<()>) -> Result<()> {
        let (rows, bytes) = (batch.num_rows(), batch_bytes(batch));
        if rows == 1 {
            self.check_record(bytes as u64)?;
        }
        if rows == 1 || bytes <= PIECE_BYTES.min(usize::try_from(self.record_bytes).unwrap_or(usize::MAX)) {
            return each(batch.clone(), bytes as u64);
        }
        self.split(&batch.slice(0, rows / 2), each)?;
        self.split(&batch.slice(rows / 2, rows - rows / 2), each)
    }
}

fn batch_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|column| plain::bytes(column)).fold(0, usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::Int32Type;
    use arrow_array::{ArrayRef, DictionaryArray, Int32Array, StringArray};

    use super::*;

    fn same_value(bytes: usize, rows: usize) -> RecordBatch {
        let value = "x".repeat(bytes);
        let values = Arc::new(StringArray::from(vec![value.as_str()]));
        let column = DictionaryArray::<Int32Type>::new(Int32Array::from(vec![0; rows]), values);
        RecordBatch::try_from_iter([("kind", Arc::new(column) as ArrayRef)]).unwrap()
    }

    #[test]
    fn pieces_are_bounded_by_what_they_become() {
        let limits = Limits::default();
        let mut rows = 0;
        limits
            .pieces(&same_value(1 << 20, 1000), &mut |piece, bytes| {
                rows += piece.num_rows();
                assert!(bytes as usize <= PIECE_BYTES && piece.num_rows() < 1000);
                Ok(())
            })
            .unwrap();
        assert_eq!(rows, 1000);
    }

    #[test]
    fn a_record_beyond_the_limit_is_refused() {
        let limits = Limits { record_bytes: 1000, ..Limits::default() };
        assert!(limits.pieces(&same_value(900, 10), &mut |_, _| Ok(())).is_ok());
        let error = limits.pieces(&same_value(1001, 10), &mut |_, _| Ok(())).unwrap_err();
        assert!(error.to_string().contains("read option max_record"), "{error}");
    }

    #[test]
    fn inflation_is_judged_beyond_a_floor() {
        let limits = Limits::default();
        assert!(limits.check_inflation(100 << 20, 10).is_ok());
        assert!(limits.check_inflation(6 << 30, 26 << 20).is_err());
        assert!(limits.check_inflation(6 << 30, 600 << 20).is_ok());
    }
}
