//! A simulated machine that mounts a file server, like an NFS client.
//!
//! The machine caches names, lengths and listings, so its processes may see an old state of files that other
//! machines changed. The [`Rule`]s of the network say which weaknesses of real file systems are simulated. Tests
//! use them to check that a table in a shared directory stays valid.
//!
//! As on real machines, a machine sees its own changes at once: creating, linking or deleting a name removes the
//! name and the listing of its directory from the cache.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Result};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::cached::Node;
use crate::chance::Chance;
use crate::network::{Network, Rule};
use crate::{SimDisk, SimProcess};
use kubist_store::claims::Life;
use kubist_store::disk::{DirectoryEntry, Disk, DiskFile, Open, PathMetadata, Sort};

/// Maximum age of a cache entry, in milliseconds.
const LONGEST: usize = 400;
/// With `Rule::LostAnswers`, the response to one of this many successful links is lost, on average.
const LOST: usize = 6;

/// A machine that mounts a [`Network`]'s server.
#[derive(Debug)]
pub struct Mount {
    network: Arc<Network>,
    number: u64,
    memory: Mutex<Memory>,
}

/// A machine's cache. Each entry is valid until a time of the server's clock.
#[derive(Debug)]
struct Memory {
    chance: Chance,
    /// The file that has this name; `None` if there was no such file.
    names: HashMap<PathBuf, (Option<Node>, Duration)>,
    lengths: HashMap<PathBuf, (PathMetadata, Duration)>,
    listings: HashMap<PathBuf, (Vec<DirectoryEntry>, Duration)>,
}

impl Mount {
    /// Mounts a network's server on a new machine.
    pub fn new(network: &Arc<Network>) -> Arc<Mount> {
        let number = network.next_mount();
        let memory = Memory {
            chance: Chance::new(number),
            names: HashMap::new(),
            lengths: HashMap::new(),
            listings: HashMap::new(),
        };
        Arc::new(Mount { network: network.clone(), number, memory: Mutex::new(memory) })
    }

    /// Starts a process.
    pub fn process(self: &Arc<Mount>) -> Arc<MountedProcess> {
        self.of(self.network.server.process())
    }

    /// Moves a process of the server to this machine.
    pub fn of(self: &Arc<Mount>, process: Arc<SimProcess>) -> Arc<MountedProcess> {
        Arc::new(MountedProcess { mount: self.clone(), process })
    }

    fn server(&self) -> &SimDisk {
        &self.network.server
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Draws the expiry time of a new entry.
    fn until(&self) -> Duration {
        let chance = self.memory().chance.below(LONGEST);
        self.server().clock() + Duration::from_millis(chance as u64)
    }

    fn remember_name(&self, path: &Path, node: Option<Node>) {
        if self.network.has(Rule::OldNames) {
            let until = self.until();
            self.memory().names.insert(path.into(), (node, until));
        }
    }

    /// Looks a name up in the cache. `None`: the server must be asked; `Some(None)`: there is no such file. If a
    /// folder is cached as absent, all names below it are absent.
    fn name(&self, path: &Path) -> Option<Option<Node>> {
        let now = self.server().clock();
        let memory = self.memory();
        let known = |path: &Path| memory.names.get(path).filter(|(_, until)| *until > now).map(|(node, _)| *node);
        match path.ancestors().skip(1).any(|above| known(above) == Some(None)) {
            true => Some(None),
            false => known(path),
        }
    }

    /// Caches that the first missing folder of a path is absent; the file itself, if all its folders exist.
    fn remember_absent(&self, path: &Path) {
        if let Some(first) = path.ancestors().take_while(|above| !self.network.is_there(above)).last() {
            self.remember_name(first, None);
        }
    }

    /// Removes the entries of a name and the listing of its directory.
    fn forget(&self, path: &Path) {
        let mut memory = self.memory();
        memory.names.remove(path);
        memory.lengths.remove(path);
        if let Some(folder) = path.parent() {
            memory.listings.remove(folder);
        }
    }
}

/// A process on a machine that mounts the server.
#[derive(Debug)]
pub struct MountedProcess {
    mount: Arc<Mount>,
    process: Arc<SimProcess>,
}

impl MountedProcess {
    /// The process as the server knows it, for example to kill it.
    pub fn process(&self) -> &SimProcess {
        &self.process
    }

