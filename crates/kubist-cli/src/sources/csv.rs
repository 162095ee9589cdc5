//! Text with a header line: CSV, TSV, also gzipped.
//!
//! Fields are read as text and then as the type that is asked for, so that a
//! value that does not fit is named with its row and column. A type is guessed
//! by the same rule: the narrowest that reads every value of the head.
//! An empty field is a missing value. Rows count from 1, after the header.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_csv::ReaderBuilder;
use arrow_csv::reader::Format;
use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit};
use flate2::read::MultiGzDecoder;

use super::{BATCH_ROWS, Batches, Counted, unreadable};
use crate::failure::{Failure, Result};

/// Rows of the head that decide the types.
const HEAD_ROWS: usize = 10_000;

type Text = BufReader<Box<dyn Read + Send>>;

/// The columns, with the types that the head suggests.
pub fn fields(path: &Path, delimiter: u8) -> Result<Vec<Field>> {
    let names = header(path, delimiter)?;
    let all: Vec<usize> = (0..names.len()).collect();
    let mut rows = texts(path, delimiter, &names, all, HEAD_ROWS, Arc::default())?;
    let head = rows.next().transpose()?;
    let fields = names.iter().enumerate().map(|(index, name)| {
        let data_type = head.as_ref().map_or(DataType::Null, |head| suggested(head.column(index).as_string()));
        Field::new(name, data_type, true)
    });
    Ok(fields.collect())
}

/// The wanted columns, read in the wanted types.
pub fn batches(path: &Path, delimiter: u8, wanted: &Fields, consumed: Arc<AtomicU64>) -> Result<Batches> {
    let names = header(path, delimiter)?;
    let indices: Vec<usize> = (0..names.len()).filter(|index| wanted.find(&names[*index]).is_some()).collect();
    let fields: Fields =
        indices.iter().filter_map(|index| wanted.find(&names[*index])).map(|(_, field)| field.clone()).collect();
    let rows = texts(path, delimiter, &names, indices, BATCH_ROWS, consumed)?;
    let path = path.to_path_buf();
    let mut first_row = 1;
    Ok(Box::new(rows.map(move |texts| {
        let texts = texts?;
        let columns = fields.iter().zip(texts.columns()).map(|(field, text)| {
            typed(text.as_string(), field, first_row).map_err(|failure| failure.within(path.display()))
        });
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        first_row += texts.num_rows();
        // Missing values are judged where they meet the table.
        let schema = Schema::new(fields.iter().map(|f| f.as_ref().clone().with_nullable(true)).collect::<Fields>());
        RecordBatch::try_new(Arc::new(schema), columns).map_err(|error| unreadable(&path, error))
    })))
}

/// The most frequent of the usual delimiters in the header line.
pub fn sniff_delimiter(path: &Path) -> Result<u8> {
    const LONGEST_HEADER: u64 = 1 << 20;
    let mut line = Vec::new();
    let reader = open(path, Arc::default())?;
    reader.take(LONGEST_HEADER).read_until(b'\n', &mut line).map_err(|error| Failure::io(path, &error))?;
    let times = |delimiter: &u8| line.iter().filter(|byte| *byte == delimiter).count();
    // Of equals the last wins: the comma.
    Ok([b'|', b';', b'\t', b','].into_iter().max_by_key(times).unwrap_or(b','))
}

fn header(path: &Path, delimiter: u8) -> Result<Vec<String>> {
    let format = Format::default().with_header(true).with_delimiter(delimiter);
    let schema = format.infer_schema(open(path, Arc::default())?, Some(0));
    let (schema, _) = schema.map_err(|error| unreadable(path, error))?;
    let names: Vec<String> = schema.fields().iter().map(|field| field.name().trim().to_string()).collect();
    if let Some(blank) = names.iter().position(String::is_empty) {
        return Err(Failure::usage(format!("{}: column {} has no name in the first line", path.display(), blank + 1)));
    }
    if names.iter().all(|name| name.parse::<f64>().is_ok()) {
        return Err(Failure::usage(format!(
            "{}: the first line holds numbers where the names of the columns should be",
            path.display()
        )));
    }
    Ok(names)
}

