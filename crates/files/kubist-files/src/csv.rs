//! Delimited text (CSV, TSV, blanks), optionally compressed with gzip or Zstandard. The first line or an option gives
//! the column names.
//!
//! Fields are read as text and then converted to the requested type, so an error names the row (from 1, after the
//! names) and the column. An inferred type is the narrowest type that can hold every value of the head. A missing value
//! is an empty field, `null` in a column that is not text, and `NaN` among integers. Lines before the names that begin
//! with `#` are comments.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_csv::ReaderBuilder;
use arrow_csv::reader::{Decoder, Format};
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema, TimeUnit};
use flate2::read::MultiGzDecoder;

use crate::blanks::Blanks;
use crate::csv_marks::{Decimal, Marks};
use crate::error::{Error, Result};
use crate::limits::{BATCH_ROWS, Limits};
use crate::records::Records;
use crate::source::Counted;
use crate::{Batches, Delimiter};

/// The number of rows that determine the types.
const HEAD_ROWS: usize = 10_000;
/// A batch ends after this many bytes of text, whatever its number of rows.
const BATCH_TEXT: usize = 16 << 20;
const BUFFER: usize = 1 << 18;
const MOST_COMMENTS: u64 = 1 << 16;
/// The maximum number of fields in a batch, for which the decoder allocates memory.
const BATCH_FIELDS: usize = 1 << 21;

type Bytes = BufReader<Box<dyn Read + Send>>;

#[derive(Clone, Copy)]
pub struct Text<'a> {
    pub path: &'a Path,
    pub delimiter: Delimiter,
    /// The names, if no line contains them.
    pub names: Option<&'a [String]>,
    pub marks: &'a Marks,
}

impl Text<'_> {
    /// The delimiter, after runs of blanks were reduced to one blank.
    fn delimiter(&self) -> u8 {
        match self.delimiter {
            Delimiter::Byte(byte) => byte,
            Delimiter::Blanks => b' ',
        }
    }

    fn open(&self, consumed: Arc<AtomicU64>, limits: &Limits) -> Result<Bytes> {
        let text = open(self.path, consumed, limits, self.names.is_none())?;
        Ok(match self.delimiter {
            Delimiter::Byte(_) => text,
            Delimiter::Blanks => BufReader::with_capacity(BUFFER, Box::new(Blanks::new(text))),
        })
    }
}

/// Infers the types from the head.
pub fn fields(text: &Text, limits: &Limits) -> Result<Vec<Field>> {
    let names = header(text, limits)?;
    let all: Vec<usize> = (0..names.len()).collect();
    let mut rows = Texts::open(text, &names, all, HEAD_ROWS, Arc::default(), limits)?;
    let head = rows.next().transpose().map_err(|error| error.within(text.path.display()))?;
    let fields = names.iter().enumerate().map(|(index, name)| {
        let data_type = head.as_ref().map_or(DataType::Null, |head| {
            suggested(&text.marks.without_null(head.column(index).as_string().clone()), text.marks)
        });
        Field::new(name, data_type, true)
    });
    Ok(fields.collect())
}

/// The comments at the beginning of the text, as metadata `comments`.
pub fn comments(path: &Path, limits: &Limits) -> Result<Vec<(String, String)>> {
    let text = inflated(path, Arc::default(), limits)?;
    let mut comments = Vec::new();
    for line in text.take(MOST_COMMENTS).lines() {
        let line = line.map_err(|error| Error::io(path, error))?;
        if !line.starts_with('#') {
            break;
        }
        comments.push(line);
    }
    match comments.is_empty() {
        true => Ok(Vec::new()),
        false => Ok(vec![("comments".to_owned(), comments.join("\n"))]),
    }
}

