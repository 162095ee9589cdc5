//! The index of a large directory of postings: a query for a few keys reads only parts of the directory.

use std::ops::Range;
use std::sync::Arc;

use super::{Block, Directory, MOST_ZONES, STRIDE, get_varint};
use crate::wire::Reader;

const INDEXED_FROM: usize = 64 << 10;
/// Blocks per chunk, the unit of reading of a directory; runs per stretch.
const CHUNK_BLOCKS: usize = 8 * STRIDE;
const STRETCH_RUNS: usize = 1024;
const LOCATED_BYTES: usize = 12;
const HEAD_BYTES: usize = 16;

#[derive(Debug, PartialEq)]
pub struct Index {
    keys: u32,
    zones: u32,
    runs: u32,
    blocks: u32,
    /// Per `STRETCH_RUNS` runs: the number of the first zone, their position in the directory, a checksum.
    stretches: Vec<(u32, u32, u32)>,
    chunks: Vec<Chunk>,
    directory_length: u32,
}

#[derive(Debug, PartialEq)]
struct Chunk {
    first_key: u32,
    begin: u64,
    checksum: u32,
}

/// Encodes the index of a directory; empty if the directory is small or missing.
pub fn encode_index(directory: &[u8]) -> Vec<u8> {
    if directory.len() <= INDEXED_FROM { Vec::new() } else { index_of(directory).unwrap_or_default() }
}

fn index_of(directory: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader::new(directory);
    let (_, runs, blocks, keys) = (reader.u32().ok()?, reader.u32().ok()?, reader.u32().ok()?, reader.u32().ok()?);
    let (mut stretches, mut zones, mut begin) = (Vec::new(), 0u32, HEAD_BYTES);
    for first in (0..runs as usize).step_by(STRETCH_RUNS) {
        let before = zones;
        for _ in first..(first + STRETCH_RUNS).min(runs as usize) {
            zones = zones.checked_add(get_varint(&mut reader).ok()?)?;
        }
        let end = directory.len() - reader.rest().len();
        stretches.push((before, begin as u32, crc32c::crc32c(&directory[begin..end])));
        begin = end;
    }
    let located = reader.bytes(blocks as usize * LOCATED_BYTES).ok()?;
    let mut out = vec![0; 4];
    let put = |word: u32, out: &mut Vec<u8>| out.extend_from_slice(&word.to_le_bytes());
    [keys, zones, runs, blocks].into_iter().for_each(|word| put(word, &mut out));
    for (first, begin, checksum) in stretches {
        [first, begin, checksum].into_iter().for_each(|word| put(word, &mut out));
    }
    let mut begin = 0u64;
    for chunk in located.chunks(CHUNK_BLOCKS * LOCATED_BYTES) {
        put(u32::from_le_bytes(chunk[..4].try_into().ok()?), &mut out);
        out.extend_from_slice(&begin.to_le_bytes());
        put(crc32c::crc32c(chunk), &mut out);
        for block in chunk.chunks(LOCATED_BYTES) {
            begin += u32::from_le_bytes(block[4..8].try_into().ok()?) as u64;
        }
    }
    let checksum = crc32c::crc32c(&out[4..]);
    out[..4].copy_from_slice(&checksum.to_le_bytes());
    Some(out)
}

impl Index {
    /// Decodes the index of a directory of `directory_length` bytes, whose blocks take `blocks_length` bytes.
    ///
    /// # Errors
    ///
    /// A description of the invalid bytes.
    pub fn decode(bytes: &[u8], of_runs: u32, blocks_length: u64, directory_length: u32) -> Result<Index, String> {
        Index::read(bytes, of_runs, blocks_length, directory_length)
            .ok_or_else(|| "the index of a lookup's directory does not match it, or its checksum".into())
    }

