//! Parquet files, streamed by row group. Text and binary columns are read as views: a dictionary value is in memory
//! only once, until it is converted in pieces of bounded size.

use std::collections::VecDeque;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};

use crate::Batches;
use crate::error::{Error, Result};
use crate::limits::{BATCH_ROWS, Limits, PIECE_BYTES};
use crate::pages;
use crate::source;

pub fn fields(path: &Path, limits: &Limits) -> Result<Vec<Field>> {
    let (_, metadata) = open(path, limits)?;
    Ok(metadata.schema().fields().iter().map(|field| without_parquet_marks(field)).collect())
}

pub fn metadata(path: &Path, limits: &Limits) -> Result<Vec<(String, String)>> {
    let (_, metadata) = open(path, limits)?;
    Ok(metadata.schema().metadata().iter().map(|(name, value)| (name.clone(), value.clone())).collect())
}

pub fn batches(path: &Path, bytes: u64, wanted: &Fields, consumed: Arc<AtomicU64>, limits: Limits) -> Result<Batches> {
    let failed = |error| Error::parquet(path, error);
    let (file, metadata) = open(path, &limits)?;
    let roots = metadata.schema().fields().iter().enumerate();
    let roots: Vec<usize> =
        roots.filter(|(_, field)| wanted.find(field.name()).is_some()).map(|(index, _)| index).collect();
    let rows_at_once = rows_at_once(&file, &metadata, &roots, &limits).map_err(|error| error.within(path.display()))?;
    let schema: SchemaRef = Arc::new(metadata.schema().project(&roots).map_err(|error| Error::arrow(path, error))?);
    let options = ArrowReaderOptions::new().with_schema(Arc::new(as_views(metadata.schema())));
    let metadata = ArrowReaderMetadata::try_new(metadata.metadata().clone(), options).map_err(failed)?;
    let mask = ProjectionMask::roots(metadata.parquet_schema(), roots);
    let total = metadata.metadata().file_metadata().num_rows().max(1) as u64;
    let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata);
    let mut reader = reader.with_projection(mask).with_batch_size(rows_at_once).build().map_err(failed)?;
    let path = path.to_path_buf();
    let (mut rows, mut pieces) = (0, VecDeque::new());
    Ok(Box::new(std::iter::from_fn(move || {
        while pieces.is_empty() {
            let batch = match reader.next()? {
                Ok(batch) => batch,
                Err(error) => return Some(Err(Error::arrow(&path, error))),
            };
            rows += batch.num_rows() as u64;
            let share = rows as f64 / total as f64;
            consumed.store((bytes as f64 * share) as u64, Ordering::Relaxed);
            let kept = limits.pieces(&batch, &mut |piece, _| {
                pieces.push_back(piece);
                Ok(())
            });
            if let Err(error) = kept {
                return Some(Err(error.within(path.display())));
            }
        }
        pieces.pop_front().map(|piece| written_out(&piece, &schema).map_err(|error| Error::arrow(&path, error)))
    })))
}

fn open(path: &Path, limits: &Limits) -> Result<(File, ArrowReaderMetadata)> {
    let mut file = source::open(path)?;
    pages::check_schema(&mut file, limits).map_err(|error| error.within(path.display()))?;
    let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new());
    Ok((file, metadata.map_err(|error| Error::parquet(path, error))?))
}

/// Checks all pages of the columns, and returns how many rows can be read together.
fn rows_at_once(file: &File, metadata: &ArrowReaderMetadata, roots: &[usize], limits: &Limits) -> Result<usize> {
    let total = file.metadata().map_err(Error::system)?.len();
    let mut file = BufReader::with_capacity(1 << 16, file.try_clone().map_err(Error::system)?);
    let mut row_bytes = 0.0f64;
    for group in metadata.metadata().row_groups() {
        let (mut held_bytes, mut group_row_bytes) = (0u64, 0.0);
        for (leaf, chunk) in group.columns().iter().enumerate() {
            let root = metadata.parquet_schema().get_column_root_idx(leaf);
            if !roots.contains(&root) {
                continue;
            }
            let pages = pages::check_pages(&mut file, total, chunk, limits, &mut |_, _, _| {})?;
            held_bytes = held_bytes.saturating_add(pages.held_bytes);
            group_row_bytes += pages.value_bytes.max(width(metadata.schema().field(root).data_type()));
        }
        limits.check_batch("the pages that are read at once", held_bytes)?;
        row_bytes = row_bytes.max(group_row_bytes);
    }
    Ok(((PIECE_BYTES as f64 / row_bytes.max(1.0)) as usize).clamp(1, BATCH_ROWS))
}

