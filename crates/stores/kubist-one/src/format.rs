//! The bytes of a sealed file: header, footer and tree of names, in pure functions.
//!
//! In a decoded tree, names are valid, sorted and unique, every extent is between the header and the tree, and extents
//! do not overlap. The bytes are not trusted, so no memory is reserved for a count before its entries were read.

use std::collections::BTreeMap;

use crate::extents::{Extent, Extents, Nonce};
use kubist_store::names::{check_object, check_part};

pub const MAGIC: &[u8; 8] = b"KUBI-ONE";
const END_MAGIC: &[u8; 8] = b"KUBI-END";
pub const VERSION: u32 = 1;
pub const HEADER_BYTES: u64 = 32;
pub const FOOTER_BYTES: u64 = 60;
/// Maximum size of an object, a log entry or the tree.
pub const MOST_BYTES: u64 = 1 << 30;

#[derive(Debug, PartialEq, Eq)]
pub enum Wrong {
    /// The magic number is missing, so this is another kind of file.
    Foreign,
    Damaged(u64, String),
    Newer(u32),
}

fn damaged<T>(position: u64, what: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong::Damaged(position, what.into()))
}

pub fn header(nonce: &Nonce) -> [u8; HEADER_BYTES as usize] {
    let mut header = [0; HEADER_BYTES as usize];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    let checksum = crc32c::crc32c(&header[..12]);
    header[12..16].copy_from_slice(&checksum.to_le_bytes());
    header[16..].copy_from_slice(nonce);
    header
}

pub fn read_header(bytes: &[u8]) -> Result<Nonce, Wrong> {
    if !bytes.starts_with(MAGIC) {
        return Err(Wrong::Foreign);
    }
    let Some(header) = bytes.get(..HEADER_BYTES as usize) else {
        return damaged(0, format!("it ends after {} bytes, inside its header", bytes.len()));
    };
    if u32_at(header, 12) != crc32c::crc32c(&header[..12]) {
        return damaged(8, "its header's checksum is wrong");
    }
    check_version(u32_at(header, 8), 8)?;
    Ok(nonce_at(header, 16))
}

fn check_version(found: u32, position: u64) -> Result<(), Wrong> {
    match found {
        VERSION => Ok(()),
        found if found > VERSION => Err(Wrong::Newer(found)),
        found => damaged(position, format!("there is no format version {found}")),
    }
}

/// The end of a file, which gives the position of its tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footer {
    pub nonce: Nonce,
    pub tree: Extent,
}

impl Footer {
    pub fn encode(&self) -> [u8; FOOTER_BYTES as usize] {
        let mut footer = [0; FOOTER_BYTES as usize];
        footer[..8].copy_from_slice(END_MAGIC);
        footer[8..24].copy_from_slice(&self.nonce);
        footer[24..32].copy_from_slice(&self.tree.position.to_le_bytes());
        footer[32..40].copy_from_slice(&self.tree.length.to_le_bytes());
        footer[40..48].copy_from_slice(&(self.tree.end() + FOOTER_BYTES).to_le_bytes());
        footer[48..52].copy_from_slice(&self.tree.checksum.to_le_bytes());
        footer[52..56].copy_from_slice(&VERSION.to_le_bytes());
        let checksum = crc32c::crc32c(&footer[..56]);
        footer[56..].copy_from_slice(&checksum.to_le_bytes());
        footer
    }

    /// Decodes the last bytes of a file of `length` bytes, or returns `Foreign` if they are not a footer.
    pub fn decode(bytes: &[u8], length: u64) -> Result<Footer, Wrong> {
        let Some(at) = length.checked_sub(FOOTER_BYTES) else { return Err(Wrong::Foreign) };
        let Some(footer) = bytes.len().checked_sub(FOOTER_BYTES as usize).and_then(|start| bytes.get(start..)) else {
            return Err(Wrong::Foreign);
        };
        if &footer[..8] != END_MAGIC {
            return Err(Wrong::Foreign);
        }
        if u32_at(footer, 56) != crc32c::crc32c(&footer[..56]) {
            return damaged(at, "its footer's checksum is wrong");
        }
        check_version(u32_at(footer, 52), at + 52)?;
        let of_file = u64_at(footer, 40);
        if of_file != length {
            return damaged(at, format!("it has {length} bytes, but was sealed with {of_file}"));
        }
        let (position, bytes) = (u64_at(footer, 24), u64_at(footer, 32));
        if position < HEADER_BYTES || position.checked_add(bytes) != Some(at) || bytes > MOST_BYTES {
            return damaged(at + 24, format!("its tree cannot be {bytes} bytes at {position}"));
        }
        let tree = Extent { position, length: bytes, checksum: u32_at(footer, 48) };
        Ok(Footer { nonce: nonce_at(footer, 8), tree })
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    pub objects: BTreeMap<String, Extent>,
    pub logs: BTreeMap<String, Log>,
    pub segments: BTreeMap<String, Extents>,
}

/// The entries of a log, with their positions and bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Log {
    pub entries: Vec<(u64, Extent)>,
    /// The position after the last entry.
    pub next: u64,
}

