//! Chooses the smallest encoding for the keys of a page: a sample of the keys gives candidates, which are then measured
//! on all keys. Writers wait for this, so nothing is sorted.
//!
//! A frame of reference is the fastest to read, so another encoding must save a fraction of its bytes. If only
//! the size counts, the sample is all keys, and one saved bit is enough.

use kubist_types::Compression;

use super::{DICTIONARY, FRAME, TWO_FRAMES, ends};
use crate::bits::{self, Word};

const SAMPLED: usize = 128;
/// An encoding other than a frame must save 1/`WORTH` of the bytes.
const WORTH: usize = 32;
/// Pages with fewer rows use a frame.
pub(super) const LEAST_ROWS: usize = 16;

pub(super) type Ends<W> = (W, W);

#[derive(Debug, PartialEq)]
pub(super) enum Plan<W> {
    Frame(Ends<W>),
    /// Keys from this one on are in the second frame.
    Above(W, [Ends<W>; 2]),
    /// All other keys are in the second frame.
    Apart(W, [Ends<W>; 2]),
    /// All distinct keys, ascending, and one index per row.
    Dictionary(Vec<W>, Vec<W>),
}

enum Idea<W> {
    Above(W),
    Apart(W),
    Dictionary,
}

#[inline(always)]
pub(super) fn plan<W: Word>(keys: &[W], ends: Ends<W>, effort: Compression) -> Plan<W> {
    if effort == Compression::Fast || ends.0 == ends.1 || keys.len() < LEAST_ROWS {
        return Plan::Frame(ends);
    }
    let frame = frame_bits(ends, keys.len());
    let most_bits = if effort == Compression::Small { frame } else { frame - frame / WORTH };
    let picked;
    let sample = match effort == Compression::Small || keys.len() <= SAMPLED {
        true => keys,
        false => {
            picked = sampled(keys);
            &picked[..]
        }
    };
    let mut ideas = ideas(keys, sample, ends);
    ideas.sort_unstable_by_key(|(bits, _)| *bits);
    let worth_it = ideas.iter().take_while(|(bits, _)| *bits < most_bits).count();
    let ideas = &ideas[..worth_it];
    for (index, (_, idea)) in ideas.iter().enumerate() {
        // A dictionary is abandoned when it becomes larger than the next candidate.
        let next_bits = ideas.get(index + 1).map_or(most_bits, |(bits, _)| *bits);
        let (bits, plan) = match *idea {
            Idea::Above(border) => {
                let (bits, ends) = cut_in_two(keys, ends, border);
                (bits, Plan::Above(border, ends))
            }
            Idea::Apart(common) => {
                let (bits, ends) = two_frames(keys, common);
                (bits, Plan::Apart(common, ends))
            }
            Idea::Dictionary => match dictionary(keys, ends, next_bits) {
                Some(dictionary) => return dictionary,
                None => continue,
            },
        };
        if bits < most_bits {
            return plan;
        }
    }
    Plan::Frame(ends)
}

#[inline(always)]
fn ideas<W: Word>(keys: &[W], sample: &[W], ends: Ends<W>) -> [(usize, Idea<W>); 3] {
    let of_all = |bits: usize| bits * keys.len() / sample.len();
    let (bits, border) = border(sample, ends);
    let above = (2 * head_bits::<W>() + of_all(bits), Idea::Above(border));
    let counted = Counted::of(sample);
    // The additional bit per row must cost less than the frames save.
    let apart = match counted.times * width(ends) > sample.len() {
        true => {
            let common = counted.common(sample);
            let (bits, _) = two_frames(sample, common);
            (2 * head_bits::<W>() + of_all(bits - 2 * head_bits::<W>()), Idea::Apart(common))
        }
        false => (usize::MAX, Idea::Apart(ends.0)),
    };
    // The rate of new keys in the rest equals the fraction of the sample that occurred once.
    let more = counted.once * (keys.len() - sample.len()) / sample.len();
    let dictionary = (dictionary_bits(ends, counted.different + more, keys.len()), Idea::Dictionary);
    [above, apart, dictionary]
}

