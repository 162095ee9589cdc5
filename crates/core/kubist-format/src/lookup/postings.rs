//! Postings: for each key the ascending numbers of the zones that contain it (FORMAT.md, Postings).
//!
//! Keys are uniform, so their gaps are Rice codes. Zones are coded by bisection (binary interpolative coding,
//! Moffat and Stuiver 2000): scattered zones take about their entropy, clustered zones less, and zones without
//! gaps nothing.

mod index;

use std::ops::Range;

use rayon::prelude::*;

use crate::wire::{Reader, UnexpectedEnd};
pub use index::{Guide, Index, encode_index};

/// A block ends with the key that fills this many bytes, so that a search decodes few keys.
const BLOCK_BYTES: usize = 1024;

pub struct Encoded {
    pub blocks: Vec<Vec<u8>>,
    pub directory: Vec<u8>,
}

#[derive(Debug, PartialEq)]
pub struct Directory {
    /// The number of the first zone per run, then the total number of zones.
    pub firsts: Vec<u32>,
    /// The exact or approximate number of keys, which determines the code of the gaps.
    keys: u32,
    blocks: Vec<Block>,
    /// Position of every `STRIDE`th block, from the first block.
    begins: Vec<u64>,
}

#[derive(Debug, PartialEq)]
struct Block {
    first_key: u32,
    length: u32,
    checksum: u32,
}

/// Number of blocks per stored position; directories stay in memory, so they store few positions.
const STRIDE: usize = 32;

/// Bits of a gap's remainder, for `keys` uniform keys.
fn gap_bits(keys: u32) -> u32 {
    31 - keys.max(1).ilog2()
}

/// Encodes pairs `key << 32 | zone`; `zones` has the number of zones per run. Pairs of a part may be unsorted
/// and repeated, but its keys are above those of the part before.
pub fn encode(parts: Vec<Vec<u64>>, zones: &[u32]) -> Encoded {
    let mut encoder = Encoder::new(zones, 1);
    let blocks = encoder.add(parts);
    Encoded { blocks, directory: encoder.finish() }
}

pub struct Encoder<'a> {
    zones: &'a [u32],
    pieces: u32,
    keys: Option<u32>,
    located: Vec<[u32; 3]>,
}

impl Encoder<'_> {
    /// `zones` has the number of zones per run. Each piece covers an equal part of the range of keys.
    pub fn new(zones: &[u32], pieces: u32) -> Encoder<'_> {
        Encoder { zones, pieces, keys: None, located: Vec::new() }
    }

    /// Encodes the blocks of the next piece, from parts as in [`encode`].
    pub fn add(&mut self, mut parts: Vec<Vec<u64>>) -> Vec<Vec<u8>> {
        parts.par_iter_mut().for_each(|pairs| {
            pairs.sort_unstable();
            pairs.dedup();
        });
        let count = || parts.par_iter().map(|pairs| of_keys(pairs).count()).sum::<usize>() as u32;
        // If the first of several pieces is empty, the others may have keys.
        let least = u32::from(self.pieces > 1);
        let keys = *self.keys.get_or_insert_with(|| count().saturating_mul(self.pieces).max(least));
        let zones = self.zones.iter().sum();
        let encoded: Vec<Blocks> = parts.par_iter().map(|pairs| encode_blocks(pairs, keys, zones)).collect();
        self.located.extend(encoded.iter().flat_map(|blocks| &blocks.located));
        encoded.into_iter().map(|blocks| blocks.bytes).collect()
    }

    pub fn finish(self) -> Vec<u8> {
        let mut directory = vec![0; 4];
        // Raised to the number of blocks, if that does not change the code of the gaps.
        let (keys, blocks) = (self.keys.unwrap_or(0), self.located.len() as u32);
        let keys = keys.max(blocks.min(u32::MAX >> keys.leading_zeros().min(31)));
        for word in [self.zones.len() as u32, blocks, keys] {
            directory.extend_from_slice(&word.to_le_bytes());
        }
        self.zones.iter().for_each(|zones| put_varint(*zones, &mut directory));
        self.located.iter().flatten().for_each(|word| directory.extend_from_slice(&word.to_le_bytes()));
        let checksum = crc32c::crc32c(&directory[4..]);
        directory[..4].copy_from_slice(&checksum.to_le_bytes());
        directory
    }
}

#[derive(Default)]
struct Blocks {
    bytes: Vec<u8>,
    located: Vec<[u32; 3]>,
}

fn key_of(pair: &u64) -> u32 {
    (pair >> 32) as u32
}

