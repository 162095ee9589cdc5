//! What can still be read of a run: page by page, each checked on its own.
//!
//! A page is what is lost at once: without one column's chunk its rows are not
//! whole. Where the bytes are those that were written, but some are no value of their
//! column (text that is no UTF-8), only the rows of these are lost. Without its zone map all
//! of a run is lost, for that holds the frames that values are packed in.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use bytes::Bytes;
use kubist_index::order;
use kubist_index::priority::{is_identity_type, priorities};
use kubist_index::state::Run;

use kubist_catalog::error::{is_damage, is_unread};
use kubist_catalog::frame::Frame;
use kubist_catalog::snapshot::Snapshot;
use kubist_format::location::Location;
use kubist_format::zone_map::ZoneMap;
use kubist_read::runs;
use kubist_types::error::{Error, Result};

/// A run, as far as it can be read.
#[derive(Default)]
pub struct Sound {
    /// `None` if it is damaged.
    pub map: Option<Arc<ZoneMap>>,
    /// Pages and their stored rows.
    pub pages: Vec<(usize, RecordBatch)>,
    /// The other stored rows of pages in which some hold what is not a value.
    pub parts: Vec<RecordBatch>,
    pub lost: Vec<Lost>,
    /// What the storage did not give: it may be sound.
    pub unread: Vec<Unread>,
}

/// Rows of which nothing is known.
pub struct Unread {
    pub rows: u64,
    pub error: Error,
}

/// Rows whose bytes are damaged.
#[derive(Clone, Debug)]
pub struct Lost {
    pub rows: u64,
    /// The zones that they are in; `None`: all of the run.
    pub zones: Option<Range<usize>>,
    /// Names the file, the offset in it and the cube.
    pub why: String,
}

/// What was decided of a run.
#[derive(Debug, Default)]
pub struct Decided {
    /// Its zone map cannot be read, and so nothing of it.
    pub all: bool,
    /// Its pages that are not sound, each with the rows that hold what is not a value; `None`:
    /// all of the page.
    pub pages: BTreeMap<usize, Option<Vec<usize>>>,
    /// What that costs.
    pub lost: Vec<Lost>,
}

/// Where lost rows lie along one dimension, in the column's unit.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Extent {
    pub column: String,
    pub low: f64,
    pub high: f64,
}

/// What damage at one location costs.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Loss {
    /// Names the file, the offset in it and the cube.
    pub what: String,
    /// The cube of the run, in hexadecimal, and its level; the root's is 0.
    pub cube: String,
    pub level: u32,
    pub rows: u64,
    /// A box around the rows.
    pub extents: Vec<Extent>,
    /// Cubes in which a replica holds copies of some of the rows.
    pub replicas: u64,
}

impl Loss {
    /// In one line, for people.
    pub fn message(&self) -> String {
        let extents: Vec<String> =
            self.extents.iter().map(|extent| format!("{} in {}:{}", extent.column, extent.low, extent.high)).collect();
        let copies = match self.replicas {
            0 => String::new(),
            cubes => format!("; replicas in {cubes} cubes hold copies of some of them"),
        };
        format!("{}: costs {} records with {}{copies}", self.what, self.rows, extents.join(", "))
    }
}

/// The zone that holds a row of a page.
fn zone_of(map: &ZoneMap, page: usize, row: usize) -> usize {
    let (zones, mut end) = (map.page_zones(page), 0);
    let last = zones.end - 1;
    let mut holding = zones.filter(|zone| {
        end += map.rows[*zone] as usize;
        row < end
    });
    holding.next().unwrap_or(last)
}

/// A hash of each whole stored row, over canonical values.
pub fn row_hashes(batch: &RecordBatch) -> Vec<u64> {
    let columns = batch.columns().iter().filter(|array| is_identity_type(array.data_type()));
    let columns: Vec<&dyn Array> = columns.map(|array| array.as_ref()).collect();
    priorities(&columns, batch.num_rows(), 0)
}

impl Sound {
    /// Of a run whose segment was cleaned away.
    pub fn gone(run: &Run<Location>) -> Sound {
        let lost = Lost { rows: run.rows, zones: None, why: "it was cleaned away".into() };
        Sound { lost: vec![lost], ..Sound::default() }
    }

