//! Partial copies: the manifest of a source whole, and the bytes that chosen queries read.
//!
//! A copy has a state of its source and a list of queries. [`clone`] makes it for a first query, and [`deepen`] takes the
//! newest state and adds a query. Both fetch the bytes that all queries of the list read and the copy does not hold, and
//! can be killed and repeated. While they run, a hold keeps the state's files at the source.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kubist::{Cancel, Location, Query, RunOptions, Table};
use kubist_catalog::core::Core;
use kubist_catalog::error::{is_damage, store_error};
use kubist_catalog::hold;
use kubist_catalog::location::absolute;
use kubist_catalog::segment::unix_ms;
use kubist_catalog::snapshot::Snapshot;
use kubist_format::checkpoint::levels;
use kubist_format::names::GRID;
use kubist_partial::{PartialStore, Recorder};
use kubist_read::bind::BoundQuery;
use kubist_read::held;
use kubist_store::{Content, LocalStore, Partial, Store, StoreExt};
use kubist_types::{Error, ErrorKind, Result};
use serde::Serialize;

/// The hold of a killed call ends after this time.
const HELD: Duration = Duration::from_secs(7 * 86_400);

/// The result of [`clone`] and [`deepen`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cloned {
    /// The location of the copy.
    pub location: String,
    /// The location of the source.
    pub source: String,
    /// Rows of the source.
    pub rows: u64,
    /// Bytes that were fetched, without the manifest.
    pub fetched: u64,
    /// The size of the copy.
    pub bytes: u64,
    /// The size of the source.
    pub source_bytes: u64,
    /// Duration in seconds.
    pub seconds: f64,
}

