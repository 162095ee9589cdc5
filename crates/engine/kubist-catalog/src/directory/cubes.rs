//! What those who keep a table in shape read of its runs: all of it in the order of cubes, or what
//! is known of some cubes. Where the list is held in memory they get the whole of it; otherwise
//! as much as they ask for is in memory, or some pages at a time.

use std::sync::Arc;

use kubist_index::cube::{CubeId, GridBox};
use kubist_index::forest::Region;
use kubist_index::pages::Summary;
use kubist_index::priority::PriorityRange;
use kubist_types::{Cancel, Result, Stats};

use super::base::Caching;
use super::{AT_ONCE, Base, Directory, Entry, Runs, WRITER_PAGES};
use crate::files::TableFiles;

/// Does a box hold another one?
fn holds(around: &GridBox, inside: &GridBox, dimensions: usize) -> bool {
    (0..dimensions).all(|d| around.low[d] <= inside.low[d] && inside.high[d] <= around.high[d])
}

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
        self.inside(files, cube, usize::MAX, cancel)
    }

    /// All that is known of a cube and those that hold it, and of those inside it as much as a writer takes of a
    /// table: what it does not know of a cube it may take for a cutoff of 1 and no rows.
    ///
    /// # Errors
    ///
    /// As of [`Runs::whole`].
    pub fn above(&self, files: &TableFiles, cube: CubeId, cancel: &Cancel) -> Result<Arc<Directory>> {
        self.inside(files, cube, WRITER_PAGES, cancel)
    }

    /// With at most so many pages of cubes inside the cube, those of the upper tiers first.
    fn inside(&self, files: &TableFiles, cube: CubeId, most: usize, cancel: &Cancel) -> Result<Arc<Directory>> {
        let forest = files.forest();
        let tree = forest.tree_of(cube);
        let span = tree.span(cube);
        let region = Region::in_grid(cube.grid(), span.clone());
        let choose = |base: &Base| {
            let meets = |page: &usize| base.pages[*page].summary.meets(&forest, &region, PriorityRange::ALL);
            let holds = |page: &usize| holds(&base.pages[*page].summary.span, &span, tree.dimensions());
            let (mut wanted, mut others): (Vec<usize>, Vec<usize>) =
                (0..base.pages.len()).filter(meets).partition(holds);
            others.sort_by_key(|page| base.pages[*page].summary.tier);
            wanted.extend(others.into_iter().take(most));
            wanted
        };
        self.part(files, choose, |other| tree.contains(other, cube) || tree.contains(cube, other), cancel)
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
            inside.any(|span| holds(&page.span, &span, tree.dimensions()))
        };
        let choose = |base: &Base| {
            (0..base.pages.len()).filter(|page| may_hold(&base.pages[*page].summary)).collect::<Vec<usize>>()
        };
        self.part(files, choose, |cube| cubes.binary_search(&cube).is_ok(), cancel)
    }

    /// All, if it is held; otherwise what some pages and what came since have of some cubes.
    fn part(
        &self,
        files: &TableFiles,
        choose: impl Fn(&Base) -> Vec<usize>,
        wanted: impl Fn(CubeId) -> bool,
        cancel: &Cancel,
    ) -> Result<Arc<Directory>> {
        let Some(base) = &self.base else { return Ok(self.recent().clone()) };
        if let Some(layers) = self.held(files, &mut Stats::default(), cancel)? {
            return Ok(layers.joined().clone());
        }
        let pages = choose(base);
        let (mut live, mut cutoffs) = (Vec::new(), Vec::new());
        for some in pages.chunks(AT_ONCE) {
            cancel.check()?;
            for known in base.load(files, some, Caching::Keep, &mut Stats::default(), cancel)? {
                let page = &known.page;
                live.extend(page.runs.iter().filter(|run| wanted(run.cube) && self.lives(base, run)).cloned());
                cutoffs.extend(page.cutoffs.iter().copied().filter(|(cube, _)| wanted(*cube)));
            }
        }
        live.extend(self.recent().all().filter(|run| wanted(run.cube)).cloned());
        cutoffs.extend(self.recent().cutoffs().filter(|(cube, _)| wanted(*cube)));
        Ok(Arc::new(Directory::of(files.forest(), live.into_iter(), cutoffs.into_iter(), cancel)?))
    }
}
