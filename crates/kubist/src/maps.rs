//! Zone maps, read once and kept within a bound.
//!
//! Two generations: what was used lately is in the young one; when that is full
//! it becomes the old one, and what was old and not used since is dropped.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex};

use kubist_index::state::RunId;

use crate::codec::zone_map::ZoneMap;

/// Bytes of both generations together.
const BOUND: usize = 128 << 20;

/// Run ids begin with a hash, and only neighbours differ in little: no more hashing is
/// needed than to bring their parts together.
type Spread = BuildHasherDefault<Folding>;

#[derive(Default)]
struct Folding(u64);

impl Hasher for Folding {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u128(*byte as u128));
    }

    fn write_u128(&mut self, value: u128) {
        let folded = self.0 ^ value as u64 ^ (value >> 64) as u64;
        self.0 = folded.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[derive(Default)]
pub struct MapCache(Mutex<Generations>);

#[derive(Default)]
struct Generations {
    young: HashMap<RunId, Arc<ZoneMap>, Spread>,
    old: HashMap<RunId, Arc<ZoneMap>, Spread>,
    young_bytes: usize,
}

impl Generations {
    fn insert(&mut self, run: RunId, map: Arc<ZoneMap>) {
        if self.young_bytes > BOUND / 2 {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += map.memory();
        self.young.insert(run, map);
    }
}

impl MapCache {
    /// For each run its map, if it is here.
    pub fn get(&self, runs: impl Iterator<Item = RunId>) -> Vec<Option<Arc<ZoneMap>>> {
        let mut generations = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        runs.map(|run| {
            if let Some(map) = generations.young.get(&run) {
                return Some(map.clone());
            }
            let map = generations.old.remove(&run)?;
            generations.insert(run, map.clone());
            Some(map)
        })
        .collect()
    }

    pub fn insert(&self, maps: impl Iterator<Item = (RunId, Arc<ZoneMap>)>) {
        let mut generations = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        maps.for_each(|(run, map)| generations.insert(run, map));
    }
}
