//! What placing rows has to know of a table: cutoffs, and how full cubes are.

use std::collections::HashSet;
use std::sync::Arc;

use kubist_index::cube::CubeId;
use kubist_index::layout::Known;
use kubist_index::priority::Threshold;
use kubist_index::state::RunId;

use kubist_catalog::directory::Directory;

/// A directory, without some runs that are being rewritten.
pub struct Seen {
    directory: Arc<Directory>,
    without: HashSet<RunId>,
}

impl Seen {
    pub fn all(directory: Arc<Directory>) -> Seen {
        Seen { directory, without: HashSet::new() }
    }

    pub fn without(directory: Arc<Directory>, runs: impl Iterator<Item = RunId>) -> Seen {
        Seen { directory, without: runs.collect() }
    }
}

impl Known for Seen {
    fn cutoff(&self, cube: CubeId) -> Threshold {
        self.directory.cutoff(cube)
    }

    fn rows_below(&self, cube: CubeId, fraction: f64) -> f64 {
        let at = fraction * 18_446_744_073_709_551_616.0;
        let runs = self.directory.runs_of(cube).iter().filter(|run| !self.without.contains(&run.id));
        runs.map(|run| {
            let (first, last) = (run.priorities.0 as f64, run.priorities.1 as f64);
            run.rows as f64 * ((at - first) / (last - first).max(1.0)).clamp(0.0, 1.0)
        })
        .sum()
    }
}