    fn read(bytes: &[u8], of_runs: u32, blocks_length: u64, directory_length: u32) -> Option<Index> {
        let mut reader = Reader::new(bytes);
        if reader.u32().ok()? != crc32c::crc32c(reader.rest()) {
            return None;
        }
        let (keys, zones) = (reader.u32().ok()?, reader.u32().ok()?);
        let (runs, blocks) = (reader.u32().ok()?, reader.u32().ok()?);
        let (stretches, chunks) = ((runs as usize).div_ceil(STRETCH_RUNS), (blocks as usize).div_ceil(CHUNK_BLOCKS));
        if runs != of_runs || reader.rest().len() != 12 * stretches + 16 * chunks {
            return None;
        }
        let stretches = (0..stretches).map(|_| Some((reader.u32().ok()?, reader.u32().ok()?, reader.u32().ok()?)));
        let stretches: Vec<(u32, u32, u32)> = stretches.collect::<Option<_>>()?;
        let chunk = |_| {
            let (first_key, begin) = (reader.u32().ok()?, reader.u64().ok()?);
            Some(Chunk { first_key, begin, checksum: reader.u32().ok()? })
        };
        let chunks: Vec<Chunk> = (0..chunks).map(chunk).collect::<Option<_>>()?;
        let index = Index { keys, zones, runs, blocks, stretches, chunks, directory_length };
        let is_sound = index.located()? as usize >= HEAD_BYTES
            && zones <= MOST_ZONES
            && index.stretches.first().map_or(zones == 0, |(first, ..)| *first == 0)
            && index.stretches.is_sorted_by(|one, next| one.0 <= next.0 && one.1 < next.1)
            && index
                .stretches
                .iter()
                .all(|(first, begin, _)| *first <= zones && *begin <= index.located().unwrap_or(0))
            && index.chunks.is_sorted_by(|one, next| one.first_key < next.first_key && one.begin <= next.begin)
            && index.chunks.last().is_none_or(|last| last.begin <= blocks_length.min(1 << 62));
        is_sound.then_some(index)
    }

    fn located(&self) -> Option<u32> {
        self.directory_length.checked_sub(self.blocks.checked_mul(LOCATED_BYTES as u32)?)
    }

    /// Finds the chunks that may contain the ascending keys.
    pub fn chunks_of(&self, keys: &[u32]) -> Vec<usize> {
        let chunk = |key: &u32| self.chunks.partition_point(|chunk| chunk.first_key <= *key).checked_sub(1);
        let mut found: Vec<usize> = keys.iter().filter_map(chunk).collect();
        found.dedup();
        found
    }

    pub fn chunk(&self, chunk: usize) -> Range<u64> {
        let first = self.located().unwrap_or(0) as u64;
        let end = ((chunk + 1) * CHUNK_BLOCKS).min(self.blocks as usize);
        first + (chunk * CHUNK_BLOCKS * LOCATED_BYTES) as u64..first + (end * LOCATED_BYTES) as u64
    }

    /// Treats all runs together as one.
    ///
    /// # Errors
    ///
    /// A description of the invalid bytes.
    pub fn part(&self, chunks: &[usize], bytes: &[impl AsRef<[u8]>]) -> Result<Directory, String> {
        let (mut blocks, mut begins): (Vec<Block>, Vec<u64>) = (Vec::new(), Vec::new());
        for (chunk, bytes) in chunks.iter().zip(bytes) {
            let (listed, bytes) = (&self.chunks[*chunk], bytes.as_ref());
            if crc32c::crc32c(bytes) != listed.checksum {
                return Err("the checksum of a part of a lookup's directory does not match".into());
            }
            // Positions are relative to every `STRIDE`th block; only the last chunk may be shorter.
            let (mut reader, mut offset, mut number) = (Reader::new(bytes), listed.begin, 0);
            while let (Ok(first_key), Ok(length), Ok(checksum)) = (reader.u32(), reader.u32(), reader.u32()) {
                if blocks.last().is_some_and(|before| before.first_key >= first_key) {
                    return Err("the directory of a lookup is not in order".into());
                }
                if number % STRIDE == 0 {
                    begins.push(offset);
                }
                blocks.push(Block { first_key, length, checksum });
                (offset, number) = (offset.saturating_add(length as u64), number + 1);
            }
        }
        Ok(Directory { firsts: vec![0, self.zones], keys: self.keys, blocks, begins })
    }

    /// Finds the stretches that contain the ascending zones.
    pub fn stretches_of(&self, zones: &[u32]) -> Vec<usize> {
        let stretch = |zone: &u32| self.stretches.partition_point(|(first, ..)| first <= zone).checked_sub(1);
        let mut found: Vec<usize> = zones.iter().filter_map(stretch).collect();
        found.dedup();
        found
    }

    pub fn stretch(&self, stretch: usize) -> Range<u64> {
        let end = self.stretches.get(stretch + 1).map(|(_, begin, _)| *begin).or(self.located());
        self.stretches[stretch].1 as u64..end.unwrap_or(0) as u64
    }

