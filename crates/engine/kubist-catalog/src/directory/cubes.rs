//! Reads of runs for the optimizer and writers: all runs in cube order, or the entries of given cubes.
//!
//! A directory that fits in memory is returned whole; otherwise only the needed entries or some pages are loaded.

use std::sync::Arc;

use kubist_index::cube::{CubeId, GridBox};
use kubist_index::forest::Region;
use kubist_index::pages::Summary;
use kubist_index::priority::PriorityRange;
use kubist_types::{Cancel, Result, Stats};

use super::base::Caching;
use super::{AT_ONCE, Base, Directory, Entry, Runs, WRITER_PAGES};
use crate::files::TableFiles;

fn holds(around: &GridBox, inside: &GridBox, dimensions: usize) -> bool {
    (0..dimensions).all(|d| around.low[d] <= inside.low[d] && inside.high[d] <= around.high[d])
}

impl Runs {
    /// Calls `work` with all live runs and one cutoff per cube, in depth-first order of cubes.
    ///
    /// # Errors
    ///
    /// The errors of [`Runs::directory`] and of `work`.
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
        // A stable sort merges the few sorted parts quickly.
        entries.sort_by_key(Entry::cube);
        cancel.check()?;
        entries.into_iter().try_for_each(&mut work)
    }

    /// The entries of the cubes that contain `cube` or are inside it, and perhaps others.
    ///
    /// # Errors
    ///
    /// The errors of [`Runs::directory`].
    pub fn around(&self, files: &TableFiles, cube: CubeId, cancel: &Cancel) -> Result<Arc<Directory>> {
        self.inside(files, cube, usize::MAX, cancel)
    }

    /// The entries of `cube` and of the cubes that contain it, and a bounded number inside it.
    ///
    /// # Errors
    ///
    /// The errors of [`Runs::directory`].
    pub fn above(&self, files: &TableFiles, cube: CubeId, cancel: &Cancel) -> Result<Arc<Directory>> {
        self.inside(files, cube, WRITER_PAGES, cancel)
    }

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

    /// Returns at least the entries of the given cubes.
    ///
    /// # Errors
    ///
    /// The errors of [`Runs::directory`].
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
        // All keys in a box are between the keys of its corners.
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

    /// All entries if they fit in memory; otherwise those of wanted cubes on some pages and after the base.
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
