//! A directory that grows by small commits without being arranged anew for each.
//!
//! What was committed lately lies in a small directory of its own. A writer looks into both, so a
//! commit costs what it adds and its share of joining them now and then. A question plans over
//! one directory: the first one that asks joins the two, and what is added later begins there.

use std::sync::{Arc, OnceLock};

use crate::directory::{Changes, Directory};
use crate::forest::Forest;

/// The small directory is joined to the large one once it has this many runs, and this share of
/// the large one's.
const LATE_RUNS: usize = 256;
const LATE_SHARE: usize = 8;

/// A directory, and what came later.
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

    /// After some changes. Where these are more than a commit's, what came later is joined first.
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

    /// All in one directory.
    pub fn joined(&self) -> &Arc<Directory<L>> {
        let Some(late) = &self.late else { return &self.arranged };
        self.joined.get_or_init(|| {
            let (added, cutoffs) = (late.runs().cloned().collect(), late.cutoffs().collect());
            Arc::new(self.arranged.with(late.forest(), &Changes { added, cutoffs, ..Changes::default() }))
        })
    }

    /// The directories that make it up. A cube may be in all of them: its lowest cutoff counts.
    pub fn parts(&self) -> Vec<Arc<Directory<L>>> {
        match self.joined.get() {
            Some(joined) => vec![joined.clone()],
            None => std::iter::once(&self.arranged).chain(&self.late).cloned().collect(),
        }
    }

    /// Live runs.
    pub fn len(&self) -> usize {
        self.arranged.len() + self.late.as_ref().map_or(0, |late| late.len())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Live primary records.
    pub fn rows(&self) -> u64 {
        self.arranged.rows() + self.late.as_ref().map_or(0, |late| late.rows())
    }
}
