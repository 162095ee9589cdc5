//! A subset of the ZIP format that reads the members of an NPZ file as streams. It supports the central directory,
//! stored and deflated members, and the 64-bit extension that NumPy always writes.

use std::fs::File;
use std::io::{BufReader, Error, ErrorKind, Read, Result, Seek, SeekFrom};

use flate2::Crc;
use flate2::read::DeflateDecoder;

#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    pub name: String,
    /// Number of inflated bytes.
    pub bytes: u64,
    compressed_bytes: u64,
    deflated: bool,
    checksum: u32,
    header_offset: u64,
}

const END: &[u8] = b"PK\x05\x06";
const END_BYTES: usize = 22;
const END_64_LOCATOR: &[u8] = b"PK\x06\x07";
const END_64_LOCATOR_BYTES: usize = 20;
const END_64: &[u8] = b"PK\x06\x06";
const ENTRY: &[u8] = b"PK\x01\x02";
const ENTRY_BYTES: usize = 46;
const LOCAL: &[u8] = b"PK\x03\x04";
const LOCAL_BYTES: usize = 30;
const LONGEST_COMMENT: u64 = u16::MAX as u64;
const LONGEST_DIRECTORY: u64 = 64 << 20;
/// Maximum inflated bytes per deflated byte, with a margin.
const MOST_DEFLATED: u64 = 1040;

fn damaged(why: &str) -> Error {
    Error::new(ErrorKind::InvalidData, format!("the archive is damaged or cut short: {why}"))
}

/// Reads little-endian numbers at fixed offsets; `InvalidData` after the end.
struct Record<'a>(&'a [u8]);

impl Record<'_> {
    fn bytes(&self, at: usize, length: usize) -> Result<&[u8]> {
        let end = at.checked_add(length).ok_or_else(|| damaged("a record is too short"))?;
        self.0.get(at..end).ok_or_else(|| damaged("a record is too short"))
    }

    fn number(&self, at: usize, length: usize) -> Result<u64> {
        Ok(self.bytes(at, length)?.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
}

pub fn members(file: &mut File) -> Result<Vec<Member>> {
    let total = file.metadata()?.len();
    let (offset, length) = directory(file)?;
    let mut directory = vec![0; length as usize];
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(&mut directory)?;
    let mut members = Vec::new();
    let mut rest = &directory[..];
    while rest.starts_with(ENTRY) {
        let record = Record(rest);
        let number = |at, length| record.number(at, length);
        let (name_bytes, extra_bytes) = (number(28, 2)? as usize, number(30, 2)? as usize);
        let name = record.bytes(ENTRY_BYTES, name_bytes)?;
        let extra = record.bytes(ENTRY_BYTES + name_bytes, extra_bytes)?;
        let name = String::from_utf8_lossy(name).into_owned();
        if number(8, 2)? & 1 == 1 {
            return Err(Error::new(ErrorKind::InvalidData, format!("{name:?} is encrypted")));
        }
        let deflated = match number(10, 2)? {
            0 => false,
            8 => true,
            _ => {
                return Err(Error::new(ErrorKind::InvalidData, format!("{name:?} uses an unknown compression")));
            }
        };
        let mut wide = Wide::find(extra)?;
        let member = Member {
            bytes: wide.or_next(number(24, 4)?)?,
            compressed_bytes: wide.or_next(number(20, 4)?)?,
            header_offset: wide.or_next(number(42, 4)?)?,
            checksum: number(16, 4)? as u32,
            deflated,
            name,
        };
        let possible =
            if deflated { member.compressed_bytes.saturating_mul(MOST_DEFLATED) } else { member.compressed_bytes };
        if member.compressed_bytes > total || member.bytes > possible {
            return Err(damaged(&format!("{:?} cannot have its stated length", member.name)));
        }
        members.push(member);
        let entry = ENTRY_BYTES + name_bytes + extra_bytes + number(32, 2)? as usize;
        rest = rest.get(entry..).ok_or_else(|| damaged("the directory is too short"))?;
    }
    Ok(members)
}

/// The 64-bit numbers that replace 32-bit numbers whose bits are all 1.
struct Wide<'a>(&'a [u8]);

