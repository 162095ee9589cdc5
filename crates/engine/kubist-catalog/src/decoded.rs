//! Cache of decoded column pages.
//!
//! Interactive use reads the same regions repeatedly. The second query that reads a page stores its decoded form, and
//! later queries skip I/O, checksum and decompression.
//!
//! Eviction is CLOCK over runs. While recent evictions outweigh recent hits, only a fraction of the pages is admitted,
//! because the working set is larger than the cache.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use kubist_format::decoded::DecodedPage;
use kubist_index::spread::SpreadMap;
use kubist_index::state::RunId;

pub const DECODED_BYTES: usize = 512 << 20;
/// Approximate bytes of a run's entry, in addition to 4 bytes per page.
const ENTRY_BYTES: usize = 160;
/// Approximate bytes of a page in addition to its values.
const ALLOCATED_BYTES: usize = 96;
/// Under pressure, 1 page in `FEW` is admitted, or 1 in `FEW_OF_SMALL` for queries of at most 1/`SMALL` of the
/// capacity.
const FEW: u32 = 16;
const FEW_OF_SMALL: u32 = 4;
const SMALL: usize = 32;
/// The number of chunks with a bit in [`DecodedRun::first_kept`].
const FIRST: usize = u64::BITS as usize;

pub struct DecodedPages {
    bound: usize,
    runs: Mutex<Runs>,
    /// Bytes of all entries, including evicted ones that are in use.
    held: Arc<AtomicUsize>,
    queries: AtomicU32,
    /// Bytes stored, copied and evicted since `keeps_few` was last decided.
    kept: AtomicUsize,
    copied: AtomicUsize,
    left: AtomicUsize,
    keeps_few: AtomicBool,
}

#[derive(Clone, Copy)]
pub struct QueryId(u32);

#[derive(Clone, Copy)]
pub struct Keeper {
    query: QueryId,
    one_in: u32,
}

#[derive(Default)]
struct Runs {
    by_id: SpreadMap<RunId, Arc<DecodedRun>>,
    clock: VecDeque<RunId>,
}

pub struct DecodedRun {
    held: Arc<AtomicUsize>,
    bytes: AtomicUsize,
    is_used: AtomicBool,
    /// Varies the admitted pages between runs, because many runs have a single page.
    salt: u32,
    /// The last query that read each page, or 0; the lowest bit is set if another query read it before.
    readers: Box<[AtomicU32]>,
    /// A bit for each of the first 64 chunks, 1 if it is kept, because reading all of `chunks` would take longer.
    first_kept: AtomicU64,
    chunks: OnceLock<Box<[OnceLock<DecodedPage>]>>,
}

impl DecodedPages {
    /// Each thread may exceed `bound` bytes by the entries of a task's runs and a page.
    pub fn new(bound: usize) -> DecodedPages {
        let zero = || AtomicUsize::new(0);
        let (kept, copied, left, keeps_few) = (zero(), zero(), zero(), AtomicBool::new(false));
        let (held, queries) = (Arc::new(zero()), AtomicU32::new(0));
        DecodedPages { bound, runs: Mutex::default(), held, queries, kept, copied, left, keeps_few }
    }

    pub fn new_query(&self) -> QueryId {
        // Never 0, and the lowest bit stays free.
        QueryId((self.queries.fetch_add(1, Relaxed) % (u32::MAX >> 1) + 1) << 1)
    }

    pub fn keeper(&self, query: QueryId, bytes: usize) -> Keeper {
        Keeper { query, one_in: if bytes <= self.bound / SMALL { FEW_OF_SMALL } else { FEW } }
    }

