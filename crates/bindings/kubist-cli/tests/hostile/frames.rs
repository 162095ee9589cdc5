//! Takes the frames of FORMAT.md apart and rebuilds them with correct checksums around changed bytes, like an
//! attacker who knows the format.

use std::collections::BTreeMap;
use std::path::Path;

use kubist::store::{Store, open_local};

const HEADER: usize = 16;
const LOG_HEAD: usize = 12;

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

pub fn object(file: &[u8], change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut value = file[HEADER + 12..].to_vec();
    change(&mut value);
    let length = (value.len() as u64).to_le_bytes();
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&length), &value);
    [&file[..HEADER], &length, &checksum.to_le_bytes(), &value].concat()
}

/// Later frames of the log move.
pub fn log(file: &[u8], which: usize, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let (mut payloads, mut at) = (Vec::new(), HEADER);
    while let Some(length) = u32_at(file, at) {
        let Some(payload) = file.get(at + LOG_HEAD..at + LOG_HEAD + length as usize) else { break };
        payloads.push(payload.to_vec());
        at += LOG_HEAD + length as usize;
    }
    let count = payloads.len().max(1);
    if let Some(payload) = payloads.get_mut(which % count) {
        change(payload);
    }
    let mut made = file[..HEADER].to_vec();
    for payload in payloads {
        let position = (made.len() as u64).to_le_bytes();
        let head = [(payload.len() as u32).to_le_bytes(), crc32c::crc32c(&payload).to_le_bytes()].concat();
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&position), &head);
        made.extend_from_slice(&head);
        made.extend_from_slice(&checksum.to_le_bytes());
        made.extend_from_slice(&payload);
    }
    made
}

pub fn acknowledgement(file: &[u8], length: u64) -> Vec<u8> {
    let length = length.to_le_bytes();
    [&file[..HEADER], &length, &crc32c::crc32c(&length).to_le_bytes()].concat()
}

pub fn version(file: &[u8], version: u32) -> Vec<u8> {
    let mut made = file.to_vec();
    made[8..12].copy_from_slice(&version.to_le_bytes());
    let checksum = crc32c::crc32c(&made[..12]).to_le_bytes();
    made[12..16].copy_from_slice(&checksum);
    made
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum What {
    ZoneMap,
    Postings,
    Page,
    /// Digests of a segment's pages: their page, or the list of locations.
    Digest,
}

/// Bytes of a segment that start with a checksum of the rest.
#[derive(Clone, Debug)]
pub struct Piece {
    pub segment: String,
    pub what: What,
    pub offset: usize,
    pub length: usize,
    /// For a zone map: the location of its run's data.
    pub data: (usize, usize),
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }
    fn u32(&mut self) -> Option<u32> {
        u32_at(self.take(4)?, 0)
    }
    fn u64(&mut self) -> Option<u64> {
        u64_at(self.take(8)?, 0)
    }
    fn text(&mut self) -> Option<String> {
        let length = self.u32()? as usize;
        String::from_utf8(self.take(length)?.to_vec()).ok()
    }
}

pub fn pieces(at: &Path) -> Vec<Piece> {
    let store = open_local(at).expect("a table's folder");
    let header = store.get("table").expect("a sound header").expect("a header");
    let length = u32_at(&header, 0).expect("a length") as usize;
    let json: serde_json::Value = serde_json::from_slice(&header[4..4 + length]).expect("JSON");
    let dimensions = json["dimensions"].as_array().expect("dimensions").len();
    // Dimensions per grid; entries declare the grids after the first.
    let mut grids = BTreeMap::from([(0, dimensions)]);
    let mut found = Vec::new();
    for writer in store.logs().expect("logs") {
        for entry in store.read_log(&writer, 0).expect("a sound log").entries {
            of_entry(&entry.bytes, 17, &mut grids, &mut found);
        }
    }
    for name in store.list("rewrites/").expect("rewrites") {
        of_entry(&store.get(&name).expect("sound").expect("listed"), 1, &mut grids, &mut found);
    }
    for name in store.list("checkpoints/").expect("checkpoints") {
        let bytes = store.get(&name).expect("sound").expect("listed");
        let length = u32_at(&bytes, 0).expect("a length") as usize;
        of_entry(&bytes, 4 + length, &mut grids, &mut found);
    }
    found.retain(|piece| store.segment_len(&piece.segment).is_ok_and(|length| length.is_some()));
    let mut ends = BTreeMap::new();
    for page in found.iter().filter(|piece| piece.what == What::Page) {
        let end = ends.entry(page.segment.clone()).or_insert(0);
        *end = page.offset.saturating_add(page.length).max(*end);
    }
    for (segment, end) in ends {
        let file = std::fs::read(at.join(format!("segments/{segment}.seg"))).expect("a segment");
        let mut head = Cursor(file.get(end..).unwrap_or_default());
        assert_eq!(head.take(4), Some(&b"KDG1"[..]), "pages without a digest");
        let (abstracts, places) = (head.u32().expect("a length") as usize, head.u32().expect("a length") as usize);
        for (offset, length) in [(end + 16, abstracts), (end + 16 + abstracts, places)] {
            if length > 0 {
                found.push(Piece { segment: segment.clone(), what: What::Digest, offset, length, data: (0, 0) });
            }
        }
    }
    found
}

