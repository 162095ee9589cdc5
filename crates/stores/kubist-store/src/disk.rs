//! The system calls of the local store.
//!
//! [`OsDisk`] passes them to the operating system; the crate `kubist-simulate` simulates them from a seed. The store
//! relies only on the guarantees of POSIX:
//!
//! - written bytes survive a crash once `sync_data` has returned; before that, any subset may survive;
//! - a name survives once `sync_directory` of its directory has returned;
//! - reads and writes may be short; only `link`, `create` and `lock` are atomic.
//!
//! A directory may come from an untrusted source: a link must not lead to the user's files, and a pipe or device must
//! not block a read for ever. So below the directory, links are not followed and only regular files are opened. Other
//! paths give an error that names them ([`Irregular`]).

mod os;

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::claims::{self, Life};

pub use os::OsDisk;

/// The mode in which [`Disk::open`] opens a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// Read only.
    Read,
    /// Read and write.
    ReadWrite,
    /// Create a file for reading and writing; an error if the name is taken.
    Create,
}

/// The type of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A named pipe.
    Pipe,
    /// A socket.
    Socket,
    /// A device.
    Device,
    /// Another type.
    Unknown,
}

impl fmt::Display for Sort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Sort::File => "a regular file",
            Sort::Directory => "a directory",
            Sort::Link => "a symbolic link",
            Sort::Pipe => "a named pipe",
            Sort::Socket => "a socket",
            Sort::Device => "a device",
            Sort::Unknown => "something unknown",
        })
    }
}

/// Metadata of a path. Below the store's directory, a link is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathMetadata {
    /// The type of the file.
    pub sort: Sort,
    /// Its length, if it is a file.
    pub bytes: u64,
    /// The bytes that it occupies on disk, without holes.
    pub taken: u64,
    /// The inode, which changes if the file is replaced.
    pub node: u64,
    /// A number that changes with the time of the last change.
    pub changed: u64,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The name, without the directory.
    pub name: String,
    /// The type of the file.
    pub sort: Sort,
}

/// The error for a path with the wrong type of file, as the source of an [`io::Error`]. The kind is `IsADirectory` for
/// a directory, `NotADirectory` for a file in the middle of the path, and otherwise `InvalidInput`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} is {sort}, not {wanted}", path.display())]
pub struct Irregular {
    /// The path.
    pub path: PathBuf,
    /// The type of file at the path.
    pub sort: Sort,
    /// The expected type.
    pub wanted: Sort,
}

/// The error for a path with the type `sort` instead of `wanted`.
pub fn irregular(path: &Path, sort: Sort, wanted: Sort) -> io::Error {
    let kind = match sort {
        Sort::Directory => io::ErrorKind::IsADirectory,
        Sort::File => io::ErrorKind::NotADirectory,
        _ => io::ErrorKind::InvalidInput,
    };
    io::Error::new(kind, Irregular { path: path.to_path_buf(), sort, wanted })
}

