//! Columns of texts, binary values, wide decimals and intervals.

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
use crate::numbers::{Chunk, DecodeScratch};
use crate::page::{OPAQUE_DICTIONARY, OPAQUE_PLAIN, PageColumn};
use crate::rows::{Span, bit};
use crate::wire::{Reader, UnexpectedEnd};

/// The largest ratio of decompressed to compressed bytes that LZ4 can reach.
const MOST_LZ4: usize = 255;

fn short(_: UnexpectedEnd) -> String {
    "an opaque column chunk is shorter than its rows".into()
}

pub(super) enum OpaquePage<'a> {
    Plain(Values),
    Dictionary(Dictionary<'a>),
}

pub(super) struct Dictionary<'a> {
    pub values: Values,
    rows: Chunk<'a, u32>,
}

pub(super) struct Values {
    raw: Vec<u8>,
    values: usize,
    /// Where each value begins, and where the last one ends; empty if all have `fixed` bytes.
    starts: Vec<u32>,
    fixed: usize,
    rows: usize,
    is_valid: bool,
}

impl<'a> OpaquePage<'a> {
    /// Reads a page of values of `fixed` bytes, or of values with their lengths.
    ///
    /// # Errors
    ///
    /// A description of the invalid bytes.
    pub fn read(page: &PageColumn<'a>, fixed: Option<usize>) -> Result<OpaquePage<'a>, String> {
        let reader = &mut Reader::new(page.bytes);
        match reader.u8().map_err(short)? {
            OPAQUE_PLAIN => Ok(OpaquePage::Plain(Values::read(reader.rest(), page.rows, fixed)?)),
            OPAQUE_DICTIONARY => {
                let count = reader.u16().map_err(short)? as usize;
                let length = reader.u32().map_err(short)? as usize;
                let values = Values::read(reader.bytes(length).map_err(short)?, count, fixed)?;
                let rows = Chunk::read(reader.rest(), page.rows)?;
                Ok(OpaquePage::Dictionary(Dictionary { values, rows }))
            }
            other => Err(format!("an opaque column chunk has the unknown encoding {other}")),
        }
    }

    pub fn append_validity(&self, spans: &[Span], validity: &mut Validity) {
        for span in spans {
            match self {
                OpaquePage::Plain(Values { is_valid: true, .. }) => validity.push(span.count(), true),
                OpaquePage::Plain(rows) => span.for_each(|row| validity.push(1, rows.is_valid(row))),
                OpaquePage::Dictionary(Dictionary { rows, .. }) => match rows.valid {
                    None => validity.push(span.count(), !rows.is_null()),
                    Some(bitmap) => span.for_each(|row| validity.push(1, bit(bitmap, row))),
                },
            }
        }
    }
}

impl Dictionary<'_> {
    pub fn is_null(&self) -> bool {
        self.rows.is_null()
    }

    /// Appends the number of each row's value, arbitrary for null rows.
    pub fn numbers(
        &self,
        spans: &[Span],
        numbers: &mut Vec<u32>,
        aside: &mut DecodeScratch<u32>,
    ) -> Result<(), String> {
        let before = numbers.len();
        self.rows.append(spans, numbers, aside)?;
        let appended = &mut numbers[before..];
        // A number that is too large stays too large, whatever bits the shift removes.
        appended.iter_mut().for_each(|number| *number = number.checked_shl(self.rows.shift).unwrap_or(u32::MAX));
        let most = appended.iter().copied().max().unwrap_or(0) as usize;
        match self.rows.is_null() || appended.is_empty() || most < self.values.rows {
            true => Ok(()),
            false => Err(format!("an opaque column chunk names value {most} of {}", self.values.rows)),
        }
    }
}

impl Values {
    fn read(bytes: &[u8], rows: usize, fixed: Option<usize>) -> Result<Values, String> {
        let (says, packed) = lz4_flex::block::uncompressed_size(bytes).map_err(|error| error.to_string())?;
        if says > (packed.len() + 1) * MOST_LZ4 {
            return Err(format!("{} compressed bytes cannot decompress to {says} bytes", packed.len()));
        }
        let raw = lz4_flex::block::decompress(packed, says).map_err(|error| error.to_string())?;
        let (bitmap, rest) = raw.split_at_checked(rows.div_ceil(8)).ok_or_else(|| short(UnexpectedEnd))?;
        let (starts, bytes, end) = match fixed {
            Some(length) => (Vec::new(), rest, rows.checked_mul(length)),
            None => {
                let (lengths, bytes) = rest.split_at_checked(rows * 4).ok_or_else(|| short(UnexpectedEnd))?;
                let mut starts = Vec::with_capacity(rows + 1);
                let mut start = 0u32;
                starts.push(start);
                for length in lengths.as_chunks::<4>().0 {
                    start = start.checked_add(u32::from_le_bytes(*length)).ok_or_else(|| short(UnexpectedEnd))?;
                    starts.push(start);
                }
                (starts, bytes, Some(start as usize))
            }
        };
        if end.is_none_or(|end| end > bytes.len()) {
            return Err(short(UnexpectedEnd));
        }
        let (full, rest) = bitmap.split_at(rows / 8);
        let is_valid =
            full.iter().all(|byte| *byte == 0xff) && rest.iter().all(|byte| byte.trailing_ones() as usize >= rows % 8);
        let values = raw.len() - bytes.len();
        Ok(Values { values, starts, fixed: fixed.unwrap_or(0), rows, is_valid, raw })
    }

