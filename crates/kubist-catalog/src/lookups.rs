//! The lookups into the primary runs of a view, so that a question for a value alone
//! need not look at every run.

use std::collections::HashMap;
use std::sync::Arc;

use crate::directory::Directory;
use kubist_format::lookup::{Key, Lookup};

/// Runs are named by their index in the directory.
pub struct Live {
    pub directory: Arc<Directory>,
    pub lookups: Vec<Covered>,
    /// Runs that no lookup covers.
    pub others: Vec<u32>,
}

pub struct Covered {
    pub lookup: Arc<Lookup>,
    /// Of its runs those that live: the index among those that it covers, and the run.
    runs: Vec<(u32, u32)>,
}

impl Live {
    pub fn new(directory: Arc<Directory>) -> Live {
        let mut live = Live { directory: directory.clone(), lookups: Vec::new(), others: Vec::new() };
        let mut known: HashMap<Key, usize> = HashMap::new();
        for (index, run) in (0u32..).zip(directory.runs()) {
            let Some(lookup) = &run.payload.lookup else {
                live.others.push(index);
                continue;
            };
            let at = *known.entry(lookup.key()).or_insert_with(|| {
                live.lookups.push(Covered { lookup: lookup.clone(), runs: Vec::new() });
                live.lookups.len() - 1
            });
            live.lookups[at].runs.push((lookup.index_of(run.id) as u32, index));
        }
        live.lookups.iter_mut().for_each(|covered| covered.runs.sort_unstable());
        live
    }
}

impl Covered {
    /// How many of its runs live.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    pub fn runs(&self) -> impl Iterator<Item = u32> {
        self.runs.iter().map(|(_, run)| *run)
    }

    /// The live run at an index among those that it covers.
    pub fn run_at(&self, index: u32) -> Option<u32> {
        let found = self.runs.binary_search_by_key(&index, |(index, _)| *index).ok()?;
        Some(self.runs[found].1)
    }
}