fn width(data_type: &DataType) -> f64 {
    match data_type {
        DataType::FixedSizeBinary(width) => f64::from(*width),
        other => other.primitive_width().unwrap_or(16) as f64,
    }
}

fn as_views(schema: &Schema) -> Schema {
    let view = |field: &Arc<Field>| match field.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 => Field::clone(field).with_data_type(DataType::Utf8View),
        DataType::Binary | DataType::LargeBinary => Field::clone(field).with_data_type(DataType::BinaryView),
        _ => Field::clone(field),
    };
    Schema::new_with_metadata(schema.fields().iter().map(view).collect::<Fields>(), schema.metadata().clone())
}

fn written_out(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, arrow_schema::ArrowError> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| match column.data_type() == field.data_type() {
        true => Ok(column.clone()),
        false => cast(column, field.data_type()),
    });
    RecordBatch::try_new(schema.clone(), columns.collect::<Result<Vec<ArrayRef>, _>>()?)
}

fn without_parquet_marks(field: &Field) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.retain(|key, _| !key.starts_with("PARQUET:"));
    field.clone().with_metadata(metadata)
}

#[cfg(test)]
mod tests {
    use arrow_array::{Float32Array, Int64Array, RecordBatch};
    use parquet::arrow::ArrowWriter;

    use crate::testing::read_all;
    use crate::{Input, Options};

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
        assert_eq!(read_all(&path, &Options::default()).unwrap(), batch);
        let choice = Options { columns: Some(vec!["x".into()]), ..Options::default() };
        assert_eq!(read_all(&path, &choice).unwrap(), batch.project(&[1]).unwrap());
        let choice = Options { columns: Some(vec!["y".into()]), ..Options::default() };
        let failure = Input::inspect(&path, &choice).unwrap_err();
        assert!(failure.to_string().contains("no column \"y\"; the columns are pid, x"), "{failure}");
    }

    #[test]
    fn one_long_value_named_often_takes_little_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.parquet");
        let long = "x".repeat(1 << 20);
        let kinds = arrow_array::StringArray::from_iter_values(std::iter::repeat_n(long.as_str(), 300));
        let batch = RecordBatch::try_from_iter([("kind", std::sync::Arc::new(kinds) as _)]).unwrap();
        let properties =
            parquet::file::properties::WriterProperties::builder().set_dictionary_page_size_limit(4 << 20).build();
        let file = std::fs::File::create(&path).unwrap();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        assert!(std::fs::metadata(&path).unwrap().len() < 4 << 20);
        let input = Input::inspect(&path, &Options::default()).unwrap();
        assert_eq!(input.fields[0].data_type(), &arrow_schema::DataType::Utf8);
        let mut rows = 0;
        let mut outcome = Ok(());
        for piece in input.read(&input.fields, Default::default()) {
            match piece {
                Ok(piece) => {
                    assert!(piece.get_array_memory_size() < 200 << 20);
                    rows += piece.num_rows();
                }
                Err(error) => outcome = Err(error),
            }
        }
        let error = outcome.unwrap_err().to_string();
        assert!(rows < 300 && error.contains("read option max_inflation"), "{rows}: {error}");
    }

    #[test]
    fn a_flipped_bit_is_an_error_never_a_panic() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.parquet");
        let kinds = arrow_array::StringArray::from_iter_values((0..300).map(|i| format!("kind {}", i % 7)));
        let x = Float32Array::from_iter_values((0..300).map(|i| i as f32));
        let batch =
            RecordBatch::try_from_iter([("kind", std::sync::Arc::new(kinds) as _), ("x", std::sync::Arc::new(x) as _)])
                .unwrap();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        let whole = writer.into_inner().unwrap();
        for bit in (0..8 * whole.len()).step_by(5) {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, &damaged).unwrap();
            // Without checksums, a changed value is not detected.
            let _ = read_all(&path, &Options::default());
        }
    }
}
