//! Where in the grid the records of a query can lie: what its predicate leaves of each
//! dimension, and the part of space that it is about.

use kubist_index::cube::{Geometry, GridBox};
use kubist_index::order;
use kubist_index::state::Run;

use crate::bind::BoundQuery;
use kubist_format::location::Location;

/// A box of the grid.
#[derive(Clone, Debug)]
pub struct Region {
    geometry: Geometry,
    pub grid_box: GridBox,
}

impl Region {
    pub(super) fn everything(geometry: Geometry) -> Region {
        Region { geometry, grid_box: geometry.everything() }
    }

    /// Is it the whole grid?
    pub fn is_everything(&self) -> bool {
        self.grid_box == self.geometry.everything()
    }

    /// Can rows of a run lie in it?
    pub fn meets(&self, run: &Run<Location>) -> bool {
        let (location, asked) = (&run.payload, &self.grid_box);
        (0..self.geometry.dimensions()).all(|d| location.low[d] <= asked.high[d] && location.high[d] >= asked.low[d])
    }

    /// How much of the box around a run's rows it covers.
    pub fn share_of(&self, run: &Run<Location>) -> f64 {
        let location = &run.payload;
        let side = |d: usize| {
            let low = location.low[d].max(self.grid_box.low[d]) as f64;
            let high = location.high[d].min(self.grid_box.high[d]) as f64;
            (high - low + 1.0) / (location.high[d] as f64 - location.low[d] as f64 + 1.0)
        };
        (0..self.geometry.dimensions()).map(|d| side(d).max(0.0)).product()
    }

    /// How much of each dimension's coordinates it covers.
    pub fn shares(&self) -> Vec<f64> {
        let all = self.geometry.last_coordinate() as f64 + 1.0;
        let side = |d: usize| (self.grid_box.high[d] as f64 - self.grid_box.low[d] as f64 + 1.0).max(0.0) / all;
        (0..self.geometry.dimensions()).map(side).collect()
    }

    /// Do all rows of a run lie inside it, as far as coordinates tell? Where an end falls
    /// within the coordinate of the box's end the values decide, unless the dimension is not
    /// `bounded` at all.
    pub fn holds(&self, run: &Run<Location>, bounded: impl Fn(usize) -> bool) -> bool {
        let (location, asked, all) = (&run.payload, &self.grid_box, self.geometry.everything());
        let open = |d: usize| asked.low[d] == all.low[d] && asked.high[d] == all.high[d] && !bounded(d);
        (0..self.geometry.dimensions())
            .all(|d| open(d) || (asked.low[d] < location.low[d] && location.high[d] < asked.high[d]))
    }
}

impl BoundQuery {
    /// Narrows the region to what the predicate and the part leave of each dimension.
    pub(super) fn confine(&mut self) {
        let schema = &self.snapshot.view.schema;
        let grid_box = &mut self.region.grid_box;
        if let Some(part) = &self.part {
            self.range = self.range.and_then(|range| range.intersect(part.range()));
            grid_box.low = part.low;
            grid_box.high.iter_mut().zip(part.high).for_each(|(high, of_part)| *high = of_part.min(*high));
        }
        let Some(frame) = &self.frame else { return };
        let bits = frame.geometry.bits();
        for (d, column) in schema.dimensions.iter().enumerate() {
            let Some(place) = schema.visible().iter().position(|seen| seen == column) else { continue };
            let data_type = schema.stored.field(*column).data_type();
            let keys = self.predicate.keys_of(place);
            let numbers = order::number_keys(data_type);
            let keys_of_numbers = keys.numbers.map(|(low, high)| (low.max(numbers.0), high.min(numbers.1)));
            let coordinate = |key| frame.scales[d].coordinate(order::number(data_type, key), bits);
            // What is no number has the last coordinate.
            let odd = frame.geometry.last_coordinate();
            let (low, high) = match (keys_of_numbers, keys.others) {
                (Some((low, high)), false) => (coordinate(low), coordinate(high)),
                (Some((low, _)), true) => (coordinate(low), odd),
                (None, true) => (odd, odd),
                (None, false) => {
                    self.range = None;
                    return;
                }
            };
            grid_box.low[d] = grid_box.low[d].max(low);
            grid_box.high[d] = grid_box.high[d].min(high);
            if grid_box.low[d] > grid_box.high[d] {
                self.range = None;
            }
        }
    }
}
