//! The operating system's disk. It opens each component of a path relative to the folder above it. So replacing a
//! folder by a link during the walk has no effect.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::fs::{AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::fs::{flock, fstat, linkat, mkdirat, openat, statat, unlinkat};
use rustix::io::{Errno, retry_on_intr};

use super::{DirectoryEntry, Disk, DiskFile, Open, PathMetadata, Sort, irregular};

/// On some systems, passing through a folder needs no permission to list it.
#[cfg(target_os = "linux")]
const PASS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const PASS: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);

/// The disk of this machine, for a store in one directory.
#[derive(Debug, Clone)]
pub struct OsDisk {
    root: PathBuf,
}

impl OsDisk {
    /// The disk below `root`. The path to `root` may contain links, because the user names it.
    pub fn beneath(root: &Path) -> OsDisk {
        OsDisk { root: root.to_path_buf() }
    }

    /// Creates a file that other users cannot open. Returns an error if the name is taken.
    pub(crate) fn create_private(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let file = self.at(path)?.open(flags, Mode::RUSR | Mode::WUSR, Sort::File)?;
        Ok(Box::new(OsFile(file.into())))
    }

    fn at<'a>(&self, path: &'a Path) -> io::Result<At<'a>> {
        let below = path.strip_prefix(&self.root).ok();
        let Some((folders, name)) = below.and_then(|below| Some((below.parent()?, below.file_name()?))) else {
            return Ok(At { folder: None, name: path.as_os_str(), path });
        };
        let mut folder = retry_on_intr(|| openat(CWD, &self.root, PASS, Mode::empty()))?;
        let mut passed = self.root.clone();
        for part in folders {
            passed.push(part);
            let opened = retry_on_intr(|| openat(&folder, part, PASS | OFlags::NOFOLLOW, Mode::empty()));
            folder = opened.map_err(|error| {
                let found = statat(&folder, part, AtFlags::SYMLINK_NOFOLLOW);
                instead(found, &passed, error, Sort::Directory)
            })?;
        }
        Ok(At { folder: Some(folder), name, path })
    }
}

/// A path below the store's directory, or a whole path outside it.
struct At<'a> {
    folder: Option<OwnedFd>,
    name: &'a OsStr,
    path: &'a Path,
}

impl At<'_> {
    fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_ref().map_or(CWD, AsFd::as_fd)
    }

    fn open(&self, flags: OFlags, mode: Mode, wanted: Sort) -> io::Result<OwnedFd> {
        let no_links = if self.folder.is_some() { OFlags::NOFOLLOW } else { OFlags::empty() };
        let flags = flags | no_links | OFlags::CLOEXEC | OFlags::NOCTTY;
        retry_on_intr(|| openat(self.folder(), self.name, flags, mode)).map_err(|error| match error {
            Errno::NOENT | Errno::EXIST => error.into(),
            _ => self.instead(error, wanted),
        })
    }

    fn instead(&self, error: Errno, wanted: Sort) -> io::Error {
        instead(self.stat(), self.path, error, wanted)
    }

    fn open_directory(&self) -> io::Result<OwnedFd> {
        self.open(OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty(), Sort::Directory)
    }

    fn stat(&self) -> rustix::io::Result<Stat> {
        let no_links = if self.folder.is_some() { AtFlags::SYMLINK_NOFOLLOW } else { AtFlags::empty() };
        retry_on_intr(|| statat(self.folder(), self.name, no_links))
    }
}

/// Returns an [`Irregular`] error if the file has another type than `wanted`, and otherwise `error`.
fn instead(found: rustix::io::Result<Stat>, path: &Path, error: Errno, wanted: Sort) -> io::Error {
    match found {
        Ok(stat) if sort(&stat) != wanted => irregular(path, sort(&stat), wanted),
        _ => error.into(),
    }
}

fn sort(stat: &Stat) -> Sort {
    sort_of(FileType::from_raw_mode(stat.st_mode))
}