impl Tree {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let count = |out: &mut Vec<u8>, count: usize| out.extend((count as u32).to_le_bytes());
        let name = |out: &mut Vec<u8>, name: &str| {
            out.extend((name.len() as u32).to_le_bytes());
            out.extend(name.as_bytes());
        };
        let extent = |out: &mut Vec<u8>, extent: &Extent| {
            out.extend(extent.position.to_le_bytes());
            out.extend(extent.length.to_le_bytes());
            out.extend(extent.checksum.to_le_bytes());
        };
        count(&mut out, self.objects.len());
        for (object, at) in &self.objects {
            name(&mut out, object);
            extent(&mut out, at);
        }
        count(&mut out, self.logs.len());
        for (writer, log) in &self.logs {
            name(&mut out, writer);
            out.extend(log.next.to_le_bytes());
            count(&mut out, log.entries.len());
            for (position, at) in &log.entries {
                out.extend(position.to_le_bytes());
                extent(&mut out, at);
            }
        }
        count(&mut out, self.segments.len());
        for (segment, extents) in &self.segments {
            name(&mut out, segment);
            count(&mut out, extents.iter().len());
            extents.iter().for_each(|at| extent(&mut out, at));
        }
        out
    }

    /// Decodes a tree whose checksum is correct.
    pub fn decode(bytes: &[u8], position: u64) -> Result<Tree, Wrong> {
        let mut parser = Parser { bytes, at: 0, position };
        let mut tree = Tree::default();
        for _ in 0..parser.u32()? {
            let name = parser.name(&tree.objects, |name| check_object(name).is_ok())?;
            let extent = parser.whole()?;
            tree.objects.insert(name, extent);
        }
        for _ in 0..parser.u32()? {
            let writer = parser.name(&tree.logs, |name| check_part(name).is_ok())?;
            let mut log = Log { entries: Vec::new(), next: parser.u64()? };
            for _ in 0..parser.u32()? {
                let at = parser.u64()?;
                if at >= log.next || log.entries.last().is_some_and(|(before, _)| *before >= at) {
                    return parser.wrong(&format!("the positions of the log of {writer} do not rise"));
                }
                log.entries.push((at, parser.whole()?));
            }
            tree.logs.insert(writer, log);
        }
        for _ in 0..parser.u32()? {
            let segment = parser.name(&tree.segments, |name| check_part(name).is_ok())?;
            let mut extents = Extents::default();
            for _ in 0..parser.u32()? {
                let extent = parser.extent()?;
                if extents.push(extent).is_none() {
                    return parser.wrong(&format!("segment {segment} is too long"));
                }
            }
            tree.segments.insert(segment, extents);
        }
        if parser.at != bytes.len() {
            return parser.wrong("it has more bytes than names");
        }
        match tree.has_overlap() {
            true => parser.wrong("two names have the same bytes"),
            false => Ok(tree),
        }
    }

    /// Whether two extents overlap; without overlap, a file cannot claim more bytes than it has.
    fn has_overlap(&self) -> bool {
        let mut all: Vec<Extent> =
            self.extents().map(|(_, extent)| extent).filter(|extent| extent.length > 0).collect();
        all.sort_unstable_by_key(|extent| extent.position);
        all.windows(2).any(|pair| pair[0].end() > pair[1].position)
    }

    pub fn extents(&self) -> impl Iterator<Item = (String, Extent)> {
        let objects = self.objects.iter().map(|(name, extent)| (name.clone(), *extent));
        let logs = self
            .logs
            .iter()
            .flat_map(|(writer, log)| log.entries.iter().map(move |(_, extent)| (format!("logs/{writer}"), *extent)));
        let segments = self
            .segments
            .iter()
            .flat_map(|(name, extents)| extents.iter().map(move |extent| (format!("segments/{name}"), *extent)));
        objects.chain(logs).chain(segments)
    }
}

struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
    position: u64,
}

impl<'a> Parser<'a> {
    fn wrong<T>(&self, what: &str) -> Result<T, Wrong> {
        damaged(self.position + self.at as u64, format!("its tree of names is wrong: {what}"))
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Wrong> {
        let found = self.at.checked_add(count).and_then(|end| self.bytes.get(self.at..end));
        match found {
            Some(found) => {
                self.at += count;
                Ok(found)
            }
            None => self.wrong("it ends too early"),
        }
    }

    fn u32(&mut self) -> Result<u32, Wrong> {
        Ok(u32_at(self.take(4)?, 0))
    }

    fn u64(&mut self) -> Result<u64, Wrong> {
        Ok(u64_at(self.take(8)?, 0))
    }

    /// Reads a valid name that comes after all names in `before`.
    fn name<T>(&mut self, before: &BTreeMap<String, T>, is_valid: impl Fn(&str) -> bool) -> Result<String, Wrong> {
        let length = self.u32()? as usize;
        let bytes = self.take(length)?;
        let name = std::str::from_utf8(bytes).ok().filter(|name| is_valid(name));
        let Some(name) = name else { return self.wrong("a name is not allowed") };
        match before.last_key_value() {
            Some((last, _)) if last.as_str() >= name => self.wrong("the names are not sorted"),
            _ => Ok(name.to_owned()),
        }
    }

    fn extent(&mut self) -> Result<Extent, Wrong> {
        let (position, length) = (self.u64()?, self.u64()?);
        let checksum = self.u32()?;
        let inside = position >= HEADER_BYTES && position.checked_add(length).is_some_and(|end| end <= self.position);
        match inside {
            true => Ok(Extent { position, length, checksum }),
            false => self.wrong(&format!("{length} bytes at {position} are not in the file")),
        }
    }

    fn whole(&mut self) -> Result<Extent, Wrong> {
        let extent = self.extent()?;
        match extent.length <= MOST_BYTES {
            true => Ok(extent),
            false => self.wrong(&format!("an object has {} bytes, more than {MOST_BYTES}", extent.length)),
        }
    }
}

/// The caller has checked the length.
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

fn nonce_at(bytes: &[u8], at: usize) -> Nonce {
    let mut nonce = [0; 16];
    nonce.copy_from_slice(&bytes[at..at + 16]);
    nonce
}
