//! Arrow IPC: files (also Feather 2) and streams, compressed or not.

use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arrow_array::RecordBatch;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, Field, Fields, Schema};

use super::{Batches, Counted, unreadable};
use crate::failure::Result;

pub fn file_fields(path: &Path) -> Result<Vec<Field>> {
    let reader = FileReader::try_new(open(path, Arc::default())?, None).map_err(|error| unreadable(path, error))?;
    Ok(owned(&reader.schema()))
}

pub fn stream_fields(path: &Path) -> Result<Vec<Field>> {
    let reader = StreamReader::try_new(open(path, Arc::default())?, None).map_err(|error| unreadable(path, error))?;
    Ok(owned(&reader.schema()))
}

pub fn file_batches(path: &Path, wanted: &Fields, consumed: Arc<AtomicU64>) -> Result<Batches> {
    let schema = Schema::new(file_fields(path)?);
    let reader = FileReader::try_new(open(path, consumed)?, Some(columns(&schema, wanted)));
    Ok(named(path, reader.map_err(|error| unreadable(path, error))?))
}

pub fn stream_batches(path: &Path, wanted: &Fields, consumed: Arc<AtomicU64>) -> Result<Batches> {
    let schema = Schema::new(stream_fields(path)?);
    let reader = StreamReader::try_new(open(path, consumed)?, Some(columns(&schema, wanted)));
    Ok(named(path, reader.map_err(|error| unreadable(path, error))?))
}

fn open(path: &Path, consumed: Arc<AtomicU64>) -> Result<BufReader<Counted>> {
    Ok(BufReader::with_capacity(1 << 20, Counted::open(path, consumed)?))
}

fn owned(schema: &Schema) -> Vec<Field> {
    schema.fields().iter().map(|field| field.as_ref().clone()).collect()
}

fn columns(schema: &Schema, wanted: &Fields) -> Vec<usize> {
    let columns = schema.fields().iter().enumerate();
    columns.filter(|(_, field)| wanted.find(field.name()).is_some()).map(|(index, _)| index).collect()
}

fn named(path: &Path, reader: impl Iterator<Item = Result<RecordBatch, ArrowError>> + Send + 'static) -> Batches {
    let path = path.to_path_buf();
    Box::new(reader.map(move |batch| batch.map_err(|error| unreadable(&path, error))))
}

#[cfg(test)]
mod tests {
    use arrow_array::{Float64Array, StringArray};
    use arrow_ipc::CompressionType;
    use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};

    use super::super::Choice;
    use super::super::testing::read_all;
    use super::*;

    fn batch() -> RecordBatch {
        RecordBatch::try_from_iter([
            ("kind", Arc::new(StringArray::from(vec![Some("a"), None, Some("c")])) as _),
            ("x", Arc::new(Float64Array::from(vec![0.5, f64::NAN, -1.0])) as _),
        ])
        .unwrap()
    }

    #[test]
    fn files_and_streams_plain_and_compressed() {
        let folder = tempfile::tempdir().unwrap();
        let batch = batch();
        for compression in [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)] {
            let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
            let path = folder.path().join("a.arrow");
            let file = std::fs::File::create(&path).unwrap();
            let mut writer = FileWriter::try_new_with_options(file, &batch.schema(), options.clone()).unwrap();
            writer.write(&batch).unwrap();
            writer.write(&batch).unwrap();
            writer.finish().unwrap();
            let all = read_all(&path, &Choice::default()).unwrap();
            assert_eq!((all.slice(0, 3).column(0), all.num_rows()), (batch.column(0), 6));

            let path = folder.path().join("a.arrows");
            let file = std::fs::File::create(&path).unwrap();
            let mut writer = StreamWriter::try_new_with_options(file, &batch.schema(), options).unwrap();
            writer.write(&batch).unwrap();
            writer.finish().unwrap();
            let choice = Choice { columns: Some(vec!["kind".into()]), ..Choice::default() };
            assert_eq!(read_all(&path, &choice).unwrap(), batch.project(&[0]).unwrap());
        }
    }

    #[test]
    fn a_cut_or_flipped_file_is_an_error_never_a_panic() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.arrow");
        let mut writer = FileWriter::try_new(Vec::new(), &batch().schema()).unwrap();
        writer.write(&batch()).unwrap();
        let whole = writer.into_inner().unwrap();
        for length in (1..whole.len()).step_by(41) {
            std::fs::write(&path, &whole[..length]).unwrap();
            assert!(read_all(&path, &Choice::default()).is_err());
        }
        for place in (0..whole.len()).step_by(3) {
            let mut damaged = whole.clone();
            damaged[place] ^= 0x55;
            std::fs::write(&path, &damaged).unwrap();
            // The format has no checksums: a flipped value passes unseen.
            let _ = read_all(&path, &Choice::default());
        }
    }
}
