//! Placement of a commit's rows, and the cutoffs that it requires.
//!
//! Rows move down from the root. A cube keeps the rows with priorities below its cutoff. The others go to a child
//! if enough rows go there to justify a run; otherwise they stay as overflow. Cutoffs need no reads, because the
//! counts of a cube's runs give the number of rows below a priority (`ramps`). The capacity is a target, and
//! correctness does not depend on it.

use crate::cube::{CubeId, Geometry, MortonKey};
use crate::priority::Threshold;
use crate::ramps::{Ramp, where_reached};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    pub rows: usize,
    /// A cube that is not split yet keeps up to this many rows.
    pub leaf_rows: usize,
    /// Fewer rows than this stay in their cube.
    pub worth_distributing: usize,
    /// Fewer rows than this for a child stay in its parent as overflow.
    pub worth_pushing: usize,
    /// The same for a child that already has rows.
    pub worth_adding: usize,
}

/// An inner cube with fewer runs than this keeps its overflow, as in a table that was built at once.
const MANY_RUNS: usize = 64;

impl Capacity {
    pub fn new(rows: u32) -> Capacity {
        let rows = rows as usize;
        let worth_pushing = (rows / 16).max(1);
        let worth_adding = worth_pushing;
        Capacity { rows, leaf_rows: rows + rows / 4, worth_distributing: rows / 2, worth_pushing, worth_adding }
    }

    /// The capacity of commits. Small commits would make too many small runs, so their rows stay higher in the tree
    /// until the optimizer moves them down in bulk.
    pub fn for_commits(rows: u32) -> Capacity {
        Capacity::adding(rows, 0.5)
    }

    /// The capacity of rewrites; `share` is the fraction of the capacity that justifies a run.
    pub fn adding(rows: u32, share: f64) -> Capacity {
        let usual = Capacity::new(rows);
        let worth_adding = ((rows as f64 * share) as usize).clamp(usual.worth_pushing, usual.worth_distributing.max(1));
        Capacity { worth_adding, ..usual }
    }
}

pub trait TreeState {
    fn cutoff(&self, cube: CubeId) -> Threshold;
    fn holds_rows(&self, cube: CubeId) -> bool;
    fn ramps(&self, cube: CubeId) -> Vec<Ramp>;
}

pub struct EmptyTree;

impl TreeState for EmptyTree {
    fn cutoff(&self, _: CubeId) -> Threshold {
        Threshold::ALL
    }

    fn holds_rows(&self, _: CubeId) -> bool {
        false
    }

    fn ramps(&self, _: CubeId) -> Vec<Ramp> {
        Vec::new()
    }
}

/// Rows for a cube, as ascending indices into the keys, and therefore in key order.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    pub cube: CubeId,
    /// Rows with priorities below the cutoff.
    pub within: Vec<u32>,
    /// Rows at or above the cutoff.
    pub overflow: Vec<u32>,
    pub cutoff: Threshold,
    /// Whether these are few rows for a leaf with rows, or overflow of a cube with many runs, as from small commits.
    pub is_one_of_many: bool,
}

/// Returns the cutoff of a cube that receives `arriving` rows with priorities spread over `[above, 1)`, where
/// `above` is its parent's cutoff. It is never above the recorded cutoff.
pub fn cutoff_for(
    geometry: &Geometry,
    capacity: &Capacity,
    known: &dyn TreeState,
    cube: CubeId,
    arriving: f64,
    above: Threshold,
) -> Threshold {
    let current = known.cutoff(cube);
    if cube.level() >= geometry.deepest() {
        return current;
    }
    let mut ramps = known.ramps(cube);
    ramps.push(Ramp { first: above.to_fraction(), last: 1.0, rows: arriving });
    let most = if current == Threshold::ALL { capacity.leaf_rows } else { capacity.rows };
    let high = current.to_fraction();
    if ramps.iter().map(|ramp| ramp.below(high)).sum::<f64>() <= most as f64 {
        return current;
    }
    Threshold::from_fraction(where_reached(ramps, capacity.rows as f64, high)).min(current)
}

