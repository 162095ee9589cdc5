//! A table's store, its header and what is kept in memory of its files.
//!
//! The lowest layer of a handle: it reads named objects and pieces of segments, and knows
//! nothing of logs or of any state of the table.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use kubist_format::alteration::name_of;
use kubist_format::checkpoint::{self, Body};
use kubist_format::grid::{decode_grid, encode_grid};
use kubist_format::header::{self, Header};
use kubist_format::lookup::postings::Guide;
use kubist_format::names::{CHECKPOINTS, DROPPED, GRID, TABLE};
use kubist_format::zone_map::ZoneMap;
use kubist_index::cube::Geometry;
use kubist_index::forest::Forest;
use kubist_index::grid::Scale;
use kubist_index::state::RunId;
use kubist_store::{Store, StoreExt};
use kubist_types::{Error, Result};

use crate::cache::{Cache, GUIDE_BYTES, KnownPage, PAGE_BYTES, ZONE_MAP_BYTES};
use crate::decoded::{DECODED_BYTES, DecodedPages};
use crate::error::{bad_entry, store_error};
use crate::frame::Frame;
use crate::look::both;
use crate::schema::TableSchema;
use kubist_format::error::EntryError;

pub const HALF_COPIED: &str =
    "a copy or a salvage was begun there and is not finished: repeat it, or drop what is there";
pub const HALF_DROPPED: &str = "a table was dropped there, and not all of its files are gone: drop it again";

/// A directory of more runs than this is not held as a whole, unless a handle is told
/// otherwise: 80 MB, and 2 to 8 more for each column that is no dimension.
const RUNS_IN_MEMORY: u64 = 1 << 18;

/// How often it is looked again for the newest checkpoint, each time that it was replaced between two calls.
const LOOKS: u32 = 1000;

/// A table's store, its header, and caches of what was read.
pub struct TableFiles {
    pub store: Arc<dyn Store>,
    pub header: Header,
    /// The columns of the table's creation; those of a moment are its view's.
    pub created: Arc<TableSchema>,
    pub zone_map_cache: Cache<RunId, ZoneMap>,
    /// Of lookups, by segment and offset of the postings.
    pub guide_cache: Cache<(Arc<str>, u64), Guide>,
    /// Of checkpoints, by segment and offset.
    pub page_cache: Cache<(Arc<str>, u64), KnownPage>,
    pub decoded_pages: DecodedPages,
    /// A directory of more runs is read page by page.
    runs_in_memory: AtomicU64,
    /// The bytes of the first grid, if they are known.
    first_grid: OnceLock<Bytes>,
    process: u32,
    /// Its header is not there yet: it comes last, of a copy.
    unfinished: AtomicBool,
    grids: Mutex<Grids>,
    /// The number of alterations that are known to be durable.
    settled: AtomicU64,
}

/// What is known of the table's grids, none of which ever changes.
struct Grids {
    forest: Forest,
    /// By number.
    frames: BTreeMap<u32, Arc<Frame>>,
}

impl TableFiles {
    /// The files of a table whose header and schema are known.
    ///
    /// # Errors
    ///
    /// `Invalid` if it has no dimension, or more than 8.
    pub fn new(store: Arc<dyn Store>, header: Header, mut schema: TableSchema) -> Result<TableFiles> {
        schema.metadata = header.metadata.clone();
        let geometry =
            Geometry::new(header.dimensions.len()).ok_or_else(|| Error::invalid("a table has 1 to 8 dimensions"))?;
        Ok(TableFiles {
            store,
            header,
            created: Arc::new(schema),
            grids: Mutex::new(Grids { forest: Forest::of(geometry), frames: BTreeMap::new() }),
            zone_map_cache: Cache::new(ZONE_MAP_BYTES),
            guide_cache: Cache::new(GUIDE_BYTES),
            page_cache: Cache::new(PAGE_BYTES),
            decoded_pages: DecodedPages::new(DECODED_BYTES),
            runs_in_memory: AtomicU64::new(RUNS_IN_MEMORY),
            first_grid: OnceLock::new(),
            process: std::process::id(),
            unfinished: AtomicBool::new(false),
            settled: AtomicU64::new(0),
        })
    }

    /// Takes the first grid as it was read; it never changes.
    pub fn know_grid(&self, bytes: Option<Bytes>) {
        if let Some(bytes) = bytes {
            let _ = self.first_grid.set(bytes);
        }
    }

    /// The first grid as it was read, if it was.
    pub fn first_grid(&self) -> Option<Bytes> {
        self.first_grid.get().cloned()
    }

