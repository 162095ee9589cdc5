//! The directory of a store, and retries where this machine's view of it may be stale.
//!
//! On a network file system, each machine caches names, lengths and listings, so it may not yet see the changes of
//! another machine. A shared store follows two rules:
//!
//! - A complete file that is visible is used immediately, because files with their final name never change.
//! - A file that is absent, too short or wrong may be an effect of a stale cache. The store retries until all changes
//!   that the handle knows of must be visible: until the staleness and a quarter have passed since the handle last
//!   [learned](StoreDirectory::learn) of a change. Later errors are reported immediately, so a handle waits only once,
//!   even if many files are damaged.

use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use crate::disk::{Disk, DiskFile, Open, PathMetadata, read_range};
use crate::{Error, Result, Stamp, check_stopped};

use super::folders::Folders;

/// How long a machine may cache names by default, as in NFS.
const STALENESS: Duration = Duration::from_secs(60);
/// Overrides [`STALENESS`], in seconds.
pub(super) const STALENESS_VARIABLE: &str = "KUBIST_STALE_SECONDS";
/// The first pause is 1/256 of the total time, and each following pause is twice as long.
const FIRST_PAUSE: u32 = 256;
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
const CANCEL_CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// The minimum of the first read, because the reported length may be stale.
const GUESS_BYTES: usize = 64 << 10;
/// The maximum of the first read, whatever length the system reports.
const MOST_GUESS_BYTES: usize = 16 << 20;

#[derive(Debug)]
pub struct StoreDirectory {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) root: PathBuf,
    pub(super) location: String,
    pub(super) folders: Folders,
    /// Whether this handle has removed the temporary files of dead processes.
    pub(super) cleaned: AtomicBool,
    shared: AtomicBool,
    pub(super) staleness: Duration,
    /// The time when the handle last learned of a change, in milliseconds of the disk's clock.
    learned: AtomicU64,
    /// The objects for which [`StoreDirectory::learn_of`] was called.
    read: Mutex<HashSet<String>>,
    /// The cached result of [`StoreDirectory::is_of_this_machine`].
    is_ours: OnceLock<bool>,
}

impl StoreDirectory {
    pub fn new(disk: Arc<dyn Disk>, root: &Path) -> StoreDirectory {
        let said = std::env::var(STALENESS_VARIABLE).ok().and_then(|text| text.parse().ok());
        let said = said.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        StoreDirectory {
            folders: Folders::new(disk.clone(), root),
            root: root.to_path_buf(),
            location: root.display().to_string(),
            cleaned: AtomicBool::default(),
            shared: AtomicBool::default(),
            staleness: said.unwrap_or(STALENESS),
            learned: AtomicU64::new(millis(disk.clock())),
            read: Mutex::default(),
            is_ours: OnceLock::new(),
            disk,
        }
    }

    /// Whether only this machine mounts the file system.
    pub fn is_of_this_machine(&self) -> Result<bool> {
        if let Some(known) = self.is_ours.get() {
            return Ok(*known);
        }
        let found = self.disk.is_of_this_machine(&self.root);
        let found = found.map_err(|error| Error::io("examine the file system of", &self.root, error))?;
        Ok(*self.is_ours.get_or_init(|| found))
    }