/// Distributes rows over `top` and the cubes below; `above` is the cutoff of `top`'s parent. `keys` are sorted
/// and inside `top`, `priorities[i]` belongs to `keys[i]`, and `rows` are the ascending indices to place.
/// Reports the cutoff of every cube that rows passed through.
#[allow(clippy::too_many_arguments)]
pub fn place(
    geometry: &Geometry,
    capacity: &Capacity,
    known: &dyn TreeState,
    top: CubeId,
    above: Threshold,
    keys: &dyn Fn(u32) -> MortonKey,
    priorities: &[u64],
    rows: Vec<u32>,
    found: &mut Placed,
) {
    if rows.is_empty() {
        return;
    }
    let few = rows.len() <= capacity.worth_distributing;
    let cutoff = match few {
        true => known.cutoff(top),
        false => cutoff_for(geometry, capacity, known, top, rows.len() as f64, above),
    };
    let (within, beyond): (Vec<u32>, Vec<u32>) =
        rows.into_iter().partition(|row| cutoff.admits(priorities[*row as usize]));
    if few || cutoff == Threshold::ALL || top.level() >= geometry.deepest() {
        let is_one_of_many = few
            && match cutoff == Threshold::ALL {
                true => known.holds_rows(top),
                false => has_many_runs(known, top),
            };
        found.placements.push(Placement { cube: top, within, overflow: beyond, cutoff, is_one_of_many });
        return;
    }
    found.cutoffs.push((top, cutoff));
    let slot = found.placements.len();
    let overflow = Vec::new();
    found.placements.push(Placement { cube: top, within, overflow, cutoff, is_one_of_many: false });
    let (mut overflow, mut waits) = (Vec::new(), false);
    let mut rest = &beyond[..];
    for child in geometry.children(top) {
        let last = geometry.last_key(child);
        let (inside, later) = rest.split_at(rest.partition_point(|row| keys(*row) <= last));
        rest = later;
        let holds_rows = known.holds_rows(child);
        let worth = if holds_rows { capacity.worth_adding } else { capacity.worth_pushing };
        if inside.len() < worth {
            overflow.extend_from_slice(inside);
            waits |= holds_rows;
        } else {
            place(geometry, capacity, known, child, cutoff, keys, priorities, inside.to_vec(), found);
        }
    }
    let own = &mut found.placements[slot];
    (own.overflow, own.is_one_of_many) = (overflow, waits && has_many_runs(known, top));
    if own.within.is_empty() && own.overflow.is_empty() {
        found.placements.remove(slot);
    }
}

