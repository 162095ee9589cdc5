//! Which encoding the keys of a page get: the one of the fewest bytes, judged by a sample of
//! them, then counted over all.
//!
//! A frame of reference is read fastest. Another encoding has to save a share of its bytes
//! that pays for reading it, unless fewer bytes are all that counts: then all keys are looked
//! at, and one bit saved is enough.

use kubist_types::Compression;

use super::{DICTIONARY, FRAME, RUNS, TWO_FRAMES};
use crate::bits::{self, Word};
use crate::rows::put_bitmap;

/// Keys that are looked at before all are.
const SAMPLED: usize = 256;
/// An encoding other than a frame has to save one byte in so many.
const WORTH: usize = 32;
/// Pages of fewer rows are a frame.
const LEAST_ROWS: usize = 16;
/// A value of its own has one row in so many, at least.
const COMMON: usize = 12;

/// What is to be done with the keys of a page.
#[derive(Debug, PartialEq)]
pub(super) enum Plan<W> {
    Frame,
    /// Keys from this one on are of the second frame.
    Above(W),
    /// All other keys are of the second frame.
    Apart(W),
    /// All different keys, ascending.
    Dictionary(Vec<W>),
    /// How many runs of equal keys there are.
    Runs(usize),
}

pub(super) fn plan<W: Word>(keys: &[W], effort: Compression) -> Plan<W> {
    let Some((min, max)) = ends(keys.iter().copied()) else { return Plan::Frame };
    let frame = frame_bits::<W>(min, max, keys.len());
    let thorough = effort == Compression::Small;
    if effort == Compression::Fast || min == max || keys.len() < LEAST_ROWS {
        return Plan::Frame;
    }
    let sample = sampled(keys, if thorough { keys.len() } else { SAMPLED });
    let mut best = (if thorough { frame } else { frame - frame / WORTH }, Plan::Frame);
    let mut offer = |bits: usize, plan: Plan<W>| {
        if bits < best.0 {
            best = (bits, plan);
        }
    };
    let (common, times) = most_common(&sample);
    if thorough || times * COMMON >= sample.len() {
        offer(two_frames(keys, |key| key != common), Plan::Apart(common));
    }
    if let Some(border) = border(&sample, min, max) {
        offer(two_frames(keys, |key| key >= border), Plan::Above(border));
    }
    let different = 1 + sample.windows(2).filter(|both| both[0] != both[1]).count();
    if thorough || different * 2 <= sample.len() {
        let runs = 1 + keys.windows(2).filter(|both| both[0] != both[1]).count();
        let of_run = width(min, max) + bits::width_of(keys.len() as u64) as usize;
        offer(16 + head_bits::<W>() + runs * of_run, Plan::Runs(runs));
        let mut values = keys.to_vec();
        values.sort_unstable();
        values.dedup();
        let code = bits::width_of(values.len() as u64 - 1) as usize;
        let of_values = frame_bits::<W>(min, max, values.len());
        offer(16 + of_values + keys.len() * code, Plan::Dictionary(values));
    }
    best.1
}

/// At most so many of the keys, from all over the page, sorted.
fn sampled<W: Word>(keys: &[W], most: usize) -> Vec<W> {
    let count = keys.len().min(most);
    // Not at equal distances: rows may repeat a pattern.
    let apart = keys.len() / count.max(1);
    let place = |index: usize| index * keys.len() / count + index.wrapping_mul(0x9e37_79b1) / 64 % apart;
    let mut sample: Vec<W> = (0..count).map(|index| keys[place(index)]).collect();
    sample.sort_unstable();
    sample
}

/// The key that stands most often in a sorted sample, and how often.
fn most_common<W: Word>(sample: &[W]) -> (W, usize) {
    let runs = sample.chunk_by(|a, b| a == b).map(|run| (run[0], run.len()));
    runs.max_by_key(|(_, times)| *times).unwrap_or_default()
}

/// Where a sample is best cut in two, if it is worth it.
fn border<W: Word>(sample: &[W], min: W, max: W) -> Option<W> {
    let count = sample.len();
    let whole = count * width(min, max);
    let places = (1..count).filter(|place| sample[place - 1] != sample[*place]);
    let bits = |place: usize| place * width(min, sample[place - 1]) + (count - place) * width(sample[place], max);
    let (bits, place) = places.map(|place| (bits(place), place)).min()?;
    (bits + count < whole).then(|| sample[place])
}