fn of_keys(pairs: &[u64]) -> impl Iterator<Item = &[u64]> {
    pairs.chunk_by(|a, b| key_of(a) == key_of(b))
}

/// Encodes ascending distinct pairs.
fn encode_blocks(pairs: &[u64], keys: u32, zone_count: u32) -> Blocks {
    let mut blocks = Blocks::default();
    let (mut bits, mut count, mut first, mut last, mut zones) = (Writer::default(), 0u32, 0, 0, Vec::new());
    let mut of_keys = of_keys(pairs).peekable();
    let mut numbers = 0;
    while let Some(of_key) = of_keys.next() {
        let key = key_of(&of_key[0]);
        numbers += of_key.len();
        match count {
            0 => first = key,
            _ => bits.put_gap(key - last - 1, gap_bits(keys)),
        }
        (last, count) = (key, count + 1);
        bits.put_count(of_key.len() as u32);
        zones.clear();
        zones.extend(of_key.iter().map(|pair| *pair as u32));
        bits.put_ascending(&zones, 0, zone_count - 1);
        let is_last = of_keys.peek().is_none_or(|next| numbers + next.len() > MOST_ZONES as usize);
        if bits.bytes.len() >= BLOCK_BYTES || is_last {
            let begin = blocks.bytes.len();
            blocks.bytes.extend_from_slice(&count.to_le_bytes());
            blocks.bytes.append(&mut std::mem::take(&mut bits).finish());
            let block = &blocks.bytes[begin..];
            blocks.located.push([first, block.len() as u32, crc32c::crc32c(block)]);
            (count, numbers) = (0, 0);
        }
    }
    blocks
}

/// Limit of zones, which bounds the memory and time that a few invalid bytes can cause.
pub const MOST_ZONES: u32 = 1 << 25;

impl Directory {
    /// Decodes a directory of `runs` runs whose blocks take `blocks_length` bytes.
    ///
    /// # Errors
    ///
    /// A description of the invalid bytes.
    pub fn decode(bytes: &[u8], runs: u32, blocks_length: u64) -> Result<Directory, String> {
        let mut reader = Reader::new(bytes);
        let short = |_: UnexpectedEnd| "the directory of a lookup ends too early".to_string();
        if reader.u32().map_err(short)? != crc32c::crc32c(&bytes[4..]) {
            return Err("the checksum of a lookup's directory does not match".into());
        }
        let wrong = || "the directory of a lookup does not fit its entry".to_string();
        let (found, count, keys) =
            (reader.u32().map_err(short)?, reader.u32().map_err(short)?, reader.u32().map_err(short)?);
        if found != runs {
            return Err(wrong());
        }
        let mut firsts = vec![0u32];
        for _ in 0..runs {
            let zones = get_varint(&mut reader).map_err(short)?;
            let last = firsts.last().copied().unwrap_or_default();
            firsts.push(last.checked_add(zones).filter(|zones| *zones <= MOST_ZONES).ok_or_else(wrong)?);
        }
        let (mut blocks, mut begins, mut offset) = (Vec::new(), Vec::new(), 0);
        for number in 0..count as usize {
            let first_key = reader.u32().map_err(short)?;
            let (length, checksum) = (reader.u32().map_err(short)?, reader.u32().map_err(short)?);
            if blocks.last().is_some_and(|before: &Block| before.first_key >= first_key) {
                return Err(wrong());
            }
            if number % STRIDE == 0 {
                begins.push(offset);
            }
            blocks.push(Block { first_key, length, checksum });
            offset += length as u64;
        }
        if offset != blocks_length || !reader.is_empty() {
            return Err(wrong());
        }
        Ok(Directory { firsts, keys, blocks, begins })
    }

    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub fn place(&self, block: usize) -> Range<u64> {
        let before = self.blocks[block / STRIDE * STRIDE..block].iter();
        let begin = self.begins[block / STRIDE] + before.map(|block| block.length as u64).sum::<u64>();
        begin..begin + self.blocks[block].length as u64
    }

    /// The blocks that may contain the keys, which must be in ascending order.
    pub fn blocks_of(&self, keys: &[u32]) -> Vec<usize> {
        let mut blocks: Vec<usize> = keys.iter().filter_map(|key| self.block_of(*key)).collect();
        blocks.dedup();
        blocks
    }

    pub fn blocks_between(&self, first: u32, last: u32) -> Range<usize> {
        self.block_of(first).unwrap_or(0)..self.block_of(last).map_or(0, |block| block + 1)
    }