    /// Is the header yet to come?
    pub fn is_unfinished(&self) -> bool {
        self.unfinished.load(Ordering::Relaxed)
    }

    /// Says whether the header is yet to come.
    pub fn set_unfinished(&self, unfinished: bool) {
        self.unfinished.store(unfinished, Ordering::Relaxed);
    }

    /// Limits how many runs a directory in memory may have.
    pub fn limit_runs_in_memory(&self, runs: u64) {
        self.runs_in_memory.store(runs, Ordering::Relaxed);
    }

    /// How many runs a directory in memory may have.
    pub fn runs_in_memory(&self) -> u64 {
        self.runs_in_memory.load(Ordering::Relaxed)
    }

    /// The segments of pages that checkpoints name: all that are there, and the newest for certain, whose
    /// pages those that follow may name too.
    ///
    /// # Errors
    ///
    /// `Damaged`, `Newer` or a storage error.
    pub fn page_segments(&self) -> Result<Vec<Arc<str>>> {
        for attempt in 0..LOOKS {
            let (mut segments, mut has_newest) = (Vec::new(), true);
            for name in self.store.list(CHECKPOINTS).map_err(store_error)? {
                let bytes = self.store.get(&name).map_err(store_error)?;
                has_newest = bytes.is_some();
                let Some(bytes) = bytes else { continue };
                let body = checkpoint::split(&bytes)
                    .and_then(|(_, body)| self.decoded(|forest| checkpoint::decode_body(body, forest)));
                let body = body.map_err(|error| bad_entry(self.store.location(), &name, 0, error))?;
                if let Body::Pages(pages, _) = body {
                    segments.extend(checkpoint::levels(&pages).map(|level| level[0].segment.clone()));
                }
            }
            if has_newest {
                return Ok(segments);
            }
            // It was replaced by newer ones between the two calls, which an old listing does not have yet.
            if attempt == 0 {
                self.store.learn();
            }
            self.store.look_again(attempt).map_err(store_error)?;
        }
        let what = "the newest checkpoint is listed, and cannot be read".to_string();
        Err(bad_entry(self.store.location(), CHECKPOINTS, 0, EntryError::Bad(what)))
    }

    /// Refuses to work in a forked process, where locks and threads are broken.
    ///
    /// # Errors
    ///
    /// `Forked`.
    pub fn check_process(&self) -> Result<()> {
        match self.process == std::process::id() {
            true => Ok(()),
            false => Err(Error::Forked { location: self.store.location().into() }),
        }
    }

    /// Refuses if the table is gone, or another was made at its location.
    ///
    /// # Errors
    ///
    /// `Replaced`, `NotATable`, `Damaged`, `Newer` or a storage error.
    pub fn check_still_there(&self) -> Result<()> {
        let (dropped, table) = both(self.store.as_ref(), || self.store.get(DROPPED), || self.store.get(TABLE));
        self.check_seen(dropped.map_err(store_error)?.is_some(), table.map_err(store_error)?)
    }

    /// The same, of what was just read: the mark of a drop, and the header.
    ///
    /// # Errors
    ///
    /// `Replaced`, `NotATable`, `Damaged` or `Newer`.
    pub fn check_seen(&self, is_dropped: bool, here: Option<Bytes>) -> Result<()> {
        if is_dropped {
            return Err(Error::NotATable { location: self.store.location().into(), why: HALF_DROPPED.into() });
        }
        if self.is_unfinished() {
            return Ok(());
        }
        self.check_header(here)
    }

    /// The same of the header alone.
    ///
    /// # Errors
    ///
    /// `Replaced` if it is another table's; `NotATable` if it is gone; `Damaged` or `Newer`.
    pub fn check_header(&self, here: Option<Bytes>) -> Result<()> {
        let location = || self.store.location().to_string();
        match here.map(|bytes| header::decode_header(&bytes)) {
            Some(Ok((header, _))) if header.id == self.header.id => Ok(()),
            Some(Err(error)) => Err(bad_entry(self.store.location(), TABLE, 0, error)),
            Some(Ok((header, _))) => {
                let why = format!("it has the id {}, not {}", header.id, self.header.id);
                Err(Error::Replaced { location: location(), why })
            }
            None => Err(Error::NotATable { location: location(), why: "the table of this handle was dropped".into() }),
        }
    }

    /// Whether a directory of `runs` runs is held in memory.
    pub fn fits_in_memory(&self, runs: u64) -> bool {
        runs <= self.runs_in_memory()
    }

