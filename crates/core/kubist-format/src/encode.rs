//! Encoding of columns: the rows of a run in the run's order, zone by zone, page by page.
//!
//! A type with an exact order key is stored as its keys ([`numbers`]), others as their bytes ([`opaque`]).

mod opaque;

pub use opaque::{opaque_bytes, varies_in_length};

use std::collections::BTreeMap;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrowPrimitiveType};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use kubist_index::order::Keyed;
use kubist_index::with_exact_primitive;
use kubist_types::{Compression, Strata};

use crate::bits::{self, Word};
use crate::bounds::Values;
use crate::numbers;
use crate::zone_map::{ColumnZones, MOST_PAGE_ROWS, ZONES_PER_PAGE};

#[derive(Clone, Debug, Default)]
pub struct RunEncoding {
    pub compression: Compression,
    pub strata: Strata,
    /// For stored columns with an error bound: the exponent (base 2) of the step whose multiples most values
    /// are.
    pub steps: BTreeMap<usize, i32>,
}

impl RunEncoding {
    pub fn of_column(&self, column: usize) -> ColumnEncoding {
        ColumnEncoding { compression: self.compression, step: self.steps.get(&column).copied() }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct ColumnEncoding {
    pub compression: Compression,
    pub step: Option<i32>,
}

pub struct EncodedColumn {
    pub chunks: Vec<Vec<u8>>,
    pub zones: ColumnZones,
}

/// Encodes `array[order[..]]`. `zones` are the numbers of rows per zone and add up to the length of `order`.
pub fn encode_column(array: &dyn Array, order: &[u32], zones: &[u8], how: ColumnEncoding) -> EncodedColumn {
    let rows = Rows { array, order, zones, how };
    with_exact_primitive!(array.data_type(), T => return encode_primitive::<T>(&rows), _ => {});
    match array.data_type() {
        DataType::Boolean => {
            let values = array.as_boolean().values();
            encode_packed::<u32>(&rows, |of, keys| keys.extend(of.iter().map(|row| values.value(*row as usize) as u32)))
        }
        _ => opaque::encode_opaque(array, order, zones, how.compression),
    }
}

struct Rows<'a> {
    array: &'a dyn Array,
    order: &'a [u32],
    zones: &'a [u8],
    how: ColumnEncoding,
}

fn encode_primitive<T: ArrowPrimitiveType>(rows: &Rows<'_>) -> EncodedColumn
where
    T::Native: Keyed,
{
    let values: &[T::Native] = rows.array.as_primitive::<T>().values();
    let mut gathered = Vec::with_capacity(MOST_PAGE_ROWS.min(rows.order.len()));
    match size_of::<T::Native>() {
        ..=4 => encode_packed::<u32>(rows, |of, keys| put_keys(values, of, &mut gathered, keys)),
        _ => encode_packed::<u64>(rows, |of, keys| put_keys(values, of, &mut gathered, keys)),
    }
}

bits::vectorised! {
    /// Values are gathered first, so that several keys are computed at once.
    fn put_keys<T: Keyed, W: Word>(values: &[T], rows: &[u32], gathered: &mut Vec<T>, keys: &mut Vec<W>) {
        let last = rows.iter().fold(0, |last, row| last.max(*row));
        assert!(rows.is_empty() || (last as usize) < values.len(), "row {last} of {}", values.len());
        // SAFETY: the check above found that the highest row has a value, so all rows have.
        let value = |row: &u32| unsafe { *values.get_unchecked(*row as usize) };
        gathered.clear();
        let (some, others) = rows.as_chunks::<8>();
        some.iter().for_each(|rows| gathered.extend_from_slice(&rows.each_ref().map(value)));
        gathered.extend(others.iter().map(value));
        keys.extend(gathered.iter().map(|value| W::truncate(value.key())));
    }
}

pub fn values_of(data_type: &DataType) -> Values {
    match data_type {
        DataType::Float32 => Values::F32,
        DataType::Float64 => Values::F64,
        _ => Values::Keys,
    }
}

fn sign_of(data_type: &DataType) -> Option<u32> {
    match data_type {
        DataType::Float16 => Some(15),
        DataType::Float32 => Some(31),
        DataType::Float64 => Some(63),
        _ => None,
    }
}

fn encode_packed<W: Word>(of: &Rows<'_>, mut put_keys: impl FnMut(&[u32], &mut Vec<W>)) -> EncodedColumn {
    let Rows { array, order, zones, how } = *of;
    let sign = sign_of(array.data_type());
    let step = how.step.filter(|_| values_of(array.data_type()) != Values::Keys);
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
    let mut out = EncodedColumn { chunks: Vec::new(), zones: ColumnZones::default() };
    out.zones.min.reserve(zones.len());
    out.zones.max.reserve(zones.len());
    let mut keys: Vec<W> = Vec::with_capacity(MOST_PAGE_ROWS.min(order.len()));
    let mut rest = order;
    for page in zones.chunks(ZONES_PER_PAGE) {
        let (rows, later) = rest.split_at(page.iter().map(|rows| *rows as usize).sum());
        rest = later;
        let is_null = |nulls: &NullBuffer| {
            nulls.null_count() == nulls.len() || rows.iter().all(|row| nulls.is_null(*row as usize))
        };
        if nulls.is_some_and(is_null) {
            out.zones.min.resize(out.zones.min.len() + page.len(), 0);
            out.zones.max.resize(out.zones.max.len() + page.len(), 0);
            out.zones.nulls.extend_from_slice(page);
            out.chunks.push(vec![numbers::ALL_NULL]);
            continue;
        }
        keys.clear();
        put_keys(rows, &mut keys);
        let valid: Option<Vec<bool>> =
            nulls.map(|nulls| rows.iter().map(|row| nulls.is_valid(*row as usize)).collect());
        let (null_count, (base, most)) = match &valid {
            None => {
                put_zones(&keys, page, &mut out.zones);
                (0, ends_of_page(&keys))
            }
            Some(valid) => put_zones_with_nulls(&keys, valid, page, &mut out.zones),
        };
        let mut chunk = Vec::with_capacity(16 + rows.len() * size_of::<W>());
        let valid = valid.as_deref().filter(|_| null_count > 0);
        let how = numbers::EncodingHints { sign, step, effort: how.compression };
        numbers::put(&mut keys, valid, (base, most), how, &mut chunk);
        out.chunks.push(chunk);
    }
    if out.zones.nulls.iter().all(|count| *count == 0) {
        out.zones.nulls.clear();
    }
    out
}

fn put_zones<W: Word>(keys: &[W], page: &[u8], zones: &mut ColumnZones) {
    if !W::ends_fast(keys, page, &mut zones.min, &mut zones.max) {
        let mut rest = keys;
        for count in page {
            let (zone, later) = rest.split_at(*count as usize);
            rest = later;
            let (min, max) = numbers::ends(zone);
            zones.min.push(min.into());
            zones.max.push(max.into());
        }
    }
}

bits::vectorised! {
    fn ends_of_page<W: Word>(keys: &[W]) -> (W, W) {
        numbers::ends(keys)
    }
}

/// `valid` marks the rows that are not null. Returns the number of nulls, and the minimum and maximum of the
/// other keys (0 and 0 if all are null).
fn put_zones_with_nulls<W: Word>(keys: &[W], valid: &[bool], page: &[u8], zones: &mut ColumnZones) -> (usize, (W, W)) {
    let (mut first, mut null_count, mut ends) = (0, 0, None);
    for count in page {
        let zone = first..first + *count as usize;
        first = zone.end;
        let (mut min, mut max, mut nulls) = (W::MAX, W::default(), 0);
        for row in zone {
            match valid[row] {
                true => (min, max) = (min.min(keys[row]), max.max(keys[row])),
                false => nulls += 1,
            }
        }
        if nulls == *count {
            (min, max) = (W::default(), W::default());
        } else {
            let (low, high) = ends.unwrap_or((min, max));
            ends = Some((low.min(min), high.max(max)));
        }
        null_count += nulls as usize;
        zones.min.push(min.into());
        zones.max.push(max.into());
        zones.nulls.push(nulls);
    }
    (null_count, ends.unwrap_or_default())
}
