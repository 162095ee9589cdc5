//! The pages of a checkpoint, which are read on demand, checked and cached.

mod digests;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use kubist_format::checkpoint::{Leaf, levels};
use kubist_format::digest::Digest;
use kubist_format::entry::{self, Page};
use kubist_format::error::EntryError;
use kubist_format::location::Location;
use kubist_index::forest::Region;
use kubist_index::pages::{Summary, Tier};
use kubist_index::priority::PriorityRange;
use kubist_index::spread::SpreadSet;
use kubist_index::state::{Run, RunId};
use kubist_types::{Cancel, Error, Result, Stats};
use rayon::prelude::*;

use self::digests::Digests;
use super::{AT_ONCE, Entry, lives, runs_of};
use crate::cache::KnownPage;
use crate::error::{bad_entry, is_damage};
use crate::fetch::{Fetched, Piece, fetch};
use crate::files::TableFiles;
use crate::look::is_far;
use crate::stop::stoppable;

/// If a request has more pages than this, they are decoded completely and cached; otherwise only the wanted runs are.
const DECODED_IN_PART: usize = 4;

/// `Pass` reads many pages once without evicting others.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Caching {
    Keep,
    Pass,
}

pub struct Base {
    /// Pages of all levels, oldest level first.
    pub pages: Vec<Leaf>,
    /// Runs on these pages that were removed before the checkpoint.
    pub removed: SpreadSet<RunId>,
    runs: u64,
    pub(super) asked: AtomicUsize,
    pub(super) digests: Digests,
}

impl Base {
    pub fn new(pages: Vec<Leaf>, removed: Vec<RunId>) -> Base {
        let removed: SpreadSet<RunId> = removed.into_iter().collect();
        let runs = runs_of(&pages).saturating_sub(removed.len() as u64);
        Base { pages, removed, runs, asked: AtomicUsize::new(0), digests: Digests::default() }
    }

    pub fn runs(&self) -> u64 {
        self.runs
    }

    pub fn segments(&self) -> impl Iterator<Item = &Arc<str>> {
        levels(&self.pages).map(|level| &level[0].segment)
    }

    pub fn lives(&self, run: &Run<Location>) -> bool {
        lives(&self.removed, run)
    }

    pub fn bytes(&self) -> u64 {
        self.pages.iter().map(|page| page.length as u64).sum()
    }

    pub(super) fn meeting(&self, files: &TableFiles, region: &Region, range: PriorityRange) -> Vec<usize> {
        let forest = files.forest();
        let meets = |page: &usize| self.pages[*page].summary.meets(&forest, region, range);
        (0..self.pages.len()).filter(meets).collect()
    }

    pub(super) fn load(
        &self,
        files: &TableFiles,
        wanted: &[usize],
        caching: Caching,
        stats: &mut Stats,
        cancel: &Cancel,
    ) -> Result<Vec<Arc<KnownPage>>> {
        let key = |page: usize| (self.pages[page].segment.clone(), self.pages[page].offset);
        let keys = wanted.iter().map(|page| key(*page));
        let mut found = match caching {
            Caching::Keep => files.page_cache.get(keys),
            Caching::Pass => files.page_cache.peek(keys),
        };
        let missing: Vec<usize> = (0..wanted.len()).filter(|index| found[*index].is_none()).collect();
        if missing.is_empty() {
            return Ok(found.into_iter().flatten().collect());
        }
        let pages: Vec<usize> = missing.iter().map(|index| wanted[*index]).collect();
        let fetched = stoppable(cancel, || read(files, &self.pieces(&pages)))?;
        stats.spend(fetched.cost);
        let decode = |(page, bytes): (&usize, &bytes::Bytes)| {
            let leaf = &self.pages[*page];
            let decoded = files.decoded(|forest| entry::decode_page(bytes, forest)).and_then(|page| {
                let Summary { grid, runs, .. } = leaf.summary;
                if page.cubes().any(|cube| cube.grid() != grid) {
                    return Err(EntryError::Bad(format!("a page has cubes of other grids than grid {grid}")));
                }
                match page.runs.len() {
                    found if found == runs as usize => Ok(Arc::new(KnownPage::new(page))),
                    found => Err(EntryError::Bad(format!("a page has {found} runs and not {runs}"))),
                }
            });
            decoded.map_err(|error| self.bad_page(files, *page, error))
        };
        let decoded = pages.par_iter().zip(&fetched.pieces).map(decode).collect::<Result<Vec<Arc<KnownPage>>>>()?;
        if caching == Caching::Keep {
            files.page_cache.insert(pages.iter().map(|page| key(*page)).zip(decoded.iter().cloned()));
        }
        missing.into_iter().zip(decoded).for_each(|(index, page)| found[index] = Some(page));
        Ok(found.into_iter().flatten().collect())
    }

