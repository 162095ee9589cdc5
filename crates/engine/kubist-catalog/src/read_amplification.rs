//! Read amplification: the regions where queries of this process examined rows without returning them. The optimizer
//! rewrites these first, even without much compaction debt.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use kubist_index::cube::{CubeId, Geometry};

/// Rows examined but not returned, by cube, since the cube's last rewrite.
#[derive(Default)]
pub struct ReadAmplification {
    wasted: Mutex<HashMap<CubeId, u64>>,
    /// Rows when the grid was last compared with a new one.
    compared: AtomicU64,
}

impl ReadAmplification {
    fn lock(&self) -> MutexGuard<'_, HashMap<CubeId, u64>> {
        self.wasted.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub fn add(&self, in_vain: impl Iterator<Item = (CubeId, u64)>) {
        let mut rows_of = self.lock();
        in_vain.filter(|(_, rows)| *rows > 0).for_each(|(cube, rows)| *rows_of.entry(cube).or_default() += rows);
    }

    pub fn of(&self, cube: CubeId) -> u64 {
        self.lock().get(&cube).copied().unwrap_or(0)
    }

    pub fn total(&self) -> u64 {
        self.lock().values().sum()
    }

    /// True if the table has grown by a quarter since this was last true.
    pub fn has_grown(&self, rows: u64) -> bool {
        let compared = self.compared.load(Ordering::Relaxed);
        let has_grown = rows >= compared + compared / 4;
        if has_grown {
            self.compared.store(rows.max(1), Ordering::Relaxed);
        }
        has_grown
    }

    /// Resets the count of the rewritten `top`; with `whole`, also of all cubes below.
    pub fn forget(&self, geometry: &Geometry, top: CubeId, whole: bool) {
        self.lock().retain(|cube, _| if whole { !geometry.contains(top, *cube) } else { *cube != top });
    }
}
