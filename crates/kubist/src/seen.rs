//! What placing rows has to know of a table: cutoffs, and how full cubes are.

use std::collections::HashSet;

use kubist_index::cube::CubeId;
use kubist_index::layout::Known;
use kubist_index::priority::Threshold;
use kubist_index::state::RunId;

use crate::table::View;

/// A view, without some runs that are being rewritten.
pub struct Seen<'a> {
    view: &'a View,
    without: HashSet<RunId>,
}

impl<'a> Seen<'a> {
    pub fn all(view: &'a View) -> Seen<'a> {
        Seen { view, without: HashSet::new() }
    }

    pub fn without(view: &'a View, runs: impl Iterator<Item = RunId>) -> Seen<'a> {
        Seen { view, without: runs.collect() }
    }
}

impl Known for Seen<'_> {
    fn cutoff(&self, cube: CubeId) -> Threshold {
        self.view.directory.cutoff(cube)
    }

    fn rows_below(&self, cube: CubeId, fraction: f64) -> f64 {
        let at = fraction * 18_446_744_073_709_551_616.0;
        let runs = self.view.directory.runs_of(cube).iter().filter(|run| !self.without.contains(&run.id));
        runs.map(|run| {
            let (first, last) = (run.priorities.0 as f64, run.priorities.1 as f64);
            run.rows as f64 * ((at - first) / (last - first).max(1.0)).clamp(0.0, 1.0)
        })
        .sum()
    }
}
