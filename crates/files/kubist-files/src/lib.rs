//! Readers of record files, which return Arrow batches: Parquet, Arrow IPC (files and streams), CSV (also compressed
//! with gzip or Zstandard) and NPZ.
//!
//! [`Input::inspect`] reads a file's head, and [`Input::read`] its rows. Only one batch is in memory, however long the
//! file is.
//!
//! Files are not trusted. Before memory is allocated, lengths are compared with the file's size and the [`Limits`].
//! Values are validated (UTF-8, offsets, keys of dictionaries), and a panic in a decoder becomes an error. An error is
//! one line that names the file.

mod blanks;
pub mod columns;
mod csv;
mod csv_marks;
mod error;
mod fingerprint;
pub mod fit;
mod guard;
mod ipc;
mod limits;
mod npy;
mod npz;
mod pages;
mod parquet;
mod records;
mod source;
mod thrift;
mod units;
mod zip;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, sync_channel};

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Fields};

pub use csv_marks::{Decimal, Marks};
pub use error::{Error, Kind, Result};
pub use fingerprint::{fingerprint, known_as};
use guard::guarded;
pub use limits::Limits;
pub use npy::Header as NpyHeader;
pub use source::open;

/// The number of batches that a reader may be ahead of its consumer.
const READ_AHEAD: usize = 2;

