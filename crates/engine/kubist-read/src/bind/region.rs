//! Where rows of a query can be in each grid, from its predicate and its part.

use std::sync::Arc;

use kubist_index::cube::{Geometry, GridBox};
use kubist_index::forest;
use kubist_index::order;
use kubist_index::state::Run;

use crate::bind::BoundQuery;
use crate::grids::Grids;
use kubist_format::location::Location;

#[derive(Clone)]
pub struct Region {
    grids: Arc<Grids>,
    pub boxes: forest::Region,
}

impl Region {
    pub(super) fn everything(grids: Arc<Grids>) -> Region {
        Region { boxes: forest::Region::everything(grids.forest()), grids }
    }

    pub fn is_everything(&self) -> bool {
        self.boxes == forest::Region::everything(self.grids.forest())
    }

    fn around(&self, run: &Run<Location>) -> Option<(Geometry, &GridBox)> {
        self.grids.tree(run.cube.grid()).zip(self.boxes.in_tree(run.cube.grid()))
    }

    pub fn meets(&self, run: &Run<Location>) -> bool {
        let Some((tree, asked)) = self.around(run) else { return false };
        let location = &run.payload;
        (0..tree.dimensions()).all(|d| location.low[d] <= asked.high[d] && location.high[d] >= asked.low[d])
    }

    /// The fraction of the run's bounding box in the region.
    pub fn share_of(&self, run: &Run<Location>) -> f64 {
        let Some((tree, asked)) = self.around(run) else { return 0.0 };
        let location = &run.payload;
        let side = |d: usize| {
            let low = location.low[d].max(asked.low[d]) as f64;
            let high = location.high[d].min(asked.high[d]) as f64;
            (high - low + 1.0) / (location.high[d] as f64 - location.low[d] as f64 + 1.0)
        };
        (0..tree.dimensions()).map(|d| side(d).max(0.0)).product()
    }

    /// By dimension of the newest grid: the fraction of coordinates.
    pub fn shares(&self) -> Vec<f64> {
        let newest = self.grids.newest();
        let Some((tree, asked)) = self.grids.tree(newest).zip(self.boxes.in_tree(newest)) else { return Vec::new() };
        let all = tree.last_coordinate() as f64 + 1.0;
        let side = |d: usize| (asked.high[d] as f64 - asked.low[d] as f64 + 1.0).max(0.0) / all;
        (0..tree.dimensions()).map(side).collect()
    }

    /// True if all rows of a run are certainly inside. `bounded` are the stored columns with bounds. False
    /// if a bounding box touches the boundary coordinate of the region, where values decide, or if a
    /// bounded column is no dimension of the run.
    pub fn holds(&self, run: &Run<Location>, bounded: &[usize]) -> bool {
        let Some((tree, asked)) = self.around(run) else { return false };
        let (location, all, columns) = (&run.payload, tree.everything(), self.grids.dimensions(run.cube.grid()));
        let open =
            |d: usize| asked.low[d] == all.low[d] && asked.high[d] == all.high[d] && !bounded.contains(&columns[d]);
        columns.len() == tree.dimensions()
            && bounded.iter().all(|column| columns.contains(column))
            && (0..tree.dimensions())
                .all(|d| open(d) || (asked.low[d] < location.low[d] && location.high[d] < asked.high[d]))
    }
}

impl BoundQuery {
    pub(crate) fn bounds(&self) -> Vec<(String, f64, f64)> {
        let schema = &self.snapshot.view.schema;
        let bounds = schema.dimensions.iter().filter_map(|dimension| {
            let place = schema.visible().iter().position(|column| column == dimension)?;
            let data_type = schema.stored.field(*dimension).data_type();
            let (first, last) = order::number_keys(data_type);
            let (low, high) = self.predicate.keys_of(place).numbers?;
            let (low, high) = (low.max(first), high.min(last));
            let ends = [low, high].map(|key| order::number(data_type, key));
            let name = schema.user_field(*dimension).name().clone();
            (first < low || high < last).then_some((name, ends[0], ends[1]))
        });
        bounds.collect()
    }

    pub(super) fn confine(&mut self) {
        match self.grids.region(&self.snapshot.view.schema, &self.predicate) {
            Some(boxes) => self.region.boxes = boxes,
            None => self.range = None,
        }
        let Some(part) = &self.part else { return };
        self.range = self.range.and_then(|range| range.intersect(part.range()));
        let own = self.grids.tree(part.grid).zip(self.region.boxes.in_tree(part.grid).cloned());
        let Some((tree, mut both)) = own else { return };
        for d in 0..tree.dimensions() {
            (both.low[d], both.high[d]) = (both.low[d].max(part.low[d]), both.high[d].min(part.high[d]));
        }
        // Other grids may still have rows of the part.
        match (0..tree.dimensions()).all(|d| both.low[d] <= both.high[d]) {
            true => self.region.boxes.insert(part.grid, both),
            false => self.region.boxes.remove(part.grid),
        }
    }
}
