//! NumPy archives: arrays of equal length are columns.
//!
//! An array of shape `(n, k)` with the name `u` gives the columns `u_0` to `u_{k-1}`, and a single number (shape `()`)
//! is repeated in every row. All arrays are read in parallel, each through its own stream and in blocks, so memory does
//! not grow with the file.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Field, Fields, Schema};

use crate::Batches;
use crate::error::{Error, Result};
use crate::limits::{BATCH_ROWS, Limits, PIECE_BYTES};
use crate::npy::Header;
use crate::source::{self, Counted};
use crate::zip::{Member, members};

/// An array with more columns is not a set of records.
const MOST_COLUMNS: u64 = 1024;

struct Stored {
    name: String,
    member: Member,
    /// `Err` has the reason why the array cannot be columns.
    layout: Result<ArrayLayout, String>,
}

struct ArrayLayout {
    header: Header,
    /// `None` for one value that is repeated in all rows.
    rows: Option<u64>,
    /// `None` for one column that has the array's name.
    width: Option<u64>,
}

impl Stored {
    fn columns(&self) -> Vec<String> {
        match &self.layout {
            Ok(ArrayLayout { width: Some(width), .. }) => {
                (0..*width).map(|index| format!("{}_{index}", self.name)).collect()
            }
            _ => vec![self.name.clone()],
        }
    }
}

/// The columns of a file. An array that cannot be columns is an error only if it was chosen.
pub fn fields(path: &Path, chosen: Option<&[String]>, limits: &Limits) -> Result<Vec<Field>> {
    let mut fields = Vec::new();
    for array in arrays(path, limits)? {
        let columns = array.columns();
        if chosen.is_some_and(|chosen| !columns.iter().any(|column| chosen.contains(column))) {
            continue;
        }
        let layout = array.layout.as_ref().map_err(|why| about(path, &array.name, why))?;
        fields.extend(
            columns.into_iter().map(|column| Field::new(column, layout.header.element.data_type.clone(), true)),
        );
    }
    length(path, &fields, limits)?;
    Ok(fields)
}

/// The common length of all arrays with these columns.
fn length(path: &Path, fields: &[Field], limits: &Limits) -> Result<u64> {
    let mut length: Option<(u64, String)> = None;
    let mut constants = 0;
    for array in arrays(path, limits)? {
        let Ok(layout) = &array.layout else { continue };
        if !array.columns().iter().any(|column| fields.iter().any(|field| field.name() == column)) {
            continue;
        }
        match (layout.rows, &length) {
            (None, _) => constants += 1,
            (Some(rows), None) => length = Some((rows, array.name)),
            (Some(rows), Some((others, first))) if rows != *others => {
                let why = format!("it has {rows} rows, but {first:?} has {others}");
                return Err(about(path, &array.name, &why));
            }
            _ => {}
        }
    }
    // A file with only single numbers has one record.
    Ok(length.map_or(u64::from(constants > 0), |(rows, _)| rows))
}

