//! The minimum and maximum of stored numbers, computed at memory speed.
//!
//! Numbers are mapped to signed integers of the same width and order, so one branch-free loop, which the compiler
//! vectorizes, serves all types and both byte orders. Only float blocks with NaN or missing values need the slower
//! loop: if the extremes are numbers, the block has no NaN.

use crate::layout::{Number, Variable};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyBounds {
    /// Order key of the minimum in the stored type; `least` is above `greatest` without numbers.
    pub least: u64,
    pub greatest: u64,
    pub missing: usize,
    pub has_nan: bool,
}

pub fn of(variable: &Variable, bytes: &[u8]) -> KeyBounds {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: this machine has the instruction set that the function is compiled for.
        return unsafe { with_avx2(variable, bytes) };
    }
    found(variable, bytes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2(variable: &Variable, bytes: &[u8]) -> KeyBounds {
    found(variable, bytes)
}

#[inline(always)]
fn found(variable: &Variable, bytes: &[u8]) -> KeyBounds {
    let (big, missing) = (variable.big_endian, &variable.packing.missing[..]);
    match variable.number {
        Number::I8 => eight(bytes, big, missing, |bits| bits as i8, None),
        Number::I16 => sixteen(bytes, big, missing, |bits| bits as i16, None),
        Number::I32 => thirty_two(bytes, big, missing, |bits| bits as i32, None),
        Number::I64 => sixty_four(bytes, big, missing, |bits| bits as i64, None),
        Number::U8 => eight(bytes, big, missing, |bits| (bits ^ 1 << 7) as i8, None),
        Number::U16 => sixteen(bytes, big, missing, |bits| (bits ^ 1 << 15) as i16, None),
        Number::U32 => thirty_two(bytes, big, missing, |bits| (bits ^ 1 << 31) as i32, None),
        Number::U64 => sixty_four(bytes, big, missing, |bits| (bits ^ 1 << 63) as i64, None),
        // Inverts all bits but the sign of negative floats, so that larger magnitudes sort lower.
        Number::F16 => {
            let order = |bits: u16| bits as i16 ^ (((bits as i16 >> 15) as u16 >> 1) as i16);
            sixteen(bytes, big, missing, order, Some(half::f16::INFINITY.to_bits()))
        }
        Number::F32 => {
            let order = |bits: u32| bits as i32 ^ (((bits as i32 >> 31) as u32 >> 1) as i32);
            thirty_two(bytes, big, missing, order, Some(f32::INFINITY.to_bits()))
        }
        Number::F64 => {
            let order = |bits: u64| bits as i64 ^ (((bits as i64 >> 63) as u64 >> 1) as i64);
            sixty_four(bytes, big, missing, order, Some(f64::INFINITY.to_bits()))
        }
    }
}

/// `order` maps bits to an ordered integer, and `infinity` is the bits of a float type's infinity.
macro_rules! scan {
    ($name:ident, $signed:ty, $unsigned:ty) => {
        #[inline(always)]
        fn $name(
            bytes: &[u8],
            big_endian: bool,
            missing: &[u64],
            order: impl Fn($unsigned) -> $signed + Copy,
            infinity: Option<$unsigned>,
        ) -> KeyBounds {
            const WIDTH: usize = size_of::<$unsigned>();
            let (cells, _) = bytes.as_chunks::<WIDTH>();
            let little = |cell: &[u8; WIDTH]| order(<$unsigned>::from_le_bytes(*cell));
            let big = |cell: &[u8; WIDTH]| order(<$unsigned>::from_be_bytes(*cell));
            let sign = 1 << (<$unsigned>::BITS - 1);
            let (low, high) = match infinity {
                Some(infinity) => (order(infinity | sign), order(infinity)),
                None => (<$signed>::MIN, <$signed>::MAX),
            };
            let key = |value: $signed| u64::from(value as $unsigned ^ sign);
            if missing.is_empty() {
                let (least, greatest) = match big_endian {
                    false => least_and_greatest(cells, little),
                    true => least_and_greatest(cells, big),
                };
                if low <= least && greatest <= high && !cells.is_empty() {
                    return KeyBounds { least: key(least), greatest: key(greatest), missing: 0, has_nan: false };
                }
            }
            let is_nan = |value: $signed| value < low || value > high;
            // If one of the two zeros of a float marks missing values, both do.
            let mut gone: Vec<$signed> = missing.iter().map(|bits| order(*bits as $unsigned)).collect();
            if infinity.is_some() && gone.iter().any(|value| *value == order(0) || *value == order(sign)) {
                gone.extend([order(0), order(sign)]);
            }
            let nan_is_missing = gone.iter().any(|value| is_nan(*value));
            let each = |cell: &[u8; WIDTH]| if big_endian { big(cell) } else { little(cell) };
            let (mut least, mut greatest) = (<$signed>::MAX, <$signed>::MIN);
            let (mut some, mut away, mut nans) = (0, 0, 0);
            let mut one = |value: $signed, is_gone: bool| {
                let (is_gone, nan) = (is_gone && !is_nan(value), is_nan(value));
                let counts = !is_gone && !nan;
                away += usize::from(is_gone);
                nans += usize::from(nan);
                some += usize::from(counts);
                least = least.min(if counts { value } else { <$signed>::MAX });
                greatest = greatest.max(if counts { value } else { <$signed>::MIN });
            };
            match gone[..] {
                [] => cells.iter().for_each(|cell| one(each(cell), false)),
                [only] => cells.iter().map(each).for_each(|value| one(value, value == only)),
                _ => cells.iter().map(each).for_each(|value| one(value, gone.contains(&value))),
            }
            let (least, greatest) = if some > 0 { (key(least), key(greatest)) } else { (u64::MAX, 0) };
            let missing = away + if nan_is_missing { nans } else { 0 };
            KeyBounds { least, greatest, missing, has_nan: nans > 0 && !nan_is_missing }
        }
    };
}

scan!(eight, i8, u8);
scan!(sixteen, i16, u16);
scan!(thirty_two, i32, u32);
scan!(sixty_four, i64, u64);

#[inline(always)]
fn least_and_greatest<T, V: Ord + Copy + IntegerRange>(cells: &[T], value: impl Fn(&T) -> V) -> (V, V) {
    let (mut least, mut greatest) = (V::GREATEST, V::LEAST);
    for cell in cells {
        let value = value(cell);
        least = least.min(value);
        greatest = greatest.max(value);
    }
    (least, greatest)
}

trait IntegerRange {
    const LEAST: Self;
    const GREATEST: Self;
}

macro_rules! bounds {
    ($($signed:ty),*) => {$(
        impl IntegerRange for $signed {
            const LEAST: $signed = <$signed>::MIN;
            const GREATEST: $signed = <$signed>::MAX;
        }
    )*};
}

bounds!(i8, i16, i32, i64);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Packing, Storage};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn wide_instructions_find_the_same(
            bytes in proptest::collection::vec(any::<u8>(), 0..600),
            number in proptest::sample::select(vec![Number::I8, Number::U16, Number::F16, Number::I32, Number::F32, Number::F64]),
            big_endian in any::<bool>(),
            missing in proptest::collection::vec(any::<u8>().prop_map(u64::from), 0..3),
        ) {
            let variable = Variable {
                name: "x".into(),
                dimensions: vec![0],
                number,
                big_endian,
                packing: Packing { missing, ..Packing::default() },
                unit: None,
                calendar: None,
                storage: Storage::Contiguous { offset: 0 },
            };
            prop_assert_eq!(of(&variable, &bytes), found(&variable, &bytes));
        }
    }
}
