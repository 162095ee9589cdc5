//! Pages of columns as they were decoded, kept within a bound.
//!
//! Who looks around asks for the same regions again and again. What was read twice is kept decoded, and the
//! third time it is copied, instead of read, checked and unpacked. What is read once costs an entry for its run.
//!
//! Two generations, as in [`cache`](crate::cache): when the young one is full it becomes the old one, and what
//! was old and not used since is dropped. If less was copied in the time of a generation than was kept, too much is
//! asked for in turn to be kept: then nothing more is kept for a while.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arrow_array::{Array, ArrayRef};
use kubist_index::spread::SpreadMap;
use kubist_index::state::RunId;

/// Bytes of both generations together.
pub const DECODED_BYTES: usize = 512 << 20;
/// About what an entry takes of which nothing is kept.
const ENTRY_BYTES: usize = 128;
/// About what an array takes beside its values.
const ARRAY_BYTES: usize = 160;

/// So many times the bound is read before it is tried again whether keeping it is worth it.
const REST: usize = 4;

pub struct DecodedPages {
    bound: usize,
    generations: Mutex<Generations>,
    young_bytes: AtomicUsize,
    /// Bytes that were kept since the generation began, and those that were copied.
    kept: AtomicUsize,
    copied: AtomicUsize,
    /// Bytes that are yet to be read before any are kept again.
    rest: AtomicUsize,
}

/// What became of the pages of a task, in bytes.
#[derive(Default)]
pub struct Uses {
    /// They were kept already.
    pub copied: usize,
    /// They would have been kept.
    pub passed: usize,
}

#[derive(Default)]
struct Generations {
    young: SpreadMap<RunId, Arc<DecodedRun>>,
    old: SpreadMap<RunId, Arc<DecodedRun>>,
}

/// The pages of a run.
#[derive(Default)]
pub struct DecodedRun {
    read_before: AtomicBool,
    /// By page and column, as in its zone map.
    chunks: OnceLock<Box<[OnceLock<ArrayRef>]>>,
    bytes: AtomicUsize,
}

impl DecodedPages {
    /// Pages of about `bound` bytes.
    pub fn new(bound: usize) -> DecodedPages {
        let zero = || AtomicUsize::new(0);
        let (young_bytes, kept, copied, rest) = (zero(), zero(), zero(), zero());
        DecodedPages { bound, generations: Mutex::default(), young_bytes, kept, copied, rest }
    }

    /// What is kept of some runs; and notes that they are read.
    pub fn of_runs(&self, runs: impl Iterator<Item = RunId>) -> Vec<Arc<DecodedRun>> {
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        runs.map(|run| {
            if let Some(found) = generations.young.get(&run) {
                return found.clone();
            }
            if self.young_bytes.load(Ordering::Relaxed) > self.bound / 2 {
                generations.old = std::mem::take(&mut generations.young);
                self.young_bytes.store(0, Ordering::Relaxed);
                let (kept, copied) = (self.kept.swap(0, Ordering::Relaxed), self.copied.swap(0, Ordering::Relaxed));
                if kept > copied {
                    self.rest.store(REST * self.bound, Ordering::Relaxed);
                }
            }
            let found = generations.old.remove(&run).unwrap_or_default();
            self.young_bytes.fetch_add(ENTRY_BYTES + found.bytes.load(Ordering::Relaxed), Ordering::Relaxed);
            generations.young.insert(run, found.clone());
            found
        })
        .collect()
    }

    /// Are pages kept now that are read again?
    pub fn keeps(&self) -> bool {
        self.rest.load(Ordering::Relaxed) == 0
    }

    pub fn note(&self, uses: &Uses) {
        self.copied.fetch_add(uses.copied, Ordering::Relaxed);
        if uses.passed > 0 {
            let less = |rest: usize| Some(rest.saturating_sub(uses.passed));
            let _ = self.rest.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
    }

    /// Keeps a page of a column of a run that has so many.
    pub fn keep(&self, run: &DecodedRun, chunks: usize, place: usize, array: &ArrayRef) {
        let slots = run.chunks.get_or_init(|| {
            self.add(run, chunks * size_of::<OnceLock<ArrayRef>>());
            (0..chunks).map(|_| OnceLock::new()).collect()
        });
        if slots[place].set(array.clone()).is_ok() {
            let bytes = ARRAY_BYTES + array.get_buffer_memory_size();
            self.add(run, bytes);
            self.kept.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    fn add(&self, run: &DecodedRun, bytes: usize) {
        run.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.young_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl DecodedRun {
    /// Notes that the run is read; was it before?
    pub fn note_reading(&self) -> bool {
        self.read_before.swap(true, Ordering::Relaxed)
    }

    /// A page of a column, if it is kept.
    pub fn page(&self, place: usize) -> Option<&ArrayRef> {
        self.chunks.get()?.get(place)?.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Int64Array;

    const BOUND: usize = 1 << 20;

    /// What reading a run of one page of 64 KB does; was it copied?
    fn read(pages: &DecodedPages, run: u128) -> bool {
        let kept = pages.of_runs(std::iter::once(RunId(run))).remove(0);
        let again = kept.note_reading();
        if kept.page(0).is_some() {
            pages.note(&Uses { copied: 65_536, passed: 0 });
            return true;
        }
        match again && pages.keeps() {
            true => pages.keep(&kept, 1, 0, &(Arc::new(Int64Array::from(vec![run as i64; 8192])) as ArrayRef)),
            false => pages.note(&Uses { copied: 0, passed: if again { 65_536 } else { 0 } }),
        }
        false
    }

    fn held(pages: &DecodedPages) -> usize {
        let generations = pages.generations.lock().unwrap();
        let all = generations.young.values().chain(generations.old.values());
        all.map(|run| ENTRY_BYTES + run.bytes.load(Ordering::Relaxed)).sum()
    }

    #[test]
    fn what_is_read_again_is_copied_the_third_time() {
        let pages = DecodedPages::new(BOUND);
        assert_eq!([(); 4].map(|()| read(&pages, 7)), [false, false, true, true]);
        assert!(!read(&pages, 8));
    }

    #[test]
    fn the_bound_holds_and_what_is_used_stays() {
        let pages = DecodedPages::new(BOUND);
        for run in 0..2000 {
            read(&pages, run);
            read(&pages, run);
            read(&pages, 1_000_000);
            assert!(held(&pages) < BOUND + 200_000, "{} bytes", held(&pages));
        }
        assert!(read(&pages, 1_000_000));
        assert!(!read(&pages, 3));
    }

    /// Twice as much as there is room for, in turn: keeping it would be in vain.
    #[test]
    fn what_comes_in_turn_and_is_too_much_is_seldom_kept() {
        let pages = DecodedPages::new(BOUND);
        let mut arrays = 0;
        for turn in 0..4000 {
            let before = pages.young_bytes.load(Ordering::Relaxed);
            read(&pages, turn % 32);
            arrays += usize::from(pages.young_bytes.load(Ordering::Relaxed) > before + 65_536);
        }
        assert!(arrays < 4000 / 4, "{arrays} of 4,000 were kept");
        // And soon again once it fits.
        let copied = (0..400).filter(|turn| read(&pages, turn % 8)).count();
        assert!(copied > 200, "{copied}");
    }
}
