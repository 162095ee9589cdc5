//! Unpacking and merging with AVX2. To unpack, a shuffle moves the bytes of each value to a separate lane, and each
//! lane is shifted. To merge, one permutation per bitmap byte moves the next values of two streams to their rows.

use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// Values of up to this many bits are within four bytes at any bit offset.
const NARROW: u32 = 25;
/// Values of up to this many bits are within eight bytes at any bit offset.
const WIDE: u32 = 57;

/// Whether the processor has the instructions that `vectorised!` uses.
pub fn is_there() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("popcnt")
}

/// Fills `out`, eight values per block; `bytes` must continue for 16 bytes after the blocks.
pub fn unpack_u32(bytes: &[u8], width: u32, base: u32, out: &mut [MaybeUninit<u32>]) -> bool {
    if !is_x86_feature_detected!("avx2") {
        return false;
    }
    check(bytes, width, out.len());
    // SAFETY: AVX2 is available, and the bytes reach as far as `check` demands.
    unsafe {
        match width {
            ..=NARROW => narrow(bytes, width, base, out),
            _ => wide::<u32>(bytes, width, base as u64, out),
        }
    }
    true
}

/// Fills `out` with wider words; false for widths that do not fit in eight bytes.
pub fn unpack_u64(bytes: &[u8], width: u32, base: u64, out: &mut [MaybeUninit<u64>]) -> bool {
    if width > WIDE || !is_x86_feature_detected!("avx2") {
        return false;
    }
    check(bytes, width, out.len());
    // SAFETY: the same as above.
    unsafe { wide::<u64>(bytes, width, base, out) };
    true
}

fn check(bytes: &[u8], width: u32, count: usize) {
    let needed = count / 8 * width as usize + crate::bits::REACH;
    assert!(count % 8 == 0 && bytes.len() >= needed, "{count} values of {width} bits in {} bytes", bytes.len());
}

/// Per half block: the first byte of its load, the lane of each byte, and the bits below each value.
struct Narrow {
    starts: [usize; 2],
    shuffle: [u8; 32],
    shifts: [u32; 8],
}

struct Wide {
    starts: [usize; 4],
    shuffles: [[u8; 32]; 2],
    shifts: [[u64; 4]; 2],
}

static NARROW_LANES: [Narrow; NARROW as usize + 1] = narrow_lanes();
static WIDE_LANES: [Wide; WIDE as usize + 1] = wide_lanes();

const fn narrow_lanes() -> [Narrow; NARROW as usize + 1] {
    let mut lanes = [const { Narrow { starts: [0; 2], shuffle: [0; 32], shifts: [0; 8] } }; NARROW as usize + 1];
    let mut width = 1;
    while width < lanes.len() {
        let of_width = &mut lanes[width];
        let mut value = 0;
        while value < 8 {
            let start = value / 4 * 4 * width / 8;
            of_width.starts[value / 4] = start;
            let bit = value * width - start * 8;
            let mut byte = 0;
            while byte < 4 {
                of_width.shuffle[value * 4 + byte] = (bit / 8 + byte) as u8;
                byte += 1;
            }
            of_width.shifts[value] = (bit % 8) as u32;
            value += 1;
        }
        width += 1;
    }
    lanes
}

const fn wide_lanes() -> [Wide; WIDE as usize + 1] {
    let mut lanes = [const { Wide { starts: [0; 4], shuffles: [[0; 32]; 2], shifts: [[0; 4]; 2] } }; WIDE as usize + 1];
    let mut width = 1;
    while width < lanes.len() {
        let of_width = &mut lanes[width];
        let mut value = 0;
        while value < 8 {
            let start = value / 2 * 2 * width / 8;
            of_width.starts[value / 2] = start;
            let bit = value * width - start * 8;
            let mut byte = 0;
            while byte < 8 {
                of_width.shuffles[value / 4][value % 4 * 8 + byte] = (bit / 8 + byte) as u8;
                byte += 1;
            }
            of_width.shifts[value / 4][value % 4] = (bit % 8) as u64;
            value += 1;
        }
        width += 1;
    }
    lanes
}