/// Batches of text, the columns of `indices` alone.
fn texts(
    path: &Path,
    delimiter: u8,
    names: &[String],
    indices: Vec<usize>,
    rows: usize,
    consumed: Arc<AtomicU64>,
) -> Result<impl Iterator<Item = Result<RecordBatch>> + Send + use<>> {
    let schema = Schema::new(names.iter().map(|name| Field::new(name, DataType::Utf8, true)).collect::<Fields>());
    let reader = ReaderBuilder::new(Arc::new(schema))
        .with_header(true)
        .with_delimiter(delimiter)
        .with_batch_size(rows)
        .with_projection(indices)
        .build_buffered(open(path, consumed)?)
        .map_err(|error| unreadable(path, error))?;
    let path = path.to_path_buf();
    Ok(reader.map(move |batch| batch.map_err(|error| unreadable(&path, error))))
}

/// The text, inflated if need be, without a byte order mark.
fn open(path: &Path, consumed: Arc<AtomicU64>) -> Result<Text> {
    const BUFFER: usize = 1 << 18;
    let failed = |error: std::io::Error| Failure::io(path, &error);
    let gzipped = {
        let mut magic = [0; 2];
        let mut file = File::open(path).map_err(failed)?;
        file.read_exact(&mut magic).is_ok() && magic == [0x1f, 0x8b]
    };
    let file = BufReader::with_capacity(BUFFER, Counted::open(path, consumed)?);
    let bytes: Box<dyn Read + Send> = if gzipped { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
    let mut text = BufReader::with_capacity(BUFFER, bytes);
    if text.fill_buf().map_err(failed)?.starts_with(b"\xef\xbb\xbf") {
        text.consume(3);
    }
    Ok(text)
}

/// `None` stands for a value that cannot be read so.
fn read_as(text: &StringArray, data_type: &DataType) -> Result<ArrayRef> {
    let options = CastOptions { safe: true, ..CastOptions::default() };
    cast_with_options(text, data_type, &options)
        .map_err(|_| Failure::usage(format!("text cannot be read as {data_type}")))
}

/// `text` as the field's type, or a failure that names row, column and value.
fn typed(text: &StringArray, field: &Field, first_row: usize) -> Result<ArrayRef> {
    let data_type = field.data_type();
    let parsed = read_as(text, data_type).map_err(|failure| failure.within(format!("column {:?}", field.name())))?;
    if parsed.null_count() == text.null_count() {
        return Ok(parsed);
    }
    let text = trimmed(text);
    let parsed = read_as(&text, data_type)?;
    match (0..text.len()).find(|row| text.is_valid(*row) && parsed.is_null(*row)) {
        None => Ok(parsed),
        Some(row) => Err(Failure::usage(format!(
            "row {}, column {:?}: cannot read {:?} as {data_type}",
            first_row + row,
            field.name(),
            excerpt(text.value(row)),
        ))),
    }
}

fn trimmed(text: &StringArray) -> StringArray {
    text.iter().map(|value| value.map(str::trim).filter(|value| !value.is_empty())).collect()
}

fn excerpt(value: &str) -> String {
    const LONGEST: usize = 60;
    match value.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.to_string(),
    }
}

