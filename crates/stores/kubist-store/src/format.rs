//! File headers, and the bytes of objects, acknowledgements and numbered files, in pure functions.
//!
//! A file with a wrong kind, version or checksum is refused here, so no other layer interprets its bytes.

use bytes::Bytes;

use crate::{Error, Result};

pub(crate) const VERSION: u32 = 1;

pub(crate) const HEADER_BYTES: u64 = 16;

/// Bytes of an object's length and checksum, between header and value.
const OBJECT_HEAD_BYTES: usize = 12;

pub(crate) const ACKNOWLEDGEMENT_BYTES: usize = HEADER_BYTES as usize + 12;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Object,
    Log,
    Acknowledgement,
    Segment,
    Numbered,
    /// The mark of a shared store, which has only a header.
    Shared,
}

impl Kind {
    fn magic(self) -> &'static [u8; 8] {
        match self {
            Kind::Object => b"KUBI-OBJ",
            Kind::Log => b"KUBI-LOG",
            Kind::Acknowledgement => b"KUBI-ACK",
            Kind::Segment => b"KUBI-SEG",
            Kind::Numbered => b"KUBI-NUM",
            Kind::Shared => b"KUBI-SHR",
        }
    }

    fn noun(self) -> &'static str {
        match self {
            Kind::Object => "object",
            Kind::Log => "log",
            Kind::Acknowledgement => "acknowledgement",
            Kind::Segment => "segment",
            Kind::Numbered => "numbered file",
            Kind::Shared => "mark of a shared store",
        }
    }
}

pub(crate) fn header(kind: Kind) -> [u8; HEADER_BYTES as usize] {
    let mut header = [0; HEADER_BYTES as usize];
    header[..8].copy_from_slice(kind.magic());
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    let checksum = crc32c::crc32c(&header[..12]);
    header[12..].copy_from_slice(&checksum.to_le_bytes());
    header
}

pub(crate) fn check_header(kind: Kind, bytes: &[u8], file: &str) -> Result<()> {
    let Some(header) = bytes.get(..HEADER_BYTES as usize) else {
        let what = format!("its header should have {HEADER_BYTES} bytes, the file has {}", bytes.len());
        return Err(Error::damaged(file, 0, what));
    };
    if &header[..8] != kind.magic() {
        let what = format!("it does not begin like a Kubist {}", kind.noun());
        return Err(Error::damaged(file, 0, what));
    }
    if u32_at(header, 12) != crc32c::crc32c(&header[..12]) {
        return Err(Error::damaged(file, 8, "its header's checksum is wrong"));
    }
    match u32_at(header, 8) {
        VERSION => Ok(()),
        found if found > VERSION => Err(Error::Newer { file: file.into(), found, known: VERSION }),
        found => Err(Error::damaged(file, 8, format!("there is no format version {found}"))),
    }
}

pub(crate) fn object(value: &[u8]) -> Vec<u8> {
    let length = (value.len() as u64).to_le_bytes();
    let mut file = Vec::with_capacity(HEADER_BYTES as usize + OBJECT_HEAD_BYTES + value.len());
    file.extend_from_slice(&header(Kind::Object));
    file.extend_from_slice(&length);
    file.extend_from_slice(&object_checksum(&length, value).to_le_bytes());
    file.extend_from_slice(value);
    file
}

pub(crate) fn object_value(bytes: Bytes, file: &str) -> Result<Bytes> {
    check_header(Kind::Object, &bytes, file)?;
    let damaged = |what: String| Err(Error::damaged(file, HEADER_BYTES, what));
    let value_at = HEADER_BYTES as usize + OBJECT_HEAD_BYTES;
    if bytes.len() < value_at {
        return damaged(format!("it ends after {} bytes, inside its head", bytes.len()));
    }
    let value = bytes.slice(value_at..);
    let length = &bytes[16..24];
    let wanted = u64_at(&bytes, 16);
    if wanted != value.len() as u64 {
        return damaged(format!("its value should have {wanted} bytes, it has {}", value.len()));
    }
    if u32_at(&bytes, 24) != object_checksum(length, &value) {
        return damaged("its value's checksum is wrong".into());
    }
    Ok(value)
}

fn object_checksum(length: &[u8], value: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(length), value)
}

pub(crate) fn acknowledgement(length: u64) -> [u8; ACKNOWLEDGEMENT_BYTES] {
    let mut file = [0; ACKNOWLEDGEMENT_BYTES];
    file[..16].copy_from_slice(&header(Kind::Acknowledgement));
    file[16..24].copy_from_slice(&length.to_le_bytes());
    let checksum = crc32c::crc32c(&file[16..24]);
    file[24..].copy_from_slice(&checksum.to_le_bytes());
    file
}

pub(crate) fn acknowledged(bytes: &[u8], file: &str) -> Result<u64> {
    check_header(Kind::Acknowledgement, bytes, file)?;
    if bytes.len() != ACKNOWLEDGEMENT_BYTES {
        let what = format!("it should have {ACKNOWLEDGEMENT_BYTES} bytes, it has {}", bytes.len());
        return Err(Error::damaged(file, HEADER_BYTES, what));
    }
    if u32_at(bytes, 24) != crc32c::crc32c(&bytes[16..24]) {
        return Err(Error::damaged(file, HEADER_BYTES, "its checksum is wrong"));
    }
    Ok(u64_at(bytes, 16))
}