/// Whether the cube has so many runs that smaller zones would reduce the reads of a box.
fn has_many_runs(known: &dyn TreeState, cube: CubeId) -> bool {
    known.ramps(cube).len() >= MANY_RUNS
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placed {
    /// In depth-first order of cubes; none is empty.
    pub placements: Vec<Placement>,
    /// The cutoff of every cube whose children received rows, or could have received rows.
    pub cutoffs: Vec<(CubeId, Threshold)>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};
    use std::collections::HashMap;

    struct Cutoffs(HashMap<CubeId, Threshold>);
    impl TreeState for Cutoffs {
        fn cutoff(&self, cube: CubeId) -> Threshold {
            self.0.get(&cube).copied().unwrap_or(Threshold::ALL)
        }
        fn holds_rows(&self, _: CubeId) -> bool {
            true
        }
        fn ramps(&self, _: CubeId) -> Vec<Ramp> {
            vec![Ramp { first: 0.0, last: 1.0, rows: 30.0 }]
        }
    }

    fn commit(
        rng: &mut SmallRng,
        geometry: Geometry,
        known: &dyn TreeState,
        rows: usize,
    ) -> (Vec<MortonKey>, Vec<u64>, Placed) {
        let k = geometry.dimensions();
        let mut keys: Vec<MortonKey> = (0..rows)
            .map(|_| {
                let narrow = rng.random_range(0..geometry.bits());
                let point: Vec<u32> =
                    (0..k).map(|_| rng.random_range(0..=geometry.last_coordinate()) >> narrow).collect();
                geometry.key(&point)
            })
            .collect();
        keys.sort_unstable();
        let priorities: Vec<u64> = (0..rows).map(|_| rng.random()).collect();
        let mut placed = Placed::default();
        let all = (0..rows as u32).collect();
        let key = |row: u32| keys[row as usize];
        place(
            &geometry,
            &Capacity::new(32),
            known,
            CubeId::root(0),
            Threshold::NONE,
            &key,
            &priorities,
            all,
            &mut placed,
        );
        (keys, priorities, placed)
    }

    proptest! {
        #[test]
        fn placements_keep_the_invariants(seed in any::<u64>(), k in 1usize..=8, rows in 0usize..3000) {
            let geometry = Geometry::new(k).unwrap();
            let mut rng = SmallRng::seed_from_u64(seed);
            let mut known = Cutoffs(HashMap::new());
            for _ in 0..3 {
                let (keys, priorities, placed) = commit(&mut rng, geometry, &known, rows);
                for (cube, cutoff) in &placed.cutoffs {
                    prop_assert!(*cutoff <= known.cutoff(*cube), "cutoffs never rise");
                    prop_assert!(cube.level() < geometry.deepest());
                    known.0.insert(*cube, *cutoff);
                }
                let mut seen = vec![false; rows];
                for placement in &placed.placements {
                    prop_assert!(placement.within.len() + placement.overflow.len() > 0);
                    for row in placement.within.iter().chain(&placement.overflow) {
                        prop_assert!(!std::mem::replace(&mut seen[*row as usize], true), "placed twice");
                        prop_assert!(geometry.contains_key(placement.cube, keys[*row as usize]), "I1");
                        for ancestor in geometry.ancestors(placement.cube) {
                            prop_assert!(!known.cutoff(ancestor).admits(priorities[*row as usize]), "I2");
                            prop_assert!(placed.cutoffs.iter().any(|(cube, _)| *cube == ancestor), "I5");
                        }
                    }
                    prop_assert!(placement.within.is_sorted() && placement.overflow.is_sorted());
                }
                prop_assert!(seen.iter().all(|placed| *placed), "lost");
                prop_assert!(placed.placements.windows(2).all(|pair| pair[0].cube < pair[1].cube));
            }
        }
    }

    #[test]
    fn a_bulk_commit_fills_cubes_to_the_capacity() {
        let geometry = Geometry::new(2).unwrap();
        let mut rng = SmallRng::seed_from_u64(1);
        let (_, _, placed) = commit(&mut rng, geometry, &EmptyTree, 30_000);
        let root = &placed.placements[0];
        assert_eq!(root.cube, CubeId::root(0));
        assert!((15..60).contains(&root.within.len()), "{}", root.within.len());
        let shallow = placed.placements.iter().filter(|p| p.cube.level() < geometry.deepest());
        let largest = shallow.map(|p| p.within.len()).max().unwrap();
        assert!(largest < 100, "{largest}");
    }

    #[test]
    fn identical_points_end_in_the_deepest_cube() {
        let geometry = Geometry::new(3).unwrap();
        let priorities: Vec<u64> = (0..5000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        let mut placed = Placed::default();
        let rows = (0..5000).collect();
        let capacity = Capacity::new(16);
        place(
            &geometry,
            &capacity,
            &EmptyTree,
            CubeId::root(0),
            Threshold::NONE,
            &|_| 7 << 20,
            &priorities,
            rows,
            &mut placed,
        );
        assert_eq!(placed.placements.last().unwrap().cube.level(), geometry.deepest());
        assert!(placed.cutoffs.iter().all(|(cube, _)| cube.level() < geometry.deepest()));
    }
}