/// A disk, as one process sees it.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Opens a file.
    ///
    /// # Errors
    ///
    /// `NotFound` if nothing is there; an error with [`Irregular`] for another type of file; otherwise the
    /// error of the operating system.
    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>>;

    /// Returns the metadata of a path, if it exists.
    ///
    /// # Errors
    ///
    /// Errors of the system, except `NotFound`.
    fn find(&self, path: &Path) -> io::Result<Option<PathMetadata>>;

    /// Lists a directory, except names that are not UTF-8, which the store never creates.
    ///
    /// # Errors
    ///
    /// Errors of the system: `NotFound` if there is no such directory.
    fn read_directory(&self, path: &Path) -> io::Result<Vec<DirectoryEntry>>;

    /// Creates one directory, whose parent exists.
    ///
    /// # Errors
    ///
    /// Errors of the system: `AlreadyExists` if the name is taken.
    fn create_directory(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable, but not the content of their files.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;

    /// Gives a file a second name.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` if the name is taken; otherwise errors of the system.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file's name. An open file exists until it is closed.
    ///
    /// # Errors
    ///
    /// Errors of the system: `NotFound` if there is no such file.
    fn unlink(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty directory.
    ///
    /// # Errors
    ///
    /// `DirectoryNotEmpty` if it is not empty; otherwise errors of the system.
    fn remove_directory(&self, path: &Path) -> io::Result<()>;

    /// The number of this process. A forked child has another number.
    fn process(&self) -> u32;

    /// A number that is very probably unique, also among machines.
    fn unique(&self) -> u64;

    /// Whether only this machine uses the file system, so that a file lock excludes all others.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    fn is_of_this_machine(&self, path: &Path) -> io::Result<bool>;

    /// The number of names of the file at `path`, from the file server if there is one.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    fn names_of(&self, path: &Path) -> io::Result<u64>;

    /// The time since a fixed start. It never decreases.
    fn clock(&self) -> Duration {
        os::clock()
    }

    /// Waits for this time.
    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }

    /// This process, as claims identify it ([`claims::this_process`]).
    fn holder(&self) -> String {
        claims::this_process()
    }

    /// The state of a claim's holder ([`claims::life`]).
    fn life(&self, holder: &str) -> Life {
        claims::life(holder)
    }

    /// Returns whether background threads may be used.
    fn has_threads(&self) -> bool {
        true
    }
}

/// An open file. Dropping it closes it and releases its lock.
pub trait DiskFile: Send + Sync + fmt::Debug {
    /// Closes the file and reports errors, because a network file system may write to the server only now.
    ///
    /// # Errors
    ///
    /// Errors of the system. The file is closed in any case.
    fn close(self: Box<Self>) -> io::Result<()>;

    /// The file's length.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    fn bytes(&self) -> io::Result<u64>;

    /// Reads bytes and returns their number, which is 0 only at the end of the file.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Reads into the spare capacity of `bytes`, like [`DiskFile::read_at`].
    ///
    /// # Errors
    ///
    /// Errors of the system.
    fn read_on(&self, bytes: &mut Vec<u8>, offset: u64) -> io::Result<usize> {
        let before = bytes.len();
        bytes.resize(bytes.capacity(), 0);
        let got = self.read_at(&mut bytes[before..], offset);
        bytes.truncate(before + *got.as_ref().unwrap_or(&0));
        got
    }

    /// Writes bytes and returns their number.
    ///
    /// # Errors
    ///
    /// Errors of the system: `StorageFull` on a full disk.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Cuts the file to this length.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    fn truncate(&self, bytes: u64) -> io::Result<()>;

    /// Frees whole blocks, which then read as zeros. A crash soon afterwards may undo this.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the file system has no holes; otherwise errors of the system.
    fn punch(&self, _blocks: Range<u64>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Makes the written bytes durable. After an error the state on disk is unknown, even if a second call succeeds.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    fn sync_data(&self) -> io::Result<()>;

    /// Asks the system to start writing the range; never fails.
    fn start_writeback(&self, range: Range<u64>);

    /// Whether this byte is in memory; `false` if unknown.
    fn is_in_memory(&self, _offset: u64) -> bool {
        false
    }

    /// Fills the buffer without waiting for the device. Returns `false` if some bytes are not in memory, or if this is
    /// unknown.
    fn read_present(&self, _buffer: &mut [u8], _offset: u64) -> bool {
        false
    }

    /// Asks the system to start reading the range; never fails.
    fn start_reading(&self, _range: Range<u64>) {}

    /// Takes the exclusive lock without waiting. Returns `false` if another handle has it.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    fn try_lock(&self) -> io::Result<bool>;
}

/// Reads until the buffer is full or the file ends.
pub(crate) fn read_up_to(file: &dyn DiskFile, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(bytes) => done += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

pub(crate) fn read_range(file: &dyn DiskFile, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(length);
    while bytes.len() < length {
        let from = offset + bytes.len() as u64;
        match file.read_on(&mut bytes, from) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}

/// Writes all bytes. After an error, any part may be written.
pub(crate) fn write_all(file: &dyn DiskFile, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write_at(bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(done) => {
                bytes = &bytes[done..];
                offset += done as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
