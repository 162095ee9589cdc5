//! The runs of a view: in memory where there are few, else in pages that questions bring in.
//!
//! A checkpoint of many runs keeps them in pages, in a segment of its own, and lists the
//! pages with what is in each (`kubist_index::pages`). A view is such a list and, in memory,
//! what came since. A question loads the pages that may meet its box and priorities, all
//! in one go. Once questions have asked for as many pages as there are, all are loaded and
//! stay, if they fit the bound (`limit_runs_in_memory`). Loading page by page and then all at once
//! costs at most twice what the better of the two would have cost.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kubist_format::checkpoint::Leaf;
use kubist_format::entry::{self, Page};
use kubist_format::error::EntryError;
use kubist_format::location::Location;
use kubist_index::cube::CubeId;
use kubist_index::forest::{Forest, Region};
use kubist_index::layers;
use kubist_index::pages::Summary;
use kubist_index::priority::{PriorityRange, Threshold};
use kubist_index::spread::{SpreadMap, SpreadSet};
use kubist_index::state::{Run, RunId};
use kubist_index::{directory, pages};
use kubist_types::{Cancel, Result, Stats};
use rayon::prelude::*;

use crate::error::bad_entry;
use crate::fetch::{Fetched, Piece, fetch};
use crate::files::TableFiles;
use crate::stop::stoppable;

pub type Directory = directory::Directory<Location>;
pub type Layers = layers::Layers<Location>;
pub type Entry = pages::Entry<Location>;

/// Pages that a writer loads of a directory that is not held as a whole.
const WRITER_PAGES: usize = 256;
/// Of so many pages those are read that have only copies for a question.
const WORTH_COPIES: usize = 16;
/// Pages that are read in one go.
const AT_ONCE: usize = 64;
/// Runs that a checkpoint holds itself; more are in pages.
pub const INLINE: u64 = 256;

/// How many runs and cutoffs a page has at most, in a directory of `runs` runs. A page has as
/// many as there are pages, so that neither the list of pages nor a page is large: 160 KB at
/// most, and about 8 KB more for every column that is no dimension.
pub fn page_entries(runs: u64) -> usize {
    (runs as f64).sqrt().ceil().clamp(16.0, 1024.0) as usize
}

/// The runs that a checkpoint keeps in pages.
pub struct Base {
    pub segment: Arc<str>,
    pub pages: Vec<Leaf>,
    /// Pages that questions asked for so far.
    asked: AtomicUsize,
}

impl Base {
    pub fn new(segment: Arc<str>, pages: Vec<Leaf>) -> Base {
        Base { segment, pages, asked: AtomicUsize::new(0) }
    }

    pub fn runs(&self) -> u64 {
        self.pages.iter().map(|page| page.summary.runs as u64).sum()
    }

    /// Bytes of all pages.
    pub fn bytes(&self) -> u64 {
        self.pages.iter().map(|page| page.length as u64).sum()
    }

