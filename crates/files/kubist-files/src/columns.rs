//! Numeric columns of a Parquet file, read by ranges of rows, for an index next to the file.
//!
//! The page index or the page headers give the positions of the pages. The caller reads the bytes, so it can merge
//! neighbouring ranges and count its reads.

use std::io::{BufReader, Cursor};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{ArrayRef, PrimitiveArray};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer};
use arrow_schema::{DataType, Field};
use bytes::Bytes;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::{Compression, Type as Physical};
use parquet::column::reader::{get_column_reader, get_typed_column_reader};
use parquet::data_type::DataType as Stored;
use parquet::errors::ParquetError;
use parquet::file::metadata::PageIndexPolicy;
use parquet::file::page_index::offset_index::PageLocation;
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;

use crate::error::{Error, Result};
use crate::guard::guarded;
use crate::limits::Limits;
use crate::pages;
use crate::source;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// The first row. A dictionary has no rows, but all pages of its group may need it.
    pub first_row: u64,
    pub rows: u64,
    pub offset: u64,
    pub bytes: u64,
    pub group: u32,
}

#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    pub data_type: DataType,
    pub unit: Option<String>,
    /// The number among the file's leaf columns.
    pub leaf: usize,
}

pub struct Columns {
    path: PathBuf,
    metadata: ArrowReaderMetadata,
    limits: Limits,
}

impl Columns {
    /// Opens a file. `with_pages` also reads the page index, for [`Columns::pages`].
    ///
    /// # Errors
    ///
    /// The file is damaged, or its footer exceeds the limits.
    pub fn open(path: &Path, with_pages: bool, limits: Limits) -> Result<Columns> {
        guarded(path, || {
            let mut file = source::open(path)?;
            pages::check_schema(&mut file, &limits).map_err(|error| error.within(path.display()))?;
            let policy = if with_pages { PageIndexPolicy::Optional } else { PageIndexPolicy::Skip };
            let options = ArrowReaderOptions::new().with_offset_index_policy(policy);
            let metadata = ArrowReaderMetadata::load(&file, options).map_err(|error| Error::parquet(path, error))?;
            Ok(Columns { path: path.to_path_buf(), metadata, limits })
        })
    }

    fn damaged(&self, why: impl std::fmt::Display) -> Error {
        Error::invalid(format!("{}: the file is damaged: {why}", self.path.display()))
    }

    /// # Errors
    ///
    /// A row group has a negative number of rows.
    pub fn rows(&self) -> Result<u64> {
        (0..self.groups())
            .try_fold(0u64, |all, group| all.checked_add(self.rows_of(group).ok()?))
            .ok_or_else(|| self.damaged("its row groups have an invalid number of rows"))
    }

    fn groups(&self) -> usize {
        self.metadata.metadata().num_row_groups()
    }

    fn rows_of(&self, group: usize) -> Result<u64> {
        let rows = self.metadata.metadata().row_group(group).num_rows();
        u64::try_from(rows).map_err(|_| self.damaged(format!("row group {group} has {rows} rows")))
    }

    /// Returns the numeric columns, and the names of other columns with the reasons.
    pub fn columns(&self) -> (Vec<Column>, Vec<String>) {
        let (mut columns, mut others) = (Vec::new(), Vec::new());
        let parquet = self.metadata.parquet_schema();
        for (root, field) in self.metadata.schema().fields().iter().enumerate() {
            let leaf = (0..parquet.num_columns()).find(|leaf| parquet.get_column_root_idx(*leaf) == root);
            let flat = leaf.filter(|leaf| parquet.column(*leaf).path().parts().len() == 1);
            match flat.map(|leaf| self.why_not(leaf, field).map_or(Ok(leaf), Err)) {
                Some(Ok(leaf)) => columns.push(Column {
                    name: field.name().clone(),
                    data_type: field.data_type().clone(),
                    unit: field.metadata().get("unit").cloned(),
                    leaf,
                }),
                Some(Err(why)) => others.push(format!("{}: {why}", field.name())),
                None => others.push(format!("{}: columns within columns", field.name())),
            }
        }
        (columns, others)
    }

