//! Sorted copies of a few blocks: the numbers of a block in ascending order, with their positions in the block.
//!
//! Most queries hit a block that has a wide range of values but few results, so they read only the matching part of a
//! sorted copy (section 4.3 of the paper). A copy has segments of [`SEGMENT`] entries, and a table of the segments'
//! first keys. A segment has its values and then their positions, so one request reads both.

use std::borrow::Cow;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use arrow_array::{Array, ArrayRef};
use kubist_index::order;
use kubist_types::{Error, Result};

use crate::decode;
use crate::fetch::FetchedValues;
use crate::layout::Variable;
use crate::reading::Reading;

type Outcome<T> = std::result::Result<T, String>;

pub const SEGMENT: usize = 256;

#[derive(Clone, Debug, Default)]
pub struct Sorted {
    pub blocks: Vec<(u64, SortedBlock)>,
}

#[derive(Clone, Debug)]
pub struct SortedBlock {
    pub offset: u64,
    /// The number of entries, without missing values and NaN.
    pub count: u32,
    place_bytes: u8,
    /// The lowest key and the checksum of each segment.
    segments: Vec<(u64, u32)>,
}

pub struct Slice {
    pub values: ArrayRef,
    pub places: Vec<u32>,
    pub bytes: u64,
}

impl Sorted {
    pub fn find(&self, block: u64) -> Option<&SortedBlock> {
        self.blocks.binary_search_by_key(&block, |(own, _)| *own).ok().map(|at| &self.blocks[at].1)
    }
}

pub fn encode(variable: &Variable, found: &FetchedValues<'_>) -> Option<(SortedBlock, Vec<u8>)> {
    let width = variable.number.bytes() as usize;
    let (stored, values): (Cow<'_, [u8]>, ArrayRef) = match found {
        FetchedValues::Stored(bytes) => (Cow::Borrowed(bytes), decode::array(variable, bytes)),
        FetchedValues::Array(values) => {
            let data = values.to_data();
            let bytes = &data.buffers()[0][data.offset() * width..][..data.len() * width];
            (bytes.to_vec().into(), values.clone())
        }
    };
    let keys = order::keys(&values)?;
    let places = in_order(&keys, &values)?;
    let place_bytes = if values.len() <= 1 << 16 { 2 } else { 4 };
    let entries = Entries { places: &places, place_bytes, big_endian: variable.big_endian };
    let (bytes, sums) = match width {
        1 => entries.bytes::<1>(&stored),
        2 => entries.bytes::<2>(&stored),
        4 => entries.bytes::<4>(&stored),
        _ => entries.bytes::<8>(&stored),
    };
    let first = places.chunks(SEGMENT).map(|segment| keys[segment[0] as usize]);
    let segments = first.zip(sums).collect();
    let block = SortedBlock { offset: 0, count: places.len() as u32, place_bytes: place_bytes as u8, segments };
    Some((block, bytes))
}

/// The places in the order of their keys. Places with equal keys ascend.
fn in_order(keys: &[u64], values: &ArrayRef) -> Option<Vec<u32>> {
    let count = u32::try_from(keys.len()).ok()?;
    let (low, high) = order::number_keys(values.data_type());
    let nulls = values.nulls();
    let is_number =
        |key: u64, place: u32| (low..=high).contains(&key) && nulls.is_none_or(|nulls| nulls.is_valid(place as usize));
    let numbers = keys.iter().copied().zip(0..count).filter(|(key, place)| is_number(*key, *place));
    if keys.iter().all(|key| *key <= u64::from(u32::MAX)) {
        let mut entries: Vec<u64> = numbers.map(|(key, place)| key << 32 | u64::from(place)).collect();
        sort(&mut entries, |entry| entry >> 32);
        return Some(entries.into_iter().map(|entry| entry as u32).collect());
    }
    let mut entries: Vec<(u64, u32)> = numbers.collect();
    sort(&mut entries, |entry| entry.0);
    Some(entries.into_iter().map(|(_, place)| place).collect())
}

struct Entries<'a> {
    places: &'a [u32],
    place_bytes: usize,
    big_endian: bool,
}

impl Entries<'_> {
    /// Encodes the segments, with their checksums.
    fn bytes<const N: usize>(&self, stored: &[u8]) -> (Vec<u8>, Vec<u32>) {
        let (cells, _) = stored.as_chunks::<N>();
        let mut bytes = Vec::with_capacity(self.places.len() * (N + self.place_bytes));
        let mut sums = Vec::with_capacity(self.places.len().div_ceil(SEGMENT));
        for segment in self.places.chunks(SEGMENT) {
            let begin = bytes.len();
            for place in segment {
                let mut cell = cells[*place as usize];
                if self.big_endian {
                    cell.reverse();
                }
                bytes.extend_from_slice(&cell);
            }
            match self.place_bytes {
                2 => segment.iter().for_each(|place| bytes.extend_from_slice(&(*place as u16).to_le_bytes())),
                _ => segment.iter().for_each(|place| bytes.extend_from_slice(&place.to_le_bytes())),
            }
            sums.push(crc32c::crc32c(&bytes[begin..]));
        }
        (bytes, sums)
    }
}

const DIGIT: u32 = 11;
/// With fewer entries, a comparison sort is faster.
const FEW: usize = 1024;