pub fn batches(text: &Text, wanted: &Fields, consumed: Arc<AtomicU64>, limits: Limits) -> Result<Batches> {
    let names = header(text, &limits)?;
    let indices: Vec<usize> = (0..names.len()).filter(|index| wanted.find(&names[*index]).is_some()).collect();
    let fields: Fields =
        indices.iter().filter_map(|index| wanted.find(&names[*index])).map(|(_, field)| field.clone()).collect();
    let rows = Texts::open(text, &names, indices, BATCH_ROWS, consumed, &limits)?;
    let (path, marks) = (text.path.to_path_buf(), text.marks.clone());
    let mut first_row = 1;
    let mut typed_batch = move |texts: Result<RecordBatch>| {
        let texts = texts?;
        let columns = fields.iter().zip(texts.columns());
        let columns =
            columns.map(|(field, text)| typed(&marks.without_null(text.as_string().clone()), field, first_row, &marks));
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        first_row += texts.num_rows();
        // The table decides whether missing values are allowed.
        let schema = Schema::new(fields.iter().map(|f| f.as_ref().clone().with_nullable(true)).collect::<Fields>());
        RecordBatch::try_new(Arc::new(schema), columns).map_err(Error::invalid)
    };
    Ok(Box::new(rows.map(move |texts| typed_batch(texts).map_err(|error| error.within(path.display())))))
}

/// The most frequent delimiter in the first line.
pub fn sniff_delimiter(path: &Path, decimal: Decimal, limits: &Limits) -> Result<Delimiter> {
    const LONGEST_HEADER: u64 = 1 << 20;
    let mut line = Vec::new();
    let reader = open(path, Arc::default(), limits, true)?;
    reader.take(LONGEST_HEADER).read_until(b'\n', &mut line).map_err(|error| Error::io(path, error))?;
    let times = |delimiter: &u8| line.iter().filter(|byte| *byte == delimiter).count();
    let is_free = |delimiter: &u8| *delimiter != b',' || decimal == Decimal::Point;
    // If counts are equal, the last one is chosen: the comma, or the semicolon next to decimal commas.
    let delimiters = [b'|', b'\t', b';', b','].into_iter().filter(is_free);
    Ok(Delimiter::Byte(delimiters.max_by_key(times).unwrap_or(b',')))
}

fn header(text: &Text, limits: &Limits) -> Result<Vec<String>> {
    let (path, delimiter) = (text.path, text.delimiter());
    let refused = |what: String| Err(Error::invalid(what).within(path.display()));
    let mut records = Records::new(text.open(Arc::default(), limits)?, delimiter, *limits);
    let first = records.first().map_err(|error| error.within(path.display()))?;
    let format = Format::default().with_header(true).with_delimiter(delimiter);
    let (schema, _) = format.infer_schema(&first[..], Some(0)).map_err(|error| Error::arrow(path, error))?;
    let found: Vec<String> = schema.fields().iter().map(|field| field.name().trim().to_string()).collect();
    if let Some(names) = text.names {
        return match names.len() == found.len() {
            true => Ok(names.to_vec()),
            false => {
                refused(format!("{} names were given, and the first line has {} fields", names.len(), found.len()))
            }
        };
    }
    if let Some(blank) = found.iter().position(String::is_empty) {
        return refused(format!("column {} has no name in the first line", blank + 1));
    }
    let is_number = |field: &str| field.parse::<f64>().is_ok();
    let by_blanks = text.delimiter != Delimiter::Blanks && found.len() == 1 && found[0].contains([' ', '\t']);
    if found.iter().all(|field| is_number(field)) {
        return refused(
            "the first line holds numbers, and names of columns are expected: read option names gives them".to_string(),
        );
    }
    if by_blanks && found[0].split_whitespace().all(is_number) {
        return refused(
            "the first line holds numbers between blanks, and names of columns are expected: read option delimiter=space takes \
             runs of blanks as delimiters, and names gives the names"
                .to_string(),
        );
    }
    Ok(found)
}

/// The text of the columns in `indices`. Errors do not name the file.
struct Texts {
    records: Records<Bytes>,
    decoder: Decoder,
}