#[target_feature(enable = "avx2")]
unsafe fn narrow(bytes: &[u8], width: u32, base: u32, out: &mut [MaybeUninit<u32>]) {
    let Narrow { starts, shuffle, shifts } = &NARROW_LANES[width as usize];
    // SAFETY: the caller's `check`; loads and stores are unaligned.
    unsafe {
        let shuffle = _mm256_loadu_si256(shuffle.as_ptr().cast());
        let shifts = _mm256_loadu_si256(shifts.as_ptr().cast());
        let mask = _mm256_set1_epi32((u32::MAX >> (32 - width)) as i32);
        let base = _mm256_set1_epi32(base as i32);
        let mut source = bytes.as_ptr();
        for target in out.as_chunks_mut::<8>().0 {
            let both = _mm256_set_m128i(_mm_loadu_si128(source.add(starts[1]).cast()), _mm_loadu_si128(source.cast()));
            let values = _mm256_srlv_epi32(_mm256_shuffle_epi8(both, shuffle), shifts);
            let values = _mm256_add_epi32(_mm256_and_si256(values, mask), base);
            _mm256_storeu_si256(target.as_mut_ptr().cast(), values);
            source = source.add(width as usize);
        }
    }
}

#[target_feature(enable = "avx2")]
unsafe fn wide<W>(bytes: &[u8], width: u32, base: u64, out: &mut [MaybeUninit<W>]) {
    let Wide { starts, shuffles, shifts } = &WIDE_LANES[width as usize];
    // SAFETY: the caller's `check`; loads and stores are unaligned.
    unsafe {
        let of_half = |half: usize| {
            let (shuffle, shifts) = (shuffles[half].as_ptr().cast(), shifts[half].as_ptr().cast());
            (_mm256_loadu_si256(shuffle), _mm256_loadu_si256(shifts))
        };
        let ((first_shuffle, first_shifts), (last_shuffle, last_shifts)) = (of_half(0), of_half(1));
        let mask = _mm256_set1_epi64x((u64::MAX >> (64 - width)) as i64);
        let base = _mm256_set1_epi64x(base as i64);
        let mut source = bytes.as_ptr();
        for target in out.as_chunks_mut::<8>().0 {
            let load = |pair: usize| _mm_loadu_si128(source.add(starts[pair]).cast());
            let first = _mm256_shuffle_epi8(_mm256_set_m128i(load(1), load(0)), first_shuffle);
            let last = _mm256_shuffle_epi8(_mm256_set_m128i(load(3), load(2)), last_shuffle);
            let first = _mm256_add_epi64(_mm256_and_si256(_mm256_srlv_epi64(first, first_shifts), mask), base);
            let last = _mm256_add_epi64(_mm256_and_si256(_mm256_srlv_epi64(last, last_shifts), mask), base);
            let into: *mut __m256i = target.as_mut_ptr().cast();
            if size_of::<W>() == 8 {
                _mm256_storeu_si256(into, first);
                _mm256_storeu_si256(into.add(1), last);
            } else {
                let (first, last) = (_mm256_castsi256_ps(first), _mm256_castsi256_ps(last));
                let mixed = _mm256_castps_si256(_mm256_shuffle_ps::<0x88>(first, last));
                _mm256_storeu_si256(into, _mm256_permute4x64_epi64::<0xd8>(mixed));
            }
            source = source.add(width as usize);
        }
    }
}

pub fn look_up_u32(values: &[u32], codes: &mut [u32]) -> bool {
    if values.len() > 8 || !values.len().is_power_of_two() || !is_x86_feature_detected!("avx2") {
        return false;
    }
    // SAFETY: AVX2 is available.
    unsafe { look_up(&std::array::from_fn(|index| values[index % values.len()]), codes) };
    true
}

