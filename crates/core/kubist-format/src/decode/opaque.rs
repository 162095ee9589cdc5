//! Columns of bytes: texts, binary values, wide decimals, intervals.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::types::{BinaryType, ByteArrayType, LargeBinaryType, LargeUtf8Type, Utf8Type};
use arrow_array::{Array, ArrayRef, FixedSizeBinaryArray, GenericByteArray, OffsetSizeTrait, make_array};
use arrow_buffer::{Buffer, OffsetBuffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;

use super::{Column, Validity};
use crate::decoded::DecodedPage;
use crate::encode::{opaque_bytes, varies_in_length};
use crate::page::PageColumn;
use crate::rows::{Span, bit};

/// The largest ratio of decompressed to compressed bytes that LZ4 can reach.
const MOST_LZ4: usize = 255;

/// The decompressed values of a page.
pub(super) struct OpaquePage {
    raw: Vec<u8>,
    /// Where the values begin in `raw`.
    values: usize,
    /// Where each value begins among the values, and where the last one ends. Empty if all have `fixed` bytes.
    starts: Vec<u32>,
    fixed: usize,
    rows: usize,
    pub is_valid: bool,
}

impl OpaquePage {
    /// Decompresses a page of values of `fixed` bytes, or of values with their lengths.
    ///
    /// # Errors
    ///
    /// A description of the invalid bytes.
    pub fn read(page: &PageColumn<'_>, fixed: Option<usize>) -> Result<OpaquePage, String> {
        let short = || "an opaque column chunk is shorter than its rows".to_string();
        let (says, packed) = lz4_flex::block::uncompressed_size(page.bytes).map_err(|error| error.to_string())?;
        if says > (packed.len() + 1) * MOST_LZ4 {
            return Err(format!("{} compressed bytes cannot decompress to {says} bytes", packed.len()));
        }
        let raw = lz4_flex::block::decompress(packed, says).map_err(|error| error.to_string())?;
        let rows = page.rows;
        let (bitmap, rest) = raw.split_at_checked(rows.div_ceil(8)).ok_or_else(short)?;
        let (starts, bytes, end) = match fixed {
            Some(length) => (Vec::new(), rest, rows.checked_mul(length)),
            None => {
                let (lengths, bytes) = rest.split_at_checked(rows * 4).ok_or_else(short)?;
                let mut starts = Vec::with_capacity(rows + 1);
                let mut start = 0u32;
                starts.push(start);
                for length in lengths.as_chunks::<4>().0 {
                    start = start.checked_add(u32::from_le_bytes(*length)).ok_or_else(short)?;
                    starts.push(start);
                }
                (starts, bytes, Some(start as usize))
            }
        };
        if end.is_none_or(|end| end > bytes.len()) {
            return Err(short());
        }
        let (full, rest) = bitmap.split_at(rows / 8);
        let is_valid =
            full.iter().all(|byte| *byte == 0xff) && rest.iter().all(|byte| byte.trailing_ones() as usize >= rows % 8);
        let values = raw.len() - bytes.len();
        Ok(OpaquePage { values, starts, fixed: fixed.unwrap_or(0), rows, is_valid, raw })
    }

    fn place(&self, rows: Range<usize>) -> Range<usize> {
        match self.starts.is_empty() {
            true => rows.start * self.fixed..rows.end * self.fixed,
            false => self.starts[rows.start] as usize..self.starts[rows.end] as usize,
        }
    }

    /// The joined bytes of adjacent rows.
    pub fn bytes(&self, rows: Range<usize>) -> &[u8] {
        &self.raw[self.values..][self.place(rows)]
    }

    pub fn length(&self, row: usize) -> usize {
        self.place(row..row + 1).len()
    }

    pub fn is_valid(&self, row: usize) -> bool {
        self.is_valid || bit(&self.raw[..self.rows.div_ceil(8)], row)
    }
}

pub(super) struct OpaqueColumn {
    data_type: DataType,
    validity: Validity,
    lengths: Vec<usize>,
    bytes: Vec<u8>,
}

impl OpaqueColumn {
    pub fn new(data_type: &DataType) -> OpaqueColumn {
        OpaqueColumn {
            data_type: data_type.clone(),
            validity: Validity::default(),
            lengths: Vec::new(),
            bytes: Vec::new(),
        }
    }

    fn fixed_length(&self) -> Option<usize> {
        match &self.data_type {
            other if varies_in_length(other) => None,
            DataType::FixedSizeBinary(length) => Some(*length as usize),
            other => other.primitive_width(),
        }
    }

    /// Appends a value of a type whose values differ in length.
    pub fn push(&mut self, bytes: &[u8], valid: bool) {
        self.bytes.extend_from_slice(bytes);
        self.lengths.push(bytes.len());
        self.validity.push(1, valid);
    }

    pub fn append_page(&mut self, page: &OpaquePage, spans: &[Span]) {
        let varies = !page.starts.is_empty();
        for span in spans {
            if page.is_valid && span.some.is_none() {
                let rows = span.indices.clone();
                self.bytes.extend_from_slice(page.bytes(rows.clone()));
                if varies {
                    self.lengths.extend(rows.clone().map(|row| page.length(row)));
                }
                self.validity.push(rows.len(), true);
                continue;
            }
            span.for_each(|row| {
                self.bytes.extend_from_slice(page.bytes(row..row + 1));
                if varies {
                    self.lengths.push(page.length(row));
                }
                self.validity.push(1, page.is_valid(row));
            });
        }
    }

    fn finish_bytes<T: ByteArrayType>(self) -> Result<ArrayRef, String> {
        if !T::Offset::IS_LARGE && self.bytes.len() > i32::MAX as usize {
            return Err("more than 2 GiB of text in one batch".into());
        }
        let offsets = OffsetBuffer::<T::Offset>::from_lengths(self.lengths);
        let array = GenericByteArray::<T>::try_new(offsets, Buffer::from_vec(self.bytes), self.validity.finish());
        Ok(Arc::new(array.map_err(|error| error.to_string())?))
    }
}

impl Column for OpaqueColumn {
    fn append(&mut self, page: &PageColumn<'_>, spans: &[Span]) -> Result<(), String> {
        self.append_page(&OpaquePage::read(page, self.fixed_length())?, spans);
        Ok(())
    }

    fn append_decoded(&mut self, _: &DecodedPage, _: &[Span]) {
        unreachable!("pages of {} are not kept", self.data_type)
    }

    fn kept(self: Box<Self>) -> Option<DecodedPage> {
        None
    }

    fn repeat(&mut self, value: &dyn Array, count: usize) {
        let (fixed, valid) = (self.fixed_length(), value.is_valid(0));
        let bytes = match (valid, fixed) {
            (true, _) => opaque_bytes(value)(0).to_vec(),
            (false, fixed) => vec![0; fixed.unwrap_or(0)],
        };
        for _ in 0..count {
            self.bytes.extend_from_slice(&bytes);
        }
        if fixed.is_none() {
            self.lengths.extend(std::iter::repeat_n(bytes.len(), count));
        }
        self.validity.push(count, valid);
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef, String> {
        match self.data_type.clone() {
            DataType::Utf8 => self.finish_bytes::<Utf8Type>(),
            DataType::LargeUtf8 => self.finish_bytes::<LargeUtf8Type>(),
            DataType::Binary => self.finish_bytes::<BinaryType>(),
            DataType::LargeBinary => self.finish_bytes::<LargeBinaryType>(),
            DataType::FixedSizeBinary(length) => {
                let rows = self.validity.length;
                let array = FixedSizeBinaryArray::try_new_with_len(
                    length,
                    Buffer::from_vec(self.bytes),
                    self.validity.finish(),
                    rows,
                );
                Ok(Arc::new(array.map_err(|error| error.to_string())?))
            }
            other => {
                let data = ArrayData::builder(other)
                    .len(self.validity.length)
                    .add_buffer(Buffer::from_vec(self.bytes))
                    .nulls(self.validity.finish())
                    .align_buffers(true);
                Ok(make_array(data.build().map_err(|error| error.to_string())?))
            }
        }
    }
}