impl<'a> Wide<'a> {
    fn find(mut extra: &'a [u8]) -> Result<Wide<'a>> {
        while extra.len() >= 4 {
            let record = Record(extra);
            let (id, length) = (record.number(0, 2)?, record.number(2, 2)? as usize);
            let body = extra.get(4..4 + length).ok_or_else(|| damaged("an entry is too short"))?;
            if id == 1 {
                return Ok(Wide(body));
            }
            extra = &extra[4 + length..];
        }
        Ok(Wide(&[]))
    }

    fn or_next(&mut self, narrow: u64) -> Result<u64> {
        if narrow != u64::from(u32::MAX) {
            return Ok(narrow);
        }
        let number = Record(self.0).number(0, 8)?;
        self.0 = &self.0[8..];
        Ok(number)
    }
}

fn directory(file: &mut File) -> Result<(u64, u64)> {
    let total = file.metadata()?.len();
    let tail_bytes = total.min(LONGEST_COMMENT + (END_BYTES + END_64_LOCATOR_BYTES) as u64);
    let mut tail = vec![0; tail_bytes as usize];
    file.seek(SeekFrom::Start(total - tail_bytes))?;
    file.read_exact(&mut tail)?;
    let end = tail.windows(4).rposition(|window| window == END).ok_or_else(|| damaged("its end is missing"))?;
    let record = Record(&tail[end..]);
    let (mut length, mut offset) = (record.number(12, 4)?, record.number(16, 4)?);
    if let Some(locator) = end.checked_sub(END_64_LOCATOR_BYTES).filter(|at| tail[*at..].starts_with(END_64_LOCATOR)) {
        let mut wide = [0; 56];
        file.seek(SeekFrom::Start(Record(&tail[locator..]).number(8, 8)?))?;
        file.read_exact(&mut wide)?;
        if !wide.starts_with(END_64) {
            return Err(damaged("its end is missing"));
        }
        (length, offset) = (Record(&wide).number(40, 8)?, Record(&wide).number(48, 8)?);
    }
    if length > LONGEST_DIRECTORY || offset.checked_add(length).is_none_or(|end| end > total) {
        return Err(damaged("its directory is outside the file"));
    }
    Ok((offset, length))
}

impl Member {
    /// A stream of a member from byte `skip` on. `source` must be a separate handle.
    pub fn read<R: Read + Seek + Send + 'static>(&self, mut source: R, skip: u64) -> Result<Box<dyn Read + Send>> {
        let mut header = [0; LOCAL_BYTES];
        source.seek(SeekFrom::Start(self.header_offset))?;
        source.read_exact(&mut header)?;
        if !header.starts_with(LOCAL) {
            return Err(damaged(&format!("{:?} is not at its offset in the directory", self.name)));
        }
        let record = Record(&header);
        let head = LOCAL_BYTES as u64 + record.number(26, 2)? + record.number(28, 2)?;
        let outside = || damaged(&format!("{:?} is outside the file", self.name));
        let data = self.header_offset.checked_add(head).ok_or_else(outside)?;
        if !self.deflated {
            let skip = skip.min(self.compressed_bytes);
            source.seek(SeekFrom::Start(data.checked_add(skip).ok_or_else(outside)?))?;
            let stored = BufReader::with_capacity(1 << 18, source).take(self.compressed_bytes - skip);
            return Ok(if skip == 0 { Box::new(self.checked(stored)) } else { Box::new(stored) });
        }
        source.seek(SeekFrom::Start(data))?;
        let packed = BufReader::with_capacity(1 << 18, source).take(self.compressed_bytes);
        let mut inflated = self.checked(DeflateDecoder::new(packed));
        std::io::copy(&mut (&mut inflated).take(skip), &mut std::io::sink())?;
        Ok(Box::new(inflated))
    }

    fn checked<R: Read>(&self, reader: R) -> Checked<R> {
        Checked { reader, left: self.bytes, crc: Crc::new(), expected: self.checksum, name: self.name.clone() }
    }
}

/// A reader that checks length and checksum after the last byte.
struct Checked<R> {
    reader: R,
    left: u64,
    crc: Crc,
    expected: u32,
    name: String,
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let length = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if length == 0 {
            return Ok(0);
        }
        let bytes = self.reader.read(&mut buffer[..length])?;
        if bytes == 0 {
            return Err(damaged(&format!("{:?} is too short", self.name)));
        }
        self.crc.update(&buffer[..bytes]);
        self.left -= bytes as u64;
        if self.left == 0 && self.crc.sum() != self.expected {
            return Err(damaged(&format!("the checksum of {:?} does not match", self.name)));
        }
        Ok(bytes)
    }
}
