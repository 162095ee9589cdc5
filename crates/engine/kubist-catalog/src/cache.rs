//! Caches of zone maps, guides of secondary indexes, and checkpoint pages, each with a capacity in bytes.
//!
//! Used entries are in the young generation. When it is full, it becomes the old one, and unused old entries are
//! dropped.

use std::hash::Hash;
use std::sync::{Arc, Mutex, OnceLock};

use kubist_format::entry::Page;
use kubist_format::location::Location;
use kubist_format::lookup::postings::Guide;
use kubist_format::zone_map::ZoneMap;
use kubist_index::forest::Forest;
use kubist_index::outlines::Outlines;
use kubist_index::spread::SpreadMap;
use kubist_index::state::Run;

/// The capacity of both generations together.
pub const ZONE_MAP_BYTES: usize = 128 << 20;
/// The directories for a billion distinct values take 60 MB, and a query reads all guides.
pub const GUIDE_BYTES: usize = 256 << 20;
pub const PAGE_BYTES: usize = 64 << 20;

pub trait CacheEntry {
    fn bytes(&self) -> usize;
}

impl CacheEntry for ZoneMap {
    fn bytes(&self) -> usize {
        self.memory()
    }
}

impl CacheEntry for Guide {
    fn bytes(&self) -> usize {
        self.memory()
    }
}

/// A page, with the outlines of its entries once a query needed them.
pub struct KnownPage {
    pub page: Page,
    outlines: OnceLock<Outlines>,
}

impl KnownPage {
    pub fn new(page: Page) -> KnownPage {
        KnownPage { page, outlines: OnceLock::new() }
    }

    pub fn outlines(&self, forest: &Forest) -> &Outlines {
        self.outlines.get_or_init(|| Outlines::of(&self.page, forest))
    }
}

impl CacheEntry for KnownPage {
    fn bytes(&self) -> usize {
        let Page { runs, cutoffs } = &self.page;
        let of_run = |run: &Arc<Run<Location>>| size_of::<Run<Location>>() + 32 + run.copies.len() * 16;
        let ranges = runs.first().and_then(|run| run.payload.ranges.as_ref());
        let ranges = ranges.map_or(0, |ranges| ranges.of().memory());
        let outlines = Outlines::memory(runs.len(), self.page.len());
        runs.iter().map(of_run).sum::<usize>() + cutoffs.len() * 32 + ranges + outlines
    }
}

pub struct Cache<K, V> {
    bound: usize,
    generations: Mutex<Generations<K, V>>,
}

struct Generations<K, V> {
    young: SpreadMap<K, Arc<V>>,
    old: SpreadMap<K, Arc<V>>,
    young_bytes: usize,
}

impl<K: Eq + Hash, V: CacheEntry> Generations<K, V> {
    fn insert(&mut self, key: K, value: Arc<V>, bound: usize) {
        if self.young_bytes > bound / 2 {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += value.bytes();
        self.young.insert(key, value);
    }
}

impl<K: Eq + Hash, V: CacheEntry> Cache<K, V> {
    pub fn new(bound: usize) -> Cache<K, V> {
        let generations = Generations { young: SpreadMap::default(), old: SpreadMap::default(), young_bytes: 0 };
        Cache { bound, generations: Mutex::new(generations) }
    }

    pub fn get(&self, keys: impl Iterator<Item = K>) -> Vec<Option<Arc<V>>> {
        let mut generations = self.generations.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        keys.map(|key| {
            if let Some(value) = generations.young.get(&key) {
                return Some(value.clone());
            }
            let value = generations.old.remove(&key)?;
            generations.insert(key, value.clone(), self.bound);
            Some(value)
        })
        .collect()
    }

    /// Like [`Cache::get`], but old entries stay old.
    pub fn peek(&self, keys: impl Iterator<Item = K>) -> Vec<Option<Arc<V>>> {
        let generations = self.generations.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        keys.map(|key| generations.young.get(&key).or_else(|| generations.old.get(&key)).cloned()).collect()
    }

    pub fn insert(&self, values: impl Iterator<Item = (K, Arc<V>)>) {
        let mut generations = self.generations.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        values.for_each(|(key, value)| generations.insert(key, value, self.bound));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Tenth;

    impl CacheEntry for Tenth {
        fn bytes(&self) -> usize {
            10
        }
    }

    #[test]
    fn who_peeks_leaves_both_generations_as_they_are() {
        let cache = Cache::new(100);
        let put = |keys: std::ops::Range<u32>| cache.insert(keys.map(|key| (key, Arc::new(Tenth))));
        let found = |values: Vec<Option<Arc<Tenth>>>| values.iter().filter(|value| value.is_some()).count();
        put(0..8);
        assert_eq!(found(cache.peek(0..20)), 8, "young and old");
        assert_eq!(found(cache.get(0..1)), 1);
        put(10..14);
        let left: Vec<u32> = (0..8).filter(|key| cache.peek(std::iter::once(*key))[0].is_some()).collect();
        assert_eq!(left, [0, 6, 7]);
    }
}
