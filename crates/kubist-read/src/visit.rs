//! One run that a query reads, and which part of it.

use std::sync::Arc;

use kubist_index::cube::GridBox;
use kubist_index::priority::PriorityRange;
use kubist_index::state::Run;

use crate::bind::Region;
use kubist_format::location::Location;

/// What reading a page for few of its zones costs, in rows, and each of them.
const LOOKED_UP_PAGE_ROWS: f64 = 1024.0;
const LOOKED_UP_ZONE_ROWS: f64 = 48.0;
/// What any run costs, however few of its rows are asked for.
const LEAST_ROWS: f64 = 128.0;

/// A run to read, perhaps only inside some boxes, which have no point in common.
#[derive(Clone)]
pub struct Visit {
    pub run: Arc<Run<Location>>,
    pub within: Option<Arc<[GridBox]>>,
    /// Only these zones, ascending, can hold what is looked up.
    pub zones: Option<Arc<[u32]>>,
}

impl Visit {
    /// All of a run.
    pub fn whole(run: Arc<Run<Location>>) -> Visit {
        Visit { run, within: None, zones: None }
    }

    /// About how many of its rows have a priority in `range` and lie in the region.
    pub fn rows(&self, region: &Region, range: PriorityRange) -> f64 {
        let (first, last) = self.run.priorities;
        let share =
            (range.last.min(last) as f64 - range.first.max(first) as f64 + 1.0) / (last as f64 - first as f64 + 1.0);
        self.run.rows as f64 * share.clamp(0.0, 1.0) * region.share_of(&self.run)
    }

    /// About what reading it costs, in rows.
    pub fn cost(&self, region: &Region, range: PriorityRange) -> f64 {
        match &self.zones {
            Some(zones) => LOOKED_UP_PAGE_ROWS + zones.len() as f64 * LOOKED_UP_ZONE_ROWS,
            None => self.rows(region, range).max(LEAST_ROWS),
        }
    }

    /// What of it lies inside one more box of `dimensions` dimensions, if anything.
    pub fn inside(self, part: &GridBox, dimensions: usize) -> Option<Visit> {
        let (location, k) = (&self.run.payload, dimensions);
        let within = match &self.within {
            None if (0..k).all(|d| part.low[d] <= location.low[d] && location.high[d] <= part.high[d]) => {
                return Some(self);
            }
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
        let meets = |one: &GridBox| (0..k).all(|d| one.low[d] <= location.high[d] && location.low[d] <= one.high[d]);
        within.iter().any(meets).then_some(Visit { within: Some(within), ..self })
    }
}
