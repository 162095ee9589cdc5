//! The state of a table: its runs, cutoffs and log positions, joined from the entries of all logs.
//!
//! A commit adds runs and lowers cutoffs. A rewrite adds runs and replicas, removes runs and lowers cutoffs. States
//! form a lattice: a removed run stays removed (I6), each cutoff is the minimum of its entries, from
//! [`Threshold::ALL`] on (I3), and each position is the maximum. So commits of different writers can be joined in any
//! order, also repeatedly, with the same result. Rewrites are joined in the order of their numbers.
//!
//! ARCHITECTURE.md lists the rules I1 to I6. A run's payload `L` describes its bytes and their location; this module
//! never reads it.

use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use crate::cube::CubeId;
use crate::priority::Threshold;
use crate::spread::{SpreadMap, SpreadSet};

/// The permanent id of a run.
///
/// From the highest bits: 48 bits for the origin (a hash of the writer's name, or of the rewrite log), 48 bits for the
/// entry's sequence number in that log, and 32 bits for the run's index in the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub u128);

impl RunId {
    pub fn new(origin: u64, sequence: u64, index: u32) -> RunId {
        let field = |value: u64| (value & 0xffff_ffff_ffff) as u128;
        RunId(field(origin) << 80 | field(sequence) << 32 | index as u128)
    }

    pub fn origin(self) -> u64 {
        (self.0 >> 80) as u64
    }
}

/// An immutable sorted set of rows in one cube.
#[derive(Clone, Debug, PartialEq)]
pub struct Run<L> {
    pub id: RunId,
    pub cube: CubeId,
    pub rows: u64,
    /// The lowest and the highest.
    pub priorities: (u64, u64),
    /// The runs that a replica copies (I4); empty for a primary.
    pub copies: Vec<RunId>,
    pub payload: L,
}

impl<L> Run<L> {
    pub fn is_replica(&self) -> bool {
        !self.copies.is_empty()
    }
}

/// An entry of a writer's log.
#[derive(Clone, Debug, PartialEq)]
pub struct Commit<L> {
    pub runs: Vec<Arc<Run<L>>>,
    /// The new cutoffs, and a copy of each ancestor's cutoff that decided where the runs were placed (I5).
    pub cutoffs: Vec<(CubeId, Threshold)>,
}

impl<L> Default for Commit<L> {
    fn default() -> Self {
        Commit { runs: Vec::new(), cutoffs: Vec::new() }
    }
}

/// An entry of the rewrite log.
#[derive(Clone, Debug, PartialEq)]
pub struct Rewrite<L> {
    pub runs: Vec<Arc<Run<L>>>,
    pub removes: Vec<RunId>,
    pub cutoffs: Vec<(CubeId, Threshold)>,
    /// By writer, the log position up to which the rewrite read. A snapshot with the rewrite also has the commits up to
    /// there (I5).
    pub needs: Vec<(String, u64)>,
}

#[derive(Clone, Debug)]
pub struct State<L> {
    /// Also runs that were removed later, in the order of arrival, which in large commits is close to the order in
    /// space.
    added: Vec<Arc<Run<L>>>,
    indices: SpreadMap<RunId, u32>,
    removed: SpreadSet<RunId>,
    cutoffs: SpreadMap<CubeId, Threshold>,
    /// By writer, the end of the last joined log entry.
    positions: BTreeMap<String, u64>,
    /// The number of the last joined rewrite.
    rewrites: u64,
    /// True if the runs and cutoffs of earlier entries are not here, but on pages of a checkpoint.
    continued: bool,
}

impl<L> Default for State<L> {
    fn default() -> Self {
        State {
            added: Vec::new(),
            indices: SpreadMap::default(),
            removed: SpreadSet::default(),
            cutoffs: SpreadMap::default(),
            positions: BTreeMap::new(),
            rewrites: 0,
            continued: false,
        }
    }
}

/// The reason why a rewrite cannot be joined yet.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NotYet {
    #[error("rewrite {found} follows rewrite {expected}: one is missing between them")]
    Gap { expected: u64, found: u64 },
    #[error("rewrite {number} needs the log of writer {writer} up to position {needed}, known up to {known}")]
    Behind { number: u64, writer: String, needed: u64, known: u64 },
}