    pub fn of_runs(&self, asked: impl Iterator<Item = (RunId, usize)>) -> Vec<Arc<DecodedRun>> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let left = self.make_room(&mut runs);
        let found = asked.map(|(id, pages)| {
            if let Some(found) = runs.by_id.get(&id) {
                found.is_used.store(true, Relaxed);
                return found.clone();
            }
            let entry = Arc::new(DecodedRun::new(id, pages, self.held.clone()));
            runs.by_id.insert(id, entry.clone());
            runs.clock.push_back(id);
            entry
        });
        let found = found.collect();
        drop(runs);
        // Freeing is slow, so it happens outside the lock.
        drop(left);
        found
    }

    /// If the cache is full, evicts about 1/16 of the capacity.
    fn make_room(&self, runs: &mut Runs) -> Vec<Arc<DecodedRun>> {
        let (held, mut freed, mut left) = (self.held.load(Relaxed), 0, Vec::new());
        if held < self.bound {
            return left;
        }
        let wanted = held - (self.bound - self.bound / 16);
        while freed < wanted
            && let Some(id) = runs.clock.pop_front()
        {
            if runs.by_id[&id].is_used.swap(false, Relaxed) {
                runs.clock.push_back(id);
                continue;
            }
            let run = runs.by_id.remove(&id).expect("each has its place in the clock");
            freed += run.bytes.load(Relaxed);
            left.push(run);
        }
        self.left.fetch_add(freed, Relaxed);
        left
    }

    pub fn is_to_be_kept(&self, run: &DecodedRun, page: usize, Keeper { query, one_in }: Keeper) -> bool {
        // The high bits are well mixed, also for numbers at regular intervals.
        let number = (query.0 >> 1).wrapping_add(page as u32).wrapping_add(run.salt);
        let mixed = || number.wrapping_mul(0x9E37_79B1) >> 20;
        run.note_reading(page, query) && (!self.keeps_few.load(Relaxed) || mixed().is_multiple_of(one_in))
    }

    pub fn note_copied(&self, pages: usize, bytes: usize) {
        self.copied.fetch_add(pages * ALLOCATED_BYTES + bytes, Relaxed);
    }

    pub fn keep(&self, run: &DecodedRun, chunks: usize, place: usize, page: DecodedPage) {
        if self.held.load(Relaxed) >= self.bound {
            return;
        }
        let slots = run.chunks.get_or_init(|| {
            run.add(chunks * size_of::<OnceLock<DecodedPage>>());
            (0..chunks).map(|_| OnceLock::new()).collect()
        });
        let bytes = ALLOCATED_BYTES + page.bytes();
        if slots[place].set(page).is_err() {
            return;
        }
        if place < FIRST {
            run.first_kept.fetch_or(1 << place, Release);
        }
        run.add(bytes);
        if self.kept.fetch_add(bytes, Relaxed) + bytes > self.bound / 2 {
            let [kept, copied, left] = [&self.kept, &self.copied, &self.left].map(|bytes| bytes.swap(0, Relaxed));
            self.keeps_few.store(left > kept / 2 && copied < kept, Relaxed);
        }
    }
}

impl DecodedRun {
    fn new(id: RunId, pages: usize, held: Arc<AtomicUsize>) -> DecodedRun {
        let readers = (0..pages).map(|_| AtomicU32::new(0)).collect();
        let (bytes, is_used) = (AtomicUsize::new(0), AtomicBool::new(false));
        let salt = (id.0 as u64 ^ (id.0 >> 64) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let (salt, first_kept, chunks) = (salt as u32, AtomicU64::new(0), OnceLock::new());
        let run = DecodedRun { held, bytes, is_used, salt, readers, first_kept, chunks };
        run.add(ENTRY_BYTES + pages * size_of::<AtomicU32>());
        run
    }

    fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Relaxed);
        self.held.fetch_add(bytes, Relaxed);
    }

    fn note_reading(&self, page: usize, query: QueryId) -> bool {
        let Some(reader) = self.readers.get(page) else { return false };
        let before = reader.load(Relaxed);
        if before & !1 == query.0 {
            return before & 1 == 1;
        }
        let again = before != 0;
        reader.store(query.0 | u32::from(again), Relaxed);
        again
    }

    pub fn page(&self, place: usize) -> Option<&DecodedPage> {
        self.chunks.get()?.get(place)?.get()
    }

    /// Whether [`DecodedRun::page`] returns a page.
    pub fn has(&self, place: usize) -> bool {
        if place < FIRST { self.first_kept.load(Acquire) >> place & 1 == 1 } else { self.page(place).is_some() }
    }

    /// Prefetches the entry of a chunk, which [`DecodedRun::page`] reads, without waiting.
    pub fn fetch_ahead(&self, place: usize) {
        if let Some(entry) = self.chunks.get().and_then(|chunks| chunks.get(place)) {
            kubist_format::decoded::fetch_value(entry);
        }
    }
}

impl Drop for DecodedRun {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes.load(Relaxed), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Int64Array;

    const BOUND: usize = 1 << 20;
    const PAGE: usize = 65_536;

    fn decoded(number: u128) -> DecodedPage {
        DecodedPage::new(Int64Array::from(vec![number as i64; PAGE / 8]).values().inner().clone(), None, 64)
    }

    fn read(pages: &DecodedPages, run: u128) -> bool {
        let query = pages.new_query();
        let kept = pages.of_runs(std::iter::once((RunId(run), 1))).remove(0);
        if let Some(page) = kept.page(0) {
            assert_eq!(page, &decoded(run));
            pages.note_copied(1, PAGE);
            return true;
        }
        if pages.is_to_be_kept(&kept, 0, pages.keeper(query, BOUND)) {
            pages.keep(&kept, 1, 0, decoded(run));
        }
        assert!(pages.held.load(Relaxed) < BOUND + 8 * PAGE, "{} bytes", pages.held.load(Relaxed));
        false
    }

