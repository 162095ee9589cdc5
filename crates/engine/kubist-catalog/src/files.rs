//! The files of a table: its store, its header, and caches of immutable content, without the state of logs and
//! snapshots.

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
use crate::look::in_parallel;
use crate::schema::TableSchema;
use kubist_format::error::EntryError;

pub const HALF_COPIED: &str =
    "a copy or a salvage was begun there and is not finished: repeat it, or drop what is there";

/// The store cannot distinguish a dropped table from a moved one.
pub const GONE: &str = "it was dropped or moved after it was opened: open it at its new location, or create it again";

pub const HALF_DROPPED: &str = "a table was dropped there, and not all of its files are gone: drop it again";

/// Default limit of runs in memory: about 80 MB, plus 2 to 8 MB for each column that is no dimension.
const RUNS_IN_MEMORY: u64 = 1 << 18;

/// Limit of attempts, because the newest checkpoint can be replaced between listing and reading.
const LOOKS: u32 = 1000;

pub struct TableFiles {
    pub store: Arc<dyn Store>,
    pub header: Header,
    pub created: Arc<TableSchema>,
    pub zone_map_cache: Cache<RunId, ZoneMap>,
    /// Guides by segment and offset of the postings.
    pub guide_cache: Cache<(Arc<str>, u64), Guide>,
    pub page_cache: Cache<(Arc<str>, u64), KnownPage>,
    pub decoded_pages: DecodedPages,
    runs_in_memory: AtomicU64,
    first_grid: OnceLock<Bytes>,
    process: u32,
    /// Whether the table is a copy without a header, which is written last.
    unfinished: AtomicBool,
    grids: Mutex<Grids>,
    /// Number of alterations that are known to be durable.
    settled: AtomicU64,
}

/// A grid never changes.
struct Grids {
    forest: Forest,
    frames: BTreeMap<u32, Arc<Frame>>,
}

impl TableFiles {
    /// # Errors
    ///
    /// `Invalid` without dimensions, or with more than 8.
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

    pub fn know_grid(&self, bytes: Option<Bytes>) {
        if let Some(bytes) = bytes {
            let _ = self.first_grid.set(bytes);
        }
    }

    pub fn first_grid(&self) -> Option<Bytes> {
        self.first_grid.get().cloned()
    }

    pub fn is_unfinished(&self) -> bool {
        self.unfinished.load(Ordering::Relaxed)
    }

    pub fn set_unfinished(&self, unfinished: bool) {
        self.unfinished.store(unfinished, Ordering::Relaxed);
    }

    pub fn limit_runs_in_memory(&self, runs: u64) {
        self.runs_in_memory.store(runs, Ordering::Relaxed);
    }

    pub fn runs_in_memory(&self) -> u64 {
        self.runs_in_memory.load(Ordering::Relaxed)
    }

    /// The page segments of existing checkpoints, always with the newest one, because later ones may use its pages.
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
            // The checkpoint was replaced between the two calls, or the listing is stale.
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

    /// # Errors
    ///
    /// `Replaced`, `NotATable`, `Damaged`, `Newer` or a storage error.
    pub fn check_still_there(&self) -> Result<()> {
        let (dropped, table) = in_parallel(self.store.as_ref(), || self.store.get(DROPPED), || self.store.get(TABLE));
        self.check_seen(dropped.map_err(store_error)?.is_some(), table.map_err(store_error)?)
    }

    /// Like [`TableFiles::check_still_there`], for a drop mark and a header just read.
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

    /// # Errors
    ///
    /// `Replaced` if it is another table's; `NotATable` if it is missing; `Damaged` or `Newer`.
    pub fn check_header(&self, here: Option<Bytes>) -> Result<()> {
        let location = || self.store.location().to_string();
        match here.map(|bytes| header::decode_header(&bytes)) {
            Some(Ok((header, _))) if header.id == self.header.id => Ok(()),
            Some(Err(error)) => Err(bad_entry(self.store.location(), TABLE, 0, error)),
            Some(Ok((header, _))) => {
                let why = format!("it has the id {}, not {}", header.id, self.header.id);
                Err(Error::Replaced { location: location(), why })
            }
            None => Err(Error::NotATable { location: location(), why: GONE.into() }),
        }
    }

    pub fn fits_in_memory(&self, runs: u64) -> bool {
        runs <= self.runs_in_memory()
    }

    fn grids(&self) -> MutexGuard<'_, Grids> {
        // A panic cannot leave a partial change, so a poisoned lock is safe to use.
        self.grids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn forest(&self) -> Forest {
        self.grids().forest.clone()
    }

    /// Decodes an entry that may name grids, and remembers them.
    ///
    /// # Errors
    ///
    /// The errors of `decode`.
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
            // The first entry that names a grid fixes its number of dimensions.
            let _ = grids.forest.learn(tree);
        }
    }

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
        let frame = Frame::new(geometry, scales, dimensions, self.created.prioritised(), self.header.seed);
        let mut grids = self.grids();
        let _ = grids.forest.learn(geometry);
        Ok(Some(grids.frames.entry(grid).or_insert_with(|| Arc::new(frame)).clone()))
    }

    /// Returns the grid of new rows.
    ///
    /// # Errors
    ///
    /// The errors of [`TableFiles::frame`].
    pub fn newest_frame(&self, schema: &TableSchema) -> Result<Option<Arc<Frame>>> {
        self.frame(schema, schema.newest_grid())
    }

    /// Publishes the first grid, or returns the one that another writer published.
    ///
    /// # Errors
    ///
    /// `NotATable` if the grid was deleted; `Damaged`; `Newer`; a storage error.
    pub fn publish_grid(&self, scales: &[Scale]) -> Result<Arc<Frame>> {
        self.store.put_if_absent(GRID, &encode_grid(scales)).map_err(store_error)?;
        let missing = || Error::NotATable { location: self.store.location().into(), why: "its grid is missing".into() };
        self.frame(&self.created, 0)?.ok_or_else(missing)
    }

    /// Makes the header and the grid durable: a put that finds an object makes it durable.
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

    /// Makes alterations durable, because a run must not outlive the alteration that adds one of its columns.
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