impl<L> State<L> {
    /// The state of a checkpoint: the live runs and the cutoffs at the given positions. Removed runs are omitted,
    /// because later entries never name them.
    pub fn restore(live: Commit<L>, positions: Vec<(String, u64)>, rewrites: u64) -> State<L> {
        let mut state = State { rewrites, positions: positions.into_iter().collect(), ..State::default() };
        state.add(live.runs);
        state.lower(live.cutoffs);
        state
    }

    /// The state at the given positions if the live runs and cutoffs are on pages of a checkpoint. It then collects
    /// only the changes by later entries.
    pub fn continuing(positions: Vec<(String, u64)>, rewrites: u64) -> State<L> {
        State { rewrites, positions: positions.into_iter().collect(), continued: true, ..State::default() }
    }

    /// Joins one entry of a writer's log. `position` is the end of the entry.
    pub fn commit(&mut self, writer: &str, position: u64, commit: Commit<L>) {
        self.add(commit.runs);
        self.lower(commit.cutoffs);
        match self.positions.get_mut(writer) {
            Some(known) => *known = (*known).max(position),
            None => {
                self.positions.insert(writer.to_string(), position);
            }
        }
    }

    /// Joins the rewrite with this number, from 1. All earlier rewrites and the commits that it needs must have been
    /// joined. A rewrite that is in the state already changes nothing.
    ///
    /// # Errors
    ///
    /// [`NotYet`] names the missing entry.
    pub fn rewrite(&mut self, number: u64, rewrite: Rewrite<L>) -> Result<(), NotYet> {
        if number <= self.rewrites {
            return Ok(());
        }
        if number != self.rewrites + 1 {
            return Err(NotYet::Gap { expected: self.rewrites + 1, found: number });
        }
        for (writer, needed) in &rewrite.needs {
            let known = self.position(writer);
            if known < *needed {
                return Err(NotYet::Behind { number, writer: writer.clone(), needed: *needed, known });
            }
        }
        self.add(rewrite.runs);
        self.removed.extend(rewrite.removes);
        self.lower(rewrite.cutoffs);
        self.rewrites = number;
        Ok(())
    }

    fn add(&mut self, runs: Vec<Arc<Run<L>>>) {
        self.added.reserve(runs.len());
        self.indices.reserve(runs.len());
        for run in runs {
            self.add_once(run.id, || run);
        }
    }

    fn add_once(&mut self, id: RunId, run: impl FnOnce() -> Arc<Run<L>>) {
        if let Entry::Vacant(index) = self.indices.entry(id) {
            index.insert(self.added.len() as u32);
            self.added.push(run());
        }
    }

    fn lower(&mut self, cutoffs: Vec<(CubeId, Threshold)>) {
        self.cutoffs.reserve(cutoffs.len());
        for (cube, cutoff) in cutoffs {
            let known = self.cutoffs.entry(cube).or_insert(Threshold::ALL);
            *known = (*known).min(cutoff);
        }
    }

    /// Joins the entries of another state: afterwards, this is the least state that contains both.
    pub fn join(&mut self, other: &State<L>) {
        for run in &other.added {
            self.add_once(run.id, || run.clone());
        }
        self.removed.extend(&other.removed);
        self.lower(other.cutoffs.iter().map(|(cube, cutoff)| (*cube, *cutoff)).collect());
        for (writer, position) in &other.positions {
            let known = self.positions.entry(writer.clone()).or_default();
            *known = (*known).max(*position);
        }
        self.rewrites = self.rewrites.max(other.rewrites);
    }

    /// The cutoff of a cube: [`Threshold::ALL`] until an entry lowers it.
    pub fn cutoff(&self, cube: CubeId) -> Threshold {
        self.cutoffs.get(&cube).copied().unwrap_or(Threshold::ALL)
    }

    pub fn cutoffs(&self) -> impl Iterator<Item = (CubeId, Threshold)> + Clone {
        self.cutoffs.iter().map(|(cube, cutoff)| (*cube, *cutoff))
    }

    pub fn position(&self, writer: &str) -> u64 {
        self.positions.get(writer).copied().unwrap_or(0)
    }

    pub fn positions(&self) -> impl Iterator<Item = (&str, u64)> {
        self.positions.iter().map(|(writer, position)| (writer.as_str(), *position))
    }

    pub fn rewrites(&self) -> u64 {
        self.rewrites
    }

    /// A run that an entry added, even if it was removed later.
    pub fn run(&self, run: RunId) -> Option<&Arc<Run<L>>> {
        self.indices.get(&run).map(|index| &self.added[*index as usize])
    }

    pub fn removed(&self) -> &SpreadSet<RunId> {
        &self.removed
    }

