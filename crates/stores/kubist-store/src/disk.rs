//! The few system calls that the local engine makes.
//!
//! [`OsDisk`] passes them on to the operating system; the crate `kubist-simulate` answers
//! them from a seed. The promises are POSIX's, no more, for those are what the
//! engine must live with:
//!
//! - written bytes survive a crash once `sync_data` returned, in any part and
//!   any order before;
//! - a name in a directory survives once `sync_directory` of it returned;
//! - reads and writes may be short; only `link`, `create` and `lock` are atomic.
//!
//! Below a store's directory no path leads through a symbolic link, and only regular
//! files are opened: a directory may come from an untrusted source, and a link in it must not
//! lead to files of the user's, nor a pipe or a device make a read wait for ever.
//! What is met instead is an error that names it ([`Irregular`]).
//!
//! It knows paths and bytes, nothing of objects, segments or logs.

mod os;

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::claims::{self, Life};

pub use os::OsDisk;

/// How [`Disk::open`] opens a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// To read.
    Read,
    /// To read and write.
    ReadWrite,
    /// Makes the file, to read and write; fails if there is one.
    Create,
}

/// What a name in a directory stands for.
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
    /// None of these.
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

/// What a path leads to; itself, if that is a link below the store's directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// What stands there.
    pub sort: Sort,
    /// Its length, if it is a file.
    pub bytes: u64,
    /// What of that takes space: less if it has holes.
    pub taken: u64,
    /// Which file or directory it is: another one under the same name has another number.
    pub node: u64,
    /// When it was last changed, as a number that differs if it was.
    pub changed: u64,
}

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its name, without the directory's.
    pub name: String,
    /// What it stands for.
    pub sort: Sort,
}

/// Why a path leads nowhere: something that is neither a file nor a directory has that name. The
/// source of an [`io::Error`], whose kind is `IsADirectory` for a directory,
/// `NotADirectory` for a file on the way, and `InvalidInput` for what no store ever made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} is {sort}, not {wanted}", path.display())]
pub struct Irregular {
    /// Where it stands.
    pub path: PathBuf,
    /// What was found there.
    pub sort: Sort,
    /// What belongs there.
    pub wanted: Sort,
}

/// The error that `sort` stands at `path`, where `wanted` belongs.
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
    /// Opens a file; fails with [`Irregular`] in the error if the path leads to something else.
    ///
    /// # Errors
    ///
    /// `NotFound` if nothing is there; an error that holds [`Irregular`] if something else is; else
    /// the error of the operating system.
    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>>;

    /// What is there; `None` if nothing is.
    ///
    /// # Errors
    ///
    /// The operating system's, but that nothing is there is none.
    fn find(&self, path: &Path) -> io::Result<Option<Found>>;

    /// Names that are not UTF-8 are left out: the engine never makes any.
    ///
    /// # Errors
    ///
    /// The operating system's: `NotFound` if there is no such directory.
    fn read_directory(&self, path: &Path) -> io::Result<Vec<Listed>>;

    /// Makes one directory, whose parent exists.
    ///
    /// # Errors
    ///
    /// The operating system's: `AlreadyExists` if the name is taken.
    fn create_directory(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable, not what they lead to.
    ///
    /// # Errors
    ///
    /// The operating system's.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;

    /// Gives a file a second name; fails with `AlreadyExists` if it is taken.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` if the name is taken; else the operating system's.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Takes a file's name away. The file lives on while it is open.
    ///
    /// # Errors
    ///
    /// The operating system's: `NotFound` if there is no such file.
    fn unlink(&self, path: &Path) -> io::Result<()>;

    /// Removes a directory; fails with `DirectoryNotEmpty` if anything is in it.
    ///
    /// # Errors
    ///
    /// `DirectoryNotEmpty` if anything is in it; else the operating system's.
    fn remove_directory(&self, path: &Path) -> io::Result<()>;

    /// This process; changes in a forked child.
    fn process(&self) -> u32;

    /// A number that no other call, here or anywhere, is likely to give.
    fn unique(&self) -> u64;

    /// Is the directory on a file system of this machine alone, so that all who can open a file
    /// of it meet at its lock?
    ///
    /// # Errors
    ///
    /// The operating system's.
    fn is_of_this_machine(&self, path: &Path) -> io::Result<bool>;

    /// How many names the file at `path` has, as whatever keeps it says now.
    ///
    /// # Errors
    ///
    /// The operating system's.
    fn names_of(&self, path: &Path) -> io::Result<u64>;

    /// The time since some moment, by a clock that never goes back.
    fn clock(&self) -> Duration {
        os::clock()
    }

    /// Lets time go by.
    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }

    /// This process, as claims name it ([`claims::this_process`]).
    fn holder(&self) -> String {
        claims::this_process()
    }

    /// What is known of whoever holds a claim ([`claims::life`]).
    fn life(&self, holder: &str) -> Life {
        claims::life(holder)
    }

    /// May work go on behind the caller's back, on a thread of its own?
    fn has_threads(&self) -> bool {
        true
    }
}