/// Batches in the order of the file, with columns in any order.
type Batches = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Format {
    Parquet,
    ArrowFile,
    ArrowStream,
    Csv { delimiter: Delimiter },
    Npz,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delimiter {
    Byte(u8),
    /// A run of blanks and tabs is one delimiter. At the ends of a line it is ignored.
    Blanks,
}

impl std::str::FromStr for Delimiter {
    type Err = String;

    /// Parses a character, `tab`, or `space` for runs of blanks.
    fn from_str(text: &str) -> std::result::Result<Delimiter, String> {
        match text {
            "tab" | "\\t" => Ok(Delimiter::Byte(b'\t')),
            "space" | " " => Ok(Delimiter::Blanks),
            _ if text.len() == 1 && text.is_ascii() && !text.contains(['"', '\n', '\r']) => {
                Ok(Delimiter::Byte(text.as_bytes()[0]))
            }
            _ => Err("a delimiter is one ASCII character, tab, or space for runs of blanks".to_string()),
        }
    }
}

impl std::fmt::Display for Delimiter {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Delimiter::Blanks => out.write_str("space"),
            Delimiter::Byte(byte) => write!(out, "{}", char::from(*byte)),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The columns to read; all if `None`.
    pub columns: Option<Vec<String>>,
    /// The delimiter of a CSV file; `None` detects it from the first line.
    pub delimiter: Option<Delimiter>,
    /// The names in a CSV file; `None` takes them from the first line.
    pub names: Option<Vec<String>>,
    pub marks: Marks,
    /// Reads the file as CSV, whatever its name is.
    pub text: bool,
    pub limits: Limits,
}

#[derive(Clone, Debug)]
pub struct Input {
    pub path: PathBuf,
    pub bytes: u64,
    /// The chosen columns. In a CSV file, types are inferred from the head, and a column without a value there has the
    /// type `Null`.
    pub fields: Fields,
    /// False for text, because its values can be read in any requested type.
    pub typed: bool,
    /// The columns of lists, structures and maps, with the reasons. They are skipped unless the options name them.
    pub left_out: Vec<(String, String)>,
    format: Format,
    names: Option<Vec<String>>,
    marks: Marks,
    limits: Limits,
}

impl Input {
    /// Reads a file's head: its format and columns.
    ///
    /// # Errors
    ///
    /// The file cannot be opened, has an unknown format, is damaged, exceeds a limit, or lacks a column
    /// that the options name.
    pub fn inspect(path: &Path, options: &Options) -> Result<Input> {
        guarded(path, || {
            let mut file = open(path)?;
            let bytes = file.metadata().map_err(|error| Error::io(path, error))?.len();
            let limits = options.limits;
            let format = detect(path, &mut file, options)?;
            let fields = match format {
                Format::Parquet => parquet::fields(path, &limits)?,
                Format::ArrowFile => ipc::fields(path, ipc::Layout::File, &limits)?,
                Format::ArrowStream => ipc::fields(path, ipc::Layout::Stream, &limits)?,
                Format::Csv { delimiter } => csv::fields(
                    &csv::Text { path, delimiter, names: options.names.as_deref(), marks: &options.marks },
                    &limits,
                )?,
                Format::Npz => npz::fields(path, options.columns.as_deref(), &limits)?,
            };
            limits.check_columns(fields.len()).map_err(|error| error.within(path.display()))?;
            let fields = choose(path, fields, options.columns.as_deref())?;
            let typed = !matches!(format, Format::Csv { .. });
            let (names, marks) = (options.names.clone(), options.marks.clone());
            let path = path.to_path_buf();
            let left_out = Vec::new();
            let mut input = Input { path, bytes, fields, typed, left_out, format, names, marks, limits };
            if options.columns.is_none() {
                input.leave_out_nested();
            }
            if matches!(format, Format::Parquet | Format::ArrowFile | Format::ArrowStream) {
                input.fields = units::named(&input.fields, &input.metadata());
            }
            Ok(input)
        })
    }

    pub fn columns(&self) -> fit::FileColumns<'_> {
        fit::FileColumns { path: &self.path, fields: &self.fields, promotes: !self.typed }
    }

    pub fn format(&self) -> &'static str {
        match self.format {
            Format::Parquet => "parquet",
            Format::ArrowFile | Format::ArrowStream => "arrow",
            Format::Csv { .. } => "csv",
            Format::Npz => "npz",
        }
    }

    /// The metadata of Parquet and Arrow, and the comments before the first line of text. Metadata in which programs
    /// repeat the types of columns is left out. Empty if the file cannot be read.
    pub fn metadata(&self) -> Vec<(String, String)> {
        const OF_SCHEMA: [&str; 3] = ["ARROW:", "pandas", "org.apache.spark."];
        let found = guarded(&self.path, || match self.format {
            Format::Parquet => parquet::metadata(&self.path, &self.limits),
            Format::ArrowFile => ipc::metadata(&self.path, ipc::Layout::File, &self.limits),
            Format::ArrowStream => ipc::metadata(&self.path, ipc::Layout::Stream, &self.limits),
            Format::Csv { .. } => csv::comments(&self.path, &self.limits),
            Format::Npz => Ok(Vec::new()),
        });
        let mut found = found.unwrap_or_default();
        found.retain(|(name, _)| !OF_SCHEMA.iter().any(|begin| name.starts_with(begin)));
        found
    }

    /// Leaves out nested columns, unless the file has no other columns.
    fn leave_out_nested(&mut self) {
        let (nested, plain): (Vec<_>, Vec<_>) =
            self.fields.iter().cloned().partition(|field| !has_place(field.data_type()));
        if plain.is_empty() {
            return;
        }
        self.fields = plain.into();
        let part = |field: &Arc<Field>| {
            let why = format!("its type {} has no place in a table", field.data_type());
            (format!("column {}", field.name()), why)
        };
        self.left_out.extend(nested.iter().map(part));
    }

    /// Starts to read the columns of `wanted` that the file has. Text is read in the wanted types. `consumed` counts
    /// the bytes read. An error is the last item.
    pub fn read(&self, wanted: &Fields, consumed: Arc<AtomicU64>) -> Receiver<Result<RecordBatch>> {
        let (sender, receiver) = sync_channel(READ_AHEAD);
        let (path, bytes, format) = (self.path.clone(), self.bytes, self.format);
        let is_here = |field: &&Arc<Field>| self.fields.find(field.name()).is_some();
        let wanted: Fields = wanted.iter().filter(is_here).cloned().collect();
        let (names, marks, limits) = (self.names.clone(), self.marks.clone(), self.limits);
        std::thread::spawn(move || {
            let outcome = guarded(&path, || {
                let batches = match format {
                    Format::Parquet => parquet::batches(&path, bytes, &wanted, consumed, limits)?,
                    Format::ArrowFile => ipc::batches(&path, ipc::Layout::File, &wanted, consumed, limits)?,
                    Format::ArrowStream => ipc::batches(&path, ipc::Layout::Stream, &wanted, consumed, limits)?,
                    Format::Csv { delimiter } => {
                        let text = csv::Text { path: &path, delimiter, names: names.as_deref(), marks: &marks };
                        csv::batches(&text, &wanted, consumed, limits)?
                    }
                    Format::Npz => npz::batches(&path, &wanted, consumed, limits)?,
                };
                let mut inflated = 0u64;
                let mut has_receiver = true;
                for batch in batches {
                    limits
                        .pieces(&batch?, &mut |piece, piece_bytes| {
                            inflated = inflated.saturating_add(piece_bytes);
                            limits.check_inflation(inflated, bytes)?;
                            has_receiver = has_receiver && sender.send(Ok(piece)).is_ok();
                            Ok(())
                        })
                        .map_err(|error| error.within(path.display()))?;
                    if !has_receiver {
                        break;
                    }
                }
                Ok(())
            });
            if let Err(error) = outcome {
                let _ = sender.send(Err(error));
            }
        });
        receiver
    }
}

