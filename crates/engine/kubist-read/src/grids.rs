//! The grids of a snapshot for queries. A run is in the grid of its cube, and the region of a query has a
//! box in each grid.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::ArrayRef;
use kubist_catalog::frame::Frame;
use kubist_catalog::schema::TableSchema;
use kubist_catalog::snapshot::Snapshot;
use kubist_expr::{Predicate, Zone};
use kubist_format::zone_map::ZoneMap;
use kubist_index::cube::{Geometry, GridBox};
use kubist_index::forest::{Forest, Region};
use kubist_index::order;
use kubist_types::{Error, Result};

#[derive(Clone)]
pub struct Grids {
    forest: Forest,
    /// A damaged table may lack a grid; positions in it are then unknown.
    frames: BTreeMap<u32, Arc<Frame>>,
    newest: u32,
    location: String,
}

#[derive(Clone, Debug)]
pub struct Within {
    pub grid: u32,
    pub boxes: Arc<[GridBox]>,
}

impl Grids {
    /// # Errors
    ///
    /// A storage error or `Damaged` if a grid cannot be read.
    pub fn of(snapshot: &Snapshot) -> Result<Grids> {
        let (core, schema) = (&snapshot.core, &snapshot.view.schema);
        let (mut frames, newest) = (BTreeMap::new(), schema.newest_grid());
        for grid in 0..=newest {
            if let Some(frame) = core.frame(schema, grid)? {
                frames.insert(grid, frame);
            }
        }
        let location = core.store.location().into();
        Ok(Grids { forest: core.forest(), frames, newest, location })
    }

    pub fn forest(&self) -> &Forest {
        &self.forest
    }

    pub fn newest(&self) -> u32 {
        self.newest
    }

    pub fn frame(&self, grid: u32) -> Option<&Arc<Frame>> {
        self.frames.get(&grid)
    }

    pub fn tree(&self, grid: u32) -> Option<Geometry> {
        self.forest.tree(grid)
    }

    pub fn are_known(&self) -> bool {
        self.forest.trees().all(|tree| tree.grid() > self.newest || self.frames.contains_key(&tree.grid()))
    }

    /// The domain in the oldest grid with this dimension, from which cells are counted, independent of later grids.
    pub fn first_domain(&self, column: usize) -> Option<(f64, f64)> {
        self.frames.values().find_map(|frame| {
            let d = frame.dimensions.iter().position(|dimension| *dimension == column)?;
            Some(frame.scales[d].domain())
        })
    }

    pub fn dimensions(&self, grid: u32) -> &[usize] {
        self.frame(grid).map_or(&[], |frame| &frame.dimensions)
    }

    /// # Errors
    ///
    /// `NotATable` if the grid is missing.
    pub fn coordinates(&self, grid: u32, dimensions: &[ArrayRef]) -> Result<Vec<Vec<u32>>> {
        let missing = || {
            let why = if grid == 0 { "its grid is missing".into() } else { format!("its grid {grid} is missing") };
            Error::NotATable { location: self.location.clone(), why }
        };
        let frame = self.frame(grid).ok_or_else(missing)?;
        Ok(dimensions.iter().enumerate().map(|(d, array)| frame.coordinates(d, array.as_ref())).collect())
    }

    /// The box of a zone in a grid; `None` if a row has a null or NaN.
    pub fn box_of_zone(&self, schema: &TableSchema, grid: u32, map: &ZoneMap, zone: usize) -> Option<GridBox> {
        let frame = self.frame(grid)?;
        let mut around = frame.geometry.everything();
        for (d, column) in frame.dimensions.iter().enumerate() {
            let data_type = schema.stored.field(*column).data_type();
            let (first, last) = order::number_keys(data_type);
            let (min, max, nulls) = match map.columns.get(*column) {
                Some(zones) => (zones.min[zone], zones.max[zone], zones.nulls_of(zone) > 0),
                None => {
                    let Zone { min, max, nulls } = schema.zone_of_default(*column);
                    (min, max, nulls != kubist_expr::Nulls::None)
                }
            };
            if nulls || min < first || max > last {
                return None;
            }
            let place = |key| frame.scales[d].coordinate(order::number(data_type, key), frame.geometry.bits());
            (around.low[d], around.high[d]) = (place(min), place(max));
        }
        Some(around)
    }

    /// By grid: where rows that satisfy a predicate can be, or `None` if there can be none.
    pub fn region(&self, schema: &TableSchema, predicate: &Predicate) -> Option<Region> {
        let mut region = Region::everything(&self.forest);
        for (grid, frame) in &self.frames {
            region.insert(*grid, confined(schema, frame, predicate)?);
        }
        Some(region)
    }
}

fn confined(schema: &TableSchema, frame: &Frame, predicate: &Predicate) -> Option<GridBox> {
    let mut grid_box = frame.geometry.everything();
    let bits = frame.geometry.bits();
    for (d, column) in frame.dimensions.iter().enumerate() {
        let Some(place) = schema.visible().iter().position(|seen| seen == column) else { continue };
        let data_type = schema.stored.field(*column).data_type();
        let keys = predicate.keys_of(place);
        let numbers = order::number_keys(data_type);
        let keys_of_numbers = keys.numbers.map(|(low, high)| (low.max(numbers.0), high.min(numbers.1)));
        let coordinate = |key| frame.scales[d].coordinate(order::number(data_type, key), bits);
        // Null and NaN have the last coordinate.
        let odd = frame.geometry.last_coordinate();
        let (low, high) = match (keys_of_numbers, keys.others) {
            (Some((low, high)), false) => (coordinate(low), coordinate(high)),
            (Some((low, _)), true) => (coordinate(low), odd),
            (None, true) => (odd, odd),
            (None, false) => return None,
        };
        if low > high {
            return None;
        }
        (grid_box.low[d], grid_box.high[d]) = (low, high);
    }
    Some(grid_box)
}
