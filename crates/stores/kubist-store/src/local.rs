//! The local store: a directory that any number of processes share.
//!
//! ```text
//! <directory>/table, rewrites/0000...   objects, at their names
//!             logs/<writer>.log, .ack   a writer's log, and its acknowledged length
//!             logs/<writer>.entries/    the log in a shared store (`numbered`)
//!             segments/<name>.seg
//!             tmp/                      files without their final name, and spill files
//! ```
//!
//! There is no server, and readers take no lock. These rules make it safe:
//!
//! - A file gets its name (by a link) only after its bytes are durable. A call that reports the name as present has
//!   synced the directory. Segments have their name while they are written, but no entry names them before a sync.
//! - Nothing is overwritten except the acknowledgements, which are checksummed hints.
//! - A log's owner holds the lock on the file, which ends with the process. On a network file system (NFS, Lustre,
//!   GPFS, BeeGFS, CephFS), locks may work on one machine only. A store there is **shared**, which a mark in the
//!   directory records: its owners have a claim, and a fence in the log (`claim_files`, `entries`).
//! - Changes by another machine may be visible late; `directory` decides how long to retry.
//! - After a failed write or sync, a handle refuses further writes.
//! - Below the directory, links are not followed and only regular files are opened (`disk`).
//!
//! Folders are created with their first file. Opening a directory for reading changes nothing.

mod claim_files;
mod directory;
mod entries;
mod folders;
mod health;
mod location;
mod logs;
mod numbered;
mod objects;
mod open_files;
mod segments;
mod temporary;
mod whole;

use std::io;
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rayon::prelude::*;

use crate::claims::LAPSE;
use crate::disk::{Disk, OsDisk, Sort, irregular};
use crate::store::scratch::LocalScratch;
use crate::{
    Abilities, Answers, Capabilities, Error, Fencing, Latency, Locality, LogOwner, LogTail, Logs, Reads, Request,
    Result, Scratch, Segment, Sharing, Size, SoundLog, Space, Spill, Stamp, Stamps, Store, Watch, check_stopped,
    read_watched, switches,
};

pub use location::Directories;

use claim_files::Claims;
use directory::StoreDirectory;
use entries::LogEnds;
use numbered::{ENTRIES, LOGS, NO_WRITER};
use open_files::OpenFiles;

/// The number of segments whose reads start together; less than the limit of open files.
const SEGMENTS_AT_ONCE: usize = 64;

/// A store in a directory.
#[derive(Debug)]
pub struct LocalStore {
    directory: Arc<StoreDirectory>,
    open_files: OpenFiles,
    waited: AtomicBool,
    known: Arc<LogEnds>,
    claims: Claims,
}

impl Deref for LocalStore {
    type Target = StoreDirectory;

    fn deref(&self) -> &StoreDirectory {
        &self.directory
    }
}

/// Opens the store in an existing directory, which may be empty.
///
/// # Errors
///
/// `Missing` if there is no directory; `Irregular` if the path is not a directory; `Io`.
pub fn open_local(path: &Path) -> Result<LocalStore> {
    let path = &from_any_directory(path)?;
    LocalStore::open_on(Arc::new(OsDisk::beneath(path)), path)
}

/// Makes the path independent of the working directory.
fn from_any_directory(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|error| Error::io("find", path, error))
}

impl LocalStore {
    /// Opens the store in a directory, and creates missing directories durably.
    ///
    /// # Errors
    ///
    /// `Irregular` if a link or a file is at the path of a directory; `NoSpace`; `Io`.
    pub fn create(path: &Path) -> Result<LocalStore> {
        let path = &from_any_directory(path)?;
        LocalStore::on_disk(Arc::new(OsDisk::beneath(path)), path)
    }

