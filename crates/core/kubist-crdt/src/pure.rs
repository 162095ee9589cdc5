//! The pure op-based form of the add-wins set: messages are bare operations, and the state is a partially
//! ordered log.
//!
//! The log keeps the version vector of an addition only until the addition is **stable**: every site has
//! delivered it, so no later operation can be concurrent with it.
//!
//! Figure 4.18 drops an addition whose element is present, so a removal can make the result depend on the order of two
//! concurrent additions. This type follows equation 4.1 and Baquero and others 2017: an addition replaces the earlier
//! additions in its causal past, and concurrent additions both stay.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{Envelope, Inbox, Vector};

/// An operation of a set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PureOp<E> {
    /// Adds the element.
    Add(E),
    /// Removes the element.
    Remove(E),
}

/// A site of a pure op-based add-wins set.
#[derive(Clone, Debug)]
pub struct PureSet<I, E> {
    site: I,
    inbox: Inbox<I, PureOp<E>>,
    stable: BTreeSet<E>,
    /// Additions that may be concurrent with a later operation.
    log: Vec<(Vector<I>, E)>,
    /// The newest vector that each other site sent: it has delivered at least these messages.
    heard: BTreeMap<I, Vector<I>>,
}

impl<I: Copy + Ord, E: Clone + Ord> PureSet<I, E> {
    /// A site without an element. `others` are all other sites, for which stability waits.
    pub fn new(site: I, others: impl IntoIterator<Item = I>) -> PureSet<I, E> {
        let heard = others.into_iter().filter(|other| *other != site).map(|other| (other, Vector::default())).collect();
        PureSet { site, inbox: Inbox::default(), stable: BTreeSet::new(), log: Vec::new(), heard }
    }

    /// Makes an operation and returns the message for all other sites.
    pub fn change(&mut self, operation: PureOp<E>) -> Envelope<I, PureOp<E>> {
        let envelope = self.inbox.send(self.site, operation);
        self.effect(&envelope);
        envelope
    }

    /// Accepts a message from another site, in any order and any number of times.
    pub fn receive(&mut self, envelope: Envelope<I, PureOp<E>>) {
        for ready in self.inbox.receive(envelope) {
            self.effect(&ready);
            self.heard.entry(ready.dot.0).or_default().join(&ready.stamp);
        }
        self.prune();
    }

    fn effect(&mut self, envelope: &Envelope<I, PureOp<E>>) {
        let (PureOp::Add(element) | PureOp::Remove(element)) = &envelope.message;
        // Everything stable is in the causal past of everything delivered later.
        self.stable.remove(element);
        self.log.retain(|(stamp, of)| of != element || !stamp.is_within(&envelope.stamp));
        if let PureOp::Add(element) = &envelope.message {
            self.log.push((envelope.stamp.clone(), element.clone()));
        }
    }

    /// Moves stable additions, within the meet of all vectors, out of the log.
    fn prune(&mut self) {
        let mut everywhere = self.inbox.delivered().clone();
        self.heard.values().for_each(|vector| everywhere.meet(vector));
        let (stable, log) =
            std::mem::take(&mut self.log).into_iter().partition(|(stamp, _)| stamp.is_within(&everywhere));
        self.log = log;
        self.stable.extend(Vec::into_iter(stable).map(|(_, element): (Vector<I>, E)| element));
    }

    /// The elements, in order.
    pub fn elements(&self) -> BTreeSet<E> {
        self.stable.iter().chain(self.log.iter().map(|(_, element)| element)).cloned().collect()
    }

    /// Number of additions that still have a vector.
    pub fn unstable(&self) -> usize {
        self.log.len()
    }
}
