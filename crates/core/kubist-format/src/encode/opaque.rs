//! Encoding of types without an exact order key: texts, binary values, wide decimals, intervals (FORMAT.md,
//! Chunk).

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrowPrimitiveType, UInt32Array};
use arrow_schema::{DataType, IntervalUnit};
use arrow_select::take::take;
use kubist_index::order;
use kubist_types::Compression;

use super::EncodedColumn;
use crate::distinct::Distinct;
use crate::numbers;
use crate::page::{OPAQUE_DICTIONARY, OPAQUE_PLAIN};
use crate::rows::put_bitmap;
use crate::zone_map::{ColumnZones, ZONES_PER_PAGE};

const ROWS_A_VALUE: usize = 4;
/// A page whose first rows already have more different values gets no dictionary.
const FIRST_VALUES: usize = 192;
const FIRST_ROWS: usize = 256;

pub fn opaque_bytes<'a>(array: &'a dyn Array) -> Box<dyn Fn(usize) -> &'a [u8] + 'a> {
    match array.data_type() {
        DataType::Utf8 => Box::new(|row| array.as_string::<i32>().value(row).as_bytes()),
        DataType::LargeUtf8 => Box::new(|row| array.as_string::<i64>().value(row).as_bytes()),
        DataType::Binary => Box::new(|row| array.as_binary::<i32>().value(row)),
        DataType::LargeBinary => Box::new(|row| array.as_binary::<i64>().value(row)),
        DataType::FixedSizeBinary(_) => Box::new(|row| array.as_fixed_size_binary().value(row)),
        DataType::Decimal128(_, _) => wide::<Decimal128Type>(array),
        DataType::Decimal256(_, _) => wide::<Decimal256Type>(array),
        DataType::Interval(IntervalUnit::DayTime) => wide::<IntervalDayTimeType>(array),
        DataType::Interval(_) => wide::<IntervalMonthDayNanoType>(array),
        other => unreachable!("{other} is not a stored type"),
    }
}

fn wide<'a, T: ArrowPrimitiveType>(array: &'a dyn Array) -> Box<dyn Fn(usize) -> &'a [u8] + 'a> {
    let bytes = array.as_primitive::<T>().values().inner().as_slice();
    let width = size_of::<T::Native>();
    Box::new(move |row| &bytes[row * width..(row + 1) * width])
}

pub fn varies_in_length(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary)
}

pub(super) fn encode_opaque(array: &dyn Array, order: &[u32], zones: &[u8], effort: Compression) -> EncodedColumn {
    // So that the work does not depend on other rows.
    let rows = UInt32Array::from(order.to_vec());
    let array = take(array, &rows, None).expect("rows of the array, of a type that can be taken");
    let array = array.as_ref();
    let varies = varies_in_length(array.data_type());
    let keys = order::keys(array);
    let value = opaque_bytes(array);
    let mut out = EncodedColumn { chunks: Vec::new(), zones: ColumnZones::default() };
    let mut first = 0;
    for page in zones.chunks(ZONES_PER_PAGE) {
        let page_first = first;
        for count in page {
            let zone = first..first + *count as usize;
            first = zone.end;
            let (mut min, mut max, mut found) = (u64::MAX, 0, 0u8);
            for row in zone.filter(|row| array.is_valid(*row)) {
                found += 1;
                let key = keys.as_ref().map(|keys| keys[row]);
                min = min.min(key.unwrap_or(0));
                max = max.max(key.unwrap_or(u64::MAX));
            }
            out.zones.min.push(if found == 0 { 0 } else { min });
            out.zones.max.push(max);
            out.zones.nulls.push(count - found);
        }
        let values: Vec<Option<&[u8]>> =
            (page_first..first).map(|row| array.is_valid(row).then(|| value(row))).collect();
        let fixed = if varies { None } else { Some(values.first().map_or(0, |_| value(page_first).len())) };
        out.chunks.push(chunk(&values, fixed, effort));
    }
    if out.zones.nulls.iter().all(|count| *count == 0) {
        out.zones.nulls.clear();
    }
    out
}

/// All values have `fixed` bytes, or their lengths differ.
fn chunk(rows: &[Option<&[u8]>], fixed: Option<usize>, effort: Compression) -> Vec<u8> {
    let Some((values, mut numbers)) = dictionary(rows) else {
        let mut chunk = vec![OPAQUE_PLAIN];
        chunk.extend_from_slice(&packed(rows, fixed));
        return chunk;
    };
    let values: Vec<Option<&[u8]>> = values.values().iter().map(|value| Some(&**value)).collect();
    let block = packed(&values, fixed);
    let mut chunk = vec![OPAQUE_DICTIONARY];
    chunk.extend_from_slice(&(values.len() as u16).to_le_bytes());
    chunk.extend_from_slice(&(block.len() as u32).to_le_bytes());
    chunk.extend_from_slice(&block);
    let valid: Vec<bool> = rows.iter().map(Option::is_some).collect();
    let ends = (0, values.len().saturating_sub(1) as u32);
    let how = numbers::EncodingHints { sign: None, step: None, effort };
    numbers::put(&mut numbers, valid.contains(&false).then_some(&valid[..]), ends, how, &mut chunk);
    chunk
}

fn dictionary(rows: &[Option<&[u8]>]) -> Option<(Distinct, Vec<u32>)> {
    let (mut values, mut numbers) = (Distinct::default(), Vec::with_capacity(rows.len()));
    for (row, value) in rows.iter().enumerate() {
        numbers.push(value.map_or(0, |value| values.number(value)));
        let most = if row < FIRST_ROWS { FIRST_VALUES } else { usize::MAX };
        if values.values().len() > most.min(rows.len() / ROWS_A_VALUE) {
            return None;
        }
    }
    Some((values, numbers))
}

fn packed(rows: &[Option<&[u8]>], fixed: Option<usize>) -> Vec<u8> {
    let mut raw = Vec::new();
    put_bitmap(rows.iter().map(Option::is_some), &mut raw);
    if fixed.is_none() {
        rows.iter().for_each(|value| raw.extend_from_slice(&(value.map_or(0, <[u8]>::len) as u32).to_le_bytes()));
    }
    for value in rows {
        match (value, fixed) {
            (Some(value), _) => raw.extend_from_slice(value),
            (None, fixed) => raw.resize(raw.len() + fixed.unwrap_or(0), 0),
        }
    }
    lz4_flex::compress_prepend_size(&raw)
}
