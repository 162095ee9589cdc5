//! Zone maps, read once and kept within a bound.
//!
//! Two generations: what was used lately is in the young one; when that is full
//! it becomes the old one, and what was old and not used since is dropped.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use kubist_index::state::RunId;

use crate::codec::zone_map::ZoneMap;

/// Bytes of both generations together.
const BOUND: usize = 128 << 20;

#[derive(Default)]
pub struct MapCache(Mutex<Generations>);

#[derive(Default)]
struct Generations {
    young: HashMap<RunId, Arc<ZoneMap>>,
    old: HashMap<RunId, Arc<ZoneMap>>,
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
