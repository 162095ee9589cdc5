//! Which buffers of a message belong to which column, and how wide their values are.
//!
//! A buffer of numbers that ends within one of them makes the decoder panic, so it is refused
//! here. Nested columns are only passed over.

use arrow_ipc::MetadataVersion;
use arrow_schema::{DataType, UnionMode};

use crate::error::{Error, Result};

/// Bytes of a view, its own length among them.
const VIEW_BYTES: u64 = 16;

/// The buffers of a batch that are yet to be looked at.
pub struct Layout<'a> {
    lengths: &'a [u64],
    /// How many buffers each column of views has besides its validity and the views.
    variadic: Vec<i64>,
    /// In older versions a union has a validity.
    has_union_validity: bool,
}

impl<'a> Layout<'a> {
    /// Of a batch whose buffers have these lengths.
    pub fn new(batch: &arrow_ipc::RecordBatch, version: MetadataVersion, lengths: &'a [u64]) -> Layout<'a> {
        let mut variadic: Vec<i64> = batch.variadicBufferCounts().into_iter().flatten().collect();
        variadic.reverse();
        Layout { lengths, variadic, has_union_validity: version < MetadataVersion::V5 }
    }

    /// Looks at the buffers of the next column, which is of a plain type.
    pub fn check(&mut self, data_type: &DataType) -> Result<()> {
        let width = match data_type {
            DataType::Utf8 | DataType::Binary => 4,
            DataType::LargeUtf8 | DataType::LargeBinary => 8,
            DataType::Utf8View | DataType::BinaryView => VIEW_BYTES,
            DataType::Dictionary(keys, _) => keys.primitive_width().unwrap_or(1) as u64,
            // Bits, and bytes that mean something only together.
            other => other.primitive_width().unwrap_or(1) as u64,
        };
        let numbers = self.next_of(data_type)?.get(1).copied().unwrap_or(0);
        if numbers % width == 0 {
            return Ok(());
        }
        Err(Error::Damaged(format!("{numbers} bytes are no whole number of values of {width} bytes ({data_type})")))
    }

    /// Passes over the buffers of the next column.
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

    /// The buffers of a column that is not nested: its validity, its numbers, and what these
    /// point to.
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