    /// Some of its pages, from the cache or the store.
    fn load(&self, files: &TableFiles, wanted: &[usize], stats: &mut Stats, cancel: &Cancel) -> Result<Vec<Arc<Page>>> {
        let key = |page: usize| (self.segment.clone(), page);
        let mut found = files.page_cache.get(wanted.iter().map(|page| key(*page)));
        let missing: Vec<usize> = (0..wanted.len()).filter(|index| found[*index].is_none()).collect();
        if missing.is_empty() {
            return Ok(found.into_iter().flatten().collect());
        }
        let pieces = missing.iter().map(|index| {
            let leaf = &self.pages[wanted[*index]];
            Piece { segment: self.segment.clone(), offset: leaf.offset, length: leaf.length as u64 }
        });
        let fetched = stoppable(cancel, || read(files, &pieces.collect::<Vec<_>>()))?;
        stats.spend(fetched.cost);
        let decode = |(index, bytes): (&usize, &bytes::Bytes)| {
            let leaf = &self.pages[wanted[*index]];
            let page = files.decoded(|forest| entry::decode_page(bytes, forest)).and_then(|page| {
                let Summary { grid, runs, .. } = leaf.summary;
                if page.cubes().any(|cube| cube.grid() != grid) {
                    return Err(EntryError::Bad(format!("a page has cubes of other grids than grid {grid}")));
                }
                match page.runs.len() {
                    found if found == runs as usize => Ok(Arc::new(page)),
                    found => Err(EntryError::Bad(format!("a page has {found} runs and not {runs}"))),
                }
            });
            page.map_err(|error| {
                bad_entry(files.store.location(), &format!("segments/{}.seg", self.segment), leaf.offset, error)
            })
        };
        let decoded = missing.par_iter().zip(&fetched.pieces).map(decode).collect::<Result<Vec<Arc<Page>>>>()?;
        files.page_cache.insert(missing.iter().map(|index| key(wanted[*index])).zip(decoded.iter().cloned()));
        missing.into_iter().zip(decoded).for_each(|(index, page)| found[index] = Some(page));
        Ok(found.into_iter().flatten().collect())
    }

    /// Reads all pages in one go, for questions that come.
    ///
    /// # Errors
    ///
    /// As of [`Base::each`].
    pub fn bring(&self, files: &TableFiles) -> Result<()> {
        let all: Vec<usize> = (0..self.pages.len()).collect();
        self.load(files, &all, &mut Stats::default(), &Cancel::default()).map(drop)
    }

    /// Calls with every page, some of which are in memory at a time.
    ///
    /// # Errors
    ///
    /// `Damaged`, `SnapshotExpired` if the pages were cleaned away, `Cancelled`, a storage error,
    /// or what `work` returns.
    pub fn each(&self, files: &TableFiles, cancel: &Cancel, mut work: impl FnMut(&Page) -> Result<()>) -> Result<()> {
        let all: Vec<usize> = (0..self.pages.len()).collect();
        for some in all.chunks(AT_ONCE) {
            cancel.check()?;
            for page in self.load(files, some, &mut Stats::default(), cancel)? {
                work(&page)?;
            }
        }
        Ok(())
    }

    /// What the pages of one tier hold, in depth-first order.
    fn entries<'a>(&'a self, files: &'a TableFiles, cancel: &'a Cancel, upper: bool) -> Entries<'a> {
        let of_tier = (0..self.pages.len()).filter(|page| self.pages[*page].summary.upper == upper);
        Entries { base: self, files, cancel, left: of_tier.collect(), ready: VecDeque::new() }
    }
}

/// Reads pieces of segments of pages; one that is gone was cleaned away if no checkpoint
/// names it any more.
fn read(files: &TableFiles, pieces: &[Piece]) -> Result<Fetched> {
    let named = |segment: &str| Ok(files.page_segments()?.iter().any(|named| named == segment));
    fetch(files, pieces, named)
}

/// Entries page by page.
struct Entries<'a> {
    base: &'a Base,
    files: &'a TableFiles,
    cancel: &'a Cancel,
    left: VecDeque<usize>,
    ready: VecDeque<Entry>,
}

impl Iterator for Entries<'_> {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ready.is_empty() {
            let some: Vec<usize> = self.left.drain(..self.left.len().min(AT_ONCE)).collect();
            let Entries { base, files, cancel, .. } = *self;
            let loaded = cancel.check().and_then(|()| base.load(files, &some, &mut Stats::default(), cancel));
            match loaded {
                Ok(pages) => pages.iter().for_each(|page| self.ready.extend(in_order(page))),
                Err(error) => return Some(Err(error)),
            }
        }
        self.ready.pop_front().map(Ok)
    }
}

