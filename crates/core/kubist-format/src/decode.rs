//! Decoding: appends selected rows of selected zones to an array.
//!
//! Bytes come from storage, so every length is checked before use.

mod coded;
mod opaque;

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::BooleanBufferBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray};
use arrow_buffer::{ArrowNativeType, Buffer, MutableBuffer, NullBuffer, ScalarBuffer};
use arrow_schema::DataType;
use kubist_index::order::Keyed;
use kubist_index::with_exact_primitive;

use crate::bits::{self, Word};
use crate::bounds::Values;
use crate::decoded::{DecodedPage, MANY_ROWS};
use crate::encode::{values_of, varies_in_length};
use crate::numbers::multiples::{self, Steps};
use crate::numbers::{Chunk, DecodeScratch, is_exact};
use crate::page::{OPAQUE_DICTIONARY, PageColumn};
use crate::rows::{Rows, Span, bit, for_rows, picked};
use crate::zone_map::{ZONES_PER_PAGE, ZoneMap};
use coded::CodedColumn;
use opaque::OpaqueColumn;

/// A decoded page with at most this many rows has labels, even if all its texts differ.
const FEW_ROWS: usize = 256;
/// Limit of bytes in a chunk of texts whose page gets labels, so that no decoded page is very large.
const MOST_LABELLED: usize = 32 << 10;

/// Consecutive zones of a page with all rows, or one zone with some rows.
#[derive(Clone, Debug)]
pub struct Pick {
    pub zones: Range<usize>,
    /// The rows of the zone; `None` means all.
    pub some: Option<Rows>,
}

impl Pick {
    pub fn everything(map: &ZoneMap) -> Vec<Pick> {
        (0..map.pages()).map(|page| Pick { zones: map.page_zones(page), some: None }).collect()
    }

    #[inline]
    pub fn page(&self) -> usize {
        self.zones.start / ZONES_PER_PAGE
    }

    #[inline]
    pub fn count(&self, map: &ZoneMap) -> usize {
        self.some.map_or_else(|| map.rows_of(&self.zones), |rows| rows.count_ones() as usize)
    }
}

#[inline]
pub fn pick_zone(picks: &mut Vec<Pick>, zone: usize) {
    match picks.last_mut() {
        Some(Pick { zones, some: None }) if zones.end == zone && zone % ZONES_PER_PAGE != 0 => zones.end += 1,
        _ => picks.push(Pick { zones: zone..zone + 1, some: None }),
    }
}

pub fn spans(map: &ZoneMap, page: usize, picks: &[Pick], spans: &mut Vec<Span>) {
    spans.clear();
    let (mut next, mut first) = (map.page_zones(page).start, 0);
    for Pick { zones, some } in picks {
        first += map.rows_of(&(next..zones.start));
        let indices = first..first + map.rows_of(zones);
        (next, first) = (zones.end, indices.end);
        let span = match some {
            None => Span { indices, some: None },
            Some(rows) => Span::around(indices.start, *rows),
        };
        match (&span, spans.last_mut()) {
            (Span { indices, some: None }, Some(Span { indices: last, some: None })) if last.end == indices.start => {
                last.end = indices.end;
            }
            _ => spans.push(span),
        }
    }
}

