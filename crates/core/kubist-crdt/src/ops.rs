//! The op-based form: each site delivers each change exactly once, after all changes that its sender had seen.
//!
//! Delivery keeps the causal order, so the state is the dot store alone, without a context (figure 4.17).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Change, Context, Dot, DotStore, Vector};

/// A message of the causal broadcast.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound(
    serialize = "I: Serialize, M: Serialize",
    deserialize = "I: Ord + Deserialize<'de>, M: Deserialize<'de>"
))]
pub struct Envelope<I, M> {
    /// The sender, and the sender's number for the message.
    pub dot: Dot<I>,
    /// The messages that the sender had delivered, with this one.
    pub stamp: Vector<I>,
    /// The content.
    pub message: M,
}

/// Puts received messages into causal order and drops repeated ones.
#[derive(Clone, Debug)]
pub struct Inbox<I, M> {
    delivered: Vector<I>,
    /// Messages whose causes have not arrived.
    waiting: BTreeMap<Dot<I>, Envelope<I, M>>,
}

impl<I: Copy + Ord, M> Default for Inbox<I, M> {
    fn default() -> Inbox<I, M> {
        Inbox { delivered: Vector::default(), waiting: BTreeMap::new() }
    }
}

impl<I: Copy + Ord, M> Inbox<I, M> {
    /// Wraps a message of this site, which is delivered at once.
    pub fn send(&mut self, site: I, message: M) -> Envelope<I, M> {
        let dot = self.next(site);
        self.delivered.raise(site, dot.1);
        Envelope { dot, stamp: self.delivered.clone(), message }
    }

    /// The dot of the next message from `site`.
    pub fn next(&self, site: I) -> Dot<I> {
        Dot(site, self.delivered.get(site) + 1)
    }

    /// Accepts a message and returns the messages that can be delivered now, in causal order.
    pub fn receive(&mut self, envelope: Envelope<I, M>) -> Vec<Envelope<I, M>> {
        if !self.delivered.contains(envelope.dot) {
            self.waiting.insert(envelope.dot, envelope);
        }
        let mut ready = Vec::new();
        while let Some(dot) = self.waiting.values().find(|envelope| self.follows(envelope)).map(|envelope| envelope.dot)
        {
            self.delivered.raise(dot.0, dot.1);
            ready.extend(self.waiting.remove(&dot));
        }
        ready
    }

    /// Whether a message is the next from its sender and all its causes are delivered.
    fn follows(&self, envelope: &Envelope<I, M>) -> bool {
        envelope.dot == self.next(envelope.dot.0)
            && envelope.stamp.iter().all(|(site, n)| site == envelope.dot.0 || n <= self.delivered.get(site))
    }

    /// The delivered messages.
    pub fn delivered(&self) -> &Vector<I> {
        &self.delivered
    }

    /// Number of messages that wait for others.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

/// A site of an op-based type.
#[derive(Clone, Debug)]
pub struct Replica<I, S> {
    site: I,
    store: S,
    inbox: Inbox<I, Change<I, S>>,
}

impl<I: Copy + Ord, S: DotStore<I>> Replica<I, S> {
    /// A site without a change.
    pub fn new(site: I) -> Replica<I, S> {
        Replica { site, store: S::default(), inbox: Inbox::default() }
    }

    /// Makes a change and returns the message for all other sites.
    pub fn change(&mut self, operation: impl FnOnce(&S, Dot<I>) -> Change<I, S>) -> Envelope<I, Change<I, S>> {
        let change = operation(&self.store, self.inbox.next(self.site));
        self.effect(&change);
        self.inbox.send(self.site, change)
    }

    /// Accepts a message from another site, in any order and any number of times.
    pub fn receive(&mut self, envelope: Envelope<I, Change<I, S>>) {
        for ready in self.inbox.receive(envelope) {
            self.effect(&ready.message);
        }
    }

    /// `(s \ gone) ∪ added`, figure 4.17, which is the join with a state of context `gone`.
    fn effect(&mut self, change: &Change<I, S>) {
        let gone: Context<I> = change.gone.iter().copied().collect();
        self.store.join(&Context::default(), &change.added, &gone);
    }

    /// The state.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Number of messages that wait for others.
    pub fn waiting(&self) -> usize {
        self.inbox.waiting()
    }
}