    /// Finds a key's block. Keys are uniform, so the search starts at the position proportional to the key, which
    /// avoids most memory accesses.
    fn block_of(&self, key: u32) -> Option<usize> {
        let blocks = &self.blocks[..];
        let is_before = |block: &Block| block.first_key <= key;
        let near = (key as u64 * blocks.len() as u64 >> 32) as usize;
        let (mut low, mut high, mut step) = (near, near, 4);
        while low > 0 && !is_before(&blocks[low]) {
            low = low.saturating_sub(step);
            step *= 4;
        }
        while high < blocks.len() && is_before(&blocks[high]) {
            high = (high + step).min(blocks.len());
            step *= 4;
        }
        (low + blocks[low..high].partition_point(is_before)).checked_sub(1)
    }

    /// Calls `found(key, zones)` for each key of a block, or only for the ascending `wanted` keys.
    ///
    /// # Errors
    ///
    /// A description of the problem: a wrong checksum, invalid postings, or no such block.
    pub fn read_block(
        &self,
        block: usize,
        bytes: &[u8],
        wanted: Option<&[u32]>,
        found: &mut dyn FnMut(u32, &[u32]),
    ) -> Result<(), String> {
        let listed = self.blocks.get(block).ok_or_else(|| format!("a lookup has no block {block}"))?;
        if bytes.len() != listed.length as usize || crc32c::crc32c(bytes) != listed.checksum {
            return Err(format!("the checksum of block {block} of a lookup does not match"));
        }
        self.decode_block(block, bytes, wanted, found)
            .ok_or_else(|| format!("block {block} of a lookup makes no sense"))
    }

    fn decode_block(
        &self,
        block: usize,
        bytes: &[u8],
        wanted: Option<&[u32]>,
        found: &mut dyn FnMut(u32, &[u32]),
    ) -> Option<()> {
        let last_zone = self.firsts.last()?.checked_sub(1)?;
        let (count, body) = bytes.split_at_checked(4)?;
        let count = u32::from_le_bytes(count.try_into().ok()?);
        let (mut bits, mut key, mut zones) = (Bits::new(body), self.blocks[block].first_key, Vec::new());
        let end = self.blocks.get(block + 1).map_or(u32::MAX, |next| next.first_key - 1);
        let mut left = MOST_ZONES;
        let wanted = wanted.map(|wanted| &wanted[..wanted.partition_point(|key| *key <= end)]);
        let last_wanted = wanted.map_or(u32::MAX, |wanted| wanted.last().copied().unwrap_or_default());
        let single = Single::new(gap_bits(self.keys), last_zone);
        for number in 0..count {
            if number > 0 {
                if let Some((gap, zone)) = bits.single(&single) {
                    key = key.checked_add(gap)?.checked_add(1).filter(|key| *key <= end)?;
                    if key > last_wanted {
                        break;
                    }
                    if wanted.is_none_or(|wanted| wanted.binary_search(&key).is_ok()) {
                        found(key, &[zone]);
                    }
                    continue;
                }
                let gap = bits.gap(single.gap_bits)?;
                key = key.checked_add(gap)?.checked_add(1).filter(|key| *key <= end)?;
            }
            if key > last_wanted {
                break;
            }
            let numbers = bits.count()?;
            zones.clear();
            if numbers == 0 || numbers - 1 > last_zone {
                return None;
            }
            left = left.checked_sub(numbers)?;
            bits.ascending(numbers, 0, last_zone, &mut zones)?;
            if wanted.is_none_or(|wanted| wanted.binary_search(&key).is_ok()) {
                found(key, &zones);
            }
        }
        Some(())
    }

    pub fn memory(&self) -> usize {
        64 + self.firsts.len() * 4 + self.blocks.len() * size_of::<Block>() + self.begins.len() * 8
    }
}

fn put_varint(mut value: u32, out: &mut Vec<u8>) {
    while value >= 128 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
}

fn get_varint(reader: &mut Reader<'_>) -> Result<u32, UnexpectedEnd> {
    let mut value = 0u64;
    for shift in (0..35).step_by(7) {
        let byte = reader.u8()?;
        value |= (byte as u64 & 127) << shift;
        if byte < 128 {
            return u32::try_from(value).map_err(|_| UnexpectedEnd);
        }
    }
    Err(UnexpectedEnd)
}

/// The bits of a number below `range`, and the number of values that take a bit less.
fn minimal(range: u64) -> (u32, u64) {
    let width = 64 - (range - 1).leading_zeros();
    (width, (1u64 << width) - range)
}

