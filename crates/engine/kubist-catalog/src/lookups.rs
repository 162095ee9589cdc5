//! The secondary indexes of a view's primary runs.

use std::collections::HashMap;
use std::sync::Arc;

use kubist_format::location::Location;
use kubist_format::lookup::{Key, Lookup};
use kubist_index::directory::Changes;
use kubist_index::spread::{SpreadMap, SpreadSet};
use kubist_index::state::{Run, RunId};

use crate::places::Table;

#[derive(Clone)]
pub struct Live {
    /// Coverings in memory, then coverings on pages of the base.
    pub coverings: Vec<Arc<Covering>>,
}

#[derive(Clone, Default)]
pub struct Covering {
    pub lookups: Vec<CoveredLookup>,
    pub others: Arc<Vec<RunLocation>>,
    removed: usize,
}

#[derive(Clone, Debug)]
pub struct RunLocation {
    pub run: RunId,
    pub at: At,
}

#[derive(Clone, Debug)]
pub enum At {
    Memory(Arc<Run<Location>>),
    Page(u32),
}

#[derive(Clone, Debug)]
pub struct CoveredLookup {
    pub lookup: Arc<Lookup>,
    /// The common bits of the ids of its runs.
    entry: u128,
    runs: Arc<RunIndex>,
    removed: usize,
}

#[derive(Debug)]
enum RunIndex {
    /// Index and location of every run that was live when this was built, ascending.
    Known(Vec<(u32, At)>),
    /// A digest has the locations, also of runs removed since.
    Table(Table),
}

struct LookupEntries {
    lookup: Arc<Lookup>,
    entry: u128,
    runs: Vec<(u32, At)>,
}

#[derive(Default)]
pub struct LookupsBuilder {
    lookups: Vec<LookupEntries>,
    others: Vec<RunLocation>,
    known: HashMap<(Key, u128), usize>,
}

impl LookupsBuilder {
    pub fn add(&mut self, run: &Run<Location>, at: At) {
        let LookupsBuilder { lookups, others, known } = self;
        let Some(lookup) = &run.payload.lookup else { return others.push(RunLocation { run: run.id, at }) };
        let entry = entry_of(run.id);
        let number = *known.entry((lookup.key(), entry)).or_insert_with(|| {
            lookups.push(LookupEntries { lookup: lookup.clone(), entry, runs: Vec::new() });
            lookups.len() - 1
        });
        lookups[number].runs.push((lookup.index_of(run.id) as u32, at));
    }

    pub fn add_other(&mut self, run: RunId, at: At) {
        self.others.push(RunLocation { run, at });
    }

    pub fn finish(self) -> Covering {
        let covered = |LookupEntries { lookup, entry, mut runs }| {
            runs.sort_unstable_by_key(|(index, _)| *index);
            CoveredLookup { lookup, entry, runs: Arc::new(RunIndex::Known(runs)), removed: 0 }
        };
        let lookups = self.lookups.into_iter().map(covered).collect();
        Covering { lookups, others: Arc::new(self.others), removed: 0 }
    }
}

/// The common bits of all run ids of a log entry.
fn entry_of(run: RunId) -> u128 {
    run.0 & !(u32::MAX as u128)
}

impl Live {
    /// True if most of the runs in memory were removed since.
    pub fn is_worn(&self) -> bool {
        self.coverings.first().is_some_and(|in_memory| {
            let known: usize = in_memory.lookups.iter().map(CoveredLookup::len).sum();
            in_memory.removed > known + in_memory.others.len()
        })
    }

    pub fn with(&self, changes: &[Arc<Changes<Location>>]) -> Live {
        let mut coverings = self.coverings.clone();
        if let Some(in_memory) = coverings.first_mut() {
            *in_memory = Arc::new(in_memory.with(changes));
        }
        Live { coverings }
    }
}

impl Covering {
    pub fn of<'a>(runs: impl Iterator<Item = &'a Arc<Run<Location>>>) -> Covering {
        let mut gathering = LookupsBuilder::default();
        runs.filter(|run| !run.is_replica()).for_each(|run| gathering.add(run, At::Memory(run.clone())));
        gathering.finish()
    }

    fn with(&self, changes: &[Arc<Changes<Location>>]) -> Covering {
        let mut covering = self.clone();
        for changes in changes {
            covering.leave_out(&changes.removed);
            let Covering { lookups, others, .. } = Covering::of(changes.added.iter());
            covering.lookups.extend(lookups);
            if !others.is_empty() {
                Arc::make_mut(&mut covering.others).extend_from_slice(&others);
            }
        }
        covering
    }

    /// Drops indexes without live runs; the others still list removed runs.
    fn leave_out(&mut self, removed: &SpreadSet<RunId>) {
        if removed.is_empty() {
            return;
        }
        self.removed += removed.len();
        let mut by_entry: SpreadMap<RunId, Vec<RunId>> = SpreadMap::default();
        removed.iter().for_each(|run| by_entry.entry(RunId(entry_of(*run))).or_default().push(*run));
        self.lookups.retain_mut(|covered| {
            let of_entry = by_entry.get(&RunId(covered.entry)).into_iter().flatten();
            covered.removed += of_entry.filter(|run| covered.leads_to(**run)).count();
            covered.len() > 0
        });
    }
}

impl CoveredLookup {
    pub fn of_table(table: Table) -> CoveredLookup {
        let entry = entry_of(table.run(0));
        CoveredLookup { lookup: table.lookup().clone(), entry, runs: Arc::new(RunIndex::Table(table)), removed: 0 }
    }

    fn leads_to(&self, run: RunId) -> bool {
        let RunIndex::Known(runs) = &*self.runs else { return false };
        let is_of = |index: u32| runs.binary_search_by_key(&index, |(index, _)| *index).is_ok();
        self.entry == entry_of(run) && is_of(self.lookup.index_of(run) as u32)
    }

    pub fn len(&self) -> usize {
        match &*self.runs {
            RunIndex::Known(runs) => runs.len() - self.removed,
            RunIndex::Table(table) => table.len(),
        }
    }

    pub fn run(&self, index: u32) -> RunId {
        RunId(self.entry | self.lookup.first.wrapping_add(index) as u128)
    }

    /// Appends the locations of its runs, all or at some indices, or returns the digest's table with them.
    pub fn find(&self, indices: Option<&[u32]>, found: &mut Vec<RunLocation>) -> Option<&Table> {
        let runs = match &*self.runs {
            RunIndex::Known(runs) => runs,
            RunIndex::Table(table) => return Some(table),
        };
        let place = |(index, at): &(u32, At)| RunLocation { run: self.run(*index), at: at.clone() };
        match indices {
            None => found.extend(runs.iter().map(place)),
            Some(indices) => {
                let of_index = |index| runs.binary_search_by_key(index, |(index, _)| *index).ok();
                found.extend(indices.iter().filter_map(of_index).map(|at| place(&runs[at])));
            }
        }
        None
    }
}
