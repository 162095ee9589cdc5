//! The delta-state form: the causal anti-entropy algorithm of figure 4.23.
//!
//! A site keeps its recent deltas until every neighbour has confirmed them, and sends a neighbour the join of its
//! unconfirmed deltas (the delta interval of equation 4.3). An interval begins where the neighbour's knowledge ends,
//! which is the causal delta-merging condition. Lost or repeated messages do no harm.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Causal, Change, Dot, DotStore};

/// The join of consecutive deltas.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound(
    serialize = "I: Serialize, S: Serialize",
    deserialize = "I: Ord + Deserialize<'de>, S: Deserialize<'de>"
))]
pub struct Interval<I, S> {
    /// The sender.
    pub from: I,
    /// The join.
    pub delta: Causal<I, S>,
    /// The number that the receiver confirms.
    pub end: u64,
}

/// A site that exchanges deltas.
#[derive(Clone, Debug)]
pub struct Gossip<I, S> {
    site: I,
    state: Causal<I, S>,
    next: u64,
    deltas: BTreeMap<u64, Causal<I, S>>,
    confirmed: BTreeMap<I, u64>,
}

impl<I: Copy + Ord, S: DotStore<I>> Gossip<I, S> {
    /// A site without a change, and its neighbours.
    pub fn new(site: I, neighbours: impl IntoIterator<Item = I>) -> Gossip<I, S> {
        let confirmed = neighbours.into_iter().filter(|other| *other != site).map(|other| (other, 0)).collect();
        Gossip { site, state: Causal::default(), next: 0, deltas: BTreeMap::new(), confirmed }
    }

    /// Makes a change.
    pub fn change(&mut self, operation: impl FnOnce(&S, Dot<I>) -> Change<I, S>) {
        let change = self.state.change(self.site, operation);
        self.keep(change.delta());
    }

    fn keep(&mut self, delta: Causal<I, S>) {
        if !self.confirmed.is_empty() {
            self.deltas.insert(self.next, delta);
        }
        self.next += 1;
    }

    /// The interval for a neighbour; `None` if it has confirmed everything.
    pub fn interval(&self, to: I) -> Option<Interval<I, S>> {
        let from = self.confirmed.get(&to).copied().unwrap_or(0);
        let mut missing = self.deltas.range(from..).map(|(_, delta)| delta);
        let mut delta = missing.next()?.clone();
        missing.for_each(|next| delta.join(next));
        Some(Interval { from: self.site, delta, end: self.next })
    }

    /// Joins an interval and returns the number to confirm to its sender.
    ///
    /// Only the new part goes on to the neighbours. In figure 4.23 the whole interval does; then known changes return
    /// with each new one, and a site sends as much as in the state-based form.
    pub fn receive(&mut self, interval: &Interval<I, S>) -> u64 {
        if let Some(news) = self.state.news(&interval.delta) {
            self.state.join(&news);
            self.keep(news);
        }
        interval.end
    }

    /// Records that a neighbour has everything before `end`, and drops the deltas that all neighbours have.
    pub fn confirm(&mut self, neighbour: I, end: u64) {
        if let Some(confirmed) = self.confirmed.get_mut(&neighbour) {
            *confirmed = end.max(*confirmed);
        }
        let all = self.confirmed.values().copied().min().unwrap_or(0);
        self.deltas = self.deltas.split_off(&all);
    }

    /// The state.
    pub fn state(&self) -> &Causal<I, S> {
        &self.state
    }

    /// Number of deltas that a neighbour has not confirmed.
    pub fn kept(&self) -> usize {
        self.deltas.len()
    }
}