    /// A few uncached pages of a local store are decoded only in part.
    pub(super) fn runs_on(
        &self,
        files: &TableFiles,
        pages: &[usize],
        wanted: impl Fn(usize, RunId) -> bool + Sync,
        stats: &mut Stats,
        cancel: &Cancel,
    ) -> Result<Vec<Arc<Run<Location>>>> {
        let key = |page: usize| (self.pages[page].segment.clone(), self.pages[page].offset);
        let known = match is_far(files.store.as_ref()) || pages.len() > DECODED_IN_PART {
            true => self.load(files, pages, Caching::Keep, stats, cancel)?.into_iter().map(Some).collect(),
            false => files.page_cache.get(pages.iter().map(|page| key(*page))),
        };
        let (known, open): (Vec<_>, Vec<_>) = pages.iter().zip(known).partition(|(_, known)| known.is_some());
        let open: Vec<usize> = open.into_iter().map(|(page, _)| *page).collect();
        let known = known.into_iter().filter_map(|(page, known)| Some((page, known?)));
        let of_page = |(page, known): (&usize, Arc<KnownPage>)| {
            known.page.runs.iter().filter(|run| wanted(*page, run.id)).cloned().collect::<Vec<_>>()
        };
        let mut found: Vec<Arc<Run<Location>>> = known.flat_map(of_page).collect();
        if open.is_empty() {
            return Ok(found);
        }
        let fetched = stoppable(cancel, || read(files, &self.pieces(&open)))?;
        stats.spend(fetched.cost);
        let decode = |(page, bytes): (&usize, &bytes::Bytes)| {
            let runs = files.decoded(|forest| entry::runs_of_page(bytes, forest, |run| wanted(*page, run)));
            runs.map_err(|error| self.bad_page(files, *page, error))
        };
        // To wake another thread takes as long as to decode a page.
        let decoded = open.iter().zip(&fetched.pieces).map(decode).collect::<Result<Vec<_>>>()?;
        found.extend(decoded.into_iter().flatten());
        Ok(found)
    }

    pub(super) fn pieces(&self, pages: &[usize]) -> Vec<Piece> {
        let piece = |leaf: &Leaf| {
            let length = leaf.length as u64;
            Piece { segment: leaf.segment.clone(), offset: leaf.offset, length }
        };
        pages.iter().map(|page| piece(&self.pages[*page])).collect()
    }

    pub(super) fn bad_page(&self, files: &TableFiles, page: usize, error: EntryError) -> Error {
        let leaf = &self.pages[page];
        bad_entry(files.store.location(), &format!("segments/{}.seg", leaf.segment), leaf.offset, error)
    }

    /// Loads all pages into the cache in one request.
    ///
    /// # Errors
    ///
    /// The errors of [`Base::each`].
    pub fn bring(&self, files: &TableFiles) -> Result<()> {
        let all: Vec<usize> = (0..self.pages.len()).collect();
        self.load(files, &all, Caching::Keep, &mut Stats::default(), &Cancel::default()).map(drop)
    }

    /// Calls `work` with every page, some at a time.
    ///
    /// # Errors
    ///
    /// `Damaged`, `SnapshotExpired` if the pages were cleaned, `Cancelled`, a storage error, and the errors of `work`.
    pub fn each(&self, files: &TableFiles, cancel: &Cancel, mut work: impl FnMut(&Page) -> Result<()>) -> Result<()> {
        let (all, stats) = (0..self.pages.len(), &mut Stats::default());
        self.each_of(files, all, Caching::Keep, stats, cancel, |_, page| work(page))
    }

    pub(super) fn each_of(
        &self,
        files: &TableFiles,
        pages: Range<usize>,
        caching: Caching,
        stats: &mut Stats,
        cancel: &Cancel,
        mut work: impl FnMut(usize, &Page) -> Result<()>,
    ) -> Result<()> {
        let all: Vec<usize> = pages.collect();
        for some in all.chunks(AT_ONCE) {
            cancel.check()?;
            for (number, known) in some.iter().zip(self.load(files, some, caching, stats, cancel)?) {
                work(*number, &known.page)?;
            }
        }
        Ok(())
    }