    /// Returns the handle of a file that `inner` has just opened on the server.
    fn file(&self, path: &Path, how: Open, inner: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        let (mount, network) = (self.mount.number, &self.mount.network);
        // Processes take turns and none ran since the file was opened, so its name is still there.
        let node = network.node(path).unwrap_or_default();
        let seen = match network.has(Rule::AfterClose) {
            true => network.closed_before(mount, node).unwrap_or_else(|| network.bytes(node)),
            false => Arc::default(),
        };
        if how == Open::Create {
            network.begin(mount, node);
        }
        Box::new(MountedFile {
            mount: self.mount.clone(),
            process: self.process.clone(),
            path: path.into(),
            node,
            seen,
            writable: how != Open::Read,
            error: Mutex::default(),
            lock: Mutex::default(),
            inner: Some(inner),
        })
    }
}

impl Disk for MountedProcess {
    fn open(&self, path: &Path, how: Open) -> Result<Box<dyn DiskFile>> {
        let known = self.mount.name(path).filter(|_| how != Open::Create);
        if known == Some(None) {
            return Err(ErrorKind::NotFound.into());
        }
        match self.process.open(path, how) {
            Ok(inner) => {
                if how == Open::Create {
                    self.mount.forget(path);
                }
                let node = self.mount.network.node(path);
                self.mount.remember_name(path, node);
                Ok(self.file(path, how, inner))
            }
            Err(error) => {
                self.mount.forget(path);
                if error.kind() == ErrorKind::NotFound && how != Open::Create {
                    self.mount.remember_absent(path);
                    // The cache still has the name, but the server deleted the file.
                    if known.is_some() && self.mount.network.has(Rule::Gone) {
                        return Err(ErrorKind::StaleNetworkFileHandle.into());
                    }
                }
                Err(error)
            }
        }
    }

    fn find(&self, path: &Path) -> Result<Option<PathMetadata>> {
        if self.mount.name(path) == Some(None) {
            return Ok(None);
        }
        let now = self.mount.server().clock();
        let known = self.mount.memory().lengths.get(path).filter(|(_, until)| *until > now).map(|(found, _)| *found);
        if known.is_some() {
            return Ok(known);
        }
        let mut found = self.process.find(path)?;
        let node = self.mount.network.node(path);
        let seen = node.and_then(|node| self.mount.network.closed_before(self.mount.number, node));
        if let Some((found, seen)) = found.as_mut().zip(seen) {
            found.bytes = seen.len() as u64;
            found.taken = found.taken.min(found.bytes);
        }
        match found {
            None => self.mount.remember_absent(path),
            Some(found) if found.sort == Sort::File && self.mount.network.has(Rule::OldLengths) => {
                let until = self.mount.until();
                self.mount.memory().lengths.insert(path.into(), (found, until));
            }
            Some(_) => {}
        }
        Ok(found)
    }

    fn read_directory(&self, path: &Path) -> Result<Vec<DirectoryEntry>> {
        let now = self.mount.server().clock();
        let known = self.mount.memory().listings.get(path).filter(|(_, until)| *until > now).cloned();
        if let Some((listed, _)) = known {
            return Ok(listed);
        }
        if self.mount.name(path) == Some(None) {
            return Err(ErrorKind::NotFound.into());
        }
        let listed = self.process.read_directory(path).inspect_err(|error| {
            if error.kind() == ErrorKind::NotFound {
                self.mount.remember_absent(path);
            }
        })?;
        if self.mount.network.has(Rule::OldListings) {
            let until = self.mount.until();
            self.mount.memory().listings.insert(path.into(), (listed.clone(), until));
        }
        Ok(listed)
    }

    fn create_directory(&self, path: &Path) -> Result<()> {
        let made = self.process.create_directory(path);
        self.mount.forget(path);
        made
    }

    fn sync_directory(&self, path: &Path) -> Result<()> {
        self.process.sync_directory(path)
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        let linked = self.process.link(from, to);
        self.mount.forget(to);
        linked?;
        match self.mount.network.has(Rule::LostAnswers) && self.mount.memory().chance.once_in(LOST) {
            true => Err(ErrorKind::AlreadyExists.into()),
            false => Ok(()),
        }
    }

    fn unlink(&self, path: &Path) -> Result<()> {
        let node = self.mount.network.node(path);
        let unlinked = self.process.unlink(path);
        self.mount.forget(path);
        if let Some(node) = node.filter(|_| unlinked.is_ok()) {
            self.mount.network.unlinked(self.mount.number, node);
        }
        unlinked
    }

    fn remove_directory(&self, path: &Path) -> Result<()> {
        let removed = self.process.remove_directory(path);
        self.mount.forget(path);
        removed
    }

    fn process(&self) -> u32 {
        Disk::process(&*self.process)
    }

    fn unique(&self) -> u64 {
        self.process.unique()
    }

    fn is_of_this_machine(&self, _path: &Path) -> Result<bool> {
        Ok(false)
    }

    fn names_of(&self, path: &Path) -> Result<u64> {
        self.process.names_of(path)
    }

    fn clock(&self) -> Duration {
        self.process.clock()
    }

