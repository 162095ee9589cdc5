//! Writers, snapshots and batches of a keyspace.

use std::io;
use std::ops::{Bound, RangeBounds};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kubist_store::disk::{Disk, DiskFile, Open};
use kubist_store::names::check_part;

use crate::error::{Error, Result};
use crate::file::{KeyFile, Log, failed};
use crate::format::{Address, Fields, Kind, LOG_START, MOST_BYTES, Superblock};
use crate::node::{Child, INLINE_BYTES, Value};
use crate::range::Range;
use crate::tree;

/// Maximum length of a key.
const MOST_KEY_BYTES: usize = 64 << 10;
/// A checkpoint is written after this number of appended bytes.
const CHECKPOINT_BYTES: u64 = 16 << 20;
/// A file is compacted when it has this many times the live bytes, and at least `CHECKPOINT_BYTES`.
const COMPACT_AT: u64 = 3;

const PUT: u8 = 1;
const DELETE: u8 = 0;

/// Puts and deletes that become visible and durable together, where the last change to a key counts.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    bytes: Vec<u8>,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    ///
    /// `Invalid` for a key of more than 64 KiB, or a batch of more than 2 GiB.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.add(PUT, key, value)
    }

    /// Removes a key, if it exists.
    ///
    /// # Errors
    ///
    /// As for [`Batch::put`].
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.add(DELETE, key, b"")
    }

    fn add(&mut self, operation: u8, key: &[u8], value: &[u8]) -> Result<()> {
        if key.len() > MOST_KEY_BYTES {
            return Err(Error::Invalid(format!("a key has {} bytes, more than {MOST_KEY_BYTES}", key.len())));
        }
        let bytes = self.bytes.len() as u64 + key.len() as u64 + value.len() as u64 + 9;
        if bytes > MOST_BYTES {
            return Err(Error::Invalid(format!("a batch has {bytes} bytes, more than {MOST_BYTES}")));
        }
        self.bytes.push(operation);
        self.bytes.extend((key.len() as u32).to_le_bytes());
        self.bytes.extend(key);
        if operation == PUT {
            self.bytes.extend((value.len() as u32).to_le_bytes());
            self.bytes.extend(value);
        }
        Ok(())
    }
}

/// The content of a keyspace at one time, which needs no lock and which later commits do not change.
#[derive(Debug, Clone)]
pub struct Snapshot {
    file: Arc<KeyFile>,
    root: Option<Child>,
    keys: u64,
    live: u64,
}

impl Snapshot {
    /// Opens a keyspace for reading, with everything committed so far, and perhaps a commit that is not durable yet.
    ///
    /// # Errors
    ///
    /// `Missing`; `Damaged`; `Newer`; `Io`.
    pub fn open(disk: &Arc<dyn Disk>, directory: &Path, name: &str) -> Result<Snapshot> {
        check_part(name).map_err(|error| Error::Invalid(error.to_string()))?;
        // A compaction may have removed the file.
        loop {
            let Some((number, file, superblock)) = newest(disk.as_ref(), directory, name, Open::Read)? else {
                return Err(Error::Missing { file: directory.join(name).display().to_string() });
            };
            let file = Arc::new(file);
            let mut snapshot = Snapshot::of(file.clone(), &superblock);
            let replayed = file.replay(&superblock, |batch, position| snapshot.apply(batch, position));
            let is_newest = numbers(disk.as_ref(), directory, name)?.last() == Some(&number);
            match replayed {
                Ok(_) if is_newest => return Ok(snapshot),
                Err(error) if is_newest => return Err(error),
                _ => {}
            }
        }
    }

    fn of(file: Arc<KeyFile>, at: &Superblock) -> Snapshot {
        Snapshot { file, root: at.root.map(Child::Stored), keys: at.keys, live: at.live }
    }