/// An open file; closed, and its lock given back, on drop.
pub trait DiskFile: Send + Sync + fmt::Debug {
    /// Closes the file, and says if that failed: on a network, what was written may reach its
    /// server only now.
    ///
    /// # Errors
    ///
    /// The operating system's. The file is closed in any case.
    fn close(self: Box<Self>) -> io::Result<()>;

    /// The file's length.
    ///
    /// # Errors
    ///
    /// The operating system's.
    fn bytes(&self) -> io::Result<u64>;

    /// How many bytes were read: 0 only at the end of the file.
    ///
    /// # Errors
    ///
    /// The operating system's.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// The same, into the spare capacity of `bytes`.
    ///
    /// # Errors
    ///
    /// The operating system's.
    fn read_on(&self, bytes: &mut Vec<u8>, offset: u64) -> io::Result<usize> {
        let before = bytes.len();
        bytes.resize(bytes.capacity(), 0);
        let got = self.read_at(&mut bytes[before..], offset);
        bytes.truncate(before + *got.as_ref().unwrap_or(&0));
        got
    }

    /// How many bytes were written.
    ///
    /// # Errors
    ///
    /// The operating system's: `StorageFull` on a full disk.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Makes the file as long as `bytes`: what is beyond is cut off.
    ///
    /// # Errors
    ///
    /// The operating system's.
    fn truncate(&self, bytes: u64) -> io::Result<()>;

    /// Makes a hole of whole blocks inside the file, which reads as zeros and takes no space. A
    /// crash soon afterwards may undo it, or a part of it.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the file system has none; else the operating system's.
    fn punch(&self, _blocks: Range<u64>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Makes the file's bytes and length durable. After an error, what is on
    /// disk is unknown, and a second call proves nothing.
    ///
    /// # Errors
    ///
    /// The operating system's.
    fn sync_data(&self) -> io::Result<()>;

    /// Asks for the bytes to be written out soon: a hint, which never fails.
    fn start_writeback(&self, range: Range<u64>);

    /// Would a byte be read without waiting for the device? `false` if that is not known.
    fn is_in_memory(&self, _offset: u64) -> bool {
        false
    }

    /// Fills the buffer with bytes that are read without waiting for the device; `false` if not all are, or if that is
    /// not known.
    fn read_present(&self, _buffer: &mut [u8], _offset: u64) -> bool {
        false
    }

    /// Asks for the bytes to be read from the device soon: a hint, which never fails.
    fn start_reading(&self, _range: Range<u64>) {}

    /// Takes the file's exclusive lock, unless another handle has it (`false`).
    ///
    /// # Errors
    ///
    /// The operating system's, but that another handle has the lock is none.
    fn try_lock(&self) -> io::Result<bool>;
}

/// Reads until the buffer is full or the file ends, and says how much it got.
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

/// `length` bytes from `offset` on, fewer at the end of the file.
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

/// Writes all bytes, or fails having written any part of them.
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
