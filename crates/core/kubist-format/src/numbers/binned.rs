//! Encodes the keys of a page as bins of pco (FORMAT.md, Chunk). Bins take fewer bytes for data whose only pattern is
//! its distribution, but must be read value by value from the beginning.
//!
//! pco reports invalid bytes if it knows the number of rows. Bytes that would allocate too much memory are refused
//! first.

use pco::metadata::DeltaEncoding;
use pco::wrapped::{FileCompressor, FileDecompressor};
use pco::{ChunkConfig, DecompressorScratch, DeltaSpec, FULL_BATCH_N, ModeSpec, PagingSpec};

use crate::bits::Word;
use crate::zone_map::MOST_PAGE_ROWS;

/// The version of the pco format, which chunks do not contain.
const VERSION: [u8; 2] = [4, 1];
/// Lowest four bits for numbers without a common multiple and without a dictionary.
const CLASSIC: u8 = 0;
/// Compression level of pco; a higher one takes twice the time to save one byte in a thousand.
const LEVEL: usize = 8;
/// Lookback, the search for earlier equal keys, takes as long as all other steps, and saves almost nothing if fewer
/// than one key in `WORTH` is repeated.
const WORTH: usize = 8;

pub(super) fn packed<W: Word>(keys: &[W], most_bytes: usize) -> Option<Vec<u8>> {
    let back = (WORTH * repeated(keys) >= keys.len()).then_some(DeltaSpec::TryLookback);
    let each = [DeltaSpec::NoOp, DeltaSpec::TryConsecutive(1)].into_iter().chain(back);
    let all = each.filter_map(|delta| packed_by(keys, delta));
    all.filter(|bytes| bytes.len() < most_bytes).min_by_key(Vec::len)
}

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

/// Appends the keys of at least the first `wanted` rows of a page of `rows` rows.
pub(super) fn unpack<W: Word>(
    bytes: &[u8],
    rows: usize,
    wanted: usize,
    scratch: &mut DecompressorScratch,
    keys: &mut Vec<W>,
) -> Result<(), String> {
    if bytes.first().is_none_or(|first| first & 0xf != CLASSIC) {
        return Err("a column chunk uses a mode of pco that Kubist does not read".into());
    }
    let (file, _) = FileDecompressor::new(&VERSION[..]).map_err(wrong)?;
    let (chunk, page) = file.chunk_decompressor::<W, _>(bytes).map_err(wrong)?;
    let is_small = match &chunk.meta().delta_encoding {
        DeltaEncoding::NoOp | DeltaEncoding::Consecutive { .. } => true,
        DeltaEncoding::Lookback { config, .. } => 1 << config.window_n_log <= MOST_PAGE_ROWS,
        _ => false,
    };
    if !is_small {
        return Err("a column chunk uses a delta encoding of pco that Kubist does not read".into());
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
        for bytes in [&[4, 0xff, 0xff, 0xff, 0xff][..], &[0x20, 23, 0, 0, 0, 0, 0, 0]] {
            let mut keys = Vec::<u64>::new();
            assert!(unpack(bytes, 4096, 4096, &mut DecompressorScratch::default(), &mut keys).is_err());
            assert!(keys.capacity() <= 4096);
        }
    }
}