fn of_entry(bytes: &[u8], from: usize, grids: &mut BTreeMap<u32, usize>, found: &mut Vec<Piece>) {
    let mut sections = Cursor(bytes.get(from..).unwrap_or_default());
    while let (Some(tag), Some(length)) = (sections.u16(), sections.u32()) {
        let Some(body) = sections.take(length as usize) else { return };
        let listed = match tag {
            2 => of_runs(Cursor(body), grids, found),
            22 => of_grids(Cursor(body), grids),
            24 => of_pages(Cursor(body), grids, found),
            1 => of_lookups(Cursor(body), found),
            0 => return,
            _ => Some(()),
        };
        assert!(listed.is_some(), "an entry that FORMAT.md does not describe");
    }
}

fn of_grids(mut body: Cursor, grids: &mut BTreeMap<u32, usize>) -> Option<()> {
    while let Some(number) = body.u32() {
        grids.insert(number, body.take(1)?[0] as usize);
    }
    Some(())
}

fn of_pages(mut body: Cursor, grids: &BTreeMap<u32, usize>, found: &mut Vec<Piece>) -> Option<()> {
    while !body.0.is_empty() {
        let (segment, pages) = (body.text()?, body.u32()?);
        for _ in 0..pages {
            let dimensions = *grids.get(&body.u32()?)?;
            let (offset, length) = (body.u64()? as usize, body.u32()? as usize);
            body.take(4 + 1 + 24 + 8 * dimensions)?;
            found.push(Piece { segment: segment.clone(), what: What::Page, offset, length, data: (0, 0) });
        }
    }
    Some(())
}

fn of_runs(mut body: Cursor, grids: &BTreeMap<u32, usize>, found: &mut Vec<Piece>) -> Option<()> {
    let segments: Vec<String> = (0..body.u32()?).map(|_| body.text()).collect::<Option<_>>()?;
    for _ in 0..body.u32()? {
        body.take(16)?;
        // A cube's id starts with the number of its grid.
        let grid = (u128::from_le_bytes(body.take(16)?.try_into().ok()?) >> 104) as u32;
        body.take(24)?;
        let (data, data_length, offset) = (body.u64()? as usize, body.u64()? as usize, body.u64()? as usize);
        let (length, segment) = (body.u32()? as usize, segments.get(body.u32()? as usize)?.clone());
        body.take(8 * grids.get(&grid)?)?;
        let copies = body.u32()? as usize;
        body.take(16 * copies)?;
        found.push(Piece { segment, what: What::ZoneMap, offset, length, data: (data, data_length) });
    }
    Some(())
}

fn of_lookups(mut body: Cursor, found: &mut Vec<Piece>) -> Option<()> {
    for _ in 0..body.u32()? {
        body.take(16 + 4)?;
        let segment = body.text()?;
        for _ in 0..body.u32()? {
            body.u32()?;
            let (blocks, blocks_length) = (body.u64()? as usize, body.u64()? as usize);
            let (offset, length) = (blocks + blocks_length, body.u32()? as usize);
            body.u32()?;
            let data = (blocks, blocks_length);
            found.push(Piece { segment: segment.clone(), what: What::Postings, offset, length, data });
        }
    }
    Some(())
}

pub fn piece(file: &[u8], piece: &Piece, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut made = file.to_vec();
    let bytes = &mut made[piece.offset..piece.offset + piece.length];
    change(&mut bytes[4..]);
    let checksum = crc32c::crc32c(&bytes[4..]).to_le_bytes();
    bytes[..4].copy_from_slice(&checksum);
    made
}

fn varying(bytes: &[u8]) -> Option<(usize, usize)> {
    let count = bytes.iter().take(5).position(|byte| *byte < 0x80)? + 1;
    let number = bytes[..count].iter().rev().fold(0, |number, byte| number << 7 | usize::from(byte & 0x7f));
    Some((number, count))
}

pub fn chunk(file: &[u8], of: &Piece, change: impl FnOnce(&mut [u8])) -> Option<Vec<u8>> {
    let map = file.get(of.offset..of.offset + of.length)?;
    // Finds the chunk's length and checksum in the zone map by their values.
    let (checksum_at, length) = (4..map.len().saturating_sub(4)).find_map(|at| {
        let (length, behind) = varying(&map[at..])?;
        let chunk = file.get(of.data.0..of.data.0 + length).filter(|_| length > 0 && length <= of.data.1)?;
        (u32_at(map, at + behind)? == crc32c::crc32c(chunk)).then_some((at + behind, length))
    })?;
    let mut made = file.to_vec();
    change(&mut made[of.data.0..of.data.0 + length]);
    let checksum = crc32c::crc32c(&made[of.data.0..of.data.0 + length]).to_le_bytes();
    made[of.offset + checksum_at..of.offset + checksum_at + 4].copy_from_slice(&checksum);
    let checksum = crc32c::crc32c(&made[of.offset + 4..of.offset + of.length]).to_le_bytes();
    made[of.offset..of.offset + 4].copy_from_slice(&checksum);
    Some(made)
}
