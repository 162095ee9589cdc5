//! A file server, and the weaknesses of network file systems.
//!
//! The server is a [`SimDisk`], which orders all calls; link and create are atomic there. Between it and a
//! process is the machine's cache ([`Mount`](crate::Mount)), which shows the machine's own changes
//! immediately and others' changes late.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::SimDisk;
use crate::cached::Node;
use crate::state::Inode;

/// A weakness of network file systems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// A machine caches names and their absence for a while.
    OldNames,
    /// A machine caches lengths of files for a while.
    OldLengths,
    /// A machine caches listings of directories for a while.
    OldListings,
    /// Other machines see writes only after the file is closed, and not through handles that were opened
    /// before.
    AfterClose,
    /// A lock works on its own machine only.
    OwnLocks,
    /// A file that another machine deleted can no longer be read.
    Gone,
    /// Write errors are reported only when the file is synced or closed.
    LateErrors,
    /// The response to a link is sometimes lost, and the repeated link finds the name in use.
    LostAnswers,
}

impl Rule {
    /// All rules.
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

/// A file server, with the rules for its machines.
#[derive(Debug)]
pub struct Network {
    pub(crate) server: SimDisk,
    rules: Vec<Rule>,
    files: Mutex<Files>,
}

#[derive(Debug, Default)]
struct Files {
    mounts: u64,
    /// By open file: the machine that has written to it, and the view of the others.
    open: HashMap<Node, (u64, Arc<Vec<u8>>)>,
    /// By file: the machine that removed its last name.
    deleted: HashMap<Node, u64>,
}

impl Network {
    /// A server on a simulated machine, with these rules.
    pub fn new(server: &SimDisk, rules: &[Rule]) -> Arc<Network> {
        Arc::new(Network { server: server.clone(), rules: rules.to_vec(), files: Mutex::default() })
    }

    pub(crate) fn next_mount(&self) -> u64 {
        let mut files = self.files();
        files.mounts += 1;
        files.mounts
    }

    pub(crate) fn has(&self, rule: Rule) -> bool {
        self.rules.contains(&rule)
    }

    pub(crate) fn is_there(&self, path: &Path) -> bool {
        self.server.machine.state().node(path).is_ok()
    }

    pub(crate) fn node(&self, path: &Path) -> Option<Node> {
        let state = self.server.machine.state();
        let node = state.node(path).ok()?;
        matches!(&state.nodes[node], Inode::File(_)).then_some(node)
    }

    pub(crate) fn closed_before(&self, mount: u64, node: Node) -> Option<Arc<Vec<u8>>> {
        let files = self.files();
        files.open.get(&node).filter(|(writer, _)| *writer != mount).map(|(_, bytes)| bytes.clone())
    }

    pub(crate) fn writes(&self, mount: u64, node: Node) -> bool {
        self.files().open.get(&node).is_some_and(|(writer, _)| *writer == mount)
    }

    pub(crate) fn begin(&self, mount: u64, node: Node) {
        if self.has(Rule::AfterClose) && !self.writes(mount, node) {
            let before = self.bytes(node);
            self.files().open.insert(node, (mount, before));
        }
    }

    pub(crate) fn close(&self, mount: u64, node: Node) {
        let mut files = self.files();
        if files.open.get(&node).is_some_and(|(writer, _)| *writer == mount) {
            files.open.remove(&node);
        }
    }

    pub(crate) fn unlinked(&self, mount: u64, node: Node) {
        if self.server.machine.state().names_of(node) == 0 {
            self.files().deleted.insert(node, mount);
        }
    }

    pub(crate) fn is_gone(&self, mount: u64, node: Node) -> bool {
        self.has(Rule::Gone) && self.files().deleted.get(&node).is_some_and(|by| *by != mount)
    }

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
