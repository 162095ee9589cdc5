//! The simulated system calls, with their effects on success and on failure.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::cached::{CachedDirectory, CachedFile};
use crate::chance::Chance;
use crate::state::{Call, Fate, Handle, HandleId, Inode, ProcessId, State, dead};
use crate::turns::Turns;
use kubist_store::disk::{DirectoryEntry, Open, PathMetadata, Sort, irregular};

/// Time of one step of a pause.
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct Machine {
    state: Mutex<State>,
    turns: Turns,
}

impl Machine {
    pub fn new(seed: u64) -> Machine {
        let mut chance = Chance::new(seed);
        let turns = Turns::new(chance.number());
        let state = State::new(chance);
        Machine { state: Mutex::new(state), turns }
    }

    pub fn turns(&self) -> &Turns {
        &self.turns
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes one system call: `work` does it, as far as its fate allows.
    fn call<T>(
        &self,
        process: ProcessId,
        call: Call,
        work: impl FnOnce(&mut State, Fate) -> io::Result<T>,
    ) -> io::Result<T> {
        self.turns.wait(process);
        let state = &mut *self.state();
        let fate = state.fate(process, call)?;
        let result = work(state, fate);
        match fate {
            Fate::Succeeds => result,
            Fate::Fails => Err(io::Error::other(format!("{call:?} failed, as was asked for"))),
            Fate::Dies => {
                state.die(process);
                Err(dead())
            }
        }
    }

    pub fn open(&self, process: ProcessId, path: &Path, how: Open) -> io::Result<HandleId> {
        let call = match how {
            Open::Create => Call::Create,
            Open::Read | Open::ReadWrite => Call::Open,
        };
        self.call(process, call, |state, fate| {
            let node = match how {
                Open::Read | Open::ReadWrite => state.node(path)?,
                Open::Create => {
                    let (folder, name) = state.parent(path)?;
                    state.stops_here(fate)?;
                    state.add(folder, name, Inode::File(CachedFile::default()))?
                }
            };
            if state.nodes[node].sort() == Sort::Directory {
                return Err(irregular(path, Sort::Directory, Sort::File));
            }
            let handle = HandleId(state.unique());
            if fate == Fate::Succeeds {
                let opened = Handle { process, node, writable: how != Open::Read, locks: false };
                state.handles.insert(handle, opened);
            }
            Ok(handle)
        })
    }

    pub fn close(&self, handle: HandleId) {
        self.state().handles.remove(&handle);
    }

    pub fn find(&self, process: ProcessId, path: &Path) -> io::Result<Option<PathMetadata>> {
        self.call(process, Call::Find, |state, _| match state.node(path) {
            Ok(node) => {
                let (bytes, taken) = match &state.nodes[node] {
                    Inode::File(file) => (file.seen.len() as u64, file.taken()),
                    Inode::Directory(_) => (4096, 4096),
                };
                Ok(Some(PathMetadata {
                    sort: state.nodes[node].sort(),
                    bytes,
                    taken,
                    node: node as u64,
                    changed: bytes,
                }))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        })
    }

    pub fn names_of(&self, process: ProcessId, path: &Path) -> io::Result<u64> {
        self.call(process, Call::Find, |state, _| state.node(path).map(|node| state.names_of(node)))
    }

    /// Waits in small steps, so that others run in between.
    pub fn pause(&self, process: ProcessId, time: Duration) {
        if !self.turns.takes_part(process) {
            return self.state().pass(time);
        }
        let until = self.state().clock() + time;
        loop {
            self.turns.wait(process);
            let mut state = self.state();
            let left = until.saturating_sub(state.clock());
            if left.is_zero() || !state.lives(process) {
                return;
            }
            state.pass(left.min(PAUSE));
        }
    }

    pub fn read_directory(&self, process: ProcessId, path: &Path) -> io::Result<Vec<DirectoryEntry>> {
        self.call(process, Call::List, |state, _| {
            let node = state.folder(path)?;
            let seen = state.directory(node)?.seen.clone();
            let mut listed: Vec<DirectoryEntry> =
                seen.into_iter().map(|(name, node)| DirectoryEntry { name, sort: state.nodes[node].sort() }).collect();
            // Real listings have no order.
            for last in (1..listed.len()).rev() {
                let other = state.chance.below(last + 1);
                listed.swap(last, other);
            }
            Ok(listed)
        })
    }

    pub fn create_directory(&self, process: ProcessId, path: &Path) -> io::Result<()> {
        self.call(process, Call::CreateDirectory, |state, fate| {
            let (folder, name) = state.parent(path)?;
            state.stops_here(fate)?;
            let made = Inode::Directory(CachedDirectory::default());
            state.add(folder, name, made).map(drop)
        })
    }

    pub fn sync_directory(&self, process: ProcessId, path: &Path) -> io::Result<()> {
        self.call(process, Call::SyncDirectory, |state, fate| {
            let node = state.node(path)?;
            state.stops_here(fate)?;
            state.directory(node)?.sync();
            Ok(())
        })
    }

    pub fn link(&self, process: ProcessId, from: &Path, to: &Path) -> io::Result<()> {
        self.call(process, Call::Link, |state, fate| {
            let node = state.node(from)?;
            let (folder, name) = state.parent(to)?;
            state.stops_here(fate)?;
            state.name(folder, name, node)
        })
    }

    pub fn unlink(&self, process: ProcessId, path: &Path) -> io::Result<()> {
        self.call(process, Call::Unlink, |state, fate| {
            let node = state.node(path)?;
            if state.nodes[node].sort() == Sort::Directory {
                return Err(irregular(path, Sort::Directory, Sort::File));
            }
            let (folder, name) = state.parent(path)?;
            state.stops_here(fate)?;
            state.directory(folder)?.remove(name);
            Ok(())
        })
    }

    pub fn remove_directory(&self, process: ProcessId, path: &Path) -> io::Result<()> {
        self.call(process, Call::Unlink, |state, fate| {
            let node = state.node(path)?;
            if !state.directory(node)?.seen.is_empty() {
                return Err(io::ErrorKind::DirectoryNotEmpty.into());
            }
            let (folder, name) = state.parent(path)?;
            state.stops_here(fate)?;
            state.directory(folder)?.remove(name);
            Ok(())
        })
    }

    pub fn bytes(&self, process: ProcessId, handle: HandleId) -> io::Result<u64> {
        self.call(process, Call::Length, |state, _| {
            let node = state.handle(handle)?.node;
            match &state.nodes[node] {
                Inode::File(file) => Ok(file.seen.len() as u64),
                Inode::Directory(_) => Ok(4096),
            }
        })
    }

    pub fn read_at(&self, process: ProcessId, handle: HandleId, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.call(process, Call::Read, |state, _| {
            let node = state.handle(handle)?.node;
            let wanted = state.perhaps_short(buffer.len())?;
            let seen = &state.file(node)?.seen;
            let from = seen.len().min(offset as usize);
            let bytes = &seen[from..seen.len().min(from + wanted)];
            buffer[..bytes.len()].copy_from_slice(bytes);
            Ok(bytes.len())
        })
    }

    pub fn write_at(&self, process: ProcessId, handle: HandleId, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.call(process, Call::Write, |state, fate| {
            let node = state.writable(handle)?;
            let mut count = match fate {
                Fate::Succeeds => state.perhaps_short(bytes.len())?,
                Fate::Fails | Fate::Dies => state.chance.below(bytes.len() + 1),
            };
            let offset = offset as usize;
            if let Some(capacity) = state.capacity {
                let free = capacity.saturating_sub(state.used()) as usize;
                let length = state.file(node)?.seen.len();
                count = count.min((length + free).saturating_sub(offset));
                if count == 0 && !bytes.is_empty() {
                    return Err(io::ErrorKind::StorageFull.into());
                }
            }
            state.file(node)?.write(offset, &bytes[..count]);
            Ok(count)
        })
    }

    pub fn truncate(&self, process: ProcessId, handle: HandleId, bytes: u64) -> io::Result<()> {
        self.call(process, Call::Truncate, |state, fate| {
            let node = state.writable(handle)?;
            state.stops_here(fate)?;
            state.file(node)?.truncate(bytes as usize);
            Ok(())
        })
    }

    pub fn punch(&self, process: ProcessId, handle: HandleId, blocks: Range<u64>) -> io::Result<()> {
        self.call(process, Call::Punch, |state, fate| {
            let node = state.writable(handle)?;
            state.stops_here(fate)?;
            state.file(node)?.punch(blocks.start as usize..blocks.end as usize);
            Ok(())
        })
    }

    pub fn sync_data(&self, process: ProcessId, handle: HandleId) -> io::Result<()> {
        self.call(process, Call::Sync, |state, fate| {
            let node = state.handle(handle)?.node;
            match (&mut state.nodes[node], fate) {
                (Inode::File(file), Fate::Succeeds) => file.sync(),
                (Inode::File(file), Fate::Fails) => file.fail_to_sync(&mut state.chance),
                // The crash decides; killing a process changes nothing.
                (Inode::File(_), Fate::Dies) | (Inode::Directory(_), _) => {}
            }
            Ok(())
        })
    }

    pub fn try_lock(&self, process: ProcessId, handle: HandleId) -> io::Result<bool> {
        self.call(process, Call::Lock, |state, fate| {
            let node = state.handle(handle)?.node;
            let held = |(other, held): (&HandleId, &Handle)| *other != handle && held.node == node && held.locks;
            if fate != Fate::Succeeds || state.handles.iter().any(held) {
                return Ok(false);
            }
            if let Some(handle) = state.handles.get_mut(&handle) {
                handle.locks = true;
            }
            Ok(true)
        })
    }
}
