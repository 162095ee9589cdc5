//! Stretches: parts of a directory that does not fit in memory, read some pages at a time.
//!
//! Each row is in exactly one primary run, so a query needs only primary runs, in any order. Replicas help only in
//! small regions.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use kubist_format::location::Location;
use kubist_index::forest::Region;
use kubist_index::priority::PriorityRange;
use kubist_index::state::Run;
use kubist_types::{Cancel, Result, Stats};

use super::base::Caching;
use super::{AT_ONCE, Base, Runs};
use crate::cache::KnownPage;
use crate::files::TableFiles;

/// Number of pages in the first stretch: few, so that first results come early.
const FIRST_PAGES: usize = 4;

pub struct Stretches {
    pages: VecDeque<usize>,
    at_once: usize,
    recent_is_left: bool,
}

pub struct Abridged {
    /// For every page, a stand-in for its primary runs. Removed runs may be included.
    pub runs: Vec<Arc<Run<Location>>>,
    pages: Vec<usize>,
    read: usize,
}

impl Stretches {
    /// Drops pages whose stand-in run is not `wanted`.
    ///
    /// # Errors
    ///
    /// `Cancelled` or a storage error.
    pub fn retain(
        &mut self,
        runs: &Runs,
        files: &TableFiles,
        stats: &mut Stats,
        cancel: &Cancel,
        wanted: impl Fn(&Run<Location>) -> bool,
    ) -> Result<()> {
        let Some(base) = &runs.base else { return Ok(()) };
        if let Some(abstracts) = base.abstracts(files, stats, cancel)? {
            self.pages.retain(|page| wanted(&abstracts[*page]));
        }
        Ok(())
    }
}

impl Runs {
    /// The stretches of pages that a query meets; `None` if the directory fits in memory, or if one request reads all
    /// these pages.
    pub fn stretches(&self, files: &TableFiles, region: &Region, range: PriorityRange) -> Option<Stretches> {
        let base = self.unheld_base(files)?;
        let mut pages: VecDeque<usize> = base.meeting(files, region, range).into();
        pages.retain(|page| base.pages[*page].summary.may_hold_primaries(range));
        (pages.len() > AT_ONCE).then_some(Stretches { pages, at_once: FIRST_PAGES, recent_is_left: true })
    }

    /// The next primary runs that meet the region and range; `None` at the end.
    ///
    /// # Errors
    ///
    /// The errors of [`Runs::directory`].
    pub fn next_primaries(
        &self,
        files: &TableFiles,
        stretches: &mut Stretches,
        region: &Region,
        range: PriorityRange,
        stats: &mut Stats,
        cancel: &Cancel,
    ) -> Result<Option<Vec<Arc<Run<Location>>>>> {
        cancel.check()?;
        let Stretches { pages, at_once, recent_is_left } = stretches;
        if std::mem::take(recent_is_left) {
            return Ok(Some(self.recent_primaries(files, region, range)));
        }
        let Some(base) = self.base.as_ref().filter(|_| !pages.is_empty()) else { return Ok(None) };
        let some: Vec<usize> = pages.drain(..pages.len().min(*at_once)).collect();
        *at_once = (*at_once * 2).min(AT_ONCE);
        let known = base.load(files, &some, Caching::Pass, stats, cancel)?;
        Ok(Some(self.primaries_of(files, base, &known, region, range)))
    }

    pub fn recent_primaries(
        &self,
        files: &TableFiles,
        region: &Region,
        range: PriorityRange,
    ) -> Vec<Arc<Run<Location>>> {
        let forest = files.forest();
        let meets = |run: &&Arc<Run<Location>>| {
            range.meets(run.priorities.0, run.priorities.1) && region.meets(&forest.tree_of(run.cube), run.cube)
        };
        self.recent().runs().filter(meets).cloned().collect()
    }

    fn primaries_of(
        &self,
        files: &TableFiles,
        base: &Base,
        pages: &[Arc<KnownPage>],
        region: &Region,
        range: PriorityRange,
    ) -> Vec<Arc<Run<Location>>> {
        let (forest, mut found) = (files.forest(), Vec::new());
        for known in pages {
            let runs = known.outlines(&forest).runs(region, range).map(|run| &known.page.runs[run]);
            found.extend(runs.filter(|run| !run.is_replica() && self.lives(base, run)).cloned());
        }
        found.sort_unstable_by_key(|run| (run.cube, run.id));
        found
    }

    /// Stand-in runs for the pages that meet a region. `None` if all runs are or will soon be in memory, or if a page
    /// has no stand-in.
    ///
    /// # Errors
    ///
    /// `Cancelled` or a storage error.
    pub fn abridged(
        &self,
        files: &TableFiles,
        region: &Region,
        stats: &mut Stats,
        cancel: &Cancel,
    ) -> Result<Option<Abridged>> {
        let Some(base) = self.base.as_ref().filter(|_| self.prefers_pages(files)) else { return Ok(None) };
        let Some(abstracts) = base.abstracts(files, stats, cancel)? else { return Ok(None) };
        let mut pages = base.meeting(files, region, PriorityRange::ALL);
        pages.retain(|page| abstracts[*page].rows > 0);
        let runs = pages.iter().map(|page| abstracts[*page].clone()).collect();
        Ok(Some(Abridged { pages, runs, read: 0 }))
    }

    /// The primary runs on the pages of the selected `abridged.runs` that meet the region.
    ///
    /// # Errors
    ///
    /// The errors of [`Runs::directory`].
    pub fn unabridged(
        &self,
        files: &TableFiles,
        (abridged, of): (&mut Abridged, &[usize]),
        region: &Region,
        stats: &mut Stats,
        cancel: &Cancel,
    ) -> Result<Vec<Arc<Run<Location>>>> {
        let Some(base) = &self.base else { return Ok(Vec::new()) };
        abridged.read += of.len();
        base.asked.fetch_add(of.len(), Ordering::Relaxed);
        let caching = if abridged.read > AT_ONCE { Caching::Pass } else { Caching::Keep };
        let mut found = Vec::new();
        for some in of.chunks(AT_ONCE) {
            cancel.check()?;
            let pages: Vec<usize> = some.iter().map(|run| abridged.pages[*run]).collect();
            let known = base.load(files, &pages, caching, stats, cancel)?;
            found.extend(self.primaries_of(files, base, &known, region, PriorityRange::ALL));
        }
        Ok(found)
    }

    pub(super) fn unheld_base(&self, files: &TableFiles) -> Option<&Arc<Base>> {
        self.base.as_ref().filter(|base| self.whole.get().is_none() && !files.fits_in_memory(base.runs()))
    }
}
