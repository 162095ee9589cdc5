//! The runs of a view: in memory where there are few, else in pages that questions bring in.
//!
//! A checkpoint of many runs keeps them in pages, in segments of its own, and lists the
//! pages with what is in each (`kubist_index::pages`). The pages are in levels, a segment each:
//! a checkpoint adds one, and writes older ones again now and then (`kubist_index::levels`). A view
//! is such a list and, in memory, what came since. A question loads the pages that may meet its box and priorities, all
//! in one go. Once questions have asked for as many pages as there are, all are loaded and
//! stay, if they fit the bound (`limit_runs_in_memory`). Loading page by page and then all at once
//! costs at most twice what the better of the two would have cost.

mod cubes;
mod stretches;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use kubist_format::checkpoint::{Leaf, levels};
use kubist_format::entry::{self, Page};
use kubist_format::error::EntryError;
use kubist_format::location::Location;
use kubist_index::cube::CubeId;
use kubist_index::forest::{Forest, Region};
use kubist_index::layers;
use kubist_index::pages::{Sizes, Summary, Tier};
use kubist_index::priority::{PriorityRange, Threshold};
use kubist_index::spread::SpreadSet;
use kubist_index::state::{Run, RunId};
use kubist_index::{directory, pages};
use kubist_types::{Cancel, Error, Result, Stats};
use rayon::prelude::*;

use crate::cache::KnownPage;
use crate::error::{bad_entry, is_damage};
use crate::fetch::{Fetched, Piece, fetch};
use crate::files::TableFiles;
use crate::look::is_far;
use crate::lookups::{At, Covering, Gathering, Live, Place};
use crate::stop::stoppable;
pub use stretches::Stretches;

pub type Directory = directory::Directory<Location>;
pub type Layers = layers::Layers<Location>;
pub type Entry = pages::Entry<Location>;

/// Pages that a writer loads of a directory that is not held as a whole.
const WRITER_PAGES: usize = 256;
/// Of so many pages those are read that have only copies for a question.
const WORTH_COPIES: usize = 16;
/// So many subtrees of the lower tier, or more, fill a page where there is a middle tier: then about as large a part of
/// all pages is in that tier.
const SUBTREES: usize = 32;
/// Of so many pages of which some runs are wanted only these are decoded; more are kept.
const DECODED_IN_PART: usize = 4;
/// Pages that are read in one go.
const AT_ONCE: usize = 64;
/// Runs that a checkpoint holds itself; more are in pages.
pub const INLINE: u64 = 256;

/// How many runs and cutoffs pages have, in a directory of `runs` runs. A page has as
/// many as there are pages, so that neither the list of pages nor a page is large: 160 KB at
/// most, and about 8 KB more for every column that is no dimension. Where not all of them are ever in memory
/// there is a middle tier.
pub fn page_sizes(runs: u64, in_memory: bool) -> Sizes {
    let page = (runs as f64).sqrt().ceil().clamp(16.0, 1024.0) as usize;
    if in_memory { Sizes::in_two_tiers(page) } else { Sizes::in_three_tiers(page, page / SUBTREES) }
}

/// The runs that a checkpoint keeps in pages.
pub struct Base {
    /// Those of each level one after the other, the oldest level first.
    pub pages: Vec<Leaf>,
    /// Runs on them that are no more.
    pub removed: SpreadSet<RunId>,
    /// Pages that questions asked for so far.
    asked: AtomicUsize,
    /// Lookups into its runs, once that was asked for.
    covering: OnceLock<Arc<Covering>>,
}

impl Base {
    pub fn new(pages: Vec<Leaf>, removed: Vec<RunId>) -> Base {
        Base { pages, removed: removed.into_iter().collect(), asked: AtomicUsize::new(0), covering: OnceLock::new() }
    }

    /// How many runs its pages have, but for those that are known to be no more.
    pub fn runs(&self) -> u64 {
        runs_of(&self.pages).saturating_sub(self.removed.len() as u64)
    }

    /// The segments of its levels.
    pub fn segments(&self) -> impl Iterator<Item = &Arc<str>> {
        levels(&self.pages).map(|level| &level[0].segment)
    }

