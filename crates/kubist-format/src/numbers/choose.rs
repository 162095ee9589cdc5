//! Which encoding the keys of a page get: the one of the fewest bytes, proposed by a sample of
//! them, then counted over all.
//!
//! A frame of reference is read fastest. Another encoding has to save a share of its bytes
//! that pays for reading it, unless fewer bytes are all that counts: then all keys are the
//! sample, and one bit saved is enough.
//!
//! Writers wait for this, so nothing is sorted: keys are counted by their distance from both
//! ends in bits, and by a hash. What is chosen follows from the keys of the page alone.

use kubist_types::Compression;

use super::{DICTIONARY, FRAME, RUNS, TWO_FRAMES};
use crate::bits::{self, Word};

/// Keys that are looked at before all are.
const SAMPLED: usize = 128;
/// An encoding other than a frame has to save one byte in so many.
const WORTH: usize = 32;
/// Pages of fewer rows are a frame.
const LEAST_ROWS: usize = 16;

/// The smallest and the largest of some keys.
pub(super) type Ends<W> = (W, W);

/// What is to be done with the keys of a page.
#[derive(Debug, PartialEq)]
pub(super) enum Plan<W> {
    Frame(Ends<W>),
    /// Keys from this one on are of the second frame; the ends of both.
    Above(W, [Ends<W>; 2]),
    /// All other keys are of the second frame; the ends of both.
    Apart(W, [Ends<W>; 2]),
    /// All different keys, ascending, and the number of each row's.
    Dictionary(Vec<W>, Vec<W>),
    /// How many runs of equal keys there are.
    Runs(usize),
}

/// What may be worth it, before all keys are counted.
enum Idea<W> {
    Above(W),
    Apart(W),
    Dictionary,
    Runs(usize),
}