impl Texts {
    fn open(
        text: &Text,
        names: &[String],
        indices: Vec<usize>,
        rows: usize,
        consumed: Arc<AtomicU64>,
        limits: &Limits,
    ) -> Result<Texts> {
        let schema = Schema::new(names.iter().map(|name| Field::new(name, DataType::Utf8, true)).collect::<Fields>());
        let decoder = ReaderBuilder::new(Arc::new(schema))
            .with_header(text.names.is_none())
            .with_delimiter(text.delimiter())
            .with_batch_size((BATCH_FIELDS / names.len().max(1)).clamp(1, rows))
            .with_projection(indices)
            .build_decoder();
        Ok(Texts { records: Records::new(text.open(consumed, limits)?, text.delimiter(), *limits), decoder })
    }

    fn read(&mut self) -> Result<Option<RecordBatch>> {
        let mut bytes = 0;
        loop {
            let is_large = bytes >= BATCH_TEXT;
            let part = self.records.part(is_large)?;
            // An empty slice tells the decoder that the text has ended.
            let decoded = self.decoder.decode(part).map_err(unplaced)?;
            self.records.consume(decoded);
            bytes += decoded;
            let is_full = self.decoder.capacity() == 0 || (is_large && self.records.at_end_of_record());
            if decoded == 0 || is_full {
                let batch = self.decoder.flush().map_err(unplaced)?;
                if batch.is_some() || decoded == 0 {
                    return Ok(batch);
                }
                bytes = 0;
            }
        }
    }
}

impl Iterator for Texts {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        self.read().transpose()
    }
}

fn unplaced(error: ArrowError) -> Error {
    match error {
        ArrowError::CsvError(what) | ArrowError::ParseError(what) => Error::invalid(what),
        error => Error::invalid(error),
    }
}

/// Inflates the text, and removes a byte order mark and comments at the beginning. With `may_have_names`, the last
/// comment stays.
fn open(path: &Path, consumed: Arc<AtomicU64>, limits: &Limits, may_have_names: bool) -> Result<Bytes> {
    let failed = |error: std::io::Error| Error::io(path, error);
    let mut text = inflated(path, consumed, limits)?;
    if text.fill_buf().map_err(failed)?.starts_with(crate::ECSV) {
        let what = "this is ECSV, whose comments have types and units: read option format=ecsv reads them";
        return Err(Error::invalid(what).within(path.display()));
    }
    without_comments(text, limits, may_have_names).map_err(failed)
}

fn inflated(path: &Path, consumed: Arc<AtomicU64>, limits: &Limits) -> Result<Bytes> {
    let failed = |error: std::io::Error| Error::io(path, error);
    let mut magic = Vec::with_capacity(4);
    crate::source::open(path)?.take(4).read_to_end(&mut magic).map_err(failed)?;
    let file = Counted::open(path, consumed)?;
    let packed = file.length().map_err(failed)?;
    let file = BufReader::with_capacity(BUFFER, file);
    let bytes: Box<dyn Read + Send> = if magic.starts_with(&GZIP) {
        Box::new(Inflated { reader: MultiGzDecoder::new(file), packed, passed: 0, limits: *limits })
    } else if magic == ZSTANDARD {
        let reader = zstd::Decoder::with_buffer(file).map_err(failed)?;
        Box::new(Inflated { reader, packed, passed: 0, limits: *limits })
    } else {
        Box::new(file)
    };
    let mut text = BufReader::with_capacity(BUFFER, bytes);
    if text.fill_buf().map_err(failed)?.starts_with(b"\xef\xbb\xbf") {
        text.consume(3);
    }
    Ok(text)
}

