//! A file server, and what file systems of several machines do to those who use it.
//!
//! The server is a [`SimDisk`]: it orders all calls, and link and create are atomic there. What
//! is between it and a process is the machine's own memory ([`Mount`](crate::Mount)), which is
//! right about what that machine does, and behind with what others do.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::SimDisk;
use crate::cached::Node;
use crate::state::Inode;

/// Something that a file system of several machines does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// A machine remembers for a while which names are there, and which are not.
    OldNames,
    /// A machine remembers for a while how long a file is.
    OldLengths,
    /// A machine remembers for a while what is in a directory.
    OldListings,
    /// What is written is seen by other machines once the file was closed, and by those that
    /// opened it before not at all.
    AfterClose,
    /// A lock holds on its own machine only.
    OwnLocks,
    /// A file that another machine deleted cannot be read any more.
    Gone,
    /// That bytes could not be written shows when the file is synced or closed.
    LateErrors,
    /// The answer to a link is lost at times, and its repetition finds the name taken.
    LostAnswers,
}

impl Rule {
    /// All of them.
    pub const ALL: [Rule; 8] = [
        Rule::OldNames,
        Rule::OldLengths,
        Rule::OldListings,
        Rule::AfterClose,
        Rule::OwnLocks,
        Rule::Gone,
        Rule::LateErrors,
        Rule::LostAnswers,
    ];
}

/// A file server with the rules that hold between it and its machines.
#[derive(Debug)]
pub struct Network {
    pub(crate) server: SimDisk,
    rules: Vec<Rule>,
    files: Mutex<Files>,
}

/// What the server knows of files beyond their bytes.
#[derive(Debug, Default)]
struct Files {
    mounts: u64,
    /// The machine that has written to a file which is not closed, and what others see of it.
    open: HashMap<Node, (u64, Arc<Vec<u8>>)>,
    /// The machine that took a file's last name.
    deleted: HashMap<Node, u64>,
}

impl Network {
    /// A server on a simulated machine, on which these rules hold.
    pub fn new(server: &SimDisk, rules: &[Rule]) -> Arc<Network> {
        Arc::new(Network { server: server.clone(), rules: rules.to_vec(), files: Mutex::default() })
    }

    /// The number of the next machine that mounts it.
    pub(crate) fn next_mount(&self) -> u64 {
        let mut files = self.files();
        files.mounts += 1;
        files.mounts
    }

    pub(crate) fn has(&self, rule: Rule) -> bool {
        self.rules.contains(&rule)
    }

    /// Is anything at a path?
    pub(crate) fn is_there(&self, path: &Path) -> bool {
        self.server.machine.state().node(path).is_ok()
    }

    /// The file at a path, if there is one.
    pub(crate) fn node(&self, path: &Path) -> Option<Node> {
        let state = self.server.machine.state();
        let node = state.node(path).ok()?;
        matches!(&state.nodes[node], Inode::File(_)).then_some(node)
    }

    /// What a machine sees of a file that another one has not closed yet.
    pub(crate) fn closed_before(&self, mount: u64, node: Node) -> Option<Arc<Vec<u8>>> {
        let files = self.files();
        files.open.get(&node).filter(|(writer, _)| *writer != mount).map(|(_, bytes)| bytes.clone())
    }

    /// Does the machine have bytes of the file that others do not see?
    pub(crate) fn writes(&self, mount: u64, node: Node) -> bool {
        self.files().open.get(&node).is_some_and(|(writer, _)| *writer == mount)
    }

    /// The machine begins to write to a file.
    pub(crate) fn begin(&self, mount: u64, node: Node) {
        if self.has(Rule::AfterClose) && !self.writes(mount, node) {
            let before = self.bytes(node);
            self.files().open.insert(node, (mount, before));
        }
    }

    /// The machine has closed it.
    pub(crate) fn close(&self, mount: u64, node: Node) {
        let mut files = self.files();
        if files.open.get(&node).is_some_and(|(writer, _)| *writer == mount) {
            files.open.remove(&node);
        }
    }

    /// The machine has taken a name of a file.
    pub(crate) fn unlinked(&self, mount: u64, node: Node) {
        if self.server.machine.state().names_of(node) == 0 {
            self.files().deleted.insert(node, mount);
        }
    }

    /// Has another machine deleted the file?
    pub(crate) fn is_gone(&self, mount: u64, node: Node) -> bool {
        self.has(Rule::Gone) && self.files().deleted.get(&node).is_some_and(|by| *by != mount)
    }

    /// Its bytes, as the server has them.
    pub(crate) fn bytes(&self, node: Node) -> Arc<Vec<u8>> {
        match &self.server.machine.state().nodes[node] {
            Inode::File(file) => Arc::new(file.seen.clone()),
            Inode::Directory(_) => Arc::default(),
        }
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
