//! Sorted copies of a few blocks: their numbers ascending, with their places in the block.
//!
//! A block that has values far apart is hit by most questions and holds little of what is asked. A copy in
//! order, in segments of [`SEGMENT`] entries with a table of where each begins, is read only as far as the
//! condition reaches (section 4.3 of the paper). A segment holds its values, then its places: one
//! request brings both.

use std::borrow::Cow;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use arrow_array::{Array, ArrayRef};
use kubist_index::order;
use kubist_types::{Error, Result};

use crate::decode;
use crate::fetch::Found;
use crate::layout::Variable;
use crate::reading::Reading;

/// What is wrong, in words that need a file's name before them.
type Outcome<T> = std::result::Result<T, String>;

/// Entries of a segment.
pub const SEGMENT: usize = 256;

/// The sorted blocks of a variable, ascending.
#[derive(Clone, Debug, Default)]
pub struct Sorted {
    pub blocks: Vec<(u64, SortedBlock)>,
}

/// Where a block's sorted copy lies.
#[derive(Clone, Debug)]
pub struct SortedBlock {
    pub offset: u64,
    /// Numbers in it: neither missing nor NaN.
    pub count: u32,
    /// Bytes of a place.
    place_bytes: u8,
    /// Of each segment the least key and the checksum.
    segments: Vec<(u64, u32)>,
}

/// Values and their places, as they come of a sorted copy.
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

/// The sorted copy of a block.
pub fn encode(variable: &Variable, found: &Found<'_>) -> Option<(SortedBlock, Vec<u8>)> {
    let width = variable.number.bytes() as usize;
    let (stored, values): (Cow<'_, [u8]>, ArrayRef) = match found {
        Found::Stored(bytes) => (Cow::Borrowed(bytes), decode::array(variable, bytes)),
        Found::Array(values) => {
            let data = values.to_data();
            let bytes = &data.buffers()[0][data.offset() * width..][..data.len() * width];
            (bytes.to_vec().into(), values.clone())
        }
    };
    let keys = order::keys(&values)?;
    let (low, high) = order::number_keys(values.data_type());
    let count = u32::try_from(values.len()).ok()?;
    let place_bytes = if count <= 1 << 16 { 2 } else { 4 };
    let is_number = |(key, place): &(u64, u32)| values.is_valid(*place as usize) && (low..=high).contains(key);
    let mut entries: Vec<(u64, u32)> = keys.into_iter().zip(0..count).filter(is_number).collect();
    sort(&mut entries);
    let (mut bytes, mut segments) = (Vec::with_capacity(entries.len() * (width + place_bytes)), Vec::new());
    for segment in entries.chunks(SEGMENT) {
        let begin = bytes.len();
        for (_, place) in segment {
            let cell = &stored[*place as usize * width..][..width];
            match variable.big_endian {
                true => bytes.extend(cell.iter().rev()),
                false => bytes.extend_from_slice(cell),
            }
        }
        for (_, place) in segment {
            bytes.extend_from_slice(&place.to_le_bytes()[..place_bytes]);
        }
        segments.push((segment[0].0, crc32c::crc32c(&bytes[begin..])));
    }
    let block = SortedBlock { offset: 0, count: entries.len() as u32, place_bytes: place_bytes as u8, segments };
    Some((block, bytes))
}

/// By their keys, a byte at a time from the lowest; those of equal keys stay in order. Bytes in which all keys agree
/// need no step.
fn sort(entries: &mut Vec<(u64, u32)>) {
    let Some((first, _)) = entries.first().copied() else { return };
    let differing = entries.iter().fold(0, |bits, (key, _)| bits | (key ^ first));
    let mut other = vec![(0, 0); entries.len()];
    for shift in (0..u64::BITS).step_by(8).filter(|shift| differing >> shift & 0xff != 0) {
        let byte = |key: u64| (key >> shift & 0xff) as usize;
        let mut ends = [0; 256];
        entries.iter().for_each(|(key, _)| ends[byte(*key)] += 1);
        let mut begin = 0;
        for end in &mut ends {
            (begin, *end) = (begin + *end, begin);
        }
        for entry in entries.iter() {
            let place = &mut ends[byte(entry.0)];
            other[*place] = *entry;
            *place += 1;
        }
        std::mem::swap(entries, &mut other);
    }
}

impl SortedBlock {
    /// Bytes of an entry in the directory at least.
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
    /// What does not fit.
    pub fn read(reading: &mut Reading<'_>) -> Outcome<(u64, SortedBlock)> {
        let (block, offset, count) = (reading.word()?, reading.word()?, reading.half()?);
        let place_bytes = reading.take(1)?[0];
        if !matches!(place_bytes, 2 | 4) {
            return Err("a sorted block has places of no known width".into());
        }
        let segments = reading.holds((count as usize).div_ceil(SEGMENT) as u64, 12)?;
        let segments = (0..segments).map(|_| Ok((reading.word()?, reading.half()?))).collect::<Outcome<Vec<_>>>()?;
        Ok((block, SortedBlock { offset, count, place_bytes, segments }))
    }

    /// The segments with keys from `low` to `high`.
    fn segments_of(&self, low: u64, high: u64) -> Range<usize> {
        // A segment that begins at or above `low` may be preceded by one that reaches into it.
        let first = self.segments.partition_point(|(key, _)| *key < low).saturating_sub(1);
        first..self.segments.partition_point(|(key, _)| *key <= high)
    }

    /// Where the entries with keys from `low` to `high` lie in the index: offset and bytes.
    pub fn extent(&self, width: u64, low: u64, high: u64) -> (u64, u64) {
        let segments = self.segments_of(low, high);
        let entry = width + u64::from(self.place_bytes);
        let entries = (segments.end * SEGMENT).min(self.count as usize).saturating_sub(segments.start * SEGMENT);
        (self.offset + (segments.start * SEGMENT) as u64 * entry, entries as u64 * entry)
    }

    /// The entries with keys from `low` to `high`, and a few around them; `None` if there are none.
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
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn entries_are_in_order_of_keys_and_then_of_places(
            keys in proptest::collection::vec(prop_oneof![0u64..4, any::<u64>(), (0u64..9).prop_map(|at| at << 40)], 0..300)
        ) {
            let mut entries: Vec<(u64, u32)> = keys.into_iter().zip(0..).collect();
            let mut expected = entries.clone();
            expected.sort();
            sort(&mut entries);
            prop_assert_eq!(entries, expected);
        }
    }
}