/// What a page holds, in depth-first order of cubes.
fn in_order(page: &Page) -> Vec<Entry> {
    let cutoffs = page.cutoffs.iter().map(|(cube, cutoff)| Entry::Cutoff(*cube, *cutoff));
    let mut entries: Vec<Entry> = page.runs.iter().cloned().map(Entry::Run).chain(cutoffs).collect();
    entries.sort_by_key(Entry::cube);
    entries
}

type Gathered = (Vec<Arc<Run<Location>>>, Vec<(CubeId, Threshold)>);

/// The runs of a view.
pub struct Runs {
    pub base: Option<Arc<Base>>,
    /// What came since the base; all there is if there is none.
    recent: Layers,
    /// Runs of either that are no more.
    removed: Arc<SpreadSet<RunId>>,
    /// All, once that was asked for often enough.
    whole: std::sync::OnceLock<Layers>,
}

impl Runs {
    pub fn new(base: Option<Arc<Base>>, recent: Directory, removed: Arc<SpreadSet<RunId>>) -> Runs {
        Runs { base, recent: Layers::new(Arc::new(recent)), removed, whole: Default::default() }
    }

    /// With primary runs and the cutoffs that came with them, and nothing taken away.
    pub fn with_added(&self, forest: &Forest, cutoffs: &[(CubeId, Threshold)], added: &[Arc<Run<Location>>]) -> Runs {
        let grow = |layers: &Layers| layers.with_added(forest, cutoffs, added);
        let whole = std::sync::OnceLock::new();
        if let Some(grown) = self.whole.get().map(grow) {
            let _ = whole.set(grown);
        }
        Runs { base: self.base.clone(), recent: grow(&self.recent), removed: self.removed.clone(), whole }
    }

    /// How many there are, but for those of the base that were removed since.
    pub fn about(&self) -> u64 {
        self.base.as_ref().map_or(0, |base| base.runs()) + self.recent.len() as u64
    }

    /// Live primary records of those that came since the base.
    pub fn recent_rows(&self) -> u64 {
        self.recent.rows()
    }

    /// Those that came since the base, and all if there is none.
    pub fn recent(&self) -> &Arc<Directory> {
        self.recent.joined()
    }

    fn lives(&self, run: &Run<Location>) -> bool {
        !self.removed.contains(&run.id) && !run.copies.iter().any(|source| self.removed.contains(source))
    }

    /// All of them.
    ///
    /// # Errors
    ///
    /// `Damaged`, `SnapshotExpired` if the pages were cleaned away, `Cancelled` or a storage error.
    pub fn whole(&self, files: &TableFiles, cancel: &Cancel) -> Result<Arc<Directory>> {
        self.all(files, &mut Stats::default(), cancel)
    }

    fn all(&self, files: &TableFiles, stats: &mut Stats, cancel: &Cancel) -> Result<Arc<Directory>> {
        match (self.held(files, stats, cancel)?, &self.base) {
            (Some(layers), _) => Ok(layers.joined().clone()),
            (None, Some(base)) => self.load_whole(files, base, stats, cancel),
            (None, None) => Ok(self.recent().clone()),
        }
    }

    fn load_whole(
        &self,
        files: &TableFiles,
        base: &Base,
        stats: &mut Stats,
        cancel: &Cancel,
    ) -> Result<Arc<Directory>> {
        let all: Vec<usize> = (0..base.pages.len()).collect();
        let (live, cutoffs) = self.gather(files, base, &all, |_| true, stats, cancel)?;
        Ok(Arc::new(Directory::of(files.forest(), live.into_iter(), cutoffs.into_iter(), cancel)?))
    }

    /// All of them, unless they are too many to be held in memory.
    fn held(&self, files: &TableFiles, stats: &mut Stats, cancel: &Cancel) -> Result<Option<&Layers>> {
        let Some(base) = &self.base else { return Ok(Some(&self.recent)) };
        if self.whole.get().is_none() {
            if !files.fits_in_memory(base.runs()) {
                return Ok(None);
            }
            let whole = self.load_whole(files, base, stats, cancel)?;
            self.whole.get_or_init(|| Layers::new(whole));
        }
        Ok(self.whole.get())
    }

