//! The runs of a view: in memory if they are few, otherwise in pages that queries load.
//!
//! A checkpoint of many runs stores them in pages, each with a summary (`kubist_index::pages`). The pages form levels,
//! each in a segment: a checkpoint adds a level and sometimes merges older ones (`kubist_index::levels`). A view is the
//! list of pages (the *base*) and the later runs in memory.
//!
//! A query loads in one request the pages that may have runs in its region and priorities. Once queries have requested
//! as many pages as exist, all pages stay in memory, if they fit (`limit_runs_in_memory`). Otherwise a query that needs
//! many pages reads contiguous stretches of pages (`stretches`).

mod base;
mod cubes;
mod stretches;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use kubist_format::checkpoint::Leaf;
use kubist_format::location::Location;
use kubist_index::cube::CubeId;
use kubist_index::forest::Region;
use kubist_index::layers;
use kubist_index::pages::Sizes;
use kubist_index::priority::{PriorityRange, Threshold};
use kubist_index::spread::SpreadSet;
use kubist_index::state::{Run, RunId};
use kubist_index::{directory, pages};
use kubist_types::{Cancel, Result, Stats};

use crate::files::TableFiles;
use crate::look::is_far;
use crate::lookups::{At, CoveredLookup, Covering, Live, RunLocation};
use crate::places::Table;
pub use base::Base;
use base::Caching;
pub use stretches::{Abridged, Stretches};

pub type Changes = directory::Changes<Location>;
pub type Directory = directory::Directory<Location>;
pub type Layers = layers::Layers<Location>;
pub type Entry = pages::Entry<Location>;

/// Limit of pages that a writer loads.
const WRITER_PAGES: usize = 256;
/// A query that meets more pages than this skips pages with only replicas.
const WORTH_COPIES: usize = 16;
/// Number of lower-tier subtrees per page of the middle tier.
const SUBTREES: usize = 32;
/// Limit of pages per request.
const AT_ONCE: usize = 64;
/// A checkpoint with more runs than this stores them in pages.
pub const INLINE: u64 = 256;

/// The numbers of runs and cutoffs per page. A page has about as many runs as there are pages, so neither the list nor
/// a page gets large: at most 160 KB per page, plus about 8 KB for each column that is no dimension. A directory that
/// does not fit in memory has a middle tier.
pub fn page_sizes(runs: u64, in_memory: bool) -> Sizes {
    let page = (runs as f64).sqrt().ceil().clamp(16.0, 1024.0) as usize;
    if in_memory { Sizes::in_two_tiers(page) } else { Sizes::in_three_tiers(page, page / SUBTREES) }
}

pub fn runs_of(pages: &[Leaf]) -> u64 {
    pages.iter().map(|page| page.summary.runs as u64).sum()
}

fn lives(removed: &SpreadSet<RunId>, run: &Run<Location>) -> bool {
    !removed.contains(&run.id) && !run.copies.iter().any(|source| removed.contains(source))
}

type RunsAndCutoffs = (Vec<Arc<Run<Location>>>, Vec<(CubeId, Threshold)>);

pub struct Runs {
    pub base: Option<Arc<Base>>,
    recent: Layers,
    /// Runs of the base that were removed since its checkpoint.
    removed: Arc<SpreadSet<RunId>>,
    whole: OnceLock<Layers>,
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

    /// `removed` lists all removed runs of the base.
    pub fn with(&self, files: &TableFiles, changes: &Changes, removed: Arc<SpreadSet<RunId>>) -> Runs {
        let (forest, whole, written_by) = (&files.forest(), OnceLock::new(), OnceLock::new());
        let is_held = self.base.as_ref().is_some_and(|base| files.fits_in_memory(base.runs()));
        if let Some(known) = self.whole.get().filter(|_| is_held) {
            let _ = whole.set(known.with(forest, changes));
        }
        if let Some(known) = self.written_by.get() {
            let gone = Changes { removed: changes.removed.clone(), ..Changes::default() };
            let _ = written_by.set(if gone.removed.is_empty() {
                known.clone()
            } else {
                Arc::new(known.with(forest, &gone))
            });
        }
        Runs { base: self.base.clone(), recent: self.recent.with(forest, changes), removed, whole, written_by }
    }

    /// The number of runs, including removed runs in the base.
    pub fn about(&self) -> u64 {
        self.base.as_ref().map_or(0, |base| base.runs()) + self.recent.len() as u64
    }

    /// The number of live primary rows in runs after the base.
    pub fn recent_rows(&self) -> u64 {
        self.recent.rows()
    }