    pub fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Relaxed)
    }

    pub fn set_shared(&self) {
        self.shared.store(true, Ordering::Relaxed);
    }

    pub fn staleness(&self) -> Duration {
        if self.is_shared() { self.staleness } else { Duration::ZERO }
    }

    /// Records that the handle knows of changes by other machines that may not be visible here yet.
    pub fn learn(&self) {
        if self.is_shared() {
            self.learned.fetch_max(millis(self.disk.clock()), Ordering::Relaxed);
        }
    }

    /// [`StoreDirectory::learn`] at the first read of an object. Later reads tell nothing new, because everything that
    /// the object names existed before.
    pub fn learn_of(&self, object: &str) {
        if self.is_shared() {
            let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
            if !read.contains(object) {
                read.insert(object.to_owned());
                drop(read);
                self.learn();
            }
        }
    }

    /// How long a change may stay invisible, with a margin.
    fn patience(&self) -> Duration {
        self.staleness + self.staleness / 4
    }

    /// Waits before the next attempt, longer each time. Returns `false` if all known changes must be visible by now.
    pub fn look_again(&self, attempt: u32) -> Result<bool> {
        if !self.is_shared() {
            return Ok(false);
        }
        // The first retry is immediate: it helps if only an open file is stale.
        let Some(pauses) = attempt.checked_sub(1) else { return Ok(true) };
        let seen = Duration::from_millis(self.learned.load(Ordering::Relaxed)) + self.patience();
        let left = seen.saturating_sub(self.disk.clock());
        // Limits the attempts, because other threads can make the handle learn again and again.
        let most = FIRST_PAUSE.ilog2() as u64 + self.patience().as_secs();
        if left.is_zero() || u64::from(attempt) > most + 1 {
            return Ok(false);
        }
        self.pause(self.pause_after(pauses).min(left))?;
        Ok(true)
    }

    /// Calls `look` until it returns true. Returns `false` once anything that existed at the time of this call must be
    /// visible.
    pub fn await_seen(&self, look: &mut dyn FnMut() -> Result<bool>) -> Result<bool> {
        let until = self.disk.clock() + self.patience();
        for pauses in 0.. {
            if look()? {
                return Ok(true);
            }
            let left = until.saturating_sub(self.disk.clock());
            if !self.is_shared() || left.is_zero() {
                break;
            }
            self.pause(self.pause_after(pauses).min(left))?;
        }
        Ok(false)
    }

    fn pause_after(&self, pauses: u32) -> Duration {
        let pause = self.patience() * (1 << pauses.min(FIRST_PAUSE.ilog2())) / FIRST_PAUSE;
        pause.min(LONGEST_PAUSE)
    }

    /// Waits until everything that existed at the time of this call must be visible.
    pub fn catch_up(&self) -> Result<()> {
        if self.is_shared() { self.pause(self.patience()) } else { Ok(()) }
    }

    pub fn pause(&self, mut left: Duration) -> Result<()> {
        while !left.is_zero() {
            check_stopped(&self.location)?;
            let some = left.min(CANCEL_CHECK_INTERVAL);
            self.disk.pause(some);
            left -= some;
        }
        check_stopped(&self.location)
    }

    /// Repeats `look` while it returns damage or a stale handle that a later view may correct.
    pub fn retry_while_stale<T>(&self, mut look: impl FnMut() -> Result<T>) -> Result<T> {
        let mut attempt = 0;
        loop {
            let found = look();
            let may_be_old = match &found {
                Err(Error::Damaged { .. }) => true,
                Err(Error::Io { source, .. }) => is_stale(source),
                _ => false,
            };
            if !may_be_old || !self.look_again(attempt)? {
                return found;
            }
            attempt += 1;
        }
    }

    /// Opens a file. A second attempt helps if this machine has cached a deleted file with this name.
    pub fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>> {
        match self.disk.open(path, how) {
            Err(error) if is_stale(&error) => self.disk.open(path, how),
            opened => opened,
        }
    }

    /// Returns the inode and the time of the last change.
    pub fn stamp_of(&self, path: &Path) -> Result<Stamp> {
        match self.disk.find(path) {
            Ok(Some(PathMetadata { node, changed, .. })) => Ok(Stamp::Of(u128::from(node) << 64 | u128::from(changed))),
            Ok(None) => Ok(Stamp::Absent),
            Err(error) if matches!(error.kind(), ErrorKind::NotADirectory | ErrorKind::NotFound) => Ok(Stamp::Absent),
            Err(error) => Err(Error::io("examine", path, error)),
        }
    }

    /// Reads a small file to its end, because the reported length may be stale. `None` if there is no file.
    pub fn whole(&self, path: &Path) -> Result<Option<Bytes>> {
        let file = match self.open(path, Open::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("open", path, error)),
        };
        let failed = |error| Error::io("read", path, error);
        // One more byte shows that the file ends.
        let length = usize::try_from(file.bytes().map_err(failed)?).unwrap_or(usize::MAX);
        let mut wanted = length.saturating_add(1).clamp(GUESS_BYTES, MOST_GUESS_BYTES);
        let mut bytes: Vec<u8> = Vec::new();
        loop {
            let some = read_range(&*file, bytes.len() as u64, wanted).map_err(failed)?;
            let is_all = some.len() < wanted;
            match bytes.is_empty() {
                true => bytes = some,
                false => bytes.extend_from_slice(&some),
            }
            if is_all {
                return Ok(Some(bytes.into()));
            }
            wanted = bytes.len();
        }
    }
}

fn millis(time: Duration) -> u64 {
    time.as_millis() as u64
}

/// Whether another machine deleted the file while this machine had it open or had cached its name.
pub(super) fn is_stale(error: &io::Error) -> bool {
    error.kind() == ErrorKind::StaleNetworkFileHandle
}