pub fn batches(path: &Path, wanted: &Fields, consumed: Arc<AtomicU64>, limits: Limits) -> Result<Batches> {
    let wanted: Vec<Field> = wanted.iter().map(|field| field.as_ref().clone()).collect();
    let rows = length(path, &wanted, &limits)?;
    let mut streams = Vec::new();
    for array in arrays(path, &limits)? {
        let columns: Vec<(usize, String)> = array.columns().into_iter().enumerate().collect();
        let columns: Vec<(usize, String)> =
            columns.into_iter().filter(|(_, column)| wanted.iter().any(|field| field.name() == column)).collect();
        if columns.is_empty() {
            continue;
        }
        let layout = array.layout.map_err(|why| about(path, &array.name, &why))?;
        let open = |skip: u64| -> Result<Box<dyn Read + Send>> {
            let file = Counted::open(path, consumed.clone())?;
            array.member.read(file, skip).map_err(|error| Error::io(path, error))
        };
        let start = layout.header.bytes;
        let width = layout.width.unwrap_or(1) as usize;
        if layout.header.fortran_order && width > 1 {
            let column_bytes = rows * layout.header.element.bytes as u64;
            for (index, name) in columns {
                let reader = open(start + index as u64 * column_bytes)?;
                let header = layout.header.clone();
                streams.push(RowStream { header, width: 1, constant: false, columns: vec![(0, name)], reader });
            }
        } else {
            let mut reader = open(0)?;
            Header::read(&mut reader).map_err(|why| about(path, &array.name, &why))?;
            streams.push(RowStream { header: layout.header, width, constant: layout.rows.is_none(), columns, reader });
        }
    }
    let fields: Fields = streams
        .iter()
        .flat_map(|stream| {
            stream.columns.iter().map(|(_, name)| Field::new(name, stream.header.element.data_type.clone(), true))
        })
        .collect();
    let schema = Arc::new(Schema::new(fields));
    let row_bytes = streams.iter().map(RowStream::row_bytes).fold(0, u64::saturating_add);
    limits.check_record(row_bytes).map_err(|error| error.within(path.display()))?;
    let rows_at_once = (PIECE_BYTES as u64 / row_bytes.max(1)).clamp(1, BATCH_ROWS as u64);
    let file_bytes = source::open(path)?.metadata().map_err(|error| Error::io(path, error))?.len();
    let path = path.to_path_buf();
    let mut done = 0;
    Ok(Box::new(std::iter::from_fn(move || {
        let count = (rows - done).min(rows_at_once) as usize;
        if count == 0 {
            return None;
        }
        done += count as u64;
        // Text is padded, so batches may be much smaller than the bytes that were read.
        if let Err(error) = limits.check_inflation(done.saturating_mul(row_bytes), file_bytes) {
            return Some(Err(error.within(path.display())));
        }
        let columns = streams.iter_mut().map(|stream| stream.next(&path, count)).collect::<Result<Vec<_>>>();
        Some(columns.and_then(|columns| {
            RecordBatch::try_new(schema.clone(), columns.concat()).map_err(|error| Error::arrow(&path, error))
        }))
    })))
}

struct RowStream {
    header: Header,
    width: usize,
    constant: bool,
    /// For each column, its index in the row and its name.
    columns: Vec<(usize, String)>,
    reader: Box<dyn Read + Send>,
}

impl RowStream {
    fn row_bytes(&self) -> u64 {
        (self.width as u64).saturating_mul(self.header.element.bytes as u64)
    }

    fn next(&mut self, path: &Path, count: usize) -> Result<Vec<ArrayRef>> {
        let element = &self.header.element;
        let failed = |error: std::io::Error| Error::io(path, error);
        let bytes = if self.constant {
            let mut value = vec![0; element.bytes];
            self.reader.read_exact(&mut value).map_err(failed)?;
            let repeated = value.repeat(count);
            self.reader = Box::new(std::io::Cursor::new(value));
            repeated
        } else {
            let mut bytes = vec![0; count * self.width * element.bytes];
            self.reader.read_exact(&mut bytes).map_err(failed)?;
            bytes
        };
        let read = |(index, name): &(usize, String)| {
            element.column(&bytes, count, self.width, *index).map_err(|why| about(path, name, &why))
        };
        self.columns.iter().map(read).collect()
    }
}

fn arrays(path: &Path, limits: &Limits) -> Result<Vec<Stored>> {
    let failed = |error: std::io::Error| Error::io(path, error);
    let members = members(&mut source::open(path)?).map_err(failed)?;
    // The number of columns is checked before the members are opened.
    limits.check_columns(members.len()).map_err(|error| error.within(path.display()))?;
    let mut arrays = Vec::new();
    for member in members {
        let Some(name) = member.name.strip_suffix(".npy").map(String::from) else {
            continue;
        };
        let file = source::open(path)?;
        let mut reader = member.read(file, 0).map_err(failed)?;
        let layout = Header::read(&mut reader).and_then(|header| layout(header, &member));
        arrays.push(Stored { name, member, layout });
    }
    if arrays.is_empty() {
        return Err(Error::invalid(format!("{}: there are no arrays in this archive", path.display())));
    }
    Ok(arrays)
}

fn layout(header: Header, member: &Member) -> Result<ArrayLayout, String> {
    let needed = header.data_bytes().and_then(|bytes| bytes.checked_add(header.bytes));
    if needed.is_none_or(|needed| needed > member.bytes) {
        return Err("it is cut short".to_string());
    }
    let (rows, width) = match header.shape[..] {
        [] => (None, None),
        [rows] => (Some(rows), None),
        [rows, width @ 1..=MOST_COLUMNS] => (Some(rows), Some(width)),
        _ => {
            return Err(format!("its shape {:?} gives no columns: one or two axes do", header.shape));
        }
    };
    Ok(ArrayLayout { header, rows, width })
}