#[target_feature(enable = "avx2")]
unsafe fn look_up(values: &[u32; 8], codes: &mut [u32]) {
    let (blocks, rest) = codes.as_chunks_mut::<8>();
    rest.iter_mut().for_each(|code| *code = values[*code as usize % 8]);
    // SAFETY: unaligned loads and stores of whole blocks.
    unsafe {
        let values = _mm256_loadu_si256(values.as_ptr().cast());
        for block in blocks {
            let codes = _mm256_loadu_si256(block.as_ptr().cast());
            _mm256_storeu_si256(block.as_mut_ptr().cast(), _mm256_permutevar8x32_epi32(values, codes));
        }
    }
}

/// Per byte and bit: the number of lower bits with the same value.
static RANKS: [[u8; 8]; 256] = ranks();

const fn ranks() -> [[u8; 8]; 256] {
    let mut ranks = [[0; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut bit, mut counts) = (0, [0u8; 2]);
        while bit < 8 {
            let which = byte >> bit & 1;
            ranks[byte][bit] = counts[which];
            counts[which] += 1;
            bit += 1;
        }
        byte += 1;
    }
    ranks
}

pub fn merge_u32(which: &[u8], values: &[u32], from: [usize; 2], out: &mut Vec<u32>) -> Option<usize> {
    if !is_there() {
        return None;
    }
    let ones = check_merge(which, values.len(), from);
    out.reserve(which.len() * 8);
    // SAFETY: the instructions are available, the values reach as far as `check_merge` demands, and `out` has
    // capacity.
    unsafe { merge_narrow(which, values, from, out) };
    Some(ones)
}

pub fn merge_u64(which: &[u8], values: &[u64], from: [usize; 2], out: &mut Vec<u64>) -> Option<usize> {
    if !is_there() {
        return None;
    }
    let ones = check_merge(which, values.len(), from);
    out.reserve(which.len() * 8);
    // SAFETY: the same as above.
    unsafe { merge_wide(which, values, from, out) };
    Some(ones)
}

fn check_merge(which: &[u8], values: usize, [of_zeros, of_ones]: [usize; 2]) -> usize {
    let ones = crate::bits::ones(which, 0..which.len() * 8);
    let ends = [of_zeros + which.len() * 8 - ones, of_ones + ones];
    assert!(ends.iter().all(|end| end + 8 <= values), "{ends:?} of {values} values");
    ones
}

#[target_feature(enable = "avx2,popcnt")]
unsafe fn merge_narrow(which: &[u8], values: &[u32], from: [usize; 2], out: &mut Vec<u32>) {
    // SAFETY: the caller's check; loads and stores are unaligned.
    unsafe {
        let (mut zeros, mut ones) = (values.as_ptr().add(from[0]), values.as_ptr().add(from[1]));
        let mut target = out.as_mut_ptr().add(out.len());
        let bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
        for byte in which {
            let ranks = _mm256_cvtepu8_epi32(_mm_loadl_epi64(RANKS[*byte as usize].as_ptr().cast()));
            let zero = _mm256_permutevar8x32_epi32(_mm256_loadu_si256(zeros.cast()), ranks);
            let one = _mm256_permutevar8x32_epi32(_mm256_loadu_si256(ones.cast()), ranks);
            let is_one = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(*byte as i32), bits), bits);
            _mm256_storeu_si256(target.cast(), _mm256_blendv_epi8(zero, one, is_one));
            let count = byte.count_ones() as usize;
            (zeros, ones, target) = (zeros.add(8 - count), ones.add(count), target.add(8));
        }
        out.set_len(out.len() + which.len() * 8);
    }
}

