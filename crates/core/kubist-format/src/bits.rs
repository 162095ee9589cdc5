//! Bit packing of differences from a base (FORMAT.md, Column ranges).
//!
//! Eight values of any width fill exactly `width` bytes, so a block packs or unpacks them, with shifts known at compile
//! time or by vector instructions.

use std::mem::MaybeUninit;
use std::ops::Range;

use pco::data_types::Number;

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;

/// The unsigned integer that values are unpacked to, at least 32 bits wide.
pub trait Word: Copy + Default + Ord + Into<u64> + Send + Number + 'static {
    const BITS: u32;
    const MAX: Self;
    fn truncate(value: u64) -> Self;
    fn plus(self, difference: u64) -> Self;
    fn or(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn flipped_below(self, sign: u32) -> Self;
    /// `blocks_of` with vector instructions; without them, this and the functions below do nothing and return false or
    /// `None`.
    fn unpack_fast(bytes: &[u8], width: u32, base: Self, out: &mut [MaybeUninit<Self>]) -> bool;
    /// For each bit in `which`, appends the next value from the first (0) or second (1) position of `values`, and
    /// returns the number of ones. `values` must continue for eight values after the last one used.
    fn merge_fast(which: &[u8], values: &[Self], from: [usize; 2], out: &mut Vec<Self>) -> Option<usize>;
    /// Replaces each code by the value with that index, using only the code's low bits, if there are few values, a
    /// power of two in number.
    fn look_up_fast(values: &[Self], codes: &mut [Self]) -> bool;
    /// Appends the minimum and maximum of consecutive key groups with the sizes `counts`.
    fn ends_fast(keys: &[Self], counts: &[u8], min: &mut Vec<u64>, max: &mut Vec<u64>) -> bool;
    /// Divides keys at a border, and appends one bit per key for its part.
    fn split_fast(keys: &[Self], border: Self, which: &mut Vec<u8>, parts: &mut [Vec<Self>; 2]) -> bool;
}

macro_rules! word {
    ($($word:ty, $fast:ident, $merge:ident, $look_up:expr, $ends:expr, $split:expr);*) => {$(
        impl Word for $word {
            const BITS: u32 = <$word>::BITS;
            const MAX: Self = <$word>::MAX;
            #[inline(always)]
            fn truncate(value: u64) -> Self {
                value as $word
            }
            #[inline(always)]
            fn plus(self, difference: u64) -> Self {
                self.wrapping_add(difference as $word)
            }
            #[inline(always)]
            fn or(self, other: Self) -> Self {
                self | other
            }
            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn flipped_below(self, sign: u32) -> Self {
                self ^ (self >> sign & 1).wrapping_sub(1)
            }
            #[cfg(target_arch = "x86_64")]
            fn unpack_fast(bytes: &[u8], width: u32, base: Self, out: &mut [MaybeUninit<Self>]) -> bool {
                avx2::$fast(bytes, width, base, out)
            }
            #[cfg(not(target_arch = "x86_64"))]
            fn unpack_fast(_: &[u8], _: u32, _: Self, _: &mut [MaybeUninit<Self>]) -> bool {
                false
            }
            #[cfg(target_arch = "x86_64")]
            fn merge_fast(which: &[u8], values: &[Self], from: [usize; 2], out: &mut Vec<Self>) -> Option<usize> {
                avx2::$merge(which, values, from, out)
            }
            #[cfg(not(target_arch = "x86_64"))]
            fn merge_fast(_: &[u8], _: &[Self], _: [usize; 2], _: &mut Vec<Self>) -> Option<usize> {
                None
            }
            #[cfg(target_arch = "x86_64")]
            fn look_up_fast(values: &[Self], codes: &mut [Self]) -> bool {
                $look_up(values, codes)
            }
            #[cfg(not(target_arch = "x86_64"))]
            fn look_up_fast(_: &[Self], _: &mut [Self]) -> bool {
                false
            }
            #[cfg(target_arch = "x86_64")]
            fn ends_fast(keys: &[Self], counts: &[u8], min: &mut Vec<u64>, max: &mut Vec<u64>) -> bool {
                $ends(keys, counts, min, max)
            }
            #[cfg(not(target_arch = "x86_64"))]
            fn ends_fast(_: &[Self], _: &[u8], _: &mut Vec<u64>, _: &mut Vec<u64>) -> bool {
                false
            }
            #[cfg(target_arch = "x86_64")]
            fn split_fast(keys: &[Self], border: Self, which: &mut Vec<u8>, parts: &mut [Vec<Self>; 2]) -> bool {
                $split(keys, border, which, parts)
            }
            #[cfg(not(target_arch = "x86_64"))]
            fn split_fast(_: &[Self], _: Self, _: &mut Vec<u8>, _: &mut [Vec<Self>; 2]) -> bool {
                false
            }
        }
    )*};
}

