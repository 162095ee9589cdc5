//! Decodes stored bytes into Arrow arrays.

use std::borrow::Cow;
use std::io::Read;
use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{ArrayRef, Float64Array, PrimitiveArray};
use arrow_buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use flate2::{FlushDecompress, Status};

use crate::layout::{Filter, Number, Packing, Variable};

/// Undoes the filters of a chunk. The result has exactly `raw` bytes.
///
/// # Errors
///
/// The reason why the bytes are damaged.
pub fn unfilter(
    stored: &[u8],
    filters: &[Filter],
    skipped: u32,
    element: usize,
    raw: usize,
) -> Result<Vec<u8>, String> {
    let mut bytes = Cow::Borrowed(stored);
    for (place, filter) in filters.iter().enumerate().rev() {
        if skipped >> place & 1 == 1 {
            continue;
        }
        // There may be a checksum between the compressor and the data.
        let most = raw + 64;
        bytes = match filter {
            Filter::Deflate => inflate(&bytes, most)?.into(),
            Filter::Shuffle => unshuffle(&bytes, element).into(),
            Filter::Fletcher32 => checked(bytes)?,
            Filter::Lz4 => lz4(&bytes, most)?.into(),
            Filter::Zstd => unzstd(&bytes, most)?.into(),
            Filter::Other(name) => return Err(format!("filter {name} is not supported")),
        };
    }
    match bytes.len() == raw {
        true => Ok(bytes.into_owned()),
        false => Err(format!("it has {} bytes instead of {raw}", bytes.len())),
    }
}

/// Inflates in one call, so that the output also serves as the window.
fn inflate(bytes: &[u8], most: usize) -> Result<Vec<u8>, String> {
    // Deflate expands at most by a factor of 1,032.
    let mut out = Vec::with_capacity((most + 1).min(bytes.len().saturating_mul(1032).saturating_add(64)));
    let status = flate2::Decompress::new(true).decompress_vec(bytes, &mut out, FlushDecompress::Finish);
    match status.map_err(|error| format!("deflate: {error}"))? {
        Status::StreamEnd => bounded(out, most),
        _ if out.len() > most => Err(format!("it inflates to more than {most} bytes")),
        _ => Err("deflate: it is cut short".into()),
    }
}

fn unzstd(bytes: &[u8], most: usize) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let decoder = zstd::stream::read::Decoder::new(bytes).map_err(|error| format!("zstd: {error}"))?;
    decoder.take(most as u64 + 1).read_to_end(&mut out).map_err(|error| format!("zstd: {error}"))?;
    bounded(out, most)
}

fn bounded(out: Vec<u8>, most: usize) -> Result<Vec<u8>, String> {
    if out.len() > most { Err(format!("it inflates to more than {most} bytes")) } else { Ok(out) }
}

/// Decodes the registered HDF5 filter: the total length, the block length, and then each block with its stored length.
/// A block that did not shrink is stored uncompressed.
fn lz4(bytes: &[u8], most: usize) -> Result<Vec<u8>, String> {
    let cut = || "lz4: it is cut short".to_string();
    let take = |at: usize, length: usize| at.checked_add(length).and_then(|end| bytes.get(at..end)).ok_or_else(cut);
    let word = |at: usize| take(at, 4).map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]) as usize);
    let whole = take(0, 8)?.iter().fold(0u64, |whole, byte| whole << 8 | u64::from(*byte));
    if whole > most as u64 {
        return Err(format!("lz4: its length of {whole} bytes exceeds {most}"));
    }
    let whole = whole as usize;
    let block = word(8)?;
    let mut out = Vec::with_capacity(whole);
    let mut at = 12;
    while out.len() < whole {
        let stored = word(at)?;
        let part = take(at + 4, stored)?;
        let length = block.min(whole - out.len());
        if length == 0 {
            return Err("lz4: it has blocks of no length".into());
        }
        if stored == length {
            out.extend_from_slice(part);
        } else {
            let start = out.len();
            out.resize(start + length, 0);
            let written =
                lz4_flex::block::decompress_into(part, &mut out[start..]).map_err(|error| format!("lz4: {error}"))?;
            if written != length {
                return Err("lz4: a block is short".into());
            }
        }
        at += 4 + stored;
    }
    Ok(out)
}

fn unshuffle(bytes: &[u8], element: usize) -> Vec<u8> {
    let count = bytes.len() / element.max(1);
    if element < 2 || count < 2 {
        return bytes.to_vec();
    }
    let mut out = match element {
        2 => unshuffle_elements::<2>(bytes, count),
        4 => unshuffle_elements::<4>(bytes, count),
        8 => unshuffle_elements::<8>(bytes, count),
        _ => (0..count * element).map(|at| bytes[at % element * count + at / element]).collect(),
    };
    // The remaining bytes are not shuffled.
    out.extend_from_slice(&bytes[count * element..]);
    out
}

