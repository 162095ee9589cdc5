//! A directory as all parts of its store see it, and how old what is seen may be.
//!
//! On a file system of several machines names, lengths and listings are kept by each of them
//! for a time, and may be older than what another one did meanwhile. What follows from that for
//! a shared store stands here, in one place:
//!
//! - that something is there, whole, is believed at once: nothing changes once it has its name;
//! - that something is absent, too short or wrong is believed once what this machine sees is
//!   younger than what the handle knows of it. Whatever names something was read later than that
//!   was there. So it is looked for again until so much time has gone by since the handle last
//!   [learned](Place::learn) of anything, and from then on not at all: damage makes a handle
//!   wait once, however much of it there is.

use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use crate::disk::{Disk, DiskFile, Found, Open, read_range};
use crate::{Error, Result, Stamp, check_stopped};

use super::folders::Folders;

/// For how long a machine may keep what it knows of names, unless the user says otherwise: what
/// NFS does by default.
const STALENESS: Duration = Duration::from_secs(60);
/// The variable that says otherwise, in seconds.
pub(super) const STALENESS_VARIABLE: &str = "KUBIST_STALE_SECONDS";
/// The first of the pauses between looks at something that may be old is this part of the whole
/// time; they double.
const FIRST_PAUSE: u32 = 256;
/// The longest of them.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How often whoever waits asks whether it is to stop.
const LOOK: Duration = Duration::from_millis(200);
/// What is read of a file whose length is not known.
const GUESS_BYTES: usize = 64 << 10;
/// So many are asked for at first, whatever its length is said to be.
const MOST_GUESS_BYTES: usize = 16 << 20;

#[derive(Debug)]
pub struct Place {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) root: PathBuf,
    pub(super) location: String,
    pub(super) folders: Folders,
    /// Was `tmp/` looked through for what dead processes left?
    pub(super) cleaned: AtomicBool,
    shared: AtomicBool,
    pub(super) staleness: Duration,
    /// When the handle last learned of something, in milliseconds of the disk's clock.
    learned: AtomicU64,
    /// The objects that it has read.
    read: Mutex<HashSet<String>>,
    /// Is the file system one of this machine alone?
    is_ours: OnceLock<bool>,
}

impl Place {
    pub fn new(disk: Arc<dyn Disk>, root: &Path) -> Place {
        let said = std::env::var(STALENESS_VARIABLE).ok().and_then(|text| text.parse().ok());
        let said = said.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        Place {
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

    /// Is the file system one of this machine alone?
    pub fn is_of_this_machine(&self) -> Result<bool> {
        if let Some(known) = self.is_ours.get() {
            return Ok(*known);
        }
        let found = self.disk.is_of_this_machine(&self.root);
        let found = found.map_err(|error| Error::io("look at the file system of", &self.root, error))?;
        Ok(*self.is_ours.get_or_init(|| found))
    }

    /// Is the store one of several machines?
    pub fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Relaxed)
    }

    /// From now on it is.
    pub fn set_shared(&self) {
        self.shared.store(true, Ordering::Relaxed);
    }

    /// How old what is seen may be.
    pub fn staleness(&self) -> Duration {
        if self.is_shared() { self.staleness } else { Duration::ZERO }
    }

    /// The handle has learned of something that others did, and may not see all of it yet.
    pub fn learn(&self) {
        if self.is_shared() {
            self.learned.fetch_max(millis(self.disk.clock()), Ordering::Relaxed);
        }
    }

    /// The handle has read an object: what it names was there before, if it is the first time.
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

    /// A little more than what is seen can be old.
    fn patience(&self) -> Duration {
        self.staleness + self.staleness / 4
    }

    /// Waits a moment, and longer the more often something was looked at in vain; `false` once
    /// what is seen is younger than all that the handle has learned.
    pub fn look_again(&self, attempt: u32) -> Result<bool> {
        if !self.is_shared() {
            return Ok(false);
        }
        // At once: what was opened before may be old.
        let Some(pauses) = attempt.checked_sub(1) else { return Ok(true) };
        let seen = Duration::from_millis(self.learned.load(Ordering::Relaxed)) + self.patience();
        let left = seen.saturating_sub(self.disk.clock());
        // Others may make the handle learn again and again.
        let most = FIRST_PAUSE.ilog2() as u64 + self.patience().as_secs();
        if left.is_zero() || u64::from(attempt) > most + 1 {
            return Ok(false);
        }
        self.pause(self.pause_after(pauses).min(left))?;
        Ok(true)
    }

    /// Looks until something is seen that was there when this was called; `false` once it would be.
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

    /// The pause after so many.
    fn pause_after(&self, pauses: u32) -> Duration {
        let pause = self.patience() * (1 << pauses.min(FIRST_PAUSE.ilog2())) / FIRST_PAUSE;
        pause.min(LONGEST_PAUSE)
    }

    /// Waits until whatever was there when this was called is seen.
    pub fn catch_up(&self) -> Result<()> {
        if self.is_shared() { self.pause(self.patience()) } else { Ok(()) }
    }

    /// Lets time go by, unless the call is to stop.
    pub fn pause(&self, mut left: Duration) -> Result<()> {
        while !left.is_zero() {
            check_stopped(&self.location)?;
            let some = left.min(LOOK);
            self.disk.pause(some);
            left -= some;
        }
        check_stopped(&self.location)
    }

    /// Looks again while what was found may be old.
    pub fn patiently<T>(&self, mut look: impl FnMut() -> Result<T>) -> Result<T> {
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

    /// Opens a file, also where this machine remembers another one of its name.
    pub fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>> {
        match self.disk.open(path, how) {
            Err(error) if is_stale(&error) => self.disk.open(path, how),
            opened => opened,
        }
    }

    /// Which file is at a path, and when it was last changed.
    pub fn stamp_of(&self, path: &Path) -> Result<Stamp> {
        match self.disk.find(path) {
            Ok(Some(Found { node, changed, .. })) => Ok(Stamp::Of(u128::from(node) << 64 | u128::from(changed))),
            Ok(None) => Ok(Stamp::Absent),
            // A file is on the way, or a link.
            Err(error) if matches!(error.kind(), ErrorKind::NotADirectory | ErrorKind::NotFound) => Ok(Stamp::Absent),
            Err(error) => Err(Error::io("look at", path, error)),
        }
    }

    /// A small file whole; `None` if it is not there. The length that the system gives for it may
    /// be old: its bytes are read until they end.
    pub fn whole(&self, path: &Path) -> Result<Option<Bytes>> {
        let file = match self.open(path, Open::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("open", path, error)),
        };
        let failed = |error| Error::io("read", path, error);
        // One byte more than there are says that there are no more.
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

/// The file was deleted by another machine while this one had it open, or remembered its name.
pub(super) fn is_stale(error: &io::Error) -> bool {
    error.kind() == ErrorKind::StaleNetworkFileHandle
}
