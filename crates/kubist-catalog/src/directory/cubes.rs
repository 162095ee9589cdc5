//! What those who keep a table in shape read of its runs: all of it in the order of cubes, or what
//! is known of some cubes. Where the list is held in memory they get the whole of it; otherwise
//! as much as they ask for is in memory, or some pages at a time.

use std::sync::Arc;

use kubist_index::cube::CubeId;
use kubist_index::forest::Region;
use kubist_index::pages::Summary;
use kubist_index::priority::PriorityRange;
use kubist_types::{Cancel, Result, Stats};

use super::{AT_ONCE, Directory, Entry, Runs};
use crate::files::TableFiles;

/// All priorities.
const ALL: PriorityRange = PriorityRange { first: 0, last: u64::MAX };

impl Runs {
    /// Calls with all live runs and all cutoffs, one of each cube, in depth-first order of cubes.
    ///
    /// # Errors
    ///
    /// As of [`Runs::whole`], or what `work` returns.
    pub fn each_in_order(
        &self,
        files: &TableFiles,
        cancel: &Cancel,
        mut work: impl FnMut(Entry) -> Result<()>,
    ) -> Result<()> {
        let Some(layers) = self.held(files, &mut Stats::default(), cancel)? else {
            return self.in_order(files, 0, cancel, work).map(drop);
        };
        let directory = layers.joined();
        let mut entries: Vec<Entry> = directory.all().cloned().map(Entry::Run).collect();
        entries.extend(directory.cutoffs().map(|(cube, cutoff)| Entry::Cutoff(cube, cutoff)));
        // Few sorted parts, one behind the other.
        entries.sort_by_key(Entry::cube);
        cancel.check()?;
        entries.into_iter().try_for_each(&mut work)
    }

    /// What is known of the cubes that hold a cube or lie inside it, and perhaps of others.
    ///
    /// # Errors
    ///
    /// As of [`Runs::whole`].
    pub fn around(&self, files: &TableFiles, cube: CubeId, cancel: &Cancel) -> Result<Arc<Directory>> {
        let forest = files.forest();
        let tree = forest.tree_of(cube);
        let region = Region::in_grid(cube.grid(), tree.span(cube));
        let meets = |page: &Summary| page.meets(&forest, &region, ALL);
        self.part(files, meets, |other| tree.contains(other, cube) || tree.contains(cube, other), cancel)
    }

    /// What is known of some cubes, and perhaps of others.
    ///
    /// # Errors
    ///
    /// As of [`Runs::whole`].
    pub fn of_cubes(
        &self,
        files: &TableFiles,
        cubes: impl Iterator<Item = CubeId>,
        cancel: &Cancel,
    ) -> Result<Arc<Directory>> {
        if let Some(layers) = self.held(files, &mut Stats::default(), cancel)? {
            return Ok(layers.joined().clone());
        }
        let mut cubes: Vec<CubeId> = cubes.collect();
        cubes.sort_unstable();
        cubes.dedup();
        let forest = files.forest();
        // The keys of what a box holds lie between those of its corners.
        let may_hold = |page: &Summary| {
            let Some(tree) = forest.tree(page.grid) else { return false };
            let [low, high] = [&page.span.low, &page.span.high].map(|corner| (page.grid, tree.key(corner)));
            let key = |cube: &CubeId| (cube.grid(), cube.first_key());
            let first = cubes.partition_point(|cube| key(cube) < low);
            let between = cubes[first..].iter().take_while(|cube| key(cube) <= high);
            let mut inside = between.map(|cube| tree.span(*cube));
            inside.any(|span| {
                let mut dimensions = 0..tree.dimensions();
                dimensions.all(|d| page.span.low[d] <= span.low[d] && span.high[d] <= page.span.high[d])
            })
        };
        self.part(files, may_hold, |cube| cubes.binary_search(&cube).is_ok(), cancel)
    }

    /// All, if it is held; otherwise what some pages and what came since have of some cubes.
    fn part(
        &self,
        files: &TableFiles,
        may_hold: impl Fn(&Summary) -> bool,
        wanted: impl Fn(CubeId) -> bool,
        cancel: &Cancel,
    ) -> Result<Arc<Directory>> {
        let Some(base) = &self.base else { return Ok(self.recent().clone()) };
        if let Some(layers) = self.held(files, &mut Stats::default(), cancel)? {
            return Ok(layers.joined().clone());
        }
        let pages: Vec<usize> = (0..base.pages.len()).filter(|page| may_hold(&base.pages[*page].summary)).collect();
        let (mut live, mut cutoffs) = (Vec::new(), Vec::new());
        for some in pages.chunks(AT_ONCE) {
            cancel.check()?;
            for page in base.load(files, some, &mut Stats::default(), cancel)? {
                live.extend(page.runs.iter().filter(|run| wanted(run.cube) && self.lives(base, run)).cloned());
                cutoffs.extend(page.cutoffs.iter().copied().filter(|(cube, _)| wanted(*cube)));
            }
        }
        live.extend(self.recent().all().filter(|run| wanted(run.cube)).cloned());
        cutoffs.extend(self.recent().cutoffs().filter(|(cube, _)| wanted(*cube)));
        Ok(Arc::new(Directory::of(files.forest(), live.into_iter(), cutoffs.into_iter(), cancel)?))
    }
}
