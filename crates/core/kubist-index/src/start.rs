//! Choice of the cubes where a query starts: the root, or replicas further down.
//!
//! A region of the box may be read from any cube that contains it, its *source*. The source's replicas replace the runs
//! above that they copy, and the runs between the source and the region are read directly. By I4, every division of the
//! box into regions with one source each gives the same rows. This module chooses a division that reads little, and
//! compares only runs that a replica copies.

use std::sync::Arc;

use crate::cube::{CubeId, Geometry, GridBox};
use crate::directory::{Directory, meets};
use crate::gradual::{Steps, Stop};
use crate::priority::PriorityRange;
use crate::state::Run;

/// Minimum number of rows that are read together: about a page of small zones.
const PAGE_ROWS: f64 = 256.0;
/// Additional cost of reading a run, in rows: its lookup and its zone map.
const TOUCH_ROWS: f64 = 32.0;

/// A region and its source: points of `region` are read with the replicas in `source`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    pub region: CubeId,
    pub source: CubeId,
}

impl Start {
    pub const fn root(grid: u32) -> Start {
        Start { region: CubeId::root(grid), source: CubeId::root(grid) }
    }
}

struct Above<'a, L> {
    source: CubeId,
    runs: Vec<&'a Arc<Run<L>>>,
}

impl<L> Directory<L> {
    /// Returns the starts in one tree, whose regions cover the box without containing each other.
    ///
    /// # Errors
    ///
    /// `Stopped` if the work was cancelled.
    pub fn starts<S: Stop>(
        &self,
        tree: &Geometry,
        grid_box: &GridBox,
        range: PriorityRange,
        steps: &mut Steps<'_, S>,
    ) -> Result<Vec<Start>, S::Stopped> {
        let mut chosen = Vec::new();
        let nothing = Above { source: tree.root(), runs: Vec::new() };
        self.choose(tree, tree.root(), &nothing, grid_box, range, &mut chosen, steps)?;
        Ok(chosen)
    }

    /// Appends the starts for a cube. Returns their cost with all reads at and below the cube, and the cost of these
    /// reads alone for a start above the cube.
    #[allow(clippy::too_many_arguments)]
    fn choose<'a, S: Stop>(
        &'a self,
        tree: &Geometry,
        cube: CubeId,
        above: &Above<'a, L>,
        grid_box: &GridBox,
        range: PriorityRange,
        chosen: &mut Vec<Start>,
        steps: &mut Steps<'_, S>,
    ) -> Result<(f64, f64), S::Stopped> {
        let span = tree.span(cube);
        let cost = |runs: &[&Arc<Run<L>>]| runs.iter().map(|run| cost(tree, run, &span, grid_box, range)).sum::<f64>();
        let (mut source, mut runs) = (above.source, above.runs.clone());
        let mut best = cost(&runs);
        let replicas = self.replicas_in(cube);
        // To estimate a run takes about 12 times as long as to skip it.
        steps.step(16 * (1 + runs.len() + replicas.len()))?;
        if !replicas.is_empty() {
            let ancestors = tree.ancestors(cube).flat_map(|ancestor| self.copied_runs(ancestor, range));
            let open = ancestors.filter(|run| !replicas.iter().any(|replica| replica.copies.contains(&run.id)));
            let own: Vec<_> = replicas.iter().filter(|replica| meets(replica, range)).chain(open).collect();
            let other = cost(&own);
            if other < best {
                (source, runs, best) = (cube, own, other);
            }
        }
        let k = tree.dimensions();
        let inside = (0..k).all(|d| grid_box.low[d] <= span.low[d] && span.high[d] <= grid_box.high[d]);
        if inside || self.cutoff(cube).admits(range.last) || !self.has_replicas_below(tree, cube) {
            chosen.push(Start { region: cube, source });
            return Ok((best, 0.0));
        }
        let own: Vec<_> = self.copied_runs(cube, range).collect();
        let mut alone = cost(&own);
        runs.extend(own);
        let (first, here) = (chosen.len(), Above { source, runs });
        let children = tree.children(cube).filter(|child| tree.meets(*child, grid_box));
        let mut divided = 0.0;
        for child in children {
            let (cost, below) = self.choose(tree, child, &here, grid_box, range, chosen, steps)?;
            divided += cost;
            alone += below;
        }
        if divided < best + alone {
            return Ok((divided, alone));
        }
        chosen.truncate(first);
        chosen.push(Start { region: cube, source });
        Ok((best + alone, alone))
    }

    fn has_replicas_below(&self, tree: &Geometry, cube: CubeId) -> bool {
        self.copies.behind(cube).is_some_and(|other| tree.contains(cube, other))
    }
}

/// Estimates the rows to read from a run for a region of the box, if the run's rows are spread evenly over its cube:
/// the rows in the region, and about one page more per stratum. A doubling of the priority has two strata.
fn cost<L>(tree: &Geometry, run: &Run<L>, region: &GridBox, grid_box: &GridBox, range: PriorityRange) -> f64 {
    if run.rows == 0 {
        return 0.0;
    }
    let cube = tree.span(run.cube);
    let mut share = 1.0;
    for d in 0..tree.dimensions() {
        let low = region.low[d].max(grid_box.low[d]).max(cube.low[d]) as f64;
        let high = region.high[d].min(grid_box.high[d]).min(cube.high[d]) as f64;
        share *= ((high - low + 1.0) / (cube.high[d] as f64 - cube.low[d] as f64 + 1.0)).clamp(0.0, 1.0);
    }
    let (first, last) = (run.priorities.0 as f64, run.priorities.1 as f64);
    let asked = (range.last as f64).min(last) - (range.first as f64).max(first);
    let rows = run.rows as f64 * (asked / (last - first).max(1.0)).clamp(0.0, 1.0);
    let beside = rows.min(PAGE_ROWS * (1.0 + 2.0 * (rows / PAGE_ROWS).max(1.0).log2()));
    TOUCH_ROWS + share * rows + (1.0 - share) * beside
}