fn ends<W: Word>(keys: impl Iterator<Item = W>) -> Option<(W, W)> {
    keys.fold(None, |ends, key| Some(ends.map_or((key, key), |(min, max): (W, W)| (min.min(key), max.max(key)))))
}

/// Bits of a difference between keys.
fn width<W: Word>(min: W, max: W) -> usize {
    bits::width_of(max.into() - min.into()) as usize
}

/// Bits of what stands before the values of a frame.
fn head_bits<W: Word>() -> usize {
    8 + W::BITS as usize
}

fn frame_bits<W: Word>(min: W, max: W, count: usize) -> usize {
    head_bits::<W>() + count * width(min, max)
}

fn two_frames<W: Word>(keys: &[W], is_second: impl Fn(W) -> bool) -> usize {
    let mut parts = [(W::MAX, W::default(), 0usize); 2];
    for key in keys {
        let (min, max, count) = &mut parts[is_second(*key) as usize];
        (*min, *max, *count) = ((*min).min(*key), (*max).max(*key), *count + 1);
    }
    let of_part = |(min, max, count): (W, W, usize)| match count {
        0 => head_bits::<W>(),
        _ => frame_bits::<W>(min, max, count),
    };
    keys.len() + parts.into_iter().map(of_part).sum::<usize>()
}

impl<W: Word> Plan<W> {
    pub(super) fn number(&self) -> u8 {
        match self {
            Plan::Frame => FRAME,
            Plan::Above(_) | Plan::Apart(_) => TWO_FRAMES,
            Plan::Dictionary(_) => DICTIONARY,
            Plan::Runs(_) => RUNS,
        }
    }

    /// Appends the keys by which it was made.
    pub(super) fn put(&self, keys: &[W], out: &mut Vec<u8>) {
        match self {
            Plan::Frame => put_frame(keys, out),
            Plan::Above(border) => put_two_frames(keys, |key| key >= *border, out),
            Plan::Apart(value) => put_two_frames(keys, |key| key != *value, out),
            Plan::Dictionary(values) => {
                out.extend_from_slice(&(values.len() as u16).to_le_bytes());
                put_frame(values, out);
                let code = |key: &W| W::truncate(values.binary_search(key).unwrap_or(0) as u64);
                let codes: Vec<W> = keys.iter().map(code).collect();
                bits::pack(&codes, W::default(), bits::width_of(values.len() as u64 - 1), out);
            }
            Plan::Runs(count) => {
                let (mut values, mut ends) = (Vec::with_capacity(*count), Vec::with_capacity(*count));
                for run in keys.chunk_by(|a, b| a == b) {
                    values.push(run[0]);
                    ends.push(ends.last().copied().unwrap_or(0) + run.len() as u32);
                }
                out.extend_from_slice(&(values.len() as u16).to_le_bytes());
                put_frame(&values, out);
                bits::pack(&ends, 0, bits::width_of(keys.len() as u64), out);
            }
        }
    }
}

/// The head of a frame; what it is then.
fn put_head<W: Word>(keys: &[W], out: &mut Vec<u8>) -> (W, u32) {
    let (min, max) = ends(keys.iter().copied()).unwrap_or_default();
    let base: u64 = min.into();
    out.push(width(min, max) as u8);
    out.extend_from_slice(&base.to_le_bytes()[..W::BITS as usize / 8]);
    (min, width(min, max) as u32)
}

fn put_frame<W: Word>(keys: &[W], out: &mut Vec<u8>) {
    let (base, width) = put_head(keys, out);
    bits::pack(keys, base, width, out);
}

fn put_two_frames<W: Word>(keys: &[W], is_second: impl Fn(W) -> bool, out: &mut Vec<u8>) {
    let (second, first): (Vec<W>, Vec<W>) = keys.iter().partition(|key| is_second(**key));
    let heads = (put_head(&first, out), put_head(&second, out));
    put_bitmap(keys.iter().map(|key| is_second(*key)), out);
    for (values, (base, width)) in [(first, heads.0), (second, heads.1)] {
        bits::pack(&values, base, width, out);
    }
}
