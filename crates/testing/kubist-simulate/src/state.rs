//! The state of the simulated machine: its disk, its processes, their open and locked files, and the fate
//! of every system call.

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use crate::cached::{CachedDirectory, CachedFile, Node};
use crate::chance::Chance;
use kubist_store::disk::{Sort, irregular};

/// A kind of system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Open a file.
    Open,
    /// Create a file.
    Create,
    /// Get the metadata of a path.
    Find,
    /// List a directory.
    List,
    /// Create a directory.
    CreateDirectory,
    /// Make a directory's names durable.
    SyncDirectory,
    /// Give a file a second name.
    Link,
    /// Remove a name of a file or directory.
    Unlink,
    /// Get a file's length.
    Length,
    /// Read from a file.
    Read,
    /// Write to a file.
    Write,
    /// Set a file's length.
    Truncate,
    /// Punch a hole into a file.
    Punch,
    /// Make a file's bytes durable.
    Sync,
    /// Lock a file.
    Lock,
}

impl Call {
    /// All calls.
    pub const ALL: [Call; 15] = [
        Call::Open,
        Call::Create,
        Call::Find,
        Call::List,
        Call::CreateDirectory,
        Call::SyncDirectory,
        Call::Link,
        Call::Unlink,
        Call::Length,
        Call::Read,
        Call::Write,
        Call::Truncate,
        Call::Punch,
        Call::Sync,
        Call::Lock,
    ];
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProcessId {
    pub number: u32,
    pub boot: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HandleId(pub u64);

#[derive(Debug)]
pub(crate) struct State {
    pub chance: Chance,
    pub nodes: Vec<Inode>,
    pub handles: BTreeMap<HandleId, Handle>,
    processes: BTreeMap<ProcessId, Life>,
    boot: u64,
    started: u32,
    unique: u64,
    calls: u64,
    /// Time without a call, in milliseconds.
    paused: u64,
    crash_at: Option<u64>,
    /// The calls that will fail, and after how many successes.
    failures: Vec<(Call, u64)>,
    pub capacity: Option<u64>,
}

#[derive(Debug)]
pub(crate) enum Inode {
    File(CachedFile),
    Directory(CachedDirectory),
}

impl Inode {
    pub fn sort(&self) -> Sort {
        match self {
            Inode::File(_) => Sort::File,
            Inode::Directory(_) => Sort::Directory,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Handle {
    pub process: ProcessId,
    pub node: Node,
    pub writable: bool,
    pub locks: bool,
}

#[derive(Debug, Clone, Copy)]
enum Life {
    Long,
    CallsLeft(u64),
    Over,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Succeeds,
    /// It returns an error, but may have done part of its work.
    Fails,
    /// The process dies during the call, which may have done part of its work.
    Dies,
}

const ROOT: Node = 0;

impl State {
    pub fn new(chance: Chance) -> State {
        State {
            chance,
            nodes: vec![Inode::Directory(CachedDirectory::default())],
            handles: BTreeMap::new(),
            processes: BTreeMap::new(),
            boot: 0,
            started: 0,
            unique: 0,
            calls: 0,
            paused: 0,
            crash_at: None,
            failures: Vec::new(),
            capacity: None,
        }
    }

    pub fn start_process(&mut self) -> ProcessId {
        self.started += 1;
        let process = ProcessId { number: self.started, boot: self.boot };
        self.processes.insert(process, Life::Long);
        process
    }

    pub fn kill(&mut self, process: ProcessId) {
        self.processes.insert(process, Life::Over);
        self.handles.retain(|_, handle| handle.process != process);
    }

    pub fn kill_after(&mut self, process: ProcessId, calls: u64) {
        if let Some(life @ (Life::Long | Life::CallsLeft(_))) = self.processes.get_mut(&process) {
            *life = Life::CallsLeft(calls);
        }
    }

    pub fn crash(&mut self) {
        self.boot += 1;
        self.crash_at = None;
        self.processes.clear();
        self.handles.clear();
        for node in &mut self.nodes {
            match node {
                Inode::File(file) => file.crash(&mut self.chance),
                Inode::Directory(directory) => directory.crash(&mut self.chance),
            }
        }
    }

    pub fn crash_after(&mut self, calls: u64) {
        self.crash_at = Some(self.calls + calls);
    }

    pub fn crashes(&self) -> u64 {
        self.boot
    }

    pub fn calls(&self) -> u64 {
        self.calls
    }

    pub fn clock(&self) -> Duration {
        Duration::from_millis(self.calls + self.paused)
    }

    pub fn pass(&mut self, time: Duration) {
        self.paused += time.as_millis() as u64;
    }

    pub fn lives(&self, process: ProcessId) -> bool {
        matches!(self.processes.get(&process), Some(Life::Long | Life::CallsLeft(_)))
    }

    pub fn names_of(&self, node: Node) -> u64 {
        let of = |inode: &Inode| match inode {
            Inode::Directory(directory) => directory.seen.values().filter(|named| **named == node).count() as u64,
            Inode::File(_) => 0,
        };
        self.nodes.iter().map(of).sum()
    }

    pub fn fail(&mut self, call: Call, successes: u64) {
        self.failures.push((call, successes));
    }

    pub fn failures_left(&self) -> bool {
        !self.failures.is_empty()
    }

    pub fn calm(&mut self) {
        self.failures.clear();
        self.crash_at = None;
    }

    pub fn unique(&mut self) -> u64 {
        self.unique += 1;
        self.unique
    }

    pub fn contents(&mut self, path: &Path) -> Option<Vec<u8>> {
        let node = self.node(path).ok()?;
        Some(self.file(node).ok()?.seen.clone())
    }

    pub fn damage(&mut self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) -> bool {
        let node = self.node(path);
        match node.and_then(|node| self.file(node)) {
            Ok(file) => {
                file.damage(change);
                true
            }
            Err(_) => false,
        }
    }

    /// Returns the outcome of the next system call; an error if the process is dead.
    pub fn fate(&mut self, process: ProcessId, call: Call) -> io::Result<Fate> {
        let life = self.processes.get_mut(&process);
        let mut fate = match life {
            Some(Life::Long) => Fate::Succeeds,
            Some(life @ Life::CallsLeft(0)) => {
                *life = Life::Long;
                Fate::Dies
            }
            Some(Life::CallsLeft(left)) => {
                *left -= 1;
                Fate::Succeeds
            }
            Some(Life::Over) | None => return Err(dead()),
        };
        if self.crash_at == Some(self.calls) {
            fate = Fate::Dies;
        }
        self.calls += 1;
        if fate == Fate::Succeeds {
            let asked = |(kind, _): &(Call, u64)| *kind == call;
            if let Some(failure) = self.failures.iter().position(asked) {
                match &mut self.failures[failure].1 {
                    0 => {
                        self.failures.remove(failure);
                        fate = Fate::Fails;
                    }
                    successes => *successes -= 1,
                }
            }
        }
        Ok(fate)
    }

    pub fn die(&mut self, process: ProcessId) {
        if self.crash_at.is_some_and(|at| at < self.calls) {
            self.crash();
        } else {
            self.kill(process);
        }
    }

    /// A call that does not succeed may still have done its work.
    pub fn stops_here(&mut self, fate: Fate) -> io::Result<()> {
        if fate != Fate::Succeeds && self.chance.once_in(2) {
            return Err(dead());
        }
        Ok(())
    }

    /// Returns how many of `bytes` a read or write handles this time.
    pub fn perhaps_short(&mut self, bytes: usize) -> io::Result<usize> {
        match self.chance.below(16) {
            0 if bytes > 1 => Ok(1 + self.chance.below(bytes - 1)),
            1 if self.chance.once_in(4) => Err(io::ErrorKind::Interrupted.into()),
            _ => Ok(bytes),
        }
    }

    pub fn used(&self) -> u64 {
        let mut counted = vec![false; self.nodes.len()];
        for node in &self.nodes {
            if let Inode::Directory(directory) = node {
                directory.seen.values().for_each(|&node| counted[node] = true);
            }
        }
        self.handles.values().for_each(|handle| counted[handle.node] = true);
        let bytes = |(node, counted): (&Inode, bool)| match node {
            Inode::File(file) if counted => file.taken(),
            _ => 0,
        };
        self.nodes.iter().zip(counted).map(bytes).sum()
    }

    pub fn node(&self, path: &Path) -> io::Result<Node> {
        let mut node = ROOT;
        let mut passed = PathBuf::from("/");
        for part in parts(path)? {
            let Inode::Directory(directory) = &self.nodes[node] else {
                return Err(irregular(&passed, Sort::File, Sort::Directory));
            };
            node = *directory.seen.get(part).ok_or(io::ErrorKind::NotFound)?;
            passed.push(part);
        }
        Ok(node)
    }

    pub fn parent<'a>(&self, path: &'a Path) -> io::Result<(Node, &'a str)> {
        let name = parts(path)?.pop().ok_or(io::ErrorKind::AlreadyExists)?;
        Ok((self.folder(path.parent().unwrap_or(Path::new("")))?, name))
    }

    pub fn folder(&self, path: &Path) -> io::Result<Node> {
        let node = self.node(path)?;
        match self.nodes[node].sort() {
            Sort::Directory => Ok(node),
            other => Err(irregular(path, other, Sort::Directory)),
        }
    }

    pub fn add(&mut self, folder: Node, name: &str, made: Inode) -> io::Result<Node> {
        let node = self.nodes.len();
        self.name(folder, name, node)?;
        self.nodes.push(made);
        Ok(node)
    }

    pub fn name(&mut self, folder: Node, name: &str, node: Node) -> io::Result<()> {
        let folder = self.directory(folder)?;
        if folder.seen.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        folder.add(name, node);
        Ok(())
    }

    pub fn directory(&mut self, node: Node) -> io::Result<&mut CachedDirectory> {
        match &mut self.nodes[node] {
            Inode::Directory(directory) => Ok(directory),
            Inode::File(_) => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    pub fn file(&mut self, node: Node) -> io::Result<&mut CachedFile> {
        match &mut self.nodes[node] {
            Inode::File(file) => Ok(file),
            Inode::Directory(_) => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    pub fn handle(&self, handle: HandleId) -> io::Result<Handle> {
        self.handles.get(&handle).copied().ok_or_else(dead)
    }

    pub fn writable(&self, handle: HandleId) -> io::Result<Node> {
        match self.handle(handle)? {
            Handle { node, writable: true, .. } => Ok(node),
            _ => Err(io::ErrorKind::PermissionDenied.into()),
        }
    }
}

/// Relative paths start at the root.
fn parts(path: &Path) -> io::Result<Vec<&str>> {
    let mut parts = Vec::new();
    for component in path.components() {
        match component {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(part) => {
                parts.push(part.to_str().ok_or(io::ErrorKind::InvalidFilename)?);
            }
            Component::ParentDir | Component::Prefix(_) => {
                return Err(io::ErrorKind::Unsupported.into());
            }
        }
    }
    Ok(parts)
}

pub(crate) fn dead() -> io::Error {
    io::Error::other("the simulated process is dead")
}
