//! `Subregions`: disjoint subregions of a query's box, with statistics from the manifest.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::DataType;
use kubist_catalog::core::Core;
use kubist_catalog::frame::Frame;
use kubist_expr::{Nulls, Verdict, Zone};
use kubist_format::location::Location;
use kubist_format::names::REWRITES;
use kubist_index::cube::{CubeId, Interleaver, KEY_BITS, MortonKey};
use kubist_index::directory::subregions::{Bounds, Subregion};
use kubist_index::state::{Run, RunId};
use kubist_population::SubregionLocator;
use kubist_types::error::Result;

use super::{ANYTHING, LogicalPlan};

/// Parts of space that are completely inside the box.
pub struct Subregions {
    pub subregions: Vec<Subregion>,
    /// By subregion: the runs in its cube. Their rows of lowest priority are a sample of the subregion.
    runs: Vec<Vec<Arc<Run<Location>>>>,
    frame: Arc<Frame>,
}

impl LogicalPlan {
    /// The stored columns that determine the subregion of a row. `None` if the directory is not in memory,
    /// or subregions do not apply to the query.
    pub fn located_by(&self) -> Option<&[usize]> {
        let query = &self.query;
        let view = &query.snapshot.view;
        let dimensions = query.grids.dimensions(0);
        let is_known = view.schema.newest_grid() == 0
            && query.grids.are_known()
            && dimensions.iter().all(|column| view.schema.visible().contains(column))
            && view.runs.are_in_memory()
            && query.part.is_none()
            && query.sought.is_empty()
            && query.range().is_some_and(|range| range.is_all());
        let ends = query.ends();
        let known = |column: usize| ends.get(&column).copied().unwrap_or(ANYTHING);
        let only_box = query.predicate.is_always() || query.predicate.verdict(&known) == Verdict::All;
        (is_known && only_box).then_some(dimensions)
    }

    /// Divides the query's box into about `wanted` subregions of similar row counts, with smaller ones at
    /// its boundary. `None` if [`LogicalPlan::located_by`] returns `None`, or if the first division would
    /// arrange more than `most` runs.
    ///
    /// # Errors
    ///
    /// `Cancelled`, and the errors of [`kubist_catalog::directory::Runs::directory`].
    pub fn subregions(&self, wanted: usize, most: u64) -> Result<Option<Subregions>> {
        let query = &self.query;
        let Some((frame, grid_box)) = query.grids.frame(0).zip(query.region.boxes.in_tree(0)) else { return Ok(None) };
        if self.located_by().is_none() {
            return Ok(None);
        }
        let directory = query.snapshot.view.runs.directory(&query.snapshot.core, &query.cancel)?;
        // Rewrites may copy runs unchanged.
        let rewrites = RunId::new(Core::origin(REWRITES), 0, 0).origin();
        let is_placed = |run: RunId| run.origin() != rewrites;
        let is_worth = directory.knows_subtrees() || directory.len() as u64 <= most;
        let Some(subtrees) = is_worth.then(|| directory.subtrees(is_placed)).flatten() else { return Ok(None) };
        let bounded = query.bounded();
        let is_bounded: Vec<bool> = frame.dimensions.iter().map(|column| bounded.contains(column)).collect();
        let subregions = subtrees.divide(&Bounds { grid_box, is_bounded: &is_bounded }, wanted);
        let runs = subregions.iter().map(|subregion| directory.runs_of(subregion.cube).to_vec()).collect();
        Ok(Some(Subregions { subregions, runs, frame: frame.clone() }))
    }
}

impl Subregions {
    /// The bounds of a stored column in each subregion, as order keys; `None` if the manifest has no bounds.
    pub fn ends(&self, column: usize, data_type: &DataType) -> Vec<Option<(u64, u64)>> {
        let frame = &self.frame;
        if let Some(d) = frame.dimensions.iter().position(|dimension| *dimension == column) {
            let of_run = |run: &Arc<Run<Location>>| Some((run.payload.low[d], run.payload.high[d]));
            let last = frame.geometry.last_coordinate();
            let key = |coordinate: u32| frame.first_key(d, data_type, coordinate);
            let keys = |(low, high)| {
                Some((key(low)?, if high < last { key(high + 1)?.saturating_sub(1) } else { key(high)? }))
            };
            return self.around(of_run).map(|ends| ends.and_then(keys)).collect();
        }
        let of_run = |run: &Arc<Run<Location>>| {
            let Zone { min, max, nulls } = run.payload.ranges.as_ref().and_then(|ranges| ranges.zone(column))?;
            Some(if nulls == Nulls::All { (u64::MAX, 0) } else { (min, max) })
        };
        self.around(of_run).collect()
    }

    fn around<T: Ord + Copy>(
        &self,
        of_run: impl Fn(&Arc<Run<Location>>) -> Option<(T, T)>,
    ) -> impl Iterator<Item = Option<(T, T)>> {
        self.runs.iter().map(move |runs| {
            let mut ends = runs.iter().map(&of_run);
            let first = ends.next()??;
            let around = ends.try_fold(first, |all, ends| ends.map(|ends| (all.0.min(ends.0), all.1.max(ends.1))));
            around.filter(|(low, high)| low <= high)
        })
    }

    pub fn locator(&self) -> Arc<dyn SubregionLocator> {
        Arc::new(Located::new(&self.frame, self.subregions.iter().map(|subregion| subregion.cube)))
    }
}

struct Located {
    /// The first key of each subregion, ascending.
    firsts: Vec<MortonKey>,
    lasts: Vec<MortonKey>,
    /// By the highest bits of a key: number of subregions that begin before all such keys, plus a final
    /// entry.
    begun: Vec<u32>,
    interleaver: Interleaver,
    frame: Arc<Frame>,
}

/// Number of highest key bits in `begun`.
const LOOKED_UP: u32 = 12;

impl Located {
    fn new(frame: &Arc<Frame>, cubes: impl Iterator<Item = CubeId> + Clone) -> Located {
        let tree = frame.geometry;
        let firsts: Vec<MortonKey> = cubes.clone().map(CubeId::first_key).collect();
        let before = |bits: u128| firsts.partition_point(|first| *first < bits << (KEY_BITS - LOOKED_UP)) as u32;
        Located {
            begun: (0..=1 << LOOKED_UP).map(before).collect(),
            lasts: cubes.map(|cube| tree.last_key(cube)).collect(),
            firsts,
            interleaver: Interleaver::new(tree),
            frame: frame.clone(),
        }
    }

    fn subregion(&self, key: MortonKey) -> Option<u32> {
        let bits = (key >> (KEY_BITS - LOOKED_UP)) as usize;
        let (first, end) = (self.begun[bits] as usize, self.begun[bits + 1] as usize);
        let behind = first + self.firsts[first..end].partition_point(|first| *first <= key);
        let subregion = behind.checked_sub(1)?;
        (key <= self.lasts[subregion]).then_some(subregion as u32)
    }
}

impl SubregionLocator for Located {
    fn of(&self, dimensions: &[ArrayRef]) -> Vec<Option<u32>> {
        let coordinates = dimensions.iter().enumerate().map(|(d, array)| self.frame.coordinates(d, array.as_ref()));
        let (coordinates, mut keys): (Vec<Vec<u32>>, _) = (coordinates.collect(), Vec::new());
        self.interleaver.keys(&coordinates, &mut keys);
        keys.into_iter().map(|key| self.subregion(key)).collect()
    }
}