/// True if the file exists but this crate has no reader for it. If a file cannot be opened, this is false, and reading
/// it gives the reason.
pub fn is_external(path: &Path) -> bool {
    if has_own_ending(path) {
        // If the beginning does not match, it is a damaged file.
        return false;
    }
    let Ok(mut file) = open(path) else { return path.is_dir() };
    let Ok(head) = head(path, &mut file) else { return false };
    !head.is_empty() && (head.starts_with(ECSV) || magic(path, &head).is_none())
}

/// Whether the name of a file or pattern belongs to a format of this crate.
pub fn is_named_native(path: &Path) -> bool {
    has_own_ending(path) || is_named_text(path)
}

fn has_own_ending(path: &Path) -> bool {
    const OURS: [&str; 6] = ["parquet", "arrow", "arrows", "feather", "ipc", "npz"];
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    ending.is_some_and(|ending| OURS.contains(&ending.as_str()))
}

fn is_named_text(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let plain = [".gz", ".zst"].iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(&name);
    [".csv", ".tsv", ".txt", ".dat"].iter().any(|ending| plain.ends_with(ending))
}

/// ECSV is text with types and units in comments, which the Python package reads.
const ECSV: &[u8] = b"# %ECSV";

enum Magic {
    Parquet,
    ArrowFile,
    ArrowStream,
    Zip,
    Text,
}

/// Whether a table can have columns with this type.
fn has_place(data_type: &DataType) -> bool {
    match data_type {
        DataType::RunEndEncoded(_, _) => false,
        DataType::Dictionary(_, values) => has_place(values),
        other => !other.is_nested(),
    }
}

fn head(path: &Path, file: &mut File) -> Result<Vec<u8>> {
    let mut head = Vec::with_capacity(8);
    file.take(8).read_to_end(&mut head).map_err(|error| Error::io(path, error))?;
    Ok(head)
}

/// The format by the first bytes, or for text by the name.
fn magic(path: &Path, head: &[u8]) -> Option<Magic> {
    if head.starts_with(b"PAR1") {
        Some(Magic::Parquet)
    } else if head.starts_with(b"ARROW1") {
        Some(Magic::ArrowFile)
    } else if head.starts_with(&[0xff; 4]) {
        Some(Magic::ArrowStream)
    } else if head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06") {
        Some(Magic::Zip)
    } else {
        is_named_text(path).then_some(Magic::Text)
    }
}

fn detect(path: &Path, file: &mut File, options: &Options) -> Result<Format> {
    let head = head(path, file)?;
    if head.is_empty() {
        return Err(Error::invalid(format!("{}: the file is empty", path.display())));
    }
    match magic(path, &head).filter(|_| !options.text).or(options.text.then_some(Magic::Text)) {
        Some(Magic::Parquet) => Ok(Format::Parquet),
        Some(Magic::ArrowFile) => Ok(Format::ArrowFile),
        Some(Magic::ArrowStream) => Ok(Format::ArrowStream),
        Some(Magic::Zip) => Ok(Format::Npz),
        Some(Magic::Text) => {
            let delimiter = match options.delimiter {
                Some(delimiter) => delimiter,
                None => csv::sniff_delimiter(path, options.marks.decimal, &options.limits)?,
            };
            Ok(Format::Csv { delimiter })
        }
        None => Err(Error::invalid(format!(
            "{}: not a file that can be read here: Parquet, Arrow IPC, NPZ, or text named .csv or .tsv (also .gz, .zst)",
            path.display()
        ))),
    }
}

fn choose(path: &Path, fields: Vec<Field>, columns: Option<&[String]>) -> Result<Fields> {
    for (index, field) in fields.iter().enumerate() {
        if fields[..index].iter().any(|earlier| earlier.name() == field.name()) {
            return Err(Error::invalid(format!("{}: two columns are named {:?}", path.display(), field.name())));
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
                Error::invalid(format!(
                    "{}: there is no column {column:?}; the columns are {}",
                    path.display(),
                    known.join(", ")
                ))
            })
        })
        .collect()
}

#[cfg(test)]
pub(crate) mod testing {
    //! A function that reads a small file completely.

    use super::*;

    pub fn read_all(path: &Path, options: &Options) -> Result<RecordBatch> {
        let input = Input::inspect(path, options)?;
        let storable = |field: &std::sync::Arc<Field>| match field.data_type().is_null() {
            true => Field::clone(field).with_data_type(arrow_schema::DataType::Utf8),
            false => Field::clone(field),
        };
        let wanted: Fields = input.fields.iter().map(storable).collect();
        read_as(&input, &wanted)
    }

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
            Input::inspect(&path, &Options::default()).unwrap_err().to_string()
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
        assert!(Input::inspect(folder.path(), &Options::default()).unwrap_err().to_string().contains("is a directory"));
    }
}