#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
    pending: u64,
    filled: u32,
}

impl Writer {
    /// Appends the lowest `width` bits; higher bits must be zero, and `width <= 32`.
    fn put(&mut self, value: u64, width: u32) {
        self.pending |= value << self.filled;
        self.filled += width;
        if self.filled >= 32 {
            self.bytes.extend_from_slice(&(self.pending as u32).to_le_bytes());
            self.pending >>= 32;
            self.filled -= 32;
        }
    }

    fn put_unary(&mut self, mut zeros: u32) {
        while zeros >= 32 {
            self.put(0, 32);
            zeros -= 32;
        }
        self.put(0, zeros);
        self.put(1, 1);
    }

    fn put_gap(&mut self, gap: u32, bits: u32) {
        self.put_unary((gap as u64 >> bits) as u32);
        self.put(gap as u64 & ((1 << bits) - 1), bits);
    }

    /// Appends a number of at least 1 (Elias gamma code).
    fn put_count(&mut self, count: u32) {
        let width = count.ilog2();
        self.put_unary(width);
        self.put(count as u64 & ((1 << width) - 1), width);
    }

    /// Appends a number below `range` in the fewest bits.
    fn put_below(&mut self, value: u64, range: u64) {
        let (width, shorter) = minimal(range);
        match value < shorter {
            true => self.put(value, width - 1),
            false if width > 0 => {
                let value = value + shorter;
                self.put(value >> 1, width - 1);
                self.put(value & 1, 1);
            }
            false => {}
        }
    }

    /// Appends ascending distinct numbers between `low` and `high`: the middle one, then both halves.
    fn put_ascending(&mut self, numbers: &[u32], low: u32, high: u32) {
        let middle = numbers.len() / 2;
        let Some(number) = numbers.get(middle) else { return };
        let least = low + middle as u32;
        let most = high - (numbers.len() - 1 - middle) as u32;
        self.put_below((number - least) as u64, (most - least) as u64 + 1);
        if middle > 0 {
            self.put_ascending(&numbers[..middle], low, number - 1);
        }
        if middle + 1 < numbers.len() {
            self.put_ascending(&numbers[middle + 1..], number + 1, high);
        }
    }

    fn finish(mut self) -> Vec<u8> {
        self.bytes.extend_from_slice(&self.pending.to_le_bytes()[..self.filled.div_ceil(8) as usize]);
        self.bytes
    }
}

struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

struct Single {
    gap_bits: u32,
    width: u32,
    shorter: u64,
}

impl Single {
    fn new(gap_bits: u32, last_zone: u32) -> Single {
        let (width, shorter) = minimal(last_zone as u64 + 1);
        Single { gap_bits, width, shorter }
    }
}