pub trait Column: Send {
    /// # Errors
    ///
    /// A description of the invalid bytes.
    fn append(&mut self, page: &PageColumn<'_>, spans: &[Span]) -> Result<(), String>;
    fn append_decoded(&mut self, page: &DecodedPage, spans: &[Span]);
    /// Appends the first value of an array `count` times, for rows of a run without the column.
    fn repeat(&mut self, value: &dyn Array, count: usize);
    /// # Errors
    ///
    /// A description of the invalid bytes.
    fn finish(self: Box<Self>) -> Result<ArrayRef, String>;
    /// Returns the appended rows for the cache; `None` for types that decode as fast as they are copied.
    fn kept(self: Box<Self>) -> Option<DecodedPage>;
}

/// An empty builder with memory for about `rows` rows.
pub fn column(data_type: &DataType, rows: usize) -> Box<dyn Column> {
    with_exact_primitive!(data_type, T => return packed::<T>(data_type, rows), _ => {});
    match data_type {
        DataType::Boolean => Box::new(BooleanColumn {
            values: BooleanBufferBuilder::new(rows),
            keys: Vec::new(),
            aside: DecodeScratch::default(),
            validity: Validity::default(),
        }),
        _ => Box::new(OpaqueColumn::new(data_type)),
    }
}

/// A builder that returns a column of texts with few different values as a dictionary with `i32` codes.
pub fn coded_column(data_type: &DataType, rows: usize) -> Box<dyn Column> {
    match varies_in_length(data_type) {
        true => Box::new(CodedColumn::new(data_type, rows)),
        false => column(data_type, rows),
    }
}

/// Decodes a page for the cache; `None` for texts that mostly differ, and for types that decode as fast as they are
/// copied.
///
/// # Errors
///
/// A description of the invalid bytes.
pub fn decoded(data_type: &DataType, page: &PageColumn<'_>) -> Result<Option<DecodedPage>, String> {
    if varies_in_length(data_type) {
        return coded::decoded(page);
    }
    if !is_exact(data_type) {
        return Ok(None);
    }
    let mut column = column(data_type, page.rows);
    column.append(page, &[Span { indices: 0..page.rows, some: None }])?;
    Ok(column.kept())
}

/// Whether [`decoded`] keeps a page of texts, judged by its rows and bytes.
pub fn has_labels(page: &PageColumn<'_>) -> bool {
    let has_few = page.rows <= FEW_ROWS || page.bytes.first() == Some(&OPAQUE_DICTIONARY);
    has_few && page.bytes.len() <= MOST_LABELLED
}

/// Builds an array for a type whose values vary in length.
///
/// # Errors
///
/// A description of the invalid bytes.
pub fn texts<'a>(data_type: &DataType, values: impl Iterator<Item = Option<&'a [u8]>>) -> Result<ArrayRef, String> {
    let mut column = OpaqueColumn::new(data_type);
    values.for_each(|value| column.push(value.unwrap_or_default(), value.is_some()));
    Box::new(column).finish()
}

fn packed<T: ArrowPrimitiveType>(data_type: &DataType, rows: usize) -> Box<dyn Column>
where
    T::Native: Keyed,
{
    match size_of::<T::Native>() {
        ..=4 => Box::new(PackedColumn::<T, u32>::new(data_type, rows)),
        _ => Box::new(PackedColumn::<T, u64>::new(data_type, rows)),
    }
}

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

    fn append(&mut self, page: &DecodedPage, spans: &[Span], count: usize) {
        match &page.valid {
            None => self.push(count, true),
            Some(bitmap) => spans.iter().for_each(|span| span.for_each(|row| self.push(1, bit(bitmap, row)))),
        }
    }

    fn kept(self) -> Option<Box<[u8]>> {
        self.bits.map(|bits| bits.as_slice().into())
    }

    fn finish(self) -> Option<NullBuffer> {
        self.bits.map(|mut bits| NullBuffer::new(bits.finish()))
    }
}

#[derive(Clone, Copy)]
struct Lacking<W> {
    shift: u32,
    steps: Option<Steps<W>>,
}

fn append_keys<W: Word>(
    page: &PageColumn<'_>,
    spans: &[Span],
    keys: &mut Vec<W>,
    aside: &mut DecodeScratch<W>,
    validity: &mut Validity,
) -> Result<Lacking<W>, String> {
    let (chunk, before) = (Chunk::read(page.bytes, page.rows)?, keys.len());
    chunk.append(spans, keys, aside)?;
    match chunk.valid {
        None => validity.push(keys.len() - before, !chunk.is_null()),
        Some(bitmap) => spans.iter().for_each(|span| span.for_each(|row| validity.push(1, bit(bitmap, row)))),
    }
    Ok(Lacking { shift: chunk.shift, steps: chunk.steps })
}

fn no_steps(data_type: &DataType) -> String {
    format!("a column chunk has multiples of a step, and its type is {data_type}")
}

bits::vectorised! {
    fn bits_of_values<N: Keyed, W: Word>(words: &mut [W], shift: u32, steps: Option<Steps<W>>) {
        match (steps, shift) {
            (Some(steps), _) => multiples::floats(words, shift, steps),
            (None, 0) => words.iter_mut().for_each(|word| *word = W::truncate(N::from_key((*word).into()).bits())),
            // The omitted bits are zeros of the value; in the key of a negative float they are ones.
            (None, _) => words.iter_mut().for_each(|word| {
                let value = N::from_key(Into::<u64>::into(*word) << shift);
                *word = W::truncate(value.bits() >> shift << shift);
            }),
        }
    }
}

struct PackedColumn<T: ArrowPrimitiveType, W> {
    data_type: DataType,
    words: Vec<W>,
    aside: DecodeScratch<W>,
    validity: Validity,
    values: PhantomData<fn() -> T>,
}

impl<T: ArrowPrimitiveType, W: Word> PackedColumn<T, W> {
    fn new(data_type: &DataType, rows: usize) -> Self {
        // Whole blocks are unpacked, so eight more words are reserved.
        let (words, data_type) = (Vec::with_capacity(rows + 8), data_type.clone());
        PackedColumn {
            data_type,
            words,
            aside: DecodeScratch::default(),
            validity: Validity::default(),
            values: PhantomData,
        }
    }
}