    /// The removed runs that are on pages of a checkpoint.
    pub fn removed_elsewhere(&self) -> impl Iterator<Item = RunId> {
        self.removed.iter().copied().filter(|run| !self.indices.contains_key(run))
    }

    /// The number of added runs, including removed ones.
    pub fn added(&self) -> usize {
        self.added.len()
    }

    /// Whether a run exists and was not removed. A state that continues a checkpoint assumes that unknown runs are on
    /// its pages.
    pub fn is_live(&self, run: RunId) -> bool {
        (self.continued || self.indices.contains_key(&run)) && !self.removed.contains(&run)
    }

    /// The live primary runs, and the replicas whose sources are all live (I4), in no particular order.
    pub fn live(&self) -> impl Iterator<Item = &Arc<Run<L>>> {
        self.added
            .iter()
            .filter(|run| !self.removed.contains(&run.id) && run.copies.iter().all(|source| self.is_live(*source)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cube::Geometry;
    use proptest::prelude::*;

    type Logged = (usize, u64, Commit<()>);

    fn logs() -> impl Strategy<Value = Vec<Logged>> {
        prop::collection::vec((0usize..3, 0u32..3, 0u128..40), 0..20).prop_map(|choices| {
            let geometry = Geometry::new(2).unwrap();
            let mut lengths = [0u64; 3];
            choices
                .into_iter()
                .map(|(writer, level, value)| {
                    lengths[writer] += 1;
                    let cube = geometry.cube_of(value << 90 & ((1 << 96) - 1), level);
                    let id = RunId::new(writer as u64, lengths[writer], 0);
                    let run = Run { id, cube, rows: 1, priorities: (0, 9), copies: vec![], payload: () };
                    let cutoffs = vec![(cube, Threshold::new(value << 58))];
                    (writer, lengths[writer], Commit { runs: vec![Arc::new(run)], cutoffs })
                })
                .collect()
        })
    }

    fn seen(state: &State<()>) -> impl PartialEq + std::fmt::Debug + use<> {
        let mut runs: Vec<RunId> = state.live().map(|run| run.id).collect();
        let mut cutoffs: Vec<_> = state.cutoffs().collect();
        runs.sort();
        cutoffs.sort();
        (runs, cutoffs, state.positions.clone())
    }

    fn apply<'a>(entries: impl Iterator<Item = &'a Logged>) -> State<()> {
        let mut state = State::default();
        for (writer, position, commit) in entries {
            state.commit(["a", "b", "c"][*writer], *position, commit.clone());
        }
        state
    }

    proptest! {
        #[test]
        fn join_is_commutative_associative_idempotent(entries in logs(), cuts in prop::array::uniform3(0usize..21)) {
            let prefix = |cut: usize| apply(entries.iter().take(cut));
            let (a, b, c) = (prefix(cuts[0]), apply(entries.iter().skip(cuts[1])), prefix(cuts[2]));
            let join = |x: &State<()>, y: &State<()>| { let mut z = x.clone(); z.join(y); z };
            prop_assert_eq!(seen(&join(&a, &b)), seen(&join(&b, &a)));
            prop_assert_eq!(seen(&join(&join(&a, &b), &c)), seen(&join(&a, &join(&b, &c))));
            prop_assert_eq!(seen(&join(&a, &a)), seen(&a));
        }

        #[test]
        fn the_order_of_writers_does_not_matter(entries in logs()) {
            let by_writer = (0..3).rev().flat_map(|writer| entries.iter().filter(move |entry| entry.0 == writer));
            prop_assert_eq!(seen(&apply(by_writer)), seen(&apply(entries.iter())));
        }
    }

    #[test]
    fn rewrites_come_in_turn_and_after_what_they_read() {
        let mut state: State<()> = State::default();
        let rewrite = |needs| Rewrite { runs: vec![], removes: vec![], cutoffs: vec![], needs };
        assert!(matches!(state.rewrite(2, rewrite(vec![])), Err(NotYet::Gap { expected: 1, found: 2 })));
        let behind = state.rewrite(1, rewrite(vec![("a".into(), 5)]));
        assert!(matches!(behind, Err(NotYet::Behind { needed: 5, known: 0, .. })));
        state.commit("a", 5, Commit { runs: vec![], cutoffs: vec![] });
        assert_eq!(state.rewrite(1, rewrite(vec![("a".into(), 5)])), Ok(()));
        assert_eq!(state.rewrites(), 1);
    }
}
