//! Assigns the buffers of a message to its columns, and skips nested columns. The decoder panics if a buffer of
//! fixed-width values ends within a value, so such a buffer is refused here.

use arrow_ipc::MetadataVersion;
use arrow_schema::{DataType, UnionMode};

use crate::error::{Error, Result};

/// A string's view: its length and its prefix or location.
const VIEW_BYTES: u64 = 16;

pub struct Layout<'a> {
    lengths: &'a [u64],
    /// Number of data buffers per view column, last column first.
    variadic: Vec<i64>,
    /// Unions have a validity buffer before metadata version 5.
    has_union_validity: bool,
}

impl<'a> Layout<'a> {
    pub fn new(batch: &arrow_ipc::RecordBatch, version: MetadataVersion, lengths: &'a [u64]) -> Layout<'a> {
        let mut variadic: Vec<i64> = batch.variadicBufferCounts().into_iter().flatten().collect();
        variadic.reverse();
        Layout { lengths, variadic, has_union_validity: version < MetadataVersion::V5 }
    }

    /// Checks the buffers of the next column, which has a plain type.
    pub fn check(&mut self, data_type: &DataType) -> Result<()> {
        let width = match data_type {
            DataType::Utf8 | DataType::Binary => 4,
            DataType::LargeUtf8 | DataType::LargeBinary => 8,
            DataType::Utf8View | DataType::BinaryView => VIEW_BYTES,
            DataType::Dictionary(keys, _) => keys.primitive_width().unwrap_or(1) as u64,
            other => other.primitive_width().unwrap_or(1) as u64,
        };
        let numbers = self.next_of(data_type)?.get(1).copied().unwrap_or(0);
        if numbers % width == 0 {
            return Ok(());
        }
        Err(Error::Damaged(format!("{numbers} bytes are not a multiple of the {width} bytes of a value ({data_type})")))
    }

    pub fn pass(&mut self, data_type: &DataType) -> Result<()> {
        match data_type {
            DataType::List(item) | DataType::LargeList(item) | DataType::Map(item, _) => {
                self.take(2)?;
                self.pass(item.data_type())
            }
            DataType::ListView(item) | DataType::LargeListView(item) => {
                self.take(3)?;
                self.pass(item.data_type())
            }
            DataType::FixedSizeList(item, _) => {
                self.take(1)?;
                self.pass(item.data_type())
            }
            DataType::Struct(fields) => {
                self.take(1)?;
                fields.iter().try_for_each(|field| self.pass(field.data_type()))
            }
            DataType::RunEndEncoded(ends, values) => {
                self.pass(ends.data_type())?;
                self.pass(values.data_type())
            }
            DataType::Union(fields, mode) => {
                let (is_dense, has_validity) = (*mode == UnionMode::Dense, self.has_union_validity);
                self.take(1 + usize::from(is_dense) + usize::from(has_validity))?;
                fields.iter().try_for_each(|(_, field)| self.pass(field.data_type()))
            }
            flat => self.next_of(flat).map(drop),
        }
    }

    /// Validity, then offsets or values, then data.
    fn next_of(&mut self, data_type: &DataType) -> Result<&'a [u64]> {
        let count = match data_type {
            DataType::Null => 0,
            DataType::Utf8 | DataType::Binary | DataType::LargeUtf8 | DataType::LargeBinary => 3,
            DataType::Utf8View | DataType::BinaryView => {
                let more = self.variadic.pop().and_then(|count| usize::try_from(count).ok()?.checked_add(2));
                more.ok_or_else(|| Error::damaged("it does not say how many buffers a column has"))?
            }
            _ => 2,
        };
        self.take(count)
    }

    fn take(&mut self, count: usize) -> Result<&'a [u64]> {
        let missing = || Error::damaged("a column has fewer buffers than its type demands");
        let (taken, rest) = self.lengths.split_at_checked(count).ok_or_else(missing)?;
        self.lengths = rest;
        Ok(taken)
    }
}
