//! Compact encodings of the keys of a column of a page (FORMAT.md, Chunk). Each page gets the best one
//! ([`choose`]).
//!
//! Frames and dictionaries can be read from any row on, and [`binned`] keys only from the beginning of the
//! page. The bytes come from storage, so every length and number is checked before use.

use std::ops::Range;

use arrow_schema::DataType;
use kubist_index::with_exact_primitive;
use kubist_types::Compression;
use pco::DecompressorScratch;

use crate::bits::{self, Word, ones};
use crate::page::{OPAQUE_DICTIONARY, OPAQUE_PLAIN};
use crate::rows::{Span, bit, for_rows, put_bitmap};
use crate::wire::{Reader, UnexpectedEnd};
use multiples::{Multiples, Steps};

mod binned;
pub mod choose;
pub(crate) mod multiples;

/// The encodings, numbers in the lowest bits of a chunk's first byte.
pub const FRAME: u8 = 0;
pub const TWO_FRAMES: u8 = 1;
pub const DICTIONARY: u8 = 2;
/// All rows of the page are null, and nothing follows.
pub const ALL_NULL: u8 = 3;
pub const PCO: u8 = 4;
/// Flag of the first byte: keys are integers, and values are multiples.
pub const MULTIPLES: u8 = 1 << 6;
/// Flag of the first byte: a bitmap of the rows that are not null precedes the keys.
const SOME_NULL: u8 = 1 << 7;
/// Gaps between wanted rows that are shorter than this are decoded too, because a new start takes as long.
const FAR_APART: usize = 64;

pub fn encoding(data_type: &DataType, bytes: &[u8]) -> &'static str {
    if !is_exact(data_type) {
        return match bytes.first() {
            Some(&OPAQUE_PLAIN) => "lz4",
            Some(&OPAQUE_DICTIONARY) => "dictionary",
            _ => "unknown",
        };
    }
    match bytes.first().map(|first| first & !SOME_NULL) {
        Some(FRAME) => "frame",
        Some(TWO_FRAMES) => "two frames",
        Some(DICTIONARY) => "dictionary",
        Some(ALL_NULL) => "null",
        Some(PCO) => "pco",
        Some(kind) if kind & MULTIPLES != 0 => match kind & !MULTIPLES {
            FRAME => "frame of steps",
            TWO_FRAMES => "two frames of steps",
            DICTIONARY => "dictionary of steps",
            PCO => "pco of steps",
            _ => "unknown",
        },
        _ => "unknown",
    }
}

pub(crate) fn is_exact(data_type: &DataType) -> bool {
    fn yes<T>() -> bool {
        true
    }
    with_exact_primitive!(data_type, T => yes::<T>(), _ => *data_type == DataType::Boolean)
}

/// Values as differences from the smallest, each in `width` bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packed<'a, W> {
    base: W,
    width: u32,
    bytes: &'a [u8],
}

impl<'a, W: Word> Packed<'a, W> {
    fn head(reader: &mut Reader<'a>) -> Result<(W, u32), String> {
        let width = reader.u8().map_err(short)? as u32;
        let base = word(reader)?;
        match width <= W::BITS {
            true => Ok((base, width)),
            false => Err(format!("a column chunk has values of {width} bits")),
        }
    }

    fn body(reader: &mut Reader<'a>, (base, width): (W, u32), count: usize) -> Result<Packed<'a, W>, String> {
        let bytes = reader.bytes(bits::packed_len(count, width)).map_err(short)?;
        Ok(Packed { base, width, bytes })
    }

    #[inline]
    fn unpack(&self, indices: Range<usize>, out: &mut Vec<W>) -> Result<(), String> {
        bits::unpack(self.bytes, self.width, indices, self.base, out).ok_or_else(|| short(UnexpectedEnd))
    }
}

fn short(_: UnexpectedEnd) -> String {
    "a column chunk is shorter than its rows".into()
}

enum Body<'a, W> {
    Nothing,
    Frame(Packed<'a, W>),
    /// One bit for each row, and the values of the rows with bit 0 and with bit 1.
    Two(&'a [u8], [Packed<'a, W>; 2]),
    /// The number of values, the values, and every row's index.
    Dictionary(usize, Packed<'a, W>, Packed<'a, W>),
    Binned(&'a [u8]),
}

pub(crate) struct Chunk<'a, W> {
    pub(crate) rows: usize,
    pub(crate) shift: u32,
    pub(crate) steps: Option<Steps<W>>,
    /// A bitmap of the rows that are not null; `None` if all or none are null.
    pub(crate) valid: Option<&'a [u8]>,
    body: Body<'a, W>,
}