    /// Compares all pages with their summaries and digests.
    ///
    /// # Errors
    ///
    /// The errors of [`Base::each`]; `Damaged` for a page or a digest that differs.
    pub fn check(&self, files: &TableFiles, cancel: &Cancel) -> Result<()> {
        let (forest, mut first) = (files.forest(), 0);
        for level in levels(&self.pages) {
            let (pages, is_later) = (first..first + level.len(), first > 0);
            first = pages.end;
            let mut digest = Digest::default();
            let stats = &mut Stats::default();
            self.each_of(files, pages.clone(), Caching::Keep, stats, cancel, |number, page| {
                digest.add(page);
                let leaf = &self.pages[number];
                let found = page.summary(&forest, leaf.summary.tier, is_later);
                if found == leaf.summary {
                    return Ok(());
                }
                let what = "the list of pages says other cubes or priorities than the page has".into();
                Err(self.bad_page(files, number, EntryError::Bad(what)))
            })?;
            self.check_digest(files, pages, digest)?;
        }
        Ok(())
    }

    /// Calls `work` with every readable page; returns the number of runs on other pages.
    ///
    /// # Errors
    ///
    /// `Cancelled` or a storage error.
    pub fn each_readable(&self, files: &TableFiles, cancel: &Cancel, mut work: impl FnMut(&Page)) -> Result<u64> {
        let mut lost = 0;
        for (page, leaf) in self.pages.iter().enumerate() {
            cancel.check()?;
            match self.load(files, &[page], Caching::Keep, &mut Stats::default(), cancel) {
                Err(error) if is_damage(&error) => lost += leaf.summary.runs as u64,
                loaded => loaded?.iter().for_each(|known| work(&known.page)),
            }
        }
        Ok(lost)
    }

    pub(super) fn tiers<'a>(&'a self, files: &'a TableFiles, cancel: &'a Cancel, kept: usize) -> Vec<Entries<'a>> {
        let mut tiers: Vec<VecDeque<usize>> = Vec::new();
        let mut first = kept;
        for level in levels(&self.pages[kept..]) {
            let of_level = first..first + level.len();
            first = of_level.end;
            let of_tier = |tier: Tier| of_level.clone().filter(|page| self.pages[*page].summary.tier == tier).collect();
            tiers.extend(Tier::ALL.map(of_tier));
        }
        let at_once = (2 * AT_ONCE / tiers.len().max(2)).max(1);
        let entries = |left| Entries { base: self, files, cancel, at_once, left, ready: VecDeque::new() };
        tiers.into_iter().map(entries).collect()
    }
}

/// Reads pages, where a missing segment was cleaned if no checkpoint names it.
pub(super) fn read(files: &TableFiles, pieces: &[Piece]) -> Result<Fetched> {
    let named = |segment: &str| Ok(files.page_segments()?.iter().any(|named| **named == *segment));
    fetch(files, pieces, named)
}

pub(super) struct Entries<'a> {
    base: &'a Base,
    files: &'a TableFiles,
    cancel: &'a Cancel,
    at_once: usize,
    left: VecDeque<usize>,
    ready: VecDeque<Entry>,
}

impl Iterator for Entries<'_> {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ready.is_empty() {
            let some: Vec<usize> = self.left.drain(..self.left.len().min(self.at_once)).collect();
            let Entries { base, files, cancel, .. } = *self;
            let loaded =
                cancel.check().and_then(|()| base.load(files, &some, Caching::Keep, &mut Stats::default(), cancel));
            match loaded {
                Ok(pages) => pages.iter().for_each(|known| self.ready.extend(in_order(&known.page))),
                Err(error) => return Some(Err(error)),
            }
        }
        self.ready.pop_front().map(Ok)
    }
}

fn in_order(page: &Page) -> Vec<Entry> {
    let cutoffs = page.cutoffs.iter().map(|(cube, cutoff)| Entry::Cutoff(*cube, *cutoff));
    let mut entries: Vec<Entry> = page.runs.iter().cloned().map(Entry::Run).chain(cutoffs).collect();
    entries.sort_by_key(Entry::cube);
    entries
}