fn sort_of(file_type: FileType) -> Sort {
    match file_type {
        FileType::RegularFile => Sort::File,
        FileType::Directory => Sort::Directory,
        FileType::Symlink => Sort::Link,
        FileType::Fifo => Sort::Pipe,
        FileType::Socket => Sort::Socket,
        FileType::CharacterDevice | FileType::BlockDevice => Sort::Device,
        _ => Sort::Unknown,
    }
}

impl Disk for OsDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>> {
        let how = match how {
            Open::Read => OFlags::RDONLY,
            Open::ReadWrite => OFlags::RDWR,
            Open::Create => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
        };
        // Without `NONBLOCK`, opening a pipe would wait for its other end.
        let file = self.at(path)?.open(how | OFlags::NONBLOCK, Mode::from_raw_mode(0o666), Sort::File)?;
        match sort(&fstat(&file)?) {
            Sort::File => Ok(Box::new(OsFile(file.into()))),
            sort => Err(irregular(path, sort, Sort::File)),
        }
    }

    fn find(&self, path: &Path) -> io::Result<Option<PathMetadata>> {
        let found = self.at(path).and_then(|at| Ok(at.stat()?));
        match found {
            Ok(stat) => {
                let (bytes, on_disk) = (stat.st_size as u64, stat.st_blocks as u64 * 512);
                // Device numbers are small, so their bits rarely meet those of the inode.
                let node = stat.st_ino as u64 ^ (stat.st_dev as u64).rotate_left(40);
                let changed =
                    (stat.st_ctime as u64).wrapping_mul(1_000_000_000).wrapping_add(stat.st_ctime_nsec as u64);
                Ok(Some(PathMetadata { sort: sort(&stat), bytes, taken: bytes.min(on_disk), node, changed }))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn read_directory(&self, path: &Path) -> io::Result<Vec<DirectoryEntry>> {
        let mut directory = Dir::new(self.at(path)?.open_directory()?)?;
        let mut listed = Vec::new();
        while let Some(entry) = directory.read() {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            // Some file systems do not report types in listings.
            let sort = match sort_of(entry.file_type()) {
                Sort::Unknown => match statat(directory.fd()?, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => sort(&stat),
                    Err(Errno::NOENT) => continue,
                    Err(error) => return Err(error.into()),
                },
                sort => sort,
            };
            if let Ok(name) = OsString::from_vec(name.to_bytes().to_vec()).into_string() {
                listed.push(DirectoryEntry { name, sort });
            }
        }
        Ok(listed)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        let at = self.at(path)?;
        Ok(mkdirat(at.folder(), at.name, Mode::from_raw_mode(0o777))?)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        File::from(self.at(path)?.open_directory()?).sync_all()
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (self.at(from)?, self.at(to)?);
        Ok(linkat(from.folder(), from.name, to.folder(), to.name, AtFlags::empty())?)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        let at = self.at(path)?;
        unlinkat(at.folder(), at.name, AtFlags::empty()).map_err(|error| match error {
            Errno::ISDIR | Errno::PERM => at.instead(error, Sort::File),
            _ => error.into(),
        })
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        let at = self.at(path)?;
        Ok(unlinkat(at.folder(), at.name, AtFlags::REMOVEDIR)?)
    }

    fn process(&self) -> u32 {
        std::process::id()
    }

    fn unique(&self) -> u64 {
        crate::claims::unique()
    }

    fn is_of_this_machine(&self, path: &Path) -> io::Result<bool> {
        is_of_this_machine(path)
    }

    fn names_of(&self, path: &Path) -> io::Result<u64> {
        // Opens the file, because a lookup of the name may not request current metadata from the file server.
        let file = self.at(path)?.open(OFlags::RDONLY, Mode::empty(), Sort::File)?;
        Ok(fstat(&file)?.st_nlink as u64)
    }
}

pub(super) fn clock() -> Duration {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    BEGAN.get_or_init(Instant::now).elapsed()
}

/// File systems that only one machine mounts, by their number in statfs(2): ext2 to ext4, XFS, Btrfs, tmpfs, ramfs,
/// overlayfs, ZFS, F2FS, bcachefs, JFS, FAT, exFAT, NTFS, eCryptfs.
#[cfg(target_os = "linux")]
const OF_ONE_MACHINE: [u64; 14] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0x0102_1994,
    0x8584_58f6,
    0x794c_7630,
    0x2fc1_2fc1,
    0xf2f5_2010,
    0xca45_1a4e,
    0x3153_464a,
    0x4d44,
    0x2011_bab0,
    0x7366_746e,
    0xf15f,
];

#[cfg(target_os = "linux")]
fn is_of_this_machine(path: &Path) -> io::Result<bool> {
    let found = retry_on_intr(|| rustix::fs::statfs(path))?;
    Ok(OF_ONE_MACHINE.contains(&(found.f_type as u64 & 0xffff_ffff)))
}

/// Other systems have other numbers, so the user has to decide.
#[cfg(not(target_os = "linux"))]
fn is_of_this_machine(_path: &Path) -> io::Result<bool> {
    Ok(true)
}

#[derive(Debug)]
struct OsFile(File);

#[cfg(target_os = "linux")]
impl OsFile {
    /// Reads without waiting for the device. Returns `None` if it can read nothing.
    fn read_now(&self, buffer: &mut [u8], offset: u64) -> Option<usize> {
        let into = &mut [io::IoSliceMut::new(buffer)];
        rustix::io::preadv2(&self.0, into, offset, rustix::io::ReadWriteFlags::NOWAIT).ok()
    }
}

/// Gives the kernel a hint, so errors are ignored.
#[cfg(target_os = "linux")]
fn advise(file: &File, range: Range<u64>, advice: rustix::fs::Advice) {
    let bytes = std::num::NonZeroU64::new(range.end.saturating_sub(range.start));
    let _ = rustix::fs::fadvise(file, range.start, bytes, advice);
}

impl DiskFile for OsFile {
    fn close(self: Box<Self>) -> io::Result<()> {
        let file = self.0.into_raw_fd();
        // SAFETY: the descriptor belonged to this file alone, and nothing else uses it after `into_raw_fd`.
        Ok(unsafe { rustix::io::try_close(file) }?)
    }

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

    #[cfg(target_os = "linux")]
    fn punch(&self, blocks: Range<u64>) -> io::Result<()> {
        use rustix::fs::{FallocateFlags, fallocate};
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(retry_on_intr(|| fallocate(&self.0, hole, blocks.start, blocks.end - blocks.start))?)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn start_writeback(&self, range: Range<u64>) {
        // On Linux, this starts to write dirty pages without waiting, and keeps them in the cache.
        #[cfg(target_os = "linux")]
        advise(&self.0, range, rustix::fs::Advice::DontNeed);
        #[cfg(not(target_os = "linux"))]
        let _ = range;
    }

    #[cfg(target_os = "linux")]
    fn is_in_memory(&self, offset: u64) -> bool {
        self.read_now(&mut [0], offset).is_some()
    }

    #[cfg(target_os = "linux")]
    fn read_present(&self, buffer: &mut [u8], offset: u64) -> bool {
        let length = buffer.len();
        self.read_now(buffer, offset) == Some(length)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_of_two_names_has_two() {
        let folder = tempfile::tempdir().unwrap();
        let (disk, one, two) = (OsDisk::beneath(folder.path()), folder.path().join("a"), folder.path().join("b"));
        disk.open(&one, Open::Create).unwrap().close().unwrap();
        assert_eq!(disk.names_of(&one).unwrap(), 1);
        disk.link(&one, &two).unwrap();
        assert_eq!(disk.names_of(&two).unwrap(), 2);
    }

    #[test]
    fn private_files_are_of_one_user() {
        let folder = tempfile::tempdir().unwrap();
        let (disk, path) = (OsDisk::beneath(folder.path()), folder.path().join("spilled"));
        disk.create_private(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(disk.create_private(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }
}