/// Bytes of number, length, record type, and the checksum (which includes the payload).
const NUMBERED_HEAD_BYTES: usize = 24;

/// The type of a numbered file of a shared store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordType {
    /// An entry of a log, whose number is its position.
    Entry,
    /// A new owner took the log here, so later entries of earlier owners are refused.
    Fence,
    /// The log is claimed by the holder in the payload.
    Held,
    /// The log is not claimed.
    Free,
    /// The log from before the store was shared ends at this number.
    Sealed,
}

impl RecordType {
    const ALL: [RecordType; 5] =
        [RecordType::Entry, RecordType::Fence, RecordType::Held, RecordType::Free, RecordType::Sealed];
}

pub(crate) fn numbered(record_type: RecordType, number: u64, payload: &[u8]) -> Vec<u8> {
    let mut file = Vec::with_capacity(HEADER_BYTES as usize + NUMBERED_HEAD_BYTES + payload.len());
    file.extend_from_slice(&header(Kind::Numbered));
    file.extend_from_slice(&number.to_le_bytes());
    file.extend_from_slice(&(payload.len() as u64).to_le_bytes());
    file.extend_from_slice(&(record_type as u32).to_le_bytes());
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&file[16..36]), payload);
    file.extend_from_slice(&checksum.to_le_bytes());
    file.extend_from_slice(payload);
    file
}

pub(crate) fn numbered_value(bytes: &Bytes, file: &str) -> Result<(RecordType, u64, Bytes)> {
    check_header(Kind::Numbered, bytes, file)?;
    let damaged = |what: String| Err(Error::damaged(file, HEADER_BYTES, what));
    let payload_at = HEADER_BYTES as usize + NUMBERED_HEAD_BYTES;
    if bytes.len() < payload_at {
        return damaged(format!("it ends after {} bytes, inside its head", bytes.len()));
    }
    let (payload, wanted) = (bytes.slice(payload_at..), u64_at(bytes, 24));
    if wanted != payload.len() as u64 {
        return damaged(format!("its payload should have {wanted} bytes, it has {}", payload.len()));
    }
    if u32_at(bytes, 36) != crc32c::crc32c_append(crc32c::crc32c(&bytes[16..36]), &payload) {
        return damaged("its checksum is wrong".into());
    }
    match RecordType::ALL.get(u32_at(bytes, 32) as usize) {
        Some(record_type) => Ok((*record_type, u64_at(bytes, 16), payload)),
        None => damaged(format!("its record type {} is unknown", u32_at(bytes, 32))),
    }
}

/// The caller has checked the length.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_of_an_object_is_noticed() {
        let good = object(b"the grid of a table");
        assert_eq!(object_value(good.clone().into(), "f").unwrap(), "the grid of a table");
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let answer = object_value(bad.into(), "f");
            assert!(matches!(answer, Err(Error::Damaged { .. })), "bit {bit}: {answer:?}");
        }
    }

    #[test]
    fn every_flipped_bit_and_every_other_length_of_a_numbered_file_is_noticed() {
        let good: Bytes = numbered(RecordType::Fence, 7, b"who").into();
        assert_eq!(numbered_value(&good, "f").unwrap(), (RecordType::Fence, 7, "who".into()));
        for bit in 0..good.len() * 8 {
            let mut bad = good.to_vec();
            bad[bit / 8] ^= 1 << (bit % 8);
            let answer = numbered_value(&bad.into(), "f");
            assert!(matches!(answer, Err(Error::Damaged { .. })), "bit {bit}: {answer:?}");
        }
        for length in 0..good.len() {
            assert!(numbered_value(&good.slice(..length), "f").is_err(), "{length}");
        }
        assert!(numbered_value(&[&good[..], &[0]].concat().into(), "f").is_err());
    }

    #[test]
    fn an_object_of_any_other_length_is_noticed() {
        let mut bytes = object(b"value");
        for length in 0..bytes.len() {
            assert!(object_value(bytes[..length].to_vec().into(), "f").is_err(), "{length}");
        }
        bytes.push(0);
        assert!(object_value(bytes.into(), "f").is_err());
    }

    #[test]
    fn a_newer_version_is_told_from_damage() {
        let mut bytes = header(Kind::Log);
        bytes[8..12].copy_from_slice(&7u32.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..12]);
        bytes[12..].copy_from_slice(&checksum.to_le_bytes());
        let answer = check_header(Kind::Log, &bytes, "f");
        assert!(matches!(answer, Err(Error::Newer { found: 7, known: 1, .. })), "{answer:?}");
    }

    #[test]
    fn a_file_of_another_kind_is_refused() {
        assert!(check_header(Kind::Segment, &header(Kind::Log), "f").is_err());
    }

    #[test]
    fn every_flipped_bit_of_an_acknowledgement_is_noticed() {
        let good = acknowledgement(12_345);
        assert_eq!(acknowledged(&good, "f").unwrap(), 12_345);
        for bit in 0..good.len() * 8 {
            let mut bad = good;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(acknowledged(&bad, "f").is_err(), "bit {bit}");
        }
    }
}