/// Removes comments. If a number follows the last comment, this comment has the names.
fn without_comments(mut text: Bytes, limits: &Limits, may_have_names: bool) -> std::io::Result<Bytes> {
    let mut comment = Vec::new();
    while text.fill_buf()?.first() == Some(&b'#') {
        comment.clear();
        text.by_ref().take(limits.record_bytes).read_until(b'\n', &mut comment)?;
    }
    let is_of_number = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.');
    let next = text.fill_buf()?.iter().find(|byte| !matches!(byte, b' ' | b'\t'));
    match may_have_names && !comment.is_empty() && next.is_some_and(is_of_number) {
        false => Ok(text),
        true => Ok(BufReader::with_capacity(BUFFER, Box::new(std::io::Cursor::new(comment).chain(text)))),
    }
}

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTANDARD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// A reader that stops at the inflation limit.
struct Inflated<R> {
    reader: R,
    packed: u64,
    passed: u64,
    limits: Limits,
}

impl<R: Read> Read for Inflated<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let bytes = self.reader.read(buffer)?;
        self.passed += bytes as u64;
        self.limits.check_inflation(self.passed, self.packed)?;
        Ok(bytes)
    }
}

/// Converts text. A value that cannot be converted becomes null.
fn read_as(text: &StringArray, data_type: &DataType) -> Result<ArrayRef> {
    let options = CastOptions { safe: true, ..CastOptions::default() };
    cast_with_options(text, data_type, &options)
        .map_err(|_| Error::invalid(format!("text cannot be read as {data_type}")))
}

/// Converts text. Errors name row, column and value.
fn typed(given: &StringArray, field: &Field, first_row: usize, marks: &Marks) -> Result<ArrayRef> {
    let data_type = field.data_type();
    let of_numbers = data_type.is_numeric().then(|| marks.with_points(given));
    let text = of_numbers.as_ref().unwrap_or(given);
    let parsed = read_as(text, data_type).map_err(|error| error.within(format!("column {:?}", field.name())))?;
    if data_type.is_floating() {
        check_range(text, &parsed, field, first_row)?;
    }
    if *data_type == DataType::Float32 && is_date(field) {
        check_date(text, &parsed, field, first_row)?;
    }
    if parsed.null_count() == text.null_count() {
        return Ok(parsed);
    }
    let text = trimmed(text, data_type.is_integer());
    let parsed = read_as(&text, data_type)?;
    match (0..text.len()).find(|row| text.is_valid(*row) && parsed.is_null(*row)) {
        None => Ok(parsed),
        Some(row) => Err(Error::invalid(format!(
            "row {}, column {:?}: cannot read {:?} as {data_type}",
            first_row + row,
            field.name(),
            excerpt(given.value(row)),
        ))),
    }
}

/// Checks that no number became infinite or zero because the type is too narrow.
fn check_range(text: &StringArray, parsed: &ArrayRef, field: &Field, first_row: usize) -> Result<()> {
    let floats = cast_with_options(parsed, &DataType::Float64, &CastOptions::default());
    let floats = floats.map_err(Error::invalid)?;
    let is_lost = |row: usize, value: f64| {
        let mantissa = || text.value(row).split(['e', 'E']).next().unwrap_or_default();
        (value.is_infinite() && mantissa().bytes().any(|byte| byte.is_ascii_digit()))
            || (value == 0.0 && mantissa().bytes().any(|byte| matches!(byte, b'1'..=b'9')))
    };
    let values = floats.as_primitive::<Float64Type>().iter().enumerate();
    match values.filter_map(|(row, value)| Some((row, value?))).find(|(row, value)| is_lost(*row, *value)) {
        None => Ok(()),
        Some((row, _)) => Err(Error::invalid(format!(
            "row {}, column {:?}: {} is outside the range of {}",
            first_row + row,
            field.name(),
            excerpt(text.value(row)),
            field.data_type(),
        ))),
    }
}

