//! Selected rows of a page: ranges, bits of a zone, bitmaps.

use std::ops::Range;

/// Rows of a zone, one bit each from the lowest.
pub type Rows = u128;

pub fn all_rows(count: u8) -> Rows {
    if count >= 128 { Rows::MAX } else { (1 << count) - 1 }
}

/// Consecutive rows of a page, or some rows of a zone.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    pub indices: Range<usize>,
    /// Bits relative to the first index; `None` means all rows.
    pub some: Option<Rows>,
}

impl Span {
    /// Returns a span from the first to the last selected row of a zone that begins at index `begin`.
    pub(crate) fn around(begin: usize, rows: Rows) -> Span {
        let (first, end) = (rows.trailing_zeros(), Rows::BITS - rows.leading_zeros());
        if rows == 0 {
            return Span { indices: begin..begin, some: None };
        }
        let rows = rows >> first;
        let is_dense = rows.count_ones() == end - first;
        Span { indices: begin + first as usize..begin + end as usize, some: (!is_dense).then_some(rows) }
    }

    pub fn count(&self) -> usize {
        self.some.map_or(self.indices.len(), |rows| rows.count_ones() as usize)
    }

    pub(crate) fn for_each(&self, mut each: impl FnMut(usize)) {
        match self.some {
            None => self.indices.clone().for_each(each),
            Some(rows) => for_rows(rows, |row| each(self.indices.start + row)),
        }
    }
}

#[inline]
pub fn for_rows(rows: Rows, mut each: impl FnMut(usize)) {
    for (first, mut half) in [(0, rows as u64), (64, (rows >> 64) as u64)] {
        while half != 0 {
            each(first + half.trailing_zeros() as usize);
            half &= half - 1;
        }
    }
}

pub(crate) fn picked<W: Copy>(values: &mut [W], rows: Rows) -> &[W] {
    let mut count = 0;
    for_rows(rows, |row| {
        values[count] = values[row];
        count += 1;
    });
    &values[..count]
}

pub(crate) fn bit(bitmap: &[u8], index: usize) -> bool {
    bitmap[index / 8] >> (index % 8) & 1 == 1
}

/// Appends bits, least significant first, padded with zeros to a whole byte.
pub(crate) fn put_bitmap(bits: impl Iterator<Item = bool>, out: &mut Vec<u8>) {
    let start = out.len();
    for (index, bit) in bits.enumerate() {
        if index % 8 == 0 {
            out.push(0);
        }
        out[start + index / 8] |= (bit as u8) << (index % 8);
    }
}
