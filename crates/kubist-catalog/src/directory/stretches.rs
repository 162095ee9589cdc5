//! A list that is too long to be held, as questions go through it that have to do with much of it: some pages at
//! a time.
//!
//! Each record is in one primary run, so that these alone answer a question, in any order. Copies would save it little:
//! they save a small region the cubes around it.

use std::collections::VecDeque;
use std::sync::Arc;

use kubist_format::location::Location;
use kubist_index::forest::Region;
use kubist_index::priority::PriorityRange;
use kubist_index::state::Run;
use kubist_types::{Cancel, Result, Stats};

use super::base::Caching;
use super::{AT_ONCE, Base, Runs};
use crate::files::TableFiles;

/// The pages of the first stretch: what it leads to comes the sooner.
const FIRST_PAGES: usize = 4;

/// The pages of a list that a question has to do with, but for those that it has gone through.
pub struct Stretches {
    pages: VecDeque<usize>,
    /// How many come next.
    at_once: usize,
    /// What came since the base comes first.
    recent_is_left: bool,
}

impl Runs {
    /// How a question goes through the list, if it is too long to be held and more of its pages meet a region and a
    /// range of priorities than are read in one go.
    pub fn stretches(&self, files: &TableFiles, region: &Region, range: PriorityRange) -> Option<Stretches> {
        let base = self.unheld_base(files)?;
        let mut pages: VecDeque<usize> = base.meeting(files, region, range).into();
        pages.retain(|page| base.pages[*page].summary.may_hold_primaries(range));
        (pages.len() > AT_ONCE).then_some(Stretches { pages, at_once: FIRST_PAGES, recent_is_left: true })
    }

    /// The primary runs of the next stretch that meet the region and the range; `None` behind the last.
    ///
    /// # Errors
    ///
    /// As of [`Runs::whole`].
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
        let forest = files.forest();
        if std::mem::take(recent_is_left) {
            let meets = |run: &&Arc<Run<Location>>| {
                range.meets(run.priorities.0, run.priorities.1) && region.meets(&forest.tree_of(run.cube), run.cube)
            };
            return Ok(Some(self.recent().runs().iter().filter(meets).cloned().collect()));
        }
        let Some(base) = self.base.as_ref().filter(|_| !pages.is_empty()) else { return Ok(None) };
        let some: Vec<usize> = pages.drain(..pages.len().min(*at_once)).collect();
        *at_once = (*at_once * 2).min(AT_ONCE);
        let mut found: Vec<Arc<Run<Location>>> = Vec::new();
        for known in base.load(files, &some, Caching::Pass, stats, cancel)? {
            let runs = known.outlines(&forest).runs(region, range).map(|run| &known.page.runs[run]);
            found.extend(runs.filter(|run| !run.is_replica() && self.lives(base, run)).cloned());
        }
        found.sort_unstable_by_key(|run| (run.cube, run.id));
        Ok(Some(found))
    }

    /// The base, if it has too many runs to be held in memory.
    pub(super) fn unheld_base(&self, files: &TableFiles) -> Option<&Arc<Base>> {
        self.base.as_ref().filter(|base| self.whole.get().is_none() && !files.fits_in_memory(base.runs()))
    }
}