    /// Does a run on its pages live, as of the checkpoint?
    pub fn lives(&self, run: &Run<Location>) -> bool {
        lives(&self.removed, run)
    }

    /// Bytes of all pages.
    pub fn bytes(&self) -> u64 {
        self.pages.iter().map(|page| page.length as u64).sum()
    }

    /// The pages that may hold what a question about a region and a range of priorities has to do with.
    fn meeting(&self, files: &TableFiles, region: &Region, range: PriorityRange) -> Vec<usize> {
        let forest = files.forest();
        let meets = |page: &usize| self.pages[*page].summary.meets(&forest, region, range);
        (0..self.pages.len()).filter(meets).collect()
    }

    /// Some of its pages, from the cache or the store.
    fn load(
        &self,
        files: &TableFiles,
        wanted: &[usize],
        stats: &mut Stats,
        cancel: &Cancel,
    ) -> Result<Vec<Arc<KnownPage>>> {
        let key = |page: usize| (self.pages[page].segment.clone(), self.pages[page].offset);
        let mut found = files.page_cache.get(wanted.iter().map(|page| key(*page)));
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
        files.page_cache.insert(pages.iter().map(|page| key(*page)).zip(decoded.iter().cloned()));
        missing.into_iter().zip(decoded).for_each(|(index, page)| found[index] = Some(page));
        Ok(found.into_iter().flatten().collect())
    }

    /// Some of the runs of some pages. If these are few and near, those that are not known are decoded in part.
    fn runs_on(
        &self,
        files: &TableFiles,
        pages: &[usize],
        wanted: impl Fn(usize, RunId) -> bool + Sync,
        stats: &mut Stats,
        cancel: &Cancel,
    ) -> Result<Vec<Arc<Run<Location>>>> {
        let key = |page: usize| (self.pages[page].segment.clone(), self.pages[page].offset);
        let known = match is_far(files.store.as_ref()) || pages.len() > DECODED_IN_PART {
            true => self.load(files, pages, stats, cancel)?.into_iter().map(Some).collect(),
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
        // By this thread, as they are few: to wake another takes as long as a page.
        let decoded = open.iter().zip(&fetched.pieces).map(decode).collect::<Result<Vec<_>>>()?;
        found.extend(decoded.into_iter().flatten());
        Ok(found)
    }

    fn pieces(&self, pages: &[usize]) -> Vec<Piece> {
        let piece = |leaf: &Leaf| {
            let length = leaf.length as u64;
            Piece { segment: leaf.segment.clone(), offset: leaf.offset, length }
        };
        pages.iter().map(|page| piece(&self.pages[*page])).collect()
    }

    fn bad_page(&self, files: &TableFiles, page: usize, error: EntryError) -> Error {
        let leaf = &self.pages[page];
        bad_entry(files.store.location(), &format!("segments/{}.seg", leaf.segment), leaf.offset, error)
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
            for known in self.load(files, some, &mut Stats::default(), cancel)? {
                work(&known.page)?;
            }
        }
        Ok(())
    }

    /// Reads all pages; is each as the list says?
    ///
    /// # Errors
    ///
    /// As of [`Base::each`]; `Damaged` for a page that holds other things.
    pub fn check(&self, files: &TableFiles, cancel: &Cancel) -> Result<()> {
        let (forest, mut first) = (files.forest(), 0);
        for level in levels(&self.pages) {
            let is_later = first > 0;
            for some in level.chunks(AT_ONCE) {
                cancel.check()?;
                let wanted: Vec<usize> = (first..first + some.len()).collect();
                first += some.len();
                let pages = self.load(files, &wanted, &mut Stats::default(), cancel)?;
                for (leaf, known) in some.iter().zip(pages) {
                    let found = known.page.summary(&forest, leaf.summary.tier, is_later);
                    let listed = Summary { primaries_from: found.primaries_from, ..leaf.summary.clone() };
                    if found != listed || leaf.summary.primaries_from > found.primaries_from {
                        let what = "the list of pages says other cubes or priorities than the page has".into();
                        let file = format!("segments/{}.seg", leaf.segment);
                        return Err(bad_entry(files.store.location(), &file, leaf.offset, EntryError::Bad(what)));
                    }
                }
            }
        }
        Ok(())
    }