pub(crate) struct DecodeScratch<W> {
    values: Vec<W>,
    /// For two frames: a number of leading rows, and the number in the second frame.
    counted: (usize, usize),
    scratch: Option<Box<DecompressorScratch>>,
}

impl<W> Default for DecodeScratch<W> {
    fn default() -> Self {
        DecodeScratch { values: Vec::new(), counted: (0, 0), scratch: None }
    }
}

impl<'a, W: Word> Chunk<'a, W> {
    /// The error describes the invalid bytes.
    pub(crate) fn read(bytes: &'a [u8], rows: usize) -> Result<Chunk<'a, W>, String> {
        let reader = &mut Reader::new(bytes);
        let kind = reader.u8().map_err(short)?;
        if kind == ALL_NULL {
            return Ok(Chunk { rows, shift: 0, steps: None, valid: None, body: Body::Nothing });
        }
        let shift = reader.u8().map_err(short)? as u32;
        if shift >= W::BITS {
            return Err(format!("a column chunk leaves out {shift} bits of its values"));
        }
        let steps = match kind & MULTIPLES {
            0 => None,
            _ => Some(steps(reader)?),
        };
        let valid = match kind & SOME_NULL {
            0 => None,
            _ => Some(reader.bytes(rows.div_ceil(8)).map_err(short)?),
        };
        let body = match kind & !(SOME_NULL | MULTIPLES) {
            FRAME => {
                let head = Packed::head(reader)?;
                Body::Frame(Packed::body(reader, head, rows)?)
            }
            TWO_FRAMES => {
                let heads = (Packed::head(reader)?, Packed::head(reader)?);
                let which = reader.bytes(rows.div_ceil(8)).map_err(short)?;
                let ones = ones(which, 0..rows);
                Body::Two(which, [Packed::body(reader, heads.0, rows - ones)?, Packed::body(reader, heads.1, ones)?])
            }
            DICTIONARY => {
                let (count, head) = (counted(reader, rows)?, Packed::head(reader)?);
                let values = Packed::body(reader, head, count)?;
                let width = bits::width_of(count as u64 - 1);
                Body::Dictionary(count, values, Packed::body(reader, (W::default(), width), rows)?)
            }
            PCO => Body::Binned(reader.rest()),
            other => return Err(format!("a column chunk has the unknown encoding {other}")),
        };
        Ok(Chunk { rows, shift, steps, valid, body })
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self.body, Body::Nothing)
    }

    pub(crate) fn append(&self, spans: &[Span], keys: &mut Vec<W>, aside: &mut DecodeScratch<W>) -> Result<(), String> {
        aside.values.clear();
        match &self.body {
            Body::Dictionary(count, values, _) => {
                values.unpack(0..*count, &mut aside.values)?;
                // The table is padded, so that every code of this many bits has a value.
                aside.values.resize(count.next_power_of_two(), values.base);
            }
            Body::Binned(bytes) => {
                let wanted = spans.iter().map(|span| span.indices.end).max().unwrap_or(0);
                let scratch = aside.scratch.get_or_insert_default();
                binned::unpack(bytes, self.rows, wanted, scratch, &mut aside.values)?;
            }
            Body::Nothing | Body::Frame(_) | Body::Two(..) => {}
        }
        aside.counted = (0, 0);
        let mut rest = spans;
        while let Some(first) = rest.first() {
            let next = rest.windows(2).position(|pair| pair[0].indices.end + FAR_APART < pair[1].indices.start);
            let (near, later) = rest.split_at(next.map_or(rest.len(), |last| last + 1));
            rest = later;
            let rows = first.indices.start..near[near.len() - 1].indices.end;
            if rows.end > self.rows {
                return Err(short(UnexpectedEnd));
            }
            let before = keys.len();
            self.append_rows(rows.clone(), keys, aside)?;
            keep(near, rows.start, before, keys);
        }
        Ok(())
    }

