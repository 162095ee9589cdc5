//! `View`: an immutable state of a table, arranged for reading.

use std::sync::{Arc, OnceLock};

use kubist_format::history::History;
use kubist_format::location::Location;
use kubist_index::state::State;
use kubist_types::{Cancel, Result, Stats};

use crate::directory::{Changes, Runs};
use crate::files::TableFiles;
use crate::lookups::Live;
use crate::schema::TableSchema;

/// Entries since a handle started, and the runs in its commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Joined {
    pub entries: u64,
    pub runs: u64,
}

pub struct View {
    pub schema: Arc<TableSchema>,
    pub runs: Runs,
    pub history: History,
    pub positions: Vec<(String, u64)>,
    pub rewrites: u64,
    /// 0 for a view that no handle follows.
    pub joined: Joined,
    /// Located on pages, and in memory once all runs are there.
    lookups: [Lookups; 2],
}

#[derive(Default)]
struct Lookups {
    known: OnceLock<Live>,
    earlier: Option<Earlier>,
}

impl Lookups {
    fn followed(&self, changes: &Arc<Changes>) -> Lookups {
        let earlier = match self.known.get() {
            Some(live) => (!live.is_worn()).then(|| Earlier { live: live.clone(), changes: vec![changes.clone()] }),
            None => self.earlier.as_ref().and_then(|earlier| earlier.and(changes)),
        };
        Lookups { known: OnceLock::new(), earlier }
    }
}

/// The indexes of an earlier view, with the changes since, in order.
struct Earlier {
    live: Live,
    changes: Vec<Arc<Changes>>,
}

impl Earlier {
    /// After this many changes the indexes are collected again.
    const MOST: usize = 256;

    fn and(&self, changes: &Arc<Changes>) -> Option<Earlier> {
        let is_short = self.changes.len() < Self::MOST;
        is_short.then(|| Earlier { live: self.live.clone(), changes: [&self.changes[..], &[changes.clone()]].concat() })
    }
}

impl View {
    pub fn new(schema: Arc<TableSchema>, runs: Runs, history: History, state: &State<Location>) -> View {
        let positions = state.positions().map(|(writer, position)| (writer.to_string(), position)).collect();
        let (joined, lookups) = (Joined::default(), Default::default());
        View { schema, runs, history, positions, rewrites: state.rewrites(), joined, lookups }
    }

    /// Reuses the indexes of an earlier view, updated when first needed.
    pub fn following(mut self, earlier: &View, changes: &Arc<Changes>) -> View {
        // Indexes located in memory need all runs in memory.
        let kind = usize::from(self.runs.are_in_memory());
        self.lookups[kind] = earlier.lookups[kind].followed(changes);
        self
    }

    /// Built when first needed.
    ///
    /// # Errors
    ///
    /// The errors of [`Runs::directory`].
    pub fn lookups(&self, files: &TableFiles, stats: &mut Stats, cancel: &Cancel) -> Result<&Live> {
        let on_pages = self.runs.looks_up_on_pages(files, cancel);
        let Lookups { known, earlier } = &self.lookups[usize::from(!on_pages)];
        match known.get() {
            Some(live) => Ok(live),
            None => {
                let live = match earlier {
                    Some(earlier) => earlier.live.with(&earlier.changes),
                    None => self.runs.lookups(files, on_pages, stats, cancel)?,
                };
                Ok(known.get_or_init(|| live))
            }
        }
    }

    pub fn rows(&self) -> u64 {
        match &self.runs.base {
            None => self.runs.recent_rows(),
            // Rewrites keep all rows; the history records retractions.
            Some(_) => self.history.live_rows(),
        }
    }
}