fn about(path: &Path, array: &str, why: &str) -> Error {
    Error::invalid(format!("{}: array {array:?}: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float32Type, Float64Type, Int32Type, TimestampMillisecondType};
    use arrow_schema::DataType;

    use crate::testing::read_all;
    use crate::{Input, Options};

    /// Written by NumPy 2 with `tests/data/make_npz.py`.
    const PLAIN: &[u8] = include_bytes!("../tests/data/numpy-plain.npz");
    const DEFLATED: &[u8] = include_bytes!("../tests/data/numpy-deflated.npz");

    fn choose(columns: &[&str]) -> Options {
        Options { columns: Some(columns.iter().map(|column| column.to_string()).collect()), ..Options::default() }
    }

    #[test]
    fn every_array_that_numpy_writes() {
        let folder = tempfile::tempdir().unwrap();
        for bytes in [PLAIN, DEFLATED] {
            let path = folder.path().join("a.npz");
            std::fs::write(&path, bytes).unwrap();
            let all = choose(&[
                "pid", "x", "u_0", "u_1", "u_2", "f_0", "f_1", "big", "ok", "when", "name", "tag", "time", "half",
            ]);
            let batch = read_all(&path, &all).unwrap();
            assert_eq!(batch.num_rows(), 40);
            let last = 39;
            assert_eq!(batch["pid"].as_primitive::<Int32Type>().value(last), last as i32);
            assert_eq!(batch["x"].as_primitive::<Float64Type>().value(last), last as f64 * 0.5);
            for (index, name) in ["u_0", "u_1", "u_2"].into_iter().enumerate() {
                assert_eq!(batch[name].as_primitive::<Float32Type>().value(last), (last * 3 + index) as f32);
            }
            for (index, name) in ["f_0", "f_1"].into_iter().enumerate() {
                assert_eq!(batch[name].as_primitive::<Float32Type>().value(last), (last * 2 + index) as f32);
            }
            assert_eq!(batch["big"].as_primitive::<Float64Type>().value(last), -(last as f64));
            assert!(!batch["ok"].as_boolean().value(0) && batch["ok"].as_boolean().value(last));
            let when = batch["when"].as_primitive::<TimestampMillisecondType>();
            assert!(when.is_null(0) && when.value(1) == 1 && when.value(last) == last as i64);
            assert_eq!(batch["name"].as_string::<i32>().value(last), "pérla 39");
            assert_eq!(batch["tag"].as_string::<i32>().value(1), "b");
            assert_eq!(batch["time"].as_primitive::<Float64Type>().value(last), 0.25);
            assert_eq!(batch["half"].data_type(), &DataType::Float16);
        }
    }

    #[test]
    fn what_cannot_be_columns_is_named_when_it_is_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npz");
        std::fs::write(&path, PLAIN).unwrap();
        for (columns, expected) in [
            (None, "array"),
            (Some(["short", "x"]), "\"short\": it has 3 rows, but \"x\" has 40"),
            (Some(["cube", "x"]), "its shape [2, 2, 2] gives no columns"),
            (Some(["complex", "x"]), "arrays of type \"<c16\" are not read"),
            (Some(["u", "x"]), "no column \"u\""),
        ] {
            let choice = columns.map_or(Options::default(), |columns| choose(&columns));
            let message = Input::inspect(&path, &choice).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn a_cut_or_flipped_archive_is_an_error_never_a_panic() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npz");
        let columns = choose(&["x", "u_1", "time"]);
        for (seed, bytes) in [PLAIN, DEFLATED].into_iter().enumerate() {
            for length in (1..bytes.len()).step_by(bytes.len() / 7) {
                std::fs::write(&path, &bytes[..length]).unwrap();
                assert!(read_all(&path, &columns).is_err());
            }
            // The head of the first member and the directory.
            let indices = (0..200).chain(bytes.len() - 1000..bytes.len());
            for index in indices.skip(seed).step_by(7) {
                let mut damaged = bytes.to_vec();
                damaged[index] ^= 0x55;
                std::fs::write(&path, &damaged).unwrap();
                let _ = read_all(&path, &columns);
            }
        }
    }
}
