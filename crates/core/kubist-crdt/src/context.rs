//! Dots, version vectors and causal contexts: which changes a state has seen.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// One change: its site, and its number among the site's changes, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Dot<I>(pub I, pub u64);

/// For each site, the number of its first changes: a prefix of every site's history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound(serialize = "I: Serialize", deserialize = "I: Ord + Deserialize<'de>"))]
pub struct Vector<I>(BTreeMap<I, u64>);

impl<I> Default for Vector<I> {
    fn default() -> Vector<I> {
        Vector(BTreeMap::new())
    }
}

impl<I: Copy + Ord> Vector<I> {
    /// Number of changes by `site`.
    pub fn get(&self, site: I) -> u64 {
        self.0.get(&site).copied().unwrap_or(0)
    }

    /// Raises the number for `site` to at least `counter`.
    pub fn raise(&mut self, site: I, counter: u64) {
        if counter > self.get(site) {
            self.0.insert(site, counter);
        }
    }

    /// The least upper bound: the maximum for each site.
    pub fn join(&mut self, other: &Vector<I>) {
        for (&site, &counter) in &other.0 {
            self.raise(site, counter);
        }
    }

    /// The greatest lower bound: the minimum for each site.
    pub fn meet(&mut self, other: &Vector<I>) {
        self.0.retain(|&site, counter| {
            *counter = other.get(site).min(*counter);
            *counter > 0
        });
    }

    /// Whether `other` has every change in this vector.
    pub fn is_within(&self, other: &Vector<I>) -> bool {
        self.0.iter().all(|(&site, &counter)| counter <= other.get(site))
    }

    /// Whether the change is in the vector.
    pub fn contains(&self, dot: Dot<I>) -> bool {
        dot.1 <= self.get(dot.0)
    }

    /// The sites with their numbers of changes.
    pub fn iter(&self) -> impl Iterator<Item = (I, u64)> + '_ {
        self.0.iter().map(|(&site, &counter)| (site, counter))
    }
}

impl<I: Copy + Ord> FromIterator<(I, u64)> for Vector<I> {
    fn from_iter<T: IntoIterator<Item = (I, u64)>>(sites: T) -> Vector<I> {
        Vector(sites.into_iter().filter(|&(_, counter)| counter > 0).collect())
    }
}

/// A causal context: all dots that a state has seen, even if it no longer has them.
///
/// It is a vector, and a cloud of dots beyond it. A dot that continues the vector moves into it, so the cloud
/// stays small and no tombstone is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound(serialize = "I: Serialize", deserialize = "I: Ord + Deserialize<'de>"))]
pub struct Context<I> {
    vector: Vector<I>,
    cloud: BTreeSet<Dot<I>>,
}

impl<I> Default for Context<I> {
    fn default() -> Context<I> {
        Context { vector: Vector::default(), cloud: BTreeSet::new() }
    }
}

impl<I: Copy + Ord> Context<I> {
    /// Whether the context has the dot.
    pub fn contains(&self, dot: Dot<I>) -> bool {
        self.vector.contains(dot) || self.cloud.contains(&dot)
    }

    /// Adds a dot.
    pub fn insert(&mut self, dot: Dot<I>) {
        if dot.1 == self.vector.get(dot.0).saturating_add(1) {
            self.vector.raise(dot.0, dot.1);
            self.absorb(dot.0);
        } else if !self.vector.contains(dot) {
            self.cloud.insert(dot);
        }
    }

    /// The union: `c ∪ c'`.
    pub fn join(&mut self, other: &Context<I>) {
        self.vector.join(&other.vector);
        self.cloud.extend(other.cloud.iter().copied());
        let vector = &self.vector;
        self.cloud.retain(|&dot| !vector.contains(dot));
        let sites: BTreeSet<I> = self.cloud.iter().map(|dot| dot.0).collect();
        sites.into_iter().for_each(|site| self.absorb(site));
    }

    fn absorb(&mut self, site: I) {
        let mut next = self.vector.get(site).saturating_add(1);
        while self.cloud.remove(&Dot(site, next)) {
            self.vector.raise(site, next);
            next = next.saturating_add(1);
        }
    }

    /// The dot for the next change by `site`; the context must have all earlier changes by `site`.
    pub fn next(&self, site: I) -> Dot<I> {
        Dot(site, self.vector.get(site) + 1)
    }

    /// The dots that are not in `other`.
    pub fn beyond<'a>(&'a self, other: &'a Context<I>) -> impl Iterator<Item = Dot<I>> + 'a {
        let sites = self.vector.iter();
        let dots = sites.flat_map(|(site, last)| (other.vector.get(site) + 1..=last).map(move |n| Dot(site, n)));
        dots.chain(self.cloud()).filter(|&dot| !other.contains(dot))
    }

    /// The part without gaps.
    pub fn vector(&self) -> &Vector<I> {
        &self.vector
    }

    /// The dots beyond the vector.
    pub fn cloud(&self) -> impl Iterator<Item = Dot<I>> + '_ {
        self.cloud.iter().copied()
    }
}

impl<I: Copy + Ord> FromIterator<Dot<I>> for Context<I> {
    fn from_iter<T: IntoIterator<Item = Dot<I>>>(dots: T) -> Context<I> {
        let mut context = Context::default();
        dots.into_iter().for_each(|dot| context.insert(dot));
        context
    }
}

impl<I: Copy + Ord> From<Vector<I>> for Context<I> {
    fn from(vector: Vector<I>) -> Context<I> {
        Context { vector, cloud: BTreeSet::new() }
    }
}
