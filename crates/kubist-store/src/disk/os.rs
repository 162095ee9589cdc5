//! The operating system's disk: one system call per method, no more.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::buffer::spare_capacity;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::{Disk, DiskFile, Found, Listed, Open};

/// The disk of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsDisk;

impl Disk for OsDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true);
        match how {
            Open::Read => {}
            Open::ReadWrite => {
                options.write(true);
            }
            Open::Create => {
                options.write(true).create_new(true);
            }
        }
        Ok(Box::new(OsFile(options.open(path)?)))
    }

    fn find(&self, path: &Path) -> io::Result<Option<Found>> {
        match fs::metadata(path) {
            Ok(found) => Ok(Some(Found { is_directory: found.is_dir(), bytes: found.len() })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn read_directory(&self, path: &Path) -> io::Result<Vec<Listed>> {
        let mut listed = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let is_directory = entry.file_type()?.is_dir();
            listed.push(Listed { name, is_directory });
        }
        Ok(listed)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let directory = File::open(path)?;
        if !directory.metadata()?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        directory.sync_all()
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn process(&self) -> u32 {
        std::process::id()
    }

    fn unique(&self) -> u64 {
        // The standard library seeds every `RandomState` from the system's
        // randomness and then counts; the process tells forked children apart.
        RandomState::new().hash_one(std::process::id())
    }
}

#[derive(Debug)]
struct OsFile(File);

/// Tells the system what becomes of a range; what it makes of that is its own affair.
#[cfg(target_os = "linux")]
fn advise(file: &File, range: Range<u64>, advice: rustix::fs::Advice) {
    let bytes = std::num::NonZeroU64::new(range.end.saturating_sub(range.start));
    let _ = rustix::fs::fadvise(file, range.start, bytes, advice);
}

impl DiskFile for OsFile {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn read_on(&self, bytes: &mut Vec<u8>, offset: u64) -> io::Result<usize> {
        Ok(rustix::io::pread(&self.0, spare_capacity(bytes), offset)?)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn start_writeback(&self, range: Range<u64>) {
        // On Linux this advice starts writing the range's dirty pages without
        // waiting for them. Pages on their way to the disk stay in the cache.
        #[cfg(target_os = "linux")]
        advise(&self.0, range, rustix::fs::Advice::DontNeed);
        #[cfg(not(target_os = "linux"))]
        let _ = range;
    }

    #[cfg(target_os = "linux")]
    fn is_in_memory(&self, offset: u64) -> bool {
        let mut byte = [0];
        let into = &mut [io::IoSliceMut::new(&mut byte)];
        rustix::io::preadv2(&self.0, into, offset, rustix::io::ReadWriteFlags::NOWAIT).is_ok()
    }

    fn start_reading(&self, range: Range<u64>) {
        #[cfg(target_os = "linux")]
        advise(&self.0, range, rustix::fs::Advice::WillNeed);
        #[cfg(not(target_os = "linux"))]
        let _ = range;
    }

    fn try_lock(&self) -> io::Result<bool> {
        match flock(&self.0, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
