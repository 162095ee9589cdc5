//! The local engine: a directory, shared by any number of processes.
//!
//! ```text
//! <directory>/table, rewrites/0000...   objects, at their names
//!             logs/<writer>.log, .ack   a writer's log, and how much of it is acknowledged
//!             segments/<name>.seg
//!             tmp/                      files on their way to a name, and spill files
//! ```
//!
//! There is no server and no lock that readers take. What makes it safe:
//!
//! - a file gets its name (link) only after its bytes are durable, and a caller
//!   that learns that the name is there has synced the directory; segments are the
//!   exception, because no entry names one before its owner synced it;
//! - nothing is overwritten, but for the acknowledgements, which are checksummed
//!   hints;
//! - a log's owner holds the file's lock, which dies with the process;
//! - after a failed write or sync, a handle refuses to go on;
//! - nothing below the directory is reached through a link, and only regular files are
//!   opened, because a table may come from someone who is not trusted. Anything else under such a
//!   name is an error.
//!
//! Folders are made when something is first put into them: opening a directory
//! for reading changes nothing in it.

mod folders;
mod location;
mod logs;
mod objects;
mod open_files;
mod scratch;
mod segments;
mod standing;
mod temporary;
mod whole;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

use crate::disk::{Disk, OsDisk, Sort, irregular};
use crate::{
    Capabilities, Error, Fencing, Latency, Locality, LogOwner, LogTail, Result, Scratch, Segment, Size, SoundLog, Store,
};

pub use location::Directories;
pub use scratch::local_scratch;

use folders::Folders;
use open_files::OpenFiles;
use temporary::Temporaries;

/// A store in a directory.
#[derive(Debug)]
pub struct LocalStore {
    disk: Arc<dyn Disk>,
    root: PathBuf,
    location: String,
    folders: Folders,
    temporaries: Temporaries,
    open_files: OpenFiles,
    waited: AtomicBool,
}

/// Opens the store in an existing directory; [`Error::Missing`] if there is
/// none. An empty directory is an empty store.
///
/// # Errors
///
/// [`Error::Missing`] if there is none; `Irregular` if it is no directory; `Io`.
pub fn open_local(path: &Path) -> Result<LocalStore> {
    LocalStore::open_on(Arc::new(OsDisk::beneath(path)), path)
}

impl LocalStore {
    /// Opens the store in a directory, making it (durably, and its parents too)
    /// if it is absent.
    ///
    /// # Errors
    ///
    /// `Irregular` if a link or a file is where a directory should be; `NoSpace`; `Io`.
    pub fn create(path: &Path) -> Result<LocalStore> {
        LocalStore::on_disk(Arc::new(OsDisk::beneath(path)), path)
    }

    /// [`LocalStore::create`] on another disk than the machine's.
    ///
    /// # Errors
    ///
    /// As of [`LocalStore::create`].
    pub fn on_disk(disk: Arc<dyn Disk>, path: &Path) -> Result<LocalStore> {
        folders::create_with_parents(&*disk, path)?;
        LocalStore::open_on(disk, path)
    }

    /// [`open_local`] on another disk than the machine's.
    ///
    /// # Errors
    ///
    /// As of [`open_local`].
    pub fn open_on(disk: Arc<dyn Disk>, path: &Path) -> Result<LocalStore> {
        let location = path.display().to_string();
        match disk.find(path) {
            Ok(Some(found)) if found.sort == Sort::Directory => {}
            Ok(Some(found)) => return Err(Error::io("open", path, irregular(path, found.sort, Sort::Directory))),
            Ok(None) => return Err(Error::Missing { file: location }),
            Err(error) => return Err(Error::io("open", path, error)),
        }
        Ok(LocalStore {
            folders: Folders::new(disk.clone(), path),
            temporaries: Temporaries::default(),
            open_files: OpenFiles::new(disk.clone()),
            waited: AtomicBool::default(),
            root: path.to_path_buf(),
            location,
            disk,
        })
    }
}

impl LocalStore {
    /// What is odd about a writer's log, in words, one finding each: damage, an
    /// unfinished entry, a missing or unreadable acknowledgement. Empty if all
    /// is well.
    ///
    /// # Errors
    ///
    /// `Missing` if there is no such log; `InvalidName`; `Io`. Damage is a finding, not an error.
    pub fn check_log(&self, writer: &str) -> Result<Vec<String>> {
        logs::check(self, writer)
    }
}

impl Store for LocalStore {
    fn location(&self) -> &str {
        &self.location
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { locality: Locality::Here, latency: Latency::Device, fencing: Fencing::Lock }
    }

    fn put_if_absent(&self, name: &str, value: &[u8]) -> Result<bool> {
        objects::put_if_absent(self, name, value)
    }

    fn get(&self, name: &str) -> Result<Option<Bytes>> {
        objects::get(self, name)
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        objects::list(self, prefix)
    }

    fn delete(&self, name: &str) -> Result<()> {
        objects::delete(self, name)
    }

    fn create_segment(&self, name: &str) -> Result<Box<dyn Segment>> {
        segments::create(self, name)
    }

    fn read(&self, segment: &str, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        segments::read(self, segment, ranges)
    }

    fn waited(&self) -> bool {
        self.waited.load(Ordering::Relaxed)
    }

    fn segment_len(&self, segment: &str) -> Result<Option<u64>> {
        segments::len(self, segment)
    }

    fn segments(&self) -> Result<Vec<String>> {
        segments::names(self)
    }

    fn delete_segment(&self, segment: &str) -> Result<()> {
        segments::delete(self, segment)
    }

    fn own_log(&self, writer: &str) -> Result<Box<dyn LogOwner>> {
        logs::own(self, writer)
    }

    fn logs(&self) -> Result<Vec<String>> {
        logs::writers(self)
    }

    fn read_log(&self, writer: &str, from: u64) -> Result<LogTail> {
        logs::read(self, writer, from)
    }

    fn read_sound_log(&self, writer: &str, from: u64) -> Result<SoundLog> {
        logs::read_sound(self, writer, from)
    }

    fn scratch(&self) -> Result<Box<dyn Scratch>> {
        scratch::create(self)
    }

    fn sizes(&self) -> Result<Vec<Size>> {
        whole::sizes(self)
    }

    fn erase(&self, objects: &[String]) -> Result<()> {
        whole::erase(self, objects)
    }
}
