//! The keys of a page as pco has them: bins with a code each, and the bits of a key within its bin.
//!
//! Fewer bytes than by the other encodings, of what has no pattern but how it is distributed, and
//! slower to read: a page is read from its beginning, value by value. What stands in a chunk is
//! the metadata of one chunk of pco and its only page, of pco's wrapped format.
//!
//! The bytes come from disk. pco says what is wrong with them, as long as they are decoded with the
//! count of rows that is known elsewhere; what would let a few of them ask for much memory is
//! refused before.

use pco::metadata::DeltaEncoding;
use pco::wrapped::{FileCompressor, FileDecompressor};
use pco::{ChunkConfig, DecompressorScratch, DeltaSpec, FULL_BATCH_N, ModeSpec, PagingSpec};

use crate::bits::Word;
use crate::zone_map::MOST_PAGE_ROWS;

/// The format of pco that chunks are in; they do not say it again.
const VERSION: [u8; 2] = [4, 1];
/// What the lowest four bits say of numbers that are no multiples of another, nor places in a dictionary.
const CLASSIC: u8 = 0;
/// More takes twice the time for one byte in a thousand.
const LEVEL: usize = 8;
/// Looking back for a key that was there before takes as long as all else. It saves hardly anything where fewer than
/// one key in so many is.
const WORTH: usize = 8;

/// The fewest bytes of keys, if that is fewer than `most_bytes`.
pub(super) fn packed<W: Word>(keys: &[W], most_bytes: usize) -> Option<Vec<u8>> {
    // As they are, as differences from the key before, and from an equal or a similar one further back.
    let back = (WORTH * repeated(keys) >= keys.len()).then_some(DeltaSpec::TryLookback);
    let each = [DeltaSpec::NoOp, DeltaSpec::TryConsecutive(1)].into_iter().chain(back);
    let all = each.filter_map(|delta| packed_by(keys, delta));
    all.filter(|bytes| bytes.len() < most_bytes).min_by_key(Vec::len)
}

/// How many keys were there before.
fn repeated<W: Word>(keys: &[W]) -> usize {
    let mut different = keys.to_vec();
    different.sort_unstable();
    different.dedup();
    keys.len() - different.len()
}

fn packed_by<W: Word>(keys: &[W], delta: DeltaSpec) -> Option<Vec<u8>> {
    let config = ChunkConfig::default()
        .with_compression_level(LEVEL)
        .with_mode_spec(ModeSpec::Classic)
        .with_delta_spec(delta)
        .with_paging_spec(PagingSpec::EqualPagesUpTo(MOST_PAGE_ROWS));
    let mut chunk = FileCompressor::default().chunk_compressor(keys, &config).ok()?;
    let mut bytes = Vec::with_capacity(chunk.meta_size_hint() + chunk.page_size_hint(0));
    chunk.write_meta(&mut bytes).ok()?;
    chunk.write_page(0, &mut bytes).ok()?;
    Some(bytes)
}

/// Appends the keys of the first `wanted` rows of a page of so many, and perhaps more.
pub(super) fn unpack<W: Word>(
    bytes: &[u8],
    rows: usize,
    wanted: usize,
    scratch: &mut DecompressorScratch,
    keys: &mut Vec<W>,
) -> Result<(), String> {
    if bytes.first().is_none_or(|first| first & 0xf != CLASSIC) {
        return Err("a column chunk has numbers of pco in a mode that is not read".into());
    }
    let (file, _) = FileDecompressor::new(&VERSION[..]).map_err(wrong)?;
    let (chunk, page) = file.chunk_decompressor::<W, _>(bytes).map_err(wrong)?;
    let is_small = match &chunk.meta().delta_encoding {
        DeltaEncoding::NoOp | DeltaEncoding::Consecutive { .. } => true,
        DeltaEncoding::Lookback { config, .. } => 1 << config.window_n_log <= MOST_PAGE_ROWS,
        _ => false,
    };
    if !is_small {
        return Err("a column chunk has numbers of pco that follow from too many others".into());
    }
    let first = keys.len();
    keys.resize(first + wanted.next_multiple_of(FULL_BATCH_N).min(rows), W::default());
    let mut page = chunk.page_decompressor_with_scratch(page, rows, scratch).map_err(wrong)?;
    page.read(&mut keys[first..]).map_err(wrong)?;
    Ok(())
}

fn wrong(error: pco::errors::PcoError) -> String {
    format!("a column chunk has numbers that pco does not read: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pco_writes_the_version_that_chunks_do_not_say() {
        let mut header = Vec::new();
        FileCompressor::default().write_header(&mut header).unwrap();
        assert_eq!(header, VERSION);
    }

    #[test]
    fn few_bytes_ask_for_little_memory() {
        // A dictionary of 2^25 values, and a window of 2^24.
        for bytes in [&[4, 0xff, 0xff, 0xff, 0xff][..], &[0x20, 23, 0, 0, 0, 0, 0, 0]] {
            let mut keys = Vec::<u64>::new();
            assert!(unpack(bytes, 4096, 4096, &mut DecompressorScratch::default(), &mut keys).is_err());
            assert!(keys.capacity() <= 4096);
        }
    }
}