    fn why_not(&self, leaf: usize, field: &Field) -> Option<String> {
        let column = self.metadata.parquet_schema().column(leaf);
        let is_number =
            matches!(field.data_type(), DataType::Float32 | DataType::Float64) || field.data_type().is_integer();
        if !is_number || column.max_rep_level() > 0 {
            return Some(format!("of type {}", field.data_type()));
        }
        let codec = |group: usize| self.metadata.metadata().row_group(group).column(leaf).compression();
        let unknown =
            (0..self.groups()).map(codec).find(|codec| matches!(codec, Compression::BROTLI(_) | Compression::LZO));
        unknown.map(|codec| format!("compressed with {codec}, which is not supported"))
    }

    /// The pages of a column, ascending.
    ///
    /// # Errors
    ///
    /// A page is outside the file, or exceeds the limits.
    pub fn pages(&self, leaf: usize) -> Result<Vec<Page>> {
        guarded(&self.path, || {
            let file = source::open(&self.path)?;
            let total = file.metadata().map_err(Error::system)?.len();
            let mut file = BufReader::with_capacity(1 << 13, file);
            let (mut all, mut begin) = (Vec::new(), 0u64);
            for group in 0..self.groups() {
                let rows = self.rows_of(group)?;
                let chunk = self.metadata.metadata().row_group(group).column(leaf);
                // The bytes before the first data page are the dictionary.
                let (start, length) = chunk.byte_range();
                let known = self.metadata.metadata().page_index_for_row_group(group);
                let mut own: Vec<Page> = match known.page_locations(leaf).filter(|known| !known.is_empty()) {
                    Some(known) => known.iter().map(|page| located(page, group)).collect::<Option<_>>(),
                    None => {
                        let mut own = Vec::new();
                        let mut first = 0u64;
                        pages::check_pages(&mut file, total, chunk, &self.limits, &mut |offset, bytes, values| {
                            own.push(Page { first_row: first, rows: 0, offset, bytes, group: group as u32 });
                            first = first.saturating_add(values);
                        })
                        .map_err(|error| error.within(self.path.display()))?;
                        Some(own)
                    }
                }
                .ok_or_else(|| self.damaged(format!("row group {group} has pages at invalid offsets")))?;
                for at in 0..own.len() {
                    let end = own.get(at + 1).map_or(rows, |next| next.first_row);
                    let page = &mut own[at];
                    page.rows = end
                        .checked_sub(page.first_row)
                        .filter(|rows| *rows > 0)
                        .ok_or_else(|| self.damaged(format!("the pages of row group {group} do not ascend")))?;
                }
                match own.first() {
                    Some(first) if first.first_row > 0 => return Err(self.damaged("its first page is missing")),
                    Some(first) if first.offset > start => {
                        let bytes = first.offset - start;
                        all.push(Page { first_row: begin, rows: 0, offset: start, bytes, group: group as u32 });
                    }
                    None if rows > 0 => return Err(self.damaged(format!("row group {group} has no pages"))),
                    _ => {}
                }
                let end = start.saturating_add(length).min(total);
                for page in own {
                    if page.offset < start || page.offset.checked_add(page.bytes).is_none_or(|own| own > end) {
                        return Err(self.damaged(format!("a page of {} bytes at {}", page.bytes, page.offset)));
                    }
                    all.push(Page { first_row: begin.saturating_add(page.first_row), ..page });
                }
                begin = begin.saturating_add(rows);
            }
            Ok(all)
        })
    }

