//! The file of a keyspace: superblocks, the acknowledged length, and the chain of frames.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use kubist_store::disk::{Disk, DiskFile, Open};

use crate::error::{Error, Result};
use crate::format::{
    Address, HEAD_BYTES, Head, Kind, LOG_START, SLOT_BYTES, Superblock, VERSION, head, u32_at, u64_at,
};
use crate::node::{Child, Node, Value};

const CACHED_NODES: usize = 4096;
/// A stored node below this depth has wrong bytes.
pub const MOST_LEVELS: usize = 32;
/// The position of the acknowledged length, a hint that detects a log that was cut off.
const ACKNOWLEDGED_AT: u64 = SLOT_BYTES / 2;
const BUFFER_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub struct KeyFile {
    file: Box<dyn DiskFile>,
    pub path: PathBuf,
    nodes: Mutex<HashMap<u64, Arc<Node>>>,
}

impl KeyFile {
    pub fn open(disk: &dyn Disk, path: &Path, how: Open) -> Result<KeyFile> {
        let file = disk.open(path, how).map_err(|error| failed("open", path, error))?;
        Ok(KeyFile { file, path: path.into(), nodes: Mutex::default() })
    }

    pub fn failed(&self, operation: &'static str, source: io::Error) -> Error {
        failed(operation, &self.path, source)
    }

    pub fn damaged(&self, offset: u64, what: impl Into<String>) -> Error {
        Error::Damaged { file: self.path.display().to_string(), offset, what: what.into() }
    }

    pub fn length(&self) -> Result<u64> {
        self.file.bytes().map_err(|error| self.failed("measure", error))
    }