word!(
    u32, unpack_u32, merge_u32, avx2::look_up_u32, avx2::ends_u32, avx2::split_u32;
    u64, unpack_u64, merge_u64, |_, _| false, |_, _, _, _| false, |_, _, _, _| false
);

/// Also compiles a function for wider vector instructions, and uses them if available. The functions that it calls must
/// be `inline(always)`.
macro_rules! vectorised {
    ($(#[$about:meta])* $public:vis fn $name:ident$(<$($G:ident: $bound:path),+>)?(
        $($argument:ident: $type:ty),+
    ) $(-> $output:ty)? $body:block) => {
        $(#[$about])*
        $public fn $name$(<$($G: $bound),+>)?($($argument: $type),+) $(-> $output)? {
            #[inline(always)]
            fn plain$(<$($G: $bound),+>)?($($argument: $type),+) $(-> $output)? $body
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,lzcnt,bmi2,popcnt")]
            fn wide$(<$($G: $bound),+>)?($($argument: $type),+) $(-> $output)? {
                plain$(::<$($G),+>)?($($argument),+)
            }
            #[cfg(target_arch = "x86_64")]
            if $crate::bits::avx2::is_there() {
                // SAFETY: the condition checks for the instructions.
                return unsafe { wide$(::<$($G),+>)?($($argument),+) };
            }
            plain$(::<$($G),+>)?($($argument),+)
        }
    };
}
pub(crate) use vectorised;

pub(crate) fn ones(bitmap: &[u8], indices: Range<usize>) -> usize {
    match indices.len() {
        ..=64 => ones_of(bitmap, indices),
        _ => many_ones(bitmap, indices),
    }
}

vectorised! {
    /// Counting a whole word takes one instruction instead of a dozen.
    fn many_ones(bitmap: &[u8], indices: Range<usize>) -> usize {
        ones_of(bitmap, indices)
    }
}

#[inline(always)]
fn ones_of(bitmap: &[u8], indices: Range<usize>) -> usize {
    let (mut at, mut count) = (indices.start, 0);
    while at < indices.end {
        let bytes = &bitmap[at / 8..];
        let word = match bytes.first_chunk::<8>() {
            Some(word) => u64::from_le_bytes(*word),
            None => bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
        };
        let (skipped, wanted) = (at % 8, (indices.end - at).min(64 - at % 8));
        count += (word >> skipped & u64::MAX >> (64 - wanted)).count_ones() as usize;
        at += wanted;
    }
    count
}

pub fn packed_len(count: usize, width: u32) -> usize {
    (count * width as usize).div_ceil(8)
}

/// Number of bits for values up to `largest`.
pub fn width_of(largest: u64) -> u32 {
    64 - largest.leading_zeros()
}

/// Calls a function with the width, 1 to 64, as its first constant parameter.
macro_rules! with_width {
    ($width:expr, $call:ident::<$W:ty>($($argument:expr),*)) => {
        with_width!(@ $width, $call, $W, ($($argument),*),
            1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38
            39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64)
    };
    (@ $width:expr, $call:ident, $W:ty, $arguments:tt, $($literal:literal)*) => {
        match $width {
            $($literal => with_width!(@call $call::<$literal, $W> $arguments),)*
            _ => unreachable!("width is 1 to 64"),
        }
    };
    (@call $call:ident::<$literal:literal, $W:ty> ($($argument:expr),*)) => { $call::<$literal, $W>($($argument),*) };
}

/// Appends the differences of values from `base`, which must fit in `width` bits.
pub fn pack<W: Word>(values: &[W], base: W, width: u32, out: &mut Vec<u8>) {
    if width == 0 {
        return;
    }
    let (blocks, rest) = values.as_chunks::<8>();
    let mut padded = [base; 8];
    padded[..rest.len()].copy_from_slice(rest);
    let length = out.len() + packed_len(values.len(), width);
    out.reserve(packed_len(values.len() + 8, width));
    with_width!(width, pack_blocks::<W>(blocks, base, out));
    with_width!(width, pack_blocks::<W>(&[padded], base, out));
    out.truncate(length);
}

fn pack_blocks<const WIDTH: usize, W: Word>(blocks: &[[W; 8]], base: W, out: &mut Vec<u8>) {
    let base: u64 = base.into();
    for block in blocks {
        let (mut bytes, mut pending, mut filled, mut done) = ([0u8; 64], 0u64, 0, 0);
        for value in block {
            let difference = Into::<u64>::into(*value) - base;
            pending |= difference << filled;
            filled += WIDTH;
            if filled >= 64 {
                bytes[done..done + 8].copy_from_slice(&pending.to_le_bytes());
                done += 8;
                filled -= 64;
                pending = if filled == 0 { 0 } else { difference >> (WIDTH - filled) };
            }
        }
        if filled > 0 {
            bytes[done..done + 8].copy_from_slice(&pending.to_le_bytes());
        }
        out.extend_from_slice(&bytes[..WIDTH]);
    }
}

/// A packed difference, which must be inside `bytes`.
pub fn value(bytes: &[u8], width: u32, index: usize) -> u64 {
    let (first, shift) = (index * width as usize / 8, index * width as usize % 8);
    let mut word = [0; 16];
    let from = &bytes[first..(first + 9).min(bytes.len())];
    word[..from.len()].copy_from_slice(from);
    (u128::from_le_bytes(word) >> shift & ((1 << width) - 1)) as u64
}

/// Unpacking a block reads at most this many bytes after it, and ignores them.
const REACH: usize = 16;

/// Appends `base` plus each value at `indices`. Returns `None`, and appends nothing, if `bytes` is too short or the
/// width is invalid.
pub fn unpack<W: Word>(bytes: &[u8], width: u32, indices: Range<usize>, base: W, out: &mut Vec<W>) -> Option<()> {
    if packed_len(indices.end, width) > bytes.len() || width > W::BITS {
        return None;
    }
    if width == 0 {
        out.resize(out.len() + indices.len(), base);
        return Some(());
    }
    let (mut first, mut count) = (indices.start, indices.len());
    let skipped = first % 8;
    if skipped > 0 {
        let mut block = [MaybeUninit::uninit(); 8];
        unpack_last(&bytes[first / 8 * width as usize..], width, base, &mut block);
        let head = count.min(8 - skipped);
        // SAFETY: the block was written.
        out.extend(block[skipped..skipped + head].iter().map(|value| unsafe { value.assume_init() }));
        (first, count) = (first + head, count - head);
    }
    if count == 0 {
        return Some(());
    }
    let (before, blocks) = (out.len(), count.div_ceil(8));
    // Whole blocks are written, and the surplus is removed.
    out.reserve(blocks * 8);
    let bytes = &bytes[first / 8 * width as usize..];
    let direct = (bytes.len().saturating_sub(REACH) / width as usize).min(blocks);
    let (near, last) = out.spare_capacity_mut()[..blocks * 8].split_at_mut(direct * 8);
    if !near.is_empty() {
        unpack_blocks(bytes, width, base, near);
    }
    if !last.is_empty() {
        unpack_last(&bytes[direct * width as usize..], width, base, last);
    }
    // SAFETY: all these values were just written.
    unsafe { out.set_len(before + count) };
    Some(())
}

fn unpack_last<W: Word>(bytes: &[u8], width: u32, base: W, out: &mut [MaybeUninit<W>]) {
    let mut aside = [0; REACH + 2 * 64 + REACH];
    let length = bytes.len().min(REACH + 64);
    aside[..length].copy_from_slice(&bytes[..length]);
    unpack_blocks(&aside, width, base, out);
}

fn unpack_blocks<W: Word>(bytes: &[u8], width: u32, base: W, out: &mut [MaybeUninit<W>]) {
    if !W::unpack_fast(bytes, width, base, out) {
        with_width!(width, blocks_of::<W>(bytes, base, out));
    }
}

fn blocks_of<const WIDTH: usize, W: Word>(bytes: &[u8], base: W, out: &mut [MaybeUninit<W>]) {
    let mask = u64::MAX >> (64 - WIDTH as u32);
    let (targets, _) = out.as_chunks_mut::<8>();
    for (block, target) in targets.iter_mut().enumerate() {
        let source = &bytes[block * WIDTH..block * WIDTH + WIDTH + REACH];
        for (index, slot) in target.iter_mut().enumerate() {
            let (byte, shift) = (index * WIDTH / 8, index * WIDTH % 8);
            let word = u64::from_le_bytes(source[byte..byte + 8].try_into().expect("eight bytes"));
            let difference = if WIDTH + 7 <= 64 {
                (word >> shift) & mask
            } else {
                let next = source[byte + 8] as u128;
                ((((next << 64) | word as u128) >> shift) as u64) & mask
            };
            slot.write(base.plus(difference));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check<W: Word + std::fmt::Debug>(values: &[u64], width: u32, base: u64, slack: usize, part: Range<usize>) {
        let mask = if width == 0 { 0 } else { u64::MAX >> (64 - width) };
        let most: u64 = W::MAX.into();
        let base = base.min(most - (mask & most));
        let values: Vec<W> = values.iter().map(|value| W::truncate(base + (value & mask))).collect();
        let base = W::truncate(base);
        let mut bytes = vec![];
        pack(&values, base, width, &mut bytes);
        assert_eq!(bytes.len(), packed_len(values.len(), width));
        let length = bytes.len();
        bytes.extend(std::iter::repeat_n(0xa5, slack));
        let mut out = vec![W::default(); 3];
        unpack(&bytes, width, 0..values.len(), base, &mut out).unwrap();
        assert_eq!(&out[3..], &values[..]);
        if length > 0 {
            assert!(unpack(&bytes[..length - 1], width, 0..values.len(), base, &mut out).is_none());
        }
        assert_eq!(out.len(), 3 + values.len());
        let part = part.start.min(values.len())..part.end.min(values.len());
        for (index, expected) in values.iter().enumerate() {
            assert_eq!(base.plus(value(&bytes[..length], width, index)), *expected);
        }
        out.clear();
        unpack(&bytes, width, part.clone(), base, &mut out).unwrap();
        assert_eq!(&out[..], &values[part]);
        if width > 0 {
            let mut slow = vec![MaybeUninit::new(base); values.len().next_multiple_of(8)];
            bytes.resize(length + 8 * width as usize + REACH, 0);
            with_width!(width, blocks_of::<W>(&bytes, base, &mut slow));
            // SAFETY: every slot was written from `values`.
            assert!(slow.iter().map(|slot| unsafe { slot.assume_init() }).zip(values).all(|(a, b)| a == b));
        }
    }

    proptest! {
        #[test]
        fn ones_are_counted_one_by_one(
            bitmap in prop::collection::vec(any::<u8>(), 0..60),
            (first, count) in (0usize..480, 0usize..480),
        ) {
            let end = (first + count).min(bitmap.len() * 8);
            let first = first.min(end);
            let expected = (first..end).filter(|index| bitmap[index / 8] >> (index % 8) & 1 == 1).count();
            prop_assert_eq!(ones(&bitmap, first..end), expected);
        }

        #[test]
        fn ends_are_those_of_each_stretch(stretches in prop::collection::vec(prop::collection::vec(any::<u32>(), 1..60), 0..20)) {
            let counts: Vec<u8> = stretches.iter().map(|keys| keys.len() as u8).collect();
            let (mut min, mut max) = (vec![7], vec![8]);
            if u32::ends_fast(&stretches.concat(), &counts, &mut min, &mut max) {
                let expected = stretches.iter().map(|keys| u64::from(*keys.iter().min().unwrap()));
                prop_assert!(min[1..].iter().copied().eq(expected));
                let expected = stretches.iter().map(|keys| u64::from(*keys.iter().max().unwrap()));
                prop_assert!(max[1..].iter().copied().eq(expected));
            }
        }

        #[test]
        fn keys_are_split_one_by_one(keys in prop::collection::vec(any::<u32>(), 0..100), border in any::<u32>()) {
            let (mut which, mut parts) = (vec![1], [vec![2], vec![3]]);
            if u32::split_fast(&keys, border, &mut which, &mut parts) {
                let below = |key: &u32| *key < border;
                prop_assert!(parts[0][1..].iter().copied().eq(keys.iter().copied().filter(below)));
                prop_assert!(parts[1][1..].iter().copied().eq(keys.iter().copied().filter(|key| !below(key))));
                prop_assert_eq!(which.len(), 1 + keys.len().div_ceil(8));
                prop_assert!(keys.iter().enumerate().all(|(row, key)| (which[1 + row / 8] >> (row % 8) & 1 == 0) == below(key)));
                prop_assert!(keys.len() % 8 == 0 || which[which.len() - 1] >> (keys.len() % 8) == 0);
            }
        }

        #[test]
        fn codes_are_looked_up_one_by_one(
            values in prop::collection::vec(any::<u32>(), 1..=16),
            codes in prop::collection::vec(any::<u32>(), 0..100),
        ) {
            let values = &values[..1 << values.len().ilog2()];
            let mut found = codes.clone();
            let expected = match u32::look_up_fast(values, &mut found) {
                true => codes.iter().map(|code| values[*code as usize % values.len()]).collect(),
                false => codes,
            };
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn unpack_inverts_pack(
            values in prop::collection::vec(any::<u64>(), 0..200),
            width in 0u32..=64,
            base in any::<u64>(),
            slack in 0usize..40,
            (first, count) in (0usize..200, 0usize..200),
        ) {
            check::<u64>(&values, width, base, slack, first..first + count);
            check::<u32>(&values, width.min(32), base, slack, first..first + count);
        }
    }
}