    /// Those that a question about a region and a range of priorities has to do with, and
    /// perhaps some more.
    ///
    /// # Errors
    ///
    /// As of [`Runs::whole`].
    pub fn near(
        &self,
        files: &TableFiles,
        region: &Region,
        range: PriorityRange,
        stats: &mut Stats,
        cancel: &Cancel,
    ) -> Result<Arc<Directory>> {
        let Some(base) = self.base.as_ref().filter(|_| self.whole.get().is_none()) else {
            return self.all(files, stats, cancel);
        };
        let forest = files.forest();
        let meets = |page: &usize| base.pages[*page].summary.meets(&forest, region, range);
        let mut met: Vec<usize> = (0..base.pages.len()).filter(meets).collect();
        if met.len() > WORTH_COPIES {
            met = self.without_copies(files, base, met, range, stats, cancel)?;
        }
        let asked = base.asked.fetch_add(met.len(), Ordering::Relaxed) + met.len();
        if asked >= base.pages.len() && files.fits_in_memory(base.runs()) {
            return self.all(files, stats, cancel);
        }
        let meets = |run: &Run<Location>| {
            range.meets(run.priorities.0, run.priorities.1) && region.meets(&forest.tree_of(run.cube), run.cube)
        };
        let (live, cutoffs) = self.gather(files, base, &met, meets, stats, cancel)?;
        Ok(Arc::new(Directory::of_part(forest, live.into_iter(), cutoffs.into_iter(), cancel)?))
    }

    /// Of pages that a question meets those that it may meet for more than copies. These save a question to a small region
    /// some rows, and one to a large region less than so many pages cost.
    fn without_copies(
        &self,
        files: &TableFiles,
        base: &Base,
        mut met: Vec<usize>,
        range: PriorityRange,
        stats: &mut Stats,
        cancel: &Cancel,
    ) -> Result<Vec<usize>> {
        let upper: Vec<usize> = met.iter().copied().filter(|page| base.pages[*page].summary.upper).collect();
        let mut cutoffs = SpreadMap::default();
        for some in upper.chunks(AT_ONCE) {
            for page in base.load(files, some, stats, cancel)? {
                cutoffs.extend(page.cutoffs.iter().copied());
            }
        }
        let forest = files.forest();
        let cutoff = |cube: CubeId| cutoffs.get(&cube).copied();
        met.retain(|page| base.pages[*page].summary.may_hold_primaries(&forest, range, cutoff));
        Ok(met)
    }

    /// What a writer goes by: all of these directories together. Of many pages it takes the upper ones, where its rows come
    /// through, and some of the others: what it does not know of a cube it takes for a cutoff
    /// of 1 and no rows, which is safe (thesis 4.4.3: any upper bound of a cutoff is).
    ///
    /// # Errors
    ///
    /// As of [`Runs::whole`].
    pub fn worth_knowing(&self, files: &TableFiles, cancel: &Cancel) -> Result<Vec<Arc<Directory>>> {
        if let Some(layers) = self.held(files, &mut Stats::default(), cancel)? {
            return Ok(layers.parts());
        }
        let Some(base) = &self.base else { return Ok(self.recent.parts()) };
        let (upper, lower): (Vec<usize>, Vec<usize>) =
            (0..base.pages.len()).partition(|page| base.pages[*page].summary.upper);
        let wanted: Vec<usize> = upper.into_iter().chain(lower).take(WRITER_PAGES).collect();
        let (live, cutoffs) = self.gather(files, base, &wanted, |_| true, &mut Stats::default(), cancel)?;
        Ok(vec![Arc::new(Directory::of(files.forest(), live.into_iter(), cutoffs.into_iter(), cancel)?)])
    }

