//! The lookups into the primary runs of a view, so that a question for a value alone
//! need not look at every run.

use std::collections::HashMap;
use std::sync::Arc;

use kubist_format::location::Location;
use kubist_format::lookup::{Key, Lookup};
use kubist_index::directory::Directory;
use kubist_index::state::{Run, RunId};

use crate::places::Table;

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
    runs: Found,
}

/// Where the runs of a lookup are found.
enum Found {
    /// The index of each among those that it covers, of those that live as far as was known.
    Known(Vec<(u32, At)>),
    /// A digest tells, also of runs that were removed since.
    Table(Table),
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
            lookups.push(Covered { lookup: lookup.clone(), entry, runs: Found::Known(Vec::new()) });
            lookups.len() - 1
        });
        if let Found::Known(runs) = &mut lookups[number].runs {
            runs.push((lookup.index_of(run.id) as u32, at));
        }
    }

    pub fn finish(mut self) -> Covering {
        for covered in &mut self.covering.lookups {
            if let Found::Known(runs) = &mut covered.runs {
                runs.sort_unstable_by_key(|(index, _)| *index);
            }
        }
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
    /// One whose runs a digest knows.
    pub fn of_table(table: Table) -> Covered {
        let entry = table.run(0).0 & !(u32::MAX as u128);
        Covered { lookup: table.lookup().clone(), entry, runs: Found::Table(table) }
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
        let place = |(index, at): &(u32, At)| Place { run: self.run(*index), at: *at };
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