/// Whether a column has dates, by its unit or name, such as `JD` and `date_obs`.
fn is_date(field: &Field) -> bool {
    let is_julian = |word: &str| matches!(word, "jd" | "mjd" | "bjd" | "hjd" | "tjd" | "btjd");
    let name = field.name().to_ascii_lowercase();
    let in_days = matches!(field.metadata().get("unit").map(String::as_str), Some("d" | "day" | "s"));
    in_days || name == "time" || name.starts_with("date") || name.split('_').any(is_julian)
}

/// Refuses dates in 32 bits, which would round 2460000.123 to 2460000. Smaller numbers are durations.
fn check_date(text: &StringArray, parsed: &ArrayRef, field: &Field, first_row: usize) -> Result<()> {
    const LATE: f64 = 10_000.0;
    let read = read_as(text, &DataType::Float64)?;
    let stored = cast_with_options(parsed, &DataType::Float64, &CastOptions::default()).map_err(Error::invalid)?;
    let (read, stored) = (read.as_primitive::<Float64Type>(), stored.as_primitive::<Float64Type>());
    let is_lost = |row: &usize| {
        let value = read.value(*row);
        read.is_valid(*row) && value.is_finite() && value.abs() >= LATE && value != stored.value(*row)
    };
    match (0..read.len()).find(is_lost) {
        None => Ok(()),
        Some(row) => Err(Error::invalid(format!(
            "row {}, column {:?}: {} is a date, of which 32 bits keep {}: give the column the type float64",
            first_row + row,
            field.name(),
            excerpt(text.value(row)),
            stored.value(row),
        ))),
    }
}

/// Removes blanks around fields and marks of missing values. `NaN` is a mark among integers.
fn trimmed(text: &StringArray, among_integers: bool) -> StringArray {
    let is_mark = |value: &str| {
        value.is_empty() || value.eq_ignore_ascii_case("null") || (among_integers && value.eq_ignore_ascii_case("nan"))
    };
    text.iter().map(|value| value.map(str::trim).filter(|value| !is_mark(value))).collect()
}

fn excerpt(value: &str) -> String {
    const LONGEST: usize = 60;
    match value.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.to_string(),
    }
}