/// Makes a partial copy of the table at `source` in the unused directory `dest`, for the queries on the box of `query`,
/// up to its sample fraction and over its columns. A killed call is continued by the same call. Calls `progress(runs
/// done, all runs)`.
///
/// # Errors
///
/// `Invalid` if the source is a partial copy, `dest` is no directory, or the query has other parts or does not fit the
/// table; `Exists`; `Damaged` if bytes of the source are; `Cancelled`; a storage error.
pub fn clone(
    source: &str,
    dest: &str,
    query: &Query,
    cancel: &Cancel,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Cloned> {
    let begin = Instant::now();
    let from = Table::open(Location::from(source).cancelled_by(cancel))?;
    check_source(from.core())?;
    check(from.core(), query, cancel)?;
    let copy = vacant(dest, &absolute(source))?;
    complete(copy, from.core(), Some(query), begin, cancel, progress)
}

/// Brings a partial copy up to date, and adds the queries of `query` to those that it answers. The other parts are as
/// for [`clone`].
///
/// # Errors
///
/// `Invalid` if the table is no partial copy; `Replaced` if another table is at its source; the errors of [`clone`].
pub fn deepen(
    location: &str,
    query: Option<&Query>,
    cancel: &Cancel,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Cloned> {
    let begin = Instant::now();
    let at = Table::open(Location::from(location).cancelled_by(cancel))?;
    let shown = at.location().to_owned();
    let Some(source) = at.core().store.partial().map(|partial| partial.source().to_owned()) else {
        return Err(Error::invalid(format!("{shown} is not a partial copy; `kubist clone` makes one")));
    };
    let from = Table::open(Location::from(&source).cancelled_by(cancel))?;
    if from.core().header.id != at.core().header.id {
        let why = format!("it is not the source of {shown}");
        return Err(Error::Replaced { location: source, why });
    }
    check_source(from.core())?;
    if let Some(query) = query {
        check(from.core(), query, cancel)?;
    }
    let own = Arc::new(LocalStore::create(shown.as_ref()).map_err(store_error)?);
    let copy = PartialStore::begin(own, &source).map_err(store_error)?;
    complete(copy, from.core(), query, begin, cancel, progress)
}

fn check_source(core: &Core) -> Result<()> {
    let Some(partial) = core.store.partial() else { return Ok(()) };
    let (location, source) = (core.store.location(), partial.source());
    Err(Error::invalid(format!("{location} is itself a partial copy; clone its source {source}")))
}

/// Checks that a query chooses rows and columns only by region and fraction, and fits the table.
fn check(core: &Arc<Core>, query: &Query, cancel: &Cancel) -> Result<()> {
    let Query { bounds, region, sample, columns, .. } = query.clone();
    if (Query { bounds, region, sample, columns, ..Query::default() }) != *query {
        return Err(Error::invalid("a partial copy is chosen by box, region, sample and columns"));
    }
    BoundQuery::new(&Snapshot::now(core, cancel)?, &RunOptions::with_cancel(cancel).of(query.clone())).map(drop)
}

/// A new copy in an unused directory, or a copy of this source that is not complete.
fn vacant(dest: &str, source: &str) -> Result<PartialStore> {
    if dest.contains("://") && !dest.starts_with("file://") {
        return Err(Error::invalid(format!("{dest}: a partial copy is a directory of this machine")));
    }
    let at = Location::parse(dest)?;
    let exists = |why: String| Error::Exists { location: at.to_string(), why };
    match at.find().map_err(store_error)? {
        Content::Nothing => {}
        Content::NoStore(what) => return Err(exists(what.into())),
        Content::Store(store) => match store.partial() {
            Some(partial) if partial.source() != source => {
                return Err(exists(format!("it is a partial copy of {}", partial.source())));
            }
            Some(_) => {}
            None if at.has_other_files().map_err(store_error)? => {
                return Err(exists("choose a new or empty directory for the copy".into()));
            }
            None => {}
        },
    }
    let own = Arc::new(LocalStore::create(at.absolute().as_ref()).map_err(store_error)?);
    let copy = PartialStore::begin(own, source).map_err(store_error)?;
    let queries = copy.queries();
    match !queries.is_empty() && queries.iter().all(|(_, is_held)| *is_held) {
        true => Err(exists("it is a complete partial copy; `kubist deepen` adds to it".into())),
        false => Ok(copy),
    }
}

/// Takes the newest state of the source, and fetches the bytes of all queries of the copy.
fn complete(
    copy: PartialStore,
    from: &Arc<Core>,
    query: Option<&Query>,
    begin: Instant,
    cancel: &Cancel,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Cloned> {
    let hold = match hold::put(from, unix_ms(), HELD) {
        Ok(hold) => Some(hold),
        // A source that this user cannot write to is copied without a hold.
        Err(error) if matches!(error.kind(), ErrorKind::Permission | ErrorKind::Unsupported) => None,
        Err(error) => return Err(error),
    };
    let done = fetch(copy, from, query, cancel, progress);
    if let Some(hold) = hold {
        hold::release(from, &hold)?;
    }
    done.map(|cloned| Cloned { seconds: begin.elapsed().as_secs_f64(), ..cloned })
}

fn fetch(
    copy: PartialStore,
    from: &Arc<Core>,
    query: Option<&Query>,
    cancel: &Cancel,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Cloned> {
    let before = copy.held_bytes();
    if let Some(query) = query {
        copy.want(&encoded(query)?, false).map_err(store_error)?;
    }
    let copy = Arc::new(with_newest_state(copy, from, cancel)?);
    copy.fetch_missing(true);
    let core = Core::open(copy.clone(), cancel)?;
    fetch_pages(&core, &copy, cancel)?;
    let snapshot = Snapshot::now(&core, cancel)?;
    for (bytes, _) in copy.queries() {
        let wanted: Query = serde_json::from_slice(&bytes).map_err(|error| Error::Damaged {
            file: format!("{}/log of held", core.store.location()),
            offset: 0,
            what: format!("a query of the copy: {error}"),
        })?;
        held::fetch(&snapshot, &RunOptions::with_cancel(cancel).of(wanted), progress)?;
        copy.want(&bytes, true).map_err(store_error)?;
    }
    let bytes = copy.sizes().map_err(store_error)?.iter().map(|size| size.bytes).sum();
    Ok(Cloned {
        location: core.store.location().into(),
        source: copy.source().into(),
        rows: snapshot.view.rows(),
        fetched: copy.held_bytes().saturating_sub(before),
        bytes,
        source_bytes: copy.source_bytes(),
        seconds: 0.0,
    })
}

fn encoded(query: &Query) -> Result<Vec<u8>> {
    serde_json::to_vec(query).map_err(Error::internal)
}

/// The copy with the manifest of the source's newest state.
fn with_newest_state(copy: PartialStore, from: &Core, cancel: &Cancel) -> Result<PartialStore> {
    let store = from.store.uncached().unwrap_or_else(|| from.store.clone());
    let recorder = Arc::new(Recorder::new(store));
    let core = Core::open(recorder.clone(), cancel)?;
    // A second look compares the last entries with the stored ones, so the copy needs these too.
    let view = core.view(cancel)?;
    recorder.get(GRID).map_err(store_error)?;
    let mut segments: std::collections::BTreeSet<String> = std::collections::BTreeSet::new();
    view.runs.each(&core, cancel, |run| segments.extend(run.payload.segments().map(|segment| segment.to_string())))?;
    segments.extend(view.runs.base.iter().flat_map(|base| base.segments()).map(|segment| segment.to_string()));
    let manifest = recorder.manifest(segments.into_iter()).map_err(store_error)?;
    copy.renewed(&manifest).map_err(store_error)
}

/// Fetches and checks the pages of the manifest, with their digests.
fn fetch_pages(core: &Arc<Core>, copy: &PartialStore, cancel: &Cancel) -> Result<()> {
    let view = core.view(cancel)?;
    let Some(base) = &view.runs.base else { return Ok(()) };
    for level in levels(&base.pages) {
        let (segment, first) = (&*level[0].segment, level[0].offset);
        let end = copy.segment_len(segment).map_err(store_error)?.unwrap_or(first);
        copy.read(segment, &[first..end]).map_err(store_error)?;
    }
    let checked = base.check(core, cancel);
    if checked.as_ref().is_err_and(is_damage) {
        for segment in base.segments() {
            copy.forget(segment, 0..u64::MAX).map_err(store_error)?;
        }
    }
    checked
}