    /// All rows that can be read.
    pub fn batches(&self) -> impl Iterator<Item = &RecordBatch> {
        self.pages.iter().map(|(_, batch)| batch).chain(&self.parts)
    }
}

/// What is read of a page.
enum Page {
    Whole(RecordBatch),
    /// The rows that hold values, and what is wrong with the others.
    Part(RecordBatch, BTreeMap<usize, String>),
}

/// Everything of a run that is sound, and what is decided by that if nothing stayed unread.
/// An error only if the files of this snapshot were cleaned away, or nothing can be read here.
///
/// # Errors
///
/// `SnapshotExpired`, `NoSpace`, `Permission`, `Cancelled` and others that are neither damage nor a
/// read that failed: these are in the answer.
pub fn read_sound(snapshot: &Snapshot, run: &Arc<Run<Location>>) -> Result<(Sound, Decided)> {
    let (mut sound, mut decided) = (Sound::default(), Decided::default());
    let map = match snapshot.zone_maps(std::iter::once(run), true) {
        Ok((mut maps, _)) => maps.remove(0),
        Err(error) if is_damage(&error) => {
            decided.all = true;
            sound.lost.push(Lost { rows: run.rows, zones: None, why: error.to_string() });
            decided.lost.clone_from(&sound.lost);
            return Ok((sound, decided));
        }
        Err(error) if is_unread(&error) => {
            sound.unread.push(Unread { rows: run.rows, error });
            return Ok((sound, decided));
        }
        Err(error) => return Err(error),
    };
    // In one piece if that can be read, else page by page.
    let whole = runs::data(snapshot, run, 0..run.payload.data_length).ok();
    for page in 0..map.pages() {
        let rows = || map.page_rows(page) as u64;
        match read_page(snapshot, run, &map, page, whole.as_ref()) {
            Ok(Page::Whole(batch)) => sound.pages.push((page, batch)),
            Ok(Page::Part(batch, bad)) => {
                sound.parts.push(batch);
                decided.pages.insert(page, Some(bad.keys().copied().collect()));
                for (row, what) in bad {
                    let (zone, offset) = (zone_of(&map, page, row), map.chunk(page, 0).offset);
                    let why = runs::damaged(snapshot, run, offset, what).to_string();
                    sound.lost.push(Lost { rows: 1, zones: Some(zone..zone + 1), why });
                }
            }
            Err(error) if is_damage(&error) => {
                decided.pages.insert(page, None);
                let zones = Some(map.page_zones(page));
                sound.lost.push(Lost { rows: rows(), zones, why: error.to_string() });
            }
            Err(error) if is_unread(&error) => sound.unread.push(Unread { rows: rows(), error }),
            Err(error) => return Err(error),
        }
    }
    sound.map = Some(map);
    decided.lost.clone_from(&sound.lost);
    Ok((sound, decided))
}

/// The same rows of a run as before: an error if one of its sound pages is not sound any more.
///
/// # Errors
///
/// `Damaged` if a page is not what it was; as of
/// [`Core::fetch`](kubist_catalog::core::Core::fetch).
pub fn read_decided(snapshot: &Snapshot, run: &Arc<Run<Location>>, decided: &Decided) -> Result<Sound> {
    let mut sound = Sound { lost: decided.lost.clone(), ..Sound::default() };
    if decided.all {
        return Ok(sound);
    }
    let (mut maps, _) = snapshot.zone_maps(std::iter::once(run), true)?;
    let map = maps.remove(0);
    let whole = runs::data(snapshot, run, 0..run.payload.data_length).ok();
    for page in 0..map.pages() {
        match decided.pages.get(&page) {
            Some(None) => {}
            expected => match (read_page(snapshot, run, &map, page, whole.as_ref())?, expected) {
                (Page::Whole(batch), None) => sound.pages.push((page, batch)),
                (Page::Part(batch, bad), Some(Some(rows))) if bad.keys().eq(rows) => sound.parts.push(batch),
                _ => {
                    let what = format!("page {page} has other values than before");
                    return Err(runs::damaged(snapshot, run, map.chunk(page, 0).offset, what));
                }
            },
        }
    }
    sound.map = Some(map);
    Ok(sound)
}

