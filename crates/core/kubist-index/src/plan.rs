//! The query planner: selects the runs to read from metadata alone.
//!
//! In each tree, take the region's box R in the tree's coordinates, and the range of priorities. Walk down from each
//! start cube over the cubes that intersect R. Read a cube's runs if their priorities meet the range. Go below a cube
//! only if the range reaches its cutoff (I2). At a start below the root, replicas in or above it replace the ancestors'
//! runs that they copy. The other ancestor runs are read once, restricted to the starts whose replicas do not cover
//! them. `start` chooses the start cubes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::cube::{CubeId, Geometry, GridBox};
use crate::directory::{Directory, meets};
use crate::forest::Region;
use crate::gradual::{Steps, Stop};
use crate::priority::PriorityRange;
use crate::start::Start;
use crate::state::{Run, RunId};

/// A run to read; only its points inside the cubes of `within`, if given.
#[derive(Debug)]
pub struct Visit<'a, L> {
    pub run: &'a Arc<Run<L>>,
    pub within: Option<Arc<[CubeId]>>,
}

#[derive(Debug)]
pub struct Plan<'a, L> {
    pub visits: Vec<Visit<'a, L>>,
    pub cubes_visited: u64,
}

impl<L> Directory<L> {
    /// # Errors
    ///
    /// `Stopped` if the work was cancelled.
    pub fn plan<S: Stop>(&self, region: &Region, range: PriorityRange, stop: &S) -> Result<Plan<'_, L>, S::Stopped> {
        let (mut plan, mut steps) = (Plan { visits: Vec::new(), cubes_visited: 0 }, Steps::new(stop));
        for (tree, grid_box) in self.asked(region) {
            let starts = match self.copies.is_empty() {
                true => vec![Start::root(tree.grid())],
                false => self.starts(&tree, grid_box, range, &mut steps)?,
            };
            self.plan_tree(&tree, &starts, grid_box, range, &mut plan, &mut steps)?;
        }
        Ok(plan)
    }

    /// # Errors
    ///
    /// `Stopped` if the work was cancelled.
    pub fn plan_primaries<S: Stop>(
        &self,
        region: &Region,
        range: PriorityRange,
        stop: &S,
    ) -> Result<Plan<'_, L>, S::Stopped> {
        let roots: Vec<Start> = self.forest().trees().map(|tree| Start::root(tree.grid())).collect();
        self.plan_from(&roots, region, range, stop)
    }

    /// The starts' regions must cover the region in each tree without containing each other.
    ///
    /// # Errors
    ///
    /// `Stopped` if the work was cancelled.
    pub fn plan_from<S: Stop>(
        &self,
        starts: &[Start],
        region: &Region,
        range: PriorityRange,
        stop: &S,
    ) -> Result<Plan<'_, L>, S::Stopped> {
        let (mut plan, mut steps) = (Plan { visits: Vec::new(), cubes_visited: 0 }, Steps::new(stop));
        for (tree, grid_box) in self.asked(region) {
            let grid = tree.grid();
            let of_tree: Vec<Start> = starts.iter().filter(|start| start.region.grid() == grid).copied().collect();
            self.plan_tree(&tree, &of_tree, grid_box, range, &mut plan, &mut steps)?;
        }
        Ok(plan)
    }

    fn asked<'a>(&'a self, region: &'a Region) -> impl Iterator<Item = (Geometry, &'a GridBox)> {
        self.trees().filter_map(|tree| region.in_tree(tree.grid()).map(|grid_box| (tree, grid_box)))
    }

    fn plan_tree<'a, S: Stop>(
        &'a self,
        geometry: &Geometry,
        starts: &[Start],
        grid_box: &GridBox,
        range: PriorityRange,
        plan: &mut Plan<'a, L>,
        steps: &mut Steps<'_, S>,
    ) -> Result<(), S::Stopped> {
        let starts: Vec<&Start> = starts.iter().filter(|start| geometry.meets(start.region, grid_box)).collect();
        let (mut below, mut using): (BTreeMap<_, Vec<&Start>>, BTreeMap<_, Vec<&Start>>) = Default::default();
        for start in &starts {
            steps.step(1 + start.region.level() as usize)?;
            for ancestor in geometry.ancestors(start.region) {
                below.entry(ancestor).or_default().push(start);
            }
            using.entry(start.source).or_default().push(start);
        }
        let mut covered: HashMap<CubeId, HashSet<RunId>> = HashMap::new();
        for (source, users) in &using {
            let whole = users[0].region == *source || users.len() == below[source].len();
            let replicas = self.replicas_in(*source);
            steps.step(1 + replicas.iter().map(|replica| replica.copies.len()).sum::<usize>())?;
            for replica in replicas.iter().filter(|replica| replica.rows > 0 && meets(replica, range)) {
                let within = (!whole).then(|| regions(users.iter()));
                plan.visits.push(Visit { run: replica, within });
            }
            covered.insert(*source, replicas.iter().flat_map(|replica| replica.copies.iter().copied()).collect());
        }
        for (ancestor, starts) in &below {
            let Some((block, index)) = self.primaries.find(*ancestor) else { continue };
            plan.cubes_visited += 1;
            for (run, is_copied) in block.readable(index, range) {
                steps.step(1)?;
                // Most runs are not copied, so the starts need no check.
                if !is_copied {
                    plan.visits.push(Visit { run, within: None });
                    continue;
                }
                steps.step(starts.len())?;
                let open: Vec<&&Start> =
                    starts.iter().filter(|start| !covered[&start.source].contains(&run.id)).collect();
                if !open.is_empty() {
                    let within = (open.len() < starts.len()).then(|| regions(open.into_iter()));
                    plan.visits.push(Visit { run, within });
                }
            }
        }
        for start in &starts {
            self.walk(geometry, start.region, grid_box, range, plan, steps)?;
        }
        Ok(())
    }

    fn walk<'a, S: Stop>(
        &'a self,
        geometry: &Geometry,
        start: CubeId,
        grid_box: &GridBox,
        range: PriorityRange,
        plan: &mut Plan<'a, L>,
        steps: &mut Steps<'_, S>,
    ) -> Result<(), S::Stopped> {
        let (k, stride, end) = (geometry.dimensions(), self.primaries.stride, geometry.end_of(start));
        let (mut at, mut index) = self.primaries.seek(start);
        while let Some(block) = self.primaries.get(at) {
            let mut past = 0;
            while index < block.cubes.len() {
                if block.cubes[index].to_u128() >= end {
                    return Ok(());
                }
                steps.step(1)?;
                let span = block.span(index, stride);
                let meets = (0..k).all(|d| span[d] <= grid_box.high[d] && span[k + d] >= grid_box.low[d]);
                if meets {
                    plan.cubes_visited += 1;
                    plan.visits.extend(block.readable(index, range).map(|(run, _)| Visit { run, within: None }));
                }
                if meets && !block.cutoffs[index].admits(range.last) {
                    index += 1;
                    continue;
                }
                past = geometry.end_of(block.cubes[index]);
                // Subtrees are mostly small: look nearby before a search.
                let later = &block.cubes[index + 1..];
                let near = later.iter().take(8).position(|cube| cube.to_u128() >= past);
                index += 1 + near.unwrap_or_else(|| later.partition_point(|cube| cube.to_u128() < past));
            }
            (at, index) = self.primaries.at_or_behind(at + 1, past);
        }
        Ok(())
    }
}

fn regions<'a>(starts: impl Iterator<Item = &'a &'a Start>) -> Arc<[CubeId]> {
    starts.map(|start| start.region).collect()
}
