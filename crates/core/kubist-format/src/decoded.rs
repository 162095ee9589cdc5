//! A decoded page of a column.

use std::ops::Range;

use arrow_buffer::{Buffer, MutableBuffer};

use crate::rows::{Rows, Span, all_rows, bit};

/// The largest number of labels whose codes have one byte.
const NARROW: usize = 1 << 8;
/// Half of the largest number of rows of a zone, one machine word of bits.
const HALF: usize = 64;
const LINE: usize = 64;
/// With at least this many wanted rows in a zone, most memory lines of the zone have one.
pub(crate) const MANY_ROWS: u32 = 8;
/// Limit of memory lines of a page that are fetched ahead.
const MOST_LINES: usize = 128;

/// A decoded page, in few memory blocks, because each pointer to follow would be a cache miss.
#[derive(Debug, PartialEq)]
pub struct DecodedPage {
    /// A page of values has words of 32 or 64 bits, or one bit each, as column builders use them. A page with labels
    /// has each row's code in one or two bytes, each label's end in four bytes, and the labels.
    pub(crate) values: Buffer,
    /// One validity bit per row; `None` if all are valid.
    pub(crate) valid: Option<Box<[u8]>>,
    labelled: Option<Labelled>,
    /// Bits of a row in `values`.
    bits: u8,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Labelled {
    rows: u32,
    labels: u32,
}

pub(crate) struct Labels<'a> {
    codes: Codes<'a>,
    ends: &'a [[u8; 4]],
    bytes: &'a [u8],
}

/// One code per row, without meaning for null rows.
enum Codes<'a> {
    Narrow(&'a [u8]),
    Wide(&'a [[u8; 2]]),
}

impl DecodedPage {
    /// Builds a page of values with `bits` bits each.
    pub fn new(values: Buffer, valid: Option<Box<[u8]>>, bits: u8) -> DecodedPage {
        DecodedPage { values, valid, labelled: None, bits }
    }

    /// Builds a page from codes below the number of labels; it has at most 2^16 labels.
    pub(crate) fn labelled<'a>(
        codes: &[u32],
        labels: impl ExactSizeIterator<Item = &'a [u8]> + Clone,
        valid: Option<Box<[u8]>>,
    ) -> DecodedPage {
        let labelled = Labelled { rows: codes.len() as u32, labels: labels.len() as u32 };
        let bytes: usize = labels.clone().map(<[u8]>::len).sum();
        let mut values = MutableBuffer::with_capacity(codes.len() * labelled.width() + labels.len() * 4 + bytes);
        match labelled.width() {
            1 => codes.iter().for_each(|code| values.push(*code as u8)),
            _ => codes.iter().for_each(|code| values.extend_from_slice(&(*code as u16).to_le_bytes())),
        }
        let mut end = 0u32;
        for label in labels.clone() {
            end += label.len() as u32;
            values.extend_from_slice(&end.to_le_bytes());
        }
        labels.for_each(|label| values.extend_from_slice(label));
        DecodedPage { values: values.into(), valid, labelled: Some(labelled), bits: 8 * labelled.width() as u8 }
    }

    /// Returns the codes and labels; `None` for a page of values.
    pub(crate) fn labels(&self) -> Option<Labels<'_>> {
        let Labelled { rows, labels } = self.labelled?;
        let width = self.labelled?.width();
        let (codes, rest) = self.values.split_at(rows as usize * width);
        let (ends, bytes) = rest.split_at(labels as usize * 4);
        let codes = if width == 1 { Codes::Narrow(codes) } else { Codes::Wide(codes.as_chunks().0) };
        Some(Labels { codes, ends: ends.as_chunks().0, bytes })
    }

    /// Returns the labels in the order of their codes; `None` for a page of values.
    pub fn by_code(&self) -> Option<impl Iterator<Item = &[u8]>> {
        self.labels().map(|labels| (0..labels.count()).map(move |code| labels.label(code)))
    }

    /// Selects rows among up to 128 `indices` of a page with labels, from the lowest bit: rows whose code has a 1 in
    /// `of_codes`, and null rows if `null`. `of_codes` has at least 256 numbers.
    pub fn rows_where(&self, indices: Range<usize>, of_codes: &[u8], null: bool) -> Rows {
        let Some((labels, few)) = self.labels().zip(of_codes.first_chunk::<NARROW>()) else { return 0 };
        let mut true_codes = (0..labels.count().min(NARROW)).filter(|code| few[*code] == 1).map(|code| code as u8);
        let only = true_codes.next().filter(|_| true_codes.next().is_none());
        let mut rows: Rows = 0;
        for start in (0..indices.len()).step_by(HALF) {
            let (first, count) = (indices.start + start, (indices.len() - start).min(HALF));
            let mut truths = [0; HALF];
            match (&labels.codes, only) {
                (Codes::Narrow(codes), Some(only)) => {
                    let codes = truths.iter_mut().zip(&codes[first..first + count]);
                    codes.for_each(|(truth, code)| *truth = u8::from(*code == only));
                }
                (Codes::Narrow(codes), None) => {
                    let codes = truths.iter_mut().zip(&codes[first..first + count]);
                    codes.for_each(|(truth, code)| *truth = few[*code as usize]);
                }
                (Codes::Wide(codes), _) => {
                    let codes = truths.iter_mut().zip(&codes[first..first + count]);
                    codes.for_each(|(truth, code)| *truth = of_codes[u16::from_le_bytes(*code) as usize]);
                }
            }
            rows |= Rows::from(packed(&truths)) << start;
        }
        match &self.valid {
            None => rows,
            Some(valid) => {
                let all = all_rows(indices.len() as u8);
                let known = indices.rev().fold(0, |rows, row| rows << 1 | Rows::from(bit(valid, row)));
                rows & known | if null { all & !known } else { 0 }
            }
        }
    }

    pub fn bytes(&self) -> usize {
        self.values.len() + self.valid.as_ref().map_or(0, |valid| valid.len())
    }

    /// Prefetches the codes of all rows, and the first label, without waiting.
    pub fn fetch_codes(&self) {
        if let Some(Labelled { rows, .. }) = self.labelled {
            self.fetch_ahead(&[Span { indices: 0..rows as usize, some: None }]);
        }
    }

    /// Prefetches rows into the processor's cache without waiting.
    pub fn fetch_ahead(&self, spans: &[Span]) {
        let bits = usize::from(self.bits);
        let (mut next, mut left) = (0, MOST_LINES);
        let mut lines = |indices: Range<usize>| {
            let first = (indices.start * bits / 8 / LINE).max(next);
            next = (indices.end * bits).div_ceil(8).min(self.values.len()).div_ceil(LINE).max(first);
            for line in (first..next).take(left) {
                fetch_value(&self.values[line * LINE]);
            }
            left = left.saturating_sub(next - first);
        };
        for span in spans {
            match span.some {
                Some(rows) if rows.count_ones() < MANY_ROWS => span.for_each(|row| lines(row..row + 1)),
                _ => lines(span.indices.clone()),
            }
        }
        if let Some(Labelled { rows, .. }) = self.labelled {
            let labels = rows as usize * bits / 8;
            if let Some(first) = self.values.get(labels) {
                fetch_value(first);
            }
        }
    }
}

