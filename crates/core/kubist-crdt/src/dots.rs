//! Dot stores: the live dots of a state and their meaning.
//!
//! A join also uses the contexts of both sides. A dot that only one side has stays, unless the other side has seen and
//! replaced it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{Context, Dot};

/// The effect of one operation: the dots that it adds, and the visible dots that it replaces.
///
/// It is the message of the op-based form (`prepare` in figure 4.17); [`Change::delta`] is the delta-state
/// form's (`m^δ` in equation 4.2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound(
    serialize = "I: Serialize, S: Serialize",
    deserialize = "I: Ord + Deserialize<'de>, S: Deserialize<'de>"
))]
pub struct Change<I, S> {
    /// A store with the new dots only.
    pub added: S,
    /// The replaced dots.
    pub gone: Vec<Dot<I>>,
}

/// A store of live dots.
pub trait DotStore<I: Copy + Ord>: Default + Clone {
    /// Whether it has no dot.
    fn is_empty(&self) -> bool;

    /// Calls `each` with every dot.
    fn each_dot(&self, each: &mut dyn FnMut(Dot<I>));

    /// The part whose dots satisfy `keep`.
    fn only(&self, keep: &dyn Fn(Dot<I>) -> bool) -> Self;

    /// Joins `other`, which has seen the dots in `others`, to this store, which has seen the dots in `own`.
    fn join(&mut self, own: &Context<I>, other: &Self, others: &Context<I>);
}

/// A set of dots.
///
/// Join (Almeida and others 2018, figure 4): `(s ∩ s') ∪ (s \ c') ∪ (s' \ c)`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound(serialize = "I: Serialize", deserialize = "I: Ord + Deserialize<'de>"))]
pub struct DotSet<I>(BTreeSet<Dot<I>>);

impl<I> Default for DotSet<I> {
    fn default() -> DotSet<I> {
        DotSet(BTreeSet::new())
    }
}

impl<I: Copy + Ord> DotStore<I> for DotSet<I> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn each_dot(&self, each: &mut dyn FnMut(Dot<I>)) {
        self.0.iter().copied().for_each(each);
    }

    fn only(&self, keep: &dyn Fn(Dot<I>) -> bool) -> DotSet<I> {
        DotSet(self.0.iter().copied().filter(|&dot| keep(dot)).collect())
    }

    fn join(&mut self, own: &Context<I>, other: &DotSet<I>, others: &Context<I>) {
        self.0.retain(|dot| other.0.contains(dot) || !others.contains(*dot));
        self.0.extend(other.0.iter().filter(|&&dot| !own.contains(dot)));
    }
}

/// Values, each with the dot of the change that wrote it.
///
/// Join (figure 4): the values of `dom m ∩ dom m'`, of `m` outside `c'`, and of `m'` outside `c`. One change
/// writes one value, so common dots have equal values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound(
    serialize = "I: Serialize, V: Serialize",
    deserialize = "I: Ord + Deserialize<'de>, V: Deserialize<'de>"
))]
pub struct DotFun<I, V>(#[serde(with = "pairs")] BTreeMap<Dot<I>, V>);

impl<I, V> Default for DotFun<I, V> {
    fn default() -> DotFun<I, V> {
        DotFun(BTreeMap::new())
    }
}

impl<I: Copy + Ord, V: Clone> DotStore<I> for DotFun<I, V> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn each_dot(&self, each: &mut dyn FnMut(Dot<I>)) {
        self.0.keys().copied().for_each(each);
    }

    fn only(&self, keep: &dyn Fn(Dot<I>) -> bool) -> DotFun<I, V> {
        DotFun(self.0.iter().filter(|&(&dot, _)| keep(dot)).map(|(dot, value)| (*dot, value.clone())).collect())
    }

    fn join(&mut self, own: &Context<I>, other: &DotFun<I, V>, others: &Context<I>) {
        self.0.retain(|dot, _| other.0.contains_key(dot) || !others.contains(*dot));
        let new = other.0.iter().filter(|&(&dot, _)| !own.contains(dot));
        self.0.extend(new.map(|(dot, value)| (*dot, value.clone())));
    }
}

impl<I: Copy + Ord, V: Clone> DotFun<I, V> {
    /// The values of the register, in the order of their dots; there are several after concurrent writes.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.0.values()
    }

    /// The values with their dots.
    pub fn iter(&self) -> impl Iterator<Item = (Dot<I>, &V)> {
        self.0.iter().map(|(dot, value)| (*dot, value))
    }

    /// Writes a value in place of all visible ones.
    pub fn writing(&self, value: V, dot: Dot<I>) -> Change<I, DotFun<I, V>> {
        Change { added: DotFun::one(dot, value), gone: self.0.keys().copied().collect() }
    }

    /// A store with one value.
    pub fn one(dot: Dot<I>, value: V) -> DotFun<I, V> {
        DotFun(BTreeMap::from([(dot, value)]))
    }
}

/// The increments and decrements by a site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// The sum of the increments.
    pub up: u64,
    /// The sum of the decrements.
    pub down: u64,
}

impl<I: Copy + Ord> DotFun<I, Tally> {
    /// The counter's value: all increments minus all decrements.
    pub fn sum(&self) -> i128 {
        self.0.values().map(|tally| i128::from(tally.up) - i128::from(tally.down)).sum()
    }