    /// Returns a stretch's first run, the first zone numbers of its runs, and then the zone after the last.
    ///
    /// # Errors
    ///
    /// A description of the invalid bytes.
    pub fn firsts(&self, stretch: usize, bytes: &[u8]) -> Result<(u32, Vec<u32>), String> {
        let (first, _, checksum) = self.stretches[stretch];
        let wrong = || "what the directory of a lookup says of its runs does not fit its index".to_string();
        if crc32c::crc32c(bytes) != checksum {
            return Err(wrong());
        }
        let run = stretch * STRETCH_RUNS;
        let (mut reader, mut firsts) = (Reader::new(bytes), vec![first]);
        for _ in run..(run + STRETCH_RUNS).min(self.runs as usize) {
            let zones = get_varint(&mut reader).map_err(|_| wrong())?;
            let last = firsts.last().copied().unwrap_or_default();
            firsts.push(last.checked_add(zones).filter(|zones| *zones <= self.zones).ok_or_else(wrong)?);
        }
        let end = self.stretches.get(stretch + 1).map_or(self.zones, |(next, ..)| *next);
        if firsts.last() != Some(&end) {
            return Err(wrong());
        }
        Ok((run as u32, firsts))
    }

    pub fn memory(&self) -> usize {
        128 + self.stretches.len() * 12 + self.chunks.len() * size_of::<Chunk>()
    }
}

#[derive(Debug)]
pub enum Guide {
    Directory(Arc<Directory>),
    Index(Index),
}

impl From<Directory> for Guide {
    fn from(directory: Directory) -> Guide {
        Guide::Directory(Arc::new(directory))
    }
}

impl Guide {
    pub fn memory(&self) -> usize {
        match self {
            Guide::Directory(directory) => directory.memory(),
            Guide::Index(index) => index.memory(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{encoded, read};
    use super::*;

    #[test]
    fn an_index_leads_to_what_the_directory_says() {
        let mut state = 7u64;
        let mut random = |below: u32| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((state >> 33) as u32) % below
        };
        let zones: Vec<u32> = (0..2500).map(|_| random(300)).collect();
        let total: u32 = zones.iter().sum();
        let mut pairs: Vec<u64> =
            (0..400_000).map(|_| (random(u32::MAX) as u64) << 33 | random(total) as u64).collect();
        pairs.sort_unstable();
        pairs.dedup();
        let (blocks, bytes) = encoded(1, &pairs, &zones);
        let directory = Directory::decode(&bytes, 2500, blocks.len() as u64).unwrap();
        let index_bytes = index_of(&bytes).unwrap();
        let index = Index::decode(&index_bytes, 2500, blocks.len() as u64, bytes.len() as u32).unwrap();
        assert!(index.chunks.len() > 3 && index.stretches.len() == 3);
        let at = |place: Range<u64>| &bytes[place.start as usize..place.end as usize];
        for turn in 0..200 {
            let mut keys: Vec<u32> = (0..1 + turn % 7).map(|_| random(u32::MAX)).collect();
            keys.extend((0..turn % 5).map(|_| (pairs[random(pairs.len() as u32) as usize] >> 32) as u32));
            keys.extend([0, u32::MAX]);
            keys.sort_unstable();
            keys.dedup();
            let chunks = index.chunks_of(&keys);
            let of_chunks: Vec<&[u8]> = chunks.iter().map(|chunk| at(index.chunk(*chunk))).collect();
            let part = index.part(&chunks, &of_chunks).unwrap();
            assert_eq!(read(&part, &blocks, &keys).unwrap(), read(&directory, &blocks, &keys).unwrap());
        }
        let all: Vec<u32> = (0..total).collect();
        let mut firsts = vec![0];
        for stretch in index.stretches_of(&all) {
            let (run, of_stretch) = index.firsts(stretch, at(index.stretch(stretch))).unwrap();
            assert_eq!((run as usize, of_stretch[0]), (stretch * STRETCH_RUNS, firsts[firsts.len() - 1]));
            firsts.extend(&of_stretch[1..]);
        }
        assert_eq!(firsts, directory.firsts);
        for _ in 0..300 {
            let mut damaged = index_bytes.clone();
            damaged[random(index_bytes.len() as u32) as usize] ^= 1 << random(8);
            assert!(Index::decode(&damaged, 2500, blocks.len() as u64, bytes.len() as u32).is_err());
        }
        assert!(Index::decode(&index_bytes, 2501, blocks.len() as u64, bytes.len() as u32).is_err());
        assert!(Index::decode(&index_bytes, 2500, blocks.len() as u64, 3).is_err());
        let mut part = at(index.chunk(1)).to_vec();
        part[100] ^= 4;
        assert!(index.part(&[1], &[part]).is_err());
        let mut stretch = at(index.stretch(1)).to_vec();
        stretch[10] ^= 1;
        assert!(index.firsts(1, &stretch).is_err());
    }
}
