//! One state of a table, arranged for reading.

use std::sync::{Arc, OnceLock};

use kubist_format::history::History;
use kubist_format::location::Location;
use kubist_index::state::State;
use kubist_types::{Cancel, Result, Stats};

use crate::directory::{Changes, Runs};
use crate::files::TableFiles;
use crate::lookups::Live;
use crate::schema::TableSchema;

/// How much a handle has joined since it began: entries of logs and rewrites, and runs that
/// came with commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Joined {
    pub entries: u64,
    pub runs: u64,
}

/// One state of the table, arranged for reading.
pub struct View {
    pub schema: Arc<TableSchema>,
    pub runs: Runs,
    pub history: History,
    /// How far each log was read, and how many rewrites are applied.
    pub positions: Vec<(String, u64)>,
    pub rewrites: u64,
    /// What was joined when it was made; nothing if no handle follows it.
    pub joined: Joined,
    /// Found on pages, and in memory once all are there.
    lookups: [Lookups; 2],
}

/// Lookups, once they are asked for.
#[derive(Default)]
struct Lookups {
    known: OnceLock<Live>,
    earlier: Option<Earlier>,
}

impl Lookups {
    /// What a view begins with that comes after this one's by some changes.
    fn followed(&self, changes: &Arc<Changes>) -> Lookups {
        let earlier = match self.known.get() {
            Some(live) => (!live.is_worn()).then(|| Earlier { live: live.clone(), changes: vec![changes.clone()] }),
            None => self.earlier.as_ref().and_then(|earlier| earlier.and(changes)),
        };
        Lookups { known: OnceLock::new(), earlier }
    }
}

/// The lookups of an earlier view, if nothing has asked for them since, and what has changed, in order.
struct Earlier {
    live: Live,
    changes: Vec<Arc<Changes>>,
}

impl Earlier {
    /// Changes after which lookups are put together anew.
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

    /// One that comes after an earlier one by some changes: lookups that were arranged are not arranged anew.
    pub fn following(mut self, earlier: &View, changes: &Arc<Changes>) -> View {
        // Those that lead to all runs need all in memory, and the others do not.
        let kind = usize::from(self.runs.are_in_memory());
        self.lookups[kind] = earlier.lookups[kind].followed(changes);
        self
    }

    /// The lookups into the primary runs, arranged when they are first asked for.
    ///
    /// # Errors
    ///
    /// As of [`Runs::whole`].
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

    /// Live primary records.
    pub fn rows(&self) -> u64 {
        match &self.runs.base {
            None => self.runs.recent_rows(),
            // Rewrites keep rows, but for those that retract, which the history knows of.
            Some(_) => self.history.live_rows(),
        }
    }
}
