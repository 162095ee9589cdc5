//! What placing rows has to know of a table: cutoffs, and how full cubes are.

use std::collections::HashSet;
use std::sync::Arc;

use kubist_index::cube::CubeId;
use kubist_index::layout::Known;
use kubist_index::priority::Threshold;
use kubist_index::ramps::Ramp;
use kubist_index::state::{Run, RunId};

use kubist_catalog::directory::Directory;
use kubist_format::location::Location;

/// The directories that make up a table, without some runs that are being rewritten.
pub struct Seen {
    directories: Vec<Arc<Directory>>,
    without: HashSet<RunId>,
}

impl Seen {
    pub fn all(directories: Vec<Arc<Directory>>) -> Seen {
        Seen { directories, without: HashSet::new() }
    }

    pub fn without(directory: Arc<Directory>, runs: impl Iterator<Item = RunId>) -> Seen {
        Seen { directories: vec![directory], without: runs.collect() }
    }

    fn runs(&self, cube: CubeId) -> impl Iterator<Item = &Arc<Run<Location>>> {
        let runs = self.directories.iter().flat_map(move |directory| directory.runs_of(cube));
        runs.filter(|run| self.without.is_empty() || !self.without.contains(&run.id))
    }
}

impl Known for Seen {
    fn cutoff(&self, cube: CubeId) -> Threshold {
        let cutoffs = self.directories.iter().map(|directory| directory.cutoff(cube));
        cutoffs.min().unwrap_or(Threshold::ALL)
    }

    fn holds_rows(&self, cube: CubeId) -> bool {
        self.runs(cube).any(|run| run.rows > 0)
    }

    fn ramps(&self, cube: CubeId) -> Vec<Ramp> {
        self.runs(cube).map(|run| Ramp::of_run(run.rows, run.priorities)).collect()
    }
}