    /// The values of a column in ascending ranges of rows. `table` lists its pages, and `held` has the bytes of the
    /// needed pages by their offset, ascending.
    ///
    /// # Errors
    ///
    /// The pages are damaged, or exceed the limits.
    pub fn read(
        &self,
        leaf: usize,
        data_type: &DataType,
        table: &[Page],
        ranges: &[Range<u64>],
        held: Vec<(u64, Vec<u8>)>,
    ) -> Result<ArrayRef> {
        guarded(&self.path, || {
            let schema = self.metadata.parquet_schema();
            if leaf >= schema.num_columns() {
                return Err(self.damaged(format!("it has no column {leaf}")));
            }
            let pieces = held.into_iter().map(|(offset, bytes)| (offset, Bytes::from(bytes))).collect();
            let reading =
                Reading { columns: self, leaf, table, ranges, held: Arc::new(Held { pieces, limits: self.limits }) };
            let array = match schema.column(leaf).physical_type() {
                Physical::INT32 => {
                    let (values, nulls) = reading.values::<parquet::data_type::Int32Type>()?;
                    integers(data_type, values.into_iter().map(i64::from), nulls)
                }
                Physical::INT64 => {
                    let (values, nulls) = reading.values::<parquet::data_type::Int64Type>()?;
                    integers(data_type, values.into_iter(), nulls)
                }
                Physical::FLOAT => {
                    let (values, nulls) = reading.values::<parquet::data_type::FloatType>()?;
                    Some(Arc::new(PrimitiveArray::<Float32Type>::new(values.into(), nulls)) as ArrayRef)
                }
                Physical::DOUBLE => {
                    let (values, nulls) = reading.values::<parquet::data_type::DoubleType>()?;
                    Some(Arc::new(PrimitiveArray::<Float64Type>::new(values.into(), nulls)) as ArrayRef)
                }
                _ => None,
            };
            let array = array.filter(|array| array.data_type() == data_type);
            array.ok_or_else(|| self.damaged(format!("column {leaf} is not of type {data_type}")))
        })
    }
}

fn located(page: &PageLocation, group: usize) -> Option<Page> {
    let bytes = u64::try_from(page.compressed_page_size).ok()?;
    let (offset, first_row) = (u64::try_from(page.offset).ok()?, u64::try_from(page.first_row_index).ok()?);
    Some(Page { first_row, rows: 0, offset, bytes, group: group as u32 })
}

fn bounds(group: &[Page]) -> Range<u64> {
    let (first, last) = (&group[0], &group[group.len() - 1]);
    first.first_row..last.first_row.saturating_add(last.rows)
}

fn integers(data_type: &DataType, values: impl Iterator<Item = i64>, nulls: Option<NullBuffer>) -> Option<ArrayRef> {
    fn of<T: ArrowPrimitiveType>(values: impl Iterator<Item = T::Native>, nulls: Option<NullBuffer>) -> ArrayRef {
        Arc::new(PrimitiveArray::<T>::new(values.collect::<Vec<_>>().into(), nulls))
    }
    // Unsigned integers are stored as signed integers with the same bits.
    Some(match data_type {
        DataType::Int8 => of::<Int8Type>(values.map(|value| value as i8), nulls),
        DataType::Int16 => of::<Int16Type>(values.map(|value| value as i16), nulls),
        DataType::Int32 => of::<Int32Type>(values.map(|value| value as i32), nulls),
        DataType::Int64 => of::<Int64Type>(values, nulls),
        DataType::UInt8 => of::<UInt8Type>(values.map(|value| value as u8), nulls),
        DataType::UInt16 => of::<UInt16Type>(values.map(|value| value as u16), nulls),
        DataType::UInt32 => of::<UInt32Type>(values.map(|value| value as u32), nulls),
        DataType::UInt64 => of::<UInt64Type>(values.map(|value| value as u64), nulls),
        _ => return None,
    })
}

struct Reading<'a> {
    columns: &'a Columns,
    leaf: usize,
    table: &'a [Page],
    ranges: &'a [Range<u64>],
    held: Arc<Held>,
}