    fn append_rows(&self, rows: Range<usize>, keys: &mut Vec<W>, aside: &mut DecodeScratch<W>) -> Result<(), String> {
        match &self.body {
            Body::Nothing => keys.resize(keys.len() + rows.len(), W::default()),
            Body::Frame(values) => values.unpack(rows, keys)?,
            Body::Two(which, [zeros, others]) => {
                let (counted, of_counted) = if aside.counted.0 <= rows.start { aside.counted } else { (0, 0) };
                let before = of_counted + ones(which, counted..rows.start);
                let among = ones(which, rows.clone());
                aside.counted = (rows.end, before + among);
                let (first, of_zeros) = (rows.start - before, rows.len() - among);
                aside.values.clear();
                zeros.unpack(first..first + of_zeros, &mut aside.values)?;
                others.unpack(before..before + among, &mut aside.values)?;
                merge(which, rows, &mut aside.values, of_zeros, keys);
            }
            Body::Dictionary(_, _, codes) => {
                let before = keys.len();
                codes.unpack(rows, keys)?;
                if !W::look_up_fast(&aside.values, &mut keys[before..]) {
                    let mask = aside.values.len() - 1;
                    for key in &mut keys[before..] {
                        *key = aside.values[Into::<u64>::into(*key) as usize & mask];
                    }
                }
            }
            Body::Binned(_) => keys.extend_from_slice(aside.values.get(rows).ok_or_else(|| short(UnexpectedEnd))?),
        }
        Ok(())
    }
}

/// Keeps only the keys in the spans. `keys[before..]` are the keys of the rows from `first` on.
fn keep<W: Copy>(spans: &[Span], first: usize, before: usize, keys: &mut Vec<W>) {
    let mut at = before;
    for span in spans {
        let from = before + span.indices.start - first;
        match span.some {
            None => {
                if from != at {
                    keys.copy_within(from..from + span.indices.len(), at);
                }
                at += span.indices.len();
            }
            Some(rows) => for_rows(rows, |row| {
                keys[at] = keys[from + row];
                at += 1;
            }),
        }
    }
    keys.truncate(at);
}

fn steps<W: Word>(reader: &mut Reader<'_>) -> Result<Steps<W>, String> {
    let power = i32::from(reader.u16().map_err(short)? as i16);
    if !multiples::is_step::<W>(power) {
        return Err(format!("a column chunk has multiples of 2^{power}, which its type does not support"));
    }
    let odd = match reader.u8().map_err(short)? {
        0 => None,
        _ => Some((word(reader)?, word(reader)?)),
    };
    Ok(Steps { power, odd })
}

fn word<W: Word>(reader: &mut Reader<'_>) -> Result<W, String> {
    Ok(W::truncate(match W::BITS {
        32 => reader.u32().map_err(short)? as u64,
        _ => reader.u64().map_err(short)?,
    }))
}

/// Reads a number of values, from 1 to `rows`.
fn counted(reader: &mut Reader<'_>, rows: usize) -> Result<usize, String> {
    let count = reader.u16().map_err(short)? as usize;
    match (1..=rows).contains(&count) {
        true => Ok(count),
        false => Err(format!("a column chunk of {rows} rows has {count} values")),
    }
}

/// Merges two streams by a bitmap. `both` has the values of the `zeros` rows with bit 0, then the others.
fn merge<W: Word>(which: &[u8], rows: Range<usize>, both: &mut Vec<W>, zeros: usize, out: &mut Vec<W>) {
    let (mut of_zeros, mut of_ones, mut at) = (0, zeros, rows.start);
    while at < rows.end && at % 8 != 0 {
        let from = if bit(which, at) { &mut of_ones } else { &mut of_zeros };
        out.push(both[*from]);
        (*from, at) = (*from + 1, at + 1);
    }
    let whole = &which[at / 8..rows.end.max(at) / 8];
    // Whole blocks are read, which may go past the last value.
    both.resize(both.len() + 8, W::default());
    if let Some(ones) = W::merge_fast(whole, both, [of_zeros, of_ones], out) {
        (of_zeros, of_ones) = (of_zeros + whole.len() * 8 - ones, of_ones + ones);
        at += whole.len() * 8;
    }
    let mut next = |one: bool| {
        let from = if one { of_ones } else { of_zeros };
        of_ones += one as usize;
        of_zeros += !one as usize;
        both[from]
    };
    out.extend((at..rows.end).map(|row| next(bit(which, row))));
}

#[derive(Clone, Copy, Debug)]
pub struct EncodingHints {
    /// The sign bit in the keys of floats. In a negative value's key, unused low bits are ones.
    pub sign: Option<u32>,
    /// The exponent of the power of two whose multiples most values are, for floats of the keys' width.
    pub step: Option<i32>,
    pub effort: Compression,
}

bits::vectorised! {
    /// Encodes the keys of a page. `valid` marks the rows that are not null, if some are null; the keys of null
    /// rows are ignored. `ends` are the minimum and maximum of the other keys.
    pub fn put<W: Word>(keys: &mut [W], valid: Option<&[bool]>, ends: (W, W), how: EncodingHints, out: &mut Vec<u8>) {
        put_keys(keys, valid, ends, how, out)
    }
}

