//! A run that a query reads, and the boxes or zones to read in it.

use std::sync::Arc;

use kubist_index::cube::{Geometry, GridBox};
use kubist_index::priority::PriorityRange;
use kubist_index::state::Run;

use crate::bind::Region;
use crate::grids::Within;
use kubist_format::location::Location;

/// The cost, in rows, of reading a page for a few zones, and of reading such a zone.
const LOOKED_UP_PAGE_ROWS: f64 = 1024.0;
const LOOKED_UP_ZONE_ROWS: f64 = 48.0;
/// Least cost of a run, in rows.
const LEAST_ROWS: f64 = 128.0;

#[derive(Clone)]
pub struct Visit {
    pub run: Arc<Run<Location>>,
    /// If not empty, rows must be inside every entry.
    pub within: Vec<Within>,
    /// If set, only these ascending zones can hold the indexed values.
    pub zones: Option<Arc<[u32]>>,
}

impl Visit {
    pub fn whole(run: Arc<Run<Location>>) -> Visit {
        Visit { run, within: Vec::new(), zones: None }
    }

    pub fn rows(&self, region: &Region, range: PriorityRange) -> f64 {
        let (first, last) = self.run.priorities;
        let share =
            (range.last.min(last) as f64 - range.first.max(first) as f64 + 1.0) / (last as f64 - first as f64 + 1.0);
        self.run.rows as f64 * share.clamp(0.0, 1.0) * region.share_of(&self.run)
    }

    /// The expected cost, in rows.
    pub fn cost(&self, region: &Region, range: PriorityRange) -> f64 {
        match &self.zones {
            Some(zones) => LOOKED_UP_PAGE_ROWS + zones.len() as f64 * LOOKED_UP_ZONE_ROWS,
            None => self.rows(region, range).max(LEAST_ROWS),
        }
    }

    /// Limits the visit to a box; `None` if no row can be inside.
    pub fn inside(mut self, grid_box: &GridBox, tree: &Geometry) -> Option<Visit> {
        let (location, k) = (&self.run.payload, tree.dimensions());
        if self.run.cube.grid() == tree.grid() {
            if (0..k).all(|d| grid_box.low[d] <= location.low[d] && location.high[d] <= grid_box.high[d]) {
                return Some(self);
            }
            if (0..k).any(|d| grid_box.low[d] > location.high[d] || location.low[d] > grid_box.high[d]) {
                return None;
            }
        }
        if *grid_box != tree.everything() {
            self.within.push(Within { grid: tree.grid(), boxes: [grid_box.clone()].into() });
        }
        Some(self)
    }
}