/// The narrowest type that reads every value; `Null` if there is none.
fn suggested(text: &StringArray) -> DataType {
    let text = trimmed(text);
    let all = |test: &dyn Fn(&str) -> bool| text.iter().flatten().all(test);
    let reads = |data_type: &DataType| read_as(&text, data_type).is_ok_and(|a| a.null_count() == text.null_count());
    if text.null_count() == text.len() {
        return DataType::Null;
    }
    if all(&is_whole) {
        // Digits beyond 64 bits are names, not numbers: a float would lose some.
        return [DataType::Int64, DataType::UInt64].into_iter().find(reads).unwrap_or(DataType::Utf8);
    }
    if reads(&DataType::Float64) {
        return DataType::Float64;
    }
    if all(&|value| value.eq_ignore_ascii_case("true") || value.eq_ignore_ascii_case("false")) {
        return DataType::Boolean;
    }
    if all(&|value| value.len() == 10) && reads(&DataType::Date32) {
        return DataType::Date32;
    }
    let zoned = text.iter().flatten().filter(|value| has_zone(value)).count();
    let zone = (zoned > 0).then(|| Arc::from("UTC"));
    let fine = text.iter().flatten().any(|value| value.split_once('.').is_some_and(|(_, rest)| digits(rest) > 6));
    let unit = if fine { TimeUnit::Nanosecond } else { TimeUnit::Microsecond };
    let timestamp = DataType::Timestamp(unit, zone);
    let uniform = zoned == 0 || zoned == text.len() - text.null_count();
    if uniform && all(&|value| value.len() >= 16 && digits(value) == 4) && reads(&timestamp) {
        return timestamp;
    }
    DataType::Utf8
}

fn is_whole(value: &str) -> bool {
    let unsigned = value.strip_prefix(['+', '-']).unwrap_or(value);
    !unsigned.is_empty() && unsigned.bytes().all(|byte| byte.is_ascii_digit())
}

/// Leading digits.
fn digits(value: &str) -> usize {
    value.bytes().take_while(u8::is_ascii_digit).count()
}