    /// Calls with every page that can be read; gives how many runs the others have.
    ///
    /// # Errors
    ///
    /// `Cancelled` or a storage error.
    pub fn each_sound(&self, files: &TableFiles, cancel: &Cancel, mut work: impl FnMut(&Page)) -> Result<u64> {
        let mut lost = 0;
        for (page, leaf) in self.pages.iter().enumerate() {
            cancel.check()?;
            match self.load(files, &[page], &mut Stats::default(), cancel) {
                Err(error) if is_damage(&error) => lost += leaf.summary.runs as u64,
                loaded => loaded?.iter().for_each(|known| work(&known.page)),
            }
        }
        Ok(lost)
    }

    /// Lookups into its primary runs.
    fn covering(&self, files: &TableFiles, cancel: &Cancel) -> Result<&Arc<Covering>> {
        if let Some(covering) = self.covering.get() {
            return Ok(covering);
        }
        let (mut gathering, mut number) = (Gathering::default(), 0);
        self.each(files, cancel, |page| {
            let live = page.runs.iter().filter(|run| !run.is_replica() && self.lives(run));
            live.for_each(|run| gathering.add(run, At::Page(number)));
            number += 1;
            Ok(())
        })?;
        Ok(self.covering.get_or_init(|| Arc::new(gathering.finish())))
    }

    /// What each tier of each level behind the first pages holds, in depth-first order.
    fn tiers<'a>(&'a self, files: &'a TableFiles, cancel: &'a Cancel, kept: usize) -> Vec<Entries<'a>> {
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

/// How many runs some pages have.
pub fn runs_of(pages: &[Leaf]) -> u64 {
    pages.iter().map(|page| page.summary.runs as u64).sum()
}

/// Is a run, and all that it copies, none of those that were removed?
fn lives(removed: &SpreadSet<RunId>, run: &Run<Location>) -> bool {
    !removed.contains(&run.id) && !run.copies.iter().any(|source| removed.contains(source))
}

/// Reads pieces of segments of pages; one that is gone was cleaned away if no checkpoint
/// names it any more.
fn read(files: &TableFiles, pieces: &[Piece]) -> Result<Fetched> {
    let named = |segment: &str| Ok(files.page_segments()?.iter().any(|named| **named == *segment));
    fetch(files, pieces, named)
}

/// Entries page by page.
struct Entries<'a> {
    base: &'a Base,
    files: &'a TableFiles,
    cancel: &'a Cancel,
    /// Pages that are read in one go.
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
            let loaded = cancel.check().and_then(|()| base.load(files, &some, &mut Stats::default(), cancel));
            match loaded {
                Ok(pages) => pages.iter().for_each(|known| self.ready.extend(in_order(&known.page))),
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
    /// Runs of the base that are no more, since its checkpoint.
    removed: Arc<SpreadSet<RunId>>,
    /// All, once that was asked for often enough.
    whole: OnceLock<Layers>,
    /// What a writer goes by of a base that is not held, once one did.
    written_by: OnceLock<Arc<Directory>>,
}

impl Runs {
    pub fn new(base: Option<Arc<Base>>, recent: Directory, removed: Arc<SpreadSet<RunId>>) -> Runs {
        Runs {
            base,
            recent: Layers::new(Arc::new(recent)),
            removed,
            whole: OnceLock::new(),
            written_by: OnceLock::new(),
        }
    }