    /// The runs after the base; all runs if there is no base.
    pub fn recent(&self) -> &Arc<Directory> {
        self.recent.joined()
    }

    pub fn removed(&self) -> impl Iterator<Item = RunId> + '_ {
        self.base.iter().flat_map(|base| &base.removed).chain(self.removed.iter()).copied()
    }

    fn is_removed(&self, run: RunId) -> bool {
        self.removed.contains(&run) || self.base.as_ref().is_some_and(|base| base.removed.contains(&run))
    }

    fn lives(&self, base: &Base, run: &Run<Location>) -> bool {
        base.lives(run) && lives(&self.removed, run)
    }

    /// Returns all runs in memory.
    ///
    /// # Errors
    ///
    /// `Damaged`, `SnapshotExpired` if the pages were cleaned, `Cancelled` or a storage error.
    pub fn directory(&self, files: &TableFiles, cancel: &Cancel) -> Result<Arc<Directory>> {
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

    /// Returns at least the runs that a query needs.
    ///
    /// # Errors
    ///
    /// The errors of [`Runs::directory`].
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
        // Replicas save reads only in small regions.
        if met.len() > WORTH_COPIES {
            met.retain(|page| base.pages[*page].summary.may_hold_primaries(range));
        }
        let asked = base.asked.fetch_add(met.len(), Ordering::Relaxed) + met.len();
        if asked >= base.pages.len() && files.fits_in_memory(base.runs()) {
            return self.all(files, stats, cancel);
        }
        // A query of all space gains nothing from replicas and cutoffs.
        let has_copies = *region != Region::everything(&forest);
        let lives = |run: &&Arc<Run<Location>>| (has_copies || !run.is_replica()) && self.lives(base, run);
        let (mut live, mut cutoffs) = (Vec::new(), Vec::new());
        for some in met.chunks(AT_ONCE) {
            cancel.check()?;
            for known in base.load(files, some, Caching::Keep, stats, cancel)? {
                let (page, outlines) = (&known.page, known.outlines(&forest));
                live.extend(outlines.runs(region, range).map(|run| &page.runs[run]).filter(lives).cloned());
                if has_copies {
                    cutoffs.extend(outlines.cutoffs(region).map(|cutoff| page.cutoffs[cutoff]));
                }
            }
        }
        let cube_meets = |cube: CubeId| region.meets(&forest.tree_of(cube), cube);
        let run_meets = |run: &&Arc<Run<Location>>| {
            range.meets(run.priorities.0, run.priorities.1) && cube_meets(run.cube) && (has_copies || !run.is_replica())
        };
        live.extend(self.recent().all().filter(run_meets).cloned());
        if has_copies {
            cutoffs.extend(self.recent().cutoffs().filter(|(cube, _)| cube_meets(*cube)));
        }
        Ok(Arc::new(Directory::of_part(forest, live.into_iter(), cutoffs.into_iter(), cancel)?))
    }

    /// The number of runs on the pages that meet a region; 0 if the directory fits in memory.
    pub fn unheld(&self, files: &TableFiles, region: &Region) -> u64 {
        let Some(base) = self.unheld_base(files) else { return 0 };
        let met = base.meeting(files, region, PriorityRange::ALL).into_iter();
        met.map(|page| base.pages[page].summary.runs as u64).sum()
    }

    /// The directories that a writer needs. If the base does not fit in memory, these are mainly the upper tiers, where
    /// new rows enter. For other cubes the writer assumes a cutoff of 1 and no rows, because any upper bound of a
    /// cutoff is valid (thesis 4.4.3).
    ///
    /// # Errors
    ///
    /// The errors of [`Runs::directory`].
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

    fn gather(
        &self,
        files: &TableFiles,
        base: &Base,
        pages: &[usize],
        stats: &mut Stats,
        cancel: &Cancel,
    ) -> Result<RunsAndCutoffs> {
        let (mut live, mut cutoffs) = (Vec::new(), Vec::new());
        for some in pages.chunks(AT_ONCE) {
            cancel.check()?;
            for known in base.load(files, some, Caching::Keep, stats, cancel)? {
                live.extend(known.page.runs.iter().filter(|run| self.lives(base, run)).cloned());
                cutoffs.extend_from_slice(&known.page.cutoffs);
            }
        }
        Ok((live, cutoffs))
    }

    /// Whether it is cheaper to read a few pages, chosen by digests, than to load the directory.
    fn prefers_pages(&self, files: &TableFiles) -> bool {
        let Some(base) = self.base.as_ref().filter(|_| self.whole.get().is_none()) else { return false };
        let is_asked = base.asked.load(Ordering::Relaxed) >= base.pages.len();
        !files.fits_in_memory(base.runs()) || (!is_asked && !is_far(files.store.as_ref()))
    }

    /// Whether runs of secondary indexes are located on pages, not in memory.
    pub fn looks_up_on_pages(&self, files: &TableFiles, cancel: &Cancel) -> bool {
        let has_places = |base: &Base| !files.fits_in_memory(base.runs()) || base.has_places(files, cancel);
        self.prefers_pages(files) && self.base.as_ref().is_some_and(|base| has_places(base))
    }

    /// The secondary indexes of the primary runs.
    ///
    /// # Errors
    ///
    /// The errors of [`Runs::directory`].
    pub fn lookups(&self, files: &TableFiles, on_pages: bool, stats: &mut Stats, cancel: &Cancel) -> Result<Live> {
        let of = |directory: &Directory| Arc::new(Covering::of(directory.runs()));
        let all = if on_pages { None } else { self.held(files, stats, cancel)? };
        let coverings = match (all, &self.base) {
            (Some(all), _) => vec![of(all.joined())],
            (None, Some(base)) => vec![of(self.recent()), base.covering(files, stats, cancel)?.clone()],
            (None, None) => vec![of(self.recent())],
        };
        Ok(Live { coverings })
    }

    /// The locations of runs that secondary indexes cover: all runs, or the runs at these ascending indices.
    ///
    /// # Errors
    ///
    /// The errors of [`Runs::directory`].
    pub fn places(
        &self,
        files: &TableFiles,
        wanted: &[(&CoveredLookup, Option<Vec<u32>>)],
        stats: &mut Stats,
        cancel: &Cancel,
    ) -> Result<Vec<RunLocation>> {
        let mut found = Vec::new();
        let open = wanted
            .iter()
            .filter_map(|(covered, indices)| Some((covered.find(indices.as_deref(), &mut found)?, indices.as_deref())));
        let open: Vec<(&Table, Option<&[u32]>)> = open.collect();
        if let Some(base) = self.base.as_ref().filter(|_| !open.is_empty()) {
            found.extend(base.places(files, &open, stats, cancel)?);
        }
        Ok(found)
    }

    pub fn are_in_memory(&self) -> bool {
        self.base.is_none() || self.whole.get().is_some()
    }

    /// # Errors
    ///
    /// The errors of [`Runs::directory`].
    pub fn at(
        &self,
        files: &TableFiles,
        places: Vec<RunLocation>,
        stats: &mut Stats,
        cancel: &Cancel,
    ) -> Result<Vec<Arc<Run<Location>>>> {
        let mut found = Vec::with_capacity(places.len());
        // A secondary index may list runs that were removed later.
        let known = self.whole.get().unwrap_or(&self.recent).joined();
        let mut on_pages: BTreeMap<usize, SpreadSet<RunId>> = BTreeMap::new();
        for place in places {
            match place.at {
                At::Memory(run) => {
                    let of_cube = known.runs_of(run.cube);
                    let lives = of_cube.binary_search_by_key(&run.id, |live| live.id).is_ok();
                    found.extend(lives.then_some(run));
                }
                At::Page(_) if self.is_removed(place.run) => {}
                At::Page(page) => drop(on_pages.entry(page as usize).or_default().insert(place.run)),
            }
        }
        let Some(base) = self.base.as_ref().filter(|_| !on_pages.is_empty()) else { return Ok(found) };
        let pages: Vec<usize> = on_pages.keys().copied().collect();
        base.asked.fetch_add(pages.len(), Ordering::Relaxed);
        for some in pages.chunks(AT_ONCE) {
            found.extend(base.runs_on(files, some, |page, run| on_pages[&page].contains(&run), stats, cancel)?);
        }
        found.retain(|run| self.lives(base, run));
        Ok(found)
    }

    /// Calls `work` with every live run, some pages at a time.
    ///
    /// # Errors
    ///
    /// The errors of [`Runs::directory`].
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

    /// Calls `work` with the live runs and cutoffs that are not on the first `kept` pages, in depth-first order of
    /// cubes, and holds only some pages at a time. Each cube has one cutoff, its lowest. Returns the removed runs.
    ///
    /// # Errors
    ///
    /// The errors of [`Runs::directory`] and of `work`.
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
            // `None` sorts first, so errors are returned immediately.
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
