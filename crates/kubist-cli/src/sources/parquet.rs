//! Parquet files: row groups stream through, only the wanted columns are read.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_schema::{Field, Fields};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;

use super::{BATCH_ROWS, Batches, unreadable};
use crate::failure::{Failure, Result};

pub fn fields(path: &Path) -> Result<Vec<Field>> {
    let reader = open(path)?;
    Ok(reader.schema().fields().iter().map(|field| without_parquet_marks(field)).collect())
}

pub fn batches(path: &Path, bytes: u64, wanted: &Fields, consumed: Arc<AtomicU64>) -> Result<Batches> {
    let reader = open(path)?;
    let roots = reader.schema().fields().iter().enumerate();
    let roots: Vec<usize> =
        roots.filter(|(_, field)| wanted.find(field.name()).is_some()).map(|(index, _)| index).collect();
    let mask = ProjectionMask::roots(reader.parquet_schema(), roots);
    let total = reader.metadata().file_metadata().num_rows().max(1) as u64;
    let reader =
        reader.with_projection(mask).with_batch_size(BATCH_ROWS).build().map_err(|error| damaged(path, error))?;
    let path = path.to_path_buf();
    let mut rows = 0;
    Ok(Box::new(reader.map(move |batch| {
        let batch = batch.map_err(|error| unreadable(&path, error))?;
        rows += batch.num_rows() as u64;
        let share = rows as f64 / total as f64;
        consumed.store((bytes as f64 * share) as u64, Ordering::Relaxed);
        Ok(batch)
    })))
}

fn open(path: &Path) -> Result<ParquetRecordBatchReaderBuilder<File>> {
    let file = File::open(path).map_err(|error| Failure::io(path, &error))?;
    ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| damaged(path, error))
}

fn damaged(path: &Path, error: ParquetError) -> Failure {
    Failure::usage(format!("{}: {error}", path.display()))
}

/// The column without what only this file's format needed.
fn without_parquet_marks(field: &Field) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.retain(|key, _| !key.starts_with("PARQUET:"));
    field.clone().with_metadata(metadata)
}

#[cfg(test)]
mod tests {
    use arrow_array::{Float32Array, Int64Array, RecordBatch};
    use parquet::arrow::ArrowWriter;

    use super::super::testing::read_all;
    use super::super::{Choice, Input};

    #[test]
    fn rows_come_back_and_columns_can_be_chosen() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.parquet");
        let batch = RecordBatch::try_from_iter([
            ("pid", std::sync::Arc::new(Int64Array::from_iter_values(0..100_000)) as _),
            ("x", std::sync::Arc::new(Float32Array::from_iter_values((0..100_000).map(|i| i as f32))) as _),
        ])
        .unwrap();
        let mut writer = ArrowWriter::try_new(std::fs::File::create(&path).unwrap(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        assert_eq!(read_all(&path, &Choice::default()).unwrap(), batch);
        let choice = Choice { columns: Some(vec!["x".into()]), ..Choice::default() };
        assert_eq!(read_all(&path, &choice).unwrap(), batch.project(&[1]).unwrap());
        let choice = Choice { columns: Some(vec!["y".into()]), ..Choice::default() };
        let failure = Input::inspect(&path, &choice).unwrap_err();
        assert!(failure.message.contains("no column \"y\"; the columns are pid, x"), "{}", failure.message);
    }
}
