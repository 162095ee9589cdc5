//! A disk that reports success without doing the work, which tests must detect.

use std::io::Result;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kubist_store::claims::Life;
use kubist_store::disk::{DirectoryEntry, Disk, DiskFile, Open, PathMetadata};

/// The guarantee that a [`Liar`] breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// Bytes of files whose path contains this text are not synced; an empty text matches all.
    Bytes(&'static str),
    /// Names in directories are not synced.
    Names,
    /// Errors of syncing and closing files are hidden.
    Errors,
    /// Every file seems to have one name.
    OneName,
    /// The file system seems to belong to this machine alone.
    OneMachine,
}

/// A disk that breaks one guarantee.
#[derive(Debug)]
pub struct Liar {
    disk: Arc<dyn Disk>,
    lie: Lie,
}

impl Liar {
    /// Wraps `disk` and breaks one of its guarantees.
    pub fn new(disk: Arc<dyn Disk>, lie: Lie) -> Liar {
        Liar { disk, lie }
    }
}

#[derive(Debug)]
struct LiarFile(Box<dyn DiskFile>, Lie);

impl Disk for Liar {
    fn open(&self, path: &Path, how: Open) -> Result<Box<dyn DiskFile>> {
        let file = self.disk.open(path, how)?;
        match self.lie {
            Lie::Bytes(part) if !path.to_string_lossy().contains(part) => Ok(file),
            lie => Ok(Box::new(LiarFile(file, lie))),
        }
    }
    fn find(&self, path: &Path) -> Result<Option<PathMetadata>> {
        self.disk.find(path)
    }
    fn read_directory(&self, path: &Path) -> Result<Vec<DirectoryEntry>> {
        self.disk.read_directory(path)
    }
    fn create_directory(&self, path: &Path) -> Result<()> {
        self.disk.create_directory(path)
    }
    fn sync_directory(&self, path: &Path) -> Result<()> {
        match self.lie {
            Lie::Names => Ok(()),
            _ => self.disk.sync_directory(path),
        }
    }
    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.disk.link(from, to)
    }
    fn unlink(&self, path: &Path) -> Result<()> {
        self.disk.unlink(path)
    }
    fn remove_directory(&self, path: &Path) -> Result<()> {
        self.disk.remove_directory(path)
    }
    fn process(&self) -> u32 {
        self.disk.process()
    }
    fn unique(&self) -> u64 {
        self.disk.unique()
    }
    fn is_of_this_machine(&self, path: &Path) -> Result<bool> {
        Ok(self.lie == Lie::OneMachine || self.disk.is_of_this_machine(path)?)
    }
    fn names_of(&self, path: &Path) -> Result<u64> {
        match self.lie {
            Lie::OneName => Ok(1),
            _ => self.disk.names_of(path),
        }
    }
    fn clock(&self) -> Duration {
        self.disk.clock()
    }
    fn pause(&self, time: Duration) {
        self.disk.pause(time);
    }
    fn holder(&self) -> String {
        self.disk.holder()
    }
    fn life(&self, holder: &str) -> Life {
        self.disk.life(holder)
    }
    fn has_threads(&self) -> bool {
        self.disk.has_threads()
    }
}

impl DiskFile for LiarFile {
    fn close(self: Box<Self>) -> Result<()> {
        let closed = self.0.close();
        if self.1 == Lie::Errors { Ok(()) } else { closed }
    }
    fn bytes(&self) -> Result<u64> {
        self.0.bytes()
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.0.read_at(buffer, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<usize> {
        self.0.write_at(bytes, offset)
    }
    fn truncate(&self, bytes: u64) -> Result<()> {
        self.0.truncate(bytes)
    }
    fn punch(&self, blocks: Range<u64>) -> Result<()> {
        self.0.punch(blocks)
    }
    fn sync_data(&self) -> Result<()> {
        match self.1 {
            Lie::Bytes(_) => Ok(()),
            Lie::Errors => {
                let _ = self.0.sync_data();
                Ok(())
            }
            Lie::Names | Lie::OneName | Lie::OneMachine => self.0.sync_data(),
        }
    }
    fn start_writeback(&self, range: Range<u64>) {
        self.0.start_writeback(range);
    }
    fn try_lock(&self) -> Result<bool> {
        self.0.try_lock()
    }
}