/// Whether a timestamp ends in `Z` or an offset.
fn has_zone(value: &str) -> bool {
    value.ends_with(['Z', 'z']) || value.get(16..).is_some_and(|rest| rest.contains(['+', '-']))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use arrow_array::types::{Float32Type, Float64Type, Int64Type};

    use super::super::testing::{read_all, read_as as read_columns};
    use super::super::{Choice, Input};
    use super::*;

    fn suggestion(values: &[&str]) -> DataType {
        suggested(&values.iter().map(|value| (!value.is_empty()).then_some(*value)).collect())
    }

    #[test]
    fn types_are_the_narrowest_that_read_the_head() {
        assert_eq!(suggestion(&["1", "-2", "", " 3"]), DataType::Int64);
        assert_eq!(suggestion(&["1", "18446744073709551615"]), DataType::UInt64);
        assert_eq!(suggestion(&["1", "184467440737095516150"]), DataType::Utf8);
        assert_eq!(suggestion(&["1", "2.5", "nan", "-inf", "1e-7"]), DataType::Float64);
        assert_eq!(suggestion(&["true", "False"]), DataType::Boolean);
        assert_eq!(suggestion(&["t", "f"]), DataType::Utf8);
        assert_eq!(suggestion(&["2020-01-01", "2020-02-29"]), DataType::Date32);
        let micro = |zone| DataType::Timestamp(TimeUnit::Microsecond, zone);
        assert_eq!(suggestion(&["2020-01-01T10:00:00", "2020-01-01 11:00:00.5"]), micro(None));
        assert_eq!(suggestion(&["2020-01-01T10:00:00Z", "2020-01-01T10:00:00+01:00"]), micro(Some("UTC".into())));
        assert_eq!(suggestion(&["2020-01-01T10:00:00Z", "2020-01-01T10:00:00"]), DataType::Utf8);
        let nano = DataType::Timestamp(TimeUnit::Nanosecond, None);
        assert_eq!(suggestion(&["2020-01-01T10:00:00.123456789"]), nano);
        assert_eq!(suggestion(&["", ""]), DataType::Null);
        assert_eq!(suggestion(&["droplet", "1"]), DataType::Utf8);
    }

    fn write(folder: &Path, name: &str, text: &[u8]) -> std::path::PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn a_file_reads_with_quotes_blanks_and_marks() {
        let folder = tempfile::tempdir().unwrap();
        let text = "\u{feff}pid, x ,kind\n1,0.5,\"a,b\"\n2, 1.5,\n3,,\"line\nbreak\"\n";
        let batch = read_all(&write(folder.path(), "a.csv", text.as_bytes()), &Choice::default()).unwrap();
        assert_eq!(batch.schema().field(1).name(), "x");
        assert_eq!(batch.column(0).as_primitive::<Int64Type>().values(), &[1, 2, 3]);
        let x = batch.column(1).as_primitive::<Float64Type>();
        assert_eq!(x.iter().collect::<Vec<_>>(), [Some(0.5), Some(1.5), None]);
        let kind: Vec<_> = batch.column(2).as_string::<i32>().iter().collect();
        assert_eq!(kind, [Some("a,b"), None, Some("line\nbreak")]);
    }

    #[test]
    fn delimiters_are_seen_and_gzip_is_inflated() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("a.csv", "a;b\n1;2\n"), ("b.tsv", "a\tb\n1\t2\n"), ("c.txt", "a,b\n1,2\n")] {
            let batch = read_all(&write(folder.path(), name, text.as_bytes()), &Choice::default()).unwrap();
            assert_eq!((batch.num_columns(), batch.num_rows()), (2, 1), "{name}");
        }
        let path = folder.path().join("d.csv.gz");
        let mut gzip = flate2::write::GzEncoder::new(File::create(&path).unwrap(), flate2::Compression::fast());
        gzip.write_all(b"a,b\n1,2\n3,4\n").unwrap();
        gzip.finish().unwrap();
        assert_eq!(read_all(&path, &Choice::default()).unwrap().num_rows(), 2);
    }

    #[test]
    fn a_wrong_value_is_named_with_file_row_and_column() {
        let folder = tempfile::tempdir().unwrap();
        let mut text = "pid,x\n".to_string();
        for row in 0..70_000 {
            text += &format!("{row},{}\n", if row == 69_998 { "0.5mm".to_string() } else { row.to_string() });
        }
        let path = write(folder.path(), "bad.csv", text.as_bytes());
        let message = read_all(&path, &Choice::default()).unwrap_err().message;
        assert!(message.ends_with("bad.csv: row 69999, column \"x\": cannot read \"0.5mm\" as Int64"), "{message}");
        for (text, expected) in [
            ("a,b\n1,2\n3\n", "incorrect number of fields"),
            ("a,b\n1,2,3\n", "incorrect number of fields"),
            ("a,\n1,2\n", "column 2 has no name"),
            ("1,2\n1,2\n", "holds numbers"),
            ("a,a\n1,2\n", "two columns are named \"a\""),
        ] {
            let path = write(folder.path(), "bad.csv", text.as_bytes());
            let message = read_all(&path, &Choice::default()).unwrap_err().message;
            assert!(message.contains(expected) && message.contains("bad.csv"), "{message}");
        }
        let path = write(folder.path(), "bad.csv", b"a,b\n1,\xff\xfe\n");
        assert!(read_all(&path, &Choice::default()).unwrap_err().message.contains("bad.csv"));
    }

    #[test]
    fn wanted_types_and_columns_win_over_the_guess() {
        let folder = tempfile::tempdir().unwrap();
        let path = write(folder.path(), "a.csv", b"a,b,c\n1,2,x\n3,4,y\n");
        let input = Input::inspect(&path, &Choice::default()).unwrap();
        let wanted: Fields = vec![Field::new("b", DataType::Float32, true)].into();
        let batch = read_columns(&input, &wanted).unwrap();
        assert_eq!(batch.column(0).as_primitive::<Float32Type>().values(), &[2.0, 4.0]);
    }

    #[test]
    fn a_header_alone_is_no_rows() {
        let folder = tempfile::tempdir().unwrap();
        let path = write(folder.path(), "a.csv", b"a,b\n");
        let input = Input::inspect(&path, &Choice::default()).unwrap();
        assert_eq!(input.fields.len(), 2);
        assert_eq!(input.read(&input.fields, Arc::default()).iter().count(), 0);
    }
}
