//! The lookups into the primary runs of a view, so that a question for a value alone
//! need not look at every run.

use std::collections::HashMap;
use std::sync::Arc;

use kubist_format::location::Location;
use kubist_format::lookup::{Key, Lookup};
use kubist_index::directory::Changes;
use kubist_index::spread::SpreadSet;
use kubist_index::state::{Run, RunId};

use crate::places::Table;

/// The lookups of a view.
pub struct Live {
    /// Into runs that are in memory, and into those on pages of the base.
    pub coverings: Vec<Arc<Covering>>,
}

/// Lookups into some runs.
#[derive(Clone, Default)]
pub struct Covering {
    pub lookups: Vec<Arc<Covered>>,
    /// Runs that no lookup covers.
    pub others: Vec<Place>,
}

/// A run, and where it is found.
#[derive(Clone, Debug)]
pub struct Place {
    pub run: RunId,
    pub at: At,
}

#[derive(Clone, Debug)]
pub enum At {
    Memory(Arc<Run<Location>>),
    /// Of the base.
    Page(u32),
}

#[derive(Debug)]
pub struct Covered {
    pub lookup: Arc<Lookup>,
    /// The bits that the ids of its runs have in common.
    entry: u128,
    runs: Found,
}

/// Where the runs of a lookup are found.
#[derive(Debug)]
enum Found {
    /// The index of each among those that it covers, of those that live as far as was known.
    Known(Vec<(u32, At)>),
    /// A digest tells, also of runs that were removed since.
    Table(Table),
}

/// Puts lookups together, run by run.
#[derive(Default)]
pub struct Gathering {
    lookups: Vec<Covered>,
    others: Vec<Place>,
    known: HashMap<(Key, u128), usize>,
}

impl Gathering {
    /// Takes the next primary run.
    pub fn add(&mut self, run: &Run<Location>, at: At) {
        let Gathering { lookups, others, known } = self;
        let Some(lookup) = &run.payload.lookup else { return others.push(Place { run: run.id, at }) };
        let entry = entry_of(run.id);
        let number = *known.entry((lookup.key(), entry)).or_insert_with(|| {
            lookups.push(Covered { lookup: lookup.clone(), entry, runs: Found::Known(Vec::new()) });
            lookups.len() - 1
        });
        if let Found::Known(runs) = &mut lookups[number].runs {
            runs.push((lookup.index_of(run.id) as u32, at));
        }
    }

    pub fn finish(mut self) -> Covering {
        for covered in &mut self.lookups {
            if let Found::Known(runs) = &mut covered.runs {
                runs.sort_unstable_by_key(|(index, _)| *index);
            }
        }
        Covering { lookups: self.lookups.into_iter().map(Arc::new).collect(), others: self.others }
    }
}

/// The bits that the ids of the runs of one entry have in common.
fn entry_of(run: RunId) -> u128 {
    run.0 & !(u32::MAX as u128)
}

impl Covering {
    /// Of runs in memory.
    pub fn of<'a>(runs: impl Iterator<Item = &'a Arc<Run<Location>>>) -> Covering {
        let mut gathering = Gathering::default();
        runs.filter(|run| !run.is_replica()).for_each(|run| gathering.add(run, At::Memory(run.clone())));
        gathering.finish()
    }

    /// After some changes to what is in memory, whose runs all live by now.
    pub fn with(&self, changes: &Changes<Location>) -> Covering {
        let (mut covering, added) = (self.clone(), Covering::of(changes.added.iter()));
        if !changes.removed.is_empty() {
            let entries: SpreadSet<RunId> = changes.removed.iter().map(|run| RunId(entry_of(*run))).collect();
            let (removed, is_of) = (&changes.removed, |covered: &Covered| entries.contains(&RunId(covered.entry)));
            let left = covering.lookups.into_iter().filter_map(|covered| match is_of(&covered) {
                true => covered.without(removed).map(Arc::new),
                false => Some(covered),
            });
            covering.lookups = left.collect();
            covering.others.retain(|place| !removed.contains(&place.run));
        }
        covering.lookups.extend(added.lookups);
        covering.others.extend(added.others);
        covering
    }
}

impl Covered {
    /// One whose runs a digest knows.
    pub fn of_table(table: Table) -> Covered {
        let entry = entry_of(table.run(0));
        Covered { lookup: table.lookup().clone(), entry, runs: Found::Table(table) }
    }

    /// Without some runs, if any are left.
    fn without(&self, removed: &SpreadSet<RunId>) -> Option<Covered> {
        let Found::Known(runs) = &self.runs else { return None };
        let lives = |(index, _): &&(u32, At)| !removed.contains(&self.run(*index));
        let left: Vec<(u32, At)> = runs.iter().filter(lives).cloned().collect();
        let (lookup, entry) = (self.lookup.clone(), self.entry);
        (!left.is_empty()).then(|| Covered { lookup, entry, runs: Found::Known(left) })
    }

    /// How many runs it leads to.
    pub fn len(&self) -> usize {
        match &self.runs {
            Found::Known(runs) => runs.len(),
            Found::Table(table) => table.len(),
        }
    }

    /// The run at an index among those that it covers.
    pub fn run(&self, index: u32) -> RunId {
        RunId(self.entry | self.lookup.first.wrapping_add(index) as u128)
    }

    /// Where its runs are found, all or those at some indices: what is known of it without reading, or the digest that
    /// knows.
    pub fn find(&self, indices: Option<&[u32]>, found: &mut Vec<Place>) -> Option<&Table> {
        let runs = match &self.runs {
            Found::Known(runs) => runs,
            Found::Table(table) => return Some(table),
        };
        let place = |(index, at): &(u32, At)| Place { run: self.run(*index), at: at.clone() };
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
