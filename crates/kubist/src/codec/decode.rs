//! Bytes to columns: selected rows of selected zones, appended to an array.
//!
//! A column under construction takes one chunk at a time and, of its zones,
//! those picked, whole or row by row. Bytes come from disk: nothing here trusts
//! a length that it has not checked.

use std::sync::Arc;

use arrow_array::builder::BooleanBufferBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{BinaryType, ByteArrayType, LargeBinaryType, LargeUtf8Type, Utf8Type};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, FixedSizeBinaryArray, GenericByteArray, OffsetSizeTrait,
    PrimitiveArray, make_array,
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;
use kubist_index::order::Keyed;
use kubist_index::with_exact_primitive;

use super::bits;
use super::encode::{opaque_bytes, varies_in_length};
use super::zone_map::{ColumnZones, ZoneMap};

/// Rows of a zone, one bit each from the lowest.
pub type Rows = u128;

/// A zone of the current page, and which of its rows are wanted.
#[derive(Clone, Copy, Debug)]
pub struct Pick {
    pub zone: usize,
    pub rows: Rows,
}

/// All rows of a zone with so many.
pub fn all_rows(count: u8) -> Rows {
    if count >= 128 { Rows::MAX } else { (1 << count) - 1 }
}

/// A column under construction.
pub trait Column: Send {
    /// Appends the picked rows of one page; picks are in ascending order of
    /// zones and belong to that page. `Err` says what is wrong with the bytes.
    fn append(&mut self, map: &ZoneMap, column: usize, page: usize, chunk: &[u8], picks: &[Pick])
    -> Result<(), String>;
    /// Appends the first value of an array of the column's type so many times: for
    /// rows of a run that has the column not.
    fn repeat(&mut self, value: &dyn Array, count: usize);
    fn finish(self: Box<Self>) -> Result<ArrayRef, String>;
}

/// An empty column of a stored type.
pub fn column(data_type: &DataType) -> Box<dyn Column> {
    with_exact_primitive!(data_type, T => return Box::new(PackedColumn::<T>::new(data_type)), _ => {});
    match data_type {
        DataType::Boolean => {
            Box::new(BooleanColumn { values: BooleanBufferBuilder::new(0), validity: Validity::default() })
        }
        _ => Box::new(OpaqueColumn {
            data_type: data_type.clone(),
            validity: Validity::default(),
            lengths: Vec::new(),
            bytes: Vec::new(),
        }),
    }
}

/// Null bits, kept only once there is a null.
#[derive(Default)]
struct Validity {
    bits: Option<BooleanBufferBuilder>,
    length: usize,
}

impl Validity {
    fn push(&mut self, count: usize, valid: bool) {
        if !valid && self.bits.is_none() {
            let mut bits = BooleanBufferBuilder::new(self.length + count);
            bits.append_n(self.length, true);
            self.bits = Some(bits);
        }
        if let Some(bits) = &mut self.bits {
            bits.append_n(count, valid);
        }
        self.length += count;
    }

    fn finish(self) -> Option<NullBuffer> {
        self.bits.map(|mut bits| NullBuffer::new(bits.finish()))
    }
}

fn bit(bitmap: &[u8], place: usize) -> bool {
    bitmap[place / 8] >> (place % 8) & 1 == 1
}

/// Calls `each` with the keys of every picked zone, and its bitmap of non-null
/// rows where it has one.
fn for_picked(
    map: &ZoneMap,
    zones: &ColumnZones,
    page: usize,
    chunk: &[u8],
    picks: &[Pick],
    mut each: impl FnMut(&Pick, u64, &[u64], Option<&[u8]>, bool),
) -> Result<(), String> {
    let short = || "a column chunk is shorter than its zones".to_string();
    let mut offset = 0;
    let mut picks = picks.iter().peekable();
    let mut unpacked = [0u64; bits::MAX_VALUES];
    for zone in map.page_zones(page) {
        let Some(next) = picks.peek() else { break };
        let rows = map.rows[zone] as usize;
        let null_count = zones.nulls_of(zone) as usize;
        let has_bitmap = null_count > 0 && null_count < rows;
        let bitmap_length = if has_bitmap { rows.div_ceil(8) } else { 0 };
        let (min, max) = (zones.min[zone], zones.max[zone]);
        let width = bits::width_of(max.wrapping_sub(min));
        let length = bitmap_length + bits::packed_len(rows, width);
        if next.zone == zone {
            let bytes = chunk.get(offset..).ok_or_else(short)?;
            let (bitmap, packed) = bytes.split_at_checked(bitmap_length).ok_or_else(short)?;
            bits::unpack(packed, width, rows, &mut unpacked).ok_or_else(short)?;
            let pick = picks.next().expect("peeked");
            each(pick, min, &unpacked[..rows], has_bitmap.then_some(bitmap), null_count == rows);
        }
        offset += length;
    }
    Ok(())
}

/// Calls `each` with every row that is set.
#[inline]
fn for_rows(mut rows: Rows, mut each: impl FnMut(usize)) {
    while rows != 0 {
        each(rows.trailing_zeros() as usize);
        rows &= rows - 1;
    }
}

