//! The lookups into the primary runs of a view, so that a question for a value alone
//! need not look at every run.

use std::collections::HashMap;
use std::sync::Arc;

use kubist_format::location::Location;
use kubist_format::lookup::{Key, Lookup};
use kubist_index::directory::Directory;
use kubist_index::state::{Run, RunId};

/// The lookups of a view.
pub struct Live {
    /// All runs, or those that are in memory where not all are.
    pub directory: Arc<Directory<Location>>,
    /// Of those, and of the runs on pages.
    pub coverings: Vec<Arc<Covering>>,
}

/// Lookups into some runs.
#[derive(Default)]
pub struct Covering {
    pub lookups: Vec<Covered>,
    /// Runs that no lookup covers.
    pub others: Vec<Place>,
}

/// A run, and where it is found.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub run: RunId,
    pub at: At,
}

#[derive(Clone, Copy, Debug)]
pub enum At {
    /// In the directory.
    Index(u32),
    Page(u32),
}

pub struct Covered {
    pub lookup: Arc<Lookup>,
    /// The bits that the ids of its runs have in common.
    entry: u128,
    /// Of its runs those that live, as far as was known: the index among those that it covers, and where the run is
    /// found.
    runs: Vec<(u32, At)>,
}

/// Puts lookups together, run by run.
#[derive(Default)]
pub struct Gathering {
    covering: Covering,
    known: HashMap<(Key, u128), usize>,
}

impl Gathering {
    /// Takes the next primary run.
    pub fn add(&mut self, run: &Run<Location>, at: At) {
        let Covering { lookups, others } = &mut self.covering;
        let Some(lookup) = &run.payload.lookup else { return others.push(Place { run: run.id, at }) };
        let entry = run.id.0 & !(u32::MAX as u128);
        let number = *self.known.entry((lookup.key(), entry)).or_insert_with(|| {
            lookups.push(Covered { lookup: lookup.clone(), entry, runs: Vec::new() });
            lookups.len() - 1
        });
        lookups[number].runs.push((lookup.index_of(run.id) as u32, at));
    }

    pub fn finish(mut self) -> Covering {
        self.covering.lookups.iter_mut().for_each(|covered| covered.runs.sort_unstable_by_key(|(index, _)| *index));
        self.covering
    }
}

impl Covering {
    /// Of a directory's primary runs.
    pub fn of(directory: &Directory<Location>) -> Covering {
        let mut gathering = Gathering::default();
        (0u32..).zip(directory.runs()).for_each(|(index, run)| gathering.add(run, At::Index(index)));
        gathering.finish()
    }
}

impl Covered {
    /// How many runs it leads to.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    pub fn places(&self) -> impl Iterator<Item = Place> {
        self.runs.iter().map(|(index, at)| self.place(*index, *at))
    }

    /// The run at an index among those that it covers.
    pub fn place_at(&self, index: u32) -> Option<Place> {
        let found = self.runs.binary_search_by_key(&index, |(index, _)| *index).ok()?;
        Some(self.place(index, self.runs[found].1))
    }

    fn place(&self, index: u32, at: At) -> Place {
        Place { run: RunId(self.entry | self.lookup.first.wrapping_add(index) as u128), at }
    }
}
