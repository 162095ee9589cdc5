//! Where the records of a question can lie: what its predicate leaves of each dimension,
//! and the part of space that it is about.

use kubist_index::cube::GridBox;

use crate::grids::Within;
use crate::query::Question;
use crate::query::scan::Visit;
use crate::question::Part;

impl Question {
    /// Once the predicate is known: where the records that it selects can lie.
    pub(super) fn settle(&mut self) {
        self.confine();
        self.find_values();
    }

    /// Narrows the box to what the predicate and the part leave of each dimension.
    fn confine(&mut self) {
        if let Some(part) = &self.part {
            self.range = self.range.and_then(|range| range.intersect(part.range()));
        }
        match self.grids.region(&self.snapshot.view.schema, &self.predicate) {
            Some(region) => self.region = region,
            None => self.range = None,
        }
        if let Some(part) = &self.part {
            let Some(mut both) = self.region.in_tree(part.grid).cloned() else { return };
            let dimensions = self.grids.tree(part.grid).map_or(0, |tree| tree.dimensions());
            for d in 0..dimensions {
                (both.low[d], both.high[d]) = (both.low[d].max(part.low[d]), both.high[d].min(part.high[d]));
            }
            // Nothing of the part's own tree can match; other trees may have rows there.
            match (0..dimensions).all(|d| both.low[d] <= both.high[d]) {
                true => self.region.insert(part.grid, both),
                false => self.region.remove(part.grid),
            }
        }
    }

    /// What a visit reads inside a part, if anything.
    pub(super) fn inside(&self, mut visit: Visit, part: &Part) -> Option<Visit> {
        let (place, own) = (&visit.run.payload, visit.run.cube.grid() == part.grid);
        let (tree, grid_box) = (self.grids.tree(part.grid)?, part.grid_box());
        let k = tree.dimensions();
        if own && (0..k).all(|d| part.low[d] <= place.low[d] && place.high[d] <= part.high[d]) {
            return Some(visit);
        }
        let meets = |one: &GridBox| (0..k).all(|d| one.low[d] <= place.high[d] && place.low[d] <= one.high[d]);
        if own && !meets(&grid_box) {
            return None;
        }
        if grid_box != tree.everything() {
            visit.within.push(Within { grid: part.grid, boxes: [grid_box].into() });
        }
        Some(visit)
    }
}