/// A page, from the bytes of the whole run if they could be read.
fn read_page(
    snapshot: &Snapshot,
    run: &Arc<Run<Location>>,
    map: &ZoneMap,
    page: usize,
    whole: Option<&Bytes>,
) -> Result<Page> {
    let (first, last) = (map.chunk(page, 0), map.chunk(page, map.columns.len() - 1));
    let range = first.offset..last.offset + last.length as u64;
    let bytes = match whole {
        Some(bytes) => bytes.slice(range.start as usize..range.end as usize),
        None => runs::data(snapshot, run, range)?,
    };
    match runs::decode_pages(snapshot, run, map, page..page + 1, &bytes) {
        Ok(batch) => Ok(Page::Whole(batch)),
        Err(_) => {
            let (batch, bad) = runs::decode_sound_rows(snapshot, run, map, page, &bytes)?;
            Ok(Page::Part(batch, bad))
        }
    }
}

/// How many columns a run has beyond those that are known, and what that means.
pub fn unknown_columns(snapshot: &Snapshot, run: &Run<Location>, map: &ZoneMap) -> Option<(u64, String)> {
    let (found, known) = (map.columns.len(), snapshot.view.schema.stored.fields().len());
    let more = found.checked_sub(known).filter(|more| *more > 0)?;
    let what = format!("the run has {found} columns and the table {known}: an alteration is missing");
    Some((more as u64, runs::damaged(snapshot, run, 0, what).to_string()))
}

/// A grid, if it is there and can be read.
///
/// # Errors
///
/// `Newer`, or a storage error.
pub fn grid(snapshot: &Snapshot, number: u32) -> Result<Option<Arc<Frame>>> {
    match snapshot.core.frame(&snapshot.view.schema, number) {
        Err(error) if is_damage(&error) => Ok(None),
        frame => frame,
    }
}

/// What lost rows cost: where they lie, and whether replicas may have them.
///
/// # Errors
///
/// `Newer`, or a storage error.
pub fn loss(snapshot: &Snapshot, run: &Run<Location>, map: Option<&ZoneMap>, lost: &Lost) -> Result<Loss> {
    let stored = &snapshot.view.schema.stored;
    let grid = grid(snapshot, run.cube.grid())?;
    let extent = |d: usize, column: usize| {
        let data_type = stored.field(column).data_type();
        let (low, high) = match (map, &lost.zones) {
            (Some(map), Some(zones)) => {
                let of = &map.columns[column];
                let valued = zones.clone().filter(|zone| of.nulls_of(*zone) < map.rows[*zone]);
                (valued.clone().map(|zone| &of.min[zone]).min(), valued.map(|zone| &of.max[zone]).max())
            }
            _ => (None, None),
        };
        let number = |key: &u64| order::number(data_type, *key);
        let frame = grid.as_ref();
        // Without a zone map the grid says it, as exactly as it can.
        let edge = |coordinate: u32| {
            frame.map_or(f64::NAN, |frame| frame.scales[d].value_at(coordinate, frame.geometry.bits()))
        };
        Extent {
            column: stored.field(column).name().clone(),
            low: low.map_or_else(|| edge(run.payload.low[d]), number),
            high: high.map_or_else(|| edge(run.payload.high[d].saturating_add(1)), number),
        }
    };
    let columns = snapshot.view.schema.columns_of(run.cube.grid());
    let dimensions = columns.unwrap_or(&snapshot.core.created.dimensions).iter().enumerate();
    let directory = snapshot.directory()?;
    let copies = directory.replicas().filter(|replica| replica.copies.contains(&run.id));
    Ok(Loss {
        what: lost.why.clone(),
        cube: format!("{:#x}", run.cube.to_u128()),
        level: run.cube.level(),
        rows: lost.rows,
        extents: dimensions.map(|(d, column)| extent(d, *column)).collect(),
        replicas: copies.count() as u64,
    })
}