fn packed(bytes: &[u8; HALF]) -> u64 {
    let of_eight = |eight: &[u8; 8]| u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
    bytes.as_chunks().0.iter().rev().fold(0, |bits, eight| bits << 8 | of_eight(eight))
}

/// Prefetches the memory line of a value into the processor's cache without waiting.
pub fn fetch_value<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 processor has the instruction, and it changes only the caches.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

impl Labelled {
    fn width(self) -> usize {
        if self.labels as usize <= NARROW { 1 } else { 2 }
    }
}

impl<'a> Labels<'a> {
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    #[inline]
    pub fn label(&self, code: usize) -> &'a [u8] {
        let end = |code: usize| u32::from_le_bytes(self.ends[code]) as usize;
        let start = if code == 0 { 0 } else { end(code - 1) };
        &self.bytes[start..end(code)]
    }

    #[inline]
    pub fn for_each(&self, spans: &[Span], mut each: impl FnMut(usize, usize)) {
        match self.codes {
            Codes::Narrow(codes) => spans.iter().for_each(|span| span.for_each(|row| each(row, codes[row].into()))),
            Codes::Wide(codes) => {
                spans.iter().for_each(|span| span.for_each(|row| each(row, u16::from_le_bytes(codes[row]).into())));
            }
        }
    }

    pub fn append(&self, spans: &[Span], of_codes: &[i32], numbers: &mut Vec<i32>) {
        for Span { indices, some } in spans {
            match (&self.codes, some) {
                (Codes::Narrow(codes), None) => {
                    numbers.extend(codes[indices.clone()].iter().map(|code| of_codes[*code as usize]));
                }
                _ => self.for_each(&[Span { indices: indices.clone(), some: *some }], |_, code| {
                    numbers.push(of_codes[code]);
                }),
            }
        }
    }
}