    /// [`LocalStore::create`] on another [`Disk`].
    ///
    /// # Errors
    ///
    /// As for [`LocalStore::create`].
    pub fn on_disk(disk: Arc<dyn Disk>, path: &Path) -> Result<LocalStore> {
        folders::create_with_parents(&*disk, path)?;
        let store = LocalStore::at(disk, path)?;
        let is_ours = store.is_of_this_machine()?;
        let is_new = || -> Result<bool> {
            let foreign = |name: &str| name != LOGS && name != temporary::FOLDER;
            let listed = store.folders.list(path)?;
            Ok(!listed.iter().any(|listed| foreign(&listed.name)) && logs::writers(&store)?.is_empty())
        };
        if !is_ours && !store.is_shared() && is_new()? {
            store.share()?;
        }
        Ok(store)
    }

    /// [`open_local`] on another [`Disk`].
    ///
    /// # Errors
    ///
    /// As for [`open_local`].
    pub fn open_on(disk: Arc<dyn Disk>, path: &Path) -> Result<LocalStore> {
        let location = path.display().to_string();
        match disk.find(path) {
            Ok(Some(found)) if found.sort == Sort::Directory => {}
            Ok(Some(found)) => return Err(Error::io("open", path, irregular(path, found.sort, Sort::Directory))),
            Ok(None) => return Err(Error::Missing { file: location }),
            Err(error) => return Err(Error::io("open", path, error)),
        }
        LocalStore::at(disk, path)
    }

    fn at(disk: Arc<dyn Disk>, path: &Path) -> Result<LocalStore> {
        let store = LocalStore {
            open_files: OpenFiles::new(disk.clone()),
            directory: Arc::new(StoreDirectory::new(disk, path)),
            waited: AtomicBool::default(),
            known: Arc::default(),
            claims: Claims::default(),
        };
        store.look_for_mark()?;
        Ok(store)
    }

    fn look_for_mark(&self) -> Result<()> {
        if numbered::is_marked(self)? {
            self.set_shared();
        }
        Ok(())
    }

    /// Refuses changes to an unshared store on a network file system, where locks may not work.
    fn check_alone(&self) -> Result<()> {
        if self.is_shared() || self.is_of_this_machine()? {
            return Ok(());
        }
        self.look_for_mark()?;
        if self.is_shared() {
            return Ok(());
        }
        let what = "several machines may use its file system, and locks may work on one machine only; \
                    make the table shared first (kubist alter --shared)";
        Err(Error::io("change", &self.root, io::Error::new(io::ErrorKind::Unsupported, what)))
    }
}

impl LocalStore {
    /// How long this machine may cache names and lengths. `KUBIST_STALE_SECONDS` sets it for a whole process.
    pub fn with_staleness(mut self, staleness: Duration) -> LocalStore {
        if let Some(directory) = Arc::get_mut(&mut self.directory) {
            directory.staleness = staleness;
        }
        self
    }

    /// Describes anomalies of a writer's log: damage, an unfinished entry, a missing or unreadable acknowledgement.
    ///
    /// # Errors
    ///
    /// `Missing` if there is no such log; `InvalidName`; `Io`. Damage is part of the result, not an error.
    pub fn check_log(&self, writer: &str) -> Result<Vec<String>> {
        if !self.is_shared() {
            return logs::check(self, writer);
        }
        let sound = entries::read_sound(self, writer, 0)?;
        Ok(sound.damage.iter().map(Error::to_string).collect())
    }

    /// With `waits`, it waits to find out whether a holder on another machine is dead.
    fn own(&self, writer: &str, waits: bool) -> Result<Box<dyn LogOwner>> {
        if writer == NO_WRITER {
            return Err(Error::InvalidName {
                name: writer.into(),
                why: "the name is reserved for the mark of shared stores".into(),
            });
        }
        self.check_alone()?;
        if !self.is_shared() {
            let owner = logs::own(self, writer)?;
            // Checks under the lock whether the store became shared; that change puts the mark before it locks.
            self.look_for_mark()?;
            if !self.is_shared() {
                return Ok(owner);
            }
        }
        entries::own(self, writer, waits)
    }
}

