//! A directory for frequent small commits, without merging each one into it.
//!
//! Recent commits are in a second, small directory, so a commit costs its own runs and a fraction of the occasional
//! merges. Writers read both; the first query merges the two, and later commits start a new small one.

use std::sync::{Arc, OnceLock};

use crate::directory::{Changes, Directory};
use crate::forest::Forest;

/// The small directory is merged when it has at least this many runs, and 1/`LATE_SHARE` of the large one's.
const LATE_RUNS: usize = 256;
const LATE_SHARE: usize = 8;

#[derive(Debug)]
pub struct Layers<L> {
    arranged: Arc<Directory<L>>,
    late: Option<Arc<Directory<L>>>,
    joined: OnceLock<Arc<Directory<L>>>,
}

impl<L> Layers<L> {
    pub fn new(arranged: Arc<Directory<L>>) -> Layers<L> {
        Layers { arranged, late: None, joined: OnceLock::new() }
    }

    /// Changes larger than a commit merge the small directory first.
    pub fn with(&self, forest: &Forest, changes: &Changes<L>) -> Layers<L> {
        if !changes.removed.is_empty() || changes.added.iter().any(|run| run.is_replica()) {
            return Layers::new(Arc::new(self.joined().with(forest, changes)));
        }
        let (arranged, late) = match self.joined.get() {
            Some(joined) => (joined.clone(), None),
            None => (self.arranged.clone(), self.late.as_ref()),
        };
        let grown = |late: &Directory<L>| Arc::new(late.with(forest, changes));
        let late = late.map_or_else(|| grown(&Directory::nothing(forest.clone())), |late| grown(late));
        let layers = Layers { late: Some(late), arranged, joined: OnceLock::new() };
        let late = layers.len() - layers.arranged.len();
        match late < LATE_RUNS.max(layers.arranged.len() / LATE_SHARE) {
            true => layers,
            false => Layers::new(layers.joined().clone()),
        }
    }

    pub fn joined(&self) -> &Arc<Directory<L>> {
        let Some(late) = &self.late else { return &self.arranged };
        self.joined.get_or_init(|| {
            let (added, cutoffs) = (late.runs().cloned().collect(), late.cutoffs().collect());
            Arc::new(self.arranged.with(late.forest(), &Changes { added, cutoffs, ..Changes::default() }))
        })
    }

    /// Returns both directories. For a cube in both, its lowest cutoff counts.
    pub fn parts(&self) -> Vec<Arc<Directory<L>>> {
        match self.joined.get() {
            Some(joined) => vec![joined.clone()],
            None => std::iter::once(&self.arranged).chain(&self.late).cloned().collect(),
        }
    }

    pub fn len(&self) -> usize {
        self.arranged.len() + self.late.as_ref().map_or(0, |late| late.len())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn rows(&self) -> u64 {
        self.arranged.rows() + self.late.as_ref().map_or(0, |late| late.rows())
    }
}
