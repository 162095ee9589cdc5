//! Checks that the runs of an earlier plan are still live when their rewrite starts.

use std::sync::Arc;

use kubist_catalog::directory::Directory;
use kubist_format::location::Location;
use kubist_index::cube::CubeId;
use kubist_index::forest::Forest;
use kubist_index::state::{Run, RunId};

/// Returns runs by their ids; `None` if a run is no longer live.
pub fn live(directory: &Directory, runs: &[(CubeId, RunId)]) -> Option<Vec<Arc<Run<Location>>>> {
    let found = runs.iter().map(|(cube, id)| {
        let of_cube = directory.runs_of(*cube);
        of_cube.binary_search_by_key(id, |run| run.id).ok().map(|index| of_cube[index].clone())
    });
    found.collect()
}

/// The ancestors of the cubes, whose cutoffs determined the placement of the runs (I5).
pub fn above(forest: &Forest, cubes: impl Iterator<Item = CubeId>) -> Vec<CubeId> {
    let mut above: Vec<CubeId> = cubes.flat_map(|cube| forest.tree_of(cube).ancestors(cube)).collect();
    above.sort_unstable();
    above.dedup();
    above
}