#[target_feature(enable = "avx2,popcnt")]
unsafe fn merge_wide(which: &[u8], values: &[u64], from: [usize; 2], out: &mut Vec<u64>) {
    // SAFETY: the caller's check; loads and stores are unaligned. Four bits are processed at a time, and only
    // their ranks of a byte are used.
    unsafe {
        let (mut zeros, mut ones) = (values.as_ptr().add(from[0]), values.as_ptr().add(from[1]));
        let mut target = out.as_mut_ptr().add(out.len());
        let bits = _mm256_setr_epi64x(1, 2, 4, 8);
        for half in which.iter().flat_map(|byte| [byte & 15, byte >> 4]) {
            let ranks = _mm256_cvtepu8_epi64(_mm_cvtsi32_si128(i32::from_le_bytes([
                RANKS[half as usize][0],
                RANKS[half as usize][1],
                RANKS[half as usize][2],
                RANKS[half as usize][3],
            ])));
            let twice = _mm256_slli_epi64(ranks, 1);
            let high = _mm256_slli_epi64(_mm256_add_epi64(twice, _mm256_set1_epi64x(1)), 32);
            let lanes = _mm256_or_si256(twice, high);
            let zero = _mm256_permutevar8x32_epi32(_mm256_loadu_si256(zeros.cast()), lanes);
            let one = _mm256_permutevar8x32_epi32(_mm256_loadu_si256(ones.cast()), lanes);
            let is_one = _mm256_cmpeq_epi64(_mm256_and_si256(_mm256_set1_epi64x(half as i64), bits), bits);
            _mm256_storeu_si256(target.cast(), _mm256_blendv_epi8(zero, one, is_one));
            let count = half.count_ones() as usize;
            (zeros, ones, target) = (zeros.add(4 - count), ones.add(count), target.add(4));
        }
        out.set_len(out.len() + which.len() * 8);
    }
}

pub fn ends_u32(keys: &[u32], counts: &[u8], min: &mut Vec<u64>, max: &mut Vec<u64>) -> bool {
    if !is_there() {
        return false;
    }
    let of_all: usize = counts.iter().map(|count| *count as usize).sum();
    assert!(of_all <= keys.len(), "{of_all} of {} keys", keys.len());
    min.reserve(counts.len());
    max.reserve(counts.len());
    // SAFETY: the instructions are available, the outputs have capacity, and there are enough keys for all
    // groups.
    unsafe { ends(keys.as_ptr(), counts, min, max) };
    true
}

#[target_feature(enable = "avx2")]
unsafe fn ends(mut keys: *const u32, counts: &[u8], min: &mut Vec<u64>, max: &mut Vec<u64>) {
    let at = min.len();
    // SAFETY: the caller's check; loads are unaligned and stay inside their group. A group's last load may overlap
    // earlier ones, which does not change the minimum and maximum.
    unsafe {
        let (lows, highs) = (min.as_mut_ptr().add(at), max.as_mut_ptr().add(max.len()));
        for (zone, count) in counts.iter().enumerate() {
            let count = *count as usize;
            let four = |from: usize| _mm_loadu_si128(keys.add(from).cast());
            let (low, high) = match count {
                ..4 => {
                    let keys = std::slice::from_raw_parts(keys, count);
                    let first = keys.first().copied().unwrap_or_default();
                    let (low, high) =
                        keys.iter().fold((first, first), |(low, high), key| (low.min(*key), high.max(*key)));
                    (_mm_set1_epi32(low as i32), _mm_set1_epi32(high as i32))
                }
                4..8 => {
                    let (first, last) = (four(0), four(count - 4));
                    (_mm_min_epu32(first, last), _mm_max_epu32(first, last))
                }
                _ => {
                    let eight = |from: usize| _mm256_loadu_si256(keys.add(from).cast());
                    let last = eight(count - 8);
                    let (mut low, mut high, mut from) = (last, last, 0);
                    while from + 8 < count {
                        let some = eight(from);
                        (low, high) = (_mm256_min_epu32(low, some), _mm256_max_epu32(high, some));
                        from += 8;
                    }
                    let upper = (_mm256_extracti128_si256(low, 1), _mm256_extracti128_si256(high, 1));
                    let lower = (_mm256_castsi256_si128(low), _mm256_castsi256_si128(high));
                    (_mm_min_epu32(lower.0, upper.0), _mm_max_epu32(lower.1, upper.1))
                }
            };
            let low = _mm_min_epu32(low, _mm_shuffle_epi32(low, 0b01_00_11_10));
            let low = _mm_min_epu32(low, _mm_shuffle_epi32(low, 0b10_11_00_01));
            let high = _mm_max_epu32(high, _mm_shuffle_epi32(high, 0b01_00_11_10));
            let high = _mm_max_epu32(high, _mm_shuffle_epi32(high, 0b10_11_00_01));
            lows.add(zone).write(_mm_cvtsi128_si32(low) as u32 as u64);
            highs.add(zone).write(_mm_cvtsi128_si32(high) as u32 as u64);
            keys = keys.add(count);
        }
        min.set_len(at + counts.len());
        max.set_len(max.len() + counts.len());
    }
}