impl LocalStore {
    /// Reads several segments, and returns whether any read waited for the device.
    fn read_together(&self, wanted: &[(&str, &[Range<u64>])], watch: Watch<'_>) -> (Answers, bool) {
        let asked = Instant::now();
        let (present, mut waited) = match wanted.len() {
            1 => (vec![None], false),
            _ => segments::read_present(self, wanted),
        };
        let answers = wanted.iter().zip(present).map(|((segment, ranges), present)| match present {
            Some(found) => {
                let (bytes, answered) = (found.iter().map(|bytes| bytes.len() as u64).sum(), Instant::now());
                watch(Request { asked, sent: asked, answered, bytes, host: None, cached: false });
                Ok(found)
            }
            None => {
                let found = read_watched(self, segment, ranges, watch);
                waited |= self.waited();
                found
            }
        });
        (answers.collect(), waited)
    }
}

impl Store for LocalStore {
    fn location(&self) -> &str {
        &self.location
    }

    fn capabilities(&self) -> Capabilities {
        let fencing = if self.is_shared() { Fencing::Claim { lapse: LAPSE } } else { Fencing::Lock };
        Capabilities {
            locality: Locality::Here,
            latency: Latency::Device,
            fencing,
            staleness: self.staleness(),
            // During a punch, the file server decides what other machines read.
            punches: !self.is_shared(),
        }
    }

    fn abilities(&self) -> Abilities<'_> {
        Abilities {
            reads: Some(self),
            logs: Some(self),
            sharing: Some(self),
            space: Some(self),
            stamps: Some(self),
            spill: Some(self),
            ..Abilities::default()
        }
    }

    fn put_if_absent(&self, name: &str, value: &[u8]) -> Result<bool> {
        self.check_alone()?;
        let won = objects::put_if_absent(self, name, value)?;
        if !won {
            self.learn();
        }
        Ok(won)
    }

    fn get(&self, name: &str) -> Result<Option<Bytes>> {
        let found = objects::get(self, name)?;
        if found.is_some() {
            self.directory.learn_of(name);
        }
        Ok(found)
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        objects::list(self, prefix)
    }

    fn delete(&self, name: &str) -> Result<()> {
        self.check_alone()?;
        objects::delete(self, name)
    }

    fn create_segment(&self, name: &str) -> Result<Box<dyn Segment>> {
        self.check_alone()?;
        segments::create(self, name)
    }

    fn read(&self, segment: &str, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        segments::read(self, segment, ranges)
    }

    fn segment_len(&self, segment: &str) -> Result<Option<u64>> {
        segments::len(self, segment)
    }

    fn segments(&self) -> Result<Vec<String>> {
        segments::names(self)
    }

    fn delete_segment(&self, segment: &str) -> Result<()> {
        self.check_alone()?;
        segments::delete(self, segment)
    }

    fn own_log(&self, writer: &str) -> Result<Box<dyn LogOwner>> {
        self.own(writer, true)
    }

    fn logs(&self) -> Result<Vec<String>> {
        let mut writers = self.folders.names(LOGS, ".log")?;
        if writers.iter().any(|name| name == NO_WRITER) {
            self.set_shared();
        }
        writers.retain(|writer| writer != NO_WRITER);
        writers.extend(self.folders.names(LOGS, ENTRIES)?);
        writers.extend(self.known.writers());
        writers.sort_unstable();
        writers.dedup();
        Ok(writers)
    }

    fn read_log(&self, writer: &str, from: u64) -> Result<LogTail> {
        self.read_log_piece(writer, from, u64::MAX)
    }

    fn sizes(&self) -> Result<Vec<Size>> {
        whole::sizes(self)
    }

    fn erase(&self, objects: &[String]) -> Result<()> {
        self.check_alone()?;
        whole::erase(self, objects)
    }
}

impl Stamps for LocalStore {
    fn stamp(&self, name: &str) -> Result<Stamp> {
        objects::stamp(self, name)
    }

