//! Bit packing: n integers of `width` bits each, least significant bit first,
//! one after the other, padded with zero bits to a whole byte.
//!
//! Eight values of any width fill exactly `width` bytes, so values are packed
//! and unpacked in blocks of eight whose shifts are known at compile time.

/// The most values that are unpacked at once: those of the largest zone.
pub const MAX_VALUES: usize = 128;

/// Bytes of `count` packed values.
pub fn packed_len(count: usize, width: u32) -> usize {
    (count * width as usize).div_ceil(8)
}

/// The bits that hold every value up to `largest`.
pub fn width_of(largest: u64) -> u32 {
    64 - largest.leading_zeros()
}

/// Appends the lowest `width` bits of each value; higher bits must be zero.
pub fn pack(values: &[u64], width: u32, out: &mut Vec<u8>) {
    if width == 0 {
        return;
    }
    let mut pending: u128 = 0;
    let mut filled = 0;
    for value in values {
        pending |= (*value as u128) << filled;
        filled += width;
        if filled >= 64 {
            out.extend_from_slice(&(pending as u64).to_le_bytes());
            pending >>= 64;
            filled -= 64;
        }
    }
    out.extend_from_slice(&pending.to_le_bytes()[..filled.div_ceil(8) as usize]);
}

/// Unpacks `count <= MAX_VALUES` values. `bytes` begins with them; if fewer
/// than eight more bytes follow, they are copied aside first. `None` if `bytes`
/// is too short.
pub fn unpack(bytes: &[u8], width: u32, count: usize, out: &mut [u64; MAX_VALUES]) -> Option<()> {
    let length = packed_len(count, width);
    if length > bytes.len() || count > MAX_VALUES || width > 64 {
        return None;
    }
    let blocks = count.div_ceil(8);
    // A block reads up to 16 bytes past its start's last value.
    let reach = blocks * width as usize + 16;
    let mut aside = [0u8; MAX_VALUES * 8 + 16];
    let bytes = if reach <= bytes.len() {
        bytes
    } else {
        aside[..length].copy_from_slice(&bytes[..length]);
        &aside[..reach]
    };
    macro_rules! dispatch {
        ($($width:literal)*) => {
            match width {
                $($width => unpack_blocks::<$width>(bytes, blocks, out),)*
                _ => unreachable!("width is at most 64"),
            }
        };
    }
    dispatch!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37
        38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64);
    Some(())
}

#[inline(always)]
fn unpack_blocks<const WIDTH: usize>(bytes: &[u8], blocks: usize, out: &mut [u64; MAX_VALUES]) {
    if WIDTH == 0 {
        out[..blocks * 8].fill(0);
        return;
    }
    let mask = u64::MAX >> (64 - WIDTH as u32);
    for block in 0..blocks {
        let start = block * WIDTH;
        let source = &bytes[start..start + WIDTH + 16];
        let target = &mut out[block * 8..block * 8 + 8];
        for (place, slot) in target.iter_mut().enumerate() {
            let (byte, shift) = (place * WIDTH / 8, place * WIDTH % 8);
            let word = u64::from_le_bytes(source[byte..byte + 8].try_into().unwrap());
            *slot = if WIDTH + 7 <= 64 {
                (word >> shift) & mask
            } else {
                let next = source[byte + 8] as u128;
                ((((next << 64) | word as u128) >> shift) as u64) & mask
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn unpack_inverts_pack(values in prop::collection::vec(any::<u64>(), 0..=MAX_VALUES), width in 0u32..=64, slack in 0usize..40) {
            let mask = if width == 0 { 0 } else { u64::MAX >> (64 - width) };
            let values: Vec<u64> = values.into_iter().map(|value| value & mask).collect();
            let mut bytes = Vec::new();
            pack(&values, width, &mut bytes);
            prop_assert_eq!(bytes.len(), packed_len(values.len(), width));
            bytes.extend(std::iter::repeat_n(0xa5, slack));
            let mut out = [7; MAX_VALUES];
            prop_assert!(unpack(&bytes, width, values.len(), &mut out).is_some());
            prop_assert_eq!(&out[..values.len()], &values[..]);
            let length = packed_len(values.len(), width);
            prop_assert!(length == 0 || unpack(&bytes[..length - 1], width, values.len(), &mut out).is_none());
        }
    }
}