/// `ends` are those of the keys.
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
    ideas.retain(|(bits, _)| *bits < most_bits);
    ideas.sort_by_key(|(bits, _)| *bits);
    for (index, (_, idea)) in ideas.iter().enumerate() {
        // A dictionary that grows beyond what comes next is given up.
        let next_bits = ideas.get(index + 1).map_or(most_bits, |(bits, _)| *bits);
        let (bits, plan) = match *idea {
            Idea::Above(border) => {
                let (bits, ends) = two_frames(keys, |key| key >= border);
                (bits, Plan::Above(border, ends))
            }
            Idea::Apart(common) => {
                let (bits, ends) = two_frames(keys, |key| key != common);
                (bits, Plan::Apart(common, ends))
            }
            Idea::Runs(runs) => (runs_bits(ends, runs, keys.len()), Plan::Runs(runs)),
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

/// What the keys of a page may be, and in about how many bits, judged by a sample of them.
#[inline(always)]
fn ideas<W: Word>(keys: &[W], sample: &[W], ends: Ends<W>) -> Vec<(usize, Idea<W>)> {
    let of_all = |bits: usize| bits * keys.len() / sample.len();
    let mut ideas = Vec::with_capacity(4);
    let (bits, border) = border(sample, ends);
    ideas.push((2 * head_bits::<W>() + of_all(bits), Idea::Above(border)));
    let counted = Counted::of(sample);
    // A bit for each row has to be less than the bits of those rows.
    if counted.times * width(ends) > sample.len() {
        let (bits, _) = two_frames(sample, |key| key != counted.common);
        ideas.push((2 * head_bits::<W>() + of_all(bits - 2 * head_bits::<W>()), Idea::Apart(counted.common)));
    }
    // As many keys of the others are new as keys of the sample were met once.
    let more = counted.once * (keys.len() - sample.len()) / sample.len();
    ideas.push((dictionary_bits(ends, counted.different + more, keys.len()), Idea::Dictionary));
    let runs = 1 + keys.iter().zip(&keys[1..]).map(|(key, next)| (key != next) as u32).sum::<u32>() as usize;
    ideas.push((runs_bits(ends, runs, keys.len()), Idea::Runs(runs)));
    ideas
}

/// Some of the keys, from all over the page.
#[inline(always)]
fn sampled<W: Word>(keys: &[W]) -> [W; SAMPLED] {
    // Not at equal distances: rows may repeat a pattern.
    let apart = keys.len() / SAMPLED;
    let within = |index: usize| (((index as u32).wrapping_mul(0x9e37_79b1) as u64 * apart as u64) >> 32) as usize;
    std::array::from_fn(|index| keys[index * keys.len() / SAMPLED + within(index)])
}

/// A place in a table of 2^`bits` places, for any key.
#[inline(always)]
fn hashed<W: Word>(key: W, bits: u32) -> usize {
    // Keys of floats that were whole numbers differ in their middle bits.
    let key: u64 = key.into();
    ((key ^ key >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as usize
}

/// How often keys stand in a sample, about: keys of one hash are taken for one.
struct Counted<W> {
    /// The key that stands most often, and how often.
    common: W,
    times: usize,
    different: usize,
    once: usize,
}

impl<W: Word> Counted<W> {
    #[inline(always)]
    fn of(sample: &[W]) -> Counted<W> {
        let bits = bits::width_of(4 * sample.len() as u64 - 1);
        let mut times = vec![0u16; 1 << bits];
        let mut counted = Counted { common: W::default(), times: 0, different: 0, once: 0 };
        let mut again = 0;
        for key in sample {
            let here = &mut times[hashed(*key, bits)];
            *here += 1;
            counted.different += (*here == 1) as usize;
            again += (*here == 2) as usize;
            if *here as usize > counted.times {
                (counted.common, counted.times) = (*key, *here as usize);
            }
        }
        counted.once = counted.different - again;
        counted
    }
}

/// Where a sample is best cut in two, and the bits that it takes then.
///
/// The best cut is where the keys of the first frame reach a power of two from the smallest, or
/// those of the second from the largest: otherwise the frame of fewer bits could have more of them.
#[inline(always)]
fn border<W: Word>(sample: &[W], ends: Ends<W>) -> (usize, W) {
    let (low, high): (u64, u64) = (ends.0.into(), ends.1.into());
    // How many keys are so many bits from the smallest, and from the largest.
    let (mut from_low, mut from_high) = ([0u32; 65], [0u32; 65]);
    for key in sample {
        let key: u64 = (*key).into();
        from_low[bits::width_of(key - low) as usize] += 1;
        from_high[bits::width_of(high - key) as usize] += 1;
    }
    let whole = width(ends);
    let (count, mut below, mut above, mut second) = (sample.len(), 0, sample.len(), whole);
    let mut best = (usize::MAX, high);
    for (first, more) in from_low.into_iter().enumerate().take(whole) {
        below += more as usize;
        // The narrowest second frame that has all the others.
        while second > 0 && above - from_high[second] as usize + below >= count {
            above -= from_high[second] as usize;
            second -= 1;
        }
        let (bits, border) = match first < second {
            true => (below * first + (count - below) * second, low + (1 << first)),
            false => (above * second + (count - above) * first, high - ((1 << second) - 1)),
        };
        if bits < best.0 {
            best = (bits, border);
        }
    }
    (count + best.0, W::truncate(best.1))
}

/// The dictionary of keys, if they take fewer bits so.
#[inline(always)]
fn dictionary<W: Word>(keys: &[W], ends: Ends<W>, most_bits: usize) -> Option<Plan<W>> {
    // One more than the number of a value by the place of its hash, or the next that is free.
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

fn runs_bits<W: Word>(ends: Ends<W>, runs: usize, rows: usize) -> usize {
    16 + head_bits::<W>() + runs * (width(ends) + bits::width_of(rows as u64) as usize)
}

fn dictionary_bits<W: Word>(ends: Ends<W>, values: usize, rows: usize) -> usize {
    16 + frame_bits(ends, values) + rows * bits::width_of(values as u64 - 1) as usize
}

#[inline(always)]
pub(super) fn ends<W: Word>(keys: &[W]) -> Ends<W> {
    keys.iter().fold((W::MAX, W::default()), |(min, max), key| (min.min(*key), max.max(*key)))
}

/// Bits of a difference between keys.
fn width<W: Word>((min, max): Ends<W>) -> usize {
    bits::width_of(max.into() - min.into()) as usize
}

/// Bits of what stands before the values of a frame.
fn head_bits<W: Word>() -> usize {
    8 + W::BITS as usize
}

fn frame_bits<W: Word>(ends: Ends<W>, count: usize) -> usize {
    head_bits::<W>() + count * width(ends)
}

/// The bits of two frames, and the ends of both.
#[inline(always)]
fn two_frames<W: Word>(keys: &[W], is_second: impl Fn(W) -> bool) -> (usize, [Ends<W>; 2]) {
    let (mut first, mut second, mut count) = ((W::MAX, W::default()), (W::MAX, W::default()), 0);
    for key in keys {
        let is_second = is_second(*key);
        // A key of the other frame changes no end.
        let (of_first, of_second) =
            if is_second { ((W::MAX, W::default()), (*key, *key)) } else { ((*key, *key), (W::MAX, W::default())) };
        first = (first.0.min(of_first.0), first.1.max(of_first.1));
        second = (second.0.min(of_second.0), second.1.max(of_second.1));
        count += is_second as usize;
    }
    let parts = [(first, keys.len() - count), (second, count)].map(|(ends, count)| match count {
        0 => ((W::default(), W::default()), 0),
        _ => (ends, count),
    });
    let bits = keys.len() + parts.iter().map(|(ends, count)| frame_bits(*ends, *count)).sum::<usize>();
    (bits, parts.map(|(ends, _)| ends))
}

impl<W: Word> Plan<W> {
    pub(super) fn number(&self) -> u8 {
        match self {
            Plan::Frame(_) => FRAME,
            Plan::Above(..) | Plan::Apart(..) => TWO_FRAMES,
            Plan::Dictionary(..) => DICTIONARY,
            Plan::Runs(_) => RUNS,
        }
    }

    /// Appends the keys by which it was made.
    #[inline(always)]
    pub(super) fn put(&self, keys: &[W], out: &mut Vec<u8>) {
        match self {
            Plan::Frame(ends) => put_frame(keys, *ends, out),
            Plan::Above(border, ends) => put_two_frames(keys, |key| key >= *border, *ends, out),
            Plan::Apart(value, ends) => put_two_frames(keys, |key| key != *value, *ends, out),
            Plan::Dictionary(values, codes) => {
                out.extend_from_slice(&(values.len() as u16).to_le_bytes());
                put_frame(values, ends(values), out);
                bits::pack(codes, W::default(), bits::width_of(values.len() as u64 - 1), out);
            }
            Plan::Runs(count) => {
                let (mut values, mut behind) = (Vec::with_capacity(*count), Vec::with_capacity(*count));
                for run in keys.chunk_by(|a, b| a == b) {
                    values.push(run[0]);
                    behind.push(behind.last().copied().unwrap_or(0) + run.len() as u32);
                }
                out.extend_from_slice(&(values.len() as u16).to_le_bytes());
                put_frame(&values, ends(&values), out);
                bits::pack(&behind, 0, bits::width_of(keys.len() as u64), out);
            }
        }
    }
}

/// The head of a frame.
fn put_head<W: Word>(ends: Ends<W>, out: &mut Vec<u8>) {
    let base: u64 = ends.0.into();
    out.push(width(ends) as u8);
    out.extend_from_slice(&base.to_le_bytes()[..W::BITS as usize / 8]);
}

fn put_frame<W: Word>(keys: &[W], ends: Ends<W>, out: &mut Vec<u8>) {
    put_head(ends, out);
    bits::pack(keys, ends.0, width(ends) as u32, out);
}

#[inline(always)]
fn put_two_frames<W: Word>(keys: &[W], is_second: impl Fn(W) -> bool, ends: [Ends<W>; 2], out: &mut Vec<u8>) {
    ends.iter().for_each(|ends| put_head(*ends, out));
    // Each key is written to both, and stays where its place is counted.
    let mut parts = [vec![W::default(); keys.len() + 1], vec![W::default(); keys.len() + 1]];
    let mut counts = [0; 2];
    let [first, second] = &mut parts;
    for some in keys.chunks(8) {
        let mut byte = 0;
        for (bit, key) in some.iter().enumerate() {
            let is_second = is_second(*key);
            byte |= (is_second as u8) << bit;
            (first[counts[0]], second[counts[1]]) = (*key, *key);
            counts[0] += !is_second as usize;
            counts[1] += is_second as usize;
        }
        out.push(byte);
    }
    for ((values, count), ends) in parts.iter().zip(counts).zip(ends) {
        bits::pack(&values[..count], ends.0, width(ends) as u32, out);
    }
}
