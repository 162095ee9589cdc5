//! Output to standard output, or to a file that gets its name only when complete.

use std::fs::{self, File};
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_cast::cast;
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use crate::failure::{Failure, Kind, Result};

/// Prints for people, with control characters escaped.
pub fn print(text: &str) -> Result<()> {
    print_raw(&kubist_types::shown::printable_lines(text))
}

/// Prints for programs, unchanged.
pub fn print_raw(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(|error| stdout_failure(&error))
}

pub fn print_json(value: &impl serde::Serialize) -> Result<()> {
    print_raw(&format!("{}\n", json(value)?))
}

pub fn json(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string_pretty(value).map_err(|error| Failure { kind: Kind::System, message: error.to_string() })
}

/// Ignores write errors.
pub fn remark(line: &str) {
    remark_raw(&kubist_types::shown::printable_lines(line));
}

pub fn tell_units<'a>(units: impl IntoIterator<Item = (&'a str, &'a str)>) {
    kubist_expr::unit_notes(units).iter().for_each(|note| remark(&format!("note: {note}")));
}

/// Prints for programs to standard error, unchanged.
pub fn remark_raw(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn stdout_failure(error: &std::io::Error) -> Failure {
    Failure::io(Path::new("standard output"), error)
}

/// A file under a temporary name in the folder of its destination, which is removed if it is dropped unpublished.
pub struct PendingFile {
    file: File,
    destination: PathBuf,
    /// `None` for a device or a pipe, which is written directly.
    temporary: Option<PathBuf>,
}

impl PendingFile {
    pub fn create(path: &Path) -> Result<PendingFile> {
        let failed = |error: std::io::Error| match path.parent().filter(|_| error.kind() == ErrorKind::NotFound) {
            Some(folder) => Failure::io(folder, &error).within(format!("{} cannot be written", path.display())),
            None => Failure::io(path, &error),
        };
        // Replaces the target of a symbolic link, not the link.
        let destination = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        match fs::metadata(&destination) {
            Ok(metadata) if metadata.is_dir() => {
                return Err(Failure::usage(format!("{} is a directory", path.display())));
            }
            Ok(metadata) if !metadata.is_file() => {
                let file = File::options().write(true).open(&destination).map_err(failed)?;
                return Ok(PendingFile { file, destination, temporary: None });
            }
            _ => {}
        }
        let Some(name) = destination.file_name() else {
            return Err(Failure::usage(format!("{} is not a file name", path.display())));
        };
        let name = format!(".{}.{}.part", name.to_string_lossy(), std::process::id());
        let temporary = destination.with_file_name(name);
        let file = File::create(&temporary).map_err(failed)?;
        Ok(PendingFile { file, destination, temporary: Some(temporary) })
    }

    pub fn writer(&self) -> Result<File> {
        self.file.try_clone().map_err(|error| Failure::io(&self.destination, &error))
    }

    pub fn path(&self) -> &Path {
        self.temporary.as_deref().unwrap_or(&self.destination)
    }

    pub fn destination(&self) -> &Path {
        &self.destination
    }

    pub fn publish(mut self) -> Result<()> {
        let Some(temporary) = self.temporary.take() else {
            return Ok(());
        };
        let published = self.file.sync_all().and_then(|()| fs::rename(&temporary, &self.destination));
        published.map_err(|error| {
            let _ = fs::remove_file(&temporary);
            Failure::io(&self.destination, &error)
        })
    }
}

impl Drop for PendingFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = fs::remove_file(temporary);
        }
    }
}

pub type Batches<'a> = &'a mut dyn Iterator<Item = Result<RecordBatch>>;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Encoding {
    Csv,
    Parquet,
    ArrowFile,
    ArrowStream,
}

type Out = BufWriter<Watched>;

enum Encoder {
    Csv(Box<arrow_csv::Writer<Out>>),
    Parquet(Box<ArrowWriter<Out>>),
    ArrowFile(Box<FileWriter<Out>>, SchemaRef),
    ArrowStream(Box<StreamWriter<Out>>),
}

/// To a file, or to standard output (`None`).
pub struct Records {
    encoder: Encoder,
    pending: Option<PendingFile>,
    shown: PathBuf,
    failed: Failed,
}

impl Records {
    pub fn create(path: Option<&Path>, encoding: Encoding, schema: &SchemaRef) -> Result<Records> {
        let pending = path.map(PendingFile::create).transpose()?;
        let bytes: Box<dyn Write + Send> = match &pending {
            Some(pending) => Box::new(pending.writer()?),
            None => Box::new(std::io::stdout()),
        };
        let failed = Failed::default();
        let out = BufWriter::with_capacity(1 << 18, Watched { bytes, failed: failed.clone() });
        let shown = path.unwrap_or(Path::new("standard output")).to_path_buf();
        let encoder = Encoder::new(out, encoding, schema).map_err(|error| failure(&shown, &failed, error))?;
        let mut records = Records { encoder, pending, shown, failed };
        if encoding == Encoding::Csv {
            // An empty result has a header too.
            records.write(&RecordBatch::new_empty(schema.clone()))?;
        }
        Ok(records)
    }

    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let written = match &mut self.encoder {
            Encoder::Csv(writer) => writer.write(batch),
            Encoder::Parquet(writer) => writer.write(batch).map_err(ArrowError::from),
            Encoder::ArrowFile(writer, plain) => flat(batch, plain).and_then(|batch| writer.write(&batch)),
            Encoder::ArrowStream(writer) => writer.write(batch),
        };
        written.map_err(|error| failure(&self.shown, &self.failed, error))
    }

    pub fn finish(self) -> Result<()> {
        let Records { encoder, pending, shown, failed } = self;
        let out = match encoder {
            Encoder::Csv(writer) => Ok(writer.into_inner()),
            Encoder::Parquet(writer) => writer.into_inner().map_err(ArrowError::from),
            Encoder::ArrowFile(writer, _) => writer.into_inner(),
            Encoder::ArrowStream(writer) => writer.into_inner(),
        };
        let flushed = out.and_then(|mut out| Ok(out.flush()?));
        flushed.map_err(|error| failure(&shown, &failed, error))?;
        pending.map_or(Ok(()), PendingFile::publish)
    }
}

