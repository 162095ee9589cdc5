//! Files of records: what is in them, and their rows as Arrow batches.
//!
//! Every reader streams: what it holds in memory is a batch of rows (for Arrow
//! IPC, the file's own batches), however long the file. A damaged file is an
//! error that names it; decoders of foreign formats run guarded, so that a
//! panic in one of them is that error too.

mod csv;
mod guard;
mod ipc;
mod npy;
mod npz;
mod parquet;
mod zip;

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Field, Fields};

use crate::failure::{Failure, Result};
use guard::guarded;

/// Rows in a batch that goes to the table.
const BATCH_ROWS: usize = 64 * 1024;
/// Batches that a reader may be ahead of the table.
const READ_AHEAD: usize = 2;

/// Batches of a file, in its order, with the wanted columns (in any order).
type Batches = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Format {
    Parquet,
    ArrowFile,
    ArrowStream,
    Csv { delimiter: u8 },
    Npz,
}

/// What the user says about how to read.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// The columns to take; `None`: all.
    pub columns: Option<Vec<String>>,
    /// Between the fields of a CSV file; `None`: seen from its first line.
    pub delimiter: Option<u8>,
}

/// A file that has been looked at.
#[derive(Debug)]
pub struct Input {
    pub path: PathBuf,
    pub bytes: u64,
    /// The chosen columns as the file has them. In a CSV file a type is what
    /// the head suggests, `Null` where the head has no value.
    pub fields: Fields,
    /// False for text, whose values are read in any type asked for.
    pub typed: bool,
    format: Format,
}

impl Input {
    /// Looks at a file's head: which format, which columns.
    pub fn inspect(path: &Path, choice: &Choice) -> Result<Input> {
        guarded(path, || {
            let mut file = File::open(path).map_err(|error| Failure::io(path, &error))?;
            let metadata = file.metadata().map_err(|error| Failure::io(path, &error))?;
            if metadata.is_dir() {
                return Err(Failure::usage(format!("{} is a directory: name the files in it", path.display())));
            }
            let format = detect(path, &mut file, choice)?;
            let fields = match format {
                Format::Parquet => parquet::fields(path)?,
                Format::ArrowFile => ipc::file_fields(path)?,
                Format::ArrowStream => ipc::stream_fields(path)?,
                Format::Csv { delimiter } => csv::fields(path, delimiter)?,
                Format::Npz => npz::fields(path, choice.columns.as_deref())?,
            };
            let fields = choose(path, fields, choice.columns.as_deref())?;
            let typed = !matches!(format, Format::Csv { .. });
            Ok(Input { path: path.to_path_buf(), bytes: metadata.len(), fields, typed, format })
        })
    }

    /// Starts to read the columns that `wanted` names (text is read in their
    /// types). `consumed` follows how many of the file's bytes are behind.
    pub fn read(&self, wanted: &Fields, consumed: Arc<AtomicU64>) -> Receiver<Result<RecordBatch>> {
        let (sender, receiver) = sync_channel(READ_AHEAD);
        let (path, bytes, format, wanted) = (self.path.clone(), self.bytes, self.format, wanted.clone());
        std::thread::spawn(move || {
            let outcome = guarded(&path, || {
                let batches = match format {
                    Format::Parquet => parquet::batches(&path, bytes, &wanted, consumed)?,
                    Format::ArrowFile => ipc::file_batches(&path, &wanted, consumed)?,
                    Format::ArrowStream => ipc::stream_batches(&path, &wanted, consumed)?,
                    Format::Csv { delimiter } => csv::batches(&path, delimiter, &wanted, consumed)?,
                    Format::Npz => npz::batches(&path, &wanted, consumed)?,
                };
                for batch in batches {
                    let batch = batch?;
                    for start in (0..batch.num_rows()).step_by(BATCH_ROWS) {
                        let rows = BATCH_ROWS.min(batch.num_rows() - start);
                        if sender.send(Ok(batch.slice(start, rows))).is_err() {
                            return Ok(());
                        }
                    }
                }
                Ok(())
            });
            if let Err(failure) = outcome {
                // Nobody listens any more: the reading was given up.
                let _ = sender.send(Err(failure));
            }
        });
        receiver
    }
}

