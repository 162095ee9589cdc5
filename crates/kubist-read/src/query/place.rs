//! Where the records of a question can lie: what its predicate leaves of each dimension,
//! and the part of space that it is about.

use std::sync::Arc;

use kubist_index::cube::GridBox;
use kubist_index::order;

use crate::query::Question;
use crate::query::scan::Visit;

impl Question {
    /// Once the predicate is known: where the records that it selects can lie.
    pub(super) fn settle(&mut self) {
        self.confine();
        self.find_values();
    }

    /// Narrows the box to what the predicate and the part leave of each dimension.
    fn confine(&mut self) {
        let schema = &self.snapshot.view.schema;
        if let Some(part) = &self.part {
            self.range = self.range.and_then(|range| range.intersect(part.range()));
            self.grid_box.low = part.low;
            self.grid_box.high.iter_mut().zip(part.high).for_each(|(high, of_part)| *high = of_part.min(*high));
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
            let odd = self.snapshot.core.geometry.everything().high[d];
            let (low, high) = match (keys_of_numbers, keys.others) {
                (Some((low, high)), false) => (coordinate(low), coordinate(high)),
                (Some((low, _)), true) => (coordinate(low), odd),
                (None, true) => (odd, odd),
                (None, false) => {
                    self.range = None;
                    return;
                }
            };
            self.grid_box.low[d] = self.grid_box.low[d].max(low);
            self.grid_box.high[d] = self.grid_box.high[d].min(high);
            if self.grid_box.low[d] > self.grid_box.high[d] {
                self.range = None;
            }
        }
    }

    /// What a visit reads inside a box, if anything.
    pub(super) fn inside(&self, visit: Visit, part: &GridBox) -> Option<Visit> {
        let (place, k) = (&visit.run.payload, self.snapshot.core.geometry.dimensions());
        let within = match &visit.within {
            None if (0..k).all(|d| part.low[d] <= place.low[d] && place.high[d] <= part.high[d]) => return Some(visit),
            None => [part.clone()].into(),
            Some(boxes) => {
                let common = |one: &GridBox| {
                    let mut both = one.clone();
                    (0..k).for_each(|d| both.low[d] = one.low[d].max(part.low[d]));
                    (0..k).for_each(|d| both.high[d] = one.high[d].min(part.high[d]));
                    (0..k).all(|d| both.low[d] <= both.high[d]).then_some(both)
                };
                boxes.iter().filter_map(common).collect::<Arc<[GridBox]>>()
            }
        };
        let meets = |one: &GridBox| (0..k).all(|d| one.low[d] <= place.high[d] && place.low[d] <= one.high[d]);
        within.iter().any(meets).then_some(Visit { within: Some(within), ..visit })
    }
}
