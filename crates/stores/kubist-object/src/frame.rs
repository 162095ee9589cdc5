//! The bytes of an object that is put once: a head, and then the payload.
//!
//! ```text
//! 0   8   "KUBISTs3"
//! 8   4   version, little-endian
//! 12  4   CRC-32C of all that follows
//! 16  16  the unique number of the put
//! 32  1   the kind
//! 33  n   the payload
//! ```
//!
//! A client that finds the key taken compares the number, to find out whether its own earlier attempt succeeded.

use bytes::Bytes;
use kubist_store::{Error, Result};
use uuid::Uuid;

const MAGIC: &[u8; 8] = b"KUBISTs3";
const VERSION: u32 = 1;
pub const HEAD_BYTES: usize = 33;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Store = 0,
    Value = 1,
    Entry = 2,
    /// The fence of a log's new owner.
    Fence = 3,
    Held = 4,
    Free = 5,
    /// A writer's name, or the reservation of a segment's name.
    Name = 6,
}

const KINDS: [Kind; 7] = [Kind::Store, Kind::Value, Kind::Entry, Kind::Fence, Kind::Held, Kind::Free, Kind::Name];

#[derive(Debug, Clone)]
pub struct Framed {
    pub mark: Uuid,
    pub kind: Kind,
    pub payload: Bytes,
}

pub fn framed(mark: Uuid, kind: Kind, payload: &[u8]) -> Bytes {
    let mut bytes = Vec::with_capacity(HEAD_BYTES + payload.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(mark.as_bytes());
    bytes.push(kind as u8);
    bytes.extend_from_slice(payload);
    let checksum = crc32c::crc32c(&bytes[16..]);
    bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    bytes.into()
}

/// Decodes an object, whose name in messages is `file`.
///
/// # Errors
///
/// `Damaged` or `Newer`.
pub fn read(bytes: &Bytes, file: &str) -> Result<Framed> {
    let damaged = |offset, what: &str| Error::Damaged { file: file.into(), offset, what: what.into() };
    let number = |at: usize| bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map(u32::from_le_bytes);
    if bytes.get(..8) != Some(MAGIC) {
        return Err(damaged(0, "it does not begin like a Kubist object"));
    }
    match number(8) {
        Some(VERSION) => {}
        Some(found) if found > VERSION => {
            return Err(Error::Newer { file: file.into(), found, known: VERSION });
        }
        _ => return Err(damaged(8, "its version is invalid")),
    }
    let (Some(rest), Some(checksum)) = (bytes.get(16..).filter(|_| bytes.len() >= HEAD_BYTES), number(12)) else {
        return Err(damaged(bytes.len() as u64, "it ends early"));
    };
    if crc32c::crc32c(rest) != checksum {
        return Err(damaged(16, "its checksum is wrong"));
    }
    let mark = Uuid::from_slice(&rest[..16]).map_err(|_| damaged(16, "its put number is invalid"))?;
    let kind =
        KINDS.into_iter().find(|kind| *kind as u8 == rest[16]).ok_or_else(|| damaged(32, "its kind is unknown"))?;
    Ok(Framed { mark, kind, payload: bytes.slice(HEAD_BYTES..) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_any_other_byte_is_damage() {
        let mark = Uuid::new_v4();
        let whole = framed(mark, Kind::Entry, b"payload");
        let found = read(&whole, "f").unwrap();
        assert_eq!((found.mark, found.kind, &found.payload[..]), (mark, Kind::Entry, &b"payload"[..]));
        for at in 0..whole.len() {
            let mut other = whole.to_vec();
            other[at] ^= 1;
            assert!(read(&other.into(), "f").is_err(), "byte {at}");
            assert!(matches!(read(&whole.slice(..at), "f"), Err(Error::Damaged { .. })), "cut at {at}");
        }
        let mut newer = whole.to_vec();
        newer[8] = 2;
        assert!(matches!(read(&newer.into(), "f"), Err(Error::Newer { found: 2, known: 1, .. })));
    }
}