/// By the first bytes; text by its name.
fn detect(path: &Path, file: &mut File, choice: &Choice) -> Result<Format> {
    let mut head = [0u8; 8];
    let mut length = 0;
    while length < head.len() {
        match file.read(&mut head[length..]).map_err(|error| Failure::io(path, &error))? {
            0 => break,
            read => length += read,
        }
    }
    let head = &head[..length];
    if head.is_empty() {
        return Err(Failure::usage(format!("{}: the file is empty", path.display())));
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let plain = name.strip_suffix(".gz").unwrap_or(&name);
    let text = [".csv", ".tsv", ".txt", ".dat"].iter().any(|ending| plain.ends_with(ending));
    let format = if head.starts_with(b"PAR1") {
        Format::Parquet
    } else if head.starts_with(b"ARROW1") {
        Format::ArrowFile
    } else if head.starts_with(&[0xff; 4]) {
        Format::ArrowStream
    } else if head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06") {
        Format::Npz
    } else if text {
        let delimiter = match choice.delimiter {
            Some(delimiter) => delimiter,
            None => csv::sniff_delimiter(path)?,
        };
        Format::Csv { delimiter }
    } else {
        return Err(Failure::usage(format!(
            "{}: not a file that can be read here: Parquet, Arrow IPC, NPZ, or text named .csv or .tsv (also .gz)",
            path.display()
        )));
    };
    Ok(format)
}

fn choose(path: &Path, fields: Vec<Field>, columns: Option<&[String]>) -> Result<Fields> {
    for (place, field) in fields.iter().enumerate() {
        if fields[..place].iter().any(|earlier| earlier.name() == field.name()) {
            return Err(Failure::usage(format!("{}: two columns are named {:?}", path.display(), field.name())));
        }
    }
    let Some(columns) = columns else {
        return Ok(fields.into());
    };
    columns
        .iter()
        .map(|column| {
            fields.iter().find(|field| field.name() == column).cloned().ok_or_else(|| {
                let known: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
                Failure::usage(format!(
                    "{}: there is no column {column:?}; the columns are {}",
                    path.display(),
                    known.join(", ")
                ))
            })
        })
        .collect()
}

/// A failure while reading `path`: the system's, or the file's own.
fn unreadable(path: &Path, error: ArrowError) -> Failure {
    match error {
        ArrowError::IoError(_, error) => Failure::io(path, &error),
        ArrowError::CsvError(what) | ArrowError::ParseError(what) | ArrowError::IpcError(what) => {
            Failure::usage(what).within(path.display())
        }
        error => Failure::usage(error).within(path.display()),
    }
}

/// A file that counts the bytes read from it.
struct Counted {
    file: File,
    consumed: Arc<AtomicU64>,
}

impl Counted {
    fn open(path: &Path, consumed: Arc<AtomicU64>) -> Result<Counted> {
        let file = File::open(path).map_err(|error| Failure::io(path, &error))?;
        Ok(Counted { file, consumed })
    }
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let bytes = self.file.read(buffer)?;
        self.consumed.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}

impl Seek for Counted {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.file.seek(to)
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! Reading a small file whole.

    use super::*;

    pub fn read_all(path: &Path, choice: &Choice) -> Result<RecordBatch> {
        let input = Input::inspect(path, choice)?;
        let wanted: Fields = input.fields.iter().map(|field| crate::fit::settled(field)).collect();
        read_as(&input, &wanted)
    }

    /// The columns of `wanted`, in its order.
    pub fn read_as(input: &Input, wanted: &Fields) -> Result<RecordBatch> {
        let batches: Vec<RecordBatch> = input.read(wanted, Arc::default()).iter().collect::<Result<_>>()?;
        let schema = Arc::new(arrow_schema::Schema::new(wanted.clone()));
        let columns = wanted
            .iter()
            .map(|field| {
                let parts: Vec<_> = batches.iter().filter_map(|batch| batch.column_by_name(field.name())).collect();
                let nothing = arrow_array::new_empty_array(field.data_type());
                let mut parts: Vec<&dyn arrow_array::Array> = parts.into_iter().map(AsRef::as_ref).collect();
                parts.push(&nothing);
                arrow_select::concat::concat(&parts).unwrap()
            })
            .collect();
        Ok(RecordBatch::try_new(schema, columns).unwrap())
    }

    #[test]
    fn what_is_no_known_file_is_said_so() {
        let folder = tempfile::tempdir().unwrap();
        let message = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            Input::inspect(&path, &Choice::default()).unwrap_err().message
        };
        assert!(message("empty.csv", b"").contains("empty.csv: the file is empty"));
        assert!(message("data.h5", b"\x89HDF\r\n").contains("Parquet, Arrow IPC, NPZ"));
        for name in ["cut.parquet", "cut.arrow", "cut.arrows", "cut.npz"] {
            let magic: &[u8] = match name {
                "cut.parquet" => b"PAR1",
                "cut.arrow" => b"ARROW1",
                "cut.arrows" => &[0xff, 0xff, 0xff, 0xff, 8],
                _ => b"PK\x03\x04",
            };
            assert!(message(name, magic).contains(name));
        }
        assert!(Input::inspect(folder.path(), &Choice::default()).unwrap_err().message.contains("is a directory"));
    }
}