    fn pause(&self, time: Duration) {
        self.process.pause(time);
    }

    fn holder(&self) -> String {
        self.process.holder().replacen("simulated", &format!("mount{}", self.mount.number), 1)
    }

    fn life(&self, holder: &str) -> Life {
        match holder.strip_prefix(&format!("mount{} ", self.mount.number)) {
            // The server knows the process as "simulated", but its claims are registered as "mount".
            Some(rest) => self.process.life_of(&format!("simulated {rest}"), holder),
            None => Life::Unknown,
        }
    }

    fn has_threads(&self) -> bool {
        false
    }
}

/// An open file of a process on this machine.
#[derive(Debug)]
struct MountedFile {
    mount: Arc<Mount>,
    process: Arc<SimProcess>,
    path: PathBuf,
    node: Node,
    /// With `Rule::AfterClose`: the content that this machine saw when it opened the file.
    seen: Arc<Vec<u8>>,
    writable: bool,
    /// With `Rule::LateErrors`: the error of an earlier write, which sync or close will report.
    error: Mutex<Option<io::Error>>,
    /// With `Rule::OwnLocks`: the lock that only processes of this machine see.
    lock: Mutex<Option<Box<dyn DiskFile>>>,
    /// The file on the server; `None` once it is closed.
    inner: Option<Box<dyn DiskFile>>,
}

impl MountedFile {
    /// Returns the file on the server, or a stale handle error if another machine deleted the file.
    fn inner(&self) -> Result<&dyn DiskFile> {
        if self.mount.network.is_gone(self.mount.number, self.node) {
            return Err(ErrorKind::StaleNetworkFileHandle.into());
        }
        self.inner.as_deref().ok_or_else(|| ErrorKind::BrokenPipe.into())
    }

    /// Returns the old content if reads must return it instead of the content on the server. The machine that
    /// writes the file sees its own writes.
    fn seen(&self) -> Option<&[u8]> {
        let old = self.mount.network.has(Rule::AfterClose) && !self.mount.network.writes(self.mount.number, self.node);
        old.then_some(&**self.seen)
    }

    /// Registers this machine as the writer. It now knows the length, so it drops the cached one.
    fn begin(&self) {
        self.mount.network.begin(self.mount.number, self.node);
        self.mount.memory().lengths.remove(&self.path);
    }

    /// The error of an earlier write that is not reported yet.
    fn late(&self) -> MutexGuard<'_, Option<io::Error>> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DiskFile for MountedFile {
    fn close(mut self: Box<Self>) -> Result<()> {
        let late = self.late().take();
        let closed = self.inner.take().map_or(Ok(()), |inner| inner.close());
        late.map_or(closed, Err)
    }

    fn bytes(&self) -> Result<u64> {
        let bytes = self.inner()?.bytes()?;
        Ok(self.seen().map_or(bytes, |seen| seen.len() as u64))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let got = self.inner()?.read_at(buffer, offset)?;
        let Some(seen) = self.seen() else { return Ok(got) };
        let seen = &seen[seen.len().min(offset as usize)..];
        let got = if got == 0 { buffer.len() } else { got }.min(seen.len());
        buffer[..got].copy_from_slice(&seen[..got]);
        Ok(got)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<usize> {
        self.begin();
        match self.inner()?.write_at(bytes, offset) {
            Err(error) if self.mount.network.has(Rule::LateErrors) && error.kind() != ErrorKind::Interrupted => {
                self.late().get_or_insert(error);
                Ok(bytes.len())
            }
            written => written,
        }
    }

    fn truncate(&self, bytes: u64) -> Result<()> {
        self.begin();
        self.inner()?.truncate(bytes)
    }

    fn sync_data(&self) -> Result<()> {
        match self.late().take() {
            Some(error) => Err(error),
            None => self.inner()?.sync_data(),
        }
    }

    fn start_writeback(&self, _range: Range<u64>) {}

    fn try_lock(&self) -> Result<bool> {
        if !self.mount.network.has(Rule::OwnLocks) {
            return self.inner()?.try_lock();
        }
        let folder = PathBuf::from(format!("/locks-{}", self.mount.number));
        match self.process.create_directory(&folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let path = folder.join(self.node.to_string());
        let opened = match self.process.open(&path, Open::Create) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => self.process.open(&path, Open::ReadWrite),
            opened => opened,
        }?;
        let locked = opened.try_lock()?;
        if locked {
            *self.lock.lock().unwrap_or_else(PoisonError::into_inner) = Some(opened);
        }
        Ok(locked)
    }
}

impl Drop for MountedFile {
    fn drop(&mut self) {
        if self.writable {
            self.mount.network.close(self.mount.number, self.node);
        }
    }
}
