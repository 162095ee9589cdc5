//! The state of a table that the placement of rows needs: cutoffs, and the rows of cubes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kubist_index::cube::CubeId;
use kubist_index::layout::TreeState;
use kubist_index::priority::Threshold;
use kubist_index::ramps::Ramp;
use kubist_index::state::{Commit, Run, RunId};

use kubist_catalog::directory::Directory;
use kubist_format::location::Location;

/// The directories of a table, without the runs that are being rewritten.
pub struct RemainingDirectories {
    directories: Vec<Arc<Directory>>,
    without: HashSet<RunId>,
    /// The runs and cutoffs of a commit that is not in the log yet.
    coming: HashMap<CubeId, (Threshold, Vec<Ramp>)>,
}

impl RemainingDirectories {
    pub fn all(directories: Vec<Arc<Directory>>) -> RemainingDirectories {
        RemainingDirectories { directories, without: HashSet::new(), coming: HashMap::new() }
    }

    pub fn and(mut self, commit: &Commit<Location>) -> RemainingDirectories {
        for (cube, cutoff) in &commit.cutoffs {
            self.coming.entry(*cube).or_insert((Threshold::ALL, Vec::new())).0 = *cutoff;
        }
        for run in &commit.runs {
            let of_cube = self.coming.entry(run.cube).or_insert((Threshold::ALL, Vec::new()));
            of_cube.1.push(Ramp::of_run(run.rows, run.priorities));
        }
        self
    }

    pub fn without(directories: Vec<Arc<Directory>>, runs: impl Iterator<Item = RunId>) -> RemainingDirectories {
        RemainingDirectories { directories, without: runs.collect(), coming: HashMap::new() }
    }

    fn runs(&self, cube: CubeId) -> impl Iterator<Item = &Arc<Run<Location>>> {
        let runs = self.directories.iter().flat_map(move |directory| directory.runs_of(cube));
        runs.filter(|run| self.without.is_empty() || !self.without.contains(&run.id))
    }
}

impl TreeState for RemainingDirectories {
    fn cutoff(&self, cube: CubeId) -> Threshold {
        let cutoffs = self.directories.iter().map(|directory| directory.cutoff(cube));
        cutoffs.chain(self.coming.get(&cube).map(|(cutoff, _)| *cutoff)).min().unwrap_or(Threshold::ALL)
    }

    fn holds_rows(&self, cube: CubeId) -> bool {
        self.runs(cube).any(|run| run.rows > 0) || self.coming.get(&cube).is_some_and(|(_, ramps)| !ramps.is_empty())
    }

    fn ramps(&self, cube: CubeId) -> Vec<Ramp> {
        let coming = self.coming.get(&cube).into_iter().flat_map(|(_, ramps)| ramps.iter().copied());
        self.runs(cube).map(|run| Ramp::of_run(run.rows, run.priorities)).chain(coming).collect()
    }
}