/// The narrowest type that can hold every value; `Null` if there are no values.
fn suggested(given: &StringArray, marks: &Marks) -> DataType {
    let text = &marks.with_points(given);
    let without_nan = trimmed(text, true);
    let is_of_integers = without_nan.null_count() < text.len() && without_nan.iter().flatten().all(is_whole);
    let text = if is_of_integers { without_nan } else { trimmed(text, false) };
    let all = |test: &dyn Fn(&str) -> bool| text.iter().flatten().all(test);
    let reads = |data_type: &DataType| read_as(&text, data_type).is_ok_and(|a| a.null_count() == text.null_count());
    if text.null_count() == text.len() {
        return DataType::Null;
    }
    if all(&is_whole) {
        // Integers of more than 64 bits are identifiers, which would lose digits as floats.
        return [DataType::Int64, DataType::UInt64].into_iter().find(reads).unwrap_or(DataType::Utf8);
    }
    if reads(&DataType::Float64) {
        return DataType::Float64;
    }
    let text = trimmed(given, false);
    let all = |test: &dyn Fn(&str) -> bool| text.iter().flatten().all(test);
    let reads = |data_type: &DataType| read_as(&text, data_type).is_ok_and(|a| a.null_count() == text.null_count());
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

fn digits(value: &str) -> usize {
    value.bytes().take_while(u8::is_ascii_digit).count()
}

fn has_zone(value: &str) -> bool {
    value.ends_with(['Z', 'z']) || value.get(16..).is_some_and(|rest| rest.contains(['+', '-']))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use arrow_array::types::{Float32Type, Float64Type, Int64Type};

    use super::*;
    use crate::testing::{read_all, read_as as read_columns};
    use crate::{Input, Options};

    fn suggestion(values: &[&str]) -> DataType {
        suggested(&values.iter().map(|value| (!value.is_empty()).then_some(*value)).collect(), &Marks::default())
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
        assert_eq!(suggestion(&["1", "null", "NaN"]), DataType::Int64);
        assert_eq!(suggestion(&["1.5", "NULL", "NaN"]), DataType::Float64);
        assert_eq!(suggestion(&["true", "null"]), DataType::Boolean);
        assert_eq!(suggestion(&["NaN", "nan"]), DataType::Float64);
        assert_eq!(suggestion(&["null", "a"]), DataType::Utf8);
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
        let batch = read_all(&write(folder.path(), "a.csv", text.as_bytes()), &Options::default()).unwrap();
        assert_eq!(batch.schema().field(1).name(), "x");
        assert_eq!(batch.column(0).as_primitive::<Int64Type>().values(), &[1, 2, 3]);
        let x = batch.column(1).as_primitive::<Float64Type>();
        assert_eq!(x.iter().collect::<Vec<_>>(), [Some(0.5), Some(1.5), None]);
        let kind: Vec<_> = batch.column(2).as_string::<i32>().iter().collect();
        assert_eq!(kind, [Some("a,b"), None, Some("line\nbreak")]);
    }

    #[test]
    fn comments_and_marks_of_missing_values() {
        let folder = tempfile::tempdir().unwrap();
        let text = "# made by an archive\n#\nid,x,name\n1,null,null\nnull,NaN,b\nNaN,0.5,c\n";
        let batch = read_all(&write(folder.path(), "a.csv", text.as_bytes()), &Options::default()).unwrap();
        let id: Vec<_> = batch["id"].as_primitive::<Int64Type>().iter().collect();
        assert_eq!(id, [Some(1), None, None]);
        let x = batch["x"].as_primitive::<Float64Type>();
        assert!(x.is_null(0) && x.value(1).is_nan() && x.value(2) == 0.5);
        let path = write(folder.path(), "gaia.csv", b"# %ECSV 1.0\n# ---\nid\n1\n");
        assert!(crate::is_external(&path));
        assert!(Input::inspect(&path, &Options::default()).unwrap_err().to_string().contains("format=ecsv"));
        assert_eq!(batch["name"].as_string::<i32>().value(0), "null");
        let path = write(folder.path(), "b.csv", b"# a star list\n#ra,dec\n1,2\n3,4\n");
        let batch = read_all(&path, &Options::default()).unwrap();
        assert_eq!((batch.schema().field(0).name().as_str(), batch.num_rows()), ("#ra", 2));
        let options = Options { names: Some(vec!["ra".into(), "dec".into()]), ..Options::default() };
        assert_eq!(read_all(&path, &options).unwrap().num_rows(), 2);
    }

    #[test]
    fn delimiters_are_seen_and_gzip_is_inflated() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("a.csv", "a;b\n1;2\n"), ("b.tsv", "a\tb\n1\t2\n"), ("c.txt", "a,b\n1,2\n")] {
            let batch = read_all(&write(folder.path(), name, text.as_bytes()), &Options::default()).unwrap();
            assert_eq!((batch.num_columns(), batch.num_rows()), (2, 1), "{name}");
        }
        let path = folder.path().join("d.csv.gz");
        let mut gzip =
            flate2::write::GzEncoder::new(std::fs::File::create(&path).unwrap(), flate2::Compression::fast());
        gzip.write_all(b"a,b\n1,2\n3,4\n").unwrap();
        gzip.finish().unwrap();
        assert_eq!(read_all(&path, &Options::default()).unwrap().num_rows(), 2);
        // Two frames, which `cat` and parallel programs write.
        let packed = [&b"a,b\n1,2\n"[..], b"3,4\n"].map(|text| zstd::encode_all(text, 3).unwrap()).concat();
        let path = write(folder.path(), "e.CSV.zst", &packed);
        assert_eq!(read_all(&path, &Options::default()).unwrap().num_rows(), 2);
        let path = write(folder.path(), "cut.csv.zst", &packed[..packed.len() - 3]);
        assert!(read_all(&path, &Options::default()).is_err());
    }

    #[test]
    fn dates_keep_their_digits() {
        let folder = tempfile::tempdir().unwrap();
        let read = |name: &str, value: &str, data_type: DataType| {
            let path = write(folder.path(), "a.csv", format!("{name}\n1\n{value}\n").as_bytes());
            let input = Input::inspect(&path, &Options::default()).unwrap();
            let field = Field::new(name, data_type, true);
            input.read(&vec![field].into(), Arc::default()).into_iter().try_for_each(|batch| batch.map(drop))
        };
        let message = read("MJD_obs", "60000.123456", DataType::Float32).unwrap_err().to_string();
        assert!(message.contains("row 2, column \"MJD_obs\": 60000.123456 is a date"), "{message}");
        for (name, value) in [("MJD", "60000.5"), ("time", "0.123456789"), ("flux", "60000.123456")] {
            read(name, value, DataType::Float32).unwrap();
        }
        read("JD", "2460000.123", DataType::Float64).unwrap();
    }

    #[test]
    fn a_wrong_value_is_named_with_file_row_and_column() {
        let folder = tempfile::tempdir().unwrap();
        let mut text = "pid,x\n".to_string();
        for row in 0..70_000 {
            text += &format!("{row},{}\n", if row == 69_998 { "0.5mm".to_string() } else { row.to_string() });
        }
        let path = write(folder.path(), "bad.csv", text.as_bytes());
        let message = read_all(&path, &Options::default()).unwrap_err().to_string();
        assert!(message.ends_with("bad.csv: row 69999, column \"x\": cannot read \"0.5mm\" as Int64"), "{message}");
        for (text, expected) in [
            ("a,b\n1,2\n3\n", "incorrect number of fields"),
            ("a,b\n1,2,3\n", "incorrect number of fields"),
            ("a,\n1,2\n", "column 2 has no name"),
            ("1,2\n1,2\n", "holds numbers"),
            ("a,a\n1,2\n", "two columns are named \"a\""),
        ] {
            let path = write(folder.path(), "bad.csv", text.as_bytes());
            let message = read_all(&path, &Options::default()).unwrap_err().to_string();
            assert!(message.contains(expected) && message.contains("bad.csv"), "{message}");
        }
        let path = write(folder.path(), "bad.csv", b"a,b\n1,\xff\xfe\n");
        assert!(read_all(&path, &Options::default()).unwrap_err().to_string().contains("bad.csv"));
    }

    #[test]
    fn wanted_types_and_columns_win_over_the_guess() {
        let folder = tempfile::tempdir().unwrap();
        let path = write(folder.path(), "a.csv", b"a,b,c\n1,2,x\n3,4,y\n");
        let input = Input::inspect(&path, &Options::default()).unwrap();
        let wanted: Fields = vec![Field::new("b", DataType::Float32, true)].into();
        let batch = read_columns(&input, &wanted).unwrap();
        assert_eq!(batch.column(0).as_primitive::<Float32Type>().values(), &[2.0, 4.0]);
    }

    #[test]
    fn empty_lines_are_passed_over_however_many() {
        let folder = tempfile::tempdir().unwrap();
        let lines = "\n".repeat(BATCH_TEXT + (1 << 20));
        let text = format!("a\n1\n{lines}2\n{lines}3\n");
        let batch = read_all(&write(folder.path(), "a.csv", text.as_bytes()), &Options::default()).unwrap();
        assert_eq!(batch.column(0).as_primitive::<Int64Type>().values(), &[1, 2, 3]);
    }

    #[test]
    fn a_header_alone_is_no_rows() {
        let folder = tempfile::tempdir().unwrap();
        let path = write(folder.path(), "a.csv", b"a,b\n");
        let input = Input::inspect(&path, &Options::default()).unwrap();
        assert_eq!(input.fields.len(), 2);
        assert_eq!(input.read(&input.fields, Arc::default()).iter().count(), 0);
    }
}