    /// Counts `amount`: the tally of the dot's site gets a new dot.
    pub fn counting(&self, amount: i64, dot: Dot<I>) -> Change<I, DotFun<I, Tally>> {
        let own = || self.0.iter().filter(|(of, _)| of.0 == dot.0);
        let mut tally = own().fold(Tally::default(), |sum, (_, tally)| Tally {
            up: sum.up.saturating_add(tally.up),
            down: sum.down.saturating_add(tally.down),
        });
        match amount >= 0 {
            true => tally.up = tally.up.saturating_add(amount.unsigned_abs()),
            false => tally.down = tally.down.saturating_add(amount.unsigned_abs()),
        }
        Change { added: DotFun::one(dot, tally), gone: own().map(|(dot, _)| *dot).collect() }
    }
}

/// A map to dot stores; every key has a dot.
///
/// Join (figure 4): `v(k) = (m(k), c) ⊔ (m'(k), c')` for each key in either map, if it is not empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    transparent,
    bound(serialize = "K: Serialize, S: Serialize", deserialize = "K: Ord + Deserialize<'de>, S: Deserialize<'de>")
)]
pub struct DotMap<K, S>(BTreeMap<K, S>);

impl<K, S> Default for DotMap<K, S> {
    fn default() -> DotMap<K, S> {
        DotMap(BTreeMap::new())
    }
}

impl<I: Copy + Ord, K: Clone + Ord, S: DotStore<I>> DotStore<I> for DotMap<K, S> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn each_dot(&self, each: &mut dyn FnMut(Dot<I>)) {
        self.0.values().for_each(|store| store.each_dot(each));
    }

    fn only(&self, keep: &dyn Fn(Dot<I>) -> bool) -> DotMap<K, S> {
        let kept = self.0.iter().map(|(key, store)| (key.clone(), store.only(keep)));
        DotMap(kept.filter(|(_, store)| !store.is_empty()).collect())
    }

    fn join(&mut self, own: &Context<I>, other: &DotMap<K, S>, others: &Context<I>) {
        let nothing = S::default();
        self.0.retain(|key, store| {
            store.join(own, other.0.get(key).unwrap_or(&nothing), others);
            !store.is_empty()
        });
        for (key, theirs) in &other.0 {
            if !self.0.contains_key(key) {
                self.join_at(key, own, theirs, others);
            }
        }
    }
}

impl<K: Clone + Ord, S> DotMap<K, S> {
    /// The store of a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&S>
    where
        K: std::borrow::Borrow<Q>,
    {
        self.0.get(key)
    }

    /// The keys and their stores, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &S)> {
        self.0.iter()
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A map with one key.
    pub fn one(key: K, store: S) -> DotMap<K, S> {
        DotMap(BTreeMap::from([(key, store)]))
    }

    /// Joins a map whose dots all belong to `key`; the cost depends on the key's store, not on the map.
    pub fn join_at<I: Copy + Ord>(&mut self, key: &K, own: &Context<I>, other: &S, others: &Context<I>)
    where
        S: DotStore<I>,
    {
        let mut store = self.0.remove(key).unwrap_or_default();
        store.join(own, other, others);
        if !store.is_empty() {
            self.0.insert(key.clone(), store);
        }
    }

    /// Removes a key: the visible dots go, and concurrent updates to the key stay.
    pub fn removing<I: Copy + Ord>(&self, key: &K) -> Change<I, DotMap<K, S>>
    where
        S: DotStore<I>,
    {
        let mut gone = Vec::new();
        if let Some(store) = self.get(key) {
            store.each_dot(&mut |dot| gone.push(dot));
        }
        Change { added: DotMap::default(), gone }
    }

    /// Changes the store of a key.
    pub fn changing<I: Copy + Ord>(&self, key: K, change: impl FnOnce(&S) -> Change<I, S>) -> Change<I, DotMap<K, S>>
    where
        S: DotStore<I>,
    {
        let Change { added, gone } = match self.get(&key) {
            Some(store) => change(store),
            None => change(&S::default()),
        };
        let added = if added.is_empty() { DotMap::default() } else { DotMap::one(key, added) };
        Change { added, gone }
    }
}

impl<I: Copy + Ord, E: Clone + Ord> DotMap<E, DotSet<I>> {
    /// The new dot replaces the element's visible dots, so each element keeps one (Almeida and others 2018,
    /// section 7.3).
    pub fn adding(&self, element: E, dot: Dot<I>) -> Change<I, DotMap<E, DotSet<I>>> {
        self.changing(element, |dots| Change {
            added: DotSet(BTreeSet::from([dot])),
            gone: dots.0.iter().copied().collect(),
        })
    }

    /// The elements, in order.
    pub fn elements(&self) -> impl Iterator<Item = &E> {
        self.0.keys()
    }
}

/// Stores a map as a sequence of pairs, because JSON has only texts as keys.
mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<K: Serialize, V: Serialize, S: Serializer>(
        map: &BTreeMap<K, V>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(map)
    }

    pub fn deserialize<'de, K, V, D>(from: D) -> Result<BTreeMap<K, V>, D::Error>
    where
        K: Ord + Deserialize<'de>,
        V: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Ok(Vec::<(K, V)>::deserialize(from)?.into_iter().collect())
    }
}