    fn check(pages: &DecodedPages) {
        let runs = pages.runs.lock().unwrap();
        assert_eq!(runs.by_id.len(), runs.clock.len());
        let bytes_of = |run: &Arc<DecodedRun>| match run.page(0) {
            None => ENTRY_BYTES + 4,
            Some(_) => ENTRY_BYTES + 4 + size_of::<OnceLock<DecodedPage>>() + ALLOCATED_BYTES + PAGE,
        };
        assert_eq!(runs.by_id.values().map(bytes_of).sum::<usize>(), pages.held.load(Relaxed));
    }

    #[test]
    fn what_is_read_again_is_copied_the_third_time() {
        let pages = DecodedPages::new(BOUND);
        assert_eq!([(); 4].map(|()| read(&pages, 7)), [false, false, true, true]);
        assert!(!read(&pages, 8));
        check(&pages);
    }

    #[test]
    fn what_one_query_reads_twice_is_read_once() {
        let pages = DecodedPages::new(BOUND);
        let run = pages.of_runs(std::iter::once((RunId(1), 2))).remove(0);
        let (one, other) = (pages.new_query(), pages.new_query());
        assert_eq!([0, 0, 0].map(|page| run.note_reading(page, one)), [false; 3]);
        assert_eq!([0, 0, 1].map(|page| run.note_reading(page, other)), [true, true, false]);
        assert!(run.note_reading(0, one));
        assert!(!run.note_reading(2, one), "of a page that is not there");
    }

    #[test]
    fn the_bound_holds_and_what_is_used_stays() {
        let pages = DecodedPages::new(BOUND);
        for run in 0..2000 {
            read(&pages, run);
            read(&pages, run);
            read(&pages, 1_000_000);
            check(&pages);
        }
        assert!(read(&pages, 1_000_000));
        assert!(!read(&pages, 3));
    }

    #[test]
    fn the_bound_holds_where_no_run_is_new() {
        let pages = DecodedPages::new(BOUND);
        for turn in 0..40 {
            let runs = pages.of_runs((0..4).map(|run| (RunId(run), 40)));
            for (number, run) in runs.iter().enumerate() {
                pages.keep(run, 40, turn, decoded(number as u128));
            }
            assert!(pages.held.load(Relaxed) < BOUND + PAGE + 1024, "{} bytes", pages.held.load(Relaxed));
        }
    }

    #[test]
    fn what_there_is_room_for_is_kept() {
        let pages = DecodedPages::new(BOUND);
        let turn = |pages: &DecodedPages| (0..15).filter(|run| read(pages, *run)).count();
        assert_eq!([(); 5].map(|()| turn(&pages)), [0, 0, 15, 15, 15]);
    }

    #[test]
    fn small_queries_keep_more_of_their_pages() {
        let pages = DecodedPages::new(BOUND);
        pages.keeps_few.store(true, Relaxed);
        let kept_of = |bytes: usize| {
            let runs = pages.of_runs((0..1000).map(|run| (RunId::new(1, 1, run), 1)));
            for run in &runs {
                run.note_reading(0, QueryId(2));
            }
            let keeper = pages.keeper(QueryId(4), bytes);
            runs.iter().filter(|run| pages.is_to_be_kept(run, 0, keeper)).count()
        };
        let (of_small, of_large) = (kept_of(BOUND / SMALL), kept_of(BOUND / SMALL + 1));
        assert!((200..300).contains(&of_small) && (40..90).contains(&of_large), "{of_small} and {of_large} of 1,000");
    }

    /// A cyclic scan of twice the capacity: storing every page would give no hits.
    #[test]
    fn what_comes_in_turn_and_is_too_much_is_kept_in_part() {
        let pages = DecodedPages::new(BOUND);
        let copied = (0..8000).filter(|turn| read(&pages, turn % 32)).count();
        assert!(copied > 8000 / 4, "{copied}");
        let copied = (0..800).filter(|turn| read(&pages, 100 + turn % 8)).count();
        assert!(copied > 600, "{copied}");
    }

    #[test]
    fn several_threads_share_the_bound() {
        let pages = DecodedPages::new(BOUND);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let pages = &pages;
                scope.spawn(move || {
                    for turn in 0..2000 {
                        read(pages, turn * (thread + 3) % 37);
                    }
                });
            }
        });
        check(&pages);
    }

    #[test]
    fn what_is_in_use_counts() {
        let pages = DecodedPages::new(BOUND);
        read(&pages, 1);
        read(&pages, 1);
        let used = pages.of_runs(std::iter::once((RunId(1), 1))).remove(0);
        for run in 2..100 {
            read(&pages, run);
            read(&pages, run);
        }
        assert!(!pages.runs.lock().unwrap().by_id.contains_key(&RunId(1)));
        let held = pages.held.load(Relaxed);
        drop(used);
        assert!(pages.held.load(Relaxed) < held - PAGE);
        check(&pages);
    }
}