    fn read_up_to(&self, position: u64, length: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        let mut done = 0;
        while done < length {
            match self.file.read_at(&mut bytes[done..], position + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed("read", error)),
            }
        }
        bytes.truncate(done);
        Ok(bytes)
    }

    pub fn write(&self, mut bytes: &[u8], mut position: u64) -> Result<()> {
        while !bytes.is_empty() {
            match self.file.write_at(bytes, position) {
                Ok(0) => return Err(self.failed("write", io::ErrorKind::WriteZero.into())),
                Ok(count) => {
                    bytes = &bytes[count..];
                    position += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed("write", error)),
            }
        }
        Ok(())
    }

    pub fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|error| self.failed("sync", error))
    }

    pub fn truncate(&self, length: u64) -> Result<()> {
        self.file.truncate(length).map_err(|error| self.failed("truncate", error))
    }

    pub fn bytes(&self, at: &Address) -> Result<Vec<u8>> {
        if at.position.checked_add(u64::from(at.length)).is_none_or(|end| self.length().is_ok_and(|has| end > has)) {
            return Err(self.damaged(at.position, "the file ends before these bytes"));
        }
        let bytes = self.read_up_to(at.position, at.length as usize)?;
        match bytes.len() == at.length as usize && crc32c::crc32c(&bytes) == at.checksum {
            true => Ok(bytes),
            false => Err(self.damaged(at.position, "a checksum is wrong")),
        }
    }

    pub fn value(&self, value: &Value) -> Result<Vec<u8>> {
        match value {
            Value::Inline(bytes) => Ok(bytes.to_vec()),
            Value::Stored(at) => self.bytes(at),
        }
    }

    pub fn node(&self, child: &Child, depth: usize) -> Result<Arc<Node>> {
        let at = match child {
            Child::Changed(node) => return Ok(node.clone()),
            Child::Stored(at) => at,
        };
        if depth > MOST_LEVELS {
            return Err(self.damaged(at.position, "the tree has too many levels"));
        }
        let cached = || self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = cached().get(&at.position) {
            return Ok(node.clone());
        }
        let node = Node::decode(&self.bytes(at)?, at.position);
        let node = Arc::new(node.ok_or_else(|| self.damaged(at.position, "these bytes are not a node"))?);
        let mut nodes = cached();
        if nodes.len() >= CACHED_NODES {
            // Keeps an arbitrary half, because the order of a hash map is random.
            let mut keep = false;
            nodes.retain(|_, _| {
                keep = !keep;
                keep
            });
        }
        nodes.insert(at.position, node.clone());
        Ok(node)
    }

    pub fn superblock(&self) -> Result<Option<Superblock>> {
        let mut newest: Option<Superblock> = None;
        for slot in 0..2 {
            let bytes = self.read_up_to(slot * SLOT_BYTES, (SLOT_BYTES / 2) as usize)?;
            match Superblock::decode(&bytes) {
                Ok(Some(found)) if newest.is_none_or(|newest| newest.epoch < found.epoch) => newest = Some(found),
                Ok(_) => {}
                Err(found) => {
                    let file = self.path.display().to_string();
                    return Err(Error::Newer { file, found, known: VERSION });
                }
            }
        }
        Ok(newest)
    }

    /// The frames before the superblock must be durable.
    pub fn put_superblock(&self, superblock: &Superblock) -> Result<()> {
        self.write(&superblock.encode(), superblock.epoch % 2 * SLOT_BYTES)?;
        self.sync()
    }

    /// Records the durable length without a sync, because an older length is valid too.
    pub fn acknowledge(&self, length: u64) -> Result<()> {
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&length.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..8]);
        bytes[8..].copy_from_slice(&checksum.to_le_bytes());
        self.write(&bytes, ACKNOWLEDGED_AT)
    }

    /// The acknowledged length; 0 if it is unknown.
    fn acknowledged(&self) -> Result<u64> {
        let bytes = self.read_up_to(ACKNOWLEDGED_AT, 12)?;
        let is_valid = bytes.len() == 12 && u32_at(&bytes, 8) == crc32c::crc32c(&bytes[..8]);
        Ok(if is_valid { u64_at(&bytes, 0) } else { 0 })
    }

    /// Reads the frames after a checkpoint, and calls `batch(payload, position)` for each batch. The log ends at the
    /// first frame that fails its check, because only the last frame can be unfinished. It is damage if the log was
    /// longer before, or if a batch follows that frame.
    pub fn replay(&self, from: &Superblock, mut batch: impl FnMut(&[u8], u64) -> Result<()>) -> Result<Log> {
        let acknowledged = self.acknowledged()?;
        let length = self.length()?;
        let mut log = Log { end: from.log, chain: from.chain, buffer: Vec::new() };
        if length < LOG_START {
            return Err(self.damaged(length, "the file ends inside its superblocks"));
        }
        if log.end < LOG_START {
            return Err(self.damaged(0, "a superblock has a wrong position"));
        }
        let frame = |at: u64| -> Result<Option<(Head, Vec<u8>)>> {
            let bytes = self.read_up_to(at, HEAD_BYTES)?;
            let Ok(bytes) = <[u8; HEAD_BYTES]>::try_from(bytes) else { return Ok(None) };
            let head = Head::decode(&bytes);
            let begin = at + HEAD_BYTES as u64;
            if begin.checked_add(head.length).is_none_or(|end| end > length) {
                return Ok(None);
            }
            Ok(Some((head, self.read_up_to(begin, head.length as usize)?)))
        };
        while let Some((head, payload)) = frame(log.end)? {
            let next = log.end + HEAD_BYTES as u64 + head.length;
            let Some(kind) = head.kind(log.end, log.chain, &payload) else {
                // After a crash, any of the nodes of an unfinished checkpoint may exist.
                let continues = frame(next)?
                    .is_some_and(|(after, bytes)| after.kind(next, head.checksum, &bytes) == Some(Kind::Batch));
                if continues {
                    return Err(self.damaged(log.end, "the checksum of a batch is wrong"));
                }
                break;
            };
            if kind == Kind::Batch {
                batch(&payload, log.end + HEAD_BYTES as u64)?;
            }
            (log.end, log.chain) = (next, head.checksum);
        }
        match log.end < acknowledged {
            true => Err(self.damaged(log.end, format!("the log ends here, but had {acknowledged} bytes"))),
            false => Ok(log),
        }
    }
}

pub fn failed(operation: &'static str, path: &Path, source: io::Error) -> Error {
    Error::Io { operation, file: path.display().to_string(), source }
}

#[derive(Debug)]
pub struct Log {
    pub end: u64,
    pub chain: u32,
    /// The bytes before `end` that were not written yet.
    buffer: Vec<u8>,
}

impl Log {
    pub fn new() -> Log {
        Log { end: LOG_START, chain: 0, buffer: Vec::new() }
    }

    pub fn append(&mut self, file: &KeyFile, kind: Kind, payload: &[u8]) -> Result<u64> {
        let (head, checksum) = head(kind, self.end, self.chain, payload);
        self.buffer.extend(head);
        self.buffer.extend(payload);
        let position = self.end + HEAD_BYTES as u64;
        (self.end, self.chain) = (position + payload.len() as u64, checksum);
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush(file)?;
        }
        Ok(position)
    }

    pub fn flush(&mut self, file: &KeyFile) -> Result<()> {
        file.write(&self.buffer, self.end - self.buffer.len() as u64)?;
        self.buffer.clear();
        Ok(())
    }
}
