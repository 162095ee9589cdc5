//! What can still be read of a run: page by page, each checked on its own.
//!
//! A page is what is lost at once: without one column's chunk its rows are not
//! whole. Where the bytes are those that were written, but some are no value of their
//! column (text that is no UTF-8), only the rows of these are lost. Without its zone map all of a run is lost, for that holds the frames that
//! values are packed in.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use kubist_index::order;
use kubist_index::priority::{is_identity_type, priorities};
use kubist_index::state::Run;

use kubist_catalog::error::is_damage;
use kubist_catalog::snapshot::Snapshot;
use kubist_format::location::Location;
use kubist_format::zone_map::ZoneMap;
use kubist_read::runs;
use kubist_types::error::Result;

/// A run, as far as it can be read.
pub struct Sound {
    /// `None` if it is damaged.
    pub map: Option<Arc<ZoneMap>>,
    /// Pages and their stored rows.
    pub pages: Vec<(usize, RecordBatch)>,
    /// The other stored rows of pages in which some hold what is no value.
    pub parts: Vec<RecordBatch>,
    pub lost: Vec<Lost>,
}

/// Rows that cannot be read.
pub struct Lost {
    pub rows: u64,
    /// The zones that they are in; `None`: all of the run.
    pub zones: Option<Range<usize>>,
    /// Names the file, the place in it and the cube.
    pub why: String,
}

/// Where lost rows lie along one dimension, in the column's unit.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Extent {
    pub column: String,
    pub low: f64,
    pub high: f64,
}

/// What a damaged place costs.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Loss {
    /// Names the file, the place in it and the cube.
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
    pub fn told(&self) -> String {
        let extents: Vec<String> =
            self.extents.iter().map(|extent| format!("{} in {}:{}", extent.column, extent.low, extent.high)).collect();
        let copies = match self.replicas {
            0 => String::new(),
            cubes => format!("; replicas in {cubes} cubes hold copies of some of them"),
        };
        format!("{}: costs {} rows with {}{copies}", self.what, self.rows, extents.join(", "))
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
        Sound { map: None, pages: vec![], parts: vec![], lost: vec![lost] }
    }

    /// All rows that can be read.
    pub fn batches(&self) -> impl Iterator<Item = &RecordBatch> {
        self.pages.iter().map(|(_, batch)| batch).chain(&self.parts)
    }
}

/// Everything of a run that is sound. An error only if the files of this snapshot
/// were cleaned away.
pub fn read_sound(snapshot: &Snapshot, run: &Arc<Run<Location>>) -> Result<Sound> {
    let all = |why: String| vec![Lost { rows: run.rows, zones: None, why }];
    let map = match snapshot.maps(std::iter::once(run)) {
        Ok((mut maps, _)) => maps.remove(0),
        Err(error) if is_damage(&error) => {
            return Ok(Sound { map: None, pages: vec![], parts: vec![], lost: all(error.to_string()) });
        }
        Err(error) => return Err(error),
    };
    let mut sound = Sound { map: Some(map.clone()), pages: vec![], parts: vec![], lost: vec![] };
    // In one piece if that can be read, else page by page.
    let whole = runs::data(snapshot, run, 0..run.payload.data_length).ok();
    for page in 0..map.pages() {
        let columns = map.columns.len();
        let (first, last) = (map.chunk(page, 0), map.chunk(page, columns - 1));
        let range = first.offset..last.offset + last.length as u64;
        let bytes = match &whole {
            Some(bytes) => Ok(bytes.slice(range.start as usize..range.end as usize)),
            None => runs::data(snapshot, run, range),
        };
        let decoded = bytes.and_then(|bytes| {
            let whole = runs::decode_pages(snapshot, run, &map, page..page + 1, &bytes);
            whole.map(Ok).or_else(|_| runs::decode_sound_rows(snapshot, run, &map, page, &bytes).map(Err))
        });
        match decoded {
            Ok(Ok(batch)) => sound.pages.push((page, batch)),
            Ok(Err((batch, bad))) => {
                sound.parts.push(batch);
                for (row, what) in bad {
                    let (zone, offset) = (zone_of(&map, page, row), map.chunk(page, 0).offset);
                    let why = runs::damaged(snapshot, run, offset, what).to_string();
                    sound.lost.push(Lost { rows: 1, zones: Some(zone..zone + 1), why });
                }
            }
            Err(error) if is_damage(&error) => {
                let zones = map.page_zones(page);
                let rows = map.rows[zones.clone()].iter().map(|rows| *rows as u64).sum();
                sound.lost.push(Lost { rows, zones: Some(zones), why: error.to_string() });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(sound)
}

/// What lost rows cost: where they lie, and whether replicas may have them.
pub fn loss(snapshot: &Snapshot, run: &Run<Location>, map: Option<&ZoneMap>, lost: &Lost) -> Result<Loss> {
    let stored = &snapshot.view.schema.stored;
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
        let frame = snapshot.core.frame().ok().flatten();
        let bits = snapshot.core.geometry.bits();
        // Without a zone map the grid says it, as exactly as it can.
        let edge =
            |coordinate: u32| frame.as_ref().map_or(f64::NAN, |frame| frame.scales[d].value_at(coordinate, bits));
        Extent {
            column: stored.field(column).name().clone(),
            low: low.map_or_else(|| edge(run.payload.low[d]), number),
            high: high.map_or_else(|| edge(run.payload.high[d].saturating_add(1)), number),
        }
    };
    let dimensions = snapshot.view.schema.dimensions.iter().enumerate();
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