/// A stable radix sort by key, from the lowest digit. Digits that are equal in all keys are skipped.
fn sort<T: Copy + Default>(entries: &mut Vec<T>, key: impl Fn(&T) -> u64) {
    if entries.len() < FEW {
        entries.sort_by_key(key);
        return;
    }
    let first = key(&entries[0]);
    let differing = entries.iter().fold(0, |bits, entry| bits | (key(entry) ^ first));
    let mut other = vec![T::default(); entries.len()];
    let mask = (1 << DIGIT) - 1;
    for shift in (0..u64::BITS).step_by(DIGIT as usize).filter(|shift| differing >> shift & mask != 0) {
        let digit = |entry: &T| (key(entry) >> shift & mask) as usize;
        let mut ends = [0u32; 1 << DIGIT];
        entries.iter().for_each(|entry| ends[digit(entry)] += 1);
        let mut begin = 0;
        for end in &mut ends {
            (begin, *end) = (begin + *end, begin);
        }
        for entry in entries.iter() {
            let place = &mut ends[digit(entry)];
            other[*place as usize] = *entry;
            *place += 1;
        }
        std::mem::swap(entries, &mut other);
    }
}

impl SortedBlock {
    /// The least length of an entry in the directory.
    pub const LEAST_BYTES: usize = 21;

    pub fn write(&self, block: u64, out: &mut Vec<u8>) {
        out.extend(block.to_le_bytes());
        out.extend(self.offset.to_le_bytes());
        out.extend(self.count.to_le_bytes());
        out.push(self.place_bytes);
        for (key, sum) in &self.segments {
            out.extend(key.to_le_bytes());
            out.extend(sum.to_le_bytes());
        }
    }

    /// # Errors
    ///
    /// The fault of the entry.
    pub fn read(reading: &mut Reading<'_>) -> Outcome<(u64, SortedBlock)> {
        let (block, offset, count) = (reading.word()?, reading.word()?, reading.half()?);
        let place_bytes = reading.take(1)?[0];
        if !matches!(place_bytes, 2 | 4) {
            return Err("a sorted block has positions of an unknown width".into());
        }
        let segments = reading.holds((count as usize).div_ceil(SEGMENT) as u64, 12)?;
        let segments = (0..segments).map(|_| Ok((reading.word()?, reading.half()?))).collect::<Outcome<Vec<_>>>()?;
        Ok((block, SortedBlock { offset, count, place_bytes, segments }))
    }

    fn segments_of(&self, low: u64, high: u64) -> Range<usize> {
        // The segment before the first one at or above `low` may contain `low`.
        let first = self.segments.partition_point(|(key, _)| *key < low).saturating_sub(1);
        first..self.segments.partition_point(|(key, _)| *key <= high)
    }

    /// The offset and bytes within the index of the keys from `low` to `high`.
    pub fn extent(&self, width: u64, low: u64, high: u64) -> (u64, u64) {
        let segments = self.segments_of(low, high);
        let entry = width + u64::from(self.place_bytes);
        let entries = (segments.end * SEGMENT).min(self.count as usize).saturating_sub(segments.start * SEGMENT);
        (self.offset + (segments.start * SEGMENT) as u64 * entry, entries as u64 * entry)
    }

    /// The entries with keys from `low` to `high`, and a few around them; `None` if there are no entries.
    ///
    /// # Errors
    ///
    /// `Damaged`, or a storage error.
    pub fn slice(&self, file: &File, name: &str, variable: &Variable, low: u64, high: u64) -> Result<Option<Slice>> {
        let Range { start: first, end: last } = self.segments_of(low, high);
        if first >= last {
            return Ok(None);
        }
        let (width, place) = (variable.number.bytes() as usize, usize::from(self.place_bytes));
        let entry = width + place;
        let begin = first * SEGMENT;
        let end = (last * SEGMENT).min(self.count as usize);
        let mut bytes = vec![0; (end - begin) * entry];
        let offset = self.offset.saturating_add((begin * entry) as u64);
        let damaged = |what: &str| Error::Damaged { file: name.to_string(), offset, what: what.to_string() };
        file.read_exact_at(&mut bytes, offset).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => damaged("sorted values are cut short"),
            _ => Error::io(format!("cannot read {name}: {error}"), error),
        })?;
        let (mut stored, mut places) = (Vec::with_capacity((end - begin) * width), Vec::new());
        for (segment, bytes) in bytes.chunks(SEGMENT * entry).enumerate() {
            if crc32c::crc32c(bytes) != self.segments[first + segment].1 {
                return Err(damaged("the checksum of sorted values is wrong"));
            }
            let count = bytes.len() / entry;
            stored.extend(&bytes[..count * width]);
            for cell in bytes[count * width..].chunks_exact(place) {
                places.push(cell.iter().rev().fold(0, |place, byte| place << 8 | u32::from(*byte)));
            }
        }
        let plain = Variable { big_endian: false, ..variable.clone() };
        Ok(Some(Slice { values: decode::array(&plain, &stored), places, bytes: bytes.len() as u64 }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::UInt64Array;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn places_are_in_order_of_keys_and_then_of_places(
            key in prop_oneof![Just(0u32), Just(2), Just(40), Just(63)],
            count in prop_oneof![0usize..40, 1000usize..3000],
            seed in any::<u64>(),
        ) {
            let keys: Vec<u64> = (0..count as u64).map(|at| xxhash_rust::xxh3::xxh3_64_with_seed(&at.to_le_bytes(), seed) >> key).collect();
            let values: ArrayRef = Arc::new(UInt64Array::from(keys.clone()));
            let mut expected: Vec<u32> = (0..count as u32).collect();
            expected.sort_by_key(|place| keys[*place as usize]);
            prop_assert_eq!(in_order(&keys, &values).unwrap(), expected);
        }
    }
}