/// By byte, the positions of its set bits, lowest first.
static PLACES: [[u8; 8]; 256] = {
    let mut places = [[0; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut bit, mut count) = (0, 0);
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                places[byte][count] = bit;
                count += 1;
            }
            bit += 1;
        }
        byte += 1;
    }
    places
};

pub fn split_u32(keys: &[u32], border: u32, which: &mut Vec<u8>, parts: &mut [Vec<u32>; 2]) -> bool {
    if !is_there() {
        return false;
    }
    let (some, others) = keys.as_chunks::<8>();
    which.reserve(some.len() + 1);
    // Whole blocks are written.
    parts.iter_mut().for_each(|part| part.reserve(keys.len() + 8));
    // SAFETY: the instructions are available, and the outputs have capacity.
    unsafe { split(some, border, which, parts) };
    if !others.is_empty() {
        let mut byte = 0;
        for (bit, key) in others.iter().enumerate() {
            byte |= u8::from(*key >= border) << bit;
            parts[usize::from(*key >= border)].push(*key);
        }
        which.push(byte);
    }
    true
}

#[target_feature(enable = "avx2,popcnt")]
unsafe fn split(keys: &[[u32; 8]], border: u32, which: &mut Vec<u8>, parts: &mut [Vec<u32>; 2]) {
    // SAFETY: the caller's check; loads and stores are unaligned.
    unsafe {
        let [zeros, ones] = parts;
        let (first_zero, first_one) = (zeros.as_mut_ptr().add(zeros.len()), ones.as_mut_ptr().add(ones.len()));
        let (mut zero, mut one) = (first_zero, first_one);
        let bytes = which.as_mut_ptr().add(which.len());
        let border = _mm256_set1_epi32(border as i32);
        for (index, some) in keys.iter().enumerate() {
            let some = _mm256_loadu_si256(some.as_ptr().cast());
            let is_one = _mm256_cmpeq_epi32(_mm256_max_epu32(some, border), some);
            let byte = _mm256_movemask_ps(_mm256_castsi256_ps(is_one)) as u8;
            let places = |byte: u8| _mm256_cvtepu8_epi32(_mm_loadl_epi64(PLACES[byte as usize].as_ptr().cast()));
            _mm256_storeu_si256(zero.cast(), _mm256_permutevar8x32_epi32(some, places(!byte)));
            _mm256_storeu_si256(one.cast(), _mm256_permutevar8x32_epi32(some, places(byte)));
            bytes.add(index).write(byte);
            let count = byte.count_ones() as usize;
            (zero, one) = (zero.add(8 - count), one.add(count));
        }
        which.set_len(which.len() + keys.len());
        zeros.set_len(zeros.len() + zero.offset_from_unsigned(first_zero));
        ones.set_len(ones.len() + one.offset_from_unsigned(first_one));
    }
}