impl<'a> Bits<'a> {
    fn new(bytes: &'a [u8]) -> Bits<'a> {
        Bits { bytes, at: 0 }
    }

    fn get(&mut self, width: u32) -> Option<u64> {
        let end = self.at + width as usize;
        if end > self.bytes.len() * 8 {
            return None;
        }
        let rest = &self.bytes[self.at / 8..];
        let word = match rest.first_chunk::<8>() {
            Some(bytes) => u64::from_le_bytes(*bytes),
            None => rest.iter().rev().fold(0, |word, byte| word << 8 | *byte as u64),
        };
        let value = (word >> (self.at % 8)) & ((1 << width) - 1);
        self.at = end;
        Some(value)
    }

    /// Reads the gap to the next key, and its zone, if there is only one zone and the code fits in 8 bytes.
    fn single(&mut self, coded: &Single) -> Option<(u32, u32)> {
        let word = u64::from_le_bytes(*self.bytes.get(self.at / 8..)?.first_chunk::<8>()?) >> (self.at % 8);
        let known = 64 - (self.at % 8) as u32;
        let zeros = word.trailing_zeros();
        let Single { gap_bits, width, shorter } = *coded;
        if width == 0 || zeros + gap_bits + width + 2 > known {
            return None;
        }
        let rest = word >> (zeros + 1);
        let gap = u32::try_from((zeros as u64) << gap_bits | rest & ((1 << gap_bits) - 1)).ok()?;
        let rest = rest >> gap_bits;
        if rest & 1 == 0 {
            return None;
        }
        let rest = rest >> 1;
        let high = rest & ((1 << (width - 1)) - 1);
        let (zone, last) = match high < shorter {
            true => (high, 0),
            false => ((high << 1 | rest >> (width - 1) & 1) - shorter, 1),
        };
        self.at += (zeros + 1 + gap_bits + width + last) as usize;
        Some((gap, zone as u32))
    }

    fn unary(&mut self) -> Option<u32> {
        let mut zeros = 0;
        loop {
            let width = (self.bytes.len() * 8 - self.at).min(32) as u32;
            let found = self.get(width).filter(|_| width > 0)?.trailing_zeros();
            if found < width {
                self.at -= (width - found - 1) as usize;
                return Some(zeros + found);
            }
            zeros += width;
        }
    }

    fn gap(&mut self, bits: u32) -> Option<u32> {
        let high = self.unary()? as u64;
        u32::try_from(high << bits | self.get(bits)?).ok()
    }

    fn count(&mut self) -> Option<u32> {
        let width = self.unary().filter(|width| *width < 32)?;
        Some(1 << width | self.get(width)? as u32)
    }

    fn below(&mut self, range: u64) -> Option<u64> {
        let (width, shorter) = minimal(range);
        if width == 0 {
            return Some(0);
        }
        let high = self.get(width - 1)?;
        if high < shorter { Some(high) } else { Some((high << 1 | self.get(1)?) - shorter) }
    }

    fn ascending(&mut self, count: u32, low: u32, high: u32, out: &mut Vec<u32>) -> Option<()> {
        let middle = count / 2;
        let least = low + middle;
        let most = high - (count - 1 - middle);
        let number = least + self.below((most - least) as u64 + 1)? as u32;
        if middle > 0 {
            self.ascending(middle, low, number - 1, out)?;
        }
        out.push(number);
        if middle + 1 < count {
            self.ascending(count - 1 - middle, number + 1, high, out)?;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    pub(super) fn encoded(parts: u64, pairs: &[u64], zones: &[u32]) -> (Vec<u8>, Vec<u8>) {
        let mut of_parts = vec![Vec::new(); parts as usize];
        for pair in pairs.iter().rev().chain(pairs) {
            of_parts[((pair >> 32) * parts >> 32) as usize].push(*pair);
        }
        let Encoded { blocks, directory } = encode(of_parts, zones);
        (blocks.concat(), directory)
    }

    fn encoded_in_pieces(pieces: u32, pairs: &[u64], zones: &[u32]) -> (Vec<u8>, Vec<u8>) {
        let (mut encoder, mut blocks) = (Encoder::new(zones, pieces), Vec::new());
        for piece in 0..pieces as u64 {
            let is_of_piece = |pair: &&u64| (*pair >> 32) * pieces as u64 >> 32 == piece;
            blocks.extend(encoder.add(vec![pairs.iter().rev().filter(is_of_piece).copied().collect()]).concat());
        }
        (blocks, encoder.finish())
    }

    fn bytes_of<'a>(directory: &Directory, block: usize, blocks: &'a [u8]) -> &'a [u8] {
        let place = directory.place(block);
        &blocks[place.start as usize..place.end as usize]
    }

    pub(super) fn read(
        directory: &Directory,
        blocks: &[u8],
        wanted: &[u32],
    ) -> Result<BTreeMap<u32, Vec<u32>>, String> {
        let mut all = BTreeMap::new();
        for block in directory.blocks_of(wanted) {
            let bytes = bytes_of(directory, block, blocks);
            directory.read_block(block, bytes, Some(wanted), &mut |key, zones| {
                assert!(all.insert(key, zones.to_vec()).is_none());
            })?;
        }
        Ok(all)
    }

    fn truth(pairs: &[u64]) -> BTreeMap<u32, Vec<u32>> {
        let mut all: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        pairs.iter().for_each(|pair| all.entry((pair >> 32) as u32).or_default().push(*pair as u32));
        all
    }

    proptest! {
        #[test]
        fn every_key_is_found_with_its_zones(
            zones in prop::collection::vec(0u32..300, 1..40),
            spread in prop::sample::select(vec![1u32, 3, 1000, u32::MAX]),
            rows in prop::collection::vec((any::<u32>(), any::<u32>()), 0..4000),
            absent in any::<u32>(),
            parts in 1u64..5,
        ) {
            let total: u32 = zones.iter().sum::<u32>().max(1);
            let zones = if zones.iter().all(|zones| *zones == 0) { vec![1] } else { zones };
            let mut pairs: Vec<u64> =
                rows.iter().map(|(key, zone)| ((key % spread) as u64) << 32 | (zone % total) as u64).collect();
            pairs.sort_unstable();
            pairs.dedup();
            let (blocks, directory) = encoded(parts, &pairs, &zones);
            let decoded = Directory::decode(&directory, zones.len() as u32, blocks.len() as u64).unwrap();
            let expected = truth(&pairs);
            let keys: Vec<u32> = expected.keys().copied().collect();
            prop_assert_eq!(&read(&decoded, &blocks, &keys).unwrap(), &expected);
            let (blocks, directory) = encoded_in_pieces(1 << parts, &pairs, &zones);
            let decoded = Directory::decode(&directory, zones.len() as u32, blocks.len() as u64).unwrap();
            prop_assert_eq!(&read(&decoded, &blocks, &keys).unwrap(), &expected);
            let (first, last) = (absent / 2, absent);
            let between = decoded.blocks_between(first, last);
            for (block, listed) in decoded.blocks.iter().enumerate() {
                let end = decoded.blocks.get(block + 1).map_or(u32::MAX, |next| next.first_key - 1);
                prop_assert!(between.contains(&block) || end < first || listed.first_key > last);
            }
            if !expected.contains_key(&absent) {
                prop_assert!(read(&decoded, &blocks, &[absent]).unwrap().is_empty());
            }
        }

        #[test]
        fn other_bytes_are_refused_and_never_panic(flip in any::<prop::sample::Index>(), bit in 0u8..8) {
            let pairs: Vec<u64> = (0..3000u64).map(|i| (i / 7 * 9_000_000) << 32 | (i % 7 * 11)).collect();
            let (mut blocks, mut directory) = encoded(1, &pairs, &[50, 50]);
            let length = blocks.len() as u64;
            let keys: Vec<u32> = truth(&pairs).into_keys().collect();
            let sound = Directory::decode(&directory, 2, length).unwrap();
            let byte = flip.index(blocks.len());
            blocks[byte] ^= 1 << bit;
            prop_assert!(read(&sound, &blocks, &keys).is_err());
            let beyond = sound.read_block(sound.len(), &[], None, &mut |_, _| ());
            prop_assert!(beyond.is_err());
            // Also with a correct checksum.
            for block in 0..sound.len() {
                let bytes = bytes_of(&sound, block, &blocks);
                let _ = sound.decode_block(block, bytes, None, &mut |_, _| {});
            }
            let byte = flip.index(directory.len());
            directory[byte] ^= 1 << bit;
            prop_assert!(Directory::decode(&directory, 2, length).is_err());
            let checksum = crc32c::crc32c(&directory[4..]);
            directory[..4].copy_from_slice(&checksum.to_le_bytes());
            let _ = Directory::decode(&directory, 2, length);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_read(
            runs in 0u32..4, listed in 0u32..3, keys in 0u32..9, zones in prop::collection::vec(0u8..9, 0..4),
            body in prop::collection::vec(any::<u8>(), 0..40), block in 0usize..3,
        ) {
            let mut directory = [0, runs, listed, keys].map(u32::to_le_bytes).concat();
            directory.extend(zones);
            for block in 0..listed {
                directory.extend([block, body.len() as u32, crc32c::crc32c(&body)].map(u32::to_le_bytes).concat());
            }
            let checksum = crc32c::crc32c(&directory[4..]);
            directory[..4].copy_from_slice(&checksum.to_le_bytes());
            if let Ok(directory) = Directory::decode(&directory, runs, body.len() as u64 * u64::from(listed)) {
                let _ = directory.read_block(block, &body, None, &mut |_, _| ());
            }
        }
    }

    #[test]
    fn postings_cost_about_their_entropy() {
        // 2,000 keys in 100 of 50,000 zones each, at random: log2(500) + 1.44 bits.
        let mut pairs: Vec<u64> = (0..200_000u64)
            .map(|i| {
                let hash = xxh(i);
                (xxh(i / 100) >> 32 << 32) | (hash % 50_000)
            })
            .collect();
        pairs.sort_unstable();
        pairs.dedup();
        let (blocks, directory) = encoded(4, &pairs, &[50; 1000]);
        let bits = (blocks.len() + directory.len()) as f64 * 8.0 / pairs.len() as f64;
        assert!(bits < 11.5, "{bits}");
        let dense: Vec<u64> = (0..50_000).collect();
        assert!(encoded(1, &dense, &[50; 1000]).0.len() < 16);
    }

    fn xxh(value: u64) -> u64 {
        kubist_index::priority::name_hash(&value.to_string())
    }
}