    /// With primary runs and the cutoffs that came with them, and nothing taken away.
    pub fn with_added(&self, forest: &Forest, cutoffs: &[(CubeId, Threshold)], added: &[Arc<Run<Location>>]) -> Runs {
        let grow = |layers: &Layers| layers.with_added(forest, cutoffs, added);
        let whole = OnceLock::new();
        if let Some(grown) = self.whole.get().map(grow) {
            let _ = whole.set(grown);
        }
        let (base, removed, written_by) = (self.base.clone(), self.removed.clone(), self.written_by.clone());
        Runs { base, recent: grow(&self.recent), removed, whole, written_by }
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

    /// Runs on pages of the base that are no more.
    pub fn removed(&self) -> impl Iterator<Item = RunId> + '_ {
        self.base.iter().flat_map(|base| &base.removed).chain(self.removed.iter()).copied()
    }

    /// Does a run of a base live?
    fn lives(&self, base: &Base, run: &Run<Location>) -> bool {
        base.lives(run) && lives(&self.removed, run)
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
        let (mut live, mut cutoffs) = self.gather(files, base, &all, stats, cancel)?;
        live.extend(self.recent().all().cloned());
        cutoffs.extend(self.recent().cutoffs());
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
        let (forest, mut met) = (files.forest(), base.meeting(files, region, range));
        // Copies save a question to a small region some rows, and one to a large region less than so many pages cost.
        if met.len() > WORTH_COPIES {
            met.retain(|page| base.pages[*page].summary.may_hold_primaries(range));
        }
        let asked = base.asked.fetch_add(met.len(), Ordering::Relaxed) + met.len();
        if asked >= base.pages.len() && files.fits_in_memory(base.runs()) {
            return self.all(files, stats, cancel);
        }
        let (mut live, mut cutoffs) = (Vec::new(), Vec::new());
        for some in met.chunks(AT_ONCE) {
            cancel.check()?;
            for known in base.load(files, some, stats, cancel)? {
                let (page, outlines) = (&known.page, known.outlines(&forest));
                let runs = outlines.runs(region, range).map(|run| &page.runs[run]);
                live.extend(runs.filter(|run| self.lives(base, run)).cloned());
                cutoffs.extend(outlines.cutoffs(region).map(|cutoff| page.cutoffs[cutoff]));
            }
        }
        let cube_meets = |cube: CubeId| region.meets(&forest.tree_of(cube), cube);
        let run_meets =
            |run: &&Arc<Run<Location>>| range.meets(run.priorities.0, run.priorities.1) && cube_meets(run.cube);
        live.extend(self.recent().all().filter(run_meets).cloned());
        cutoffs.extend(self.recent().cutoffs().filter(|(cube, _)| cube_meets(*cube)));
        Ok(Arc::new(Directory::of_part(forest, live.into_iter(), cutoffs.into_iter(), cancel)?))
    }

    /// How many runs are on pages that meet a region, if they are too many to be held in memory.
    pub fn unheld(&self, files: &TableFiles, region: &Region) -> u64 {
        let Some(base) = self.unheld_base(files) else { return 0 };
        let met = base.meeting(files, region, PriorityRange::ALL).into_iter();
        met.map(|page| base.pages[page].summary.runs as u64).sum()
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
        let known = match self.written_by.get() {
            Some(known) => known,
            None => {
                let mut wanted: Vec<usize> = (0..base.pages.len()).collect();
                wanted.sort_by_key(|page| base.pages[*page].summary.tier);
                wanted.truncate(WRITER_PAGES);
                let (live, cutoffs) = self.gather(files, base, &wanted, &mut Stats::default(), cancel)?;
                let known = Directory::of(files.forest(), live.into_iter(), cutoffs.into_iter(), cancel)?;
                self.written_by.get_or_init(|| Arc::new(known))
            }
        };
        Ok(std::iter::once(known.clone()).chain(self.recent.parts()).collect())
    }

    /// The runs and the cutoffs of some pages.
    fn gather(
        &self,
        files: &TableFiles,
        base: &Base,
        pages: &[usize],
        stats: &mut Stats,
        cancel: &Cancel,
    ) -> Result<Gathered> {
        let (mut live, mut cutoffs) = (Vec::new(), Vec::new());
        for some in pages.chunks(AT_ONCE) {
            cancel.check()?;
            for known in base.load(files, some, stats, cancel)? {
                live.extend(known.page.runs.iter().filter(|run| self.lives(base, run)).cloned());
                cutoffs.extend_from_slice(&known.page.cutoffs);
            }
        }
        Ok((live, cutoffs))
    }