#[inline(always)]
fn put_keys<W: Word>(keys: &mut [W], valid: Option<&[bool]>, ends: (W, W), how: EncodingHints, out: &mut Vec<u8>) {
    let first = match valid {
        None => keys.first().copied(),
        Some(valid) => keys.iter().zip(valid).find(|(_, valid)| **valid).map(|(key, _)| *key),
    };
    let Some(first) = first else {
        out.push(ALL_NULL);
        return;
    };
    if let Some(valid) = valid {
        keys.iter_mut().zip(valid).filter(|(_, valid)| !**valid).for_each(|(key, _)| *key = first);
    }
    let mut used = Used::of(keys, ends, how.sign);
    let mut steps = None;
    if let Some(power) = how.step.filter(|_| used.width() > 0) {
        if let Some((whole, odd, of_whole)) = numbered(keys, power, used.width()) {
            keys.copy_from_slice(&whole);
            (used, steps) = (of_whole, Some(Steps { power, odd }));
        }
    }
    if used.shift > 0 {
        keys.iter_mut().for_each(|key| *key = used.without(*key));
    }
    let plan = choose::plan(keys, used.ends(), how.effort);
    let flags = steps.map_or(0, |_| MULTIPLES) | valid.map_or(0, |_| SOME_NULL);
    let head = out.len();
    out.push(plan.number() | flags);
    out.push(used.shift as u8);
    if let Some(Steps { power, odd }) = steps {
        out.extend_from_slice(&(power as i16).to_le_bytes());
        out.push(odd.is_some() as u8);
        for word in odd.into_iter().flat_map(|(key, value)| [key, value]) {
            let word: u64 = word.into();
            out.extend_from_slice(&word.to_le_bytes()[..W::BITS as usize / 8]);
        }
    }
    if let Some(valid) = valid {
        put_bitmap(valid.iter().copied(), out);
    }
    let body = out.len();
    plan.put(keys, out);
    if how.effort == Compression::Small
        && keys.len() >= choose::LEAST_ROWS
        && let Some(binned) = binned::packed(keys, out.len() - body)
    {
        out[head] = PCO | flags;
        out.truncate(body);
        out.extend_from_slice(&binned);
    }
}

#[inline(always)]
fn numbered<W: Word>(keys: &[W], power: i32, most_bits: u32) -> Option<(Vec<W>, Option<(W, W)>, Used<W>)> {
    let Multiples { keys: mut whole, odd } = multiples::whole_numbers(keys, power)?;
    let mut used = Used::of(&whole, ends(&whole), None);
    let odd = match odd {
        None => None,
        Some(odd) => {
            let above = Into::<u64>::into(used.high).checked_add(1 << used.shift)?;
            used.high = W::truncate(above);
            if Into::<u64>::into(used.high) != above {
                return None;
            }
            odd.rows.iter().for_each(|row| whole[*row] = used.high);
            Some((used.without(used.high), multiples::bits_of_float(odd.key)))
        }
    };
    (used.width() <= most_bits).then_some((whole, odd, used))
}

struct Used<W> {
    low: W,
    high: W,
    shift: u32,
}

impl<W: Word> Used<W> {
    #[inline(always)]
    fn of(keys: &[W], (low, high): (W, W), sign: Option<u32>) -> Used<W> {
        let shift = if low == high { 0 } else { unused_bits(keys, sign) };
        Used { low, high, shift }
    }

    #[inline(always)]
    fn without(&self, key: W) -> W {
        W::truncate(Into::<u64>::into(key) >> self.shift)
    }

    #[inline(always)]
    fn ends(&self) -> (W, W) {
        (self.without(self.low), self.without(self.high))
    }

    #[inline(always)]
    fn width(&self) -> u32 {
        let (low, high) = self.ends();
        bits::width_of(high.into() - low.into())
    }
}

#[inline(always)]
fn unused_bits<W: Word>(keys: &[W], sign: Option<u32>) -> u32 {
    let mut used = W::default();
    for some in keys.chunks(8) {
        used = some.iter().fold(used, |used, key| match sign {
            Some(sign) => used.or(key.flipped_below(sign)),
            None => used.or(*key),
        });
        if Into::<u64>::into(used) & 1 == 1 {
            return 0;
        }
    }
    Into::<u64>::into(used).trailing_zeros().min(W::BITS - 1)
}

/// The minimum and maximum key; 0 and 0 if there are none.
#[inline(always)]
pub(crate) fn ends<W: Word>(keys: &[W]) -> (W, W) {
    let first = keys.first().copied().unwrap_or_default();
    keys.iter().fold((first, first), |(low, high), key| (low.min(*key), high.max(*key)))
}