fn unshuffle_elements<const N: usize>(bytes: &[u8], count: usize) -> Vec<u8> {
    let planes: [&[u8]; N] = std::array::from_fn(|place| &bytes[place * count..][..count]);
    let mut out = vec![0; count * N];
    for (at, cell) in out.as_chunks_mut::<N>().0.iter_mut().enumerate() {
        *cell = std::array::from_fn(|place| planes[place][at]);
    }
    out
}

fn checked(bytes: Cow<'_, [u8]>) -> Result<Cow<'_, [u8]>, String> {
    let Some(length) = bytes.len().checked_sub(4) else { return Err("its checksum is missing".into()) };
    let sum = fletcher32(&bytes[..length]);
    let stored = u32::from_le_bytes([bytes[length], bytes[length + 1], bytes[length + 2], bytes[length + 3]]);
    // Some versions of the library wrote the bytes in each half swapped.
    let swapped = (sum & 0x00ff_00ff) << 8 | (sum & 0xff00_ff00) >> 8;
    if stored != sum && stored != swapped {
        return Err("its checksum is wrong".into());
    }
    Ok(match bytes {
        Cow::Borrowed(bytes) => bytes[..length].into(),
        Cow::Owned(mut bytes) => {
            bytes.truncate(length);
            bytes.into()
        }
    })
}

/// The checksum of HDF5's `H5_checksum_fletcher32`.
pub fn fletcher32(bytes: &[u8]) -> u32 {
    let (mut low, mut high) = (0u32, 0u32);
    let mut pairs = bytes.chunks_exact(2);
    let mut words = 0;
    for pair in &mut pairs {
        low += u32::from(pair[0]) << 8 | u32::from(pair[1]);
        high += low;
        words += 1;
        if words == 360 {
            (low, high, words) = ((low & 0xffff) + (low >> 16), (high & 0xffff) + (high >> 16), 0);
        }
    }
    let fold = |sum: u32| (sum & 0xffff) + (sum >> 16);
    (low, high) = (fold(low), fold(high));
    if let [last] = pairs.remainder() {
        low += u32::from(*last) << 8;
        high += low;
        (low, high) = (fold(low), fold(high));
    }
    fold(high) << 16 | fold(low)
}

/// The stored bytes of a number, whose `bits` are in the lowest bytes.
pub fn stored(variable: &Variable, bits: u64) -> Vec<u8> {
    let mut bytes = bits.to_le_bytes()[..variable.number.bytes() as usize].to_vec();
    if variable.big_endian {
        bytes.reverse();
    }
    bytes
}

pub fn array(variable: &Variable, bytes: &[u8]) -> ArrayRef {
    let (big, packing) = (variable.big_endian, &variable.packing);
    match variable.number {
        Number::I8 => numbers::<Int8Type, 1>(bytes, big, packing, i8::from_le_bytes, |a, b| a == b, f64::from),
        Number::I16 => numbers::<Int16Type, 2>(bytes, big, packing, i16::from_le_bytes, |a, b| a == b, f64::from),
        Number::I32 => numbers::<Int32Type, 4>(bytes, big, packing, i32::from_le_bytes, |a, b| a == b, f64::from),
        Number::I64 => numbers::<Int64Type, 8>(bytes, big, packing, i64::from_le_bytes, |a, b| a == b, |v| v as f64),
        Number::U8 => numbers::<UInt8Type, 1>(bytes, big, packing, u8::from_le_bytes, |a, b| a == b, f64::from),
        Number::U16 => numbers::<UInt16Type, 2>(bytes, big, packing, u16::from_le_bytes, |a, b| a == b, f64::from),
        Number::U32 => numbers::<UInt32Type, 4>(bytes, big, packing, u32::from_le_bytes, |a, b| a == b, f64::from),
        Number::U64 => numbers::<UInt64Type, 8>(bytes, big, packing, u64::from_le_bytes, |a, b| a == b, |v| v as f64),
        Number::F16 => numbers::<Float16Type, 2>(
            bytes,
            big,
            packing,
            half::f16::from_le_bytes,
            |a, b| a == b || a.is_nan() && b.is_nan(),
            f64::from,
        ),
        Number::F32 => numbers::<Float32Type, 4>(
            bytes,
            big,
            packing,
            f32::from_le_bytes,
            |a, b| a == b || a.is_nan() && b.is_nan(),
            f64::from,
        ),
        Number::F64 => numbers::<Float64Type, 8>(
            bytes,
            big,
            packing,
            f64::from_le_bytes,
            |a, b| a == b || a.is_nan() && b.is_nan(),
            |value| value,
        ),
    }
}

fn numbers<T: ArrowPrimitiveType, const N: usize>(
    bytes: &[u8],
    big_endian: bool,
    packing: &Packing,
    read: impl Fn([u8; N]) -> T::Native,
    same: impl Fn(T::Native, T::Native) -> bool,
    double: impl Fn(T::Native) -> f64,
) -> ArrayRef {
    let value = |cell: &[u8]| {
        let mut own = [0; N];
        own.copy_from_slice(cell);
        if big_endian {
            own.reverse();
        }
        read(own)
    };
    let values: Vec<T::Native> = bytes.chunks_exact(N).map(value).collect();
    let missing: Vec<T::Native> = packing
        .missing
        .iter()
        .map(|bits| {
            let mut own = [0; N];
            own.copy_from_slice(&bits.to_le_bytes()[..N]);
            read(own)
        })
        .collect();
    let there = (!missing.is_empty()).then(|| {
        let is_there = |index: usize| !missing.iter().any(|missing| same(values[index], *missing));
        NullBuffer::new(BooleanBuffer::collect_bool(values.len(), is_there))
    });
    let nulls = there.filter(|nulls| nulls.null_count() > 0);
    if packing.is_packed() {
        let (scale, offset) = (packing.scale.unwrap_or(1.0), packing.offset.unwrap_or(0.0));
        let unpacked: Vec<f64> = values.into_iter().map(|value| double(value) * scale + offset).collect();
        return Arc::new(Float64Array::new(ScalarBuffer::from(unpacked), nulls));
    }
    Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(values), nulls))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn deflated(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_chunk_that_inflates_too_far_is_an_error() {
        let bomb = deflated(&vec![0; 1 << 20]);
        let error = unfilter(&bomb, &[Filter::Deflate], 0, 4, 1000).unwrap_err();
        assert!(error.contains("inflates to more"), "{error}");
        assert_eq!(unfilter(&bomb, &[Filter::Deflate], 0, 4, 1 << 20).unwrap(), vec![0; 1 << 20]);
        let bomb = zstd::encode_all(&vec![0; 1 << 20][..], 3).unwrap();
        assert!(unfilter(&bomb, &[Filter::Zstd], 0, 4, 1000).unwrap_err().contains("inflates to more"));
        let mut hostile = u64::MAX.to_be_bytes().to_vec();
        hostile.extend([0; 8]);
        assert!(unfilter(&hostile, &[Filter::Lz4], 0, 4, 1000).unwrap_err().contains("lz4"));
    }

    #[test]
    fn filters_are_undone_from_the_last_and_the_mask_leaves_some_out() {
        let raw: Vec<u8> = (0..40).collect();
        let shuffled: Vec<u8> = (0..4).flat_map(|place| (0..10).map(move |value| value * 4 + place)).collect();
        let mut stored = deflated(&shuffled);
        let filters = [Filter::Shuffle, Filter::Deflate, Filter::Fletcher32];
        assert_eq!(unfilter(&stored, &filters, 0b100, 4, 40).unwrap(), raw);
        stored.extend(fletcher32(&stored.clone()).to_le_bytes());
        assert_eq!(unfilter(&stored, &filters, 0, 4, 40).unwrap(), raw);
        stored[3] ^= 1;
        assert!(unfilter(&stored, &filters, 0, 4, 40).unwrap_err().contains("checksum"));
        assert_eq!(unfilter(&raw, &filters, 0b111, 4, 40).unwrap(), raw);
    }

    #[test]
    fn shuffled_bytes_of_any_width_go_back_to_their_places() {
        for element in [1, 2, 3, 4, 8, 16] {
            for bytes in [0, 1, 15, 64, 163] {
                let raw: Vec<u8> = (0..bytes).collect();
                let count = raw.len() / element;
                let planes = (0..element).flat_map(|place| (0..count).map(move |at| at * element + place));
                let mut shuffled: Vec<u8> = planes.map(|at| raw[at]).collect();
                shuffled.extend(&raw[count * element..]);
                assert_eq!(unshuffle(&shuffled, element), raw, "{element} {bytes}");
            }
        }
    }

    #[test]
    fn a_chunk_that_is_cut_short_is_an_error() {
        let whole = deflated(&(0..200u8).collect::<Vec<_>>());
        for length in 0..whole.len() {
            unfilter(&whole[..length], &[Filter::Deflate], 0, 4, 200).unwrap_err();
        }
    }
}