impl Reading<'_> {
    /// Returns the values; a null value is an arbitrary number.
    fn values<T: Stored>(&self) -> Result<(Vec<T::T>, Option<NullBuffer>)> {
        let rows = self.ranges.iter().map(|range| (range.end - range.start) as usize).sum();
        let (mut values, mut present) = (Vec::with_capacity(rows), BooleanBufferBuilder::new(0));
        for group in self.table.chunk_by(|one, other| one.group == other.group) {
            let all = bounds(group);
            let inside = self.ranges.iter().filter_map(|range| {
                let (from, to) = (range.start.max(all.start), range.end.min(all.end));
                (from < to).then(|| (from - all.start) as usize..(to - all.start) as usize)
            });
            let inside: Vec<Range<usize>> = inside.collect();
            if !inside.is_empty() {
                self.group::<T>(group, &inside, &mut values, &mut present)?;
            }
        }
        match values.len() == rows {
            true => Ok((values, (!present.is_empty()).then(|| NullBuffer::new(present.finish())))),
            false => Err(self.columns.damaged(format!("only {} of {rows} rows exist", values.len()))),
        }
    }

    fn group<T: Stored>(
        &self,
        group: &[Page],
        ranges: &[Range<usize>],
        values: &mut Vec<T::T>,
        present: &mut BooleanBufferBuilder,
    ) -> Result<()> {
        let number = group[0].group as usize;
        if number >= self.columns.groups() {
            return Err(self.columns.damaged(format!("it has no row group {number}")));
        }
        let begin = bounds(group).start;
        let pages = group.iter().filter(|page| page.rows > 0).map(|page| PageLocation {
            offset: page.offset as i64,
            compressed_page_size: i32::try_from(page.bytes).unwrap_or(i32::MAX),
            first_row_index: (page.first_row - begin) as i64,
        });
        let chunk = self.columns.metadata.metadata().row_group(number).column(self.leaf);
        let rows = self.columns.rows_of(number)? as usize;
        let column = self.columns.metadata.parquet_schema().column(self.leaf);
        let is_optional = column.max_def_level() > 0;
        let failed = |error: ParquetError| Error::parquet(&self.columns.path, error);
        let pages = SerializedPageReader::new(self.held.clone(), chunk, rows, Some(pages.collect())).map_err(failed)?;
        let mut reader = get_typed_column_reader::<T>(get_column_reader(column, Box::new(pages)));
        let (mut at, mut levels) = (0, Vec::new());
        for range in ranges {
            reader.skip_records(range.start - at).map_err(failed)?;
            at = range.start;
            while at < range.end {
                levels.clear();
                let start = values.len();
                let wanted = is_optional.then_some(&mut levels);
                let (records, found, _) = reader.read_records(range.end - at, wanted, None, values).map_err(failed)?;
                if records == 0 {
                    return Err(self.columns.damaged(format!("row group {number} ends at row {at} of {rows}")));
                }
                at += records;
                match is_optional {
                    true if found == records => present.append_n(records, true),
                    true => spread(&levels, values, start, present),
                    false => {}
                }
            }
        }
        Ok(())
    }
}

/// Moves the values from `start` on to their rows, which have a level above 0.
fn spread<T: Clone + Default>(levels: &[i16], values: &mut Vec<T>, start: usize, present: &mut BooleanBufferBuilder) {
    let mut there = values.split_off(start).into_iter();
    for level in levels {
        let value = if *level > 0 { there.next() } else { None };
        present.append(value.is_some());
        values.push(value.unwrap_or_default());
    }
}

struct Held {
    pieces: Vec<(u64, Bytes)>,
    limits: Limits,
}

impl Held {
    fn from(&self, start: u64) -> Option<Bytes> {
        let at = self.pieces.partition_point(|(begin, _)| *begin <= start).checked_sub(1)?;
        let (begin, bytes) = &self.pieces[at];
        let skip = usize::try_from(start - begin).ok().filter(|skip| *skip <= bytes.len())?;
        Some(bytes.slice(skip..))
    }
}

impl Length for Held {
    fn len(&self) -> u64 {
        self.pieces.last().map_or(0, |(begin, bytes)| begin + bytes.len() as u64)
    }
}

