//! A directory as all parts of its store see it, and how old what is seen may be.
//!
//! On a file system of several machines names, lengths and listings are kept by each of them
//! for a time, and may be older than what another one did meanwhile. What follows from that for
//! a shared store stands here, in one place:
//!
//! - that something is absent, too short or wrong is believed only after it was looked for
//!   again for [`Place::look_again`]'s time;
//! - that something is there, whole, is believed at once: nothing changes once it has its name.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;

use crate::disk::{Disk, DiskFile, Open, read_range};
use crate::{Error, Result};

use super::folders::Folders;

/// For how long a machine may keep what it knows of names, unless the user says otherwise: what
/// NFS does by default.
const STALENESS: Duration = Duration::from_secs(60);
/// The variable that says otherwise, in seconds.
pub(super) const STALENESS_VARIABLE: &str = "KUBIST_STALE_SECONDS";
/// Looks at something that may be old: the pauses between them double.
const LOOKS: u32 = 8;
/// What is read of a file whose length is not known.
const GUESS_BYTES: usize = 64 << 10;

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
            disk,
        }
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

    /// Waits a moment, and longer the more often something was looked at in vain; `false` once
    /// what is seen cannot be old any more.
    pub fn look_again(&self, attempt: u32) -> bool {
        if !self.is_shared() || attempt > LOOKS {
            return false;
        }
        if let Some(doublings) = attempt.checked_sub(1) {
            // A little more than all of it together.
            self.disk.pause((self.staleness + self.staleness / 4) * (1 << doublings) / (1 << LOOKS));
        }
        true
    }

    /// Waits until whatever was there when this was called is seen.
    pub fn catch_up(&self) {
        if self.is_shared() {
            self.disk.pause(self.staleness + self.staleness / 4);
        }
    }

    /// Looks again while what was found may be old.
    pub fn patiently<T>(&self, mut look: impl FnMut() -> Result<T>) -> Result<T> {
        let mut attempt = 0;
        loop {
            match look() {
                Err(Error::Damaged { .. }) if self.look_again(attempt) => attempt += 1,
                Err(Error::Io { source, .. }) if is_stale(&source) && self.look_again(attempt) => attempt += 1,
                found => return found,
            }
        }
    }

    /// Opens a file, also where this machine remembers another one of its name.
    pub fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>> {
        match self.disk.open(path, how) {
            Err(error) if is_stale(&error) => self.disk.open(path, how),
            opened => opened,
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
        let mut bytes: Vec<u8> = Vec::new();
        loop {
            let some = read_range(&*file, bytes.len() as u64, GUESS_BYTES.max(bytes.len()));
            let some = some.map_err(|error| Error::io("read", path, error))?;
            if some.is_empty() {
                return Ok(Some(bytes.into()));
            }
            bytes.extend_from_slice(&some);
        }
    }
}

/// The file was deleted by another machine while this one had it open, or remembered its name.
pub(super) fn is_stale(error: &io::Error) -> bool {
    error.kind() == ErrorKind::StaleNetworkFileHandle
}
