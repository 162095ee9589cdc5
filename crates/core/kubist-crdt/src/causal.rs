//! States: a dot store with its causal context, and the changes from one state to the next.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{Change, Context, Dot, DotStore};

impl<I: Copy + Ord, S: DotStore<I>> Change<I, S> {
    /// The smallest state that has the change.
    pub fn delta(&self) -> Causal<I, S> {
        let mut context: Context<I> = self.gone.iter().copied().collect();
        self.added.each_dot(&mut |dot| context.insert(dot));
        Causal { store: self.added.clone(), context }
    }
}

/// A state: a join-semilattice of dot stores with contexts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound(
    serialize = "I: Serialize, S: Serialize",
    deserialize = "I: Ord + Deserialize<'de>, S: Deserialize<'de>"
))]
pub struct Causal<I, S> {
    /// The live dots.
    pub store: S,
    /// All dots that the state has seen.
    pub context: Context<I>,
}

impl<I, S: Default> Default for Causal<I, S> {
    fn default() -> Causal<I, S> {
        Causal { store: S::default(), context: Context::default() }
    }
}

impl<I: Copy + Ord, S: DotStore<I>> Causal<I, S> {
    /// The least upper bound of two states: a commutative, associative and idempotent operation.
    pub fn join(&mut self, other: &Causal<I, S>) {
        self.store.join(&self.context, &other.store, &other.context);
        self.context.join(&other.context);
    }

    /// Makes a change at `site` and returns it: `X' = X ⊔ m^δ(X)`, equation 4.2.
    pub fn change(&mut self, site: I, operation: impl FnOnce(&S, Dot<I>) -> Change<I, S>) -> Change<I, S> {
        let change = operation(&self.store, self.context.next(site));
        self.join(&change.delta());
        change
    }

    /// The part of `delta` that this state lacks, so that `X ⊔ news = X ⊔ delta`; `None` if it lacks nothing.
    ///
    /// It joins the delta's irreducible parts that are not below the state (V. Enes, P. S. Almeida, C. Baquero, J.
    /// Leitao, Efficient synchronization of state-based CRDTs, ICDE 2019).
    pub fn news(&self, delta: &Causal<I, S>) -> Option<Causal<I, S>> {
        let store = delta.store.only(&|dot| !self.context.contains(dot));
        let mut kept = BTreeSet::new();
        delta.store.each_dot(&mut |dot| {
            kept.insert(dot);
        });
        let mut context: Context<I> = delta.context.beyond(&self.context).collect();
        self.store.each_dot(&mut |dot| {
            if delta.context.contains(dot) && !kept.contains(&dot) {
                context.insert(dot);
            }
        });
        (context != Context::default()).then_some(Causal { store, context })
    }
}