    /// The lookups into the primary runs.
    ///
    /// # Errors
    ///
    /// As of [`Runs::whole`].
    pub fn lookups(&self, files: &TableFiles, cancel: &Cancel) -> Result<Live> {
        let of = |directory: &Arc<Directory>| Arc::new(Covering::of(directory));
        match (self.held(files, &mut Stats::default(), cancel)?, &self.base) {
            (None, Some(base)) => {
                let directory = self.recent().clone();
                Ok(Live { coverings: vec![of(&directory), base.covering(files, cancel)?.clone()], directory })
            }
            (held, _) => {
                let directory = held.unwrap_or(&self.recent).joined().clone();
                Ok(Live { coverings: vec![of(&directory)], directory })
            }
        }
    }

    /// Of some primary runs those that live.
    ///
    /// # Errors
    ///
    /// As of [`Runs::whole`].
    pub fn at(
        &self,
        files: &TableFiles,
        live: &Live,
        places: &[Place],
        stats: &mut Stats,
        cancel: &Cancel,
    ) -> Result<Vec<Arc<Run<Location>>>> {
        let mut found = Vec::with_capacity(places.len());
        let mut on_pages: BTreeMap<usize, SpreadSet<RunId>> = BTreeMap::new();
        for place in places {
            match place.at {
                At::Index(index) => found.push(live.directory.runs()[index as usize].clone()),
                At::Page(page) => drop(on_pages.entry(page as usize).or_default().insert(place.run)),
            }
        }
        let Some(base) = self.base.as_ref().filter(|_| !on_pages.is_empty()) else { return Ok(found) };
        let pages: Vec<usize> = on_pages.keys().copied().collect();
        for some in pages.chunks(AT_ONCE) {
            found.extend(base.runs_on(files, some, |page, run| on_pages[&page].contains(&run), stats, cancel)?);
        }
        found.retain(|run| self.lives(base, run));
        Ok(found)
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
                page.runs.iter().filter(|run| self.lives(base, run)).for_each(&mut work);
                Ok(())
            }),
            None => Ok(()),
        }
    }

    /// Calls with all live runs and all cutoffs that are not on the first `kept` pages of the base, one
    /// cutoff of each cube, in depth-first order of cubes; some are in memory at a time. Gives the runs that it
    /// passed over, because they are no more.
    ///
    /// # Errors
    ///
    /// As of [`Runs::whole`], or what `work` returns.
    pub fn in_order(
        &self,
        files: &TableFiles,
        kept: usize,
        cancel: &Cancel,
        mut work: impl FnMut(Entry) -> Result<()>,
    ) -> Result<SpreadSet<RunId>> {
        let mut recent: Vec<Entry> = self.recent().all().cloned().map(Entry::Run).collect();
        recent.extend(self.recent().cutoffs().map(|(cube, cutoff)| Entry::Cutoff(cube, cutoff)));
        recent.sort_by_key(Entry::cube);
        let mut sources: Vec<std::iter::Peekable<Box<dyn Iterator<Item = Result<Entry>>>>> = Vec::new();
        let recent: Box<dyn Iterator<Item = Result<Entry>>> = Box::new(recent.into_iter().map(Ok));
        sources.push(recent.peekable());
        for tier in self.base.iter().flat_map(|base| base.tiers(files, cancel, kept)) {
            let tier: Box<dyn Iterator<Item = Result<Entry>> + '_> = Box::new(tier);
            sources.push(tier.peekable());
        }
        let lives = |run: &Run<Location>| self.base.as_ref().is_none_or(|base| self.lives(base, run));
        let mut gone = SpreadSet::default();
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
                Entry::Run(run) if lives(&run) => work(Entry::Run(run))?,
                Entry::Run(run) => drop(gone.insert(run.id)),
            }
        }
        if let Some((cube, cutoff)) = lowest {
            work(Entry::Cutoff(cube, cutoff))?;
        }
        Ok(gone)
    }
}