impl ChunkReader for Held {
    type T = Cursor<Bytes>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Cursor<Bytes>> {
        let missing = || ParquetError::General(format!("the page at {start} was not read"));
        self.from(start).map(Cursor::new).ok_or_else(missing)
    }

    /// Returns bytes after checking the inflated size in the page's header.
    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        let missing = || ParquetError::General(format!("the page of {length} bytes at {start} was not read"));
        let page = self.from(start).filter(|bytes| bytes.len() >= length).ok_or_else(missing)?.slice(..length);
        pages::check_page(&page, &self.limits)
            .map_err(|error| ParquetError::External(Box::new(std::io::Error::from(error))))?;
        Ok(page)
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int16Array, RecordBatch};
    use parquet::arrow::ArrowWriter;
    use parquet::file::properties::{EnabledStatistics, WriterProperties};

    use super::*;

    fn written(path: &Path, with_index: bool) -> Int16Array {
        let value = |row: i32| (row % 7 != 3).then_some((row % 50 - 25) as i16);
        let array = Int16Array::from_iter((0..2500).map(value));
        let batch = RecordBatch::try_from_iter([("v", Arc::new(array.clone()) as ArrayRef)]).unwrap();
        let statistics = if with_index { EnabledStatistics::Page } else { EnabledStatistics::None };
        let properties = WriterProperties::builder()
            .set_max_row_group_row_count(Some(1000))
            .set_data_page_row_count_limit(100)
            .set_write_batch_size(50)
            .set_statistics_enabled(statistics)
            .set_offset_index_disabled(!with_index)
            .build();
        let file = std::fs::File::create(path).unwrap();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        array
    }

    #[test]
    fn ranges_of_rows_are_read_by_their_pages() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.parquet");
        for with_index in [false, true] {
            let array = written(&path, with_index);
            let columns = Columns::open(&path, true, Limits::default()).unwrap();
            assert_eq!(columns.rows().unwrap(), 2500);
            let (numbers, others) = columns.columns();
            assert_eq!((numbers.len(), numbers[0].name.as_str(), others.len()), (1, "v", 0));
            let table = columns.pages(0).unwrap();
            assert_eq!(table.iter().filter(|page| page.rows == 100).count(), 25, "{with_index}");
            let ranges = [5..17, 950..1050, 2499..2500];
            let bytes = std::fs::read(&path).unwrap();
            // Keeps only the pages with these rows, and the dictionaries of their groups.
            let is_needed = |page: &&Page| {
                page.rows == 0
                    || ranges.iter().any(|range| range.start < page.first_row + page.rows && page.first_row < range.end)
            };
            let held = table.iter().filter(is_needed).map(|page| {
                let at = page.offset as usize;
                (page.offset, bytes[at..at + page.bytes as usize].to_vec())
            });
            let held: Vec<(u64, Vec<u8>)> = held.collect();
            assert!(held.len() < 12);
            let plain = Columns::open(&path, false, Limits::default()).unwrap();
            let found = plain.read(0, &DataType::Int16, &table, &ranges, held.clone()).unwrap();
            let expected: Vec<Option<i16>> = ranges
                .iter()
                .flat_map(|range| range.clone())
                .map(|row| array.iter().nth(row as usize).unwrap())
                .collect();
            assert_eq!(found.as_ref(), &Int16Array::from(expected) as &dyn arrow_array::Array);
            let error = plain.read(0, &DataType::Int16, &table, &[0..2500], held).unwrap_err();
            assert!(error.to_string().contains("was not read"), "{error}");
            let small = Columns::open(&path, false, Limits { batch_bytes: 10, ..Limits::default() }).unwrap();
            let held = vec![(0, bytes)];
            assert!(
                small
                    .read(0, &DataType::Int16, &table, &ranges, held)
                    .unwrap_err()
                    .to_string()
                    .contains("read option max_batch")
            );
        }
    }
}
