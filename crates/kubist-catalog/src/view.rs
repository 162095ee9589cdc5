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
    lookups: [OnceLock<Live>; 2],
}

impl View {
    pub fn new(schema: Arc<TableSchema>, runs: Runs, history: History, state: &State<Location>) -> View {
        let positions = state.positions().map(|(writer, position)| (writer.to_string(), position)).collect();
        let (joined, lookups) = (Joined::default(), Default::default());
        View { schema, runs, history, positions, rewrites: state.rewrites(), joined, lookups }
    }

    /// With the lookups of an earlier one, as far as they were arranged, after some changes.
    pub fn with_lookups_of(self, earlier: &View, changes: &Changes) -> View {
        for (known, lookups) in earlier.lookups.iter().zip(&self.lookups) {
            let Some((in_memory, others)) = known.get().and_then(|live| live.coverings.split_first()) else { continue };
            let changed = Arc::new(in_memory.with(changes));
            let _ = lookups.set(Live { coverings: [&[changed], others].concat() });
        }
        self
    }

    /// The lookups into the primary runs, arranged when they are first asked for.
    ///
    /// # Errors
    ///
    /// As of [`Runs::whole`].
    pub fn lookups(&self, files: &TableFiles, stats: &mut Stats, cancel: &Cancel) -> Result<&Live> {
        let on_pages = self.runs.looks_up_on_pages(files, cancel);
        let known = &self.lookups[usize::from(!on_pages)];
        match known.get() {
            Some(live) => Ok(live),
            None => {
                let live = self.runs.lookups(files, on_pages, stats, cancel)?;
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