    /// The value of a key.
    ///
    /// # Errors
    ///
    /// `Damaged`; `Io`.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        tree::get(&self.file, self.root.as_ref(), key)?.map(|value| self.file.value(&value)).transpose()
    }

    /// The keys of a range with their values, in ascending order.
    ///
    /// # Errors
    ///
    /// `Damaged`; `Io`.
    pub fn range<'a>(&self, keys: impl RangeBounds<&'a [u8]>) -> Result<Range> {
        Range::new(self.file.clone(), self.root.clone(), bound(keys.start_bound()), bound(keys.end_bound()))
    }

    /// The number of keys.
    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// Applies the batch whose payload is at `position` in the file.
    fn apply(&mut self, batch: &[u8], position: u64) -> Result<()> {
        let mut fields = Fields { bytes: batch, at: 0 };
        while !fields.is_done() {
            let wrong = || self.file.damaged(position, "these bytes are not a batch");
            let operation = fields.u8().ok_or_else(wrong)?;
            let key = fields.text().filter(|key| key.len() <= MOST_KEY_BYTES).ok_or_else(wrong)?;
            let value = match operation {
                PUT => {
                    let bytes = fields.text().ok_or_else(wrong)?;
                    Some(match bytes.len() <= INLINE_BYTES {
                        true => Value::Inline(bytes.into()),
                        false => Value::Stored(Address {
                            position: position + (fields.at - bytes.len()) as u64,
                            length: bytes.len() as u32,
                            checksum: crc32c::crc32c(bytes),
                        }),
                    })
                }
                DELETE => None,
                _ => return Err(wrong()),
            };
            let bytes = |value: &Value| key.len() as u64 + value.length();
            if let Some(value) = &value {
                (self.keys, self.live) = (self.keys + 1, self.live + bytes(value));
            }
            let (root, before) = tree::change(&self.file, self.root.take(), key, value)?;
            self.root = root;
            if let Some(before) = before {
                (self.keys, self.live) = (self.keys.saturating_sub(1), self.live.saturating_sub(bytes(&before)));
            }
        }
        Ok(())
    }
}

fn bound<'a>(of: Bound<&&'a [u8]>) -> Bound<&'a [u8]> {
    of.map(|key| *key)
}

/// The only writer of a keyspace.
#[derive(Debug)]
pub struct Writer {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    name: String,
    /// Locked until it is dropped.
    _lock: Box<dyn DiskFile>,
    number: u64,
    now: Snapshot,
    log: Log,
    checkpoint: Superblock,
    failed: Option<String>,
}

impl Writer {
    /// Opens a keyspace for writing, or creates it in an existing directory.
    ///
    /// # Errors
    ///
    /// `Busy` while another handle writes; `Invalid` for a name that a writer of a store could not have; `Damaged`;
    /// `Newer`; `Io`.
    pub fn open(disk: &Arc<dyn Disk>, directory: &Path, name: &str) -> Result<Writer> {
        check_part(name).map_err(|error| Error::Invalid(error.to_string()))?;
        let lock = lock(disk.as_ref(), &directory.join(format!("{name}.lock")))?;
        let found = newest(disk.as_ref(), directory, name, Open::ReadWrite)?;
        let (number, file, superblock) = match found {
            Some(found) => found,
            None => {
                let number = numbers(disk.as_ref(), directory, name)?.last().map_or(1, |last| last + 1);
                let file = create(disk.as_ref(), directory, name, number)?;
                let superblock = empty();
                finish(disk.as_ref(), directory, &file, &superblock)?;
                (number, file, superblock)
            }
        };
        let file = Arc::new(file);
        let mut now = Snapshot::of(file.clone(), &superblock);
        let log = file.replay(&superblock, |batch, position| now.apply(batch, position))?;
        // Makes every replayed batch durable, and leaves no byte of an unfinished batch.
        if file.length()? > log.end {
            file.truncate(log.end)?;
        }
        file.sync()?;
        file.acknowledge(log.end)?;
        let (disk, directory, name) = (disk.clone(), directory.to_path_buf(), name.to_owned());
        let writer =
            Writer { disk, directory, name, _lock: lock, number, now, log, checkpoint: superblock, failed: None };
        writer.remove_others()?;
        Ok(writer)
    }