impl Encoder {
    fn new(out: Out, encoding: Encoding, schema: &SchemaRef) -> Result<Encoder, ArrowError> {
        Ok(match encoding {
            Encoding::Csv => Encoder::Csv(Box::new(arrow_csv::Writer::new(out))),
            Encoding::Parquet => {
                let level = ZstdLevel::try_new(1)?;
                let properties = WriterProperties::builder().set_compression(Compression::ZSTD(level)).build();
                Encoder::Parquet(Box::new(ArrowWriter::try_new(out, schema.clone(), Some(properties))?))
            }
            Encoding::ArrowFile => {
                let plain = plain(schema);
                let options = IpcWriteOptions::default().try_with_compression(Some(CompressionType::LZ4_FRAME))?;
                let writer = FileWriter::try_new_with_options(out, &plain, options)?;
                Encoder::ArrowFile(Box::new(writer), plain)
            }
            Encoding::ArrowStream => Encoder::ArrowStream(Box::new(StreamWriter::try_new(out, schema)?)),
        })
    }
}

/// Batches may have different dictionaries, but an Arrow file has one per column, so they become plain values.
fn plain(schema: &Schema) -> SchemaRef {
    let fields: Fields = schema
        .fields()
        .iter()
        .map(|field| match field.data_type() {
            DataType::Dictionary(_, values) => Field::clone(field).with_data_type(values.as_ref().clone()),
            _ => Field::clone(field),
        })
        .collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn flat(batch: &RecordBatch, plain: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().zip(plain.fields());
    let columns = columns.map(|(column, field)| match column.data_type() == field.data_type() {
        true => Ok(column.clone()),
        false => cast(column, field.data_type()),
    });
    RecordBatch::try_new(plain.clone(), columns.collect::<Result<Vec<ArrayRef>, _>>()?)
}

/// The system's error, which some encoders turn into text.
type Failed = Arc<Mutex<Option<std::io::Error>>>;

struct Watched {
    bytes: Box<dyn Write + Send>,
    failed: Failed,
}

impl Watched {
    fn watch<T>(&self, outcome: std::io::Result<T>) -> std::io::Result<T> {
        outcome.map_err(|error| {
            let kind = error.kind();
            if kind != ErrorKind::Interrupted {
                *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            }
            kind.into()
        })
    }
}

impl Write for Watched {
    fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
        let outcome = self.bytes.write(buffer);
        self.watch(outcome)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let outcome = self.bytes.flush();
        self.watch(outcome)
    }
}

fn failure(shown: &Path, failed: &Failed, error: ArrowError) -> Failure {
    if let Some(error) = failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Failure::io(shown, &error);
    }
    match error {
        ArrowError::IoError(_, error) => Failure::io(shown, &error),
        ArrowError::ExternalError(error) if error.is::<ParquetError>() => Failure::usage(error).within(shown.display()),
        error => Failure::usage(error).within(shown.display()),
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::types::Int32Type;
    use arrow_array::{DictionaryArray, Float32Array};

    use super::*;

    #[test]
    fn a_file_gets_its_name_only_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        fs::write(&path, "old").unwrap();
        let batch =
            RecordBatch::try_from_iter([("x", Arc::new(Float32Array::from(vec![0.1, 2.0])) as ArrayRef)]).unwrap();
        let mut records = Records::create(Some(&path), Encoding::Csv, &batch.schema()).unwrap();
        records.write(&batch).unwrap();
        drop(records);
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
        let mut records = Records::create(Some(&path), Encoding::Csv, &batch.schema()).unwrap();
        records.write(&batch).unwrap();
        records.finish().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "x\n0.1\n2.0\n");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn dictionaries_that_change_are_written_out_in_arrow_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.arrow");
        let batch = |values: Vec<&str>| {
            let kinds: DictionaryArray<Int32Type> = values.into_iter().collect();
            RecordBatch::try_from_iter([("kind", Arc::new(kinds) as ArrayRef)]).unwrap()
        };
        let mut records = Records::create(Some(&path), Encoding::ArrowFile, &batch(vec![]).schema()).unwrap();
        records.write(&batch(vec!["a", "b"])).unwrap();
        records.write(&batch(vec!["c"])).unwrap();
        records.finish().unwrap();
        let read = arrow_ipc::reader::FileReader::try_new(File::open(&path).unwrap(), None).unwrap();
        let batches: Vec<RecordBatch> = read.collect::<Result<_, _>>().unwrap();
        let read = arrow_select::concat::concat_batches(&batches[0].schema(), &batches).unwrap();
        assert_eq!((read.num_rows(), read.schema().field(0).data_type()), (3, &DataType::Utf8));
    }

    #[test]
    fn a_place_that_is_not_there_is_named() {
        let missing = Path::new("no/such/folder/a.csv");
        let failure = PendingFile::create(missing).map(|_| ()).unwrap_err();
        assert_eq!(failure.kind, Kind::Existence);
        assert_eq!(failure.message, "no/such/folder/a.csv cannot be written: no/such/folder does not exist");
    }
}