impl<T: ArrowPrimitiveType, W: Word + ArrowNativeType> Column for PackedColumn<T, W>
where
    T::Native: Keyed,
{
    fn append(&mut self, page: &PageColumn<'_>, spans: &[Span]) -> Result<(), String> {
        let before = self.words.len();
        let Lacking { shift, steps } = append_keys(page, spans, &mut self.words, &mut self.aside, &mut self.validity)?;
        let words = &mut self.words[before..];
        if steps.is_some() && values_of(&self.data_type) == Values::Keys {
            return Err(no_steps(&self.data_type));
        }
        bits_of_values::<T::Native, W>(words, shift, steps);
        Ok(())
    }

    fn append_decoded(&mut self, page: &DecodedPage, spans: &[Span]) {
        let (words, start) = (page.values.typed_data::<W>(), self.words.len());
        for span in spans {
            match span.some {
                Some(rows) if rows.count_ones() < MANY_ROWS => span.for_each(|row| self.words.push(words[row])),
                _ => {
                    let before = self.words.len();
                    self.words.extend_from_slice(&words[span.indices.clone()]);
                    if let Some(rows) = span.some {
                        let count = picked(&mut self.words[before..], rows).len();
                        self.words.truncate(before + count);
                    }
                }
            }
        }
        self.validity.append(page, spans, self.words.len() - start);
    }

    fn kept(self: Box<Self>) -> Option<DecodedPage> {
        let mut words = self.words;
        words.shrink_to_fit();
        Some(DecodedPage::new(Buffer::from_vec(words), self.validity.kept(), 8 * size_of::<W>() as u8))
    }

    fn repeat(&mut self, value: &dyn Array, count: usize) {
        let word = W::truncate(value.as_primitive::<T>().value(0).bits());
        self.words.extend(std::iter::repeat_n(word, count));
        self.validity.push(count, value.is_valid(0));
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef, String> {
        let values = match size_of::<W>() == size_of::<T::Native>() {
            true => Buffer::from_vec(self.words),
            false => {
                // Arrow buffers are aligned for any type, even if empty, but the bytes of a vector are not.
                let width = size_of::<T::Native>();
                let mut bytes = MutableBuffer::with_capacity(self.words.len() * width);
                for word in &self.words {
                    bytes.extend_from_slice(&Into::<u64>::into(*word).to_le_bytes()[..width]);
                }
                bytes.into()
            }
        };
        let values = ScalarBuffer::<T::Native>::from(values);
        let array = PrimitiveArray::<T>::try_new(values, self.validity.finish());
        Ok(Arc::new(array.map_err(|error| error.to_string())?.with_data_type(self.data_type)))
    }
}

struct BooleanColumn {
    values: BooleanBufferBuilder,
    keys: Vec<u32>,
    aside: DecodeScratch<u32>,
    validity: Validity,
}

impl Column for BooleanColumn {
    fn append(&mut self, page: &PageColumn<'_>, spans: &[Span]) -> Result<(), String> {
        self.keys.clear();
        let lacking = append_keys(page, spans, &mut self.keys, &mut self.aside, &mut self.validity)?;
        if lacking.steps.is_some() {
            return Err(no_steps(&DataType::Boolean));
        }
        for keys in self.keys.chunks(64) {
            let word = keys.iter().rev().fold(0_u64, |word, key| word << 1 | u64::from(*key != 0));
            self.values.append_packed_range(0..keys.len(), &word.to_le_bytes());
        }
        Ok(())
    }

    fn append_decoded(&mut self, page: &DecodedPage, spans: &[Span]) {
        let (bits, start) = (page.values.as_slice(), self.values.len());
        for Span { indices, some } in spans {
            match some {
                None => self.values.append_packed_range(indices.clone(), bits),
                Some(rows) => for_rows(*rows, |row| self.values.append(bit(bits, indices.start + row))),
            }
        }
        self.validity.append(page, spans, self.values.len() - start);
    }

    fn kept(mut self: Box<Self>) -> Option<DecodedPage> {
        Some(DecodedPage::new(self.values.finish().into_inner(), self.validity.kept(), 1))
    }

    fn repeat(&mut self, value: &dyn Array, count: usize) {
        self.values.append_n(count, value.as_boolean().value(0));
        self.validity.push(count, value.is_valid(0));
    }

    fn finish(mut self: Box<Self>) -> Result<ArrayRef, String> {
        Ok(Arc::new(BooleanArray::new(self.values.finish(), self.validity.finish())))
    }
}