    /// Makes a batch durable and visible.
    ///
    /// # Errors
    ///
    /// `Stopped` after an earlier failure; `Damaged`; `Io`. After an error, the batch may or may not be in the keyspace
    /// when it is opened again.
    pub fn commit(&mut self, batch: &Batch) -> Result<()> {
        if batch.bytes.is_empty() {
            return self.unless_failed(|_| Ok(()));
        }
        self.unless_failed(|writer| {
            let file = writer.now.file.clone();
            let position = writer.log.append(&file, Kind::Batch, &batch.bytes)?;
            writer.log.flush(&file)?;
            file.sync()?;
            file.acknowledge(writer.log.end)?;
            writer.now.apply(&batch.bytes, position)?;
            if writer.log.end - writer.checkpoint.log >= CHECKPOINT_BYTES {
                writer.write_checkpoint()?;
                if writer.log.end / COMPACT_AT > writer.now.live {
                    writer.write_compacted()?;
                }
            }
            Ok(())
        })
    }

    /// The content after the last commit.
    pub fn snapshot(&self) -> Snapshot {
        self.now.clone()
    }

    /// Writes the changed nodes, so that the next opening has nothing to replay; commits do this when necessary.
    ///
    /// # Errors
    ///
    /// As for [`Writer::commit`].
    pub fn checkpoint(&mut self) -> Result<()> {
        self.unless_failed(Writer::write_checkpoint)
    }

    /// Writes the keys and values into a new file, and removes the old file, which open snapshots can still read.
    /// Commits do this when the file has several times the live bytes.
    ///
    /// # Errors
    ///
    /// As for [`Writer::commit`].
    pub fn compact(&mut self) -> Result<()> {
        self.unless_failed(Writer::write_compacted)
    }

    /// The length of the file in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.log.end
    }

    fn unless_failed<T>(&mut self, act: impl FnOnce(&mut Writer) -> Result<T>) -> Result<T> {
        if let Some(cause) = &self.failed {
            let file = self.now.file.path.display().to_string();
            return Err(Error::Stopped { file, cause: cause.clone() });
        }
        let done = act(self);
        if let Err(error) = &done {
            self.failed = Some(error.to_string());
        }
        done
    }

    fn write_checkpoint(&mut self) -> Result<()> {
        let file = self.now.file.clone();
        if let Some(root) = self.now.root.take() {
            self.now.root = Some(Child::Stored(tree::store(&file, &mut self.log, root)?));
        }
        self.log.flush(&file)?;
        file.sync()?;
        self.checkpoint = superblock_of(&self.now, &self.log, self.checkpoint.epoch + 1);
        file.put_superblock(&self.checkpoint)?;
        file.acknowledge(self.log.end)
    }

    fn write_compacted(&mut self) -> Result<()> {
        let number = self.number + 1;
        let file = Arc::new(create(self.disk.as_ref(), &self.directory, &self.name, number)?);
        let (mut now, mut log) = (Snapshot::of(file.clone(), &empty()), Log::new());
        let mut batch = Batch::new();
        let mut write = |batch: &mut Batch| {
            let position = log.append(&file, Kind::Batch, &batch.bytes)?;
            // Values are read from the file.
            log.flush(&file)?;
            now.apply(&std::mem::take(&mut batch.bytes), position)?;
            now.root = now.root.take().map(|root| tree::store(&file, &mut log, root)).transpose()?.map(Child::Stored);
            log.flush(&file)
        };
        for found in self.now.range(..)? {
            let (key, value) = found?;
            batch.put(&key, &value)?;
            if batch.bytes.len() as u64 >= CHECKPOINT_BYTES {
                write(&mut batch)?;
            }
        }
        write(&mut batch)?;
        file.sync()?;
        let superblock = superblock_of(&now, &log, 1);
        finish(self.disk.as_ref(), &self.directory, &file, &superblock)?;
        (self.number, self.now, self.log, self.checkpoint) = (number, now, log, superblock);
        // Until the old files are removed, one could count as the newest, so no commit may be acknowledged before.
        self.remove_others()
    }

    fn remove_others(&self) -> Result<()> {
        let others = numbers(self.disk.as_ref(), &self.directory, &self.name)?;
        for number in others.iter().filter(|number| **number != self.number) {
            let path = path_of(&self.directory, &self.name, *number);
            match self.disk.unlink(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed("remove", &path, error)),
                _ => {}
            }
        }
        match others.len() > 1 {
            true => sync_directory(self.disk.as_ref(), &self.directory),
            false => Ok(()),
        }
    }
}