    pub fn rows(&self) -> usize {
        self.rows
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

    fn length(&self, row: usize) -> usize {
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
    aside: DecodeScratch<u32>,
}

impl OpaqueColumn {
    pub fn new(data_type: &DataType) -> OpaqueColumn {
        OpaqueColumn {
            data_type: data_type.clone(),
            validity: Validity::default(),
            lengths: Vec::new(),
            bytes: Vec::new(),
            aside: DecodeScratch::default(),
        }
    }

    fn fixed_length(&self) -> Option<usize> {
        match &self.data_type {
            other if varies_in_length(other) => None,
            DataType::FixedSizeBinary(length) => Some(*length as usize),
            other => other.primitive_width(),
        }
    }

    pub fn push(&mut self, bytes: &[u8], valid: bool) {
        self.bytes.extend_from_slice(bytes);
        self.lengths.push(bytes.len());
        self.validity.push(1, valid);
    }

    /// # Errors
    ///
    /// A description of the invalid bytes.
    pub fn append_page(&mut self, page: &OpaquePage<'_>, spans: &[Span]) -> Result<(), String> {
        match page {
            OpaquePage::Plain(rows) => self.append_rows(rows, spans),
            OpaquePage::Dictionary(dictionary) => {
                let mut numbers = Vec::new();
                dictionary.numbers(spans, &mut numbers, &mut self.aside)?;
                self.append_numbers(dictionary, spans, &numbers);
            }
        }
        page.append_validity(spans, &mut self.validity);
        Ok(())
    }

    fn append_rows(&mut self, rows: &Values, spans: &[Span]) {
        let varies = !rows.starts.is_empty();
        for span in spans {
            if span.some.is_none() {
                let all = span.indices.clone();
                self.bytes.extend_from_slice(rows.bytes(all.clone()));
                if varies {
                    self.lengths.extend(all.map(|row| rows.length(row)));
                }
                continue;
            }
            span.for_each(|row| {
                self.bytes.extend_from_slice(rows.bytes(row..row + 1));
                if varies {
                    self.lengths.push(rows.length(row));
                }
            });
        }
    }

    /// Null rows have no bytes, or zeros if all values have the same length.
    fn append_numbers(&mut self, Dictionary { values, rows }: &Dictionary<'_>, spans: &[Span], numbers: &[u32]) {
        let varies = !values.starts.is_empty();
        let none = vec![0; values.fixed];
        let mut append = |value: &[u8]| {
            self.bytes.extend_from_slice(value);
            if varies {
                self.lengths.push(value.len());
            }
        };
        let value = |number: u32| values.bytes(number as usize..number as usize + 1);
        if rows.valid.is_none() && !rows.is_null() {
            return numbers.iter().for_each(|number| append(value(*number)));
        }
        let mut numbers = numbers.iter();
        for span in spans {
            span.for_each(|row| {
                let number = numbers.next().expect("one for each row");
                let valid = rows.valid.is_some_and(|bitmap| bit(bitmap, row));
                append(if valid { value(*number) } else { &none });
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
        self.append_page(&OpaquePage::read(page, self.fixed_length())?, spans)
    }

    fn append_decoded(&mut self, page: &DecodedPage, spans: &[Span]) {
        let before = self.lengths.len();
        let (lengths, bytes) = (&mut self.lengths, &mut self.bytes);
        let labels = page.labels().expect("pages of texts are kept with labels");
        labels.for_each(spans, |row, code| {
            let valid = page.valid.as_ref().is_none_or(|valid| bit(valid, row));
            let label = if valid { labels.label(code) } else { &[] };
            bytes.extend_from_slice(label);
            lengths.push(label.len());
        });
        let count = lengths.len() - before;
        self.validity.append(page, spans, count);
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