    /// The wanted runs of some pages and of what came since, and the cutoffs of both.
    fn gather(
        &self,
        files: &TableFiles,
        base: &Base,
        pages: &[usize],
        wanted: impl Fn(&Run<Location>) -> bool,
        stats: &mut Stats,
        cancel: &Cancel,
    ) -> Result<Gathered> {
        let (mut live, mut cutoffs) = (Vec::new(), Vec::new());
        for some in pages.chunks(AT_ONCE) {
            cancel.check()?;
            for page in base.load(files, some, stats, cancel)? {
                live.extend(page.runs.iter().filter(|run| wanted(run) && self.lives(run)).cloned());
                cutoffs.extend_from_slice(&page.cutoffs);
            }
        }
        live.extend(self.recent().all().filter(|run| wanted(run)).cloned());
        cutoffs.extend(self.recent().cutoffs());
        Ok((live, cutoffs))
    }

    /// Calls with all live runs, some of which are in memory at a time.
    ///
    /// # Errors
    ///
    /// As of [`Runs::whole`].
    pub fn each(&self, files: &TableFiles, cancel: &Cancel, mut work: impl FnMut(&Arc<Run<Location>>)) -> Result<()> {
        self.recent().all().for_each(&mut work);
        match &self.base {
            Some(base) => base.each(files, cancel, |page| {
                page.runs.iter().filter(|run| self.lives(run)).for_each(&mut work);
                Ok(())
            }),
            None => Ok(()),
        }
    }

    /// Calls with all live runs and all cutoffs, one of each cube, in depth-first order of
    /// cubes; some are in memory at a time.
    ///
    /// # Errors
    ///
    /// As of [`Runs::whole`], or what `work` returns.
    pub fn in_order(
        &self,
        files: &TableFiles,
        cancel: &Cancel,
        mut work: impl FnMut(Entry) -> Result<()>,
    ) -> Result<()> {
        let mut recent: Vec<Entry> = self.recent().all().cloned().map(Entry::Run).collect();
        recent.extend(self.recent().cutoffs().map(|(cube, cutoff)| Entry::Cutoff(cube, cutoff)));
        recent.sort_by_key(Entry::cube);
        let mut sources: Vec<std::iter::Peekable<Box<dyn Iterator<Item = Result<Entry>>>>> = Vec::new();
        let recent: Box<dyn Iterator<Item = Result<Entry>>> = Box::new(recent.into_iter().map(Ok));
        sources.push(recent.peekable());
        for upper in [true, false] {
            if let Some(base) = &self.base {
                let of_tier: Box<dyn Iterator<Item = Result<Entry>> + '_> =
                    Box::new(base.entries(files, cancel, upper));
                sources.push(of_tier.peekable());
            }
        }
        let mut lowest: Option<(CubeId, Threshold)> = None;
        loop {
            // An error comes first.
            let cube = |next: Option<&Result<Entry>>| next.map(|entry| entry.as_ref().map(Entry::cube).ok());
            let first = sources.iter_mut().filter_map(|source| Some((cube(source.peek())?, source)));
            let Some((_, source)) = first.min_by_key(|(cube, _)| *cube) else { break };
            let Some(entry) = source.next() else { break };
            let entry = entry?;
            if let Some((cube, cutoff)) = lowest.filter(|(cube, _)| *cube != entry.cube()) {
                work(Entry::Cutoff(cube, cutoff))?;
                lowest = None;
            }
            match entry {
                Entry::Cutoff(cube, cutoff) => {
                    lowest = Some((cube, lowest.map_or(cutoff, |(_, known)| known.min(cutoff))));
                }
                Entry::Run(run) if self.lives(&run) => work(Entry::Run(run))?,
                Entry::Run(_) => {}
            }
        }
        match lowest {
            Some((cube, cutoff)) => work(Entry::Cutoff(cube, cutoff)),
            None => Ok(()),
        }
    }
}