    fn log_stamps(&self, entries: &[(&str, u64)]) -> Result<Vec<Stamp>> {
        let stamp = |(writer, end): &(&str, u64)| match self.is_shared() {
            true => entries::stamp(self, writer, *end),
            false => logs::stamp(self, writer),
        };
        entries.iter().map(stamp).collect()
    }
}

impl Reads for LocalStore {
    fn read_segments(&self, wanted: &[(&str, &[Range<u64>])], watch: Watch<'_>) -> Result<Answers> {
        let batches: Vec<_> = wanted.chunks(SEGMENTS_AT_ONCE).collect();
        let switches = switches();
        let read = |some: &&[(&str, &[Range<u64>])]| switches.around(|| self.read_together(some, watch));
        let answered: Vec<_> = batches.par_iter().with_min_len(2).map(read).collect();
        let waited = answered.iter().any(|(_, waited)| *waited);
        let answers = answered.into_iter().flat_map(|(answers, _)| answers).collect();
        if !wanted.is_empty() {
            self.waited.store(waited, Ordering::Relaxed);
        }
        Ok(answers)
    }

    fn read_short(&self, wanted: &[(&str, &[Range<u64>])], watch: Watch<'_>) -> Result<Answers> {
        self.read_segments(wanted, watch)
    }

    fn list_after(&self, prefix: &str, after: &str) -> Result<Vec<String>> {
        let mut names = self.list(prefix)?;
        names.retain(|name| name.as_str() > after);
        Ok(names)
    }

    fn waited(&self) -> bool {
        self.waited.load(Ordering::Relaxed)
    }
}

impl Logs for LocalStore {
    fn own_free_log(&self, writer: &str) -> Result<Box<dyn LogOwner>> {
        self.own(writer, false)
    }

    fn read_logs(&self, logs: &[(&str, u64)]) -> Result<Vec<LogTail>> {
        logs.iter().map(|(writer, from)| self.read_log(writer, *from)).collect()
    }

    fn read_log_piece(&self, writer: &str, from: u64, bytes: u64) -> Result<LogTail> {
        match self.is_shared() {
            true => entries::read(self, writer, from, bytes),
            false => logs::read(self, writer, from, bytes),
        }
    }

    fn read_sound_log(&self, writer: &str, from: u64) -> Result<SoundLog> {
        match self.is_shared() {
            true => entries::read_sound(self, writer, from),
            false => logs::read_sound(self, writer, from),
        }
    }
}

impl Sharing for LocalStore {
    fn share(&self) -> Result<()> {
        if self.is_shared() {
            return Ok(());
        }
        numbered::mark(self)?;
        self.set_shared();
        if !self.is_of_this_machine()? && !logs::writers(self)?.is_empty() {
            // The view must be current, because the end of each log is fixed now.
            self.catch_up()?;
        }
        for writer in logs::writers(self)? {
            // After a cancellation, the next owner of the log seals it.
            check_stopped(&self.location)?;
            entries::seal(self, &writer)?;
        }
        Ok(())
    }

    fn learn(&self) {
        self.directory.learn();
    }

    fn look_again(&self, attempt: u32) -> Result<bool> {
        self.directory.look_again(attempt)
    }

    fn await_seen(&self, look: &mut dyn FnMut() -> Result<bool>) -> Result<bool> {
        self.directory.await_seen(look)
    }

    fn catch_up(&self) -> Result<()> {
        self.directory.catch_up()
    }
}

impl Space for LocalStore {
    fn segment_bytes(&self, segment: &str) -> Result<Option<u64>> {
        segments::taken(self, segment)
    }

    fn punch(&self, segment: &str, ranges: &[Range<u64>]) -> Result<()> {
        self.check_alone()?;
        match self.is_shared() {
            true => Ok(()),
            false => segments::punch(self, segment, ranges),
        }
    }
}

impl Spill for LocalStore {
    fn scratch(&self) -> Result<Box<dyn Scratch>> {
        let (file, path) = temporary::nameless(self)?;
        Ok(Box::new(LocalScratch::new(file, path)))
    }
}
