//! The readable rows of a run, page by page.
//!
//! The unit of loss is a page. If the checksums are right but some values are invalid (text that is not UTF-8), only
//! their rows are lost. A damaged zone map loses the whole run, because it has the parameters to unpack the values.

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

#[derive(Default)]
pub struct ValidRows {
    /// The zone map; `None` if it is damaged or unread.
    pub map: Option<Arc<ZoneMap>>,
    pub pages: Vec<(usize, RecordBatch)>,
    /// The valid rows of pages with some invalid values.
    pub parts: Vec<RecordBatch>,
    pub lost: Vec<LostRows>,
    pub unread: Vec<Unread>,
}

pub struct Unread {
    pub rows: u64,
    pub error: Error,
}

#[derive(Clone, Debug)]
pub struct LostRows {
    pub rows: u64,
    /// The zones of the rows; `None` for the whole run.
    pub zones: Option<Range<usize>>,
    pub why: String,
}

#[derive(Debug, Default)]
pub struct DamageDecision {
    /// The zone map is damaged, so the whole run is lost.
    pub all: bool,
    /// The damaged pages; `None` for a whole page, otherwise its rows with invalid values.
    pub pages: BTreeMap<usize, Option<Vec<usize>>>,
    pub lost: Vec<LostRows>,
}

/// The extent of lost rows in one dimension, in the column's unit.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Extent {
    pub column: String,
    pub low: f64,
    pub high: f64,
}

#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Loss {
    pub what: String,
    /// The cube in hexadecimal, and its level (0 for the root).
    pub cube: String,
    pub level: u32,
    pub rows: u64,
    pub extents: Vec<Extent>,
    /// Number of replicas that copy rows of the run.
    pub replicas: u64,
}

impl Loss {
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

fn zone_of(map: &ZoneMap, page: usize, row: usize) -> usize {
    let (zones, mut end) = (map.page_zones(page), 0);
    let last = zones.end - 1;
    let mut holding = zones.filter(|zone| {
        end += map.rows[*zone] as usize;
        row < end
    });
    holding.next().unwrap_or(last)
}

/// Hashes canonical values, so that equal rows have equal hashes.
pub fn row_hashes(batch: &RecordBatch) -> Vec<u64> {
    let columns = batch.columns().iter().filter(|array| is_identity_type(array.data_type()));
    let columns: Vec<&dyn Array> = columns.map(|array| array.as_ref()).collect();
    priorities(&columns, batch.num_rows(), 0)
}

impl ValidRows {
    /// The result for a run whose segment was cleaned: all rows are lost.
    pub fn gone(run: &Run<Location>) -> ValidRows {
        let lost = LostRows { rows: run.rows, zones: None, why: "it was cleaned away".into() };
        ValidRows { lost: vec![lost], ..ValidRows::default() }
    }

    pub fn batches(&self) -> impl Iterator<Item = &RecordBatch> {
        self.pages.iter().map(|(_, batch)| batch).chain(&self.parts)
    }
}

enum Page {
    Whole(RecordBatch),
    Part(RecordBatch, BTreeMap<usize, String>),
}

/// Reads the intact rows of a run; damage and failed reads are part of the result. The second value is the decision for
/// later reads, valid only if nothing is unread.
///
/// # Errors
///
/// `SnapshotExpired`, `NoSpace`, `Permission`, `Cancelled` and others that are neither damage nor a failed read.
pub fn read_sound(snapshot: &Snapshot, run: &Arc<Run<Location>>) -> Result<(ValidRows, DamageDecision)> {
    let (mut sound, mut decided) = (ValidRows::default(), DamageDecision::default());
    let map = match snapshot.zone_maps(std::iter::once(run), true) {
        Ok((mut maps, _)) => maps.remove(0),
        Err(error) if is_damage(&error) => {
            decided.all = true;
            sound.lost.push(LostRows { rows: run.rows, zones: None, why: error.to_string() });
            decided.lost.clone_from(&sound.lost);
            return Ok((sound, decided));
        }
        Err(error) if is_unread(&error) => {
            sound.unread.push(Unread { rows: run.rows, error });
            return Ok((sound, decided));
        }
        Err(error) => return Err(error),
    };
    // Reads everything in one request if possible, otherwise page by page.
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
                    sound.lost.push(LostRows { rows: 1, zones: Some(zone..zone + 1), why });
                }
            }
            Err(error) if is_damage(&error) => {
                decided.pages.insert(page, None);
                let zones = Some(map.page_zones(page));
                sound.lost.push(LostRows { rows: rows(), zones, why: error.to_string() });
            }
            Err(error) if is_unread(&error) => sound.unread.push(Unread { rows: rows(), error }),
            Err(error) => return Err(error),
        }
    }
    sound.map = Some(map);
    decided.lost.clone_from(&sound.lost);
    Ok((sound, decided))
}

/// Reads the rows that an earlier read found intact.
///
/// # Errors
///
/// `Damaged` if a page differs from the earlier read; the errors of [`Core::fetch`](kubist_catalog::core::Core::fetch).
pub fn read_decided(snapshot: &Snapshot, run: &Arc<Run<Location>>, decided: &DamageDecision) -> Result<ValidRows> {
    let mut sound = ValidRows { lost: decided.lost.clone(), ..ValidRows::default() };
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

/// Decodes a page from `whole`, or reads it separately.
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

/// The number of columns that the table lacks, with a message.
pub fn unknown_columns(snapshot: &Snapshot, run: &Run<Location>, map: &ZoneMap) -> Option<(u64, String)> {
    let (found, known) = (map.columns.len(), snapshot.view.schema.stored.fields().len());
    let more = found.checked_sub(known).filter(|more| *more > 0)?;
    let what = format!("the run has {found} columns and the table {known}: an alteration is missing");
    Some((more as u64, runs::damaged(snapshot, run, 0, what).to_string()))
}

/// Returns a grid; `None` if it is missing or damaged.
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

/// The bounding box of lost rows, and the replicas that may hold copies.
///
/// # Errors
///
/// `Newer`, or a storage error.
pub fn loss(snapshot: &Snapshot, run: &Run<Location>, map: Option<&ZoneMap>, lost: &LostRows) -> Result<Loss> {
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
        // Without a zone map, the run's box gives the bounds.
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