/// Pseudorandom 24-bit offsets from evenly spaced positions, because rows may repeat a pattern.
const WITHIN: [u32; SAMPLED] = {
    let mut within = [0; SAMPLED];
    let mut index = 0;
    while index < SAMPLED {
        within[index] = (index as u32).wrapping_mul(0x9e37_79b1) >> 8;
        index += 1;
    }
    within
};

#[inline(always)]
fn sampled<W: Word>(keys: &[W]) -> [W; SAMPLED] {
    let places = places(keys.len());
    // SAFETY: the assertion in the function that computes the positions keeps each below the number of keys.
    places.map(|place| unsafe { *keys.get_unchecked(place as usize) })
}

#[inline(always)]
fn places(rows: usize) -> [u32; SAMPLED] {
    // Nothing overflows, and no position reaches the next evenly spaced one.
    assert!((SAMPLED..1 << 15).contains(&rows), "a sample of a page of {rows} rows");
    let (rows, apart) = (rows as u32, (rows / SAMPLED) as u32);
    let mut places = [0; SAMPLED];
    for (index, (place, within)) in places.iter_mut().zip(WITHIN).enumerate() {
        *place = index as u32 * rows / SAMPLED as u32 + (within * apart >> 24);
    }
    places
}

#[inline(always)]
fn hashed<W: Word>(key: W, bits: u32) -> usize {
    // Keys of floats with integer values differ in their middle bits.
    let key: u64 = key.into();
    ((key ^ key >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as usize
}

/// Approximate frequencies of keys in a sample, where keys with the same hash count as one.
struct Counted {
    bits: u32,
    times: usize,
    different: usize,
    once: usize,
}

impl Counted {
    /// Hash bits for a sample with more than half of [`SAMPLED`] keys, the usual case.
    const USUAL_BITS: u32 = (4 * SAMPLED).trailing_zeros();

    #[inline(always)]
    fn of<W: Word>(sample: &[W]) -> Counted {
        let bits = 2 + sample.len().next_power_of_two().trailing_zeros();
        match bits {
            Self::USUAL_BITS => Self::by_hash(sample, Self::USUAL_BITS, &mut [0; 4 * SAMPLED]),
            _ => Self::by_hash(sample, bits, &mut vec![0; 1 << bits]),
        }
    }

    #[inline(always)]
    fn by_hash<W: Word>(sample: &[W], bits: u32, of_hash: &mut [u16]) -> Counted {
        let mut count = |key: &W| of_hash[hashed(*key, bits)] += 1;
        let (some, others) = sample.as_chunks::<4>();
        some.iter().for_each(|keys| keys.iter().for_each(&mut count));
        others.iter().for_each(&mut count);
        let (mut times, mut different, mut once) = (0, 0, 0);
        for count in of_hash.iter() {
            times = times.max(*count);
            different += (*count > 0) as u16;
            once += (*count == 1) as u16;
        }
        Counted { bits, times: times.into(), different: different.into(), once: once.into() }
    }

    fn common<W: Word>(&self, sample: &[W]) -> W {
        let mut of_hash = vec![0; 1 << self.bits];
        let mut is_common = |key: &&W| {
            let times = &mut of_hash[hashed(**key, self.bits)];
            *times += 1;
            *times == self.times
        };
        sample.iter().find(&mut is_common).copied().unwrap_or_default()
    }
}

/// Returns the best border between two frames of a sample, and its bits.
///
/// At the best border, the width of the first or second frame reaches a power of two. Otherwise the narrower frame
/// could contain more keys with the same bits.
#[inline(always)]
fn border<W: Word>(sample: &[W], ends: Ends<W>) -> (usize, W) {
    let (low, high): (u64, u64) = (ends.0.into(), ends.1.into());
    let (from_low, from_high) = (widths(sample, |key| key.minus(ends.0)), widths(sample, |key| ends.1.minus(key)));
    let whole = width(ends);
    let (count, mut below, mut beyond, mut second) = (sample.len(), 0, 0, whole);
    let mut best = (usize::MAX, high);
    for (first, more) in from_low.into_iter().rev().enumerate().take(whole) {
        // A wider first frame with the same keys is no better.
        if more == 0 && first > 0 {
            continue;
        }
        below += more as usize;
        while second > 0 {
            let more = beyond + from_high[64 - second] as usize;
            if more > below {
                break;
            }
            (beyond, second) = (more, second - 1);
        }
        let (bits, border) = match first < second {
            true => (below * first + (count - below) * second, low + (1 << first)),
            false => ((count - beyond) * second + beyond * first, high - ((1 << second) - 1)),
        };
        if bits < best.0 {
            best = (bits, border);
        }
    }
    (count + best.0, W::truncate(best.1))
}

#[inline(always)]
fn widths<W: Word>(sample: &[W], from_end: impl Fn(W) -> W) -> [u32; 65] {
    let mut counts = [0; 65];
    let mut count = |far: W| counts[Into::<u64>::into(far).leading_zeros() as usize] += 1;
    let (some, others) = sample.as_chunks::<8>();
    for keys in some {
        // All differences are computed first, so that the compiler can vectorise them.
        keys.map(&from_end).into_iter().for_each(&mut count);
    }
    others.iter().for_each(|key| count(from_end(*key)));
    counts
}

#[inline(always)]
fn dictionary<W: Word>(keys: &[W], ends: Ends<W>, most_bits: usize) -> Option<Plan<W>> {
    let hash_bits = bits::width_of(2 * keys.len() as u64 - 1);
    let mut numbers = vec![0u16; 1 << hash_bits];
    let (mut values, mut codes) = (Vec::<W>::with_capacity(64), Vec::<u16>::with_capacity(keys.len()));
    for key in keys {
        let mut place = hashed(*key, hash_bits);
        let code = loop {
            match numbers[place] {
                0 => {
                    values.push(*key);
                    let bits = dictionary_bits(ends, values.len(), keys.len());
                    if bits >= most_bits {
                        return None;
                    }
                    numbers[place] = values.len() as u16;
                    break numbers[place] - 1;
                }
                number if values[number as usize - 1] == *key => break number - 1,
                _ => place = (place + 1) & (numbers.len() - 1),
            }
        };
        codes.push(code);
    }
    let mut order: Vec<u16> = (0..values.len() as u16).collect();
    order.sort_unstable_by_key(|number| values[*number as usize]);
    let mut ranks = vec![W::default(); values.len()];
    for (rank, number) in order.iter().enumerate() {
        ranks[*number as usize] = W::truncate(rank as u64);
    }
    let codes = codes.iter().map(|code| ranks[*code as usize]).collect();
    Some(Plan::Dictionary(order.iter().map(|number| values[*number as usize]).collect(), codes))
}

fn dictionary_bits<W: Word>(ends: Ends<W>, values: usize, rows: usize) -> usize {
    16 + frame_bits(ends, values) + rows * bits::width_of(values as u64 - 1) as usize
}

fn width<W: Word>((min, max): Ends<W>) -> usize {
    bits::width_of(max.into() - min.into()) as usize
}

fn head_bits<W: Word>() -> usize {
    8 + W::BITS as usize
}

fn frame_bits<W: Word>(ends: Ends<W>, count: usize) -> usize {
    head_bits::<W>() + count * width(ends)
}

/// Divides the keys; the second frame has the keys from `border` on.
#[inline(always)]
fn cut_in_two<W: Word>(keys: &[W], (low, high): Ends<W>, border: W) -> (usize, [Ends<W>; 2]) {
    // Keys below the border wrap around to larger numbers.
    let (mut least, mut most, mut count) = (W::MAX, W::default(), 0u32);
    for key in keys {
        let above = key.minus(border);
        (least, most) = (least.min(above), most.max(above));
        count += (*key >= border) as u32;
    }
    let of_first = (low, most.plus(border.into()));
    bits_of_two(keys.len(), count as usize, [of_first, (least.plus(border.into()), high)])
}

#[inline(always)]
fn two_frames<W: Word>(keys: &[W], common: W) -> (usize, [Ends<W>; 2]) {
    let (mut lowest, mut highest, mut count) = (W::MAX, W::default(), 0u32);
    for key in keys {
        let is_second = *key != common;
        lowest = lowest.min(if is_second { *key } else { W::MAX });
        highest = highest.max(if is_second { *key } else { W::default() });
        count += is_second as u32;
    }
    bits_of_two(keys.len(), count as usize, [(common, common), (lowest, highest)])
}

fn bits_of_two<W: Word>(rows: usize, count: usize, ends: [Ends<W>; 2]) -> (usize, [Ends<W>; 2]) {
    let parts = [(ends[0], rows - count), (ends[1], count)].map(|(ends, count)| match count {
        0 => ((W::default(), W::default()), 0),
        _ => (ends, count),
    });
    let bits = rows + parts.iter().map(|(ends, count)| frame_bits(*ends, *count)).sum::<usize>();
    (bits, parts.map(|(ends, _)| ends))
}

impl<W: Word> Plan<W> {
    pub(super) fn number(&self) -> u8 {
        match self {
            Plan::Frame(_) => FRAME,
            Plan::Above(..) | Plan::Apart(..) => TWO_FRAMES,
            Plan::Dictionary(..) => DICTIONARY,
        }
    }

    #[inline(always)]
    pub(super) fn put(&self, keys: &[W], out: &mut Vec<u8>) {
        match self {
            Plan::Frame(ends) => put_frame(keys, *ends, out),
            Plan::Above(border, ends) => {
                ends.iter().for_each(|ends| put_head(*ends, out));
                let mut parts = two_parts(keys.len());
                if !W::split_fast(keys, *border, out, &mut parts) {
                    split(keys, |key| key >= *border, out, &mut parts);
                }
                put_parts(&parts, *ends, out);
            }
            Plan::Apart(value, ends) => {
                ends.iter().for_each(|ends| put_head(*ends, out));
                let mut parts = two_parts(keys.len());
                split(keys, |key| key != *value, out, &mut parts);
                put_parts(&parts, *ends, out);
            }
            Plan::Dictionary(values, codes) => {
                out.extend_from_slice(&(values.len() as u16).to_le_bytes());
                put_frame(values, ends(values), out);
                bits::pack(codes, W::default(), bits::width_of(values.len() as u64 - 1), out);
            }
        }
    }
}

fn put_head<W: Word>(ends: Ends<W>, out: &mut Vec<u8>) {
    let base: u64 = ends.0.into();
    out.push(width(ends) as u8);
    out.extend_from_slice(&base.to_le_bytes()[..W::BITS as usize / 8]);
}

fn put_frame<W: Word>(keys: &[W], ends: Ends<W>, out: &mut Vec<u8>) {
    put_head(ends, out);
    bits::pack(keys, ends.0, width(ends) as u32, out);
}

fn two_parts<W: Word>(rows: usize) -> [Vec<W>; 2] {
    [Vec::with_capacity(rows + 8), Vec::with_capacity(rows + 8)]
}

#[inline(always)]
fn split<W: Word>(keys: &[W], is_second: impl Fn(W) -> bool, which: &mut Vec<u8>, parts: &mut [Vec<W>; 2]) {
    for some in keys.chunks(8) {
        which.push(some.iter().rev().fold(0, |byte, key| byte << 1 | is_second(*key) as u8));
        some.iter().for_each(|key| parts[is_second(*key) as usize].push(*key));
    }
}

fn put_parts<W: Word>(parts: &[Vec<W>; 2], ends: [Ends<W>; 2], out: &mut Vec<u8>) {
    for (values, ends) in parts.iter().zip(ends) {
        bits::pack(values, ends.0, width(ends) as u32, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_whole_products() {
        for rows in SAMPLED as u32..1 << 15 {
            let exact = (0..SAMPLED as u32).map(|index| {
                let within = u64::from(index.wrapping_mul(0x9e37_79b1)) * u64::from(rows / SAMPLED as u32) >> 32;
                index * rows / SAMPLED as u32 + within as u32
            });
            let places = places(rows as usize);
            assert!(places.iter().copied().eq(exact), "{rows}");
            assert!(places.is_sorted() && places[SAMPLED - 1] < rows, "{rows}");
        }
    }
}