    fn grids(&self) -> MutexGuard<'_, Grids> {
        // Each change is whole or not at all.
        self.grids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The trees of all grids that any entry has named so far.
    pub fn forest(&self) -> Forest {
        self.grids().forest.clone()
    }

    /// Decodes something that may name grids, which are known from then on.
    ///
    /// # Errors
    ///
    /// What `decode` returns.
    pub fn decoded<T, E>(
        &self,
        decode: impl FnOnce(&mut Forest) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let mut forest = self.forest();
        let decoded = decode(&mut forest)?;
        self.learn(&forest);
        Ok(decoded)
    }

    fn learn(&self, forest: &Forest) {
        let mut grids = self.grids();
        for tree in forest.trees() {
            // Who named another number of dimensions first is right: what it placed is read by that.
            let _ = grids.forest.learn(tree);
        }
    }

    /// A grid of a schema, if it is published.
    ///
    /// # Errors
    ///
    /// `Damaged` if the first grid cannot be read.
    pub fn frame(&self, schema: &TableSchema, grid: u32) -> Result<Option<Arc<Frame>>> {
        if let Some(frame) = self.grids().frames.get(&grid) {
            return Ok(Some(frame.clone()));
        }
        let (scales, dimensions) =
            match (grid, (grid as usize).checked_sub(1).and_then(|place| schema.grids.get(place))) {
                (0, _) => {
                    let known = self.first_grid.get().cloned();
                    let found = known.map_or_else(|| self.store.get(GRID), |bytes| Ok(Some(bytes)));
                    let Some(bytes) = found.map_err(store_error)? else { return Ok(None) };
                    self.know_grid(Some(bytes.clone()));
                    let scales = decode_grid(&bytes, self.created.dimensions.len())
                        .map_err(|error| bad_entry(self.store.location(), GRID, 0, error))?;
                    (scales, self.created.dimensions.clone())
                }
                (_, Some(later)) => (later.scales.clone(), later.dimensions.clone()),
                (_, None) => return Ok(None),
            };
        let Some(geometry) = Geometry::of_grid(grid, dimensions.len()) else { return Ok(None) };
        let frame = Frame::new(geometry, scales, dimensions, self.created.identity.clone(), self.header.seed);
        let mut grids = self.grids();
        let _ = grids.forest.learn(geometry);
        Ok(Some(grids.frames.entry(grid).or_insert_with(|| Arc::new(frame)).clone()))
    }

    /// The grid by which rows are placed now, if any is published.
    ///
    /// # Errors
    ///
    /// As of [`TableFiles::frame`].
    pub fn newest_frame(&self, schema: &TableSchema) -> Result<Option<Arc<Frame>>> {
        self.frame(schema, schema.newest_grid())
    }

    /// Publishes the first grid, or takes the one that another writer published first.
    ///
    /// # Errors
    ///
    /// `NotATable` if the grid was deleted; `Damaged`; `Newer`; a storage error.
    pub fn publish_grid(&self, scales: &[Scale]) -> Result<Arc<Frame>> {
        self.store.put_if_absent(GRID, &encode_grid(scales)).map_err(store_error)?;
        let missing = || Error::NotATable { location: self.store.location().into(), why: "its grid is missing".into() };
        self.frame(&self.created, 0)?.ok_or_else(missing)
    }

    /// Makes sure that the header and the grid, which are there, are durable: so
    /// they are once a put has found them.
    ///
    /// # Errors
    ///
    /// `Damaged` or a storage error.
    pub fn settle_objects(&self) -> Result<()> {
        for name in [TABLE, GRID] {
            if let Some(bytes) = self.store.get(name).map_err(store_error)? {
                self.store.put_if_absent(name, &bytes).map_err(store_error)?;
            }
        }
        Ok(())
    }

    /// Makes sure that the alterations of a schema, which were seen, are durable:
    /// no run with a column may outlive the word of that column.
    ///
    /// # Errors
    ///
    /// `Damaged` or a storage error.
    pub fn settle_schema(&self, schema: &TableSchema) -> Result<()> {
        for number in self.settled.load(Ordering::Relaxed) + 1..=schema.version {
            let name = name_of(number);
            if let Some(bytes) = self.store.get(&name).map_err(store_error)? {
                self.store.put_if_absent(&name, &bytes).map_err(store_error)?;
            }
            self.settled.fetch_max(number, Ordering::Relaxed);
        }
        Ok(())
    }
}