fn empty() -> Superblock {
    Superblock { epoch: 0, log: LOG_START, chain: 0, root: None, keys: 0, live: 0 }
}

fn superblock_of(now: &Snapshot, log: &Log, epoch: u64) -> Superblock {
    let root = match &now.root {
        Some(Child::Stored(at)) => Some(*at),
        _ => None,
    };
    Superblock { epoch, log: log.end, chain: log.chain, root, keys: now.keys, live: now.live }
}

fn path_of(directory: &Path, name: &str, number: u64) -> PathBuf {
    directory.join(format!("{name}.{number:08}.kv"))
}

fn numbers(disk: &dyn Disk, directory: &Path, name: &str) -> Result<Vec<u64>> {
    let listed = disk.read_directory(directory).map_err(|error| failed("list", directory, error))?;
    let number = |file: &str| {
        let digits = file.strip_prefix(name)?.strip_prefix('.')?.strip_suffix(".kv")?;
        (digits.len() == 8 && digits.bytes().all(|byte| byte.is_ascii_digit())).then(|| digits.parse().ok())?
    };
    let mut numbers: Vec<u64> = listed.iter().filter_map(|file| number(&file.name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

fn newest(disk: &dyn Disk, directory: &Path, name: &str, how: Open) -> Result<Option<(u64, KeyFile, Superblock)>> {
    let mut unfinished = None;
    for number in numbers(disk, directory, name)?.into_iter().rev() {
        let path = path_of(directory, name, number);
        let file = match KeyFile::open(disk, &path, how) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => continue,
            file => file?,
        };
        match file.superblock()? {
            Some(superblock) => return Ok(Some((number, file, superblock))),
            None if file.length()? > LOG_START => unfinished = Some(file),
            None => {}
        }
    }
    match unfinished {
        // Without an older complete file, this file was not an unfinished compaction.
        Some(file) => Err(file.damaged(0, "both superblocks are damaged")),
        None => Ok(None),
    }
}

fn create(disk: &dyn Disk, directory: &Path, name: &str, number: u64) -> Result<KeyFile> {
    let path = path_of(directory, name, number);
    match disk.unlink(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed("remove", &path, error)),
        _ => {}
    }
    let file = KeyFile::open(disk, &path, Open::Create)?;
    // So a file that was cut off inside its slots is detected.
    file.write(&[0; LOG_START as usize], 0)?;
    file.sync()?;
    Ok(file)
}

/// Gives a new file its superblock, after the frames in the file are durable.
fn finish(disk: &dyn Disk, directory: &Path, file: &KeyFile, superblock: &Superblock) -> Result<()> {
    file.put_superblock(superblock)?;
    file.acknowledge(superblock.log)?;
    sync_directory(disk, directory)
}

fn sync_directory(disk: &dyn Disk, directory: &Path) -> Result<()> {
    disk.sync_directory(directory).map_err(|error| failed("sync", directory, error))
}

fn lock(disk: &dyn Disk, path: &Path) -> Result<Box<dyn DiskFile>> {
    let opened = match disk.open(path, Open::Create) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => disk.open(path, Open::ReadWrite),
        opened => opened,
    };
    let file = opened.map_err(|error| failed("open", path, error))?;
    match file.try_lock().map_err(|error| failed("lock", path, error))? {
        true => Ok(file),
        false => Err(Error::Busy { file: path.display().to_string() }),
    }
}