fn push_validity(validity: &mut Validity, pick: &Pick, rows: usize, bitmap: Option<&[u8]>, all_null: bool) {
    match bitmap {
        Some(bitmap) => for_rows(pick.rows, |row| validity.push(1, bit(bitmap, row))),
        None => validity.push((pick.rows & all_rows(rows as u8)).count_ones() as usize, !all_null),
    }
}

struct PackedColumn<T: ArrowPrimitiveType> {
    data_type: DataType,
    values: Vec<T::Native>,
    validity: Validity,
}

impl<T: ArrowPrimitiveType> PackedColumn<T> {
    fn new(data_type: &DataType) -> Self {
        PackedColumn { data_type: data_type.clone(), values: Vec::new(), validity: Validity::default() }
    }
}

impl<T: ArrowPrimitiveType> Column for PackedColumn<T>
where
    T::Native: Keyed,
{
    fn append(
        &mut self,
        map: &ZoneMap,
        column: usize,
        page: usize,
        chunk: &[u8],
        picks: &[Pick],
    ) -> Result<(), String> {
        let (values, validity) = (&mut self.values, &mut self.validity);
        for_picked(map, &map.columns[column], page, chunk, picks, |pick, base, keys, bitmap, all_null| {
            let value = |key: u64| T::Native::from_key(base.wrapping_add(key));
            if pick.rows == all_rows(keys.len() as u8) {
                values.extend(keys.iter().map(|key| value(*key)));
            } else {
                for_rows(pick.rows, |row| values.push(value(keys[row])));
            }
            push_validity(validity, pick, keys.len(), bitmap, all_null);
        })
    }

    fn repeat(&mut self, value: &dyn Array, count: usize) {
        self.values.extend(std::iter::repeat_n(value.as_primitive::<T>().value(0), count));
        self.validity.push(count, value.is_valid(0));
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef, String> {
        let values = ScalarBuffer::from(self.values);
        let array = PrimitiveArray::<T>::try_new(values, self.validity.finish()).map_err(|e| e.to_string())?;
        Ok(Arc::new(array.with_data_type(self.data_type)))
    }
}

struct BooleanColumn {
    values: BooleanBufferBuilder,
    validity: Validity,
}

impl Column for BooleanColumn {
    fn append(
        &mut self,
        map: &ZoneMap,
        column: usize,
        page: usize,
        chunk: &[u8],
        picks: &[Pick],
    ) -> Result<(), String> {
        let (values, validity) = (&mut self.values, &mut self.validity);
        for_picked(map, &map.columns[column], page, chunk, picks, |pick, base, keys, bitmap, all_null| {
            for_rows(pick.rows, |row| values.append(base.wrapping_add(keys[row]) != 0));
            push_validity(validity, pick, keys.len(), bitmap, all_null);
        })
    }

    fn repeat(&mut self, value: &dyn Array, count: usize) {
        self.values.append_n(count, value.as_boolean().value(0));
        self.validity.push(count, value.is_valid(0));
    }

    fn finish(mut self: Box<Self>) -> Result<ArrayRef, String> {
        Ok(Arc::new(BooleanArray::new(self.values.finish(), self.validity.finish())))
    }
}

struct OpaqueColumn {
    data_type: DataType,
    validity: Validity,
    /// Only for types that vary in length.
    lengths: Vec<usize>,
    bytes: Vec<u8>,
}

impl OpaqueColumn {
    fn fixed_length(&self) -> Option<usize> {
        match &self.data_type {
            other if varies_in_length(other) => None,
            DataType::FixedSizeBinary(length) => Some(*length as usize),
            other => other.primitive_width(),
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
    fn append(
        &mut self,
        map: &ZoneMap,
        _column: usize,
        page: usize,
        chunk: &[u8],
        picks: &[Pick],
    ) -> Result<(), String> {
        let short = || "an opaque column chunk is shorter than its rows".to_string();
        let raw = lz4_flex::decompress_size_prepended(chunk).map_err(|error| error.to_string())?;
        let zones = map.page_zones(page);
        let rows: usize = map.rows[zones.clone()].iter().map(|rows| *rows as usize).sum();
        let (bitmap, rest) = raw.split_at_checked(rows.div_ceil(8)).ok_or_else(short)?;
        let fixed = self.fixed_length();
        let (starts, bytes): (Vec<usize>, &[u8]) = match fixed {
            Some(length) => ((0..=rows).map(|row| row * length).collect(), rest),
            None => {
                let (lengths, bytes) = rest.split_at_checked(rows * 4).ok_or_else(short)?;
                let mut start = 0usize;
                let ends = lengths.chunks_exact(4).map(|length| {
                    start += u32::from_le_bytes([length[0], length[1], length[2], length[3]]) as usize;
                    start
                });
                (std::iter::once(0).chain(ends).collect(), bytes)
            }
        };
        if starts[rows] > bytes.len() {
            return Err(short());
        }
        let (mut picks, mut first) = (picks.iter().peekable(), 0);
        for zone in zones {
            if let Some(pick) = picks.next_if(|pick| pick.zone == zone) {
                for_rows(pick.rows, |row| {
                    let row = first + row;
                    self.bytes.extend_from_slice(&bytes[starts[row]..starts[row + 1]]);
                    if fixed.is_none() {
                        self.lengths.push(starts[row + 1] - starts[row]);
                    }
                    self.validity.push(1, bit(bitmap, row));
                });
            }
            first += map.rows[zone] as usize;
        }
        Ok(())
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
