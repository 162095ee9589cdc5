//! The bytes of frames and superblocks, in pure functions.

/// Size of a superblock's slot, at which the second slot starts.
pub const SLOT_BYTES: u64 = 4096;
pub const LOG_START: u64 = 2 * SLOT_BYTES;
pub const VERSION: u32 = 1;
/// Bytes of a frame before its payload: length, checksum, kind.
pub const HEAD_BYTES: usize = 9;
pub const MOST_BYTES: u64 = (1 << 31) - 1;

const MAGIC: &[u8; 8] = b"KUBI-KEY";
const SUPERBLOCK_BYTES: usize = 80;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Puts and deletes that become visible together.
    Batch = 1,
    Node = 2,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    pub length: u64,
    /// The checksum of the frame, which the checksum of the next frame continues.
    pub checksum: u32,
    kind: u8,
}

impl Head {
    pub fn decode(bytes: &[u8; HEAD_BYTES]) -> Head {
        Head { length: u64::from(u32_at(bytes, 0)), checksum: u32_at(bytes, 4), kind: bytes[8] }
    }

    /// The kind, if `payload` belongs to a frame at `position` after a frame with the checksum `before`.
    pub fn kind(&self, position: u64, before: u32, payload: &[u8]) -> Option<Kind> {
        let kind = [Kind::Batch, Kind::Node].into_iter().find(|kind| *kind as u8 == self.kind)?;
        (payload.len() as u64 == self.length && checksum(kind, position, before, payload) == self.checksum)
            .then_some(kind)
    }
}

fn checksum(kind: Kind, position: u64, before: u32, payload: &[u8]) -> u32 {
    let mut head = [0; 21];
    head[..8].copy_from_slice(&position.to_le_bytes());
    head[8..12].copy_from_slice(&before.to_le_bytes());
    head[12..20].copy_from_slice(&(payload.len() as u64).to_le_bytes());
    head[20] = kind as u8;
    crc32c::crc32c_append(crc32c::crc32c(&head), payload)
}

pub fn head(kind: Kind, position: u64, before: u32, payload: &[u8]) -> ([u8; HEAD_BYTES], u32) {
    let checksum = checksum(kind, position, before, payload);
    let mut head = [0; HEAD_BYTES];
    head[..4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    head[4..8].copy_from_slice(&checksum.to_le_bytes());
    head[8] = kind as u8;
    (head, checksum)
}

/// The position, length and checksum of a node's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    pub position: u64,
    pub length: u32,
    pub checksum: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Superblock {
    pub epoch: u64,
    /// The position of the first batch that is not in the tree.
    pub log: u64,
    /// The checksum of the frame before this position.
    pub chain: u32,
    /// `None` for an empty tree.
    pub root: Option<Address>,
    pub keys: u64,
    /// Bytes of all keys and values.
    pub live: u64,
}

impl Superblock {
    pub fn encode(&self) -> [u8; SUPERBLOCK_BYTES] {
        let mut bytes = [0; SUPERBLOCK_BYTES];
        let root = self.root.unwrap_or(Address { position: 0, length: 0, checksum: 0 });
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.chain.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.epoch.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.log.to_le_bytes());
        bytes[32..40].copy_from_slice(&root.position.to_le_bytes());
        bytes[40..44].copy_from_slice(&root.length.to_le_bytes());
        bytes[44..48].copy_from_slice(&root.checksum.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.keys.to_le_bytes());
        bytes[56..64].copy_from_slice(&self.live.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..76]);
        bytes[76..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// `None` if there is no superblock; `Err` has the version of a superblock from a newer Kubist.
    pub fn decode(bytes: &[u8]) -> Result<Option<Superblock>, u32> {
        let Some(bytes) = bytes.get(..SUPERBLOCK_BYTES).filter(|bytes| bytes.starts_with(MAGIC)) else {
            return Ok(None);
        };
        if u32_at(bytes, 76) != crc32c::crc32c(&bytes[..76]) {
            return Ok(None);
        }
        let version = u32_at(bytes, 8);
        if version != VERSION {
            return Err(version);
        }
        let root = Address { position: u64_at(bytes, 32), length: u32_at(bytes, 40), checksum: u32_at(bytes, 44) };
        Ok(Some(Superblock {
            epoch: u64_at(bytes, 16),
            log: u64_at(bytes, 24),
            chain: u32_at(bytes, 12),
            root: (root.position > 0).then_some(root),
            keys: u64_at(bytes, 48),
            live: u64_at(bytes, 56),
        }))
    }
}

/// The caller has checked the length.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// Reads fields in sequence; `None` at the end.
pub struct Fields<'a> {
    pub bytes: &'a [u8],
    pub at: usize,
}

impl<'a> Fields<'a> {
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let found = self.bytes.get(self.at..self.at.checked_add(count)?)?;
        self.at += count;
        Some(found)
    }

    pub fn u8(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    pub fn u32(&mut self) -> Option<u32> {
        Some(u32_at(self.take(4)?, 0))
    }

    pub fn u64(&mut self) -> Option<u64> {
        Some(u64_at(self.take(8)?, 0))
    }

    pub fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()? as usize;
        self.take(length)
    }

    pub fn is_done(&self) -> bool {
        self.at == self.bytes.len()
    }
}
